#!/usr/bin/env python3
"""L4, S5, D9: serial, clockwork and window run the same batches at the same nanoseconds as an independent Python program
(tests/python/naive_queued.py): several models and executors, rows, lengths, priorities, deadlines, cancellations, executors that come
later, messages that take time, every option."""
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
import naive_queued as naive  # noqa: E402
import naive_world  # noqa: E402

SEED = int(os.environ.get("TUTTI_SEED", "20171026"))
CASES = int(os.environ.get("TUTTI_TEST_CASES", "150"))


def drawn_models(prng):
    models = []
    for number in range(prng.randrange(1, 5)):
        alpha, beta, largest = 1000 * prng.randrange(100, 3000), 1000 * prng.randrange(1000, 12000), prng.choice((1, 4, 16))
        slo = 1000 * int((alpha * prng.randrange(1, 12) + prng.choice((1, 2, 8)) * beta) / 1000)
        model = naive.Model(f"m{number}", number, alpha, beta, prng.choice((slo, slo, slo, naive_world.NEVER)), largest)
        model.window = prng.choice((0, 1000 * prng.randrange(1, 20000)))
        model.preferred = tuple(sorted({prng.randrange(1, largest + 1) for _ in range(prng.choice((0, 1, 2)))}))
        models.append(model)
    return models


def drawn_requests(prng, models, executors):
    """From half of what the executors can do to twice as much, in bursts or not."""
    pace = prng.choice((0.5, 1, 2)) * executors / (sum(m.latency(max(1, m.largest // 2)) * 2 / m.largest for m in models) / len(models))
    bursts, wide, long = (prng.random() < 0.3 for _ in range(3))
    requests, at = [], 0
    for number in range(prng.randrange(10, 200)):
        at += int(prng.expovariate(pace)) * (prng.choice((0, 0, 3)) if bursts else 1)
        model = prng.choice(models)
        rows = prng.randrange(1, min(3, model.largest) + 1) if wide else 1
        request = naive_world.Request(number, at, model, rows=rows, deadline=min(at + model.slo, naive_world.NEVER))
        request.length, request.priority = prng.randrange(1, 4) if long else 1, prng.choice((0, 0, 0, 1))
        requests.append(request)
    drawn_worlds.vary(prng, requests)
    return requests


def drawn_rules(prng):
    rules = naive.Rules(prng.choice(("serial", "clockwork", "clockwork", "window", "window", "window")), prng.random() < 0.5)
    rules.reading = prng.choice(("letter", "letter", "batch_of_one"))
    rules.static = prng.choice(("off", "off", "on", "padded"))
    rules.max_delay = prng.choice((-1, 0, 1000 * prng.randrange(20000)))
    if rules.static != "off":
        rules.max_delay = 1000 * prng.randrange(20000)
    rules.max_batch = prng.choice((4096, prng.randrange(1, 20)))
    rules.order = prng.choice(("oldest", "round_robin"))
    rules.same_length = prng.random() < 0.5
    return rules


def served(models, asked, rules, around):
    options = {"drop": "deadline" if rules.drop else "none"}
    if rules.policy == "clockwork":
        options = {"reading": rules.reading}
    if rules.policy == "window":
        options.update(max_batch=rules.max_batch, static=rules.static, order=rules.order)
        options.update(same_length="on" if rules.same_length else "off")
        options.update({"max_delay": f"{rules.max_delay}ns"} if rules.max_delay >= 0 else {})
    return drawn_worlds.run_linear(models, asked, rules.policy, options, **around)


class NaiveQueued(unittest.TestCase):
    def test_drawn_worlds(self):
        count, outcomes, effects = 0, set(), collections.Counter()
        for seed in range(SEED, SEED + CASES):
            prng = random.Random(seed)
            models, rules = drawn_models(prng), drawn_rules(prng)
            around = drawn_worlds.drawn_around(prng, 3_000_000, 300_000)
            asked = drawn_requests(prng, models, len(around["executors"]))
            world = naive.World(models, asked, rules, **around)
            expected, found = world.run(), served(models, asked, rules, around)
            for ours, theirs in zip(found, expected):
                drawn_worlds.compare(self, f"seed {seed}: {rules}, {around}", ours, theirs)
            count += len(found[0])
            outcomes |= {(rules.policy, outcome) for _, outcome in found[1]}
            effects += world.effects
        self.assertGreater(count, 15 * CASES)
        for policy in "serial", "clockwork", "window":
            self.assertLessEqual({(policy, "ok"), (policy, "dropped"), (policy, "cancelled")}, outcomes)
        for rule in "latest", "preferred", "turns", "waited", "same_length", "padded":
            self.assertGreater(effects[rule], 0, rule)
        print(f"{CASES} worlds, {count} batches alike, {dict(effects)}")


if __name__ == "__main__":
    print(f"seed {SEED}")
    unittest.main()
