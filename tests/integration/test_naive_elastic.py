#!/usr/bin/env python3
"""E1, E2, E4-E6: the elastic policy runs the same batches on the same workers at the same nanoseconds as E2bird's rules in an
independent Python program (tests/python/naive_elastic.py), on drawn worlds with every option."""
# plain build only: minutes of simulation, whose unit tests run under sanitizers
import collections
import os
import pathlib
import random
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "python"))
import drawn_worlds  # noqa: E402
import naive_elastic as naive  # noqa: E402
from naive_device import WHOLE  # noqa: E402

SEED = int(os.environ.get("TUTTI_SEED", "20230614"))
CASES = int(os.environ.get("TUTTI_TEST_CASES", "250"))
LENGTHS = (8, 16, 32)


# ---- drawing ----


def workers_by_default(count):
    return [1 if number < 2 else 1 << (number - 1) for number in range(count)]


def draw_workers(prng):
    if prng.randrange(5) == 0:
        return workers_by_default(prng.randrange(1, 7))
    largest = prng.choice((0, 1, 2, 3, 3, 4, 4))
    return [1 << prng.randrange(largest + 1) for _ in range(prng.choice((1, 2, 3, 5, 6, 8, 9)))]


def draw_configurations(prng, workers):
    """Some loads, each with some choice of the workers that sums to it."""
    groups = []
    for total in naive.TOTALS:
        found = list(naive.choices(sorted(workers, reverse=True), total))
        if found and prng.randrange(3):
            groups.append(list(prng.choice(found)))
    return groups or None


def draw_rules(prng, workers):
    rules = naive.Rules(workers, drop=prng.randrange(3) == 0, max_inf=prng.choice((0, 0, max(workers) + prng.randrange(0, 8))))
    if prng.randrange(3):
        rules.variant, rules.load = "enhanced", prng.choice(("pending", "pending", "waiting"))
        rules.configurations = draw_configurations(prng, workers) if prng.randrange(3) == 0 else None
        rules.qos = rules.configurations is None and prng.randrange(3) > 0
    return rules


