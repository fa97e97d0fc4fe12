#!/usr/bin/env python3
"""A server that is stopped for a while under load, as a machine that sleeps or a clock that jumps: every request is
answered once and accounted for, the watchdog blames no model for the pause, and afterwards the server serves on."""
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

from plain_client import Server, ask, get  # noqa: E402

PAUSE_S = 2.0
LIMIT_MS = 1000  # of a batch that takes 20 ms: the pause alone is longer
CONFIG = """
backend: "emulated" max_batch_size: 8
input { name: "input" data_type: TYPE_FP32 dims: 16 }
output { name: "output" data_type: TYPE_FP32 dims: 16 }
"""
PROFILE = "point { batch: 1 latency_ns: 20000000 } point { batch: 8 latency_ns: 40000000 }\n"


class Stalls(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        models = pathlib.Path(folder.name)
        self.policies = ["deferred", "window", "lazy", "symphony"]
        for policy in self.policies:
            model = models / policy
            (model / "1").mkdir(parents=True)
            (model / "config.pbtxt").write_text(CONFIG)
            (model / "profile.pbtxt").write_text(PROFILE)
            (model / "tutti.pbtxt").write_text('slo_ms: 500 policy { name: "%s" }\n' % policy)
        self.server = Server(models, "--max-run-ms", str(LIMIT_MS))
        self.addCleanup(self.server.process.kill)

    def metrics(self):
        _, _, page = get(self.server.address, "/metrics")
        return page.decode()

    def value(self, page, name, more=""):
        pattern = r"^%s\{model=\"%s\",version=\"1\"%s\} (\d+)$"
        return sum(int(re.search(pattern % (name, policy, more), page, re.M).group(1)) for policy in self.policies)

    def test_pause(self):
        codes, over = [], threading.Event()

        def client(model):
            while not over.is_set():
                codes.extend(ask(self.server.address, model, 1))

        clients = [threading.Thread(target=client, args=(policy,)) for policy in self.policies * 3]
        for thread in clients:
            thread.start()
        while len(codes) < 50:
            time.sleep(0.01)
        os.kill(self.server.process.pid, signal.SIGSTOP)
        time.sleep(PAUSE_S)
        os.kill(self.server.process.pid, signal.SIGCONT)
        before = len(codes)
        while codes[before:].count(200) < 50:  # it serves on
            time.sleep(0.01)
        over.set()
        for thread in clients:
            thread.join()
        self.assertLessEqual(set(codes), {200, 503})
        page = self.metrics()
        self.assertEqual(self.value(page, "tutti_requests_accepted_total"), len(codes))
        answered = self.value(page, "nv_inference_request_success")
        self.assertEqual(answered, codes.count(200))
        self.assertEqual(self.value(page, "nv_inference_pending_request_count"), 0)
        self.assertEqual(
            answered,
            self.value(page, "tutti_requests_on_time_total") + self.value(page, "tutti_requests_late_total"),
        )
        for action in ("stopped", "lost"):
            self.assertEqual(self.value(page, "tutti_watchdog_total", ',action="%s"' % action), 0)
        self.server.process.send_signal(signal.SIGTERM)
        self.assertEqual(self.server.process.wait(60), 0, self.server.said())


if __name__ == "__main__":
    unittest.main()
