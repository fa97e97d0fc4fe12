#!/usr/bin/env python3
"""Faults around the program: no file descriptors, no memory for a model, clients that vanish, ten times
more load than the capacity, limits that are reached. In each case every request is answered, refused
with a reason, or its client has gone, and the counters agree."""
import http.client
import json
import pathlib
import random
import resource
import sys
import threading
import time
import unittest

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "python"))

from needs import need  # noqa: E402

need("numpy", "onnx", "tritonclient")

import numpy as np  # noqa: E402
from control_case import ControlCase, adder, slow  # noqa: E402
from onnx import TensorProto, helper  # noqa: E402

BODY = json.dumps(
    {"inputs": [{"name": "x", "shape": [1, 4], "datatype": "FP32", "data": [0, 0, 0, 0]}]}
)


def request(model="one", body=BODY):
    return (
        "POST /v2/models/%s/infer HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s"
        % (model, len(body), body)
    ).encode()


def hear(file):
    """Status, headers and body of an answer; None where the connection has ended."""
    line = file.readline()
    if not line:
        return None
    headers = http.client.parse_headers(file)
    return int(line.split()[1]), headers, file.read(int(headers.get("Content-Length", 0)))


class FaultCase(ControlCase):
    def fill(self):
        self.repository.put("one", {1: 1.0})

    def pid(self):
        return self.server.process.pid

    def check_http(self, gone=None):
        """requests == answered + gone + in flight, the asking request being the one in flight."""

        def settled():
            at = self.metrics()
            return at["tutti_http_in_flight"] == 1

        self.wait_until(settled, "requests stay in flight")
        at = self.metrics()
        self.assertEqual(
            at["tutti_http_requests_total"],
            at["tutti_http_answered_total"] + at["tutti_http_gone_total"] + 1,
        )
        if gone is not None:
            self.assertEqual(at["tutti_http_gone_total"], gone)
        accepted = sum(v for k, v in at.items() if k.startswith("tutti_requests_accepted_total"))
        ended = sum(
            v
            for k, v in at.items()
            if k.startswith(("nv_inference_request_success", "nv_inference_request_failure"))
        )
        self.assertEqual(accepted, ended)
        return at


class Descriptors(FaultCase):
    def test_none_are_left(self):
        held = [self.dial() for _ in range(10)]
        files = [s.makefile("rb") for s in held]
        for s, f in zip(held, files):
            s.sendall(request())
            self.assertEqual(hear(f)[0], 200)
        # The process has no more than it uses now, and two.
        in_use = len(list(pathlib.Path("/proc/%d/fd" % self.pid()).iterdir()))
        before = resource.prlimit(self.pid(), resource.RLIMIT_NOFILE)
        resource.prlimit(self.pid(), resource.RLIMIT_NOFILE, (in_use + 2, before[1]))
        served = shed = 0
        for _ in range(50):
            try:
                late = self.dial()
                late.sendall(request())
                answer = hear(late.makefile("rb"))
            except OSError:
                answer = None
            if answer is None or answer[0] == 503:
                shed += 1
            else:
                self.assertEqual(answer[0], 200)
                served += 1
            for s, f in zip(held, files):  # connections that were open are not affected
                s.sendall(request())
                self.assertEqual(hear(f)[0], 200)
        self.assertGreater(shed, 0)
        self.assertLessEqual(served, 3)
        resource.prlimit(self.pid(), resource.RLIMIT_NOFILE, before)

        def well():
            try:
                found = self.dial()
                found.sendall(request())
                return hear(found.makefile("rb"))[0] == 200
            except (OSError, TypeError):
                return False

        self.wait_until(well, "it never recovered")
        for s in held:
            s.close()
        self.check_http()


