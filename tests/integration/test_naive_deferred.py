#!/usr/bin/env python3
"""deferred and adaptive run the same batches at the same nanoseconds as an independent Python program
(tests/python/naive_deferred.py), for seconds of load below and above what the executors can serve; several models and executors,
rows, and the minimum sizes sustainable, bmax and off."""
# plain build only: minutes of simulation, whose unit tests run under sanitizers
import os
import pathlib
import random
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "python"))
import drawn_worlds  # noqa: E402
import naive_deferred as naive  # noqa: E402
import naive_symphony  # noqa: E402
import naive_world  # noqa: E402

SEED = int(os.environ.get("TUTTI_SEED", "20221122"))
CASES = int(os.environ.get("TUTTI_TEST_CASES", "60"))


def drawn_models(prng):
    models = []
    for number in range(prng.randrange(1, 4)):
        alpha, beta, largest = 1000 * prng.randrange(1000, 8000), 1000 * prng.randrange(1000, 30000), prng.choice((4, 16, 64))
        slo = 1000 * int((alpha * prng.randrange(1, 20) + prng.choice((1, 2, 4)) * beta) / 1000)
        models.append(naive_symphony.Model(f"m{number}", number, alpha, beta, slo, largest))
    return models


def drawn_requests(prng, models, executors):
    """From a tenth of what the executors can do to twice as much, in bursts or not, for two seconds or so. No model has the rate
    at which lulls count: 64 rows in 100 ms."""
    size = {model.name: max(1, min(model.largest, (model.slo - model.beta) // 2 // model.alpha)) for model in models}
    capacity = sum(executors * size[m.name] / m.latency(size[m.name]) for m in models) / len(models)
    wide = prng.random() < 0.2
    if prng.random() < 0.25:
        return drawn_groups(prng, models)
    pace = min(prng.choice((0.1, 0.4, 0.8, 1.0, 1.2, 2.0)) * capacity, 250e-9 / (2 if wide else 1))
    bursts = prng.random() < 0.3
    requests, at = [], 0
    for number in range(prng.randrange(50, 700)):
        at += int(prng.expovariate(pace)) * (prng.choice((0, 0, 3)) if bursts else 1) + 1
        if at > 3_000_000_000:
            break
        model = prng.choice(models)
        rows = prng.randrange(1, min(3, model.largest) + 1) if wide else 1
        requests.append(naive_world.Request(number, at, model, rows=rows, deadline=at + model.slo))
    return requests


def drawn_groups(prng, models):
    """Requests as in closed loops: groups of mostly as many, one after another."""
    requests, at, model, count, jitter = [], 0, models[0], prng.randrange(1, 5), prng.choice((1, 1_000_000))
    for _ in range(prng.randrange(10, 60)):
        at += int(model.latency(count) * prng.choice((0.4, 1.2, 1.2, 1.2, 2.0))) + model.slo // 2
        for _ in range(count if prng.random() < 0.9 else prng.randrange(1, 5)):
            at += prng.randrange(jitter) + 1
            requests.append(naive_world.Request(len(requests), at, model, deadline=at + model.slo))
    return requests


def served(models, asked, rules, executors):
    options = {"floor": rules.floor, "defer": rules.defer}
    for switch in "overload", "lookahead", "split", "credit", "closed_loop":
        options[switch] = "on" if getattr(rules, switch) else "off"
    return drawn_worlds.run_linear(models, asked, rules.policy, executors, options)


def drawn_rules(prng):
    often = lambda: prng.random() < 0.8  # noqa: E731
    return naive.Rules(
        prng.choice(("deferred", "adaptive")),
        prng.choice(("sustainable", "sustainable", "bmax", "off")),
        prng.choice(("partial", "partial", "partial", "full", "none")),
        overload=often(),
        lookahead=often(),
        split=often(),
        credit=often(),
        closed_loop=prng.random() < 0.5,
    )


class NaiveDeferred(unittest.TestCase):
    def test_drawn_worlds(self):
        count, outcomes = 0, set()
        for seed in range(SEED, SEED + CASES):
            prng = random.Random(seed)
            models, executors = drawn_models(prng), prng.randrange(1, 5)
            rules = drawn_rules(prng)
            rules.closed_loop &= rules.policy == "deferred" or executors > 1
            asked = drawn_requests(prng, models, executors)
            found = served(models, asked, rules, executors)
            expected = naive.simulate(models, asked, rules, executors=executors)
            for ours, theirs in zip(found, expected):
                drawn_worlds.compare(self, f"seed {seed}: {rules}, {executors} executors", ours, theirs)
            count += len(found[0])
            outcomes |= {(rules.floor, outcome) for _, outcome in found[1]}
        self.assertGreater(count, 20 * CASES)
        for floor in "sustainable", "bmax", "off":
            self.assertIn((floor, "dropped"), outcomes)
        print(f"{CASES} worlds, {count} batches alike")


if __name__ == "__main__":
    print(f"seed {SEED}")
    unittest.main()
