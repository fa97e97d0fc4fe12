#!/usr/bin/env python3
"""tutti compare: every contender at every value, as each is alone; and what cannot be compared."""
# plain build only: minutes of simulation, whose unit tests run under sanitizers
import json
import math
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "python"))

from pages import data_of  # noqa: E402

PROGRAM = os.environ["TUTTI_PROGRAM"]

HEAD = """title: "t <1>"
seed: 1
duration_s: 5
device { count: 1 }
model { name: "M" slo_ms: 50 profile { linear { alpha_ms: 1 beta_ms: 5 } } }
load { rate: 10 }
"""
SWEEP = 'sweep { parameter: "rate" value: [ "100", "400" ] }\n'
SERIAL = 'contender { name: "serial" set: "policy=serial" }\n'
WINDOW = 'contender { name: "window" set: "policy=window" set: "option.max_delay=2ms" }\n'
RATES, NAMES = ("100", "400"), ("serial", "window")


class Compare(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.file = pathlib.Path(self.folder.name, "e.pbtxt")

    def tutti(self, verb, text, *arguments):
        self.file.write_text(text)
        return subprocess.run(
            [PROGRAM, verb, str(self.file), *map(str, arguments)],
            capture_output=True,
            text=True,
            timeout=120,
        )

    def shipped(self, name, rates):
        """Mean latencies of an experiment that comes along, at these rates and shorter: {(contender, rate): ms}."""
        text = (ROOT / "experiments" / "compare" / name).read_text().replace("../../data", str(ROOT / "data"))
        text = re.sub(r'value: \[.*\]', "value: [ %s ]" % ", ".join('"%s"' % rate for rate in rates), text)
        text = re.sub(r"duration_s: \d+", "duration_s: 31", text)
        done = self.tutti("compare", text, "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        return {
            (at["point"]["contender"], at["point"]["rate"]): at["total"]["latency_ms"]["mean"]
            for at in json.loads(done.stdout)["points"]
        }

    def test_continuous_batching_holds_what_static_batching_does_not(self):
        """C3: what docs/results/COMPARISON.md says of the decoder."""
        mean = self.shipped("decoder-one-core.pbtxt", ["8", "24"])
        self.assertLess(mean["continuous", "8"], mean["static", "8"])
        self.assertLess(mean["continuous", "24"], mean["to the letter", "24"])
        for rate in "8", "24":
            self.assertLess(mean["pays", rate], mean["continuous", rate])
        for other in ("static", "alone"):
            self.assertLess(10 * mean["continuous", "24"], mean[other, "24"])

    def test_trees_by_cells_are_no_better_than_merged_on_a_core(self):
        """C7: what docs/results/COMPARISON.md says of trees."""
        mean = self.shipped("trees-one-core.pbtxt", ["1000", "2000"])
        self.assertLess(10 * mean["merged", "2000"], mean["one by one", "2000"])
        self.assertAlmostEqual(mean["cellular", "1000"] / mean["merged", "1000"], 1, delta=0.1)

    def test_each_point_is_as_when_run_alone(self):
        done = self.tutti("compare", HEAD + SWEEP + SERIAL + WINDOW, "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        report = json.loads(done.stdout)
        self.assertEqual(report["parameter"], "rate")
        self.assertEqual(len(report["points"]), 4)
        for point in report["points"]:
            place = point["point"]
            flags = ["--json", "--rate", place["rate"], "--policy", place["contender"]]
            if place["contender"] == "window":
                flags += ["--set", "option.max_delay=2ms"]
            alone = json.loads(self.tutti("experiment", HEAD, *flags).stdout)
            self.assertEqual(point["total"], alone["total"], place)

    def test_who_is_best(self):
        report = json.loads(self.tutti("compare", HEAD + SWEEP + SERIAL + WINDOW, "--json").stdout)
        figures = {
            (p["point"]["contender"], p["point"]["rate"]): p["total"]["latency_ms"]["mean"]
            for p in report["points"]
        }
        for rate in RATES:
            best = min(figures[name, rate] for name in NAMES)
            expected = [name for name in NAMES if figures[name, rate] <= best * 1.01]
            self.assertEqual(report["best"]["mean_ms"][rate], expected)
        self.assertEqual(report["best"]["good_per_s"]["400"], ["window"])  # serial carries 166
        text = self.tutti("compare", HEAD + SWEEP + SERIAL + WINDOW).stdout
        self.assertRegex(text, r"window: .*most answers in time at rate.* 400")
        farthest = text[text.index("times the best, where farthest from it") :].splitlines()
        mean = max((figures["serial", rate] / min(figures[name, rate] for name in NAMES), rate) for rate in RATES)
        self.assertEqual(farthest[2].split()[:4], ["serial", "%.2f" % mean[0], "at", mean[1]])

    def test_page(self):
        page = pathlib.Path(self.folder.name, "page.html")
        done = self.tutti("compare", HEAD + SWEEP + SERIAL + WINDOW, "--html", page)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertNotIn("t <1>", page.read_text())
        data = data_of(page)
        self.assertEqual((data["kind"], data["title"]), ("compare", "t <1>"))
        self.assertEqual(data["body"]["contenders"], list(NAMES))
        self.assertEqual(data["body"]["slo_ms"], 50)
        report = json.loads(self.tutti("compare", HEAD + SWEEP + SERIAL + WINDOW, "--json").stdout)
        self.assertEqual(data["body"]["report"], report)
        for point in report["points"]:  # of every line in every chart
            total = point["total"]
            figures = (total["latency_ms"]["mean"], total["latency_ms"]["p99"], total["good_per_s"], total["bad_rate"])
            for figure in figures + (total["batch"]["mean"],):
                self.assertTrue(math.isfinite(figure), point)

    def test_the_share_of_the_possible(self):
        """Three requests at once on a device that carries one in time alone, or two together."""
        pathlib.Path(self.folder.name, "a.csv").write_text("at_ns,model\n0,M\n0,M\n0,M\n")
        small = HEAD.replace("slo_ms: 50", "slo_ms: 15 max_batch: 2").replace("alpha_ms: 1", "alpha_ms: 5")
        small = small.replace("rate: 10", 'file: "a.csv"')
        text = small + 'sweep { parameter: "devices" value: [ "1", "2" ] }\n' + SERIAL + (
            'contender { name: "pairs" set: "policy=deferred" }\n'
            'contender { name: "side by side" set: "policy=serial" set: "executors=2" }\n'
            'contender { name: "noisy" set: "policy=serial" set: "jitter=0.1" }\n'
        )
        report = json.loads(self.tutti("compare", text, "--bound", "--json").stdout)
        shares = {
            (at["point"]["contender"], at["point"]["devices"]): round(at["possible"]["share_of_possible"], 9)
            for at in report["points"]
            if "possible" in at
        }
        expected = {("serial", "1"): 0.5, ("serial", "2"): round(2 / 3, 9), ("pairs", "1"): 1, ("pairs", "2"): 1}
        expected |= {("side by side", "1"): 0, ("side by side", "2"): round(1 / 3, 9)}  # by their work
        self.assertEqual(shares, expected)
        table = self.tutti("compare", text, "--bound").stdout
        shares = table[table.index("share of the possible, %") :].splitlines()
        self.assertEqual(shares[2].split(), ["serial", "50.00", "66.67"])
        self.assertEqual(shares[3].split(), ["pairs", "100.00", "100.00"])
        self.assertEqual(shares[4].split()[-2:], ["0.00", "33.33"])
        self.assertEqual(shares[5].split(), ["noisy", "-", "-"])
        self.assertIn("share of a plan that knows the future, %", table)
        self.assertIn("- no bound: the clairvoyant bound does not cover a run whose batches take random times", table)
        over = table[table.index("mean latency over the least possible, times") :].splitlines()
        # On one device they end at 10, 15 and 25 ms at the earliest, one after another at 10, 20 and 30.
        self.assertEqual(over[2].split()[:2], ["serial", "1.20"])
        without = self.tutti("compare", text).stdout
        self.assertNotIn("possible", without)

    def test_goodput(self):
        head = HEAD.replace("duration_s: 5", "duration_s: 2")
        text = head + 'sweep { parameter: "slo_ms" value: [ "40", "50" ] }\n' + SERIAL + WINDOW
        page = pathlib.Path(self.folder.name, "page.html")
        done = self.tutti("compare", text, "--goodput", "--bound", "--json", "--html", page)
        self.assertEqual(done.returncode, 0, done.stderr)
        report = json.loads(done.stdout)
        self.assertEqual(report["best"], {"goodput_per_s": {"40": ["window"], "50": ["window"]}})
        for point in report["points"]:
            place = point["point"]
            alone = json.loads(
                self.tutti(
                    "experiment", head + SERIAL + WINDOW, "--goodput", "--json",
                    "--set", "contender=" + place["contender"], "--set", "slo_ms=" + place["slo_ms"],
                ).stdout
            )
            self.assertEqual(point["goodput_per_s"], alone["goodput_per_s"], place)
            self.assertLess(0, point["share_of_possible"])
            self.assertLess(point["goodput_per_s"], point["impossible_per_s"], place)
            self.assertLess(point["share_of_possible"], point["share_of_plan"], place)
        self.assertEqual(data_of(page)["kind"], "goodput")
        table = self.tutti("compare", text, "--goodput").stdout
        self.assertIn("goodput, 1/s", table)
        self.assertNotIn("mean latency", table)
        self.assertRegex(table, r"window: most goodput at every slo_ms")

    def test_resumed_is_the_same(self):
        state = pathlib.Path(self.folder.name, "state")
        first = self.tutti("compare", HEAD + SWEEP + SERIAL + WINDOW, "--json", "--resume", state)
        again = self.tutti("compare", HEAD + SWEEP + SERIAL + WINDOW, "--json", "--resume", state)
        self.assertEqual(first.stdout, again.stdout)
        self.assertEqual(len(state.read_text().splitlines()), 5)

    def test_what_makes_no_sense(self):
        cases = (
            (HEAD + SWEEP + SERIAL, "1 contenders"),
            (HEAD + SERIAL + WINDOW, "one parameter"),
            (HEAD + SWEEP + SERIAL + SERIAL, "unique"),
            (HEAD + SWEEP + SERIAL + WINDOW.replace('"window"', '"a,b"'), "comma"),
            (HEAD + SWEEP.replace("400", "x") + SERIAL + WINDOW, "not a number"),
            (HEAD + SWEEP + SERIAL + WINDOW.replace("policy=window", "policy"), "NAME=VALUE"),
            (HEAD + SWEEP + SERIAL + WINDOW.replace("policy=window", "policy=w"), "no policy"),
        )
        for text, expected in cases:
            done = self.tutti("compare", text)
            self.assertEqual(done.returncode, 2, expected)
            self.assertIn(expected, done.stderr)
            self.assertIn(str(self.file), done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
