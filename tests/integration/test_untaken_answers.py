#!/usr/bin/env python3
"""Clients that ask for much and take nothing. What waits for them is bounded over HTTP/1.1, HTTP/2 and gRPC together: the
connection that has held the most for the longest is closed, with a line and a count; those that read get their answers."""
import hashlib
import http.client
import json
import pathlib
import re
import socket
import sys
import tempfile
import time
import unittest

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "python"))

from plain_client import Server  # noqa: E402
from plain_grpc import DATA, HEADERS, PREFACE, SETTINGS, frame, literal  # noqa: E402
from server_process import free_port  # noqa: E402

MIB = 1 << 20
ANSWER = 8 * MIB
CONFIG = """backend: "emulated" max_batch_size: 1
input { name: "input" data_type: TYPE_FP32 dims: 1 }
output { name: "y" data_type: TYPE_FP32 dims: %d }
""" % (ANSWER // 4)
INFER = "/v2/models/wide/infer"
BODY = json.dumps({"inputs": [{"name": "input", "shape": [1, 1], "datatype": "FP32", "data": [1]}],
                   "parameters": {"binary_data_output": True}}).encode()  # fmt: skip
NO_WINDOW = b"\0\4\0\0\0\0"  # SETTINGS_INITIAL_WINDOW_SIZE = 0
END_HEADERS, END_STREAM = 4, 1


def field(number, payload):
    """Of protobuf, with a length."""
    return bytes([number << 3 | 2, len(payload)]) + payload


# model_name; an input: name, datatype, shape (packed), contents.fp32_contents
GRPC_BODY = field(1, b"wide") + field(5, field(1, b"input") + field(2, b"FP32") + field(3, b"\1\1") + field(5, field(6, b"\0\0\0\0")))


class UntakenCase(unittest.TestCase):
    flags = ["--max-send-bytes", 20 * MIB]

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        model = self.folder / "models" / "wide"
        (model / "1").mkdir(parents=True)
        (model / "config.pbtxt").write_text(CONFIG)
        (model / "profile.pbtxt").write_text("linear { beta_ms: 0.05 }")
        self.grpc_port = free_port()
        self.server = Server(self.folder / "models", *self.flags, "--grpc-port", self.grpc_port)
        self.addCleanup(self.server.process.kill)

    def wait_until(self, check, what):
        end = time.monotonic() + 60
        while not check():
            self.assertLess(time.monotonic(), end, what + ": " + self.server.said())
            time.sleep(0.01)

    def dial(self, port=None):
        """A client whose socket takes little by itself."""
        host, own_port = self.server.address.split(":")
        found = socket.socket()
        self.addCleanup(found.close)
        found.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        found.settimeout(60)
        found.connect((host, port or int(own_port)))
        return found

    def deaf(self, more=""):
        """It has got the beginning of an answer, and takes no more."""
        found = self.dial()
        found.sendall(("POST %s HTTP/1.1\r\nHost: x\r\n%sContent-Length: %d\r\n\r\n" % (INFER, more, len(BODY))).encode() + BODY)
        self.assertEqual(found.recv(1, socket.MSG_PEEK), b"H")
        return found

    def deaf_http2(self, count):
        found = self.dial()
        headers = b"".join(literal(*pair) for pair in ((":method", "POST"), (":scheme", "http"), (":path", INFER), (":authority", "x")))
        streams = b"".join(frame(HEADERS, END_HEADERS, i, headers) + frame(DATA, END_STREAM, i, BODY) for i in range(1, 2 * count, 2))
        found.sendall(PREFACE + frame(SETTINGS, 0, 0, NO_WINDOW) + streams)
        return found

    def deaf_grpc(self, count):
        found = self.dial(self.grpc_port)
        pairs = ((":method", "POST"), (":scheme", "http"), (":path", "/inference.GRPCInferenceService/ModelInfer"),
                 (":authority", "x"), ("te", "trailers"), ("content-type", "application/grpc"))  # fmt: skip
        headers = b"".join(literal(*pair) for pair in pairs)
        message = b"\0" + len(GRPC_BODY).to_bytes(4, "big") + GRPC_BODY
        streams = b"".join(frame(HEADERS, END_HEADERS, i, headers) + frame(DATA, END_STREAM, i, message) for i in range(1, 2 * count, 2))
        found.sendall(PREFACE + frame(SETTINGS, 0, 0, NO_WINDOW) + streams)
        return found

    def taken(self, found):
        """All bytes that come to the end of the connection."""
        count = 0
        try:
            while some := len(found.recv(65536)):
                count += some
        except ConnectionError:
            pass
        return count

    def ask(self, source="127.0.0.1", **headers):
        """The status and the length of the answer to a client that reads."""
        connection = http.client.HTTPConnection(self.server.address, timeout=60, source_address=(source, 0))
        connection.request("POST", INFER, BODY, headers)
        answer = connection.getresponse()
        content = answer.read()
        connection.close()
        return answer.status, len(content), content[:300]

    def value(self, name):
        connection = http.client.HTTPConnection(self.server.address, timeout=60)
        connection.request("GET", "/metrics", headers=self.reader())
        page = connection.getresponse().read().decode()
        connection.close()
        return int(re.search(r"^%s (\d+)$" % name, page, re.M).group(1))

    def answers(self):
        """Inferences that have ended."""
        return self.value(r'nv_inference_request_success\{model="wide",version="1"\}')

    def wait_answers(self, count):
        """So many inferences have ended, and what they answer waits."""
        self.wait_until(lambda: self.answers() == count, "the answers do not come")
        time.sleep(0.1)

    def reader(self):
        return {}

    def end(self):
        """Nothing is left over: the counters agree, and the server ends."""
        self.wait_until(lambda: self.value("tutti_http_in_flight") == 1, "requests stay in flight")
        self.server.process.terminate()
        self.assertEqual(self.server.process.wait(60), 0, self.server.said())


class Untaken(UntakenCase):
    def test_http1(self):
        held = [self.deaf() for _ in range(2)]
        time.sleep(0.05)  # they are older than what follows
        self.assertEqual(self.value("tutti_http_evicted_total"), 0)
        held.append(self.deaf())
        self.wait_until(lambda: self.value("tutti_http_evicted_total") == 1, "no connection gives way")
        line = re.compile(r"closed the connection of 127\.0\.0\.1: it does not take 83\d+ bytes of answers")
        self.wait_until(lambda: line.search(self.server.said()), "there is no line of it")
        self.assertLess(self.taken(held[0]), ANSWER)  # the oldest
        self.assertGreater(self.taken_whole(held[2]), ANSWER)
        status, length, _ = self.ask()
        self.assertEqual(status, 200)
        self.assertGreaterEqual(length, ANSWER)
        for found in held:
            found.close()
        self.end()

    def taken_whole(self, found):
        """What a client gets that is slow, but reads."""
        count = 0
        while count < ANSWER:
            count += len(found.recv(65536))
        return count + 1

    def test_those_that_read(self):
        """They come to their answers while the others hold all that there is."""
        held = [self.deaf() for _ in range(2)]
        for _ in range(5):
            status, length, text = self.ask()
            self.assertEqual(status, 200, text)
            self.assertGreaterEqual(length, ANSWER)
            held.append(self.deaf())
        self.assertGreaterEqual(self.value("tutti_http_evicted_total"), 3)
        for found in held:
            found.close()
        self.end()

    def test_http2_counts_all_streams(self):
        two = self.deaf_http2(2)
        self.wait_answers(2)
        self.assertEqual(self.value("tutti_http_evicted_total"), 0)
        younger = self.deaf_http2(2)
        self.wait_until(lambda: self.value("tutti_http_evicted_total") == 1, "no connection gives way")
        self.taken(two)  # it has ended
        self.wait_answers(4)
        self.taken(self.deaf_http2(3))  # it holds more than the limit by itself
        younger.close()
        self.assertEqual(self.ask()[0], 200)
        self.end()

    def test_both_versions_of_http_count_by_one_clock(self):
        """Their connections share a budget, which asserts that its time does not go back."""
        held = []
        for _ in range(8):
            held += [self.deaf_http2(1), self.deaf()]
        for found in held:
            found.close()
        self.end()

    def test_grpc_gives_way_to_http(self):
        self.deaf_grpc(2)
        self.wait_answers(2)
        self.assertEqual(self.value("tutti_grpc_evicted_total"), 0)
        held = self.deaf()
        self.wait_until(lambda: self.value("tutti_grpc_evicted_total") == 1, "it does not give way")
        self.assertEqual(self.value("tutti_http_evicted_total"), 0)
        self.assertGreater(self.taken_whole(held), ANSWER)
        held.close()
        self.deaf_grpc(3)
        self.wait_until(lambda: self.value("tutti_grpc_evicted_total") == 2, "it does not give way")
        self.end()


class OfAnIdentity(UntakenCase):
    """`bytes=` of a token bounds what waits for its clients, too."""

    def setUp(self):
        tokens = tempfile.NamedTemporaryFile("w", suffix=".tokens")
        self.addCleanup(tokens.close)
        for name, role, limit in (("ann", "infer", "bytes=%d" % (12 * MIB)), ("bob", "infer", "bytes=%d" % MIB), ("all", "admin", "")):
            tokens.write("%s %s %s %s\n" % (name, role, hashlib.sha256(name.encode()).hexdigest(), limit))
        tokens.flush()
        self.flags = ["--tokens", tokens.name]
        super().setUp()

    def reader(self):
        return {"Authorization": "Bearer all"}

    def test_identity(self):
        held = self.deaf("Authorization: Bearer ann\r\n")
        status, _, text = self.ask(Authorization="Bearer ann")
        self.assertEqual(status, 429)
        self.assertIn(b"ann has reached its limit of 12582912 bytes", text)
        self.assertEqual(self.ask(Authorization="Bearer all")[0], 200)
        for _ in range(2):  # one that is larger than the limit is sent alone
            self.assertEqual(self.ask(Authorization="Bearer bob")[0], 200)
        held.close()
        self.wait_until(lambda: self.ask(Authorization="Bearer ann")[0] == 200, "it is still counted")
        self.end()


class OfAnAddress(UntakenCase):
    """`--limit-bytes-per-address` bounds what waits for the clients of an address, over all transports."""

    flags = ["--limit-bytes-per-address", 12 * MIB]

    def reader(self):
        return {}

    def test_address(self):
        for hold in (self.deaf, lambda: self.deaf_http2(1), lambda: self.deaf_grpc(1)):
            before = self.answers()
            held = hold()
            self.wait_answers(before + 1)  # else the next one's answer could be there first, and this one refused
            status, _, text = self.ask()
            self.assertEqual(status, 429)
            self.assertIn(b"the client's address has reached its limit of 12582912 bytes in bodies that are being received", text)
            self.assertIn(b"answers that it has not taken (--limit-bytes-per-address); take those first", text)
            self.assertEqual(self.ask(source="127.0.0.2")[0], 200)
            held.close()
            self.wait_until(lambda: self.ask()[0] == 200, "they are still counted")
        self.end()


if __name__ == "__main__":
    unittest.main()
