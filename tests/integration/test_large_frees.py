#!/usr/bin/env python3
"""Giving large memory back to the system takes milliseconds, in which the connections' thread would serve no client: the bodies that
threads of the pool read are freed there, whether they are right, wrong, loads, or those of clients that have left."""
import base64
import http.client
import json
import os
import pathlib
import socket
import sys
import tempfile
import time
import unittest
import zlib

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "python"))

from fault_board import open_board  # noqa: E402
from plain_client import Server, is_sanitized  # noqa: E402

MIB = 1 << 20
CONFIG = """backend: "emulated" max_batch_size: 8
input { name: "input" data_type: TYPE_FP32 dims: 16 }
output { name: "y" data_type: TYPE_FP32 dims: 16 }
"""
INFER = "/v2/models/good/infer"
BODY = json.dumps({"inputs": [{"name": "input", "shape": [1, 16], "datatype": "FP32", "data": [0] * 16}]}).encode()
BLANKS = b" " * (24 * MIB)


def pack(text):
    packer = zlib.compressobj(1, zlib.DEFLATED, 31)
    return packer.compress(text) + packer.flush()


class LargeFrees(unittest.TestCase):
    def setUp(self):
        if is_sanitized():
            self.skipTest("a sanitizer has functions of its own in these places")
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        models = pathlib.Path(folder.name) / "models"
        (models / "good" / "1").mkdir(parents=True)
        (models / "good" / "config.pbtxt").write_text(CONFIG)
        (models / "good" / "profile.pbtxt").write_text("linear { beta_ms: 0.05 }")
        self.board, environment = open_board(pathlib.Path(folder.name) / "board")
        start = {"env": dict(os.environ, **environment)}
        self.server = Server(models, "--model-control-mode", "explicit", "--load-model", "good", start=start)
        self.addCleanup(self.server.process.kill)
        self.board.freed_bytes = 0

    def ask(self, path, body, packed=False):
        connection = http.client.HTTPConnection(self.server.address, timeout=60)
        connection.request("POST", path, body, {"Content-Encoding": "gzip"} if packed else {})
        answer = connection.getresponse()
        text = answer.read()
        connection.close()
        self.assertLess(self.board.freed_bytes, MIB, (path, len(body), text[:100]))
        return answer.status

    def test_bodies(self):
        self.assertEqual(self.ask(INFER, BLANKS + BODY), 200)
        self.assertEqual(self.ask(INFER, pack(BLANKS + BODY), True), 200)
        self.assertEqual(self.ask(INFER, BLANKS + b"{"), 400)
        self.assertEqual(self.ask(INFER, pack(BLANKS + b"{"), True), 400)
        self.assertEqual(self.ask(INFER, pack(BLANKS * 3), True), 413)  # beyond --max-unpacked-bytes
        wrong = BODY.replace(b"[1, 16]", b"[9, 16]").replace(b"[0,", b"[" + b"0," * 128 + b"0,")
        self.assertEqual(self.ask(INFER, BLANKS + wrong), 400)  # found when its memory is reserved
        load = {"parameters": {"config": "{}", "file:1/model.onnx": base64.b64encode(b"x" * 8 * MIB).decode()}}
        self.assertEqual(self.ask("/v2/repository/models/other/load", json.dumps(load)), 400)

    def test_clients_that_leave(self):
        body = pack(BLANKS + BODY)
        for _ in range(8):
            host, port = self.server.address.split(":")
            with socket.create_connection((host, int(port))) as found:
                found.sendall(b"POST %s HTTP/1.1\r\nHost: x\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % (INFER.encode(), len(body)) + body)
        end = time.monotonic() + 60
        while self.value("tutti_http_in_flight") > 1:
            self.assertLess(time.monotonic(), end)
            time.sleep(0.01)
        self.assertLess(self.board.freed_bytes, MIB)

    def value(self, name):
        connection = http.client.HTTPConnection(self.server.address, timeout=60)
        connection.request("GET", "/metrics")
        lines = connection.getresponse().read().decode().splitlines()
        connection.close()
        return next(float(line.split()[1]) for line in lines if line.startswith(name + " "))


if __name__ == "__main__":
    unittest.main()
