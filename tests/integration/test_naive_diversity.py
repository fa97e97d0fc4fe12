#!/usr/bin/env python3
"""D2, D3, D5-D8: the diversity policy runs the same tasks at the same nanoseconds, and ends every request as the paper's rules do in an
independent Python program (tests/python/naive_diversity.py), on random pipelines, loads and options."""
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
import naive_diversity as naive  # noqa: E402

SEED = int(os.environ.get("TUTTI_SEED", "20220711"))
CASES = int(os.environ.get("TUTTI_TEST_CASES", "150"))
REQUESTS = 120
LENGTHS = (8, 16, 32)
EXPERIMENT = """
title: "naive" seed: 1 duration_s: 1000 warm_up_s: 0
load { rate: 1 }
policy { name: "diversity" }
"""


def draw_stages(prng, most):
    """Stages of unlike cost: most have a fixed part, so that large batches pay; in others a row costs more the more rows there
    are, so that a batch that comes there is split. Or every row costs the same, and halves are just as fast."""
    stages, steep, linear = [], prng.randrange(4) == 0, prng.randrange(8) == 0
    for _ in range(prng.randrange(1, 6)):
        fixed, each = prng.randrange(1000, 3000000), prng.randrange(1000, 400000)
        if linear:
            stages.append([9 * each * rows for rows in range(1, most + 1)])
        elif steep or prng.randrange(6) == 0:
            fixed, curve = prng.randrange(1, 20000), prng.randrange(1, 40000)
            stages.append([fixed + each * rows + curve * rows * rows for rows in range(1, most + 1)])
        else:
            full = prng.randrange(1, most + 1)
            stages.append([fixed + each * max(rows, full) + rows for rows in range(1, most + 1)])
    lengths = LENGTHS if prng.randrange(5) < 2 else (1,)
    part = prng.choice((1000, 1000, 60000, 300000))
    demands = [min(naive.WHOLE, part * rows) for rows in range(1, most + 1)]
    return [{length: [ns * (8 + length) // 9 for ns in own] for length in lengths} for own in stages], demands


def draw_rules(prng, models, most):
    stages = models[0]
    rules = naive.Rules(bs_max=prng.randrange(1, most + 1), pairs=prng.randrange(1, 4), drop=prng.randrange(4) == 0)
    rules.window = prng.choice((-1, 0, prng.randrange(1, 4000000)))
    rules.comp_wait = prng.choice((-1, -1, prng.randrange(0, 6000000)))
    if len(stages[0][0]) > 1:
        rules.input, rules.width = prng.choice(("off", "off", "on", "pays")), prng.choice((0, 8, prng.randrange(1, 33)))
    rules.stretch, rules.split = prng.choice(("on", "on", "pays", "pays", "off")), prng.randrange(4) > 0
    rules.beside = prng.choice(("always", "always", "always", "pays"))
    return rules


def favour_stretches(prng, models, rules, most):
    """Batches are often stretched, and are often exactly as old as the option allows at some boundary."""
    rules.bs_max, rules.pairs, rules.input, rules.window = most, prng.randrange(2, 4), "off", 0
    rules.stretch, rules.beside, rules.split = prng.choice(("on", "pays", "pays")), "always", prng.randrange(4) == 0
    if prng.randrange(2):
        stages, rows = models[0][0], prng.choice((1, 1, 2))
        rules.comp_wait = sum(own[max(own)][rows - 1] for own in stages[: prng.randrange(1, len(stages) + 1)])


def draw_requests(prng, models, rules):
    pipelines = naive.World(models, [], rules, 1).pipelines
    whole = max(pipeline.whole(rules.bs_max, LENGTHS[-1]) for pipeline in pipelines)
    gap = max(1.0, whole / rules.bs_max * prng.choice((0.3, 0.8, 1.5, 4)))
    rows, exits, cancels, late = (prng.randrange(3) == 0 for _ in range(4))
    at, requests = 0, []
    for number in range(REQUESTS):
        at += int(prng.expovariate(1 / gap)) if prng.randrange(5) else 0
        model = prng.randrange(len(models))
        pipeline, steps = pipelines[model], len(models[model][0])
        request = naive.Request(number, at, model, prng.choice((1, 32, prng.randrange(1, 34))))
        request.rows = prng.randrange(1, min(3, rules.bs_max) + 1) if rows else 1
        if late:
            request.deadline = at + int(pipeline.whole(request.rows, request.length) * prng.uniform(0.8, 8))
        if cancels and prng.randrange(6) == 0:
            request.cancel = at + int(whole * prng.uniform(0, 3))
        if exits and prng.randrange(3) == 0:
            request.exit_step = prng.randrange(steps)
            behind = range(request.exit_step + 2, steps)
            request.exit_to = prng.choice((0, prng.choice(behind))) if behind else 0
        requests.append(request)
    return requests


def draw(prng, stretches):
    most = prng.choice((4, 8, 16) if stretches else (1, 4, 8, 16))
    models = [draw_stages(prng, most) for _ in range(prng.choice((1, 1, 1, 2, 3)))]
    rules = draw_rules(prng, models, most)
    if stretches:
        favour_stretches(prng, models, rules, most)
    count = len(models[0][0])
    executors = prng.choice((count, count, prng.randrange(1, 2 * count + 1)))
    return models, rules, executors, draw_requests(prng, models, rules)


def options_of(rules):
    values = {"bs_max": rules.bs_max, "pairs": rules.pairs, "drop": "deadline" if rules.drop else "none"}
    values |= {"stretch": rules.stretch, "split": "on" if rules.split else "off", "input": rules.input, "beside": rules.beside}
    values |= {"width": rules.width} if rules.input != "off" else {}
    values |= {key: f"{getattr(rules, key)}ns" for key in ("window", "comp_wait") if getattr(rules, key) >= 0}
    return drawn_worlds.options_of(**values)


def served(models, rules, executors, requests):
    """The tasks that the program ran, and how each request ended."""
    text, files = EXPERIMENT + f"device {{ executors: {executors} }}\n", {}
    for number, (stages, demands) in enumerate(models):
        text += f'model {{ name: "{number}" max_batch: {len(demands)} slo_ms: 1000000 step_file: "{number}.csv" }}\n'
        files[f"{number}.csv"] = [("static", own, demands) for own in stages]
    rows = [
        {
            "at_ns": r.at,
            "model": r.model,
            "input_length": r.length,
            "rows": r.rows,
            "deadline_ns": r.deadline if r.deadline < naive.NEVER else 10**15,
            "cancel_at_ns": r.cancel,
            "exit_step": r.exit_step if r.exit_step >= 0 else naive.NEVER,
            "exit_to": r.exit_to or naive.NEVER,
        }
        for r in requests
    ]
    return drawn_worlds.run(text, files, rows, *options_of(rules))


class NaiveDiversity(unittest.TestCase):
    def compare(self, case, seen, stretches=False):
        world = draw(random.Random(f"{SEED} {case} {stretches}"), stretches)
        seen.update(outcome for _, outcome in self.compare_world(f"seed {SEED}, case {case}", *world))

    def compare_world(self, what, models, rules, executors, requests):
        tasks, outcomes = served(models, rules, executors, requests)
        expected = naive.simulate(models, requests, rules, executors)
        what = f"{what}: {[len(own) for own, _ in models]} stages, {executors} executors, {rules}"
        drawn_worlds.compare(self, what, tasks, expected)
        drawn_worlds.compare(self, what, outcomes, [(r.ended_at, naive.outcome(r)) for r in requests])
        return outcomes

    def test_random_pipelines(self):
        seen = collections.Counter()
        for case in range(CASES):
            self.compare(case, seen)
        self.assertLessEqual({"ok", "late", "dropped", "cancelled"}, set(seen), seen)

    def test_stretches(self):
        for case in range(CASES // 2):
            self.compare(case, collections.Counter(), stretches=True)

    def test_newcomers_of_unlike_lengths(self):
        """A stretch is as long as the longest newcomer makes it, not the first."""
        stages = [{length: [length * ns] * 4 for length in (8, 32)} for ns in (125, 250)]
        requests = [naive.Request(number, number, 0, length) for number, length in enumerate((8, 8, 32))]
        rules = naive.Rules(bs_max=4, stretch="pays", split=False)
        self.compare_world("unlike lengths", [(stages, [1000] * 4)], rules, 1, requests)


if __name__ == "__main__":
    print(f"seed {SEED}")
    unittest.main()
