#!/usr/bin/env python3
"""D3, D4: what a second pair of buffers is worth. A network of two equal stages is served under `diversity` on two streams of
the host device, with one pair (a batch after the other) and with two (stages of two batches side by side), by turns.

Each turn is a closed loop of more clients than both batches hold. The stages are products of matrices, which ONNX Runtime
computes on the thread of the stream. With two cores the second pair is worth at most 2.

    scripts/test_python.sh bench/stage_pairs.py [--rounds N] [--seconds S] [--trace FILE]
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import urllib.request

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
import numpy as np  # noqa: E402
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

from own_server import ROOT, Server  # noqa: E402

WIDTH, LAYERS, BATCH, CLIENTS = 512, 24, 8, 32
SETTINGS = """slo_ms: 60000 stages { after: "half" } device { }
policy { name: "diversity"
  option { key: "ahead" value: "on" } option { key: "stretch" value: "off" } option { key: "split" value: "off" }
  option { key: "bs_max" value: "%d" } option { key: "pairs" value: "%d" } }
"""


def network():
    """LAYERS layers of WIDTH units; the tensor in the middle is `half`."""
    generator, at, nodes, weights = np.random.default_rng(1), "x", [], []
    for layer in range(LAYERS):
        name = "y" if layer == LAYERS - 1 else "half" if layer == LAYERS // 2 - 1 else "t%d" % layer
        weights.append(numpy_helper.from_array((generator.standard_normal((WIDTH, WIDTH)) / WIDTH**0.5).astype(np.float32), "w%d" % layer))
        nodes.append(helper.make_node("MatMul", [at, "w%d" % layer], ["m%d" % layer]))
        nodes.append(helper.make_node("Tanh", ["m%d" % layer], [name]))
        at = name
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["N", WIDTH]) for name in "xy"]
    model = helper.make_model(helper.make_graph(nodes, "halves", ports[:1], ports[1:], weights), opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 8
    return model.SerializeToString()


def make_models(folder):
    for pairs in (1, 2):
        model = folder / ("pairs%d" % pairs)
        (model / "1").mkdir(parents=True)
        (model / "1" / "model.onnx").write_bytes(network())
        (model / "config.pbtxt").write_text("max_batch_size: %d\n" % BATCH)
        (model / "tutti.pbtxt").write_text(SETTINGS % (BATCH, pairs))


def rate(tutti, address, pairs, seconds):
    command = [tutti, "load", address, "--model", "pairs%d" % pairs, "--concurrency", str(CLIENTS), "--duration", str(seconds)]
    found = subprocess.run(command + ["--warm-up", "1", "--json"], check=True, capture_output=True, text=True)
    return json.loads(found.stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tutti", default=str(ROOT / "build" / "tutti"), help="the program (build/tutti)")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=5)
    parser.add_argument("--trace", help="writes the trace of the last turn there, for bench/traces.py")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        make_models(pathlib.Path(folder))
        server = Server(options.tutti, folder, executors=2)
        rates = {1: [], 2: []}
        try:
            for _ in range(options.rounds):
                for pairs, found in rates.items():
                    found.append(rate(options.tutti, server.address, pairs, options.seconds)["models"][0]["answered_per_s"])
                    print("pairs %d: %.0f requests per second" % (pairs, found[-1]), flush=True)
            if options.trace:
                with urllib.request.urlopen(server.address + "/v2/debug/trace?seconds=5") as answer:
                    pathlib.Path(options.trace).write_bytes(answer.read())
        finally:
            server.stop()
    one, two = (statistics.median(rates[pairs]) for pairs in (1, 2))
    print("median %.0f and %.0f requests per second: %.2f" % (one, two, two / one))


if __name__ == "__main__":
    sys.exit(main())
