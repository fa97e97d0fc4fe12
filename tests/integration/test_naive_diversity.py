#!/usr/bin/env python3
"""D2, D3, D5, D6, D7: the diversity policy ends every request at the same nanosecond as the paper's rules in an independent Python
program (tests/python/naive_diversity.py), on random pipelines, loads and options."""
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
CASES = int(os.environ.get("TUTTI_TEST_CASES", "120"))
REQUESTS = 150
EXPERIMENT = """
title: "naive" seed: 1 duration_s: 1000 warm_up_s: 0
device { executors: %d }
model { name: "M" max_batch: %d slo_ms: 1000000 step_file: "steps.csv" }
load { rate: 1 }
policy { name: "diversity" }
"""


def draw_stages(prng, most):
    """Stages of unlike cost: most have a fixed part, so that large batches pay; in others a row costs more the more rows there
    are, so that a batch that comes there is split."""
    stages, steep = [], prng.randrange(4) == 0
    for _ in range(prng.randrange(1, 6)):
        fixed, each = prng.randrange(1000, 3000000), prng.randrange(1000, 400000)
        if steep or prng.randrange(6) == 0:
            fixed, curve = prng.randrange(1, 20000), prng.randrange(1, 40000)
            stages.append([fixed + each * rows + curve * rows * rows for rows in range(1, most + 1)])
        else:
            full = prng.randrange(1, most + 1)
            stages.append([fixed + each * max(rows, full) + rows for rows in range(1, most + 1)])
    lengths = (8, 16, 32) if prng.randrange(3) == 0 else (1,)
    return [{length: [ns * (8 + length) // 9 for ns in own] for length in lengths} for own in stages]


def draw(prng):
    most = prng.choice((1, 4, 8, 16))
    stages = draw_stages(prng, most)
    rules = naive.Rules(bs_max=prng.randrange(1, most + 1), pairs=prng.randrange(1, 4))
    rules.window = prng.choice((0, 0, prng.randrange(1, 4000000)))
    rules.comp_wait = prng.choice((-1, -1, prng.randrange(0, 6000000)))
    if len(stages[0]) > 1:
        rules.width = prng.choice((0, 8, prng.randrange(1, 33)))
    rules.stretch, rules.split = prng.randrange(4) > 0, prng.randrange(4) > 0
    executors = prng.choice((len(stages), len(stages), prng.randrange(1, 2 * len(stages) + 1)))
    whole = sum(own[max(own)][rules.bs_max - 1] for own in stages)
    gap = max(1.0, whole / rules.bs_max * prng.choice((0.3, 0.8, 1.5, 4)))
    at, arrivals = 0, []
    for _ in range(REQUESTS):
        at += int(prng.expovariate(1 / gap)) if prng.randrange(5) else 0
        arrivals.append((at, prng.randrange(1, max(stages[0]) + 1)))
    return stages, rules, executors, arrivals


def served(stages, rules, executors, arrivals):
    """When the program ended each request."""
    options = {"bs_max": rules.bs_max, "pairs": rules.pairs, "window": f"{rules.window}ns"}
    options |= {"stretch": "on" if rules.stretch else "off", "split": "on" if rules.split else "off"}
    options |= {"input": "on", "width": rules.width} if rules.width > 0 else {}
    options |= {"comp_wait": f"{rules.comp_wait}ns"} if rules.comp_wait >= 0 else {}
    files = {"steps.csv": [("static", {length: own[length] for length in own}) for own in stages]}
    rows = [{"at_ns": at, "model": "M", "input_length": length, "deadline_ns": 10**12} for at, length in arrivals]
    outcomes = drawn_worlds.run(EXPERIMENT % (executors, rules.bs_max), files, rows, *drawn_worlds.options_of(**options))[1]
    return [end for end, _ in outcomes]


class NaiveDiversity(unittest.TestCase):
    def test_random_pipelines(self):
        for case in range(CASES):
            stages, rules, executors, arrivals = draw(random.Random("%d %d" % (SEED, case)))
            expected = [request.ended_at for request in naive.simulate(stages, arrivals, rules, executors)]
            found = served(stages, rules, executors, arrivals)
            what = "seed %d, case %d: %d stages, %d executors, %s" % (SEED, case, len(stages), executors, rules)
            self.assertEqual(len(found), REQUESTS, what)
            for request, (ours, theirs) in enumerate(zip(found, expected)):
                self.assertEqual(ours, theirs, "%s, request %d" % (what, request))


if __name__ == "__main__":
    print("seed %d" % SEED)
    unittest.main()
