#!/usr/bin/env python3
"""tutti experiment --bound: what is possible at all, beside a run and beside a search for the goodput."""
# plain build only: minutes of simulation, whose unit tests run under sanitizers
import json
import os
import pathlib
import subprocess
import tempfile
import unittest

PROGRAM = os.environ["TUTTI_PROGRAM"]

EXPERIMENT = """title: "t"
seed: 1
duration_s: 1.5
warm_up_s: 0.5
device { count: 2 }
model { name: "M" copies: %(copies)d slo_ms: 25 profile { linear { alpha_ms: 1 beta_ms: 5 } } }
load { rate: %(rate)d }
policy { name: "deferred" }
goodput { precision: 0.02 %(goodput)s }
%(more)s
"""

# Its policies part batches, and run them side by side.
STEPS = """title: "t"
seed: 1
duration_s: 2
warm_up_s: 0.5
device { executors: 2 }
model { name: "M" max_batch: 8
  step { name: "a" profile { linear { alpha_ms: 1 beta_ms: 2 } } }
  step { name: "b" profile { linear { alpha_ms: 0.5 beta_ms: 3 } } }
}
load { rate: 100 }
%(more)s
"""


class Bound(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.file = pathlib.Path(folder.name, "e.pbtxt")
        self.state = pathlib.Path(folder.name, "state")

    def run_it(self, *arguments, copies=1, rate=2000, goodput="", more="", text=EXPERIMENT):
        self.file.write_text(text % {"copies": copies, "rate": rate, "goodput": goodput, "more": more})
        return subprocess.run(
            [PROGRAM, "experiment", str(self.file), "--bound", *map(str, arguments)],
            capture_output=True,
            text=True,
            timeout=120,
        )

    def answer(self, *arguments, **experiment):
        ran = self.run_it("--json", *arguments, **experiment)
        self.assertEqual(ran.returncode, 0, ran.stderr)
        return json.loads(ran.stdout)

    def test_a_run(self):
        run = self.answer()
        possible = run["possible"]
        self.assertEqual(possible["requests"], run["total"]["arrived"])
        self.assertEqual(possible["in_time"], run["total"]["ok"])
        self.assertLessEqual(possible["in_time"], possible["most_in_time"])
        self.assertLessEqual(possible["planned_in_time"], possible["most_in_time"])
        self.assertLess(possible["most_in_time"], possible["requests"])
        self.assertGreater(possible["planned_in_time"], possible["in_time"])
        self.assertAlmostEqual(possible["share_of_possible"], possible["in_time"] / possible["most_in_time"])
        self.assertIn("% of the possible", self.run_it().stdout)

    def test_all_in_time_is_all_that_is_possible(self):
        possible = self.answer(rate=100)["possible"]
        self.assertEqual(possible["in_time"], possible["requests"])
        self.assertEqual(possible["share_of_possible"], 1)

    def test_a_goodput(self):
        found = self.answer("--goodput")
        self.assertLess(found["goodput_per_s"], found["planned_per_s"])
        self.assertLess(found["planned_per_s"], found["impossible_per_s"])
        self.assertAlmostEqual(found["share_of_possible"], found["goodput_per_s"] / found["impossible_per_s"])
        self.assertIn("r/s is impossible: ", self.run_it("--goodput").stdout)

    def test_several_models(self):
        found = self.answer("--goodput", copies=3)
        self.assertLess(found["goodput_per_s"], found["impossible_per_s"])
        self.assertNotIn("planned_per_s", found)

    def test_sweeps_and_seeds(self):
        sweep = 'sweep { parameter: "slo_ms" value: ["20", "25"] }'
        whole = self.answer("--goodput", "--resume", self.state, goodput="seeds: 2", more=sweep)
        for point in whole["points"]:
            self.assertGreater(1, point["share_of_possible"])
        again = self.answer("--goodput", "--resume", self.state, goodput="seeds: 2", more=sweep)
        self.assertEqual(whole, again)
        without = subprocess.run(
            [PROGRAM, "experiment", str(self.file), "--goodput", "--resume", str(self.state)],
            capture_output=True,
            text=True,
            timeout=120,
        )
        self.assertEqual(without.returncode, 2, without.stdout)
        for point in self.answer(more=sweep)["points"]:
            self.assertLessEqual(point["possible"]["in_time"], point["possible"]["most_in_time"])

    def test_policies_share_the_bound_of_their_workload(self):
        sweep = 'sweep { parameter: "policy" value: ["deferred", "serial", "nexus"] }'
        for arguments, key in ((("--goodput",), "impossible_per_s"), ((), "most_in_time")):
            state = self.state.with_suffix("." + key)
            points = self.answer(*arguments, "--resume", state, more=sweep)["points"]
            found = [point.get("possible", point) for point in points]
            self.assertEqual(len({of[key] for of in found}), 1)
            self.assertEqual(len({of["share_of_possible"] for of in found}), 3)
            kept = [json.loads(line)["key"] for line in state.read_text().splitlines()[1:]]
            self.assertEqual(sum("bound" in name for name in kept), 1)
            alone = self.answer(*arguments, "--policy", "serial")
            self.assertEqual(alone.get("possible", alone)[key], found[1][key])
            self.assertNotIn("workload", points[0])

    def test_where_nothing_is_possible_there_is_no_share(self):
        possible = self.answer("--set", "slo_ms=5")["possible"]
        self.assertEqual((possible["most_in_time"], possible["in_time"]), (0, 0))
        self.assertNotIn("share_of_possible", possible)

    def test_policies_that_part_batches(self):
        """Their bounds are those by work: of the mean latency, and of the requests in time."""
        sweeps = (
            'sweep { parameter: "policy" value: ["serial", "lazy", "elastic", "eager"] }\n'
            'sweep { parameter: "rate" value: ["50", "300", "700"] }'
        )
        points = self.answer("--set", "slo_ms=40", text=STEPS, more=sweeps)["points"]
        self.assertEqual(len(points), 12)
        for point in points:
            possible, total = point["possible"], point["total"]
            self.assertEqual(possible["requests"], total["arrived"])
            self.assertLessEqual(possible["in_time"], possible["most_in_time"])
            is_whole = total["ok"] + total["late"] == total["arrived"]
            self.assertEqual("mean_over_least" in possible, is_whole)
            if is_whole:
                self.assertGreaterEqual(possible["mean_over_least"], 1)
                self.assertAlmostEqual(
                    possible["mean_over_least"] * possible["least_mean_ms"], total["latency_ms"]["mean"]
                )
        crowded = [point["possible"] for point in points if point["point"]["rate"] == "700"]
        self.assertLess(crowded[0]["most_in_time"], crowded[0]["requests"])
        self.assertEqual(len({str(possible["most_in_time"]) for possible in crowded}), 1)

    def test_without_deadlines_only_the_mean_has_a_bound(self):
        ran = self.run_it("--policy", "lazy", text=STEPS)
        self.assertRegex(ran.stdout, r"mean latency at least \d+\.\d+ ms: \d+\.\d+ times the least possible")
        self.assertNotIn("in time", ran.stdout)

    def test_what_it_does_not_cover(self):
        for more, what in (
            ("jitter: 0.1", "a run whose batches take random times"),
            ("world: EMULATED", "a run in real time"),
        ):
            for arguments in ((), ("--goodput",)):
                ran = self.run_it(*arguments, more=more)
                self.assertEqual(ran.returncode, 2, ran.stdout)
                self.assertIn("clairvoyant bound does not cover " + what, ran.stderr)
                self.assertEqual("bound by work does not cover " + what in ran.stderr, not arguments)
        self.assertEqual(self.run_it("--worlds", "simulated,emulated").returncode, 2)


if __name__ == "__main__":
    unittest.main()
