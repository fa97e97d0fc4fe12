#!/usr/bin/env python3
"""C7: merged graphs run the same tasks at the same nanoseconds as an independent Python program (tests/python/naive_merged.py), and
requests end alike: trees, chains, encoders and decoders, several models and executors, exits, cancellations, costs, every option."""
# plain build only: minutes of simulation, whose unit tests run under sanitizers
import os
import pathlib
import random
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "python"))
import drawn_cells  # noqa: E402
import drawn_worlds  # noqa: E402
import naive_merged as naive  # noqa: E402

SEED = int(os.environ.get("TUTTI_SEED", "20170118"))
CASES = int(os.environ.get("TUTTI_TEST_CASES", "100"))


class NaiveMerged(unittest.TestCase):
    # C7: whole graphs are merged as they arrive.
    def test_drawn_worlds(self):
        count, ends = 0, set()
        for seed in range(SEED, SEED + CASES):
            prng = random.Random(seed)
            models, around = drawn_cells.models(prng), drawn_cells.world(prng)
            asked = drawn_cells.requests(prng, models)
            size, cost = prng.choice((1, 2, 3, 5, 64)), prng.choice((0, 0, prng.randrange(50000)))
            rules = naive.Rules(size, cost, prng.choice(("step", "level")))
            options = {**vars(rules), "merge_cell": f"{rules.merge_cell}ns"}
            found = drawn_cells.run(models, asked, around, "merged", **options)
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