class Memory(FaultCase):
    flags = ["--model-control-mode", "explicit", "--load-model", "one"]

    def test_none_for_a_model(self):
        """A model that does not fit is refused with a reason; the others serve on."""
        weights = np.zeros((4, 8 << 20), np.float32)  # 128 MiB
        graph = helper.make_graph(
            [
                helper.make_node("MatMul", ["x", "w"], ["wide"]),
                helper.make_node("ReduceSum", ["wide", "axes"], ["y"], keepdims=1),
            ],
            "large",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 4])],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", 1])],
            [
                helper.make_tensor("w", TensorProto.FLOAT, weights.shape, weights.tobytes(), True),
                helper.make_tensor("axes", TensorProto.INT64, [1], [1]),
            ],
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
        model.ir_version = 8
        self.repository.put("large", {1: model.SerializeToString()})
        self.assertEqual(self.infer("one"), (1.0, "1"))
        before = resource.prlimit(self.pid(), resource.RLIMIT_AS)
        # A thread's first allocation may reserve 64 MiB of addresses; the rest is for the server, and too little for the model.
        room = self.memory("VmSize") + (112 << 20)
        resource.prlimit(self.pid(), resource.RLIMIT_AS, (room, before[1]))
        status, answer = self.ask("POST", "/v2/repository/models/large/load")
        self.assertIn(status, (400, 500, 503), answer)
        self.assertIn("load failed for model 'large'", answer["error"])
        self.assertEqual(self.infer("one"), (1.0, "1"))
        self.assertEqual(self.index()["large"]["1"][0], "UNAVAILABLE")
        resource.prlimit(self.pid(), resource.RLIMIT_AS, before)
        self.client.load_model("large")
        self.assertTrue(self.client.is_model_ready("large"))
        self.check_http()


