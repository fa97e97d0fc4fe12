#!/usr/bin/env python3
"""Goodput tables in Markdown, with the share of the possible: each FILE is run by `tutti compare` if it has contenders, else by
`tutti experiment`, both with --goodput --bound. A cell is "goodput (share of the possible)"; "-": no bound was proved."""
import argparse
import json
import pathlib
import subprocess


def points_of(program, path, folder):
    """The points of one file, each with its contender or policy and the rest of its values."""
    compared = "contender {" in path.read_text()
    command = [program, "compare" if compared else "experiment", path, "--goodput", "--bound", "--json"]
    if folder:
        command += ["--resume", folder / (path.stem + ".state")]
    done = subprocess.run(list(map(str, command)), stdout=subprocess.PIPE, text=True, check=True)
    name = "contender" if compared else "policy"
    for point in json.loads(done.stdout)["points"]:
        place = point["point"]
        rest = ", ".join("%s %s" % (key, value) for key, value in place.items() if key != name)
        yield place.get(name, ""), rest, point


def cell(point):
    share = point.get("share_of_possible")
    return "%.0f (%s)" % (point["goodput_per_s"], "-" if share is None else "%.1f %%" % (100 * share))


def plan_cell(point):
    planned, impossible = point.get("planned_per_s"), point.get("impossible_per_s")
    return "%.0f (%.1f %%)" % (planned, 100 * planned / impossible) if planned and impossible else "-"


def table(path, points):
    names = list(dict.fromkeys(name for name, _, _ in points))
    columns = list(dict.fromkeys(rest for _, rest, _ in points))
    at = {(name, rest): point for name, rest, point in points}
    yield "| %s | %s |" % (path.stem, " | ".join(columns))
    yield "|" + "---|" * (len(columns) + 1)
    for name in names:
        yield "| %s | %s |" % (name, " | ".join(cell(at[name, rest]) for rest in columns))
    last = names[-1]
    if any("planned_per_s" in at[last, rest] for rest in columns):
        yield "| a plan that knows the future | %s |" % " | ".join(plan_cell(at[last, rest]) for rest in columns)
    bounds = (at[last, rest].get("impossible_per_s") for rest in columns)
    yield "| impossible | %s |" % " | ".join("-" if bound is None else "%.0f" % bound for bound in bounds)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", nargs="+", type=pathlib.Path, metavar="FILE")
    parser.add_argument("--program", default="build/tutti")
    parser.add_argument("--resume", type=pathlib.Path, metavar="DIR", help="keep finished searches and bounds there")
    options = parser.parse_args()
    for path in options.file:
        print("\n".join(table(path, list(points_of(options.program, path, options.resume)))), end="\n\n")


if __name__ == "__main__":
    main()
