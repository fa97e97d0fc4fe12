#!/usr/bin/env python3
"""D9: the baselines without a window and with a tuned one, and DVABatch, under the load that grows in steps: 66 requests
a second, more after every 2000, and 4000 a second after 30,000."""
import csv
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = os.environ["TUTTI_PROGRAM"]
STEP, PROMISE_MS = 2000, 200


def run(network, contender):
    """[(arrived ns, latency ms)] in the order of arrival."""
    with tempfile.TemporaryDirectory() as folder:
        outcomes = pathlib.Path(folder) / "outcomes.csv"
        subprocess.run(
            [PROGRAM, "experiment", ROOT / "experiments" / "dvabatch" / ("stepping-%s.pbtxt" % network)]
            + ["--set", "contender=" + contender, "--outcomes", outcomes],
            check=True,
            capture_output=True,
        )
        with open(outcomes) as file:
            return [
                (int(o["arrived_ns"]), (int(o["finished_ns"]) - int(o["arrived_ns"])) / 1e6)
                for o in csv.DictReader(file)
            ]


def by_step(outcomes):
    """[(requests a second, 99th percentile in ms)]"""
    steps = []
    for at in range(0, len(outcomes), STEP):
        part = outcomes[at : at + STEP]
        rate = (len(part) - 1) / (part[-1][0] - part[0][0]) * 1e9
        steps.append((rate, sorted(latency for _, latency in part)[len(part) * 99 // 100]))
    return steps


def peak(steps):
    """How many steps are served in time before the first that is not."""
    return next(i for i, (_, p99) in enumerate(steps) if p99 > PROMISE_MS)


class Stepping(unittest.TestCase):
    def check(self, network, increment, contenders):
        steps = {name: by_step(run(network, name)) for name in contenders}
        for name, found in steps.items():
            self.assertEqual(len(found), 16)
            for i, (rate, _) in enumerate(found):
                told = 4000 if i == 15 else 66 + increment * i
                # Steps of the file are stretches of time, in which 2000 come on average.
                self.assertLess(abs(rate / told - 1), 0.15, (name, i))
        return steps

    def test_bert(self):
        # Input diversity: nothing is computed for padding, so that the peak itself is higher (paper: +46.8 %).
        steps = self.check("bertbase", 40, ["zero", "delay short", "no window"])
        zero, delay, ours = (steps[name] for name in ("zero", "delay short", "no window"))
        self.assertGreaterEqual(peak(delay), peak(zero))
        self.assertGreaterEqual(ours[peak(ours) - 1][0], 1.25 * delay[peak(delay) - 1][0])
        for mine, theirs in zip(ours, delay):
            self.assertLess(mine[1], theirs[1])

    def test_linknet(self):
        # Operator and load diversity: lower latency at every step (paper: in all cases).
        steps = self.check("linknet", 150, ["delay short", "letter"])
        self.assertGreaterEqual(peak(steps["letter"]), peak(steps["delay short"]))
        for mine, theirs in zip(steps["letter"], steps["delay short"]):
            self.assertLess(mine[1], theirs[1])


if __name__ == "__main__":
    unittest.main(verbosity=1)
