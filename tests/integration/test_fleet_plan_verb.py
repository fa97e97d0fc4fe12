#!/usr/bin/env python3
"""tutti plan --fleet: the answer for people and programs, and what it refuses."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = os.environ["TUTTI_PROGRAM"]
FLEET = ROOT / "experiments" / "fleet" / "two-types.pbtxt"


def run(*arguments):
    return subprocess.run([PROGRAM, "plan", *map(str, arguments)], capture_output=True, text=True, timeout=240)


class FleetPlan(unittest.TestCase):
    def test_a_day_on_two_types(self):
        done = run("--fleet", FLEET, "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        plan = json.loads(done.stdout)
        self.assertEqual((plan["models"], plan["hours"]), (8, 24))
        placed = sorted(name for group in plan["sub_clusters"] for name in group["models"])
        self.assertEqual(len(placed), 8)
        self.assertEqual(len(set(placed)), 8)
        for group in plan["sub_clusters"]:
            self.assertLessEqual(group["bad_rate"], 0.01)
        # The cost is what the devices cost, and what they cost while they start.
        cost = rises = 0
        for kind in plan["devices"]:
            hours = kind["devices_by_hour"]
            self.assertEqual(max(hours), kind["most"])
            cost += kind["price_per_hour"] * sum(hours)
            rises += kind["price_per_hour"] * sum(max(0, b - a) for a, b in zip(hours[-1:] + hours, hours)) * 120 / 3600
        self.assertAlmostEqual(plan["cost"], cost + rises, delta=1e-6 * cost)
        self.assertLess(plan["cost"], plan["fixed_cost"])
        # Neither type alone is cheaper, tighter objectives cost more, looser ones less.
        what_if = {w["change"]: w["cost"] for w in plan["what_if"]}
        for name in ("a100", "1080ti"):
            self.assertGreaterEqual(what_if["without " + name], 0.999 * plan["cost"])
        self.assertGreater(what_if["objectives x 0.5"], plan["cost"])
        self.assertLess(what_if["objectives x 2"], plan["cost"])
        self.assertEqual(run("--fleet", FLEET, "--json").stdout, done.stdout)

    def test_what_people_read(self):
        with tempfile.TemporaryDirectory() as folder:
            page = pathlib.Path(folder) / "fleet.html"
            done = run("--fleet", FLEET, "--html", page)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("per million timely requests", done.stdout)
            self.assertIn("what if", done.stdout)
            self.assertIn("drawFleet", page.read_text())

    def test_what_is_refused(self):
        done = run()
        self.assertEqual(done.returncode, 2)
        self.assertIn("DIR is missing: the model repository", done.stderr)
        done = run(ROOT, "--fleet", FLEET)
        self.assertEqual(done.returncode, 2)
        self.assertIn("DIR and --fleet exclude each other", done.stderr)
        with tempfile.TemporaryDirectory() as folder:
            wrong = pathlib.Path(folder) / "wrong.pbtxt"
            wrong.write_text('device { name: "d" price_per_hour: 1 }\nmodel { name: "m" slo_ms: 5 rate_per_s: 1 }\n')
            done = run("--fleet", wrong)
            self.assertEqual(done.returncode, 2)
            self.assertIn("wrong.pbtxt:2: no device can run model 'm'", done.stderr)

    def test_a_type_vanishes(self):
        """A plan was made; then one type is no longer sold, or no profile of it is left. The page of the plan stays."""
        text = FLEET.read_text()
        sold, profiles = [], []
        for line in text.splitlines(keepends=True):
            sold += [line] if not line.startswith('device { name: "1080ti"') else []
            profiles += [line] if 'on { device: "1080ti"' not in line else []
        self.assertNotIn(text, ("".join(sold), "".join(profiles)))
        with tempfile.TemporaryDirectory() as folder:
            page, file = pathlib.Path(folder) / "fleet.html", pathlib.Path(folder) / "fleet.pbtxt"
            file.write_text(text)
            self.assertEqual(run("--fleet", file, "--html", page).returncode, 0)
            before = page.read_text()
            file.write_text("".join(sold))
            done = run("--fleet", file, "--html", page)
            self.assertEqual((done.returncode, done.stdout), (2, ""))
            self.assertIn("there is no device '1080ti' for model 'DenseNet121'; the file has 'a100'", done.stderr)
            self.assertEqual(page.read_text(), before)
            file.write_text("".join(profiles))  # the type is there, and nothing may lie on it
            done = run("--fleet", file, "--json")
            self.assertEqual(done.returncode, 0, done.stderr)
            plan = json.loads(done.stdout)
            self.assertEqual({group["device"] for group in plan["sub_clusters"]}, {"a100"})
            self.assertEqual([kind["most"] for kind in plan["devices"] if kind["name"] == "1080ti"], [0])
            file.write_text("".join(line for line in profiles if 'on { device: "a100"' not in line))
            done = run("--fleet", file)
            self.assertEqual((done.returncode, done.stdout), (2, ""))
            self.assertIn("no device can run model 'DenseNet121': it needs a profile", done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=1)
