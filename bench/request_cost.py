#!/usr/bin/env python3
"""The instructions that the server executes per HTTP request and per gRPC call (docs/results/PERF.md).

usage: request_cost.py [--tutti PROGRAM]... [--clients N] [--requests N] [--rounds N] [--grpc] [--refused]

Each server runs an emulated model of 16 floats, whose batches take 1 us, under callgrind; the first program's `tutti
load` keeps N clients in a closed loop. A round takes two runs, of 2000 requests and of 2000 + N; the figure is their
difference per request, so that start-up does not count. Several programs (--tutti, as often as wanted) run in turns.
With --grpc it measures ModelInfer over gRPC, too (bench/grpc_loop.py, a connection per client; needs tritonclient[grpc]).
With --refused it measures the same requests with a timeout of 1 us, too: all are refused on arrival.
Needs valgrind; prints a Markdown table with every round."""

import argparse
import itertools
import json
import os
import pathlib
import re
import socket
import subprocess
import sys
import tempfile

from own_server import ROOT, Server

FEW = 2000
MODEL = """backend: "emulated"
max_batch_size: 64
input { name: "INPUT0" data_type: TYPE_FP32 dims: 16 }
output { name: "OUTPUT0" data_type: TYPE_FP32 dims: 16 }
"""


def make_repository(folder):
    model = pathlib.Path(folder, "identity")
    (model / "1").mkdir(parents=True)
    (model / "config.pbtxt").write_text(MODEL)
    (model / "profile.pbtxt").write_text("linear { beta_ms: 0.001 }\n")
    return folder


def load_command(loader, server, grpc_port, body, timeout, requests, clients):
    if body == "--grpc":
        address = f"127.0.0.1:{grpc_port}"
        return [sys.executable, "-B", ROOT / "bench" / "grpc_loop.py", address, clients, requests, timeout]
    load = [loader, "load", server.address, "--model", "identity", "--concurrency", clients, "--requests", requests]
    return load + ["--duration", 300, "--timeout-us", timeout, "--json", body]


def run_load(command, body, timeout, requests):
    """A load whose requests are all refused ends with 1, and its report says why."""
    done = subprocess.run([str(word) for word in command], check=not timeout, capture_output=True, text=True)
    if not timeout:
        return
    refused = done.returncode == 0 if body == "--grpc" else json.loads(done.stdout)["total"]["rejected"] == requests
    if not refused:
        sys.exit("request_cost.py: not all requests were refused: " + done.stdout + done.stderr)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def instructions(program, loader, models, body, timeout, requests, clients):
    with tempfile.TemporaryDirectory() as folder:
        under = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={folder}/callgrind.out"]
        grpc_port = free_port()
        flags = ["--grpc-port", grpc_port] if body == "--grpc" else []
        server = Server(
            program, models, *flags, under=under, executors=None, environment={"ORT_DISABLE_TELEMETRY": "1"}
        )
        load = load_command(loader, server, grpc_port, body, timeout, requests, clients)
        run_load(load, body, timeout, requests)
        server.stop()
        return int(re.findall(r"Collected : (\d+)", server.said())[-1])


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--tutti", action="append")
    arguments.add_argument("--clients", type=int, default=16)
    arguments.add_argument("--requests", type=int, default=10000)
    arguments.add_argument("--rounds", type=int, default=2)
    arguments.add_argument("--grpc", action="store_true")
    arguments.add_argument("--refused", action="store_true")
    given = arguments.parse_args()
    programs = given.tutti or [os.path.join(ROOT, "build", "tutti")]
    print("| program | body | timeout, us |" + " round |" * given.rounds)
    print("|---|---|---|" + "---|" * given.rounds)
    found = {}
    bodies = ["--binary", "--json-body"] + ["--grpc"] * given.grpc
    timeouts = [0] + [1] * given.refused
    with tempfile.TemporaryDirectory() as folder:
        make_repository(folder)
        for _ in range(given.rounds):
            for program in programs:
                for body, timeout in itertools.product(bodies, timeouts):
                    few, many = (
                        instructions(program, programs[0], folder, body, timeout, requests, given.clients)
                        for requests in (FEW, FEW + given.requests)
                    )
                    found.setdefault((program, body, timeout), []).append((many - few) / given.requests)
    for (program, body, timeout), figures in found.items():
        name = body[2:].removesuffix("-body")
        print(f"| {program} | {name} | {timeout or 'none'} |" + "".join(f" {figure:,.0f} |" for figure in figures))


if __name__ == "__main__":
    main()
