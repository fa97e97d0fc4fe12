#!/usr/bin/env python3
"""Model files that ask for more memory than there is: they are refused before they are loaded, with the node's name, by the
server and by `tutti models check`; other models serve on."""
import os
import pathlib
import signal
import subprocess
import sys
import threading
import unittest

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "python"))

from needs import need  # noqa: E402

need("numpy", "onnx", "tritonclient")

from control_case import ControlCase, slow  # noqa: E402
from onnx import TensorProto, helper  # noqa: E402
from tritonclient.utils import InferenceServerException  # noqa: E402

PROGRAM = os.environ["TUTTI_PROGRAM"]
MIB = 1 << 20


def model_of(nodes, initializers, name="big"):
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 4])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", 4])
    graph = helper.make_graph(nodes, name, [x], [y], initializers)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 8
    return model.SerializeToString()


def summed(kind, shape, **attributes):
    """y = x + the sum of what a node of this kind makes of a constant shape."""
    inputs = ["one", "shape"] if kind == "Expand" else [] if kind == "RandomNormal" else ["shape"]
    if kind == "RandomNormal":
        attributes["shape"] = shape
    nodes = [
        helper.make_node(kind, inputs, ["big"], name="filler", **attributes),
        helper.make_node("ReduceSum", ["big"], ["sum"], keepdims=0),
        helper.make_node("Add", ["x", "sum"], ["y"]),
    ]
    constants = [
        helper.make_tensor("shape", TensorProto.INT64, [len(shape)], shape),
        helper.make_tensor("one", TensorProto.FLOAT, [1], [1.0]),
    ]
    return model_of(nodes, constants)


