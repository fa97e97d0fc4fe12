#!/usr/bin/env python3
"""Devices that are not what their profiles say, under load over HTTP: every request is answered once, the books agree, and
requests are answered again when the cause has ended. Times are not asserted here; in virtual time test_learning_sim shows that
goodput is back within two objectives (marked *). The faults, and where each is tried:

  fault                  simulated             emulated               real
  profile wrong by 3x    test_learning_sim *   here                   here, test_learning_server
  2x slower for a while  test_learning_sim *   here                   here
  stops for 500 ms       test_learning_sim *   here                   here
  a clock that jumps     test_learning_sim *   test_emulated_faults   here, test_stalls
  a plug-in that hangs   (it has none)         (it has none)          test_endless_batches
"""
import http.client
import json
import os
import pathlib
import re
import signal
import sys
import tempfile
import threading
import time
import unittest

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "python"))

from needs import needing  # noqa: E402
from plain_client import Server, get, infer_body, make_two_models  # noqa: E402

CLIENTS, ENOUGH = 3, 40
CONFIG = """
backend: "emulated" max_batch_size: 8
input { name: "input" data_type: TYPE_FP32 dims: 16 }
output { name: "output" data_type: TYPE_FP32 dims: 16 }
"""
BATCH_MS = 20  # of a batch, whatever its size
PROFILE = "point { batch: 1 latency_ns: %d } point { batch: 8 latency_ns: %d }\n" % ((BATCH_MS * 1000000,) * 2)
EMULATED = {  # each has devices of its own; the longest batch lasts at least so many ms
    "stops": ("perturb { from_s: 1 until_s: 1.5 speed: 0 }", 5 * BATCH_MS),
    "slow": ("perturb { from_s: 1 until_s: 3 speed: 0.5 }", 2 * BATCH_MS),
    "wrong": ("perturb { speed: 0.333 }", 3 * BATCH_MS),
}


class Load:
    """Clients of one model that ask again and again, each on a connection of its own."""

    def __init__(self, server, model):
        self.server, self.model = server, model
        self.statuses, self.errors, self.over = [], [], threading.Event()
        self.threads = [threading.Thread(target=self.ask) for _ in range(CLIENTS)]
        for thread in self.threads:
            thread.start()

    def ask(self):
        try:
            client = http.client.HTTPConnection(self.server.address, timeout=60)
            while not self.over.is_set():
                client.request("POST", "/v2/models/%s/infer" % self.model, infer_body())
                answer = client.getresponse()
                answer.read()
                self.statuses.append(answer.status)
            client.close()
        except Exception as error:  # noqa: the test raises it again
            self.errors.append(error)

    def answers(self, count=ENOUGH):
        """Waits until so many more have been computed."""
        before = len(self.statuses)
        while self.statuses[before:].count(200) < count and not self.errors:
            time.sleep(0.01)

    def end(self):
        self.over.set()
        for thread in self.threads:
            thread.join()
        if self.errors:
            raise self.errors[0]


class Case(unittest.TestCase):
    def serve(self, models, *flags):
        self.server = Server(models, *flags)
        self.addCleanup(self.server.process.kill)

    def longest_ms(self, model):
        trace = json.loads(get(self.server.address, "/v2/debug/trace?seconds=600")[2])
        batches = [e for e in trace["traceEvents"] if e["ph"] == "X" and e["cat"] == "batch" and e["name"] == model]
        return max((e["dur"] / 1000 for e in batches), default=0)

    def check(self, *loads):
        """What the server counted is what the clients saw."""
        page = get(self.server.address, "/metrics")[2].decode()
        for load in loads:

            def value(family):
                return int(re.search(r'^%s\{model="%s",version="1"\} (\d+)$' % (family, load.model), page, re.M)[1])

            self.assertLessEqual(set(load.statuses), {200, 503})
            self.assertEqual(value("tutti_requests_accepted_total"), len(load.statuses))
            self.assertEqual(value("nv_inference_request_success"), load.statuses.count(200))
            self.assertEqual(value("nv_inference_pending_request_count"), 0)
        self.assertEqual(self.server.end(signal.SIGTERM), 0, self.server.said())


class Emulated(Case):
    def test_all(self):
        with tempfile.TemporaryDirectory() as folder:
            for name, (fault, _) in EMULATED.items():
                model = pathlib.Path(folder, name)
                (model / "1").mkdir(parents=True)
                (model / "config.pbtxt").write_text(CONFIG)
                (model / "profile.pbtxt").write_text(PROFILE)
                (model / "tutti.pbtxt").write_text("slo_ms: 400 emulation { %s }\n" % fault)
            self.serve(folder)
            loads = [Load(self.server, name) for name in EMULATED]
            for load in loads:
                # A batch never ends before its time, so the fault shows itself.
                while self.longest_ms(load.model) < EMULATED[load.model][1] and not load.errors:
                    time.sleep(0.1)
                load.answers()
            for load in loads:
                load.end()
            self.check(*loads)


@needing("onnx")
class Real(Case):
    """A graph of ONNX Runtime on executors that the test disturbs from outside."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.models = make_two_models(folder.name)

    def disturbed(self, disturb):
        self.serve(self.models)
        loads = [Load(self.server, name) for name in ("mlp", "quick")]
        for load in loads:
            load.answers()
        disturb()
        for load in loads:
            load.answers()
            load.end()
        self.check(*loads)

    def stand_still(self, seconds):
        os.kill(self.server.process.pid, signal.SIGSTOP)
        time.sleep(seconds)
        os.kill(self.server.process.pid, signal.SIGCONT)

    def test_a_stop(self):
        # To the process this is a jump of the clock as well. Its deadlines of 500 ms pass meanwhile.
        self.disturbed(lambda: self.stand_still(0.7))

    def test_half_the_speed(self):
        def disturb():
            for _ in range(100):
                self.stand_still(0.01)
                time.sleep(0.01)

        self.disturbed(disturb)

    def test_profiles_that_are_wrong(self):
        text = (self.models / "quick" / "profile.pbtxt").read_text()
        for factor in (3, 1 / 3):
            scaled = re.sub(r"latency_ns: (\d+)", lambda found: "latency_ns: %d" % (int(found[1]) * factor), text)
            (self.models / "quick" / "profile.pbtxt").write_text(scaled)
            self.disturbed(lambda: None)


if __name__ == "__main__":
    unittest.main()
