#!/usr/bin/env python3
"""tutti autoscale: figure 15 in short, on 24 models and 512 devices, a cluster of processes, and what it refuses."""
# plain build only: minutes of simulation, whose unit tests run under sanitizers
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = os.environ["TUTTI_PROGRAM"]
FIGURE = ROOT / "experiments" / "symphony" / "figure15-advice.pbtxt"
MODEL = 'model { name: "m" slo_ms: 30 profile { linear { alpha_ms: 1 beta_ms: 5 } } max_batch: 16 }'


FLEET = MODEL + ' device { count: 8 } load { rate: 100 } policy { name: "deferred" } duration_s: 1'


def run(*arguments):
    return subprocess.run([PROGRAM, "autoscale", *map(str, arguments)], capture_output=True, text=True, timeout=240)


class Autoscale(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def answer(self, *arguments):
        done = run(*arguments, "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def write(self, text):
        path = self.folder / "fleet.pbtxt"
        path.write_text(text)
        return path

    def test_the_figure_in_short(self):
        answer = self.answer(FIGURE, "--hours", 1, "--search-hours", 0.5, "--sample-ms", 60)
        self.assertEqual(answer["capacity"], 512)
        self.assertEqual(len(answer["models"]), 24)
        self.assertEqual(len(answer["points"]["hour"]), 60)
        self.assertLessEqual(answer["bad_rate_settled"], 0.01)
        self.assertLessEqual(answer["over_fewest"], 1.1)
        self.assertEqual(len(answer["fewest"]), 2)
        self.assertIsNone(answer["servers"])

    def test_the_same_arguments_give_the_same_answer(self):
        fleet = self.write(MODEL + ' device { count: 10 } load { rate: 100 } policy { name: "deferred" } duration_s: 1')
        arguments = (fleet, "--hours", 1, "--search-hours", 0.5, "--servers", "--seed", 7)
        one = self.answer(*arguments)
        self.assertEqual(one, self.answer(*arguments))
        self.assertNotEqual(one["points"], self.answer(*arguments[:-1], 8)["points"])
        self.assertGreater(one["servers"]["mean_servers"], one["mean_devices"])
        said = run(*arguments).stdout
        self.assertIn("The fleet by the advice:", said)
        self.assertIn("Servers behind a proxy", said)

    def processes(self):
        """Those with the folder in their command line."""
        found = []
        for path in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
            try:
                if str(self.folder) in path.read_bytes().decode(errors="replace") and int(path.parent.name) != os.getpid():
                    found.append(path.parent.name)
            except OSError:
                continue  # it has ended meanwhile
        return found

    def start(self, *arguments):
        """With --processes 4, and its folder in ours."""
        command = [PROGRAM, "autoscale", *map(str, arguments), "--processes", "4", "--pace", "100", "--slower", "10", "--json"]
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ | {"TMPDIR": str(self.folder)})

    # S9, S11: real processes come and go by the advice; no test states a time
    def test_a_cluster_of_processes(self):
        process = self.start(self.write(FLEET), "--hours", "0.3", "--search-hours", "0.1")
        out, err = process.communicate(timeout=400)
        self.assertEqual(process.returncode, 0, err)
        answer = json.loads(out)
        self.assertGreaterEqual(answer["processes"].pop("suspected"), 0)
        self.assertEqual(answer["processes"], {"backends": 4, "pace": 100, "slower": 10})
        self.assertEqual(len(answer["points"]["hour"]), 2)
        self.assertGreater(answer["requests"], 0)
        self.assertGreater(sum(answer["points"]["good_per_s"]), 0)
        self.assertEqual(answer["models"][0]["slo_ms"], 300)  # ten times as long
        self.assertTrue(all(0 < up <= 8 for up in answer["points"]["devices"]), answer["points"])
        self.assertGreater(answer["over_fewest"], 0)
        self.assertIsNone(answer["servers"])
        self.assertEqual(self.processes(), [])
        self.assertEqual([path.name for path in self.folder.iterdir()], ["fleet.pbtxt"])

    def test_an_interrupted_cluster_leaves_nothing(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            process = self.start(self.write(FLEET), "--hours", "100")
            until = time.monotonic() + 60
            while len(self.processes()) < 3:
                self.assertTrue(process.poll() is None and time.monotonic() < until, "nothing starts")
                time.sleep(0.05)
            process.send_signal(number)
            err = process.communicate(timeout=120)[1]
            self.assertEqual(process.returncode, 130, err)
            self.assertEqual(self.processes(), [])
            self.assertEqual([path.name for path in self.folder.iterdir()], ["fleet.pbtxt"])

    def test_what_is_refused(self):
        fleet = self.write(
            MODEL.replace("slo_ms: 30", "") + ' device { count: 2 } load { rate: 1 } policy { name: "serial" } duration_s: 1'
        )
        done = run(fleet)
        self.assertEqual(done.returncode, 2)
        self.assertIn("model 'm' has no objective (slo_ms)", done.stderr)
        self.assertEqual(run(self.folder / "none").returncode, 2)
        fleet = self.write(FLEET)
        done = run(fleet, "--processes", 3)
        self.assertEqual(done.returncode, 2)
        self.assertIn("3 backends cannot share 8 devices evenly", done.stderr)
        done = run(fleet, "--processes", 4, "--servers")
        self.assertEqual(done.returncode, 2)
        self.assertIn("--servers are simulated; they do not go with --processes", done.stderr)
        done = run(FIGURE, "--peak", 2)
        self.assertEqual(done.returncode, 2)
        self.assertIn("--peak", done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=1)
