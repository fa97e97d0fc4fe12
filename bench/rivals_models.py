"""The models of bench/rivals.py: for `tutti serve`, and the same files for Triton and mosec.

  mlp      16 -> 2048, four layers of 2048 x 2048, -> 16: 67 MB of weights, so that batches pay
  lstm     one step of an LSTM cell with 1024 units, 34 MB, one ONNX file
  cnn      the demonstration's; compute decides, batches pay little
  minilm   the demonstration's sentence encoder, on the lengths of English sentences of data/wmt15-lengths.csv
"""
import csv
import pathlib
import re
import shutil
import sys

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "scripts"))

from models import repository, small  # noqa: E402
from models.onnx_graph import Graph  # noqa: E402
from models.repository import Model, Tensor  # noqa: E402
from own_server import ROOT, make_model  # noqa: E402

NAMES = ("mlp", "lstm", "cnn", "minilm")
MLP_WIDTH, MLP_LAYERS, LSTM_UNITS, MAX_BATCH = 2048, 4, 1024, 64
LONGEST = 128  # of minilm's inputs


def build_mlp():
    rng = np.random.Generator(np.random.PCG64(1))
    g = Graph("mlp")
    x, width = g.input("INPUT0", "FP32", ["N", 16]), 16
    for i in range(1 + MLP_LAYERS):
        w = (rng.standard_normal((width, MLP_WIDTH)) / width**0.5).astype(np.float32)
        bias = g.weight("b%d" % i, np.zeros(MLP_WIDTH, np.float32))
        x, width = g.op("Relu", g.op("Gemm", x, g.weight("w%d" % i, w), bias)), MLP_WIDTH
    w = g.weight("head", (rng.standard_normal((MLP_WIDTH, 16)) / MLP_WIDTH**0.5).astype(np.float32))
    g.op("Gemm", x, w, g.weight("head_b", np.zeros(16, np.float32)), out="OUTPUT0")
    g.output("OUTPUT0", "FP32", ["N", 16])
    return g.to_bytes()


def write(name, folder, cache):
    """The model in `folder`, with a config.pbtxt."""
    states = [Tensor(t, "FP32", [LSTM_UNITS]) for t in ("h", "c")]
    if name == "mlp":
        inputs, outputs = [Tensor("INPUT0", "FP32", [16])], [Tensor("OUTPUT0", "FP32", [16])]
        repository.write(Model(name, inputs, outputs, build_mlp, max_batch_size=MAX_BATCH), folder)
    elif name == "lstm":
        inputs = [Tensor("x", "FP32", [LSTM_UNITS])] + states
        outputs = [Tensor(t, "FP32", [LSTM_UNITS]) for t in ("h_out", "c_out")]
        build = lambda: small.build_lstm_cell(LSTM_UNITS)  # noqa: E731
        repository.write(Model(name, inputs, outputs, build, max_batch_size=MAX_BATCH), folder)
    else:
        make_model(name, folder, "--cache", cache)
    return pathlib.Path(folder, name)


def max_batch(model):
    """Of the model in this folder: the demonstration's have their own."""
    return int(re.search(r"max_batch_size: (\d+)", (model / "config.pbtxt").read_text()).group(1))


def write_lengths(path, count=4000):
    """As many lengths of inputs at even quantiles, shuffled with a fixed seed: every part has the distribution."""
    with open(ROOT / "data" / "wmt15-lengths.csv", newline="") as file:
        rows = [(float(row["percentile"]), float(row["wmt15"])) for row in csv.DictReader(file)]
    percents, lengths = zip(*rows)
    drawn = np.interp((np.arange(count) + 0.5) * 100 / count, percents, lengths)
    drawn = np.clip(np.rint(drawn), 1, LONGEST).astype(int)
    np.random.Generator(np.random.PCG64(2)).shuffle(drawn)
    path.write_text("".join("%d\n" % length for length in drawn))
    return int(np.median(drawn))


def write_for_triton(model, folder, backend, executors, slo_ms, delay_ms):
    """The same model for Triton: dynamic batching with this queue delay, which refuses what has waited for the whole objective."""
    text = (model / "config.pbtxt").read_text()
    lines = [line for line in text.splitlines() if not line.startswith(("backend:", "dynamic_batching", "platform:"))]
    policy = (
        "dynamic_batching {\n  max_queue_delay_microseconds: %d\n  default_queue_policy {\n    timeout_action: REJECT\n"
        "    default_timeout_microseconds: %d\n    allow_timeout_override: false\n  }\n}\n"
        % (round(delay_ms * 1000), round(slo_ms * 1000))
    )
    to = pathlib.Path(folder, model.name)
    shutil.rmtree(to, ignore_errors=True)
    to.mkdir(parents=True)
    (to / "1").symlink_to((model / "1").resolve())
    instances = "instance_group [ { kind: KIND_CPU count: %d } ]\n" % executors
    (to / "config.pbtxt").write_text('backend: "%s"\n' % backend + "\n".join(lines) + "\n" + instances + policy)
