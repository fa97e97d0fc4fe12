#!/usr/bin/env python3
"""Every call of malloc, read, write, accept, mmap and pthread_create that serving reaches fails once, one after the other
(tests/faults/fault_points.c). The server answers, refuses or closes, never crashes, serves the next request, keeps its
counters, and loses no memory."""
import gzip
import http.client
import json
import os
import pathlib
import sys
import tempfile
import time
import unittest

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "python"))

from needs import need  # noqa: E402

need("numpy", "onnx", "tritonclient", "h2")

import numpy as np  # noqa: E402
import tritonclient.grpc as triton  # noqa: E402
from control_case import adder, identity  # noqa: E402
from fault_board import KINDS, open_board  # noqa: E402
from http2_client import Http2Connection  # noqa: E402
from plain_client import Server, is_sanitized  # noqa: E402
from server_process import free_port  # noqa: E402
from tritonclient.utils import InferenceServerException  # noqa: E402

JANSSON_CALLS = 12
ROUNDS = 12  # that all leave more memory in use: a leak; what is kept for reuse grows in some

CONFIG = """backend: "emulated" max_batch_size: 8
input { name: "input" data_type: TYPE_FP32 dims: 16 }
output { name: "y" data_type: TYPE_FP32 dims: 16 }
"""
BODY = json.dumps({"inputs": [{"name": "input", "shape": [1, 16], "datatype": "FP32", "data": [0] * 16}]}).encode()
LARGE = b" " * (300 << 10) + BODY
WIDE = json.dumps({"inputs": [{"name": "x", "shape": [1, 10_000], "datatype": "FP32", "data": [1] * 10_000}]}).encode()
OVERRIDE = json.dumps({"parameters": {"config": json.dumps({"max_batch_size": 4})}}).encode()


