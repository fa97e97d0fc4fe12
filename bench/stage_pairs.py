#!/usr/bin/env python3
"""D3, D4: what a second pair of buffers is worth. A network of two equal stages is served under `diversity` on two streams of
the host device, with one pair (a batch after the other) and with two (stages of two batches side by side), by turns.

Each turn is a closed loop of more clients than both batches hold. The stages are products of matrices, which ONNX Runtime
computes on the thread of the stream. With two cores the second pair is worth at most 2, and less where HTTP and the load
generator need them, too: beside the rates stands the processor time per request of the stages, of all else, and what follows from
these for two cores that are never idle. More --layers make all else small.

With --in-process there is neither HTTP nor a load generator of its own: `tutti experiment` runs the model, and each request is a whole
batch, more per second than two pairs can run. The rate is that of the middle eight tenths of the answers. --prefix is put before the
program: `chrt -f 1` gives it both cores on a machine with other work.

    scripts/test_python.sh bench/stage_pairs.py [--rounds N] [--seconds S] [--layers N] [--trace FILE] [--in-process [--rate R]]
"""
import argparse
import csv
import json
import os
import pathlib
import resource
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

WIDTH, BATCH, CLIENTS, WARM_UP_S = 512, 8, 32, 1
SETTINGS = """slo_ms: 60000 stages { after: "half" } device { }
policy { name: "diversity"
  option { key: "ahead" value: "on" } option { key: "stretch" value: "off" } option { key: "split" value: "off" }
  option { key: "bs_max" value: "%d" } option { key: "pairs" value: "%d" } }
"""


EXPERIMENT = """title: "two equal stages" world: REAL repository: "%s" seed: 1 duration_s: %g warm_up_s: 0.5 device { count: 2 }
model { name: "pairs%d" slo_ms: 60000 rows: %d } load { rate: %g }
policy { name: "diversity"
  option { key: "ahead" value: "on" } option { key: "stretch" value: "off" } option { key: "split" value: "off" }
  option { key: "bs_max" value: "%d" } option { key: "pairs" value: "%d" } }
"""


