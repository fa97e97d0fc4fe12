#!/usr/bin/env python3
"""Model files that ask for more memory than there is: they are refused before they are loaded, with the node's name, by the
server and by `tutti models check`; other models serve on."""
import os
import subprocess
import sys
import unittest
import pathlib

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "python"))

from needs import need  # noqa: E402

need("numpy", "onnx", "tritonclient")

from control_case import ControlCase, adder  # noqa: E402
from onnx import TensorProto, helper  # noqa: E402

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
    flags += ["--max-model-bytes", str(100 * MIB), "--max-models-bytes", str(150 * MIB)]

    def fill(self):
        self.repository.put("one", {1: 1.0})
        for kind in ("ConstantOfShape", "Expand", "RandomNormal"):
            self.repository.put(kind, {1: summed(kind, [1 << 20, 1 << 11])})
        weights = helper.make_tensor("w", TensorProto.FLOAT, [30 * MIB], bytes(120 * MIB), True)
        add = [helper.make_node("Add", ["x", "first"], ["y"]), helper.make_node("ReduceSum", ["w"], ["first"])]
        self.repository.put("weights", {1: model_of(add[::-1], [weights])})
        self.repository.put("small", {1: summed("ConstantOfShape", [4, 4])})
        for name in ("half", "other"):
            self.repository.put(name, {1: summed("ConstantOfShape", [20 * MIB])})

    def test_refused_with_the_node(self):
        for kind in ("ConstantOfShape", "Expand", "RandomNormal"):
            status, answer = self.ask("POST", "/v2/repository/models/%s/load" % kind)
            self.assertEqual(status, 400)
            self.assertIn("%s 'filler' (node 0) takes %d bytes" % (kind, (1 if kind == "Expand" else 4) << 31),
                          answer["error"])  # fmt: skip
            self.assertIn("the limit of %d for a model (--max-model-bytes)" % (100 * MIB), answer["error"])
            self.assertIn("filler", self.index()[kind]["1"][1])
        status, answer = self.ask("POST", "/v2/repository/models/weights/load")
        self.assertEqual(status, 400)
        self.assertIn("the weights take %d bytes" % (120 * MIB), answer["error"])
        self.assertEqual(self.infer("one"), (1.0, "1"))
        self.client.load_model("small")
        self.assertEqual(self.infer("small")[0], 0.0)

    def test_all_together(self):
        self.client.load_model("half")
        status, answer = self.ask("POST", "/v2/repository/models/other/load")
        self.assertEqual(status, 400)
        self.assertIn("together more than the limit of %d (--max-models-bytes)" % (150 * MIB), answer["error"])
        self.client.unload_model("half")
        self.wait_until(lambda: self.index()["half"]["1"][1] == "unloaded", "it stays")
        self.client.load_model("other")
        self.assertEqual(self.infer("other")[0], 0.0)

    def test_check(self):
        command = [PROGRAM, "models", "check", str(self.repository.path), "--max-model-bytes", str(100 * MIB)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(done.returncode, 1)
        for kind in ("ConstantOfShape", "Expand", "RandomNormal"):
            self.assertIn("%s 'filler' (node 0) takes" % kind, done.stdout)
        self.assertIn("the weights take", done.stdout)


if __name__ == "__main__":
    unittest.main()
