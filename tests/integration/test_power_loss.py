#!/usr/bin/env python3
"""Programs that lose power at each moment at which they bring something to the disk (tests/faults/power_loss.c): what they
write is there as it was, or as it is to be. Random, with a printed seed (TUTTI_SEED)."""
import http.client
import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "python"))

from needs import need  # noqa: E402

need("numpy", "onnx")

from plain_client import PROGRAM, Server, is_sanitized  # noqa: E402
from recordings import replay  # noqa: E402

SHIM = pathlib.Path(PROGRAM).resolve().parent / "tests" / "faults" / "power_loss.so"
LOST = 86  # its exit code
MAX_MOMENTS = 200
REQUESTS = 12  # of a server
CONFIG = """backend: "emulated" max_batch_size: 1
input { name: "input" data_type: TYPE_FP32 dims: 1 }
output { name: "y" data_type: TYPE_FP32 dims: 1 }
"""
BODY = json.dumps({"inputs": [{"name": "input", "shape": [1, 1], "datatype": "FP32", "data": [1]}]})
SEED = int(os.environ.get("TUTTI_SEED", random.randrange(1 << 31)))


def files(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()} if folder.is_dir() else None


class LossCase(unittest.TestCase):
    def setUp(self):
        if is_sanitized():
            self.skipTest("a sanitizer must be the first library of a process")
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name).resolve()
        self.work = self.folder / "work"

    def run_program(self, arguments, moment=None):
        environment = dict(os.environ, TMPDIR=str(self.folder))  # what it leaves there goes with the folder
        if moment is not None:
            environment.update(LD_PRELOAD=str(SHIM), POWER_LOSS="%d:%d:%s" % (moment, SEED + moment, self.work))
        done = subprocess.run([PROGRAM, *map(str, arguments)], env=environment, capture_output=True, text=True, check=False)
        self.assertIn(done.returncode, (0, LOST), done.stderr + done.stdout)
        return done.returncode == LOST

    def lose_at_each(self, arguments, prepare, check):
        """`prepare` makes the folder as it was; `check` looks at it after each loss, and at the end. How many there were."""
        for moment in range(MAX_MOMENTS):
            shutil.rmtree(self.work, ignore_errors=True)
            self.work.mkdir()
            prepare()
            lost = self.run_program(arguments, moment)
            with self.subTest(moment=moment, seed=SEED + moment):
                check(not lost)
            if not lost:
                return moment
        self.fail("it never ends by itself")


class Programs(LossCase):
    def test_slices(self):
        models = self.folder / "models"
        maker = ROOT / "scripts" / "make_models.py"
        subprocess.run([sys.executable, maker, "--out", models, "--only", "mlp"], check=True, capture_output=True)
        whole, out = self.folder / "whole", self.work / "slices"
        arguments = ["slice", models / "mlp" / "1" / "model.onnx", "--per-node", "--out"]
        self.run_program([*arguments, whole])
        wanted = files(whole)
        manifest = wanted.pop("slices.pbtxt")
        self.assertGreater(len(wanted), 2)

        def check(is_complete):
            found = files(out)
            self.assertTrue(found or not is_complete)
            if found is None:
                return
            self.assertEqual(found.pop("slices.pbtxt").splitlines()[-1], manifest.splitlines()[-1])
            self.assertEqual(found, wanted)

        moments = self.lose_at_each([*arguments, out], lambda: None, check)
        self.assertGreater(moments, 2 * len(wanted))  # each file, its name, and those of the folder
        self.run_program([*arguments, self.work / "again"])  # what was left behind is no obstacle
        self.assertTrue(files(self.work / "again"))

    def test_results(self):
        """Every verb writes its results by the same function (base/text.h)."""
        experiment = ROOT / "experiments" / "symphony" / "worked-example-3.3.pbtxt"
        out = self.work / "timeline.svg"
        self.work.mkdir()
        self.run_program(["experiment", experiment, "--svg", out])
        new = out.read_bytes()

        def check(is_complete):
            self.assertIn(out.read_bytes(), (new,) if is_complete else (b"old", new))

        moments = self.lose_at_each(["experiment", experiment, "--svg", out], lambda: out.write_bytes(b"old"), check)
        self.assertEqual(moments, 6)

    def test_csv_files(self):
        experiment = ROOT / "experiments" / "symphony" / "worked-example-3.3.pbtxt"
        paths = [self.work / "tasks.csv", self.work / "outcomes.csv"]
        arguments = ["experiment", experiment, "--tasks", paths[0], "--outcomes", paths[1]]
        self.work.mkdir()
        self.run_program(arguments)
        new = [path.read_bytes() for path in paths]

        def check(is_complete):
            for path, content in zip(paths, new):
                self.assertIn(path.read_bytes(), (content,) if is_complete else (b"old", content))

        moments = self.lose_at_each(arguments, lambda: [path.write_bytes(b"old") for path in paths], check)
        self.assertEqual(moments, 12)

    def test_profiles(self):
        """The profile is the old one or the new one, and what was measured so far is no obstacle to measuring on."""
        models = self.folder / "models"
        subprocess.run([sys.executable, ROOT / "scripts" / "make_models.py", "--out", models, "--only", "mlp"], check=True, capture_output=True)
        old = "point { batch: 1 latency_ns: 200000 }\n"
        out = self.work / "profile.pbtxt"
        arguments = ["profile", models / "mlp", "--runs", "1", "--max-batch", "2", "--executors", "1", "--output", out]

        def check(is_complete):
            text = out.read_text()
            self.assertTrue(text == old or text.rstrip().endswith("}") and "runs: " in text, text)
            self.assertTrue(text != old or not is_complete)
            if is_complete:
                return
            self.run_program(arguments)
            self.assertIn("runs: ", out.read_text())
            self.assertEqual([path.name for path in self.work.iterdir() if path.suffix == ".part"], [])

        moments = self.lose_at_each(arguments, lambda: out.write_text(old), check)
        self.assertGreater(moments, 10)


