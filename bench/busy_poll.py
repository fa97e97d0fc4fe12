#!/usr/bin/env python3
"""What `tutti serve --busy-poll-us` costs and gains: processor time of the server per request, and the clients' p50, in turns.

usage: busy_poll.py [--tutti PROGRAM] [--ways WAY,...] [--rounds N] [--requests N] [--run-us N]

A way is a value of --busy-poll-us, or PROGRAM=VALUE for a server of another build. The model is emulated, 16 floats, and its batches
take --run-us (1: the connections' thread runs them itself). Each round starts a server per way and plays every load: one client
whose processor is not the server's ("two processors"), is ("one"), or may be either ("anywhere"), 64 clients in a closed loop, 10,000
requests per second at random times over 64 connections, and nothing for two seconds. A cell is the median over the rounds of us of processor time per request (idle: ms per
second) and p50 in us; in brackets the median of its ratio to the first way in the same round. Prints Markdown."""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import tempfile
import time

from own_server import ROOT, Server, rounds_of

MODEL = """backend: "emulated"
max_batch_size: 64
input { name: "INPUT0" data_type: TYPE_FP32 dims: 16 }
output { name: "OUTPUT0" data_type: TYPE_FP32 dims: 16 }
"""
ALL = sorted(os.sched_getaffinity(0))
# name: flags of tutti load, share of the requests, processors (None: all)
LOADS = {
    "one client, two processors": (["--concurrency", "1"], 0.25, 2),
    "one client, one processor": (["--concurrency", "1"], 0.25, 1),
    "one client, anywhere": (["--concurrency", "1"], 0.25, None),
    "64 clients": (["--concurrency", "64"], 1, None),
    "10,000/s, 64 connections": (["--rate", "10000", "--connections", "64"], 1, None),
}
IDLE = "idle"


def place(pid, processors):
    """Server and clients get that many processors: one together, or one each."""
    if processors and processors > len(ALL):
        raise SystemExit("a load needs %d processors; this machine gives %d" % (processors, len(ALL)))
    os.sched_setaffinity(0, {ALL[0]} if processors else ALL)  # the clients inherit it
    for task in pathlib.Path("/proc/%d/task" % pid).iterdir():
        os.sched_setaffinity(int(task.name), {ALL[processors - 1]} if processors else ALL)


def play(given, server, load):
    flags, share, processors = LOADS[load]
    place(server.process.pid, processors)
    command = [given.tutti, "load", server.address, "--model", "identity", "--binary", "--json", "--duration", "600", *flags]

    def run(count):
        before = server.cpu_seconds()
        done = subprocess.run([*command, "--requests", str(count)], check=True, capture_output=True, text=True)
        total = json.loads(done.stdout)["total"]
        assert total["ok"] == count, done.stdout
        return (server.cpu_seconds() - before) / count * 1e6, total["latency_ms"]["p50"] * 1e3

    try:
        count = int(given.requests * share)
        run(max(count // 10, 100))
        return run(count)
    finally:
        place(server.process.pid, None)


def idle(server):
    before = server.cpu_seconds()
    time.sleep(2)
    return (server.cpu_seconds() - before) / 2 * 1e3, None


def measure(given, folder, way):
    program, _, value = way.rpartition("=")
    server = Server(program or given.tutti, folder, "--grpc-port", 0, "--busy-poll-us", value, executors=None)
    found = {load: play(given, server, load) for load in LOADS}
    found[IDLE] = idle(server)
    server.stop()
    return found


def cell(mine, first):
    if mine[0] is None:  # idle: no latency
        return ""
    ratio = statistics.median(a / b if b else 1 for a, b in zip(mine, first))
    return "%.1f (%.2f)" % (statistics.median(mine), ratio)


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--tutti", default=os.path.join(ROOT, "build", "tutti"))
    arguments.add_argument("--ways", default="0,auto,50")
    arguments.add_argument("--rounds", type=int, default=5)
    arguments.add_argument("--requests", type=int, default=40000)
    arguments.add_argument("--run-us", type=float, default=1)
    given = arguments.parse_args()
    ways = given.ways.split(",")
    with tempfile.TemporaryDirectory() as folder:
        model = pathlib.Path(folder, "identity")
        (model / "1").mkdir(parents=True)
        (model / "config.pbtxt").write_text(MODEL)
        (model / "profile.pbtxt").write_text("linear { beta_ms: %g }\n" % (given.run_us / 1e3))
        found = rounds_of(ways, given.rounds, lambda way: measure(given, folder, way))
    print("%d rounds, %d requests; load average at the end: %.1f\n" % (given.rounds, given.requests, os.getloadavg()[0]))
    print("| load |" + "".join(" %s: us/request | p50 |" % os.path.basename(way) for way in ways))
    print("|---|" + "---|---|" * len(ways))
    for load in [*LOADS, IDLE]:
        row = [load]
        for way in ways:
            row += [cell([of[load][i] for of in found[way]], [of[load][i] for of in found[ways[0]]]) for i in (0, 1)]
        print("| " + " | ".join(row) + " |")


if __name__ == "__main__":
    main()
