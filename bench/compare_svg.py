#!/usr/bin/env python3
"""Draws latencies of `tutti compare` over the swept parameter, mean and 99 %, as SVG for a document.

    bench/compare_svg.py experiments/compare/decoder-one-core.pbtxt out.svg [CONTENDER ...]

Latencies above ten seconds are left out: such a contender has fallen over. `tutti compare --html` makes the whole page.
"""
import json
import pathlib
import subprocess
import sys

import svg

ROOT = pathlib.Path(__file__).resolve().parents[1]
MAX_MS = 10000


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
            if (not chosen or name in chosen) and latency[kind] <= MAX_MS:
                series.setdefault("%s, %s" % (name, kind), []).append((float(at["point"][parameter]), latency[kind]))
    svg.lines(out, report["title"], "rate, r/s" if parameter == "rate" else parameter, "latency, ms", series)


if __name__ == "__main__":
    main()
