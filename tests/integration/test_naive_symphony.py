#!/usr/bin/env python3
"""S1-S3, S5: symphony, eager and timeout run the same batches at the same nanoseconds as an independent Python program
(tests/python/naive_symphony.py), for seconds of load, so that the early drop's rates count; several models and executors, rows,
every form of the early drop."""
# plain build only: minutes of simulation, whose unit tests run under sanitizers
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
        models.append(naive.Model(f"m{number}", number, alpha, beta, slo, largest))
    return models


def drawn_requests(prng, models, executors):
    """About what the executors can do, or less, or more, in bursts or not, for two seconds or so."""
    size = {model.name: max(1, min(model.largest, (model.slo - model.beta) // 2 // model.alpha)) for model in models}
    capacity = sum(executors * size[m.name] / m.latency(size[m.name]) for m in models) / len(models)
    pace, bursts, wide = prng.choice((0.4, 0.8, 1.0, 1.3)) * capacity, prng.random() < 0.3, prng.random() < 0.3
    requests, at = [], 0
    for number in range(prng.randrange(50, 1200)):
        at += int(prng.expovariate(pace)) * (prng.choice((0, 0, 3)) if bursts else 1) + 1
        if at > 2_500_000_000:
            break
        model = prng.choice(models)
        rows = prng.randrange(1, min(3, model.largest) + 1) if wide else 1
        requests.append(naive_world.Request(number, at, model, rows=rows, deadline=at + model.slo))
    return requests


def served(models, asked, rules, executors):
    options = {"drop": rules.drop, "reform_at_latest": "on" if rules.reform else "off"}
    if rules.policy == "timeout":
        options["delay"] = f"{rules.delay}ns"
    return drawn_worlds.run_linear(models, asked, rules.policy, executors, options)


class NaiveSymphony(unittest.TestCase):
    def test_drawn_worlds(self):
        count, outcomes = 0, set()
        for seed in range(SEED, SEED + CASES):
            prng = random.Random(seed)
            models, executors = drawn_models(prng), prng.randrange(1, 5)
            rules = naive.Rules(
                prng.choice(("symphony", "symphony", "eager", "timeout")),
                prng.choice(("prefix", "target", "target", "staggered")),
                prng.random() < 0.5,
                1000 * prng.randrange(20000),
            )
            asked = drawn_requests(prng, models, executors)
            found = served(models, asked, rules, executors)
            expected = naive.simulate(models, asked, rules, executors=executors)
            for ours, theirs in zip(found, expected):
                drawn_worlds.compare(self, f"seed {seed}: {rules}, {executors} executors", ours, theirs)
            count += len(found[0])
            outcomes |= {(rules.drop, outcome) for _, outcome in found[1]}
        self.assertGreater(count, 20 * CASES)
        for drop in "prefix", "target", "staggered":
            self.assertIn((drop, "dropped"), outcomes)
        print(f"{CASES} worlds, {count} batches alike")


if __name__ == "__main__":
    print(f"seed {SEED}")
    unittest.main()
