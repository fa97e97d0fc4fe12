#!/usr/bin/env python3
"""Asks a running server's models of cells: sentences, translations, trees.

    examples/cells.py chain "the cat sat on the mat"       a chain of LSTM cells
    examples/cells.py seq2seq "the cat sat" "good morning" encoder and decoder, until <eos>
    examples/cells.py decoder "once upon a time"           attention; its cache is the state
    examples/cells.py tree "((the cat) (sat (on mat)))"    a binary tree: words and pairs

Each text is a request of its own; all are sent at once, and share batches cell by cell. Without a
text, one a line is read. The models' weights are generated (scripts/make_models.py --only cells), and
a word's number is made of its letters: answers mean nothing, but the same text always gets the same
one, whatever else is served.
"""
import argparse
import re
import sys
import zlib

FIRST_WORD = 3  # 0 is for padding, 1 for <go>, 2 for <eos>
EOS = 2
WORDS = {"chain": 1000, "seq2seq": 500, "decoder": 500, "tree": 1000}


def give_up(message, code=1):
    print("cells: " + message, file=sys.stderr)
    sys.exit(code)


try:
    import numpy as np
    import tritonclient.http as http
    from tritonclient.utils import InferenceServerException
except ImportError as error:
    give_up(
        "the Python package %s is missing: run this with .deps/venv/bin/python, or "
        "`pip install numpy 'tritonclient[http]'`" % error.name,
        2,
    )


def parse_arguments():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("kind", choices=sorted(WORDS))
    parser.add_argument("text", nargs="*", help="what to ask; none: read standard input")
    parser.add_argument("--url", default="127.0.0.1:8000", metavar="HOST:PORT")
    parser.add_argument("--model", metavar="NAME", help="another model than <kind>64")
    return parser.parse_args()


def number_of(word, words):
    return FIRST_WORD + zlib.crc32(word.lower().encode()) % (words - FIRST_WORD)


def sentence_inputs(text, words):
    tokens = [number_of(word, words) for word in text.split()]
    return {"tokens": tokens}


class Tree:
    """Nodes as three arrays: a leaf has a token and no children (-1), a pair has no token (0)."""

    def __init__(self, text, words):
        self.words = words
        self.arrays = {"tokens": [], "left": [], "right": []}
        self.parts = re.findall(r"[()]|[^\s()]+", text)
        self.read()
        if self.parts:
            raise ValueError("there is something behind the tree: %s" % " ".join(self.parts))

    def add(self, token, left, right):
        for name, value in (("tokens", token), ("left", left), ("right", right)):
            self.arrays[name].append(value)
        return len(self.arrays["tokens"]) - 1

    def next(self, wanted):
        if not self.parts:
            raise ValueError("the tree ends where %s should be" % wanted)
        return self.parts.pop(0)

    def read(self):
        """A word, or two trees in parentheses; returns the node's number."""
        part = self.next("a word or (")
        if part != "(":
            return self.add(number_of(part, self.words), -1, -1)
        node = self.add(0, self.read(), self.read())
        if self.next(")") != ")":
            raise ValueError("a pair has two parts, and no more")
        return node


def inputs_of(kind, text):
    arrays = Tree(text, WORDS[kind]).arrays if kind == "tree" else sentence_inputs(text, WORDS[kind])
    inputs = []
    for name, values in arrays.items():
        inputs.append(http.InferInput(name, [1, len(values)], "INT64"))
        inputs[-1].set_data_from_numpy(np.array([values], np.int64))
    return inputs


def words_text(answer):
    words = answer.as_numpy("word")[0]
    ended = "" if words[-1] == EOS else "  (the longest that it may be)"
    return "%d words: %s%s" % (
        len(words),
        " ".join("<eos>" if word == EOS else str(word) for word in words),
        ended,
    )


def vector_text(answer, name):
    vector = answer.as_numpy(name)[0]
    shown = " ".join("%.4f" % value for value in vector[:6])
    return "a vector of %d: %s ..." % (len(vector), shown)


def answer_text(kind, answer):
    if kind in ("seq2seq", "decoder"):
        return words_text(answer)
    return vector_text(answer, "h" if kind == "tree" else "h_out")


def connect(url, model, concurrency):
    """A client; a clear word when there is no server, or no such model."""
    host, _, port = url.rpartition(":")
    if not host or not port.isdigit() or int(port) > 65535:
        give_up("--url %s: HOST:PORT is needed, as 127.0.0.1:8000" % url, 2)
    try:
        client = http.InferenceServerClient(url, concurrency=concurrency, network_timeout=60)
        ready = client.is_model_ready(model)
    except Exception as error:  # refused, unknown host, timeout: each its own exception
        give_up("no server answers at %s (%s)" % (url, error))
    if not ready:
        give_up("the server at %s does not serve the model %s" % (url, model))
    return client


def main():
    arguments = parse_arguments()
    model = arguments.model or arguments.kind + "64"
    texts = arguments.text or [line.strip() for line in sys.stdin if line.strip()]
    if not texts:
        give_up("there is no text to ask about", 2)
    try:
        inputs = [inputs_of(arguments.kind, text) for text in texts]
    except ValueError as error:
        give_up(str(error), 2)
    client = connect(arguments.url, model, min(len(texts), 64))
    failed = False
    try:
        asked = [client.async_infer(model, one) for one in inputs]
        for text, request in zip(texts, asked):
            try:
                print("%s\n  %s" % (text, answer_text(arguments.kind, request.get_result())))
            except InferenceServerException as error:
                failed = True
                print("%s\n  refused: %s" % (text, error.message()))
    except OSError as error:
        give_up("the connection to %s broke: %s" % (arguments.url, error))
    return 1 if failed else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