def draw_steps(prng, most):
    """Small batches may not fill the device; the larger a batch, the more of it it takes."""
    steps = []
    for _ in range(prng.choice((1, 1, 1, 2, 3))):
        fixed, each, part = prng.randrange(1, 2000000), prng.randrange(1, 400000), prng.choice((1000, 30000, 150000, 1000000))
        full = prng.randrange(1, most + 1)
        times = [fixed + each * max(rows, full) + prng.randrange(1, 20) * rows for rows in range(1, most + 1)]
        times = [max(times[: rows + 1]) for rows in range(most)]
        lengths = LENGTHS if prng.randrange(4) == 0 else (1,)
        table = {length: [ns * (8 + length) // 9 for ns in times] for length in lengths}
        steps.append((table, [min(WHOLE, part * rows) for rows in range(1, most + 1)]))
    return steps


def draw_models(prng, workers):
    models = []
    for number in range(prng.choice((1, 1, 1, 2, 3))):
        most = prng.choice((max(workers), max(workers), 4, 20))
        model = naive.Model(number, draw_steps(prng, most), most)
        if prng.randrange(3):  # the largest workers keep it alone, and perhaps not beside others
            model.slo = int(model.whole(min(most, max(workers)), max(LENGTHS)) * prng.uniform(0.9, 2))
        model.late = prng.choice((None, None, "DROP", "SERVE"))
        model.input_bytes, model.output_bytes = (prng.choice((0, 0, prng.randrange(1, 200000))) for _ in range(2))
        models.append(model)
    return models


def draw_setting(prng, count, most_rows):
    def copies():
        return prng.choice((None, (1000 * prng.randrange(20), prng.choice((1, 3, 12)))))

    setting = naive.Setting([(count, 0)], copy_in=copies(), copy_out=copies())
    if prng.randrange(3):
        setting.pool_slots = prng.choice((most_rows, most_rows + prng.randrange(20), 64, 256))
    elif count > 1 and prng.randrange(2):
        first = prng.randrange(1, count)
        setting.devices = [(first, 0), (count - first, 1000000 * prng.choice((0, prng.randrange(10))))]
    if prng.randrange(4) == 0:
        setting.delay = (1000 * prng.randrange(500), 1000 * prng.choice((0, prng.randrange(50))))
    return setting


def draw_requests(prng, models, workers, most_rows):
    """About as many as the workers can serve, in bursts; many do not come alone."""
    requests, at = [], 0
    whole = models[0].whole(models[0].max_batch, 1) / models[0].max_batch
    gap = max(1.0, whole * prng.choice((0.2, 0.6, 1, 2)))
    rows, slo, cancels = prng.randrange(2) == 0, prng.choice((0, 2, 6)), prng.choice((2, 12, 12))
    for number in range(prng.randrange(1, 120)):
        at += int(prng.expovariate(1 / gap)) if prng.randrange(4) else 0
        model = prng.choice(models)
        r = naive.Request(number, at, model, rows=prng.randrange(1, most_rows + 1) if rows else 1)
        r.length = prng.choice((1, 8, 9, 40))
        if slo and prng.randrange(8):
            r.deadline = at + int(r.alone() * prng.uniform(0.5, slo) + prng.choice((0, whole * max(workers))))
        elif model.slo < naive.NEVER:
            r.deadline = at + model.slo
        if prng.randrange(cancels) == 0:
            r.cancel = at + prng.randrange(0, int(4 * whole * max(workers)))
        requests.append(r)
    return requests


# ---- the world as the program reads it ----


def described_copies(name, copies):
    return f"{name} {{ fixed_us: {copies[0] // 1000} gb_per_s: {copies[1]} }} " if copies else ""


def described(models, setting):
    text = 'title: "drawn" load { rate: 1 } policy { name: "elastic" }\n'
    text += f"network {{ control_us: {setting.delay[0] // 1000} data_us_per_row: {setting.delay[1] // 1000} }}\n"
    for executors, at in setting.devices:
        text += f"device {{ executors: {executors} busy_until_ms: {at // 1000000} pool_slots: {setting.pool_slots} "
        text += described_copies("copy_in", setting.copy_in) + described_copies("copy_out", setting.copy_out) + "}\n"
    for m in models:
        text += f'model {{ name: "{m.number}" max_batch: {m.max_batch} step_file: "{m.number}.csv" '
        text += f"input_bytes: {m.input_bytes} output_bytes: {m.output_bytes} "
        text += (f"slo_ms: {m.slo / 1e6:.6f} " if m.slo < naive.NEVER else "") + (f"late: {m.late} " if m.late else "") + "}\n"
    return text


def options_of(rules):
    values = {"variant": rules.variant, "drop": "deadline" if rules.drop else "none"}
    if rules.workers != workers_by_default(len(rules.workers)):
        values["workers"] = ",".join(map(str, rules.workers))
    values |= {"max_inf": rules.max_inf} if rules.max_inf else {}
    values |= {"load": rules.load} if rules.variant == "enhanced" else {}
    values |= {"qos": "on"} if rules.qos else {}
    values |= {"configurations": ";".join(",".join(map(str, sizes)) for sizes in rules.configurations)} if rules.configurations else {}
    return drawn_worlds.options_of(**values)


def arrivals_of(requests):
    """Priorities change nothing: a ring is served in the order of its slots."""
    levels = 1 if any(r.model.late for r in requests) else 3
    return [
        {
            "at_ns": r.at,
            "model": r.model.number,
            "input_length": r.length,
            "rows": r.rows,
            "deadline_ns": r.deadline,
            "cancel_at_ns": r.cancel,
            "priority": r.number % levels,
        }
        for r in requests
    ]


class NaiveElastic(unittest.TestCase):
    def compare(self, case, seen):
        prng = random.Random(f"{SEED} {case}")
        workers = draw_workers(prng)
        rules, models = draw_rules(prng, workers), draw_models(prng, workers)
        most_rows = min(prng.choice((2, 4, 20)), *(m.max_batch for m in models))
        setting = draw_setting(prng, len(workers), most_rows)
        requests = draw_requests(prng, models, workers, most_rows)
        files = {f"{m.number}.csv": [("static", *step) for step in m.steps] for m in models}
        tasks, outcomes = drawn_worlds.run(described(models, setting), files, arrivals_of(requests), *options_of(rules))
        expected = naive.run(models, requests, rules, setting)
        what = f"seed {SEED}, case {case}: {rules}, {setting}"
        drawn_worlds.compare(self, what, tasks, [(*row[:3], str(row[3]), *row[4:]) for row in expected])
        drawn_worlds.compare(self, what, outcomes, [(r.ended_at, naive.outcome(r)) for r in requests])
        seen.update(outcome for _, outcome in outcomes)
        return len(tasks)

    def test_drawn_worlds(self):
        seen = collections.Counter()
        self.assertGreater(sum(self.compare(case, seen) for case in range(CASES)), 10 * CASES)
        self.assertLessEqual({"ok", "late", "dropped", "cancelled"}, set(seen), seen)


if __name__ == "__main__":
    print(f"seed {SEED}")
    unittest.main()
