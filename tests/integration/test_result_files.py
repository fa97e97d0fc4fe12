#!/usr/bin/env python3
"""CSV files of experiments and loads: a full disk or the end of the process leaves what was there, and the error names the
path; pipes and devices are written as they are."""
import json
import os
import pathlib
import resource
import signal
import subprocess
import sys
import tempfile
import time
import unittest

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "python"))

from plain_client import PROGRAM, Server  # noqa: E402

CONFIG = """backend: "emulated" max_batch_size: 1
input { name: "input" data_type: TYPE_FP32 dims: 1 }
output { name: "y" data_type: TYPE_FP32 dims: 1 }
"""
EXPERIMENT = ROOT / "experiments" / "symphony" / "worked-example-3.3.pbtxt"
OLD = "what was there\n"


def full_disk():
    """No file of the process may grow beyond some lines."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))


class ResultFiles(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name).resolve()
        self.csv = self.folder / "r.csv"
        self.csv.write_text(OLD)

    def run_program(self, *arguments, **options):
        done = subprocess.run([PROGRAM, *map(str, arguments)], capture_output=True, text=True, restore_signals=False, timeout=120, check=False, **options)  # fmt: skip
        return done.returncode, done.stdout, done.stderr

    def serve(self):
        model = self.folder / "models" / "m"
        (model / "1").mkdir(parents=True)
        (model / "config.pbtxt").write_text(CONFIG)
        (model / "profile.pbtxt").write_text("linear { beta_ms: 0.05 }")
        server = Server(self.folder / "models")
        self.addCleanup(server.process.kill)
        return ["load", "http://" + server.address, "--model", "m", "--rate", "500"]

    def assert_old(self):
        self.assertEqual(self.csv.read_text(), OLD)
        self.assertEqual([path.name for path in self.folder.iterdir() if path.is_file()], ["r.csv"])

    def check_full(self, *arguments):
        code, _, said = self.run_program(*arguments, self.csv, preexec_fn=full_disk)
        self.assertEqual(code, 1, said)
        self.assertIn("%s: it could not be written: File too large" % self.csv, said)
        self.assert_old()
        code, _, said = self.run_program(*arguments, self.csv)
        self.assertEqual(code, 0, said)
        self.assertGreater(len(self.csv.read_text().splitlines()), 3)
        self.assertEqual([path.name for path in self.folder.iterdir() if path.is_file()], ["r.csv"])

    def test_a_full_disk(self):
        for flag in ("--tasks", "--outcomes"):
            with self.subTest(flag=flag):
                self.csv.write_text(OLD)
                self.check_full("experiment", EXPERIMENT, flag)
        self.csv.write_text(OLD)
        self.check_full(*self.serve(), "--requests", "20", "--csv")

    def test_the_end_of_a_load(self):
        """Killed, it has replaced nothing; interrupted, it writes what it has measured."""
        for number, code in ((signal.SIGKILL, -9), (signal.SIGINT, 130)):
            load = self.load if number == signal.SIGINT else self.serve()
            self.load = load
            process = subprocess.Popen([PROGRAM, *load, "--duration", "60", "--csv", str(self.csv)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # fmt: skip
            until = time.monotonic() + 60
            while not list(self.folder.glob("r.csv.%d.tmp" % process.pid)):
                self.assertLess(time.monotonic(), until)
                time.sleep(0.05)
            time.sleep(0.5)
            process.send_signal(number)
            self.assertEqual(process.wait(60), code)
            if number == signal.SIGKILL:
                self.assertEqual(self.csv.read_text(), OLD)
            else:
                self.assertGreater(len(self.csv.read_text().splitlines()), 2)
                self.assertTrue(self.csv.read_text().endswith("\n"))

    def test_what_is_no_regular_file(self):
        fifo = self.folder / "fifo"
        os.mkfifo(fifo)
        reader = subprocess.Popen(["cat", fifo], stdout=subprocess.PIPE, text=True)
        code, _, said = self.run_program("experiment", EXPERIMENT, "--outcomes", fifo)
        self.assertEqual(code, 0, said)
        self.assertTrue(reader.communicate(timeout=60)[0].startswith("request,model,"))
        code, out, said = self.run_program("experiment", EXPERIMENT, "--json", "--outcomes", "/dev/null")
        self.assertEqual(code, 0, said)
        self.assertTrue(json.loads(out))
        code, _, said = self.run_program("experiment", EXPERIMENT, "--outcomes", "/dev/full")
        self.assertEqual(code, 1, said)
        self.assertIn("/dev/full: it could not be written: No space left on device", said)
        self.assertTrue(pathlib.Path("/dev/full").is_char_device())
        link = self.folder / "link.csv"
        link.symlink_to(self.csv)
        code, _, said = self.run_program("experiment", EXPERIMENT, "--outcomes", link)
        self.assertEqual(code, 0, said)
        self.assertTrue(link.is_symlink())
        self.assertTrue(self.csv.read_text().startswith("request,model,"))

    def test_a_run_that_fails(self):
        missing = self.folder / "no" / "r.csv"
        code, _, said = self.run_program("experiment", EXPERIMENT, "--tasks", self.csv, "--outcomes", missing)
        self.assertNotEqual(code, 0)
        self.assertIn(str(missing), said)
        self.assert_old()


if __name__ == "__main__":
    unittest.main()
