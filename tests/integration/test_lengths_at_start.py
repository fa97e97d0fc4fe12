#!/usr/bin/env python3
"""Inputs of any length, and no profile: the server measures several lengths when it starts. A model that takes only one of them
is served all the same, and nothing of that is in the log."""
import pathlib
import sys
import unittest

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "python"))

from needs import need  # noqa: E402

need("numpy", "onnx", "tritonclient")

import numpy as np  # noqa: E402
import tritonclient.http as triton  # noqa: E402
from control_case import ControlCase, identity, one_node  # noqa: E402
from onnx import TensorProto, helper  # noqa: E402
from tritonclient.utils import InferenceServerException  # noqa: E402

CONFIG = """max_batch_size: 4
  input [ { name: "x" data_type: TYPE_FP32 dims: [ -1 ] } ]
  output [ { name: "y" data_type: TYPE_FP32 dims: [ -1 ] } ]"""


def only(length):
    """y = x, of this length: adding a constant row fails for others, but for 1, which is repeated."""
    row = helper.make_tensor("row", TensorProto.FLOAT, [length], [0.0] * length)
    return one_node(helper.make_node("Add", ["x", "row"], ["y"]), ["N", "M"], ["N", "M"], [row])


class LengthsAtStart(ControlCase):
    flags = ["--grpc-port", "0"]  # the default one may be taken, which is in the log, too

    def fill(self):
        for name, file in (("any", identity()), ("only", only(16))):
            self.repository.put(name, {1: file}, CONFIG)
            (self.repository.path / name / "tutti.pbtxt").write_text("slo_ms: 5000\n")

    def echo(self, model, length):
        x = triton.InferInput("x", [2, length], "FP32")
        sent = np.arange(2 * length, dtype=np.float32).reshape(2, length)
        x.set_data_from_numpy(sent)
        self.assertTrue(np.array_equal(self.client.infer(model, [x]).as_numpy("y"), sent))

    def test_both_are_served(self):
        for length in (1, 16, 40, 300):
            self.echo("any", length)
        self.echo("only", 16)
        worrying = [line for line in self.server.lines if line[0] in "WE" or "[E:" in line or "[W:" in line]
        self.assertEqual(worrying, [])
        with self.assertRaises(InferenceServerException):
            self.echo("only", 128)


if __name__ == "__main__":
    unittest.main()
