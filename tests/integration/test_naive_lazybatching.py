#!/usr/bin/env python3
"""L1-L5: the lazy policy runs the same tasks at the same nanoseconds as the paper's rules in an independent Python program
(tests/python/naive_lazybatching.py): the paper's models at loads at which batches form, and drawn worlds with every option."""
# plain build only: minutes of simulation, whose unit tests run under sanitizers
import csv
import os
import pathlib
import random
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "python"))
import drawn_worlds  # noqa: E402
import naive_lazybatching as naive  # noqa: E402

SEED = int(os.environ.get("TUTTI_SEED", "20210228"))
CASES = int(os.environ.get("TUTTI_TEST_CASES", "250"))
LONGEST_OUTPUT = 6
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


def options_of(rules):
    return drawn_worlds.options_of(
        slack=rules.slack,
        votes=rules.votes,
        patience=rules.patience / 1000,
        max_batch=rules.max_batch,
        foreign=rules.foreign,
        coverage=rules.coverage / 100,
        dec_timesteps=rules.dec_timesteps,
        drop="deadline" if rules.drop else "none",
    )


def served(experiment, name, arrivals, rules):
    """When the program ended each request."""
    with tempfile.TemporaryDirectory() as folder:
        given, columns = pathlib.Path(folder, "arrivals.csv"), ("at_ns", "input_length", "output_length", "deadline_ns")
        drawn_worlds.arrivals_file(given, [{"model": name, **dict(zip(columns, arrival))} for arrival in arrivals])
        path = ROOT / "experiments" / "lazybatching" / experiment
        return [end for end, _ in drawn_worlds.served(path, "--arrivals", given, *options_of(rules))[1]]


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
        found = served(f"{model}.pbtxt", name, arrivals, rules)
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


# ---- drawn worlds: several models, several executors, every option ----


