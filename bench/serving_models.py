"""The models that the serving benchmark serves, as a repository for `tutti serve`.

  identity    16 floats in, the same out, each request alone, copied in C: the cost of a request beside its model
  identity_dyn    the same with dynamic batching
  runtime     the same as an ONNX model, every request a run of ONNX Runtime
  bytes64k    16,384 floats in (64 KiB), one out, and nothing between: what reading bytes costs
  mlp1024     16 -> 1024 -> 1024 -> 16, dynamic batching: weights of 4 MB, so that batches pay
  lstm256     one step of an LSTM, dynamic batching
  slow        takes 1 ms whatever the batch, objective 5 ms, so that `deferred` gathers
"""
import pathlib
import sys

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "scripts"))

from models import repository, small  # noqa: E402
from models.onnx_graph import Graph  # noqa: E402
from models.repository import Model, Tensor  # noqa: E402

SLO_MS = 5


def build_mlp1024():
    rng = np.random.Generator(np.random.PCG64(1))
    g = Graph("mlp1024")
    x = g.input("INPUT0", "FP32", ["N", 16])
    for i, (rows, columns) in enumerate([(16, 1024), (1024, 1024)]):
        w = g.weight("w%d" % i, (rng.standard_normal((rows, columns)) / rows**0.5).astype(np.float32))
        x = g.op("Relu", g.op("Gemm", x, w, g.weight("b%d" % i, np.zeros(columns, np.float32))))
    w = g.weight("w2", (rng.standard_normal((1024, 16)) / 32).astype(np.float32))
    g.op("Gemm", x, w, g.weight("b2", np.zeros(16, np.float32)), out="OUTPUT0")
    g.output("OUTPUT0", "FP32", ["N", 16])
    return g.to_bytes()


def identity(name, **fields):
    io = [Tensor("INPUT0", "FP32", [16])], [Tensor("OUTPUT0", "FP32", [16])]
    return Model(name, *io, lambda: small.build_identity("FP32", ["N", 16]), **fields)


EMULATED = """backend: "emulated"
max_batch_size: 64
input { name: "INPUT0" data_type: TYPE_FP32 dims: %d }
output { name: "OUTPUT0" data_type: TYPE_FP32 dims: %d }
"""


def write_emulated(folder, name, beta_ms, settings, batching="", width=(16, 16)):
    """A model that waits for `beta_ms`, whatever the batch, and copies, or where its output has another width says 0."""
    path = pathlib.Path(folder, name)
    path.joinpath("1").mkdir(parents=True)
    path.joinpath("config.pbtxt").write_text(EMULATED % width + batching)
    path.joinpath("profile.pbtxt").write_text("linear { beta_ms: %s }\n" % beta_ms)
    if settings:
        path.joinpath("tutti.pbtxt").write_text(settings)


def write(folder):
    hidden = [Tensor(name, "FP32", [256]) for name in ("h", "c")]
    for model in (
        # A configuration without dynamic_batching does not keep an ONNX model from being batched, there as here.
        identity("runtime", extra_files=lambda: {"tutti.pbtxt": b'policy { name: "serial" }\n'}),
        Model(
            "mlp1024",
            [Tensor("INPUT0", "FP32", [16])],
            [Tensor("OUTPUT0", "FP32", [16])],
            build_mlp1024,
        ),
        Model(
            "lstm256",
            [Tensor("x", "FP32", [256])] + hidden,
            [Tensor("h_out", "FP32", [256]), Tensor("c_out", "FP32", [256])],
            lambda: small.build_lstm_cell(256),
        ),
    ):
        repository.write(model, folder)
    write_emulated(folder, "identity", 0.000001, 'policy { name: "serial" }\n')
    write_emulated(folder, "identity_dyn", 0.000001, "", "dynamic_batching { }\n")
    write_emulated(folder, "bytes64k", 0.000001, 'policy { name: "serial" }\n', width=(16384, 1))
    write_emulated(folder, "slow", 1, "slo_ms: %g\n" % SLO_MS)

