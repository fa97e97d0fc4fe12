#!/usr/bin/env python3
"""Sweeps: parameters that move together, interruption, and going on with --resume."""
import json
import os
import pathlib
import signal
import subprocess
import tempfile
import time
import unittest

PROGRAM = os.environ["TUTTI_PROGRAM"]

EXPERIMENT = """title: "t"
seed: 1
duration_s: %(duration)s
device { count: 4 }
model { name: "M" copies: 2 slo_ms: 25 profile { linear { alpha_ms: 1 beta_ms: 5 } } }
load { rate: 1500 }
policy { name: "deferred" }
goodput { precision: 0.05 seeds: 2 }
sweep { parameter: "%(parameter)s" value: [%(values)s] }
"""


class Sweep(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.file = pathlib.Path(self.folder.name, "e.pbtxt")
        self.state = pathlib.Path(self.folder.name, "state")

    def write(self, values=("500", "1000", "1500", "2000"), parameter="rate", duration="2"):
        self.file.write_text(
            EXPERIMENT
            % {
                "duration": duration,
                "parameter": parameter,
                "values": ", ".join('"%s"' % v for v in values),
            }
        )

    def run_it(self, *arguments):
        return subprocess.run(
            [PROGRAM, "experiment", str(self.file), "--json", *map(str, arguments)],
            capture_output=True,
            text=True,
            timeout=120,
        )

    def lines(self):
        return self.state.read_text().splitlines()

    def test_a_point_with_an_error_leaves_no_trace(self):
        """What the state file keeps of later points is what they give without it."""
        contenders = (
            'contender { name: "first" set: "rate=500" }\n'
            'contender { name: "broken" set: "devices=1" set: "rate=fast" }\n'
            'contender { name: "last" set: "rate=900" }\n'
        )
        for values in (("first", "broken", "last"), ("first", "last")):
            self.write(values, "contender")
            self.file.write_text(self.file.read_text() + contenders)
            ran = self.run_it("--resume", self.state, "--workers", 1)
            self.assertEqual(ran.returncode, 2 if "broken" in values else 0, ran.stderr)
            if "broken" in values:
                self.assertIn("e.pbtxt:9: ", ran.stderr)
                self.assertIn("rate is 'fast'", ran.stderr)
        self.assertEqual(ran.stdout, self.run_it().stdout)

    def test_resumed_is_the_same(self):
        self.write()
        whole = self.run_it()
        self.assertEqual(whole.returncode, 0, whole.stderr)
        kept = self.run_it("--resume", self.state)
        self.assertEqual(kept.stdout, whole.stdout)
        self.assertEqual(len(self.lines()), 5)
        # Two points, and half a line as a crash leaves it.
        lines = self.lines()
        self.state.write_text("\n".join(lines[:3]) + "\n" + lines[3][:40])
        again = self.run_it("--resume", self.state)
        self.assertEqual(again.returncode, 0, again.stderr)
        self.assertEqual(again.stdout, whole.stdout)
        self.assertEqual(self.lines()[:3], lines[:3])
        self.assertEqual(len(self.lines()), 5)

    def test_known_points_are_not_run_again(self):
        self.write()
        self.assertEqual(self.run_it("--resume", self.state).returncode, 0)
        lines = self.lines()
        first = json.loads(lines[1])
        first["result"]["devices_used"] = 77
        lines[1] = json.dumps(first)
        self.state.write_text("\n".join(lines) + "\n")
        points = json.loads(self.run_it("--resume", self.state).stdout)["points"]
        self.assertIn(77, [p["devices_used"] for p in points])
        # Values may be added: only they are run.
        self.write(values=("500", "1000", "1500", "2000", "2500"))
        self.assertEqual(self.run_it("--resume", self.state).returncode, 0)
        self.assertEqual(self.lines()[:5], lines)
        self.assertEqual(len(self.lines()), 6)

    def test_workers_are_a_whole_number(self):
        self.write()
        for workers in ("0", "3x", "65", ""):
            answer = self.run_it("--workers", workers)
            self.assertEqual(answer.returncode, 2, workers)
            self.assertIn("--workers N must be a whole number from 1 to 64, not '%s'" % workers, answer.stderr)

    def test_another_experiment_is_refused(self):
        self.write()
        self.assertEqual(self.run_it("--resume", self.state).returncode, 0)
        before = self.state.read_bytes()
        for arguments in (("--seed", "2"), ("--goodput",), ("--set", "slo_ms=30")):
            answer = self.run_it("--resume", self.state, *arguments)
            self.assertEqual(answer.returncode, 2, answer.stderr)
            self.assertEqual(answer.stdout, "")
            self.assertEqual(len(answer.stderr.strip().splitlines()), 1, answer.stderr)
            self.assertIn("state:1:", answer.stderr)
        self.assertEqual(self.state.read_bytes(), before)

    def test_files_of_others_are_left_alone(self):
        self.write()
        for text in ("at_ns,model\n1,M\n", "no line end", '{"tutti_sweep": 2}\n'):
            self.state.write_text(text)
            self.assertEqual(self.run_it("--resume", self.state).returncode, 2)
            self.assertEqual(self.state.read_text(), text)

    def test_interrupted(self):
        self.write(values=[str(r) for r in range(1000, 1300)], duration="30")
        started = subprocess.Popen(
            [PROGRAM, "experiment", str(self.file), "--json", "--resume", str(self.state)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            if self.state.exists() and len(self.lines()) >= 4:
                break
            time.sleep(0.02)
        started.send_signal(signal.SIGINT)
        out, err = started.communicate(timeout=60)
        self.assertEqual(started.returncode, 130, err)
        points = json.loads(out)["points"]
        kept = len(self.lines()) - 1
        self.assertGreaterEqual(kept, 3)
        self.assertLess(kept, 300)
        self.assertEqual(sum(not p["interrupted"] for p in points), kept)

    def test_search_keeps_every_seed(self):
        self.write(values=("20", "25"), parameter="slo_ms", duration="5")
        whole = self.run_it("--goodput", "--resume", self.state)
        self.assertEqual(whole.returncode, 0, whole.stderr)
        self.assertEqual(len(self.lines()), 5)
        self.assertEqual(self.run_it("--goodput", "--resume", self.state).stdout, whole.stdout)
        for point in json.loads(whole.stdout)["points"]:
            self.assertEqual(point["seeds"], 2)
            self.assertGreater(point["staggered_per_s"], point["uncoordinated_per_s"])

    def test_together(self):
        self.write(values=("500,2", "900,3"), parameter="rate,devices")
        points = json.loads(self.run_it().stdout)["points"]
        self.assertEqual([p["devices"] for p in points], [2, 3])
        self.assertEqual(points[1]["point"], {"rate": "900", "devices": "3"})
        for values in ("500", "500,2,3"):
            self.write(values=(values,), parameter="rate,devices")
            answer = self.run_it()
            self.assertEqual(answer.returncode, 2)
            self.assertIn("e.pbtxt:9:", answer.stderr)

    def test_a_single_run_has_nothing_to_resume(self):
        self.write()
        self.file.write_text("\n".join(self.file.read_text().splitlines()[:-1]) + "\n")
        self.assertEqual(self.run_it("--resume", self.state).returncode, 2)
        self.assertFalse(self.state.exists())


if __name__ == "__main__":
    unittest.main()