class Recording(LossCase):
    """A server that records."""

    def setUp(self):
        super().setUp()
        model = self.folder / "models" / "m"
        (model / "1").mkdir(parents=True)
        (model / "config.pbtxt").write_text(CONFIG)
        (model / "profile.pbtxt").write_text("linear { beta_ms: 0.05 }")
        self.recording = self.work / "r.rec"

    def serve(self, moment=None):
        """Requests until the server ends, or some were answered. How many were, and whether it lost its power."""
        environment = dict(os.environ)
        if moment is not None:
            environment.update(LD_PRELOAD=str(SHIM), POWER_LOSS="%d:%d:%s" % (moment, SEED + moment, self.work))
        try:
            server = Server(self.folder / "models", "--record", self.recording, start={"env": environment})
        except RuntimeError:
            return 0, True  # it did not come so far
        answered = 0
        try:
            for _ in range(REQUESTS):
                connection = http.client.HTTPConnection(server.address, timeout=30)
                connection.request("POST", "/v2/models/m/infer", BODY)
                answered += connection.getresponse().status == 200
                connection.close()
                time.sleep(0.015)  # a block each
        except OSError:
            pass
        code = server.end(signal.SIGTERM)
        self.assertIn(code, (0, LOST), server.said())
        self.assertNotEqual((code, answered < REQUESTS), (0, True), server.said())
        return answered, code == LOST

    def arrivals(self):
        """Of the recording, which can be replayed."""
        answer = replay(self.recording, "--json")
        if answer.returncode == 2 and "it ends before the first one was described" in answer.stderr:
            return 0
        self.assertEqual(answer.returncode, 0, answer.stderr)
        return sum(domain["requests"] for domain in json.loads(answer.stdout)["domains"])

    def test_recordings(self):
        seen = set()
        for moment in range(MAX_MOMENTS):
            shutil.rmtree(self.work, ignore_errors=True)
            self.work.mkdir()
            answered, lost = self.serve(moment)
            with self.subTest(moment=moment, seed=SEED + moment):
                if moment < 2 and lost:
                    continue  # its header was not on the disk yet
                found = self.arrivals()
                self.assertLessEqual(found, answered + 1)
                self.assertTrue(found == REQUESTS or lost)
                seen.add(found)
            if not lost:
                break
        else:
            self.fail("it never ends by itself")
        self.assertGreater(moment, 8)
        self.assertGreater(len(seen), 2)
        self.assertEqual(self.serve(), (REQUESTS, False))  # a recording that is there is no obstacle


if __name__ == "__main__":
    print("seed %d" % SEED)
    unittest.main()