class Estimates(ControlCase):
    flags = ["--model-control-mode", "explicit", "--load-model", "one"]
    flags += ["--max-model-bytes", str(24 * MIB), "--max-models-bytes", str(36 * MIB), "--isolate-loads", "false"]

    def fill(self):
        self.repository.put("one", {1: 1.0})
        for kind in ("ConstantOfShape", "Expand", "RandomNormal"):
            self.repository.put(kind, {1: summed(kind, [1 << 20, 1 << 11])})
        weights = helper.make_tensor("w", TensorProto.FLOAT, [8 * MIB], bytes(32 * MIB), True)
        add = [helper.make_node("Add", ["x", "first"], ["y"]), helper.make_node("ReduceSum", ["w"], ["first"])]
        self.repository.put("weights", {1: model_of(add[::-1], [weights])})
        self.repository.put("small", {1: summed("ConstantOfShape", [4, 4])})
        for name in ("half", "other"):
            self.repository.put(name, {1: summed("ConstantOfShape", [5 * MIB])})

    def test_refused_with_the_node(self):
        for kind in ("ConstantOfShape", "Expand", "RandomNormal"):
            status, answer = self.ask("POST", "/v2/repository/models/%s/load" % kind)
            self.assertEqual(status, 400)
            self.assertIn("%s 'filler' (node 0) takes %d bytes" % (kind, (1 if kind == "Expand" else 4) << 31),
                          answer["error"])  # fmt: skip
            self.assertIn("the limit of %d for a model (--max-model-bytes)" % (24 * MIB), answer["error"])
            self.assertIn("filler", self.index()[kind]["1"][1])
        status, answer = self.ask("POST", "/v2/repository/models/weights/load")
        self.assertEqual(status, 400)
        self.assertIn("the weights take %d bytes" % (32 * MIB), answer["error"])
        self.assertEqual(self.infer("one"), (1.0, "1"))
        self.client.load_model("small")
        self.assertEqual(self.infer("small")[0], 0.0)

    def test_all_together(self):
        self.client.load_model("half")
        status, answer = self.ask("POST", "/v2/repository/models/other/load")
        self.assertEqual(status, 400)
        self.assertIn("together more than the limit of %d (--max-models-bytes)" % (36 * MIB), answer["error"])
        self.client.unload_model("half")
        self.wait_until(lambda: self.index()["half"]["1"][1] == "unloaded", "it stays")
        self.client.load_model("other")
        self.assertEqual(self.infer("other")[0], 0.0)

    def test_check(self):
        command = [PROGRAM, "models", "check", str(self.repository.path), "--max-model-bytes", str(24 * MIB)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(done.returncode, 1)
        for kind in ("ConstantOfShape", "Expand", "RandomNormal"):
            self.assertIn("%s 'filler' (node 0) takes" % kind, done.stdout)
        self.assertIn("the weights take", done.stdout)


def computed(rows):
    """As `summed`, but the shape is computed: no estimate sees it, and loading folds it."""
    nodes = [
        helper.make_node("Mul", ["a", "b"], ["shape"]),
        helper.make_node("ConstantOfShape", ["shape"], ["big"]),
        helper.make_node("ReduceSum", ["big"], ["sum"], keepdims=0),
        helper.make_node("Add", ["x", "sum"], ["y"]),
    ]
    a = helper.make_tensor("a", TensorProto.INT64, [2], [rows, 1024])
    b = helper.make_tensor("b", TensorProto.INT64, [2], [1, 1])
    return model_of(nodes, [a, b])


class Bounds(ControlCase):
    """What no estimate sees fails when it runs, alone."""

    flags = ["--model-control-mode", "explicit", "--load-model", "one", "--load-model", "greedy"]
    flags += ["--isolate-loads", "false", "--max-models-bytes", str(512 * MIB)]

    def fill(self):
        self.repository.put("one", {1: 1.0})
        config = """max_batch_size: 0
          input [ { name: "x" data_type: TYPE_FP32 dims: [ -1, 4 ] } ]
          output [ { name: "y" data_type: TYPE_FP32 dims: [ -1, 4 ] } ] """
        self.repository.put("greedy", {1: computed(1 << 20)}, config)

    def test_a_run_beyond_the_limit(self):
        for _ in range(3):
            with self.assertRaises(InferenceServerException) as caught:
                self.infer("greedy")
            self.assertIn("Available memory of", caught.exception.message())
            self.assertEqual(self.infer("one"), (1.0, "1"))


class Trials(ControlCase):
    """Each load is tried in a process of its own."""

    flags = ["--model-control-mode", "explicit", "--load-model", "one", "--max-model-bytes", str(1024 * MIB)]

    def fill(self):
        self.repository.put("one", {1: 1.0})
        self.repository.put("greedy", {1: computed(1 << 20)})
        self.repository.put("modest", {1: computed(16)})
        self.repository.put("late", {1: 1.0, 2: slow(layers=300)})

    is_killed = False

    def stop(self):
        if not self.is_killed:
            super().stop()

    def children(self):
        """Processes of the server's that load a model."""
        found = []
        for entry in pathlib.Path("/proc").iterdir():
            try:
                if entry.name.isdigit() and int((entry / "stat").read_text().rpartition(")")[2].split()[1]) == self.server.process.pid:
                    if b"try" in (entry / "cmdline").read_bytes().split(b"\0"):
                        found.append(int(entry.name))
            except (OSError, IndexError, ValueError):
                continue  # it has ended
        return found

    def test_too_much_memory(self):
        if self.is_sanitized():
            self.skipTest("AddressSanitizer's memory cannot be limited")
        before = self.memory("VmHWM")
        status, answer = self.ask("POST", "/v2/repository/models/greedy/load")
        self.assertIn(status, (400, 500, 503), answer)
        self.assertIn("load failed for model 'greedy': version 1 is at UNAVAILABLE state", answer["error"])
        self.assertLess(self.memory("VmHWM") - before, 256 * MIB)
        self.client.load_model("modest")
        self.assertEqual(self.infer("modest")[0], 0.0)
        self.assertEqual(self.infer("one"), (1.0, "1"))

    def test_crash(self):
        answers = []
        thread = threading.Thread(target=lambda: answers.append(self.ask("POST", "/v2/repository/models/late/load")))
        thread.start()
        killed = []

        def kill():
            for child in self.children():
                os.kill(child, signal.SIGABRT)  # a sanitizer catches SIGSEGV
                killed.append(child)
            return killed or not thread.is_alive()

        self.wait_until(kill, "no process was started")
        thread.join(60)
        self.assertTrue(killed)
        status, answer = answers[0]
        self.assertEqual(status, 400)
        self.assertIn("its trial load crashed: the process ended by signal 6 (Aborted)", answer["error"])
        self.assertEqual(self.infer("one"), (1.0, "1"))
        self.client.load_model("late")
        self.assertTrue(self.client.is_model_ready("late", "2"))

    def test_server_that_is_killed(self):
        """A trial does not outlive its server."""
        thread = threading.Thread(target=lambda: self.assertRaises(Exception, self.ask, "POST", "/v2/repository/models/late/load"))
        thread.start()
        found = []

        def starts():
            found.extend(self.children())
            return found

        self.wait_until(starts, "no process was started")
        self.is_killed = True
        self.server.process.kill()
        self.server.process.wait()
        self.wait_until(lambda: not any(pathlib.Path("/proc/%d/exe" % child).exists() for child in found), "it goes on")
        thread.join(60)


if __name__ == "__main__":
    unittest.main()