def draw_tables(prng, most, kinds, unit):
    """Step times that never fall with the rows; some steps gain by batches, some nothing."""
    tables = []
    for _ in kinds:
        fixed = unit * prng.randrange(1, 2000000 // unit)
        each = unit * prng.choice((1, prng.randrange(1, max(2, 600000 // unit))))
        tables.append([fixed + each * rows for rows in range(1, most + 1)])
    return tables


def draw_model(prng, rules, unit=1):
    """A model, and how it is described: its message, and its files."""
    most = prng.choice((1, 2, 4, 8, 16))
    kinds = ["static"] * prng.randrange(1, 6)
    if prng.randrange(3) == 0:
        kinds = prng.choice((["static", "encoder", "encoder", "static"], ["encoder", "decoder", "decoder"], ["static", "decoder", "static"]))
    tables = draw_tables(prng, most, kinds, unit)
    own_timesteps = prng.choice((0, prng.randrange(1, LONGEST_OUTPUT + 1)))
    outputs = sorted(prng.randrange(1, LONGEST_OUTPUT + 1) for _ in range(100)) + [LONGEST_OUTPUT]
    table_of = [naive.Table({0: dict(enumerate(table, 1))}, most) for table in tables]
    own = naive.Model(kinds, table_of, most, outputs, own_timesteps or rules.dec_timesteps, rules.coverage)
    return own, own_timesteps, [(kind, {0: table}) for kind, table in zip(kinds, tables)], outputs


def described(number, own, own_timesteps):
    lengths = f'lengths {{ file: "lengths{number}.csv" input: "output" output: "output" }} dec_timesteps: {own_timesteps}'
    recurrent = lengths if set(own.kinds) != {"static"} else ""
    return f'model {{ name: "{number}" max_batch: {own.max_batch} step_file: "{number}.csv" {recurrent} }}\n'


def draw_rules(prng):
    return naive.Rules(
        slack=prng.choice(("remaining", "published", "curves")),
        votes=prng.choice(("feasible", "timely", "all")),
        patience=prng.choice((0, 0, 500, 1000, 3000)),
        max_batch=prng.choice((1, 3, 64, 64)),
        foreign=prng.choice(("shorter", "slack", "never", "turns")),
        drop=prng.randrange(3) == 0,
        coverage=prng.choice((90, prng.randrange(101))),
        dec_timesteps=prng.choice((0, 0, prng.randrange(1, LONGEST_OUTPUT + 1))),
    )


def draw_requests(prng, models, rules):
    requests, at = [], 0
    pace, slo = prng.choice((100000, 1000000, 4000000)), prng.choice((2, 5, 20))
    rows, exits = prng.randrange(3) == 0, prng.randrange(3) == 0
    for number in range(prng.randrange(1, 60)):
        at += prng.choice((0, prng.randrange(1, pace)))
        model = prng.choice(models)
        request = naive.Request(number, at, prng.randrange(1, 6), prng.randrange(1, LONGEST_OUTPUT + 1), naive.NEVER, model, since=at)
        request.rows = prng.randrange(1, min(3, model.max_batch) + 1) if rows else 1
        if prng.randrange(8):
            request.deadline = at + int(request.needs() * prng.choice((1, prng.uniform(0.5, slo), prng.uniform(0.5, slo))))
        if prng.randrange(12) == 0:
            request.cancel = at + prng.randrange(1, 6000000)
        if exits and set(model.kinds) == {"static"} and prng.randrange(3) == 0:
            request.exit_step = prng.randrange(model.steps)
            behind = range(request.exit_step + 2, model.steps)
            request.exit_to = prng.choice((0, prng.choice(behind))) if behind else 0
        requests.append(request)
    return requests


def draw_decisive(prng, models, unit):
    """Deadlines that the sums of equation 2 just keep or just miss: what several requests need, in whole units."""
    requests, at = [], 0
    whole = sum(naive.Request(0, 0, 3, 3, naive.NEVER, model).needs() for model in models) // len(models)
    slo = prng.choice((2, 4, 8))
    for number in range(60):
        at += unit * round(prng.expovariate(1) * whole * prng.choice((0.1, 0.5, 1)) / unit)
        model = prng.choice(models)
        request = naive.Request(number, at, prng.randrange(1, 6), prng.randrange(1, LONGEST_OUTPUT + 1), naive.NEVER, model, since=at)
        request.deadline = at + unit * round(max(whole, request.needs()) * prng.uniform(1, slo) / unit)
        requests.append(request)
    return requests


class DrawnWorlds(unittest.TestCase):
    """L1-L5: several models and executors, rows, cancellations, exits, every option; all tasks, and every request's end."""

    def compare(self, what, rules, executors, drawn_models, requests):
        models = [own for own, *_ in drawn_models]
        text = f'title: "drawn" device {{ count: {executors} }} load {{ rate: 1 }} policy {{ name: "lazy" }}\n'
        files = {}
        for k, (own, own_timesteps, steps, outputs) in enumerate(drawn_models):
            text += described(k, own, own_timesteps)
            files[f"{k}.csv"] = steps
            files[f"lengths{k}.csv"] = "percentile,output\n" + "".join(f"{p},{n}\n" for p, n in enumerate(outputs))
        rows = [
            {
                "at_ns": r.at,
                "model": models.index(r.model),
                "input_length": r.length,
                "output_length": r.output,
                "rows": r.rows,
                "deadline_ns": r.deadline,
                "cancel_at_ns": r.cancel,
                "exit_step": r.exit_step if r.exit_step >= 0 else naive.NEVER,
                "exit_to": r.exit_to or naive.NEVER,
            }
            for r in requests
        ]
        tasks, outcomes = drawn_worlds.run(text, files, rows, *options_of(rules))
        expected = naive.run(models, requests, rules, executors)
        what = f"{what}: {rules}, {executors} executors"
        drawn_worlds.compare(self, what, tasks, [(*row[:3], str(row[3]), *row[4:]) for row in expected])
        drawn_worlds.compare(self, what, outcomes, [(r.ended_at, naive.outcome(r)) for r in requests])
        return len(tasks)

    def compare_any(self, case):
        prng = random.Random(f"{SEED} {case}")
        rules, executors = draw_rules(prng), prng.randrange(1, 4)
        drawn_models = [draw_model(prng, rules) for _ in range(prng.randrange(1, 4))]
        requests = draw_requests(prng, [own for own, *_ in drawn_models], rules)
        return self.compare(f"seed {SEED}, case {case}", rules, executors, drawn_models, requests)

    def compare_published(self, case):
        """One executor and several models, so that entries wait below others before they begin."""
        prng = random.Random(f"{SEED} published {case}")
        rules, unit = draw_rules(prng), prng.choice((1, 200000))
        rules.slack, rules.foreign = "published", prng.choice(("slack", "shorter"))
        rules.patience, rules.drop, rules.max_batch = 0, False, 64
        drawn_models = [draw_model(prng, rules, unit) for _ in range(prng.randrange(2, 4))]
        requests = draw_decisive(prng, [own for own, *_ in drawn_models], unit)
        return self.compare(f"seed {SEED}, published case {case}", rules, 1, drawn_models, requests)

    def test_drawn_worlds(self):
        self.assertGreater(sum(self.compare_any(case) for case in range(CASES)), 10 * CASES)

    def test_equation_2_decides(self):
        """L2: the sums of whole graphs, and T_wait, which ends where a request's first task begins."""
        count = CASES // 4 + 1
        self.assertGreater(sum(self.compare_published(case) for case in range(count)), 10 * count)


if __name__ == "__main__":
    print(f"seed {SEED}")
    unittest.main()
