#!/usr/bin/env python3
"""The cost of a decision of the lazy policy, with the events before it (docs/results/PERF.md).

usage: lazy_cost.py [--tutti PROGRAM]... [--run MODEL:RATE]... [--seconds N] [--rounds N] [--repeat N]

Simulates experiments/lazybatching/MODEL.pbtxt at RATE requests per second, once under callgrind and then, `repeat` times
a round, under `perf record`. Instructions are those written in src/policy/lazy/ and fifo.[ch]; time is that spent
in the functions defined there, whatever is inlined into them; both per call of `decide`, and without what makes the
tables at the start. Several programs (--tutti, as often as wanted) run in turns. Needs valgrind and perf; prints a
Markdown table."""

import argparse
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
RUNS = ["resnet50:1000", "transformer:1000", "gnmt:1000", "gnmt:500", "gnmt:250"]
POLICY = re.compile(r"policy/(lazy/\w+|fifo)\.[ch]$")
AT_START = {"tt_lazy_times_init", "fill_line", "predict", "residual", "find_rows"}
NAME = re.compile(r"(fl|fi|fe|fn|cfn|cfi|cfl)=\((\d+)\)(?: (.*))?$")


class Counted:
    """What callgrind saw: decisions, instructions per decision, and the names of the policy's functions."""

    def __init__(self, path):
        self.decisions = 0
        names = {"f": {}, "n": {}}
        mine, foreign = set(), set()
        instructions = 0
        file = function = callee = home = None
        with open(path, encoding="utf-8", errors="replace") as lines:
            for line in lines:
                match = NAME.match(line)
                if match:
                    kind, number, name = match.groups()
                    table = names["n" if kind.endswith("fn") else "f"]
                    if name:
                        table[number] = name
                    if kind in ("fl", "fi", "fe"):
                        file = table[number]
                        home = file if kind == "fl" else home
                    elif kind == "fn":
                        function = table[number]
                        (mine if POLICY.search(home) else foreign).add(function)
                    elif kind == "cfn":
                        callee = table[number]
                elif line.startswith("calls="):
                    next(lines)
                    if callee == "lazy_decide":
                        self.decisions += int(line[6:].split()[0])
                elif line[0] in "0123456789+-*" and POLICY.search(file) and function not in AT_START:
                    instructions += int(line.split()[1])
        self.functions = mine - foreign - AT_START
        self.instructions = instructions / self.decisions


def command(program, run, seconds):
    model, rate = run.split(":")
    experiment = os.path.join(ROOT, "experiments", "lazybatching", model + ".pbtxt")
    return [program, "experiment", experiment, "--set", "rate=" + rate, "--set", f"duration_s={seconds}"]


def quietly(arguments):
    subprocess.run(arguments, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def counted(program, run, seconds, folder):
    path = os.path.join(folder, "callgrind")
    quietly(["valgrind", "--tool=callgrind", "--callgrind-out-file=" + path, *command(program, run, seconds)])
    return Counted(path)


def policy_ns(program, run, seconds, functions, folder):
    """Nanoseconds in those functions during one run."""
    data = os.path.join(folder, "perf.data")
    quietly(["perf", "record", "-o", data, "-e", "cpu-clock", "-F", "10000", *command(program, run, seconds)])
    script = subprocess.run(["perf", "script", "-i", data, "-F", "period,ip,sym"], check=True, capture_output=True,
                            text=True).stdout
    samples = (line.split() for line in script.splitlines())
    return sum(int(fields[0]) for fields in samples if len(fields) > 2 and fields[2] in functions)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tutti", action="append", help="the program (build/tutti)")
    parser.add_argument("--run", action="append", help="such as gnmt:500 (" + ", ".join(RUNS) + ")")
    parser.add_argument("--seconds", type=int, default=21, help="simulated")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--repeat", type=int, default=5, help="runs per round")
    arguments = parser.parse_args()
    for tool in ("perf", "valgrind"):
        if not shutil.which(tool):
            sys.exit(f"lazy_cost.py: {tool} is not installed (Debian: {'linux-perf' if tool == 'perf' else tool})")
    programs = arguments.tutti or [os.path.join(ROOT, "build", "tutti")]
    print("| model: r/s | program | decisions | instructions | ns: median | rounds |\n|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for run in arguments.run or RUNS:
            seen = {program: counted(program, run, arguments.seconds, folder) for program in programs}
            found = {program: [] for program in programs}
            for _ in range(arguments.rounds):
                for program in programs:
                    known = seen[program]
                    total = sum(policy_ns(program, run, arguments.seconds, known.functions, folder)
                                for _ in range(arguments.repeat))
                    found[program].append(total / arguments.repeat / known.decisions)
            for program, values in found.items():
                rounds = ", ".join(f"{value:.0f}" for value in values)
                print(f"| {run} | {program} | {seen[program].decisions} | {seen[program].instructions:.0f} "
                      f"| {statistics.median(values):.0f} | {rounds} |", flush=True)


if __name__ == "__main__":
    main()
