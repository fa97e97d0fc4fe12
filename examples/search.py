#!/usr/bin/env python3
"""Searches a set of sentences by meaning, with the embeddings of a running server.

    examples/search.py "How do I reset my password?"
    examples/search.py                          reads one query a line
    examples/search.py --file MY.txt QUERY      sentences of your own, one a line

The sentences are embedded by the server's model minilm; those nearest to the query are printed with
the cosine of the angle between both embeddings (1: the same meaning, about 0: unrelated).
"""
import argparse
import pathlib
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
MODEL = "minilm"
LONGEST = 256  # tokens; the model was trained with no more
CALL_IS_WORTH = 7  # padded tokens that cost as much as one more call


def give_up(message, code=1):
    print("search: " + message, file=sys.stderr)
    sys.exit(code)


try:
    import numpy as np
    import tritonclient.http as http
    from tokenizers import Tokenizer
    from tritonclient.utils import InferenceServerException
except ImportError as error:
    give_up(
        "the Python package %s is missing: run this with .deps/venv/bin/python, which "
        "`make serve` prepares, or `pip install numpy 'tritonclient[http]' tokenizers`"
        % error.name,
        2,
    )


def parse_arguments():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("query", nargs="*", help="what to look for; none: read standard input")
    parser.add_argument("--url", default="127.0.0.1:8000", metavar="HOST:PORT")
    parser.add_argument(
        "--file", default=str(ROOT / "examples" / "sentences.txt"), metavar="FILE"
    )
    parser.add_argument("--top", type=int, default=5, metavar="N", help="how many to print")
    parser.add_argument("--tokenizer", metavar="FILE", help="the model's tokenizer.json")
    return parser.parse_args()


def load_tokenizer(path):
    usual = [
        ROOT / ".deps" / "models" / "minilm-tokenizer.json",
        ROOT / "demo" / "models" / MODEL / "tokenizer.json",
    ]
    found = next((p for p in ([pathlib.Path(path)] if path else usual) if p.is_file()), None)
    if found is None:
        give_up(
            "there is no tokenizer at %s; scripts/make_models.py puts one beside the model, "
            "and --tokenizer names it" % (path or " or ".join(str(p) for p in usual)),
            2,
        )
    try:
        tokenizer = Tokenizer.from_file(str(found))
    except Exception as error:  # the package raises nothing more precise
        give_up("%s is no tokenizer file: %s" % (found, error), 2)
    # The file asks for every text to be padded, and cut, to 128 tokens.
    tokenizer.no_padding()
    tokenizer.enable_truncation(LONGEST)
    return tokenizer


def read_sentences(path):
    try:
        text = pathlib.Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        give_up("cannot read the sentences: %s" % error, 2)
    lines = [line.strip() for line in text.splitlines()]
    sentences = [line for line in lines if line and not line.startswith("#")]
    if not sentences:
        give_up("%s holds no sentence" % path, 2)
    return sentences


def batches_by_length(rows, limit):
    """Indices of rows, shortest first; a batch is closed where its padding would cost more than
    the call that it saves."""
    batches = []
    padding = 0
    for index in sorted(range(len(rows)), key=lambda i: len(rows[i])):
        if batches and len(batches[-1]) < limit:
            batch = batches[-1]
            growth = len(batch) * (len(rows[index]) - len(rows[batch[-1]]))
            if padding + growth <= CALL_IS_WORTH:
                batch.append(index)
                padding += growth
                continue
        batches.append([index])
        padding = 0
    return batches


class Encoder:
    def __init__(self, client, tokenizer, limit):
        self.client = client
        self.tokenizer = tokenizer
        self.limit = limit

    def _infer(self, rows):
        length = max(len(row) for row in rows)
        ids = np.zeros((len(rows), length), np.int64)
        mask = np.zeros_like(ids)
        for i, row in enumerate(rows):
            ids[i, : len(row)] = row
            mask[i, : len(row)] = 1
        inputs = []
        for name, array in (("input_ids", ids), ("attention_mask", mask)):
            inputs.append(http.InferInput(name, list(array.shape), "INT64"))
            inputs[-1].set_data_from_numpy(array)
        return self.client.infer(MODEL, inputs).as_numpy("sentence_embedding")

    def embed(self, texts):
        """One row of length 1 per text, and the number of calls it took."""
        rows = [encoding.ids for encoding in self.tokenizer.encode_batch(texts)]
        batches = batches_by_length(rows, self.limit)
        embeddings = np.empty((len(rows), 384), np.float32)
        for batch in batches:
            embeddings[batch] = self._infer([rows[i] for i in batch])
        return embeddings, len(batches)


def connect(url):
    """A client, and the model's largest batch; a clear word when either is not there."""
    host, _, port = url.rpartition(":")
    if not host or not port.isdigit() or int(port) > 65535:
        give_up("--url %s: HOST:PORT is needed, as 127.0.0.1:8000" % url, 2)
    try:
        client = http.InferenceServerClient(url, network_timeout=60)
        live = client.is_server_live()
    except Exception as error:  # refused, unknown host, timeout: each its own exception
        give_up("no server answers at %s (%s); `make serve` starts one" % (url, error))
    if not live:
        give_up("what answers at %s is no live inference server" % url)
    if not client.is_model_ready(MODEL):
        reason = "it is not in the repository (scripts/make_models.py says why when it makes it)"
        for entry in client.get_model_repository_index():
            if entry["name"] == MODEL:
                reason = entry.get("reason") or "its state is %s" % entry.get("state", "unknown")
        give_up("the server at %s does not serve the model %s: %s" % (url, MODEL, reason))
    return client, max(1, client.get_model_config(MODEL)["max_batch_size"])


def answer(encoder, query, sentences, embeddings, top):
    vector = encoder.embed([query])[0][0]
    scores = embeddings @ vector
    for index in np.argsort(-scores, kind="stable")[:top]:
        print("%6.3f  %s" % (scores[index], sentences[index]), flush=True)


def main():
    arguments = parse_arguments()
    if arguments.top < 1:
        give_up("--top %d: at least 1 is needed" % arguments.top, 2)
    sentences = read_sentences(arguments.file)
    tokenizer = load_tokenizer(arguments.tokenizer)
    client, limit = connect(arguments.url)
    encoder = Encoder(client, tokenizer, limit)
    try:
        began = time.monotonic()
        embeddings, calls = encoder.embed(sentences)
        print(
            "search: %d sentences embedded in %d calls, %.0f ms"
            % (len(sentences), calls, (time.monotonic() - began) * 1e3),
            file=sys.stderr,
        )
        if arguments.query:
            answer(encoder, " ".join(arguments.query), sentences, embeddings, arguments.top)
            return
        if sys.stdin.isatty():
            print("search: a query a line; end with Ctrl-D", file=sys.stderr)
        for line in sys.stdin:
            if line.strip():
                answer(encoder, line.strip(), sentences, embeddings, arguments.top)
                print(flush=True)
    except InferenceServerException as error:
        give_up("the server refused: %s" % error.message())
    except OSError as error:
        give_up("the connection to %s broke: %s" % (arguments.url, error))


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
