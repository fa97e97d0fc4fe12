#!/usr/bin/env python3
"""The cost of decisions of the elastic policy, per batch that is started (docs/results/PERF.md).

usage: elastic_cost.py [--tutti PROGRAM]... [--seconds N] [--rounds N]

Simulates E2bird's ResNet152 at high load under `perf record -g` and sums the samples inside
elastic_decide, less those in which the simulator starts a task. Several programs (--tutti, as often
as wanted) run in turns. Needs perf; prints the median of the rounds as a Markdown table."""

import argparse
import csv
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
EXPERIMENT = os.path.join(ROOT, "experiments", "e2bird", "res152.pbtxt")
# The simulator's part of starting a task. The leaves are named as well: a function that has not yet
# set up its frame hides its caller.
STARTS = {"on_start", "begin_oldest", "start_step"}
SIMULATOR = STARTS | {
    "first_end", "enter", "tt_device_next_at", "tt_device_start", "advance", "refresh_device",
    "tt_step_work", "tt_measure_step_started", "on_step_started", "spend", "__divti3", "__divmodti4",
    "tt_profile_latency", "tt_profile_demand",
}


def batches(program, variant, seconds, folder):
    """How many tasks the run has."""
    tasks = os.path.join(folder, "tasks.csv")
    subprocess.run([program, "experiment", EXPERIMENT, *settings(variant, seconds), "--tasks", tasks],
                   check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    with open(tasks, newline="") as file:
        return sum(row["step"] == "0" for row in csv.DictReader(file))


def settings(variant, seconds):
    return ["--set", "contender=high", "--set", "contender=" + variant, "--set", f"duration_s={seconds}"]


def decide_ns(program, variant, seconds, folder):
    """Nanoseconds in elastic_decide during one run."""
    data = os.path.join(folder, "perf.data")
    subprocess.run(["perf", "record", "-o", data, "-g", "-e", "cpu-clock", "-F", "20000", program, "experiment",
                    EXPERIMENT, *settings(variant, seconds)],
                   check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    script = subprocess.run(["perf", "script", "-i", data, "-F", "ip,sym,period"], check=True,
                            capture_output=True, text=True).stdout
    total = 0
    for sample in script.split("\n\n"):
        lines = [line.split() for line in sample.strip().split("\n") if line.strip()]
        frames = [line[1] for line in lines[1:] if len(line) > 1]
        # It jumps to elastic_decide_anew, which then has its frame.
        decides = [at for at, frame in enumerate(frames) if frame.startswith("elastic_decide")]
        if not decides or frames[0] in SIMULATOR:
            continue
        inside = frames[:decides[0]]
        if not STARTS.intersection(inside):
            total += int(re.sub(r"\D", "", lines[0][0]))
    return total


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tutti", action="append", help="the program (build/tutti)")
    parser.add_argument("--seconds", type=int, default=3000, help="simulated (3000: about 2 s a run)")
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    if not shutil.which("perf"):
        sys.exit("elastic_cost.py: perf is not installed (Debian: linux-perf)")
    programs = arguments.tutti or [os.path.join(ROOT, "build", "tutti")]
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        for variant in ("naive", "enhanced"):
            count = {program: batches(program, variant, arguments.seconds, folder) for program in programs}
            for _ in range(arguments.rounds):
                for program in programs:
                    ns = decide_ns(program, variant, arguments.seconds, folder)
                    found.setdefault((variant, program), []).append(ns / count[program])
    print("| variant | program | ns per batch: median | rounds |\n|---|---|---|---|")
    for (variant, program), values in found.items():
        rounds = ", ".join(f"{value:.0f}" for value in values)
        print(f"| {variant} | {program} | {statistics.median(values):.0f} | {rounds} |")


if __name__ == "__main__":
    main()
