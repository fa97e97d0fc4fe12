"""What stages cost, in instructions: a served sentence encoder (minilm), whole and cut, under valgrind.

What callgrind counts in the whole process while it answers some requests, after a first one, is what they take, from the
socket to the socket, decisions at the boundaries included. The cut and the profile are made beforehand, outside valgrind,
which would take minutes over them. Valgrind knows no AVX-512: ONNX Runtime takes its AVX2 kernels there, whole and cut
alike. A request takes seconds. All runs go at once.

    scripts/test_python.sh bench/slicing.py [--stages 4,8] [--requests N] [--length N] [--cache DIR]
"""
import argparse
import concurrent.futures
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import urllib.request

from own_server import ROOT, Server, make_model

VALGRIND = ["valgrind", "--tool=callgrind", "--instr-atstart=no", "--callgrind-out-file=/dev/null"]


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tutti", default=str(ROOT / "build" / "tutti"), help="the program (build/tutti)")
    parser.add_argument("--cache", default=str(ROOT / ".deps" / "models"), help="where minilm's download is kept")
    parser.add_argument("--stages", default="4", help="numbers of stages, with commas between (4)")
    parser.add_argument("--length", type=int, default=8, help="tokens of the sentence (8)")
    parser.add_argument("--requests", type=int, default=3, help="that are counted (3)")
    return parser.parse_args()


def make_repository(options, folder, stages):
    """A repository of its own, with cut and profile; `stages` 0: whole."""
    models = folder / ("stages-%d" % stages)
    make_model("minilm", models, "--cache", options.cache)
    settings = 'slo_ms: 60000\npolicy { name: "diversity" option { key: "window" value: "0ms" } }\n'
    settings += "length { pad: true }\n" + ("stages { count: %d }\n" % stages if stages else "")
    (models / "minilm" / "tutti.pbtxt").write_text(settings)
    profile = [options.tutti, "profile", models / "minilm", "--max-batch", "1", "--runs", "5"]
    subprocess.run(profile + ["--lengths", str(options.length)], check=True, capture_output=True)
    return models


def count(options, models):
    """Instructions per request."""
    ids = [101] + [2000 + i for i in range(options.length - 2)] + [102]
    inputs = [
        {"name": name, "datatype": "INT64", "shape": [1, len(ids)], "data": data}
        for name, data in (("input_ids", ids), ("attention_mask", [1] * len(ids)))
    ]
    server = Server(options.tutti, models, under=VALGRIND)
    try:
        for turn in range(1 + options.requests):
            if turn == 1:
                control = ["callgrind_control", "-i", "on", str(server.process.pid)]
                subprocess.run(control, check=True, capture_output=True)
            asked = urllib.request.Request(
                server.address + "/v2/models/minilm/infer", json.dumps({"inputs": inputs}).encode()
            )
            urllib.request.urlopen(asked, timeout=300).read()
    finally:
        server.stop()
    return int(re.search(r"Collected : (\d+)", server.said())[1]) / options.requests


def main():
    options = arguments()
    if not shutil.which("valgrind"):
        sys.exit("valgrind is not installed")
    with tempfile.TemporaryDirectory() as scratch, concurrent.futures.ThreadPoolExecutor() as pool:
        kinds = [0] + [int(number) for number in options.stages.split(",")]
        runs = []
        for stages in kinds:
            models = make_repository(options, pathlib.Path(scratch), stages)
            runs.append(pool.submit(count, options, models))
        whole = None
        for stages, run in zip(kinds, runs):
            each = run.result()
            whole = whole or each
            told = "%d stages" % stages if stages else "whole"
            print("%-9s %8.3f million instructions per request, %+.2f %%" % (told, each / 1e6, 100 * (each / whole - 1)))
            sys.stdout.flush()


if __name__ == "__main__":
    main()
