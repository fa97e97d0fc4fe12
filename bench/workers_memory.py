"""What workers of several batch sizes cost in memory (E3), on the CPU engine.

  bench/workers_memory.py [--workers 1,1,2,4,8,16] [--size 224] [--tutti build/tutti]

`tutti serve` serves a ResNet-50 with generated weights and gets batches of each worker's size, all workers at once, several
times. The figure is the server's resident memory, less that of a server without models.

  naive sum   a server for each worker alone: weights and what it computes in, once per worker
  shared      one server, policy elastic with all workers: one session, one arena that all take from
  cut         the same with `stages { count: 1 }`: the weights are mapped from a file
  arenas      the same, each worker with a session and an arena of its own, weights shared

Needs the Python packages of the demo (numpy, onnx).
"""
import argparse
import pathlib
import re
import subprocess
import sys
import tempfile
import time

import numpy as np
from own_server import ROOT, Server

sys.path.insert(0, str(ROOT / "scripts"))

from models.onnx_graph import Graph  # noqa: E402

REPEATS = 4


def resnet50(size):
    """ResNet-50 as its paper has it, normalisation folded into the convolutions; the weights mean nothing."""
    rng = np.random.Generator(np.random.PCG64(50))
    g = Graph("resnet50")

    def conv(x, name, inputs, outputs, kernel=1, stride=1):
        weights = rng.standard_normal((outputs, inputs, kernel, kernel)) * (2 / (inputs * kernel * kernel)) ** 0.5
        w = g.weight(name + ".weight", weights.astype(np.float32))
        b = g.weight(name + ".bias", np.zeros(outputs, np.float32))
        return g.op("Conv", x, w, b, kernel_shape=[kernel] * 2, pads=[kernel // 2] * 4, strides=[stride] * 2)

    x = g.input("image", "FP32", ["N", 3, size, size])
    x = g.op("Relu", conv(x, "stem", 3, 64, 7, 2))
    x = g.op("MaxPool", x, kernel_shape=[3, 3], pads=[1, 1, 1, 1], strides=[2, 2])
    channels = 64
    for stage, (blocks, width) in enumerate([(3, 64), (4, 128), (6, 256), (3, 512)]):
        for block in range(blocks):
            name = "stage%d.%d" % (stage, block)
            stride = 2 if stage > 0 and block == 0 else 1
            y = g.op("Relu", conv(x, name + ".a", channels, width))
            y = g.op("Relu", conv(y, name + ".b", width, width, 3, stride))
            y = conv(y, name + ".c", width, 4 * width)
            if block == 0:
                x = conv(x, name + ".down", channels, 4 * width, 1, stride)
            x = g.op("Relu", g.op("Add", x, y))
            channels = 4 * width
    x = g.op("Flatten", g.op("GlobalAveragePool", x), axis=1)
    w = g.weight("head", (rng.standard_normal((2048, 1000)) / 45).astype(np.float32))
    g.op("Gemm", x, w, g.weight("head.bias", np.zeros(1000, np.float32)), out="logits")
    g.output("logits", "FP32", ["N", 1000])
    return g.to_bytes()


def write_model(folder, size, most, settings):
    model = folder / "m"
    (model / "1").mkdir(parents=True, exist_ok=True)
    if not (model / "1" / "model.onnx").exists():
        (model / "1" / "model.onnx").write_bytes(resnet50(size))
    (model / "config.pbtxt").write_text(
        'name: "m" backend: "onnxruntime" max_batch_size: %d\n'
        'input [ { name: "image" data_type: TYPE_FP32 dims: [ 3, %d, %d ] } ]\n'
        'output [ { name: "logits" data_type: TYPE_FP32 dims: [ 1000 ] } ]\n' % (most, size, size)
    )
    (model / "tutti.pbtxt").write_text(settings)


def resident_mb(pid):
    status = pathlib.Path("/proc/%d/status" % pid).read_text()
    return int(re.search(r"VmRSS:\s+(\d+)", status)[1]) / 1024


class MeasuredServer(Server):
    def ask(self, tutti, batches):
        """Batches of these sizes at once, each several times."""
        for _ in range(2):
            load = [
                subprocess.Popen(
                    [tutti, "load", self.address, "--model", "m", "--rows", str(rows), "--concurrency", "1", "--requests",
                     str(REPEATS), "--duration", "600", "--give-up-ms", "600000", "--json"],
                    stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
                for rows in batches
            ]
            for one in load:
                one.communicate()

    def close(self):
        """Megabytes that it has at its end."""
        time.sleep(0.5)
        memory = resident_mb(self.process.pid)
        self.stop()
        return memory


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", default="1,1,2,4,8,16")
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--tutti", default=str(ROOT / "build" / "tutti"))
    args = parser.parse_args()
    workers = [int(w) for w in args.workers.split(",")]
    most = max(workers)
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        elastic = 'policy { name: "elastic" option { key: "workers" value: "%s" } }\ninput_slots: %d\n' % (
            args.workers, most)
        write_model(folder, args.size, most, elastic)
        server = MeasuredServer(args.tutti, folder, "--model-control-mode", "explicit", executors=None)
        nothing = server.close()
        print("a server without models: %.0f MB" % nothing)
        alone = {}
        write_model(folder, args.size, most, 'policy { name: "serial" }\n')
        for rows in sorted(set(workers)):
            server = MeasuredServer(args.tutti, folder)
            server.ask(args.tutti, [rows])
            alone[rows] = server.close() - nothing
            print("a worker of %2d alone: %.0f MB" % (rows, alone[rows]), flush=True)
        naive = sum(alone[rows] for rows in workers)
        print("naive sum: %.0f MB" % naive)
        stages = "stages { count: 1 %s}\n"
        write_model(folder, args.size, most, elastic + stages % "")
        MeasuredServer(args.tutti, folder, executors=None).close()  # makes the cut, which takes memory that is not the workers'
        for name, settings in (("shared", ""), ("cut", stages % ""), ("arenas", stages % "own_arenas: true ")):
            write_model(folder, args.size, most, elastic + settings)
            server = MeasuredServer(args.tutti, folder, executors=None)
            server.ask(args.tutti, workers)
            memory = server.close() - nothing
            print("%s: %.0f MB, %.1f %% less than the naive sum" % (name, memory, 100 * (1 - memory / naive)), flush=True)


if __name__ == "__main__":
    main()
