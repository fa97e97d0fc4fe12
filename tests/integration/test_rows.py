#!/usr/bin/env python3
"""Models whose dimension 0 is symbolic but no batch: no answer may depend on other requests."""
import os
import pathlib
import subprocess
import sys
import threading
import unittest

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "python"))

from needs import need  # noqa: E402

need("numpy", "onnx", "tritonclient")

import numpy as np  # noqa: E402
import tritonclient.http as triton  # noqa: E402
from control_case import PROGRAM, ControlCase, Repository  # noqa: E402
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

CLIENTS, EACH = 8, 25
INPUTS, HIDDEN = 8, 6


def model(nodes, inputs, outputs, weights=()):
    graph = helper.make_graph(nodes, "g", [inputs], [outputs], list(weights))
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    made.ir_version = 8
    return made.SerializeToString()


def value(name, *shape):
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)


def lstm():
    """PyTorch's default layout: [sequence, batch, features], all states out."""
    random = np.random.default_rng(7)
    sizes = {"w": (1, 4 * HIDDEN, INPUTS), "r": (1, 4 * HIDDEN, HIDDEN), "b": (1, 8 * HIDDEN)}
    weights = [
        numpy_helper.from_array(random.standard_normal(s).astype(np.float32), n)
        for n, s in sizes.items()
    ]
    weights.append(numpy_helper.from_array(np.array([1], np.int64), "axes"))
    nodes = [
        helper.make_node("LSTM", ["x", "w", "r", "b"], ["all", "", ""], hidden_size=HIDDEN),
        helper.make_node("Squeeze", ["all", "axes"], ["y"]),
    ]
    return model(
        nodes, value("x", "seq", "batch", INPUTS), value("y", "seq", "batch", HIDDEN), weights
    )


def lstm_last():
    """The last state only: the output has no row per row of the input."""
    nodes = [helper.make_node("Transpose", ["x"], ["t"], perm=[1, 0, 2])]
    nodes.append(helper.make_node("ReduceSum", ["t", "one"], ["y"], keepdims=0))
    weights = [numpy_helper.from_array(np.array([1], np.int64), "one")]
    return model(nodes, value("x", "seq", "batch", INPUTS), value("y", "n", INPUTS), weights)


def softmax(axis):
    nodes = [helper.make_node("Softmax", ["x"], ["y"], axis=axis)]
    return model(nodes, value("x", "n", INPUTS), value("y", "n", INPUTS))


def random_rows():
    nodes = [
        helper.make_node("RandomNormalLike", ["x"], ["noise"]),
        helper.make_node("Add", ["x", "noise"], ["y"]),
    ]
    return model(nodes, value("x", "n", INPUTS), value("y", "n", INPUTS))


class Rows(ControlCase):
    def fill(self):
        self.repository.put("lstm", {1: lstm()})
        self.repository.put("lstm_last", {1: lstm_last()})
        self.repository.put("softmax0", {1: softmax(0)})
        self.repository.put("softmax1", {1: softmax(1)})
        self.repository.put("noise", {1: random_rows()})
        self.repository.put("noise_written", {1: random_rows()}, "max_batch_size: 4")
        self.repository.put("refused", {1: softmax(0)}, "max_batch_size: 8")
        self.repository.put("alone", {1: softmax(0)}, "max_batch_size: 0")
        self.repository.put("one", {1: softmax(0)}, "max_batch_size: 1")

    def said_of(self, name):
        named = (" model %s " % name, " model %s: " % name)
        return [line for line in self.server.lines if any(part in line for part in named)]

    def ask_for(self, client, name, rows):
        x = triton.InferInput("x", list(rows.shape), "FP32")
        x.set_data_from_numpy(rows)
        return client.infer(name, [x]).as_numpy("y")

    def answers_alone_and_together(self, name, shape):
        """The answers of one client, then of all at once: (expected, wrong ones)."""
        random = np.random.default_rng(3)
        rows = [random.standard_normal(shape).astype(np.float32) for _ in range(CLIENTS)]
        expected = [self.ask_for(self.client, name, row) for row in rows]
        wrong = []

        def ask(index):
            client = triton.InferenceServerClient(self.server.address, network_timeout=60)
            for _ in range(EACH):
                if not np.allclose(self.ask_for(client, name, rows[index]), expected[index]):
                    wrong.append(index)
            client.close()

        threads = [threading.Thread(target=ask, args=(i,)) for i in range(CLIENTS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return rows, expected, wrong

    def test_answers_do_not_depend_on_others(self):
        for name, shape in (
            ("lstm", (5, 1, INPUTS)),
            ("lstm_last", (5, 1, INPUTS)),
            ("softmax0", (1, INPUTS)),
            ("softmax0", (3, INPUTS)),
            ("softmax1", (1, INPUTS)),
            ("alone", (2, INPUTS)),
            ("one", (1, INPUTS)),
        ):
            with self.subTest(model=name, shape=shape):
                self.assertEqual(self.answers_alone_and_together(name, shape)[2], [])

    def test_an_answer_is_that_of_the_whole_request(self):
        rows, expected, _ = self.answers_alone_and_together("softmax0", (3, INPUTS))
        powers = np.exp(rows[0] - rows[0].max(axis=0))
        np.testing.assert_allclose(expected[0], powers / powers.sum(axis=0), rtol=1e-5)

    def test_what_is_said(self):
        for name in ("lstm", "lstm_last", "softmax0", "noise"):
            said = "".join(self.said_of(name))
            self.assertIn("is served without batching: ", said)
            self.assertIn("max_batch_size", said)
        self.assertIn("in output 'y' a row is not what it is alone", "".join(self.said_of("lstm")))
        self.assertIn("differs between two runs of one row", "".join(self.said_of("noise")))
        self.assertIn("could not be checked", "".join(self.said_of("noise_written")))
        self.assertNotIn("without batching", "".join(self.said_of("noise_written")))
        for name in ("softmax1", "alone", "one"):
            self.assertFalse([line for line in self.said_of(name) if line.startswith("W")])

    def test_what_clients_see(self):
        config = self.client.get_model_config
        self.assertEqual(config("lstm").get("max_batch_size", 0), 0)
        self.assertNotIn("dynamic_batching", config("lstm"))
        self.assertEqual(config("softmax1")["max_batch_size"], 64)
        state, reason = self.index()["refused"]["1"]
        self.assertEqual(state, "UNAVAILABLE")
        self.assertIn("its rows depend on each other: in output 'y'", reason)
        self.assertIn("write max_batch_size: 0", reason)


class Profile(unittest.TestCase):
    def test_measured_without_batching(self):
        repository = Repository()
        self.addCleanup(repository.close)
        repository.put("softmax0", {1: softmax(0)})
        repository.put("refused", {1: softmax(0)}, "max_batch_size: 8")

        def profile(name):
            command = [PROGRAM, "profile", str(repository.path / name), "--runs", "1"]
            return subprocess.run(command, capture_output=True, text=True, timeout=120)

        done = profile("softmax0")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("softmax0 is measured without batching: its rows depend", done.stderr)
        written = (repository.path / "softmax0" / "profile.pbtxt").read_text()
        self.assertIn("batch: 1", written)
        self.assertNotIn("batch: 2", written)
        done = profile("refused")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("its rows depend on each other", done.stderr)
        self.assertFalse((repository.path / "refused" / "profile.pbtxt").exists())


if __name__ == "__main__":
    os.environ.setdefault("PYTHONUNBUFFERED", "1")
    unittest.main()
