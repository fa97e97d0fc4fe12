#!/usr/bin/env python3
"""S6: `tutti bench scheduler` in virtual time: what it prints, and what its exit codes mean."""

import json
import os
import subprocess
import unittest

PROGRAM = os.environ["TUTTI_PROGRAM"]
QUICK = ("--clock", "virtual", "--seconds", "0.1", "--warm-up", "0.05", "--json")


def bench(*flags):
    return subprocess.run([PROGRAM, "bench", *flags], capture_output=True, text=True, timeout=120, check=False)


def measured(*flags):
    done = bench("scheduler", *QUICK, *flags)
    return done.returncode, json.loads(done.stdout), done.stderr


class Scheduler(unittest.TestCase):
    def test_presets_hold(self):
        for preset, capacity in (("light", 8_979_592), ("symphony", 874_720)):
            code, report, _ = measured("--preset", preset)
            self.assertEqual(code, 0)
            self.assertLessEqual(report["bad_rate"], 0.01)
            self.assertAlmostEqual(report["capacity_per_second"], capacity, delta=capacity / 100)
            self.assertEqual(report["lateness_p99_ns"], 0)  # always punctual
            self.assertGreater(report["cpu_ns_per_request"], 0)
            # Nothing was lost: all in time, and all that came in the window.
            self.assertEqual(report["lost"], 0)
            bad = report["late"] + sum(report["dropped"].values())
            self.assertEqual(report["in_time"] + bad, report["offered"])
            rate = 4e6 if preset == "light" else 0.9 * capacity
            self.assertAlmostEqual(report["offered_per_second"], rate, delta=rate / 50)
            self.assertAlmostEqual(report["useful_per_second"], rate, delta=rate / 50)

    def test_same_seed_same_decisions(self):
        def decisions(seed):
            report = measured("--rate", "500000", "--popularity", "zipf", "--seed", seed)[1]
            return {k: v for k, v in report.items() if "cpu" not in k}

        self.assertEqual(decisions("3"), decisions("3"))
        self.assertNotEqual(decisions("3"), decisions("4"))

    def test_every_policy_that_splits(self):
        for policy in ("adaptive", "deferred", "eager", "symphony", "timeout"):
            code, report, _ = measured("--rate", "100000", "--policy", policy)
            self.assertEqual((code, report["policy"]), (0, policy))

    def test_dropping_what_the_devices_could_carry_fails(self):
        # The deadlines leave the scheduler no time.
        code, report, said = measured("--rate", "100000", "--margin-us", "46000")
        self.assertEqual(code, 1)
        self.assertGreater(report["bad_rate"], 0.01)
        self.assertEqual(report["useful_per_second"], 0)
        self.assertIn("at most 1 %", said)

    def test_more_than_the_devices_can_carry_does_not_fail(self):
        code, report, said = measured("--devices", "10", "--rate", "200%", "--seconds", "0.5")
        self.assertEqual(code, 0)
        self.assertGreater(report["bad_rate"], 0.2)
        self.assertIn("exceed the capacity of the devices", said)

    def test_search(self):
        code, report, _ = measured("--devices", "20", "--models", "2", "--rate", "max", "--seconds", "0.3")
        self.assertEqual(code, 0)
        self.assertLessEqual(report["bad_rate"], 0.01)
        self.assertGreater(report["useful_per_second"], 0.5 * report["capacity_per_second"])

    def test_on_threads(self):
        """In real time at a rate that any machine can do; the promise is long. Loss would be a fault."""
        for threads in ("0", "1", "2"):
            flags = ("--model-threads", threads, "--rate", "2000", "--slo-ms", "5000", "--max-batch", "16")
            done = bench("scheduler", "--seconds", "0.2", "--warm-up", "0.1", "--json", *flags)
            report = json.loads(done.stdout)
            self.assertEqual(report["lost"], 0)
            self.assertGreater(report["offered"], 100)
            self.assertEqual(report["model_threads"], int(threads))

    def test_nonsense(self):
        for flags in (
            (),
            ("nonsense",),
            ("scheduler", "--models", "0"),
            ("scheduler", "--rate", "fast"),
            ("scheduler", "--rate", "-3"),
            ("scheduler", "--profile", "1"),
            ("scheduler", "--preset", "heavy"),
            ("scheduler", "--policy", "nobody"),
            ("scheduler", "--policy", "lazy"),
            ("scheduler", "--option", "gap_factor"),
            ("scheduler", "--option", "no_such=1"),
            ("scheduler", "--slo-ms", "1", "--margin-us", "2000"),
            ("scheduler", "--model-threads"),
            ("scheduler", "extra"),
        ):
            done = bench(*flags)
            self.assertEqual(done.returncode, 2, flags)
            self.assertEqual(done.stdout, "")
            self.assertIn("tutti bench: ", done.stderr)
        self.assertEqual(bench("scheduler", "--help").returncode, 0)


if __name__ == "__main__":
    unittest.main()