class Vanishing(FaultCase):
    def fill(self):
        self.repository.put("one", {1: adder(1.0, 300)})

    def test_one_in_a_hundred(self):
        """Some close before their request is whole, some before its answer; all others are served."""
        seed = random.randrange(1 << 32)
        print("seed", seed)
        sent, gone_early, counts = 400, [0], [0] * 8
        faults = []

        def client(index):
            draw = random.Random(seed + index)
            try:
                for _ in range(sent // 8):
                    found = self.dial()
                    for _ in range(12):
                        if draw.random() < 0.01:
                            whole = draw.random() < 0.5
                            text = request()
                            found.sendall(text if whole else text[: draw.randrange(1, len(text))])
                            break
                        found.sendall(request())
                        answer = hear(found.makefile("rb"))
                        if answer is None or answer[0] != 200:
                            faults.append(answer)
                        counts[index] += 1
                    found.close()
            except Exception as error:
                faults.append(repr(error))

        threads = [threading.Thread(target=client, args=(i,), daemon=True) for i in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(120)
            self.assertFalse(thread.is_alive())
        self.assertEqual(faults, [])
        at = self.check_http()
        self.assertGreaterEqual(
            at['nv_inference_request_success{model="one",version="1"}'], sum(counts)
        )


class Overload(FaultCase):
    flags = ["--executors", "1", "--max-model-requests", "200"]

    def fill(self):
        config = """max_batch_size: 0
          input [ { name: "x" data_type: TYPE_FP32 dims: [ -1, 4 ] } ]
          output [ { name: "y" data_type: TYPE_FP32 dims: [ -1, 4 ] } ] """
        self.repository.put("one", {1: slow()}, config)

    def rate_of(self, clients, seconds, timeout_us):
        """Closed loops, one request each; what came back, by status, and how many per second."""
        body = json.loads(BODY)
        body["parameters"] = {"timeout": timeout_us}
        text = request(body=json.dumps(body))
        statuses, lock = {}, threading.Lock()
        end = time.monotonic() + seconds
        faults = []

        def loop():
            found = self.dial()
            file = found.makefile("rb")
            mine = {}
            try:
                while time.monotonic() < end:
                    found.sendall(text)
                    status, headers, answer = hear(file)
                    if status == 503 and not 1 <= int(headers["Retry-After"]) <= 60:
                        faults.append((headers["Retry-After"], answer))
                    mine[status] = mine.get(status, 0) + 1
            except Exception as error:
                faults.append(repr(error))
            with lock:
                for status, count in mine.items():
                    statuses[status] = statuses.get(status, 0) + count

        threads = [threading.Thread(target=loop, daemon=True) for _ in range(clients)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(seconds + 60)
            self.assertFalse(thread.is_alive())
        self.assertEqual(faults, [])
        return statuses

    def test_ten_times_too_much(self):
        calm = self.rate_of(2, 1.5, 60_000_000)
        self.assertEqual(set(calm), {200})
        resident = self.memory("VmRSS")
        # Forty clients with a patience of four services ask for ten times of what there is.
        patience_us = int(4 * 1.5e6 / calm[200])
        over, looks, unbalanced = threading.Event(), [], []

        def balance():
            """Nothing is lost at any moment, whatever is on its way."""
            while not over.wait(0.05):
                at = self.metrics()
                looks.append(at["tutti_http_in_flight"])
                settled = at["tutti_http_answered_total"] + at["tutti_http_gone_total"]
                if at["tutti_http_requests_total"] != settled + at["tutti_http_in_flight"]:
                    unbalanced.append(at)

        watcher = threading.Thread(target=balance, daemon=True)
        watcher.start()
        flood = self.rate_of(40, 3, patience_us)
        over.set()
        watcher.join(60)
        self.assertEqual(unbalanced, [])
        self.assertGreater(max(looks), 1)
        self.assertLessEqual(set(flood), {200, 503})
        self.assertIn(200, flood)
        self.assertIn(503, flood)
        print("calm %.0f/s, flood: %s in 3 s" % (calm[200] / 1.5, flood))
        if not self.is_sanitized():
            self.assertLess(self.memory("VmRSS") - resident, 64 << 20)
        at = self.check_http(gone=0)
        label = '{model="one",version="1"'
        computed = at["nv_inference_count%s}" % label]
        self.assertEqual(computed, calm[200] + flood[200])  # nothing was computed in vain
        self.assertEqual(self.infer("one")[0], 0.0)


class Backlog(FaultCase):
    """An emulated model that takes 200 ms per request, and a queue of some seconds."""

    flags = ["--executors", "1"]

    def fill(self):
        folder = pathlib.Path(self.repository.path, "one")
        folder.joinpath("1").mkdir(parents=True)
        folder.joinpath("config.pbtxt").write_text(
            """backend: "emulated" max_batch_size: 8
            input { name: "x" data_type: TYPE_FP32 dims: 4 }
            output { name: "y" data_type: TYPE_FP32 dims: 4 } """
        )
        folder.joinpath("profile.pbtxt").write_text("linear { beta_ms: 200 }")
        folder.joinpath("tutti.pbtxt").write_text('policy { name: "serial" }')

    def late(self, timeout_us, status=503, **changes):
        body = {"parameters": {"timeout": timeout_us}, **json.loads(BODY), **changes}
        found = self.dial()
        began = time.monotonic()
        found.sendall(request(body=json.dumps(body)))
        answered, headers, answer = hear(found.makefile("rb"))
        self.assertEqual(answered, status, answer)
        return headers, json.loads(answer)["error"], time.monotonic() - began

    def test_who_is_told_at_once_and_when_to_come_again(self):
        queue = [self.dial() for _ in range(20)]
        for waiting in queue:
            waiting.sendall(request())
        files = [waiting.makefile("rb") for waiting in queue]
        for file in files[:3]:  # now it is known how long one takes
            self.assertEqual(hear(file)[0], 200)
        # A second is enough for itself, and not behind all the others.
        headers, error, took = self.late(1_000_000)
        self.assertIn("the requests before it take", error)
        self.assertLess(took, 0.6)
        self.assertIn(int(headers["Retry-After"]), range(2, 8))
        # From now on such requests are refused unread; others, with more time, are read.
        self.assertIn("the requests before it take", self.late(1_000_000, inputs="none")[1])
        self.assertIn("expected an array", self.late(60_000_000, status=400, inputs="none")[1])
        for file in files[3:]:
            self.assertEqual(hear(file)[0], 200)
        self.check_http(gone=0)


class FullPool(FaultCase):
    """D2: one row at a time may be between the two stages; a batch takes up to four."""

    flags = ["--executors", "2", "--max-model-requests", "6"]
    flags += ["--model-control-mode", "explicit", "--load-model", "one"]

    def fill(self):
        config = """max_batch_size: 4
          input [ { name: "x" data_type: TYPE_FP32 dims: 4 } ]
          output [ { name: "y" data_type: TYPE_FP32 dims: 4 } ] """
        self.repository.put("one", {1: slow(layers=40)}, config)
        self.give_slots(1)

    def give_slots(self, count):
        settings = 'policy { name: "diversity" } stages { count: 2 slots: %d }' % count
        pathlib.Path(self.repository.path, "one", "tutti.pbtxt").write_text(settings)

    def test_it_holds_back_and_then_says_when_to_come_again(self):
        answered = {200: 0, 503: 0}
        rounds = 0
        label = '{model="one",version="1"}'
        # All that are let in of a round may come in one turn of the scheduler, before any has slots.
        while rounds < 5 or self.metrics()["tutti_stage_held_back_total" + label] == 0:
            rounds += 1
            self.assertLess(rounds, 100, "no request was held back")
            queue = [self.dial() for _ in range(20)]
            for waiting in queue:
                waiting.sendall(request())
            for waiting in queue:
                status, headers, answer = hear(waiting.makefile("rb"))
                answered[status] += 1
                if status == 503:
                    self.assertIn("has 6 requests in flight", json.loads(answer)["error"])
                    self.assertIn(int(headers["Retry-After"]), range(1, 61))
        print(answered)
        self.assertGreaterEqual(answered[200], 5)
        self.assertGreater(answered[503], 0)
        at = self.check_http(gone=0)
        self.assertEqual(at["nv_inference_request_success" + label], answered[200])
        self.assertEqual(at["tutti_stage_slots" + label], 1)
        self.assertEqual(at["tutti_stage_slots_used" + label], 0)
        self.assertEqual(at["tutti_stage_spilled_bytes_total" + label], 0)

    def test_two_pools_of_a_model_that_is_loaded_anew(self):
        label = '{model="one",version="1"}'
        for slots in (2, 1, 3):
            queue = [self.dial() for _ in range(6)]
            for waiting in queue:
                waiting.sendall(request())
            self.give_slots(slots)
            self.client.load_model("one")
            for waiting in queue:
                self.assertIn(hear(waiting.makefile("rb"))[0], (200, 503))
            self.assertEqual(self.infer("one")[0], 0)

            def is_alone(slots=slots):
                return self.metrics()["tutti_stage_slots" + label] == slots

            self.wait_until(is_alone, "the old pool is still counted")
            self.assertEqual(self.metrics()["tutti_stage_slots_used" + label], 0)
        self.client.unload_model("one")
        self.wait_until(lambda: self.metrics()["tutti_stage_slots" + label] == 0, "no pool is left")
        self.check_http(gone=0)


class Limits(FaultCase):
    flags = (
        "--max-connections 20 --max-header-bytes 1000 --max-header-count 8 --max-body-bytes 5000"
        " --max-unpacked-bytes 6000 --max-receive-bytes 8000 --max-json-depth 4"
        " --header-timeout-ms 300 --body-timeout-ms 300 --idle-timeout-ms 2000"
    ).split()

    def expect(self, sent, status, part):
        found = self.dial()
        found.sendall(sent)
        answer = hear(found.makefile("rb"))
        self.assertIsNotNone(answer, part)
        self.assertEqual(answer[0], status, answer[2])
        self.assertIn(part, json.loads(answer[2])["error"])
        found.close()

    def test_each(self):
        head = "POST /v2/models/one/infer HTTP/1.1\r\nHost: x\r\n"
        self.expect((head + "X: %s\r\n\r\n" % ("y" * 1000)).encode(), 431, "1000 bytes")
        self.expect((head + "X: y\r\n" * 8 + "\r\n").encode(), 431, "8 headers")
        self.expect((head + "Content-Length: 5001\r\n\r\n").encode(), 413, "5000")
        nested = json.loads(BODY)
        nested["extra"] = [[[[[1]]]]]
        self.expect(request(body=json.dumps(nested)), 400, "4")
        # Slow clients get 408.
        self.expect(head.encode(), 408, "too long")
        self.expect((head + "Content-Length: 10\r\n\r\n{").encode(), 408, "too long")
        self.check_http()

    def test_bodies_that_are_received_together(self):
        head = b"POST /v2/models/one/infer HTTP/1.1\r\nHost: x\r\nContent-Length: 4000\r\n\r\n"
        # What clients promise and do not send takes nothing from the others.
        promising = [self.dial() for _ in range(4)]
        for waiting in promising:
            waiting.sendall(head)
        self.assertEqual(self.infer("one")[0], 1.0)
        for waiting in promising:
            self.assertEqual(hear(waiting.makefile("rb"))[0], 408)
        # What they send does.
        first, second, third = self.dial(), self.dial(), self.dial()
        for waiting in (first, second):
            waiting.sendall(head + b" " * 3999)
        third.sendall(head + b" " * 10)
        # One of the two that hold most gives way to it, and the time of the others is over soon.
        answers = [hear(waiting.makefile("rb")) for waiting in (first, second)]
        self.assertEqual(sorted(status for status, _, _ in answers), [408, 503])
        _, headers, content = next(answer for answer in answers if answer[0] == 503)
        self.assertIn("this one holds the most", json.loads(content)["error"])
        self.assertEqual(headers["Retry-After"], "1")
        self.assertEqual(hear(third.makefile("rb"))[0], 408)
        self.assertEqual(self.infer("one")[0], 1.0)

    def test_management_bodies(self):
        text = b'{"log_info": true, "x": "%s"}' % (b"y" * (1 << 20))
        for path in ("/v2/logging", "/v2/trace/setting", "/v2/repository/index"):
            head = "POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % (path, len(text))
            self.expect(head.encode(), 413, "limit of")

    def test_connections(self):
        held = []
        refused = None
        for _ in range(40):
            found = self.dial()
            found.sendall(request())
            answer = hear(found.makefile("rb"))
            if answer is None or answer[0] == 503:
                refused = answer
                break
            self.assertEqual(answer[0], 200)
            held.append(found)
        self.assertIsNotNone(refused)
        self.assertIn("too many connections", refused[2].decode())
        self.assertEqual(refused[1]["Retry-After"], "1")
        self.assertLessEqual(len(held), 20)
        for found in held:
            found.close()
        self.check_http()


class QueueBytes(FaultCase):
    flags = ["--max-queue-bytes", "1000"]

    def test_inputs_in_flight(self):
        rows = {"name": "x", "shape": [60, 4], "datatype": "FP32", "data": [0] * 240}
        status, answer = self.ask(
            "POST", "/v2/models/one/infer", json.dumps({"inputs": [dict(rows, shape=[64, 4], data=[0] * 256)]})
        )
        self.assertEqual(status, 503, answer)
        self.assertIn("limit of 1000", answer["error"])
        status, answer = self.ask("POST", "/v2/models/one/infer", json.dumps({"inputs": [rows]}))
        self.assertEqual(status, 200, answer)
        self.check_http()


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0]] + sys.argv[1:])
