#!/usr/bin/env python3
"""C7: padding and bucketing runs the same tasks at the same nanoseconds as an independent Python program
(tests/python/naive_padded.py), and requests end alike: static and recurrent steps, run times by length, several models and
executors, rows, cancellations, a network, every option."""
# plain build only: minutes of simulation, whose unit tests run under sanitizers
import os
import pathlib
import random
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "python"))
import drawn_worlds  # noqa: E402
import naive_padded as naive  # noqa: E402
import naive_world  # noqa: E402

SEED = int(os.environ.get("TUTTI_SEED", "20150917"))
CASES = int(os.environ.get("TUTTI_TEST_CASES", "150"))
LONGEST_OUTPUT = 6
SHAPES = (
    ("encoder",),
    ("static",),
    ("static", "static"),
    ("encoder", "decoder"),
    ("static", "encoder", "encoder", "static", "decoder", "decoder"),
)


def drawn_model(prng, name):
    largest, steps = prng.choice((1, 2, 4, 8)), []
    for kind in prng.choice(SHAPES):
        rows = {}
        for length in prng.choice(((0,), (0,), (2, 5), (3, 10, 40))):
            beta, alpha = prng.randrange(1, 400), prng.choice((0, prng.randrange(1, 100)))
            rows[length] = [1000 * (beta + alpha * b) + length for b in range(1, largest + 1)]
        steps.append(naive.Step(kind, rows))
    return naive.Model(name, steps, LONGEST_OUTPUT, prng.choice((0, 0, prng.randrange(1, largest + 1))))


def drawn_requests(prng, models, rules):
    asked, at, pace = [], 0, prng.choice((20, 200, 2000))
    longest, beyond = prng.choice((4, 12, 60)), rules.width in (1, 2) and prng.random() < 0.2
    for number in range(prng.randrange(1, 60)):
        at += prng.choice((0, prng.randrange(pace) * 1000 + 1))
        model = prng.choice(models)
        request = naive_world.Request(number, at, model, prng.randrange(1, longest), prng.randrange(0, LONGEST_OUTPUT + 2))
        if beyond and prng.random() < 0.2:
            request.length = naive.BUCKETS * rules.width + prng.randrange(-3, 4)
        request.rows = prng.choice((1, 1, prng.randrange(1, model.largest + 1)))
        request.priority = prng.choice((0, 0, 1))
        request.deadline = prng.choice((naive_world.NEVER, at + prng.randrange(1, 10**7)))
        if prng.random() < 0.1:
            request.cancel = at + prng.randrange(3 * 10**6)
        asked.append(request)
    return asked


def served(models, asked, rules, around):
    network, files, arrivals = around["network"], {}, []
    text = [f'title: "drawn" load {{ rate: 1 }} policy {{ name: "padded" }} depth: {around["depth"]}\n']
    text.append(f"network {{ control_us: {network.control / 1000} data_us_per_row: {network.data / 1000} }}\n")
    text += [f"device {{ busy_until_ms: {at / 1e6:.6f} }}\n" for at in around["executors"]]
    for model in models:
        lengths = f"length: 1 output_length: {LONGEST_OUTPUT}" if any(s.kind != "static" for s in model.steps) else ""
        files[f"{model.name}.csv"] = [(step.kind, step.times) for step in model.steps]
        text.append(f'model {{ name: "{model.name}" step_file: "{model.name}.csv" max_batch: {model.largest} {lengths} }}\n')
    for r in asked:
        row = {"at_ns": r.at, "model": r.model.name, "input_length": r.length, "output_length": r.output, "rows": r.rows}
        arrivals.append({**row, "deadline_ns": r.deadline, "priority": r.priority, "cancel_at_ns": r.cancel})
    options = drawn_worlds.options_of(width=rules.width, max_batch=rules.max_batch)
    return drawn_worlds.run("".join(text), files, arrivals, *options)


class NaivePadded(unittest.TestCase):
    # C7: which bucket has its turn, and how long its batch is.
    def test_drawn_worlds(self):
        count, ends = 0, set()
        for seed in range(SEED, SEED + CASES):
            prng = random.Random(seed)
            models = [drawn_model(prng, f"m{number}") for number in range(prng.randrange(1, 4))]
            rules = naive.Rules(prng.choice((0, 1, 2, 3, 10, 10)), prng.choice((0, 0, 1, 3, 6)))
            network = naive_world.Network(*prng.choice(((0, 0), (1000 * prng.randrange(300), 1000 * prng.randrange(20)))))
            executors = [prng.choice((0, 0, 0, prng.randrange(4 * 10**6))) for _ in range(prng.randrange(1, 4))]
            around = {"executors": executors, "depth": prng.choice((1, 1, 2)), "network": network}
            asked = drawn_requests(prng, models, rules)
            found = served(models, asked, rules, around)
            expected = naive.simulate(models, asked, rules, **around)
            for ours, theirs in zip(found, expected):
                drawn_worlds.compare(self, f"seed {seed}: {rules}, {around}", ours, theirs)
            count += len(found[0])
            ends |= {outcome for _, outcome in found[1]}
        self.assertGreater(count, 10 * CASES)
        self.assertEqual(ends, {"ok", "late", "cancelled"})
        print(f"{CASES} worlds, {count} steps alike")


if __name__ == "__main__":
    print(f"seed {SEED}")
    unittest.main()
