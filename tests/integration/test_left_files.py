#!/usr/bin/env python3
"""A server that is killed while it loads a model from files of a client leaves them in the temporary directory. The next server
removes them, and nothing that another process still uses."""
import base64
import fcntl
import http.client
import json
import os
import pathlib
import sys
import tempfile
import threading
import time
import unittest

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "python"))

from needs import need  # noqa: E402

need("numpy", "onnx", "tritonclient")

from control_case import PROGRAM, Repository, slow  # noqa: E402
from server_process import Server  # noqa: E402

WAIT_S = 60
LONG_AGO = time.time() - 3600


class LeftFiles(unittest.TestCase):
    def setUp(self):
        self.repository = Repository()
        self.addCleanup(self.repository.close)
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        before = os.environ.get("TMPDIR")
        os.environ["TMPDIR"] = folder.name
        self.addCleanup(lambda: os.environ.update(TMPDIR=before) if before else os.environ.pop("TMPDIR"))

    def start(self, mode="explicit"):
        command = [PROGRAM, "serve", "--model-repository", str(self.repository.path), "--model-control-mode", mode]
        server = Server(command + ["--http-port", "0"])
        self.addCleanup(server.process.kill)
        self.assertTrue(server.wait_ready(WAIT_S), server.said())
        return server

    def left(self):
        return sorted(path.name for path in self.folder.iterdir())

    def kill_within_a_load(self, body):
        """True: files were left."""
        server = self.start()

        def load():
            connection = http.client.HTTPConnection(server.address, timeout=WAIT_S)
            try:
                connection.request("POST", "/v2/repository/models/new/load", body)
                connection.getresponse().read()
            except (OSError, http.client.HTTPException):
                pass  # it was killed
            connection.close()

        thread = threading.Thread(target=load, daemon=True)
        thread.start()
        while thread.is_alive() and not any(self.folder.glob("tutti-load-*")):
            time.sleep(0.001)
        server.process.kill()
        server.process.wait(WAIT_S)
        thread.join(WAIT_S)
        server.process.stderr.close()
        return any(self.folder.glob("tutti-load-*"))

    def test_of_a_killed_server(self):
        file = base64.b64encode(slow(layers=300)).decode()
        body = json.dumps({"parameters": {"config": "{}", "file:1/model.onnx": file, "file:1/more": "A" * (8 << 20)}})
        self.assertTrue(any(self.kill_within_a_load(body) for _ in range(10)), "it is loaded too fast")
        server = self.start()
        self.assertEqual(len(self.left()), 1)  # it may be a new one of another server
        self.assertEqual(server.stop(WAIT_S), 0, server.said())
        for path in self.folder.glob("tutti-load-*"):
            os.utime(path, (LONG_AGO, LONG_AGO))
        server = self.start()
        self.assertEqual(self.left(), [])
        self.assertEqual(server.stop(WAIT_S), 0, server.said())

    def test_what_stays(self):
        other = self.folder / "other"
        for name in ("tutti-load-abcdef", "tutti-load-locked", "tutti-load-abcdefg", "tutti-save-abcdef", "other"):
            (self.folder / name / "m" / "1").mkdir(parents=True)
            (self.folder / name / "m" / "1" / "model.onnx").write_text("x")
            os.utime(self.folder / name, (LONG_AGO, LONG_AGO))
        (self.folder / "tutti-load-linked").symlink_to(other)
        (self.folder / "tutti-load-a_file").write_text("x")
        os.utime(self.folder / "tutti-load-a_file", (LONG_AGO, LONG_AGO))
        locked = os.open(self.folder / "tutti-load-locked", os.O_RDONLY)
        self.addCleanup(os.close, locked)
        fcntl.flock(locked, fcntl.LOCK_EX)
        before = self.left()
        server = self.start("none")  # it takes no files, and so leaves none
        self.assertEqual(self.left(), before)
        self.assertEqual(server.stop(WAIT_S), 0, server.said())
        server = self.start()
        self.assertEqual(self.left(), [name for name in before if name != "tutti-load-abcdef"])
        self.assertTrue((other / "m" / "1" / "model.onnx").exists())
        self.assertEqual(server.stop(WAIT_S), 0, server.said())


if __name__ == "__main__":
    unittest.main()
