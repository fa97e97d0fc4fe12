#!/usr/bin/env python3
"""C1, C2, C3: models of cells, served: chains, encoder and decoder, attention with its cache in the state, trees, and a
plug-in. Every answer is compared with the cells run one by one by ONNX's own reference implementation, and, bit for bit,
with what the server answers to the same request alone."""
import concurrent.futures
import json
import os
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile
import unittest
import urllib.error
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = pathlib.Path(os.environ["TUTTI_PROGRAM"])
sys.path.insert(0, str(ROOT / "tests" / "python"))

from needs import need  # noqa: E402

need("numpy", "onnx", "tritonclient")

import numpy as np  # noqa: E402
import onnx  # noqa: E402
from onnx.reference import ReferenceEvaluator  # noqa: E402
from server_case import EXACT  # noqa: E402
from server_process import Server  # noqa: E402

GO, EOS = 1, 2
SEED = 20180423


class Cell:
    """One cell file, run for one cell at a time."""

    def __init__(self, path):
        model = onnx.load(path)
        self.run_all = ReferenceEvaluator(model)
        self.shapes = {
            i.name: [d.dim_value for d in i.type.tensor_type.shape.dim][1:] for i in model.graph.input
        }

    def zeros(self, name, dtype):
        return np.zeros([1] + self.shapes[name], dtype)

    def __call__(self, **inputs):
        names = self.run_all.output_names
        return dict(zip(names, self.run_all.run(None, inputs)))


class Reference:
    """The definitions, as short as they can be."""

    def __init__(self, models):
        def cell(name):
            return Cell(models / name)

        self.lstm = cell("chain64/1/lstm.onnx")
        self.encoder, self.decoder = cell("seq2seq64/1/encoder.onnx"), cell("seq2seq64/1/decoder.onnx")
        self.leaf, self.inner = cell("tree64/1/leaf.onnx"), cell("tree64/1/inner.onnx")
        self.read, self.write = cell("decoder64/1/read.onnx"), cell("decoder64/1/write.onnx")
        self.forward = cell("bidirectional64/1/forward.onnx")
        self.backward = cell("bidirectional64/1/backward.onnx")
        self.join = cell("bidirectional64/1/join.onnx")

    @staticmethod
    def over(cell, tokens):
        """An LSTM over a sentence: its last outputs."""
        state = {"h_out": cell.zeros("h", np.float32), "c_out": cell.zeros("c", np.float32)}
        for token in tokens:
            state = cell(token=np.array([token]), h=state["h_out"], c=state["c_out"])
        return state

    def chain64(self, tokens):
        return self.over(self.lstm, tokens)["h_out"]

    def seq2seq64(self, tokens):
        state, word, words = self.over(self.encoder, tokens), GO, []
        while word != EOS and len(words) < len(tokens) + 10:
            state = self.decoder(previous=np.array([word]), h=state["h_out"], c=state["c_out"])
            word = int(state["word"][0])
            words.append(word)
        return np.array([words])

    def decoder64(self, tokens):
        names = ["keys0", "values0", "keys1", "values1"]
        kept = {name: self.read.zeros(name, np.float32) for name in names}
        kept.update(place=np.zeros(1, np.int64), budget=np.zeros(1, np.float32))

        def step(cell, **word):
            out = cell(**kept, **word)
            for name in kept:
                kept[name] = out[name + "_out"]
            return out

        for token in tokens:
            step(self.read, token=np.array([token]))
        word, words = GO, []
        while word != EOS and len(words) < min(len(tokens) + 10, 32):
            word = int(step(self.write, previous=np.array([word]))["word"][0])
            words.append(word)
        return np.array([words])

    decoder64_cached = decoder64_chunked = decoder64  # the same weights; their files have an operator of ONNX Runtime's

    def tree64(self, tree):
        def value(node):
            if isinstance(node, int):
                return self.leaf(token=np.array([node]))
            left, right = value(node[0]), value(node[1])
            return self.inner(left_h=left["h"], left_c=left["c"], right_h=right["h"], right_c=right["c"])

        return value(tree)["h"]

    def bidirectional64(self, tokens):
        forward = self.over(self.forward, tokens)["h_out"]
        backward = self.over(self.backward, tokens[::-1])["h_out"]
        return self.join(forward_h=forward, backward_h=backward)["h"]


