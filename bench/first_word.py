#!/usr/bin/env python3
"""When a decoder's words are ready, in virtual time: what clients would see if the server sent each word alone.

    bench/first_word.py [EXPERIMENT] [--rates 8,16,20,24]

Runs the contenders of experiments/compare/decoder-one-core.pbtxt at each rate and reads from `tutti experiment --tasks` when
each request's cells of the last step ended: the first one is its first word; between two of them it waits for the next.
"""
import argparse
import csv
import pathlib
import re
import subprocess
import tempfile

from cell_load import percentile
from own_server import ROOT

DECODER = ROOT / "experiments" / "compare" / "decoder-one-core.pbtxt"


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("experiment", nargs="?", default=DECODER, type=pathlib.Path)
    parser.add_argument("--rates", default="8,16,20,24")
    parser.add_argument("--duration", default="110", help="seconds; the first ten do not count (110)")
    parser.add_argument("--tutti", default=str(ROOT / "build" / "tutti"))
    return parser.parse_args()


def contenders(experiment):
    """{name: its settings}"""
    found = {}
    for name, rest in re.findall(r'^contender \{ name: "([^"]+)" (.*)\}$', experiment.read_text(), re.M):
        found[name] = re.findall(r'set: "([^"]+)"', rest)
    return found


def without_contenders(experiment, path):
    """The experiment alone, at another place."""
    text = re.sub(r"^(contender|sweep) .*$", "", experiment.read_text(), flags=re.M)
    path.write_text(text.replace('"../../data', '"%s/data' % ROOT))


def run(options, folder, rate, settings):
    """Milliseconds from arrival to the first word, of each request, and from word to word."""
    tasks, outcomes = folder / "tasks.csv", folder / "outcomes.csv"
    command = [options.tutti, "experiment", folder / "one.pbtxt", "--tasks", tasks, "--outcomes", outcomes]
    for setting in ["rate=" + rate, "duration_s=" + options.duration, *settings]:
        command += ["--set", setting]
    subprocess.run([str(word) for word in command], check=True, capture_output=True)
    with open(outcomes) as file:
        arrived = {row["request"]: int(row["arrived_ns"]) for row in csv.DictReader(file)}
    with open(tasks) as file:
        rows = [(row["step"], int(row["end_ns"]), row["requests"]) for row in csv.DictReader(file)]
    last_step, said, first, gaps = max(row[0] for row in rows), {}, [], []
    for step, ended, requests in rows:
        for request in requests.split() if step == last_step else ():
            if arrived[request] < 10e9:
                continue
            if request in said:
                gaps.append((ended - said[request]) / 1e6)
            else:
                first.append((ended - arrived[request]) / 1e6)
            said[request] = ended
    return first, gaps


def main():
    options = parse_arguments()
    print("| rate | contender | first word after, ms: p50 | p90 | p99 | from word to word: p50 | p99 | max |")
    with tempfile.TemporaryDirectory() as folder:
        without_contenders(options.experiment, pathlib.Path(folder, "one.pbtxt"))
        for rate in options.rates.split(","):
            for name, settings in contenders(options.experiment).items():
                first, gaps = run(options, pathlib.Path(folder), rate, settings)
                figures = [percentile(first, p) for p in (0.5, 0.9, 0.99)] + [percentile(gaps, p) for p in (0.5, 0.99, 1)]
                print("| %s/s | %s | %s |" % (rate, name, " | ".join("%.1f" % f for f in figures)), flush=True)


if __name__ == "__main__":
    main()
