#!/usr/bin/env python3
"""The report of tests/soak/hostile.py as Markdown, for docs/results/HOSTILE.md.

usage: soak_table.py REPORT.json COMMIT

COMMIT is the one that the soak's program was built from. The date is that of the report's file."""

import datetime
import json
import os
import pathlib
import sys


def share(name, of):
    if "p50_ms" not in of:
        return "| good clients, %s | %d requests, none served |" % (name, of["requests"])
    return "| good clients, %s | %d requests, %d served; p50 %.2f ms, p99 %.2f ms |" % (
        name, of["requests"], of["served"], of["p50_ms"], of["p99_ms"])  # fmt: skip


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__.split("\n\n")[1])
    path = pathlib.Path(sys.argv[1])
    report = json.loads(path.read_text())
    date = datetime.datetime.fromtimestamp(os.path.getmtime(path))
    rows = [
        "| ended | %s, commit %s, %d processors, load average %.1f |" % (date.strftime("%Y-%m-%d %H:%M"), sys.argv[2], os.cpu_count(), report["load_average"]),
        "| length | %.2f h, seed %d |" % (report["seconds"] / 3600, report["seed"]),
        *[share(name, of) for name, of in sorted(report["good"].items())],
        "| hostile actions | %s |" % ", ".join("%s %d" % pair for pair in sorted(report["hostile"].items())),
        "| calls of the system that failed | %d |" % report["faults"],
        "| HTTP requests | %s |" % ("%d" % report["http_requests"] if "http_requests" in report else "not known"),
        "| resident memory: first, highest, last sample | %.1f, %.1f, %.1f MiB |" % tuple(report["resident_mib"]),
        "| its rise in the second half, and the error of that | %.2f +- %.2f MiB |" % tuple(report["rise_mib"]),
        "| served again after the end | %s |" % ("%.3f s" % report["recovery_s"] if report.get("recovery_s") else "never"),
        "| findings | %s |" % ("; ".join(report["findings"]) or "none"),
    ]
    print("\n".join(["| | |", "|---|---|", *rows]))


if __name__ == "__main__":
    main()
