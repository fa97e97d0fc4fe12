"""E2bird's systems on a real model and this machine's processors, side by side. The figures say nothing about the GPU of
`tutti reproduce e2bird`.

  bench/elastic_real.py MODEL_DIRECTORY [--rounds 5] [--seconds 4] [--load 0.2,0.7] [--workers 1,1,2,4,8] [--tutti PROGRAM]

The model (of a repository, its batch at least the largest worker) is served under each policy in turns, A B C ... A B C,
and asked by `tutti load` (open loop, Poisson) at these shares of the rate that
NO_Wait answers in closed loop. Prints the expected duration, the conditions of the run, and a Markdown table: medians over the
rounds of mean and p99 latency, the mean's ratio to OPT_Wait of the same round with its range, and the paper's ratio on its
GPU, networks and loads.

  NO_Wait, OPT_Wait   batches strictly one after the other, on one executor, without and with a wait of 5 ms
  Static              the same wait, filled up to the largest batch
  N-Ebird, E-Ebird    policy elastic, each worker a thread: naive, and enhanced with what `tutti profile --workers` finds
                      first
"""
import argparse
import json
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

from own_server import ROOT, Server

WAIT = "5ms"
# Sections 8.2: least and most over six networks; E-Ebird's is that over N-Ebird.
PUBLISHED = {
    ("low", "N-Ebird"): "0.29 .. 0.55",
    ("high", "N-Ebird"): "0.47 .. 0.93",
    ("high", "E-Ebird"): "0.70 .. 0.95 of N-Ebird",
}
HEADER = """| load | system | mean, ms | p99, ms | mean over OPT_Wait of the same round (range) | paper |
|---|---|---|---|---|---|"""


def settings(workers):
    def policy(name, **options):
        given = " ".join('option { key: "%s" value: "%s" }' % item for item in options.items())
        return 'policy { name: "%s" %s }\n' % (name, given)

    return {
        "NO_Wait": (policy("window", max_delay="0"), "1"),
        "OPT_Wait": (policy("window", max_delay=WAIT), "1"),
        "Static": (policy("window", max_delay=WAIT, static="padded"), "1"),
        "N-Ebird": (policy("elastic", workers=workers), "2"),
        "E-Ebird": (policy("elastic", variant="enhanced", workers=workers), "2"),
    }


def load(tutti, models, executors, name, *flags):
    """Serves the models, asks for the one, and says how that was answered."""
    server = Server(tutti, models, executors=executors)
    try:
        command = [tutti, "load", server.address, "--model", name, "--warm-up", "0.5", "--json", *map(str, flags)]
        answer = subprocess.run(command, capture_output=True, text=True)
    finally:
        server.stop()
    if answer.returncode != 0:
        raise SystemExit("elastic_real.py: %s\n%s" % (" ".join(map(str, command)), answer.stderr))
    report = json.loads(answer.stdout)
    return report["total"] if "total" in report else report["models"][0]


def said_of_machine():
    """Date, tree, processor and how busy it is."""
    tree = subprocess.run(["git", "-C", ROOT, "describe", "--always", "--dirty"], capture_output=True, text=True)
    cpu = re.search(r"model name\s*: (.*)", pathlib.Path("/proc/cpuinfo").read_text())
    return "%s, tree %s, %s, %d processors" % (
        time.strftime("%Y-%m-%d"), tree.stdout.strip() or "unknown", cpu[1] if cpu else "unknown processor", os.cpu_count())


def row(share, system, means, tails, ratios):
    ratio = "1" if system == "OPT_Wait" else "%.2f (%.2f .. %.2f)" % (
        statistics.median(ratios), min(ratios), max(ratios))
    published = PUBLISHED.get(("low" if share < 0.5 else "high", system), "")
    return "| %.0f %% | %s | %.2f | %.2f | %s | %s |" % (
        100 * share, system, statistics.median(means), statistics.median(tails), ratio, published)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--load", default="0.2,0.7")
    parser.add_argument("--workers", default="1,1,2,4,8")
    parser.add_argument("--tutti", default=str(pathlib.Path(__file__).resolve().parents[1] / "build" / "tutti"))
    args = parser.parse_args()
    name = args.model.resolve().name
    systems = settings(args.workers)
    runs = len(args.load.split(",")) * args.rounds * len(systems)
    print("takes about %.0f s" % (40 + runs * (args.seconds + 1.5)), file=sys.stderr)
    load_before = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as scratch:
        models = pathlib.Path(scratch)
        ignored = shutil.ignore_patterns("tutti.pbtxt", "*profile.pbtxt", "workers.pbtxt*")
        shutil.copytree(args.model, models / name, ignore=ignored)  # of whole graphs, and measured here
        subprocess.run([args.tutti, "profile", models / name, "--workers", "4,8,16", "--runs", "5"], check=True)
        (models / name / "tutti.pbtxt").write_text(systems["NO_Wait"][0])
        rate = load(args.tutti, models, "1", name, "--concurrency", 32, "--duration", args.seconds)["good_per_s"]
        print("%s; load average before: %.1f; %d rounds of %g s, workers %s; NO_Wait in closed loop, 32 clients: %.0f r/s.\n"
              % (said_of_machine(), load_before, args.rounds, args.seconds, args.workers, rate))
        print(HEADER, flush=True)
        for share in map(float, args.load.split(",")):
            means, tails, ratios = {s: [] for s in systems}, {s: [] for s in systems}, {s: [] for s in systems}
            for seed in range(args.rounds):
                for system, (text, executors) in systems.items():
                    (models / name / "tutti.pbtxt").write_text(text)
                    report = load(args.tutti, models, executors, name, "--rate", rate * share, "--duration",
                                  args.seconds, "--seed", seed + 1)
                    means[system].append(report["latency_ms"]["mean"])
                    tails[system].append(report["latency_ms"]["p99"])
                for system in systems:
                    ratios[system].append(means[system][-1] / means["OPT_Wait"][-1])
            for system in systems:
                print(row(share, system, means[system], tails[system], ratios[system]), flush=True)


if __name__ == "__main__":
    main()
