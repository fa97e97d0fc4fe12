#!/usr/bin/env python3
"""What composition gains: a deferred schedule of whole requests over backends whose own policy batches their cells.

    bench/composition.py [--program build/tutti] [--rates 20 40 80] [--seconds 15] [--seed 1] [--out FILE.json]

1 scheduler, 1 frontend and 2 emulated backends of one device, as processes. Requests to an emulated chain of cells come at random
(Poisson); each has 1 to 40 cells, drawn evenly, of 5 ms and 0.05 ms per row. The objective is 1 s, and a request that
cannot be in time is refused. Beside each other, with the same requests:

    window      whole sequences, padded to the longest of their batch; one batch at once
    cellular    cells of one granted batch; one at once
    cellular N  cells of N granted batches at once (grants=N)
    streams N   the same on the streams of an emulated device, where the cells' states stay

Per rate: the share that was answered in time, and p50 and p99 of what was answered.
"""
import argparse
import http.client
import json
import os
import pathlib
import queue
import random
import sys
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "python"))

CONFIG = """
backend: "emulated" max_batch_size: 32
input { name: "lengths" data_type: TYPE_INT32 dims: -1 }
output { name: "output" data_type: TYPE_UINT8 dims: 1 }
"""
PROFILE = """
linear { beta_ms: 1 }
step { name: "cell" point { batch: 1 latency_ns: 5050000 } point { batch: 32 latency_ns: 6600000 } }
"""
SETTINGS = 'slo_ms: 1000 policy { name: "%s" } emulation { cells { kind: CHAIN max_length: 40 } } %s\n'
# Name, policy of the model, grants, what else its settings say.
KINDS = (("window", "window", 1, ""), ("cellular", "cellular", 1, ""), ("cellular 4", "cellular", 4, ""),
         ("cellular 8", "cellular", 8, ""), ("streams 4", "cellular", 4, "device { }"), ("streams 8", "cellular", 8, "device { }"))  # fmt: skip
OBJECTIVE_S, STEPS, SENDERS = 1.0, 40, 256


def arrivals(rate, seconds, seed):
    """Instants and numbers of steps."""
    draw, at, found = random.Random(seed), 0.0, []
    while (at := at + draw.expovariate(rate)) < seconds:
        found.append((at, draw.randint(1, STEPS)))
    return found


def send_all(address, requests):
    """The latency of each answered request, from its instant on, and the number of refused ones."""
    todo, latencies, refused, lock = queue.Queue(), [], [0], threading.Lock()

    def run():
        client = http.client.HTTPConnection(address, timeout=60)
        while (request := todo.get()) is not None:
            at, steps = request
            tensor = {"name": "lengths", "shape": [1, steps], "datatype": "INT32", "data": [steps] * steps}
            client.request("POST", "/v2/models/chain/infer", json.dumps({"inputs": [tensor]}))
            answer = client.getresponse()
            answer.read()
            with lock:
                if answer.status == 200:
                    latencies.append(time.monotonic() - at)
                else:
                    refused[0] += 1

    threads = [threading.Thread(target=run) for _ in range(SENDERS)]
    for thread in threads:
        thread.start()
    begin = time.monotonic() + 0.5
    for at, steps in requests:
        time.sleep(max(0.0, begin + at - time.monotonic()))
        todo.put((begin + at, steps))
    for _ in threads:
        todo.put(None)
    for thread in threads:
        thread.join()
    return sorted(latencies), refused[0]


def measure(kind, policy, grants, more, options):
    from cluster_process import Cluster

    cluster = Cluster(backends=2, devices=1)
    try:
        (cluster.models / "echo").rename(cluster.models / "chain")
        for name, text in ("config.pbtxt", CONFIG), ("profile.pbtxt", PROFILE), ("tutti.pbtxt", SETTINGS % (policy, more)):
            (cluster.models / "chain" / name).write_text(text)
        cluster.file.write_text(cluster.file.read_text().replace("devices=1", "devices=1 grants=%d" % grants))
        cluster.start_all()
        rows = []
        for rate in options.rates:
            requests = arrivals(rate, options.seconds, options.seed)
            latencies, refused = send_all(cluster.processes["f1"].address, requests)
            in_time = sum(latency <= OBJECTIVE_S for latency in latencies)
            ms = [1e3 * latencies[int(share * (len(latencies) - 1))] if latencies else None for share in (0.5, 0.99)]
            rows.append({"kind": kind, "rate_per_s": rate, "requests": len(requests), "in_time": in_time / len(requests),
                         "refused": refused, "p50_ms": ms[0], "p99_ms": ms[1]})  # fmt: skip
            print("%-12s %6.0f/s  in time %5.1f %%  p50 %4.0f ms  p99 %4.0f ms" % (kind, rate, 100 * rows[-1]["in_time"], *ms))
        status = cluster.status()
        suspected = status["s1"]["suspected"]
        batches = sum(status[name]["batches"] for name in ("b1", "b2"))
        print("%-12s %d batches granted, %d suspected" % (kind, batches, suspected), flush=True)
        return rows
    finally:
        cluster.stop()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default=str(ROOT / "build" / "tutti"))
    parser.add_argument("--rates", type=float, nargs="+", default=[20, 40, 80])
    parser.add_argument("--seconds", type=float, default=15)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kinds", nargs="+", help="only these")
    parser.add_argument("--out", type=pathlib.Path)
    options = parser.parse_args()
    os.environ["TUTTI_PROGRAM"] = options.program
    rows = []
    for kind, policy, grants, more in KINDS:
        if not options.kinds or kind in options.kinds:
            rows += measure(kind, policy, grants, more, options)
    if options.out:
        options.out.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
