#!/usr/bin/env python3
"""One client that sends what costs most: bodies that unpack to much, promises that are not kept, large loads, names that
are no text. Others are served meanwhile, memory stays within the limits, and each error names what was wrong."""
import base64
import http.client
import json
import os
import pathlib
import select
import signal
import socket
import sys
import tempfile
import threading
import unittest
import urllib.parse
import zlib

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "python"))

from needs import need  # noqa: E402

need("numpy", "onnx", "tritonclient", "h2")

import grpc  # noqa: E402
from control_case import ControlCase, adder  # noqa: E402
from http2_client import Http2Connection  # noqa: E402
from plain_grpc import PlainGrpc  # noqa: E402
from server_process import free_port, is_read  # noqa: E402

MIB = 1 << 20
BODY = json.dumps({"inputs": [{"name": "x", "shape": [1, 4], "datatype": "FP32", "data": [0] * 4}]}).encode()
INFER = "/v2/models/one/infer"


def pack(text):
    packer = zlib.compressobj(1, zlib.DEFLATED, 31)
    return packer.compress(text) + packer.flush()


def head(path, count, more=""):
    return ("POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n%s\r\n" % (path, count, more)).encode()


class HostileCase(ControlCase):
    flags = ["--model-control-mode", "explicit", "--load-model", "one"]

    def fill(self):
        self.repository.put("one", {1: 1.0})

    def answers_before(self, path, body, headers):
        """Sends one request; meanwhile another client asks again and again. How many of its answers came before the
        answer to the first, and that answer."""
        arrived, replies = threading.Event(), []

        def send():
            connection = http.client.HTTPConnection(self.server.address, timeout=60)
            connection.request("POST", path, body, headers)
            sent.set()
            answer = connection.getresponse()
            arrived.set()
            replies.append((answer.status, answer.read()))
            connection.close()

        sent, before = threading.Event(), 0
        other = http.client.HTTPConnection(self.server.address, timeout=60)
        thread = threading.Thread(target=send, daemon=True)
        thread.start()
        self.assertTrue(sent.wait(60))
        while not arrived.is_set():
            other.request("POST", INFER, BODY)
            answer = other.getresponse()
            answer.read()
            self.assertEqual(answer.status, 200)
            before += not arrived.is_set()
        thread.join(60)
        other.close()
        return before, replies[0]