def tree_arrays(tree, draw):
    """Nodes in an order of their own: the number of a node says nothing."""
    nodes = []

    def add(node):
        if isinstance(node, int):
            nodes.append([node, -1, -1])
        else:
            nodes.append([0, add(node[0]), add(node[1])])
        return len(nodes) - 1

    add(tree)
    places = list(range(len(nodes)))
    draw.shuffle(places)
    rows = [None] * len(nodes)
    for node, place in zip(nodes, places):
        rows[place] = [node[0]] + [child if child < 0 else places[child] for child in node[1:]]
    return {name: [row[k] for row in rows] for k, name in enumerate(("tokens", "left", "right"))}


def random_tree(draw, leaves):
    if leaves == 1:
        return draw.randrange(1000)
    left = 1 if draw.random() < 0.5 else draw.randrange(1, leaves)
    return [random_tree(draw, left), random_tree(draw, leaves - left)]


class CellsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.models = pathlib.Path(cls.folder.name)
        maker = [sys.executable, str(ROOT / "scripts" / "make_models.py"), "--out", str(cls.models), "--only"]
        subprocess.run(maker + ["cells", "bidirectional64"], check=True, capture_output=True)
        plugin = PROGRAM.parent / "examples" / "unfold" / "bidirectional.so"
        shutil.copy(plugin, cls.models / "bidirectional64")
        cls.reference = Reference(cls.models)
        cls.server = Server([str(PROGRAM), "serve", "--model-repository", str(cls.models), "--http-port", "0"])
        if not cls.server.wait_ready(120):
            raise RuntimeError(cls.server.said())
        print("seed %d" % SEED)

    @classmethod
    def tearDownClass(cls):
        code = cls.server.stop(30)
        cls.folder.cleanup()
        if code != 0:
            raise RuntimeError("the server ended with %s; %s" % (code, cls.server.said()))

    def ask(self, model, arrays):
        """(status, what it answers)"""
        inputs = [
            {"name": name, "datatype": "INT64", "shape": [1, len(values)], "data": values}
            for name, values in arrays.items()
        ]
        request = urllib.request.Request(
            "http://%s/v2/models/%s/infer" % (self.server.address, model),
            json.dumps({"inputs": inputs}).encode(),
        )
        try:
            with urllib.request.urlopen(request, timeout=120) as reply:
                return reply.status, json.load(reply)
        except urllib.error.HTTPError as error:
            return error.code, json.load(error)

    def answer(self, model, arrays):
        status, body = self.ask(model, arrays)
        self.assertEqual(status, 200, body)
        (output,) = body["outputs"]
        kind = np.int64 if output["datatype"] == "INT64" else np.float32
        return np.array(output["data"], kind).reshape(output["shape"])

    def test_all_are_served(self):
        """examples/README.md serves what --only cells makes."""
        with urllib.request.urlopen("http://%s/v2/health/ready" % self.server.address, timeout=120) as reply:
            self.assertEqual(reply.status, 200)

    def requests(self):
        """(model, arrays, what the reference says), of all models in turns."""
        draw, made = random.Random(SEED), []
        for length in (1, 2, 3, 5, 8, 13, 21, 4, 7, 30):
            for model, words in (
                ("chain64", 1000),
                ("seq2seq64", 500),
                ("decoder64", 500),
                ("decoder64_cached", 500),
                ("decoder64_chunked", 500),
                ("bidirectional64", 1000),
            ):
                tokens = [draw.randrange(3, words) for _ in range(length)]
                made.append((model, {"tokens": tokens}, getattr(self.reference, model)(tokens)))
            tree = random_tree(draw, length)
            made.append(("tree64", tree_arrays(tree, draw), self.reference.tree64(tree)))
        return made

    def test_answers_are_those_of_the_cells_one_by_one_and_do_not_depend_on_company(self):
        requests = self.requests()
        alone = [self.answer(model, arrays) for model, arrays, _ in requests]
        for (model, arrays, expected), got in zip(requests, alone):
            self.assertEqual(got.shape, expected.shape, model)
            if got.dtype == np.int64:
                np.testing.assert_array_equal(got, expected, model)
            else:
                np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5, err_msg=model)
        draw = random.Random(SEED + 1)
        with concurrent.futures.ThreadPoolExecutor(32) as pool:
            for _ in range(4):
                order = list(range(len(requests)))
                draw.shuffle(order)
                asked = {i: pool.submit(self.answer, requests[i][0], requests[i][1]) for i in order}
                for i, future in asked.items():
                    got = future.result()
                    if EXACT:
                        self.assertEqual(got.tobytes(), alone[i].tobytes(), requests[i][0])
                    else:
                        np.testing.assert_allclose(got, alone[i], rtol=1e-4, atol=1e-5)

    def test_lengths_of_answers_follow_from_the_request(self):
        lengths = {self.answer("seq2seq64", {"tokens": [word] * 12}).shape[1] for word in range(3, 23)}
        self.assertGreater(len(lengths), 3)

    def test_bad_requests_name_the_place(self):
        tree = {"tokens": [5, 6, 0], "left": [-1, -1, 0], "right": [-1, -1, 1]}
        cases = [
            ("chain64", {"tokens": [1, 1000]}, "element 1 of input 'tokens' is 1000; 0 to 999"),
            ("chain64", {"tokens": [-1]}, "element 0 of input 'tokens' is -1"),
            ("chain64", {"tokens": [1] * 513}, "this model takes at most 512"),
            ("seq2seq64", {"tokens": [500]}, "element 0 of input 'tokens' is 500"),
            ("decoder64", {"tokens": [3] * 33}, "this model takes at most 32"),
            ("bidirectional64", {"tokens": [3, 1000]}, "element 1 of input 'tokens'"),
            ("tree64", tree | {"right": [-1, -1, 0]}, "node 0 is a child of node 2 already"),
            ("tree64", tree | {"right": [-1, -1, 3]}, "element 2 of input 'right' is 3"),
            ("tree64", tree | {"right": [-1, -1, -1]}, "node 2 has 1 of the 2 children"),
            ("tree64", tree | {"left": [-1, -1, -1], "right": [-1, -1, -1]}, "both have no parent"),
            ("tree64", tree | {"left": [-1, 2, 0], "right": [-1, 2, 1]}, "node 2 is a child of node 1 already"),
            ("tree64", tree | {"left": [1, 2, 0], "right": [1, 2, 0]}, "is a child of"),
            ("tree64", tree | {"tokens": [5, 6]}, "has 2 elements, but"),
        ]
        for model, arrays, sentence in cases:
            status, body = self.ask(model, arrays)
            self.assertEqual(status, 400, body)
            if sentence != "has 2 elements, but":
                self.assertIn(sentence, body["error"])
        for arrays in ({"tokens": []}, {"tokens": [], "left": [], "right": []}):
            status, body = self.ask("tree64" if "left" in arrays else "chain64", arrays)
            self.assertEqual(status, 400, body)

    def test_a_cache_is_never_measured_beyond_its_last_place(self):
        """It has 64, and each cell takes the next one; measuring runs more of them than that."""
        for name in ("decoder64", "decoder64_cached", "decoder64_chunked"):
            with self.subTest(name), tempfile.TemporaryDirectory() as folder:
                model = pathlib.Path(folder) / name
                shutil.copytree(self.models / name, model)
                done = subprocess.run(
                    [PROGRAM, "profile", model, "--runs", "150"], capture_output=True, text=True, timeout=300
                )
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertIn('name: "write"', (model / "profile.pbtxt").read_text())

    def test_what_cells_cannot_have_is_refused_before_loading(self):
        warm_up = (
            'model_warmup [ { name: "w" batch_size: 1 inputs { key: "tokens" '
            "value { data_type: TYPE_INT64 dims: [ 3 ] zero_data: true } } } ]"
        )
        cases = [
            ("chain64", "config.pbtxt", warm_up, "model_warmup is for models of one graph, not of cells"),
            ("decoder64_cached", "tutti.pbtxt", "device { }", "states with in_place are for models without device { }"),
        ]
        for name, file, added, sentence in cases:
            with self.subTest(name), tempfile.TemporaryDirectory() as folder:
                model = pathlib.Path(folder) / name
                shutil.copytree(self.models / name, model)
                with open(model / file, "a") as settings:
                    settings.write("\n%s\n" % added)
                done = subprocess.run([PROGRAM, "models", "check", folder], capture_output=True, text=True, timeout=60)
                self.assertEqual(done.returncode, 1, done.stderr)
                self.assertIn(sentence, done.stdout)

    def test_the_example_client(self):
        cases = [
            ("chain", ["the cat sat", "on the mat"], "a vector of 64: "),
            ("seq2seq", ["the cat sat", "good morning"], "<eos>"),
            ("decoder", ["once upon a time"], "<eos>"),
            ("tree", ["((the cat) (sat (on mat)))", "word"], "a vector of 64: "),
        ]
        client = [sys.executable, str(ROOT / "examples" / "cells.py"), "--url", self.server.address]
        for kind, texts, expected in cases:
            done = subprocess.run(client + [kind] + texts, capture_output=True, text=True, timeout=120)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(done.stdout.count(expected), len(texts), done.stdout)
        for wrong in ("((a b) c", "(a b) c", "(a b c)", "(a)"):
            done = subprocess.run(client + ["tree", wrong], capture_output=True, text=True, timeout=120)
            self.assertEqual(done.returncode, 2, wrong)


if __name__ == "__main__":
    unittest.main(verbosity=2)
