#!/usr/bin/env python3
"""Trees on the real engine: policy `cellular` beside `merged`, dynamic graph merging (C7), with the same TreeLSTM cells.

    bench/trees.py                    h = 256
    bench/trees.py --size 64 --rounds 3 --seconds 3

  cellular    cells of all requests that are there, whenever they came
  ahead       the same with `ahead: 1`: an executor's next cells are chosen before it is idle
  merged      up to 64 requests that wait become one graph, run level by level; the next when all of them have left
  merged 16   up to 16
  one by one  a graph of one request: its own cells of a level share a batch, nothing else

Trees are random (leaves in a row, two neighbours joined until there is one), of lognormal sizes, mean 19 leaves. A server
per policy, all alive, one executor each, turns A B C A B C. First the peak of a closed loop of 64 clients, then Poisson
loads, given in percent of what merged answers per second of its processor time, which other work on the machine does not
change. Needs a Python with numpy and onnx.
"""
import argparse
import json
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile

from cell_load import Load, body, percentile, ratio
from own_server import ROOT, Server, folder_of, in_turn, make_model, make_ways

POLICIES = {
    "cellular": 'policy { name: "cellular" }\n',
    "ahead": 'policy { name: "cellular" option { key: "ahead" value: "1" } }\n',
    "merged": 'policy { name: "merged" }\n',
    "merged 16": 'policy { name: "merged" option { key: "max_requests" value: "16" } }\n',
    "one by one": 'policy { name: "merged" option { key: "max_requests" value: "1" } }\n',
}
WORDS = {64: 1000, 256: 10000}


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tutti", default=str(ROOT / "build" / "tutti"))
    parser.add_argument("--size", type=int, default=256, choices=sorted(WORDS))
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--loads", default="30,50,70", help="percent of merged's peak; empty: the peak alone")
    parser.add_argument("--clients", type=int, default=64, help="of the closed loop")
    parser.add_argument("--output", help="everything that was measured, as JSON")
    return parser.parse_args()


def draw_tree(rng, words):
    leaves = max(2, min(100, round(19 * rng.lognormvariate(-0.125, 0.5))))
    tokens, left, right = [rng.randrange(words) for _ in range(leaves)], [-1] * leaves, [-1] * leaves
    roots = list(range(leaves))
    while len(roots) > 1:
        at = rng.randrange(len(roots) - 1)
        left.append(roots[at])
        right.append(roots[at + 1])
        roots[at : at + 2] = [len(tokens)]
        tokens.append(0)
    return {"tokens": tokens, "left": left, "right": right}


def make_models(folder, options):
    made = make_model("tree%d" % options.size, folder / "made")
    subprocess.run([options.tutti, "profile", made, "--runs", "50"], check=True, capture_output=True)
    make_ways(made, folder, POLICIES)
    return made.name


def figures(load):
    return {
        "per_s": len(load.numbers) / load.lasted_s,
        "per_cpu_s": len(load.numbers) / load.cpu_s,
        "latencies_ms": load.latencies_ms,
        "leaves": load.width("leaf"),
        "inner": load.width("inner"),
        "refused": load.refused,
    }


def measure_round(options, servers, name, folder, loads, seed):
    one = {"peaks": {}, "loads": {percent: {} for percent in loads}}

    def run(server, *flags):
        return figures(Load(options.tutti, server, name, folder / "requests", options.seconds, flags))

    for way, server in servers.items():
        clients = str(options.clients)
        one["peaks"][way] = run(server, "--concurrency", clients, "--connections", clients)
    for percent in loads:
        rate = one["peaks"]["merged"]["per_cpu_s"] * percent / 100
        for way, server in servers.items():
            one["loads"][percent][way] = run(server, "--rate", "%.1f" % rate, "--seed", str(seed))
    return one


def tell(rounds, options, loads):
    print("peak, %d clients: answers per second, of processor time, x merged's; cells per task" % options.clients)
    for way in POLICIES:
        mine = [one["peaks"][way] for one in rounds]
        print(
            "  %-10s %6.0f /s %6.0f /cpu s  %.2f x, %.2f x /cpu   leaves %.1f, inner nodes %.1f"
            % (
                way,
                *(statistics.median(m[key] for m in mine) for key in ("per_s", "per_cpu_s")),
                *(
                    ratio(rounds, lambda one: one["peaks"][way][key] / one["peaks"]["merged"][key])
                    for key in ("per_s", "per_cpu_s")
                ),
                *(statistics.median(m[key] for m in mine) for key in ("leaves", "inner")),
            )
        )
    print("| load | policy | p50 | p90 | p99 ms | p90, x merged's | leaves | inner nodes per task |")
    for percent in loads:
        for way in POLICIES:
            mine = [one["loads"][percent][way] for one in rounds]
            all_ms = sum((m["latencies_ms"] for m in mine), [])
            beside = ratio(
                rounds,
                lambda one: percentile(one["loads"][percent][way]["latencies_ms"], 0.9)
                / percentile(one["loads"][percent]["merged"]["latencies_ms"], 0.9),
            )
            print(
                "| %d %% | %s | %.1f | %.1f | %.1f | %.2f | %.1f | %.1f |"
                % (
                    percent,
                    way,
                    *(percentile(all_ms, p) for p in (0.5, 0.9, 0.99)),
                    beside,
                    *(statistics.median(m[key] for m in mine) for key in ("leaves", "inner")),
                )
            )


def main():
    options = parse_arguments()
    loads = [int(word) for word in options.loads.split(",") if word]
    rounds, servers, rng = [], {}, random.Random(5)
    trees = [draw_tree(rng, WORDS[options.size]) for _ in range(512)]
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        name = make_models(folder, options)
        try:
            for way in POLICIES:
                servers[way] = Server(options.tutti, folder_of(folder, way))
            for number in range(options.rounds):
                trees_now = in_turn(trees, number, options.rounds)
                (folder / "requests").write_text("".join(body(tree) + "\n" for tree in trees_now))
                rounds.append(measure_round(options, servers, name, folder, loads, number + 1))
                print("round %d" % (number + 1), file=sys.stderr, flush=True)
        finally:
            for server in servers.values():
                server.stop()
    nodes = statistics.mean(len(tree["tokens"]) for tree in trees)
    print("%s: %d trees, mean %.0f nodes; %d rounds of %g s" % (name, len(trees), nodes, options.rounds, options.seconds))
    tell(rounds, options, loads)
    if options.output:
        pathlib.Path(options.output).write_text(json.dumps(rounds, indent=1))


if __name__ == "__main__":
    main()