def network(layers):
    """Layers of WIDTH units; the tensor in the middle is `half`."""
    generator, at, nodes, weights = np.random.default_rng(1), "x", [], []
    for layer in range(layers):
        name = "y" if layer == layers - 1 else "half" if layer == layers // 2 - 1 else "t%d" % layer
        weights.append(numpy_helper.from_array((generator.standard_normal((WIDTH, WIDTH)) / WIDTH**0.5).astype(np.float32), "w%d" % layer))
        nodes.append(helper.make_node("MatMul", [at, "w%d" % layer], ["m%d" % layer]))
        nodes.append(helper.make_node("Tanh", ["m%d" % layer], [name]))
        at = name
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["N", WIDTH]) for name in "xy"]
    model = helper.make_model(helper.make_graph(nodes, "halves", ports[:1], ports[1:], weights), opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 8
    return model.SerializeToString()


def make_models(folder, layers):
    for pairs in (1, 2):
        model = folder / ("pairs%d" % pairs)
        (model / "1").mkdir(parents=True)
        (model / "1" / "model.onnx").write_bytes(network(layers))
        (model / "config.pbtxt").write_text("max_batch_size: %d\n" % BATCH)
        (model / "tutti.pbtxt").write_text(SETTINGS % (BATCH, pairs))


def rate(tutti, address, pairs, seconds):
    command = [tutti, "load", address, "--model", "pairs%d" % pairs, "--concurrency", str(CLIENTS), "--duration", str(seconds)]
    found = subprocess.run(command + ["--warm-up", str(WARM_UP_S), "--json"], check=True, capture_output=True, text=True)
    return json.loads(found.stdout)


def processor_us(pid):
    """Of each thread of the server; the last one: of children that have ended."""
    tasks = pathlib.Path("/proc/%d/task" % pid).iterdir()
    times = {task.name: int((task / "schedstat").read_text().split()[0]) / 1e3 for task in tasks}
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return times | {"ended": 1e6 * (ended.ru_utime + ended.ru_stime)}


def per_request(before, after, requests):
    """Of the two busiest threads, which run the stages, and of all else."""
    times = sorted((after[name] - before.get(name, 0)) / requests for name in after)
    return sum(times[-2:]), sum(times[:-2])


def in_process(options, folder):
    """Batches per second of each turn, by pairs."""
    rates = {1: [], 2: []}
    for pairs in rates:
        subprocess.run([options.tutti, "profile", str(folder / ("pairs%d" % pairs))], check=True, capture_output=True)
        settings = (folder, options.seconds, pairs, BATCH, options.rate, BATCH, pairs)
        (folder / ("pairs%d.pbtxt" % pairs)).write_text(EXPERIMENT % settings)
    for _ in range(options.rounds):
        for pairs, found in rates.items():
            command = [*options.prefix.split(), options.tutti, "experiment", str(folder / ("pairs%d.pbtxt" % pairs))]
            subprocess.run([*command, "--outcomes", str(folder / "out.csv")], check=True, capture_output=True)
            with open(folder / "out.csv") as rows:
                ends = sorted(int(row["finished_ns"]) for row in csv.DictReader(rows) if row["outcome"] == "ok")
            first, last = len(ends) // 10, len(ends) - len(ends) // 10 - 1
            found.append((last - first) / (ends[last] - ends[first]) * 1e9)
            print("pairs %d: %.0f batches per second" % (pairs, found[-1]), flush=True)
    ratios = [two / one for one, two in zip(rates[1], rates[2])]
    print("two pairs over one, turn by turn: %s; median %.2f" % (", ".join("%.2f" % r for r in ratios), statistics.median(ratios)))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tutti", default=str(ROOT / "build" / "tutti"), help="the program (build/tutti)")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=5)
    parser.add_argument("--layers", type=int, default=24)
    parser.add_argument("--trace", help="writes the trace of the last turn there, for bench/traces.py")
    parser.add_argument("--in-process", action="store_true", help="without HTTP, by tutti experiment")
    parser.add_argument("--rate", type=float, default=600, help="batches per second, with --in-process (600)")
    parser.add_argument("--prefix", default="", help="a command to run the program by, with --in-process")
    options = parser.parse_args()
    if options.in_process:
        with tempfile.TemporaryDirectory() as folder:
            make_models(pathlib.Path(folder), options.layers)
            in_process(options, pathlib.Path(folder))
        return
    with tempfile.TemporaryDirectory() as folder:
        make_models(pathlib.Path(folder), options.layers)
        server = Server(options.tutti, folder, executors=2)
        rates, spent = {1: [], 2: []}, {1: [], 2: []}
        try:
            for _ in range(options.rounds):
                for pairs, found in rates.items():
                    before = processor_us(server.process.pid)
                    found.append(rate(options.tutti, server.address, pairs, options.seconds)["models"][0]["answered_per_s"])
                    requests = found[-1] * (options.seconds + WARM_UP_S)
                    spent[pairs].append(per_request(before, processor_us(server.process.pid), requests))
                    print("pairs %d: %.0f requests per second; us of processor each: stages %.0f, " % (pairs, found[-1], spent[pairs][-1][0])
                          + "all else %.0f" % spent[pairs][-1][1], flush=True)  # fmt: skip
            if options.trace:
                with urllib.request.urlopen(server.address + "/v2/debug/trace?seconds=5") as answer:
                    pathlib.Path(options.trace).write_bytes(answer.read())
        finally:
            server.stop()
    one, two = (statistics.median(rates[pairs]) for pairs in (1, 2))
    alone, (stages, others) = statistics.median(s for s, _ in spent[1]), [statistics.median(column) for column in zip(*spent[2])]
    print("median %.0f and %.0f requests per second: %.2f; two busy cores: %.2f" % (one, two, two / one, 2 * alone / (stages + others)))


if __name__ == "__main__":
    sys.exit(main())
