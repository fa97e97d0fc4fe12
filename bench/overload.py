#!/usr/bin/env python3
"""Overload on devices that are not exact: what becomes of the offered requests under each policy.

    bench/overload.py                        # simulated and emulated, at 0.5, 1, 1.5 and 3 times the capacity
    bench/overload.py --worlds simulated     # seconds

Runs experiments/compare/overload-noisy.pbtxt with `tutti experiment` for each contender, and prints a row per
contender, world and load: shares of the offered requests in time, computed and late, refused early (on arrival
or later, so that others are in time) and dropped for their own deadline; and the goodput as a share of the
contender's best in that world. The emulated world takes as long as its load lasts and needs a calm machine."""
import argparse
import json
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
FILE = ROOT / "experiments" / "compare" / "overload-noisy.pbtxt"
CAPACITY_PER_S = 1830  # as the file says


def run(tutti, contender, world, seconds):
    """The totals of all loads of the file, in its order."""
    command = [tutti, "experiment", FILE, "--json", "--workers", "1"]
    for setting in (
        "contender=" + contender,
        "world=" + world.upper(),
        "duration_s=%g" % (seconds + 2),
    ):
        command += ["--set", setting]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit("bench/overload.py: %s" % done.stderr.strip())
    return [point["total"] for point in json.loads(done.stdout)["points"]]


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tutti", default=str(ROOT / "build" / "tutti"))
    parser.add_argument("--worlds", default="simulated,emulated")
    parser.add_argument("--seconds", type=float, default=10, help="that are counted, of each run")
    given = parser.parse_args()
    text = FILE.read_text()
    contenders = re.findall(r'^contender { name: "([^"]+)"', text, re.MULTILINE)
    print("world      contender   load  offered  in time    late  refused  dropped  of best")
    for world in given.worlds.split(","):
        for contender in contenders:
            totals = run(given.tutti, contender, world, given.seconds)
            best = max(total["good_per_s"] for total in totals)
            for total in totals:
                offered = total["arrived"]
                reasons = total["dropped_by_reason"]
                counts = (
                    total["ok"],
                    total["late"],
                    reasons["early"],
                    reasons["deadline"] + reasons["queue_full"],
                )
                print(
                    "%-10s %-10s %5.2f %8d %7.2f%% %6.2f%% %7.2f%% %7.2f%% %8.3f"
                    % (
                        world,
                        contender,
                        total["offered_per_s"] / CAPACITY_PER_S,
                        offered,
                        *(100 * count / offered for count in counts),
                        total["good_per_s"] / best,
                    ),
                    flush=True,
                )


if __name__ == "__main__":
    main()
