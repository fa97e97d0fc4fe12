#!/usr/bin/env python3
"""The instructions that the server executes per HTTP request and per gRPC call (docs/results/PERF.md).

usage: request_cost.py [--tutti PROGRAM]... [--clients N] [--requests N] [--rounds N] [--grpc]

Each server runs an emulated model of 16 floats, whose batches take 1 us, under callgrind; the first program's `tutti
load` keeps N clients in a closed loop. A round takes two runs, of 2000 requests and of 2000 + N; the figure is their
difference per request, so that start-up does not count. Several programs (--tutti, as often as wanted) run in turns.
With --grpc it measures ModelInfer over gRPC, too (bench/grpc_loop.py, a connection per client; needs tritonclient[grpc]).
Needs valgrind; prints a Markdown table with every round."""

import argparse
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


def load_command(loader, server, grpc_port, body, requests, clients):
    if body == "--grpc":
        return [sys.executable, "-B", ROOT / "bench" / "grpc_loop.py", f"127.0.0.1:{grpc_port}", clients, requests]
    load = [loader, "load", server.address, "--model", "identity", "--concurrency", clients, "--requests", requests]
    return load + ["--duration", 300, body]


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def instructions(program, loader, models, body, requests, clients):
    with tempfile.TemporaryDirectory() as folder:
        under = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={folder}/callgrind.out"]
        grpc_port = free_port()
        flags = ["--grpc-port", grpc_port] if body == "--grpc" else []
        server = Server(
            program, models, *flags, under=under, executors=None, environment={"ORT_DISABLE_TELEMETRY": "1"}
        )
        load = load_command(loader, server, grpc_port, body, requests, clients)
        subprocess.run([str(word) for word in load], check=True, capture_output=True)
        server.stop()
        return int(re.findall(r"Collected : (\d+)", server.said())[-1])


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--tutti", action="append")
    arguments.add_argument("--clients", type=int, default=16)
    arguments.add_argument("--requests", type=int, default=10000)
    arguments.add_argument("--rounds", type=int, default=2)
    arguments.add_argument("--grpc", action="store_true")
    given = arguments.parse_args()
    programs = given.tutti or [os.path.join(ROOT, "build", "tutti")]
    print("| program | body |" + " round |" * given.rounds)
    print("|---|---|" + "---|" * given.rounds)
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        make_repository(folder)
        for _ in range(given.rounds):
            for program in programs:
                for body in ["--binary", "--json-body"] + ["--grpc"] * given.grpc:
                    few, many = (
                        instructions(program, programs[0], folder, body, requests, given.clients)
                        for requests in (FEW, FEW + given.requests)
                    )
                    found.setdefault((program, body), []).append((many - few) / given.requests)
    for (program, body), figures in found.items():
        print(f"| {program} | {body[2:].removesuffix('-body')} |" + "".join(f" {figure:,.0f} |" for figure in figures))


if __name__ == "__main__":
    main()
