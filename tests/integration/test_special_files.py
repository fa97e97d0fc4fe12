#!/usr/bin/env python3
"""A FIFO or a device in a repository: the model is UNAVAILABLE with the file's name, no reader waits for it, the good
model serves, loads go on, and the server ends."""
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "python"))

from needs import need  # noqa: E402

need("onnx")

from plain_client import PROGRAM, Server, ask, get, make_two_models  # noqa: E402

PLACES = ["config.pbtxt", "tutti.pbtxt", "profile.pbtxt", "1/model.onnx"]


class SpecialFiles(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.models = make_two_models(folder.name)  # quick has each of the files but config.pbtxt
        good = (self.models / "quick" / "1" / "model.onnx").read_bytes()
        self.bad = {}
        for i, place in enumerate(PLACES):
            model = self.models / ("fifo%d" % i)
            (model / "1").mkdir(parents=True)
            (model / "1" / "model.onnx").write_bytes(good)
            (model / place).unlink(missing_ok=True)
            os.mkfifo(model / place)
            self.bad[model.name] = "%s: not a regular file, but a FIFO" % (model / place)
        device = self.models / "device"
        (device / "1").mkdir(parents=True)
        (device / "1" / "model.onnx").symlink_to("/dev/zero")
        self.bad["device"] = "%s: not a regular file, but a device" % (device / "1" / "model.onnx")

    def test_check(self):
        done = subprocess.run(
            [PROGRAM, "models", "check", self.models], capture_output=True, text=True, timeout=60, check=False
        )
        self.assertEqual(done.returncode, 1)
        for sentence in self.bad.values():
            self.assertIn(sentence, done.stdout + done.stderr)

    def test_serve(self):
        explicit = ["--model-control-mode", "explicit", "--load-model", "*"]
        server = Server(self.models, *explicit)
        _, _, page = get(server.address, "/v2/repository/index", "POST")
        index = {entry["name"]: entry for entry in json.loads(page)}
        for name, sentence in self.bad.items():
            self.assertEqual(index[name]["state"], "UNAVAILABLE")
            self.assertIn(sentence, index[name]["reason"])
        self.assertEqual(ask(server.address, "mlp", 3), [200] * 3)
        for name, sentence in self.bad.items():
            status, _, body = get(server.address, "/v2/repository/models/%s/load" % name, "POST", "{}")
            self.assertEqual(status, 400)
            self.assertIn(sentence, json.loads(body)["error"])
        self.assertEqual(ask(server.address, "quick", 1), [200])
        self.assertEqual(server.end(signal.SIGTERM), 0, server.said())


if __name__ == "__main__":
    unittest.main()
