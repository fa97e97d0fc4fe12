#!/usr/bin/env python3
"""S1-S5: symphony, eager and timeout run the same batches at the same nanoseconds as an independent Python program
(tests/python/naive_symphony.py), for seconds of load, so that the early drop's rates count; several models and executors, rows,
deadlines, cancellations, executors that come later, messages that take time, every option."""
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
import naive_symphony as naive  # noqa: E402
import naive_world  # noqa: E402

SEED = int(os.environ.get("TUTTI_SEED", "20230814"))
CASES = int(os.environ.get("TUTTI_TEST_CASES", "60"))


def drawn_models(prng):
    models = []
    for number in range(prng.randrange(1, 4)):
        alpha, beta, largest = 1000 * prng.randrange(100, 3000), 1000 * prng.randrange(1000, 12000), prng.choice((4, 16, 64))
        slo = 1000 * int((alpha * prng.randrange(1, 12) + 2 * beta) / 1000)
        slo = naive_world.NEVER if prng.random() < 0.05 else slo
        delay = 1000 * prng.randrange(1, 20000) if prng.random() < 0.2 else 0
        models.append(naive.Model(f"m{number}", number, alpha, beta, slo, largest, delay))
    return models


def drawn_requests(prng, models, executors):
    """About what the executors can do, or less, or more, in bursts or not, for two seconds or so."""
    size = {m.name: max(1, min(m.largest, (m.slo - m.beta) // 2 // m.alpha)) for m in models}
    capacity = sum(executors * size[m.name] / m.latency(size[m.name]) for m in models) / len(models)
    pace, bursts, wide = prng.choice((0.4, 0.8, 1.0, 1.3)) * capacity, prng.random() < 0.3, prng.random() < 0.3
    requests, at = [], 0
    for number in range(prng.randrange(50, 1200)):
        at += int(prng.expovariate(pace)) * (prng.choice((0, 0, 3)) if bursts else 1) + 1
        if at > 2_500_000_000:
            break
        model = prng.choice(models)
        rows = prng.randrange(1, min(3, model.largest) + 1) if wide else 1
        requests.append(naive_world.Request(number, at, model, rows=rows, deadline=min(at + model.slo, naive_world.NEVER)))
    drawn_worlds.vary(prng, requests)
    return requests


def drawn_rules(prng):
    return naive.Rules(
        prng.choice(("symphony", "symphony", "eager", "timeout")),
        prng.choice(("prefix", "target", "target", "staggered")),
        prng.random() < 0.5,
        1000 * prng.randrange(20000),
        prng.choice((0, prng.randrange(1, 1001))),
    )


def served(models, asked, rules, around):
    options = {"drop": rules.drop, "reform_at_latest": "on" if rules.reform else "off"}
    if rules.policy == "timeout":
        options.update(delay=f"{rules.delay}ns", share=rules.share / 1000)
    return drawn_worlds.run_linear(models, asked, rules.policy, options, **around)


class NaiveSymphony(unittest.TestCase):
    def test_drawn_worlds(self):
        count, outcomes, effects = 0, set(), collections.Counter()
        for seed in range(SEED, SEED + CASES):
            prng = random.Random(seed)
            models, rules = drawn_models(prng), drawn_rules(prng)
            around = drawn_worlds.drawn_around(prng, 10_000_000, 1_000_000)
            asked = drawn_requests(prng, models, len(around["executors"]))
            world = naive.World(models, asked, rules, **around)
            expected, found = world.run(), served(models, asked, rules, around)
            for ours, theirs in zip(found, expected):
                drawn_worlds.compare(self, f"seed {seed}: {rules}, {around}", ours, theirs)
            count += len(found[0])
            outcomes |= {(rules.drop, outcome) for _, outcome in found[1]}
            effects += world.effects
        self.assertGreater(count, 20 * CASES)
        for drop in "prefix", "target", "staggered":
            self.assertIn((drop, "dropped"), outcomes)
        self.assertIn("cancelled", {outcome for _, outcome in outcomes})
        for rule in "ahead", "passed", "rest", "share", "kept":
            self.assertGreater(effects[rule], 0, rule)
        print(f"{CASES} worlds, {count} batches alike, {dict(effects)}")


if __name__ == "__main__":
    print(f"seed {SEED}")
    unittest.main()