class LargeBodies(HostileCase):
    """The work that a body takes is done beside the thread that serves the connections."""

    def check(self, status, part, path, body, headers=None):
        for _ in range(3):  # one answer of the other client may come late; not all
            before, (got, answer) = self.answers_before(path, body, headers or {})
            self.assertEqual(got, status, answer[:300])
            self.assertIn(part, answer)
            if before:
                return
        self.fail("%s: others waited for a request of %d bytes" % (path, len(body)))

    def test_inference(self):
        bytes_count = (8 if self.is_sanitized() else 24) * MIB
        start = b'{"inputs":[{"name":"x","shape":[1,4],"datatype":"FP32","data":['
        ones = start + b"1," * (bytes_count // 2) + b"1]}]}"
        blanks = b" " * bytes_count + BODY
        packed = {"Content-Encoding": "gzip"}
        self.check(400, b"more values than the 4", INFER, ones)
        self.check(400, b"more values than the 4", INFER, pack(ones), packed)
        self.check(200, b'"y"', INFER, blanks)
        self.check(200, b'"y"', INFER, pack(blanks), packed)
        self.check(400, b"", INFER, pack(ones[:bytes_count]), packed)
        rows = bytes_count // 8  # of a shape that they fit: they are decoded, too
        many = b'{"inputs":[{"name":"x","shape":[%d,4],"datatype":"FP32","data":[%s1]}]}'
        self.check(400, b"batch-size must be 1 to 64", INFER, many % (rows, b"1," * (4 * rows - 1)))

    def test_load(self):
        file = base64.b64encode(adder(7.0)).decode()
        text = {"config": "{}", "file:1/model.onnx": file, "file:1/more": "A" * (24 * MIB)}
        self.check(200, b"", "/v2/repository/models/two/load", json.dumps({"parameters": text}))
        self.assertEqual(self.infer("two"), (7.0, "1"))
        text["file:1/model.onnx"] = "!"
        body = pack(json.dumps({"parameters": text}).encode())
        self.check(400, b"not base64", "/v2/repository/models/two/load", body, {"Content-Encoding": "gzip"})

    def test_clients_that_leave(self):
        """Whatever is being done for them ends, and nothing is counted twice."""
        body = pack(b" " * (30 * MIB) + BODY)
        for _ in range(8):
            found = self.dial()
            found.sendall(head(INFER, len(body), "Content-Encoding: gzip\r\n") + body)
            found.close()
        self.assertEqual(self.infer("one"), (1.0, "1"))

        def settled():
            at = self.metrics()
            done = at["tutti_http_answered_total"] + at["tutti_http_gone_total"]
            return at["tutti_http_in_flight"] == 1 and at["tutti_http_requests_total"] == done + 1

        self.wait_until(settled, "requests stay in flight")


class Memory(HostileCase):
    flags = HostileCase.flags + ["--max-receive-bytes", str(64 * MIB)]

    def test_management(self):
        """A small body that would become a tree of gigabytes."""
        text = b'{"trace_level":[' + b"{}," * (20 * MIB) + b"{}]}"
        before = self.memory("VmHWM")
        for path in ("/v2/trace/setting", "/v2/models/one/trace/setting", "/v2/logging", "/v2/repository/index"):
            for body, headers in ((pack(text), {"Content-Encoding": "gzip"}), (text[: 2 * MIB], {})):
                status, answer = self.ask("POST", path, body, headers)
                self.assertEqual(status, 413, answer)
                self.assertIn("limit of %d" % (64 << 10), answer["error"])
        if not self.is_sanitized():
            self.assertLess(self.memory("VmHWM") - before, 16 * MIB)

    def test_promises(self):
        """Twice the budget promised, and nothing sent: others are served."""
        for _ in range(32):
            self.dial().sendall(head(INFER, 4 * MIB))
        self.assertEqual(self.infer("one"), (1.0, "1"))

    def test_configuration(self):
        """What a load brings becomes a tree, too."""
        before = self.memory("VmHWM")
        for tree in ('{"input":[' + "{}," * (5 * MIB) + "{}]}", '{"input":[{"dims":[' + "1," * (5 * MIB) + "1]}]}"):
            body = pack(json.dumps({"parameters": {"config": tree}}).encode())
            status, answer = self.ask("POST", "/v2/repository/models/one/load", body, {"Content-Encoding": "gzip"})
            self.assertEqual(status, 400)
            self.assertIn("parameter 'config' has %d bytes; the limit is" % len(tree), answer["error"])
        many = {"parameters": {"config": '{"input":[' + "{}," * 100_000 + "{}]}"}}
        status, answer = self.ask("POST", "/v2/repository/models/one/load", pack(json.dumps(many).encode()), {"Content-Encoding": "gzip"})  # fmt: skip
        self.assertEqual(status, 400)
        self.assertIn("parameter 'config' has 200004 values; the limit is 65536", answer["error"])
        if not self.is_sanitized():  # of the body as it is unpacked, and of its string
            self.assertLess(self.memory("VmHWM") - before, 64 * MIB)

    def test_many_bombs(self):
        """Together they would unpack to ten times the budget: those beyond it get 503."""
        body = pack(b" " * (40 * MIB) + BODY)
        statuses, before = [], self.memory("VmHWM")

        def send():
            found = http.client.HTTPConnection(self.server.address, timeout=60)
            found.request("POST", INFER, body, {"Content-Encoding": "gzip"})
            answer = found.getresponse()
            content = answer.read()
            if answer.status == 503:
                self.assertIn(b"more than the limit of", content)
            statuses.append(answer.status)
            found.close()

        threads = [threading.Thread(target=send, daemon=True) for _ in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        self.assertEqual(len(statuses), 16)
        self.assertLessEqual(set(statuses), {200, 503})
        self.assertIn(200, statuses)
        if not self.is_sanitized():  # four are unpacked at a time, and no more than the budget is kept
            self.assertLess(self.memory("VmHWM") - before, 64 * MIB + 5 * 48 * MIB)
        self.assertEqual(self.infer("one"), (1.0, "1"))


class MessageMemory(HostileCase):
    """Over gRPC two bytes of a message may become a hundred of memory."""

    def setUp(self):
        self.grpc_port = free_port()
        self.flags = HostileCase.flags + ["--grpc-port", str(self.grpc_port)]
        super().setUp()

    def test_empty_parameters(self):
        before = self.memory("VmHWM")
        with grpc.insecure_channel("127.0.0.1:%d" % self.grpc_port, compression=grpc.Compression.Gzip) as channel:
            for method in ("RepositoryModelLoad", "RepositoryModelUnload", "LogSettings", "TraceSetting"):
                is_load = method == "RepositoryModelLoad"
                path = "/inference.GRPCInferenceService/" + method
                call = channel.unary_unary(path, request_serializer=bytes, response_deserializer=bytes)
                message = (b"\x0a\0" if "Setting" in method else b"\x1a\0") * (16 * MIB // 2 if is_load else 16_000)
                with self.assertRaises(grpc.RpcError) as caught:
                    call(message, timeout=60)
                self.assertIn("too many fields", caught.exception.details())
        if not self.is_sanitized():
            self.assertLess(self.memory("VmHWM") - before, 64 * MIB)


class LoadsThatWait(HostileCase):
    """One load is carried out at a time. The files of those that wait are bodies still."""

    flags = ["--model-control-mode", "explicit", "--isolate-loads", "false", "--python", sys.executable]
    flags += ["--max-receive-bytes", str(64 * MIB)]
    SLOW = """import os, time
class TritonPythonModel:
    def initialize(self, args):
        while not os.path.exists(os.path.join(os.path.dirname(__file__), "go")):
            time.sleep(0.01)
    def execute(self, requests):
        return []
"""

    def fill(self):
        super().fill()
        folder = self.repository.path / "slow"
        (folder / "1").mkdir(parents=True)
        tensor = '[ { name: "%s" data_type: TYPE_FP32 dims: [ 4 ] } ]'
        text = 'backend: "python" max_batch_size: 4 input %s output %s' % (tensor % "x", tensor % "y")
        (folder / "config.pbtxt").write_text(text)
        (folder / "1" / "model.py").write_text(self.SLOW)

    def load(self, name, body, headers=None):
        status, answer = self.ask("POST", "/v2/repository/models/%s/load" % name, body, headers)
        self.replies.append((status, (answer or {}).get("error", "")))

    def test_memory(self):
        self.replies, size = [], 12 * MIB
        first = threading.Thread(target=self.load, args=("slow", "{}"))
        first.start()
        self.wait_until(lambda: "LOADING" in str(self.index().get("slow")), "it does not begin")
        before = self.memory("VmHWM")
        body = pack(json.dumps({"parameters": {"config": "{}", "file:1/model.onnx": "A" * (size // 3 * 4)}}).encode())
        threads = []
        for i in range(16):
            threads.append(threading.Thread(target=self.load, args=("n%d" % i, body, {"Content-Encoding": "gzip"})))
            threads[-1].start()
            waiting = 2 + len(threads) - len(self.replies)
            self.wait_until(lambda: self.metrics()["tutti_http_in_flight"] <= waiting, "it is not read")
        self.wait_until(lambda: len(self.replies) >= 10, "they are not refused")
        self.assertEqual({status for status, _ in self.replies}, {503})
        self.assertIn("limit of %d" % (64 * MIB), self.replies[-1][1])
        grown = self.memory("VmHWM") - before
        (self.repository.path / "slow" / "1" / "go").write_text("")
        for thread in [first] + threads:
            thread.join(60)
        self.assertEqual(len(self.replies), 17)
        self.assertLessEqual({status for status, _ in self.replies}, {200, 400, 503})
        self.load("two", json.dumps({"parameters": {"config": "{}", "file:1/model.onnx": base64.b64encode(adder(2.0)).decode()}}))
        self.assertEqual(self.replies[-1][0], 200, self.replies[-1])
        if not self.is_sanitized():  # the budget, and in four threads a body before and after it last grew, and its file
            self.assertLess(grown, 64 * MIB + 4 * 48 * MIB)


class Eviction(HostileCase):
    flags = HostileCase.flags + ["--max-receive-bytes", str(8 * MIB)]

    def test_the_largest_goes_first(self):
        """A client that has sent much of a body and then waits gives way to one that sends less."""
        hog = self.dial()
        hog.sendall(head(INFER, 7 * MIB) + b" " * (6 * MIB))
        self.wait_until(lambda: is_read(hog), "its body is not read")  # else the next one would be the largest
        small = [self.dial() for _ in range(4)]
        for found in small:
            found.sendall(head(INFER, MIB) + b" " * (MIB // 4))
        body = b" " * (4 * MIB) + BODY

        def is_given_up():  # once all that it sent has arrived
            self.ask("POST", INFER, body)
            return select.select([hog], [], [], 0)[0]

        self.wait_until(is_given_up, "it keeps its place")
        reply = hog.recv(4096)
        self.assertIn(b" 503 ", reply)
        self.assertIn(b"this one holds the most of it", reply)
        self.assertIn(b"Retry-After", reply)
        status, answer = self.ask("POST", INFER, body)
        self.assertEqual(status, 200, answer)
        for found in small:
            found.sendall(b" " * (MIB - MIB // 4 - len(BODY)) + BODY)
            self.assertIn(b" 200 ", found.recv(4096))
        # One that would be the largest itself is refused.
        for found in [self.dial(), self.dial()]:
            found.sendall(head(INFER, 4 * MIB) + b" " * (3 * MIB))
        large = b" " * (6 * MIB) + BODY
        self.wait_until(lambda: self.ask("POST", INFER, large)[0] == 503, "it is served")


class EvictionAcrossThreads(HostileCase):
    """The largest body of all gives way, whichever thread and transport received it."""

    def setUp(self):
        self.grpc_port = free_port()
        self.flags = HostileCase.flags + ["--max-receive-bytes", str(8 * MIB), "--connection-threads", "2"]
        self.flags += ["--grpc-port", str(self.grpc_port)]
        super().setUp()

    def large(self):
        """Clients of both threads, with the largest share of the budget in turn."""
        body = b" " * (2 * MIB) + BODY
        return [self.ask("POST", INFER, body)[0] for _ in range(4)]  # two for each thread

    def hog(self):
        """The answer to a client that has sent most of a large body, once others need room."""
        hog = self.dial()
        hog.sendall(head(INFER, 7 * MIB + MIB // 2) + b" " * (7 * MIB))
        self.wait_until(lambda: is_read(hog), "its body is not read")  # else it is refused where it asks for room itself
        self.wait_until(lambda: self.large() and select.select([hog], [], [], 0)[0], "it keeps its place")
        return hog.recv(4096)

    def test_http(self):
        reply = self.hog()
        self.assertIn(b" 503 ", reply)
        self.assertIn(b"holds the most", reply)
        self.assertIn(b"Retry-After", reply)
        self.assertEqual(self.large(), [200] * 4)

    def test_grpc_gives_way_to_http(self):
        """A message of which most has come, over a connection of plain frames."""
        hog = PlainGrpc(self.grpc_port)
        self.addCleanup(hog.close)
        hog.begin("/inference.GRPCInferenceService/ModelInfer", 7 * MIB + MIB // 2)
        hog.send(7 * MIB)
        self.wait_until(lambda: self.large() and hog.has_ended(), "it keeps its place")
        self.assertIn(b"\x0214", hog.received)  # the status UNAVAILABLE; the reason is packed by Huffman's code
        self.assertEqual(self.large(), [200] * 4)


class BytesOfAnAddress(HostileCase):
    """Without tokens an address has so many bytes in receipt, over all its connections and transports."""

    WORDS = "the client's address has reached its limit of %d bytes of bodies in receipt at a time (--limit-bytes-per-address)" % (8 * MIB)

    def setUp(self):
        self.grpc_port = free_port()
        self.flags = HostileCase.flags + ["--limit-bytes-per-address", str(8 * MIB), "--connection-threads", "2"]
        self.flags += ["--grpc-port", str(self.grpc_port)]
        super().setUp()

    def ask_from(self, address):
        """The answer to a body of 3 MiB."""
        connection = http.client.HTTPConnection(self.server.address, timeout=60, source_address=(address, 0))
        connection.request("POST", INFER, b" " * (3 * MIB) + BODY)
        answer = connection.getresponse()
        content = answer.read()
        connection.close()
        return answer.status, content.decode(), answer.getheader("Retry-After")

    def hold_http1(self, address):
        host, port = self.server.address.split(":")
        found = socket.create_connection((host, int(port)), timeout=60, source_address=(address, 0))
        self.addCleanup(found.close)
        found.sendall(head(INFER, 4 * MIB) + b" " * (3 * MIB))
        return found

    def hold_http2(self, address):
        host, port = self.server.address.split(":")
        found = Http2Connection("%s:%s" % (host, port), source=address)
        self.addCleanup(found.close)
        found.start("POST", INFER, b" " * (3 * MIB), end=False)
        return found

    def hold_grpc(self, address):
        found = PlainGrpc(self.grpc_port, address)
        self.addCleanup(found.close)
        found.begin("/inference.GRPCInferenceService/ModelInfer", 4 * MIB)
        found.send(3 * MIB)
        return found

    def hold_until(self, is_refused, *holds):
        """What is held, and has arrived. Until then the one too many may be one of these: so they are sent again."""
        held = []

        def is_held():
            for found in held:
                found.close()
            held[:] = [hold() for hold in holds]
            return is_refused()

        self.wait_until(is_held, "it is served")
        return held

    def is_refused(self, address):
        status, content, retry = self.ask_from(address)
        if status == 200:
            return False
        self.assertEqual((status, retry), (429, "1"), content)
        self.assertIn(self.WORDS, content)
        return True

    def test_bodies(self):
        """Whatever transport holds them, one more is refused, and other addresses are served."""
        for address, first, second in (("127.0.0.2", self.hold_http1, self.hold_http1),
                                       ("127.0.0.3", self.hold_http1, self.hold_grpc),
                                       ("127.0.0.4", self.hold_http2, self.hold_grpc)):  # fmt: skip
            with self.subTest(address=address):
                held = self.hold_until(lambda at=address: self.is_refused(at), lambda at=address, hold=first: hold(at),
                                       lambda at=address, hold=second: hold(at))  # fmt: skip
                self.assertEqual(self.ask_from("127.0.0.1")[0], 200)
                held[0].close()
                self.wait_until(lambda at=address: self.ask_from(at)[0] == 200, "it is still counted")

    def test_unpacked(self):
        """What a small body or message unpacks to counts, too."""
        body = pack(b" " * (9 * MIB) + BODY)
        self.assertLess(len(body), 64 << 10)
        for _ in range(2):
            connection = http.client.HTTPConnection(self.server.address, timeout=60)
            connection.request("POST", INFER, body, {"Content-Encoding": "gzip"})
            answer = connection.getresponse()
            content = answer.read().decode()
            self.assertEqual((answer.status, answer.getheader("Retry-After")), (429, "1"), content)
            self.assertIn(self.WORDS, content)
            connection.close()
        status, answer = self.ask("POST", INFER, pack(b" " * (7 * MIB) + BODY), {"Content-Encoding": "gzip"})
        self.assertEqual(status, 200, answer)
        with grpc.insecure_channel("127.0.0.1:%d" % self.grpc_port, compression=grpc.Compression.Gzip) as channel:
            call = channel.unary_unary("/inference.GRPCInferenceService/ModelInfer", request_serializer=bytes, response_deserializer=bytes)
            for size, is_refused in ((9 * MIB, True), (7 * MIB, False)):
                with self.assertRaises(grpc.RpcError) as caught:
                    call(b"\x2a\0" * (size // 2), timeout=60)
                self.assertEqual(self.WORDS in caught.exception.details(), is_refused, caught.exception)

    def test_a_message(self):
        """The one too many is a message of gRPC."""
        with grpc.insecure_channel("127.0.0.1:%d" % self.grpc_port) as channel:
            call = channel.unary_unary("/inference.GRPCInferenceService/ModelInfer", request_serializer=bytes, response_deserializer=bytes)

            def is_refused():
                with self.assertRaises(grpc.RpcError) as caught:  # a message of empty parameters is invalid in any case
                    call(b"\x2a\0" * (3 * MIB // 2), timeout=60)
                details = caught.exception.details()
                if caught.exception.code() == grpc.StatusCode.RESOURCE_EXHAUSTED and self.WORDS in details:
                    return True
                self.assertNotIn("limit", details)
                return False

            def hold():
                return self.hold_http1("127.0.0.1")

            held = self.hold_until(is_refused, hold, hold)
            held[0].close()
            self.wait_until(lambda: not is_refused(), "it is still counted")
        self.assertEqual(self.ask_from("127.0.0.2")[0], 200)


class ManyConnections(HostileCase):
    """All connections of an address ask at once, and then another address does: it is answered long before the last of them."""

    COUNT = 300
    INDEX = json.dumps({"ready": False, "pad": [0] * 20000})

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.log = pathlib.Path(folder.name, "access.log")
        self.flags = HostileCase.flags + ["--access-log", str(self.log)]
        super().setUp()

    def stop_for_a_while(self):
        pid = self.server.process.pid
        os.kill(pid, signal.SIGSTOP)
        self.addCleanup(os.kill, pid, signal.SIGCONT)  # of a test that fails
        self.wait_until(lambda: "\nState:\tT" in pathlib.Path("/proc/%d/status" % pid).read_text(), "it runs on")

    def ask(self, connection):
        """A request that takes a tenth of a millisecond."""
        connection.request("POST", "/v2/repository/index", self.INDEX)

    def hear(self, connection):
        answer = connection.getresponse()
        answer.read()
        self.assertEqual(answer.status, 200)

    def test_in_turns(self):
        good = self.dial()
        others = [http.client.HTTPConnection(self.server.address, timeout=60, source_address=("127.0.0.2", 0)) for _ in range(self.COUNT)]

        def ping():
            good.sendall(b"GET /v2/health/live HTTP/1.1\r\nHost: x\r\n\r\n")

        def pong():
            self.assertTrue(good.recv(65536).startswith(b"HTTP/1.1 200 "))

        for other in others:
            self.ask(other)
        ping()
        pong()
        for other in others:
            self.hear(other)
        self.stop_for_a_while()
        for other in others:
            self.ask(other)
        ping()
        os.kill(self.server.process.pid, signal.SIGCONT)
        pong()
        for other in others:
            self.hear(other)
            other.close()
        paths = []

        def is_logged():
            paths[:] = [json.loads(line)["path"] for line in self.log.read_text().splitlines()]
            return paths.count("/v2/repository/index") == 2 * self.COUNT

        self.wait_until(is_logged, "the access log is not whole")
        last_ping = len(paths) - paths[::-1].index("/v2/health/live")
        self.assertLess(last_ping, len(paths) - self.COUNT / 2)


class Names(HostileCase):
    def test_that_are_no_text(self):
        file = base64.b64encode(adder(1.0)).decode()
        body = json.dumps({"parameters": {"config": "{}", "file:1/model.onnx": file}})
        for name in (b"\xff", b"a\xff", b"\xc3", b"\xed\xa0\x80", b"a\0b", b"a\nb", b"<x>", b'a"b', b"a\\b", b" ", b"-x"):
            path = "/v2/repository/models/%s/load" % urllib.parse.quote(name, safe="")
            status, answer = self.ask("POST", path, body)
            self.assertEqual(status, 400, name)
            self.assertTrue(answer["error"])
            path = "/v2/models/%s/infer" % urllib.parse.quote(name, safe="")
            status, answer = self.ask("POST", path, BODY)
            self.assertIn(status, (400, 404), name)
        self.assertEqual(list(self.index()), ["one"])
        for path in ("/v2/models/stats", "/v2/debug/trace"):
            self.assertEqual(self.ask("GET", path)[0], 200)

    def test_that_are_long(self):
        """What cannot be the name of a folder is the client's fault, and the answer says the rule."""
        file = base64.b64encode(adder(1.0)).decode()

        def load(name, files):
            text = {"file:" + path: file for path in ["1/model.onnx"] + files}
            body = json.dumps({"parameters": dict(text, config="{}")})
            return self.ask("POST", "/v2/repository/models/%s/load" % name, body)

        self.assertEqual(load("n" * 255, ["1/" + "f" * 255]), (200, None))
        self.assertEqual(self.infer("n" * 255), (1.0, "1"))
        for name, files, rule in (
            ("n" * 256, [], "at most 255 bytes, not 256"),
            ("%C3%A4" * 128, [], "at most 255 bytes, not 256"),
            ("one", ["1/" + "f" * 256], "each name of at most 255 bytes"),
            ("one", ["1/d/" + "f" * 256 + "/g"], "each name of at most 255 bytes"),
            ("one", ["1/model.onnx/x"], "1/model.onnx/x': it does not fit the other files"),
            ("one", ["1/d/x", "1/d"], "1/d': it does not fit the other files"),
        ):
            status, answer = load(name, files)
            self.assertEqual(status, 400, answer)
            self.assertIn(rule, answer["error"])
        for path, body in (("infer", BODY), ("ready", None), ("stats", None)):
            status, answer = self.ask("POST" if body else "GET", "/v2/models/%s/%s" % ("n" * 256, path), body)
            self.assertIn(status, (400, 404))
            self.assertTrue(answer["error"])
        self.assertEqual(self.infer("one"), (1.0, "1"))

    def test_that_are_many(self):
        """Names that clients make up do not stay for ever: the last 100 do."""
        body = json.dumps({"parameters": {"config": "{}", "file:1/model.onnx": "AAAA"}})
        for i in range(130):
            self.assertEqual(self.ask("POST", "/v2/repository/models/made_up_%03d/load" % i, body)[0], 400)
        known = self.index()
        self.assertIn("one", known)
        self.assertIn("made_up_129", known)
        self.assertNotIn("made_up_000", known)
        self.assertLessEqual(len(known), 102)
        self.assertEqual(self.infer("one"), (1.0, "1"))


class Numbers(HostileCase):
    """Text and fractions where the protocol has whole numbers. (A model's configuration is protobuf's JSON, which has both.)"""

    def test_inference(self):
        x = {"name": "x", "shape": [1, 4], "datatype": "FP32", "data": [0] * 4}
        self.assertEqual(self.ask("POST", INFER, json.dumps({"inputs": [x]}))[0], 200)
        for field, given, more in (
            ("shape", {"shape": ["1", 4]}, {}),
            ("shape", {"shape": [1.0, 4]}, {}),
            ("shape", {"shape": [True, 4]}, {}),
            ("data", {"data": ["0"] * 4}, {}),
            ("data", {"data": [False] * 4}, {}),
            ("binary_data_size", {"parameters": {"binary_data_size": "16"}}, {}),
            ("priority", {}, {"parameters": {"priority": "1"}}),
            ("timeout", {}, {"parameters": {"timeout": "5000000"}}),
            ("timeout", {}, {"parameters": {"timeout": 5e6}}),
            ("classification", {}, {"outputs": [{"name": "y", "parameters": {"classification": "1"}}]}),
            ("binary_data", {}, {"outputs": [{"name": "y", "parameters": {"binary_data": "true"}}]}),
        ):
            body = dict({"inputs": [dict(x, **given)]}, **more)
            status, answer = self.ask("POST", INFER, json.dumps(body))
            self.assertEqual(status, 400, (body, answer))
            self.assertIn('"%s"' % field, answer["error"])

    def test_settings(self):
        for path, body in (
            ("/v2/logging", {"log_verbose_level": "1"}),
            ("/v2/logging", {"log_verbose_level": 1.0}),
            ("/v2/logging", {"log_info": "true"}),
            ("/v2/repository/index", {"ready": "true"}),
            ("/v2/repository/index", {"ready": 1}),
        ):
            status, answer = self.ask("POST", path, json.dumps(body))
            self.assertEqual(status, 400, (body, answer))
            self.assertIn('"%s"' % list(body)[0], answer["error"])

    def test_configuration(self):
        files = {"file:1/model.onnx": base64.b64encode(adder(1.0)).decode()}
        for value, status in (("16", 200), (16.0, 200), ("x", 400), (1.5, 400), ("", 400), (True, 400), (1 << 31, 400)):
            text = dict(files, config=json.dumps({"max_batch_size": value}))
            got, answer = self.ask("POST", "/v2/repository/models/two/load", json.dumps({"parameters": text}))
            self.assertEqual(got, status, (value, answer))
            if status == 200:
                self.assertEqual(self.ask("GET", "/v2/models/two/config")[1]["max_batch_size"], 16)


if __name__ == "__main__":
    unittest.main()
