#!/usr/bin/env python3
"""What connection threads (`tutti serve --connection-threads`) bring and cost over HTTP.

usage: connection_threads.py [--tutti PROGRAM] [--threads N]... [--scheduler-threads N] [--floats N] [--clients N]
                             [--requests N] [--rounds N]

The server runs an emulated model whose batches take 1 us, so that connections are all the work; requests and answers are
JSON with so many floats. `tutti load` keeps the clients in a closed loop. Servers run in turns. The table has requests per
second, and the processor time of the server per request: on a machine where the load generator and the threads share the
processors, only the latter compares. It says how many processors there were."""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

from own_server import ROOT, Server

MODEL = """backend: "emulated"
max_batch_size: 64
input {{ name: "INPUT0" data_type: TYPE_FP32 dims: {floats} }}
output {{ name: "OUTPUT0" data_type: TYPE_FP32 dims: {floats} }}
"""


def make_repository(folder, given):
    model = pathlib.Path(folder, "identity")
    (model / "1").mkdir(parents=True)
    (model / "config.pbtxt").write_text(MODEL.format(floats=given.floats))
    (model / "profile.pbtxt").write_text("linear { beta_ms: 0.001 }\n")
    if given.scheduler_threads:
        (model / "tutti.pbtxt").write_text('policy { name: "eager" }\n')
    return folder


def measure(given, models, threads):
    """Requests per second, and microseconds of the server's processor time per request."""
    flags = ["--grpc-port", "0", "--connection-threads", threads, "--scheduler-threads", given.scheduler_threads]
    server = Server(given.tutti, models, *flags)
    load = [given.tutti, "load", server.address, "--model", "identity", "--json-body", "--json", "--duration", 600]
    load += ["--concurrency", given.clients, "--connections", given.clients, "--requests", given.requests]
    before = server.cpu_seconds()
    done = subprocess.run([str(word) for word in load], capture_output=True, text=True, check=False)
    used_s = server.cpu_seconds() - before
    server.stop()
    report = json.loads(done.stdout) if done.stdout else {}
    total = report.get("total", {})
    if done.returncode or total.get("ok") != given.requests:
        sys.exit("connection_threads: not all requests were answered: " + (done.stderr or json.dumps(total)))
    return total["answered_per_s"], 1e6 * used_s / given.requests


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--tutti", default=os.path.join(ROOT, "build", "tutti"))
    arguments.add_argument("--threads", action="append", type=int)
    arguments.add_argument("--scheduler-threads", type=int, default=0)
    arguments.add_argument("--floats", type=int, default=256)
    arguments.add_argument("--clients", type=int, default=16)
    arguments.add_argument("--requests", type=int, default=20000)
    arguments.add_argument("--rounds", type=int, default=3)
    given = arguments.parse_args()
    counts = given.threads or [1, 2]
    found = {threads: [] for threads in counts}
    with tempfile.TemporaryDirectory() as folder:
        make_repository(folder, given)
        for _ in range(given.rounds):
            for threads in counts:
                found[threads].append(measure(given, folder, threads))
    print(f"{os.cpu_count()} processors, {given.clients} clients, {given.floats} floats of JSON, medians of {given.rounds}\n")
    print("| connection threads | requests per second | processor us per request | rounds |")
    print("|---|---|---|---|")
    for threads in counts:
        rates, costs = zip(*found[threads])
        rounds = ", ".join(f"{rate:.0f} / {cost:.0f}" for rate, cost in found[threads])
        print(f"| {threads} | {statistics.median(rates):.0f} | {statistics.median(costs):.0f} | {rounds} |")


if __name__ == "__main__":
    main()
