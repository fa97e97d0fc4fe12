#!/usr/bin/env python3
"""Draws latencies of `tutti compare` over the swept parameter, mean and 99 %, as SVG with both axes logarithmic.

    bench/compare_svg.py experiments/compare/decoder-one-core.pbtxt out.svg [CONTENDER ...]

Latencies above ten seconds are left out: such a contender is overloaded.
"""
import json
import pathlib
import subprocess
import sys

import plot

ROOT = pathlib.Path(__file__).resolve().parents[1]
MOST_MS = 10000


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    experiment, out, *chosen = sys.argv[1:]
    command = [str(ROOT / "build" / "tutti"), "compare", experiment, "--json"]
    report = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    parameter, series = report["parameter"], {}
    for at in report["points"]:
        name, latency = at["point"]["contender"], at["total"]["latency_ms"]
        for kind in ("mean", "p99"):
            if (not chosen or name in chosen) and latency[kind] <= MOST_MS:
                series.setdefault("%s, %s" % (name, kind), []).append((float(at["point"][parameter]), latency[kind]))
    plot.lines(out, report["title"], parameter, "latency, ms", series)


if __name__ == "__main__":
    main()
