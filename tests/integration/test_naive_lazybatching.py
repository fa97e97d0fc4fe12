#!/usr/bin/env python3
"""L1-L4: the lazy policy ends every request at the same nanosecond as the paper's rules in an independent Python program
(tests/python/naive_lazybatching.py): same step times, same arrivals, a load at which batches form."""
import csv
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = os.environ["TUTTI_PROGRAM"]
sys.path.insert(0, str(ROOT / "tests" / "python"))
import naive_lazybatching as naive  # noqa: E402

SEED = int(os.environ.get("TUTTI_SEED", "20210228"))
COUNT = int(os.environ.get("TUTTI_TEST_REQUESTS", "100"))


def quantiles(column):
    with open(ROOT / "data" / "wmt19-lengths.csv", encoding="ascii", newline="") as file:
        return [int(row[column]) for row in csv.DictReader(file)]


def drawn(rate, slo_ns, lengths):
    """`COUNT` Poisson arrivals; a sentence is as long as its translation is."""
    prng, at, arrivals = random.Random(f"{SEED} {rate} {slo_ns}"), 0, []
    for _ in range(COUNT):
        at += max(1, int(prng.expovariate(rate) * 1e9))
        percentile = prng.randrange(1, 101)
        arrivals.append((at, *(column[percentile] for column in lengths), at + slo_ns))
    return arrivals


def served(experiment, name, arrivals, options):
    """When the program ended each request."""
    with tempfile.TemporaryDirectory() as folder:
        given, outcomes = pathlib.Path(folder, "arrivals.csv"), pathlib.Path(folder, "outcomes.csv")
        rows = "".join(f"{at},{name},{n},{m},{deadline}\n" for at, n, m, deadline in arrivals)
        given.write_text("at_ns,model,input_length,output_length,deadline_ns\n" + rows)
        sets = [word for option in options for word in ("--set", option)]
        path = ROOT / "experiments" / "lazybatching" / experiment
        command = [PROGRAM, "experiment", path, "--arrivals", given, "--outcomes", outcomes, *sets]
        answer = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=60)
        if answer.returncode:
            raise AssertionError(answer.stderr)
        with open(outcomes, encoding="ascii", newline="") as file:
            return [int(row["finished_ns"]) for row in csv.DictReader(file)]


class NaiveLazyBatching(unittest.TestCase):
    def compare(self, model, rate, slo_ms, slack, patience=0, max_batch=64, votes="feasible"):
        name = {"gnmt": "GNMT", "transformer": "Transformer", "resnet50": "ResNet-50"}[model]
        german = quantiles("german")
        lengths = (quantiles("english"), german) if model != "resnet50" else ([1] * 101, [1] * 101)
        arrivals = drawn(rate, slo_ms * 1000000, lengths)
        table = ROOT / "data" / f"npu-{model}.csv"
        own = naive.Model.read(table, 64, german if model != "resnet50" else None)
        rules = naive.Rules(slack=slack, patience=patience, max_batch=max_batch, votes=votes)
        expected = [request.ended_at for request in naive.simulate(own, arrivals, rules)]
        options = [f"option.slack={slack}", f"option.patience={patience / 1000}", f"option.max_batch={max_batch}"]
        options.append(f"option.votes={votes}")
        found = served(f"{model}.pbtxt", name, arrivals, options)
        for request, (ours, theirs) in enumerate(zip(found, expected)):
            self.assertEqual(ours, theirs, f"seed {SEED}: {model} at {rate} r/s, {rules}, request {request}")
        self.assertEqual(len(found), COUNT)

    def test_as_published(self):
        for model, rate, slo_ms in (("gnmt", 400, 100), ("gnmt", 1000, 60), ("transformer", 2000, 30), ("resnet50", 1500, 20)):
            self.compare(model, rate, slo_ms, "remaining")

    def test_equation_2_to_the_letter(self):
        self.compare("gnmt", 400, 60, "published", votes="all")
        self.compare("resnet50", 1500, 20, "published")

    def test_the_oracle(self):
        self.compare("gnmt", 700, 60, "curves")
        self.compare("gnmt", 700, 60, "curves", votes="timely")
        self.compare("transformer", 2000, 20, "curves")

    def test_votes(self):
        """With 14 ms a sentence of many words has no chance, one of few words has."""
        for votes in "feasible", "timely", "all":
            self.compare("gnmt", 1000, 14, "remaining", votes=votes)
            self.compare("gnmt", 400, 14, "published", votes=votes)

    def test_patience(self):
        self.compare("gnmt", 1000, 60, "curves", patience=1000)
        self.compare("resnet50", 1800, 20, "remaining", patience=500)

    def test_the_largest_batch(self):
        self.compare("gnmt", 1000, 100, "remaining", max_batch=8)
        self.compare("transformer", 2000, 100, "curves", max_batch=3)


if __name__ == "__main__":
    print(f"seed {SEED}")
    unittest.main()
