#!/usr/bin/env python3
"""Programs that lose power at each moment at which they bring something to the disk (tests/faults/power_loss.c): what they
write is there as it was, or as it is to be. Random, with a printed seed (TUTTI_SEED)."""
import os
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "python"))

from needs import need  # noqa: E402

need("numpy", "onnx")

from plain_client import PROGRAM, is_sanitized  # noqa: E402

SHIM = pathlib.Path(PROGRAM).resolve().parent / "tests" / "faults" / "power_loss.so"
LOST = 86  # its exit code
MAX_MOMENTS = 200
SEED = int(os.environ.get("TUTTI_SEED", random.randrange(1 << 31)))


def files(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()} if folder.is_dir() else None


class PowerLoss(unittest.TestCase):
    def setUp(self):
        if is_sanitized():
            self.skipTest("a sanitizer must be the first library of a process")
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name).resolve()
        self.work = self.folder / "work"

    def run_program(self, arguments, moment=None):
        environment = dict(os.environ)
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


if __name__ == "__main__":
    print("seed %d" % SEED)
    unittest.main()