class FaultPoints(unittest.TestCase):
    def setUp(self):
        if is_sanitized():
            self.skipTest("a sanitizer has functions of its own in these places")
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        models = pathlib.Path(folder.name) / "models"
        for name in ("mlp", "other"):
            (models / name / "1").mkdir(parents=True)
            (models / name / "config.pbtxt").write_text(CONFIG)
            (models / name / "profile.pbtxt").write_text("linear { beta_ms: 0.05 }")
        (models / "other" / "tutti.pbtxt").write_text('policy { name: "serial" }')  # a domain of its own, with threads
        for name in ("real", "again", "wide"):  # on ONNX Runtime
            (models / name / "1").mkdir(parents=True)
            (models / name / "1" / "model.onnx").write_bytes(identity() if name == "wide" else adder(1.0))
        self.board, environment = open_board(pathlib.Path(folder.name) / "board")
        self.grpc_port = free_port()
        self.server = Server(models, "--model-control-mode", "explicit", "--load-model", "mlp", "--load-model", "real", "--load-model", "wide",
                             "--connection-threads", "2", "--isolate-loads", "false", "--grpc-port", self.grpc_port,
                             start={"env": dict(os.environ, **environment)})  # fmt: skip

    def ask(self, method, path, body=None, headers=None):
        """The status; 0: the connection ended."""
        connection = http.client.HTTPConnection(self.server.address, timeout=20)
        try:
            connection.request(method, path, body, headers or {})
            answer = connection.getresponse()
            answer.read()
            return answer.status
        except (OSError, http.client.HTTPException):
            return 0
        finally:
            connection.close()

    def ask_http2(self, *requests):
        """The statuses of requests at a time on one connection over HTTP/2; 0: it or the stream ended."""
        statuses = []
        try:
            connection = Http2Connection(self.server.address, timeout=20)
        except OSError:
            return [0]
        try:
            numbers = [connection.start(*request) for request in requests]
            for number in numbers:
                statuses.append(0)
                try:
                    statuses[-1] = connection.wait(number).status
                except ConnectionResetError:  # of the stream, or of the connection: the next one shows it
                    pass
        except TimeoutError:
            raise
        except OSError:
            pass
        finally:
            connection.close()
        return statuses

    def ask_grpc(self):
        """Calls on a new connection; each may fail, and none hangs."""
        x = triton.InferInput("x", [1, 4], "FP32")
        x.set_data_from_numpy(np.zeros((1, 4), np.float32))
        wide = triton.InferInput("x", [1, 200_000], "FP32")
        wide.set_data_from_numpy(np.ones((1, 200_000), np.float32))
        with triton.InferenceServerClient("127.0.0.1:%d" % self.grpc_port) as client:
            for call in (
                lambda: client.infer("wide", [wide], client_timeout=20),
                lambda: client.infer("wide", [wide], client_timeout=20, compression_algorithm="gzip"),
                lambda: client.infer("real", [x], client_timeout=20),
                lambda: client.get_model_config("mlp", client_timeout=20),
                lambda: client.get_inference_statistics(client_timeout=20),
            ):
                try:
                    call()
                except InferenceServerException as error:
                    self.assertNotIn("Deadline Exceeded", str(error))
        return []

    def acts(self):
        """What clients do, part by part; each returns its statuses."""
        infer = "/v2/models/mlp/infer"
        real = {"inputs": [{"name": "x", "shape": [1, 4], "datatype": "FP32", "data": [0] * 4}]}
        packed = {"content-encoding": "gzip", "accept-encoding": "gzip"}
        streams = [
            ("POST", infer, BODY),
            ("POST", infer, LARGE),
            ("POST", infer, gzip.compress(LARGE, 0), packed),
            ("POST", "/v2/models/wide/infer", WIDE, {"accept-encoding": "gzip"}),
            ("GET", "/metrics"),
            ("GET", "/v2/models/stats"),
            ("POST", infer, b"{"),
        ]
        index = "/v2/repository/models/"
        rest = [
            [("POST", "/v2/models/real/infer", json.dumps(real))],
            [("POST", "/v2/models/wide/infer", WIDE, {"Accept-Encoding": "gzip"})],
            [("POST", index + "again/load", OVERRIDE), ("POST", index + "again/unload", b"{}")],
            [("POST", infer, BODY)],
            [("POST", infer, LARGE)],
            [("POST", infer, gzip.compress(BODY, 1), {"Content-Encoding": "gzip", "Accept-Encoding": "gzip"})],
            [("POST", infer, gzip.compress(LARGE, 0), {"Content-Encoding": "gzip"})],
            [("POST", infer, [BODY], {"Transfer-Encoding": "chunked"})],
            [("POST", infer, b"{")],
            [("GET", "/metrics")],
            [("GET", "/v2/models/stats")],
            [("GET", "/v2/models/mlp/config")],
            [("POST", "/v2/repository/index", b"{}")],
            [("GET", "/v2/debug/trace?seconds=1")],
            [("POST", index + "other/load", b"{}"), ("POST", index + "other/unload", b"{}")],
        ]
        acts = [lambda requests=requests: [self.ask(*request) for request in requests] for requests in rest]
        acts += [lambda stream=stream: self.ask_http2(stream) for stream in streams]
        return acts + [lambda: self.ask_http2(*streams), self.ask_grpc]

    def mix(self):
        """All of it."""
        return [status for act in self.acts() for status in act()]

    def settle(self):
        """Serves again, with nothing in flight; the counters agree."""
        end = time.monotonic() + 20
        while True:
            self.assertIsNone(self.server.process.poll(), "the server ended: " + self.server.said())
            page = {}
            try:
                connection = http.client.HTTPConnection(self.server.address, timeout=20)
                connection.request("GET", "/metrics")
                for line in connection.getresponse().read().decode().splitlines():
                    if not line.startswith("#"):
                        name, value = line.rsplit(" ", 1)
                        page[name] = float(value)
                connection.close()
            except (OSError, http.client.HTTPException, ValueError):
                page = {}
            if page.get("tutti_http_in_flight") == 1 and self.ask("POST", "/v2/models/mlp/infer", BODY) == 200:
                break
            self.assertLess(time.monotonic(), end, "it does not recover: " + self.server.said())
            time.sleep(0.01)
        done = page["tutti_http_answered_total"] + page["tutti_http_gone_total"]
        self.assertEqual(page["tutti_http_requests_total"], done + 1)

    def name(self, index):
        point = self.board.points[index]
        return "%s at %s+0x%x" % (KINDS[point.kind], point.object.decode(), point.offset)

    def reach(self):
        """Per act: how long it takes, and how often it comes to which point."""
        found = []
        for act in self.acts():
            for point in self.board.points[: self.board.count]:
                point.hits = 0
            began = time.monotonic()
            act()
            took_s = time.monotonic() - began
            time.sleep(0.01)  # for what follows an answer
            found.append((took_s, act, [point.hits for point in self.board.points[: self.board.count]]))
        return found

    def cases(self):
        """Points that are reached, and for each the shortest act that comes there. Its first call fails; of jansson's calls, which
        all come from one place, JANSSON_CALLS, spread over the acts."""
        acts, cases = sorted(self.reach(), key=lambda found: found[0]), []
        for index in range(self.board.count):
            reaching = [(act, hits[index]) for _, act, hits in acts if index < len(hits) and hits[index]]
            if b"jansson" not in self.board.points[index].object:
                cases += [(index, 0, act) for act, _ in reaching[:1]]
                continue
            step = max(1, sum(hits for _, hits in reaching) // JANSSON_CALLS)
            cases += [(index, skip, act) for act, hits in reaching for skip in range(0, hits, step)]
        return cases

    def fail_once(self, case):
        """True: the point was reached once more than it is to succeed before. If not by the act, then perhaps by all of them."""
        index, skip, act = case
        before = self.board.failures
        self.board.skip = skip
        self.board.armed = index
        statuses = act()
        if self.board.failures == before:
            statuses += self.mix()
        self.board.armed = -1
        self.assertIsNone(self.server.process.poll(), "%s: the server ended: %s" % (self.name(index), self.server.said()))
        for status in statuses:
            self.assertIn(status, (0, 200, 400, 404, 408, 500, 503), self.name(index))
        return self.board.failures > before

    def blocks(self):
        """Blocks of memory in use once everything has come to rest: the least of some looks."""
        least = None
        for _ in range(4):
            self.mix()
            self.settle()
            least = self.board.blocks if least is None else min(least, self.board.blocks)
        return least

    def test_each_fails_once(self):
        for _ in range(3):  # what is kept for reuse is there, and every point is known
            self.assertEqual(set(self.mix()) - {200, 400}, set())
        self.settle()
        reached = self.cases()
        self.assertGreater(len(reached), 50)
        failed = [case for case in reached if self.fail_once(case)]
        self.settle()
        print("%d of %d points failed" % (len(failed), len(reached)))
        kinds = {KINDS[self.board.points[index].kind] for index, _, _ in failed}
        self.assertLessEqual({"malloc", "calloc", "realloc", "aligned", "mmap", "read", "write", "accept", "thread"}, kinds)
        self.assertTrue(any(b"jansson" in self.board.points[index].object for index, _, _ in failed))
        self.assertGreater(len(failed), len(reached) * 3 // 4)  # what the clock causes comes or not
        in_use = [self.blocks()]
        while len(in_use) < ROUNDS and (len(in_use) == 1 or in_use[-1] > in_use[-2]):
            for case in failed:
                self.fail_once(case)
            in_use.append(self.blocks())
        if in_use[-1] > in_use[-2]:  # each round left more than the one before
            self.find_leaks(failed)
        self.server.process.terminate()
        self.assertEqual(self.server.process.wait(60), 0, self.server.said())

    def find_leaks(self, failed):
        """A point leaks if each of several failures leaves more memory in use."""
        leaks = []
        for case in failed:
            before, now, grown = 0, self.blocks(), 0
            while grown < ROUNDS and now > before:
                self.fail_once(case)
                before, now = now, self.blocks()
                grown += now > before
            if grown == ROUNDS:
                leaks.append(self.name(case[0]))
        self.assertEqual(leaks, [])


if __name__ == "__main__":
    unittest.main()
