#!/usr/bin/env python3
"""D4: what a device with streams adds to a task. The same model runs directly on an executor's thread, and with `device { }` on a
stream of the host device, where inputs and outputs are copied and events order the work.

usage: scripts/test_python.sh bench/device_cost.py [--tutti PROGRAM] [--requests N] [--rounds N]

A task is one request of one client, so its cost is the difference per request; with 16 and 128 clients several requests share a task, and threads sleep less. The servers run
in turns; a round gives each its user and system time per request. Prints a Markdown table; the last column is the median over the rounds of the difference within a round."""

import argparse
import os
import pathlib
import statistics
import tempfile

from own_server import ROOT, Server, folder_of, make_model, make_ways, rounds_of

WAYS = {"direct": "", "stream": "device { }\n", "stream, whole batches copied": "device { copies: WHOLE }\n"}


def microseconds(given, models, clients):
    server = Server(given.tutti, models, "--grpc-port", 0)
    load = [given.tutti, "load", server.address, "--model", "identity_fp32", "--binary", "--json", "--concurrency", clients]
    found = server.microseconds(load, given.requests)
    server.stop()
    return found


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--tutti", default=os.path.join(ROOT, "build", "tutti"))
    arguments.add_argument("--requests", type=int, default=20000)
    arguments.add_argument("--rounds", type=int, default=5)
    given = arguments.parse_args()
    print("| clients | way |" + " us |" * given.rounds + " more, median |")
    print("|---|---|" + "---|" * (given.rounds + 1))
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        make_ways(make_model("identity_fp32", folder / "made"), folder, WAYS)
        for clients in 1, 16, 128:
            found = rounds_of(WAYS, given.rounds, lambda way: microseconds(given, folder_of(folder, way), clients))
            for way in WAYS:
                more = statistics.median(mine - direct for mine, direct in zip(found[way], found["direct"]))
                print("| %d | %s |" % (clients, way) + "".join(" %.1f |" % figure for figure in found[way]) + " %.1f |" % more)


if __name__ == "__main__":
    main()
