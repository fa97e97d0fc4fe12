#!/usr/bin/env python3
"""D4: a convolutional network in three stages, computed by ONNX Runtime under `diversity` with `ahead: on`: by threads, and on the streams
of the host device and of a GPU's stand-in. Every answer is what the request gets when it is alone. The server's own trace shows that stages were decided before the stages that feed them had ended, that
they began after those, and that stages of different batches overlapped. The recording replays to the same decisions."""
import http.client
import itertools
import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "python"))

from needs import needing  # noqa: E402
from plain_client import Server, get  # noqa: E402

SEED = int(os.environ.get("TUTTI_SEED", "4"))
TUTTI = os.environ["TUTTI_PROGRAM"]
CLIENTS, REQUESTS, KINDS, STAGES, MOST_ROUNDS = 12, 10, 8, 3, 20
STANDIN = pathlib.Path(TUTTI).resolve().parent / "tests" / "standin"
GPU = {
    "TUTTI_CUDA_DRIVER": str(STANDIN / "cuda_standin.so"),
    "TUTTI_ONNXRUNTIME": str(STANDIN / "onnxruntime_standin.so"),
    "TUTTI_STANDIN_MEMORY_MB": "512",
}
AHEAD = """slo_ms: 60000 stages { count: 3 }
policy { name: "diversity"
  option { key: "ahead" value: "on" } option { key: "stretch" value: "off" } option { key: "split" value: "off" }
  option { key: "bs_max" value: "4" } }
"""


def bodies():
    prng = random.Random(SEED)
    for _ in range(KINDS):
        data = [round(prng.uniform(-1, 1), 4) for _ in range(3 * 32 * 32)]
        yield json.dumps({"inputs": [{"name": "image", "shape": [1, 3, 32, 32], "datatype": "FP32", "data": data}]})


def send(client, body):
    client.request("POST", "/v2/models/cnn/infer", body)


def receive(client):
    answer = client.getresponse()
    text = answer.read()
    if answer.status != 200:
        raise AssertionError(f"{answer.status} {text!r}")
    return json.loads(text)["outputs"][0]["data"]


class StagesAhead:
    device, environment = "", {}
    # How often a GPU's clock is compared with the host's: across that two instants may be out of order. And how wrong that may be
    # on a busy machine: an instant of the GPU's is taken for the host's end of the task where it seems to be later.
    compares_clocks_s, error_us = None, 1

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        models = pathlib.Path(cls.folder.name, "models")
        subprocess.run(
            [sys.executable, ROOT / "scripts" / "make_models.py", "--out", models, "--only", "cnn"], check=True, capture_output=True
        )
        (models / "cnn" / "tutti.pbtxt").write_text(AHEAD + cls.device)
        cls.recording = pathlib.Path(cls.folder.name, "run.rec")
        cls.server = Server(models, "--executors", "3", "--record", cls.recording, start={"env": {**os.environ, **cls.environment}})
        cls.ended = False

    @classmethod
    def tearDownClass(cls):
        if not cls.ended:
            cls.server.end(signal.SIGTERM)
        cls.folder.cleanup()

    def batches(self):
        trace = json.loads(get(self.server.address, "/v2/debug/trace?seconds=600")[2])
        return [e for e in trace["traceEvents"] if e["ph"] == "X" and e["cat"] == "batch"]

    def check_trace(self, batches, requests):
        """How many stages were decided ahead, and how many overlapped with the first stage of another batch. Batches are neither joined nor halved, so they go through every stage in one order."""
        stages = [sorted((e for e in batches if e["args"]["first_step"] == s), key=lambda e: e["ts"]) for s in range(STAGES)]
        self.assertEqual(sum(map(len, stages)), len(batches))
        ahead = disordered = 0
        for first, second in zip(stages, stages[1:]):
            self.assertEqual([e["args"]["requests"] for e in first], [e["args"]["requests"] for e in second])
            for before, after in zip(first, second):
                self.assertEqual((before["args"]["outcome"], after["args"]["outcome"]), ("done", "done"))
                disordered += after["ts"] < before["ts"] + before["dur"] - self.error_us
                ahead += after["ts"] - after["args"]["decided_us_before"] < before["ts"] + before["dur"] - 1
        span_s = (max(e["ts"] + e["dur"] for e in batches) - min(e["ts"] for e in batches)) / 1e6
        comparisons = 1 + int(span_s / self.compares_clocks_s) if self.compares_clocks_s else 0
        self.assertLessEqual(disordered, CLIENTS * comparisons)  # a batch in flight has at most one such pair
        self.assertEqual(sum(e["args"]["requests"] for e in stages[0]), requests)
        overlaps = sum(
            a["ts"] < b["ts"] + b["dur"] and b["ts"] < a["ts"] + a["dur"]
            for a, b in itertools.product(stages[0], stages[1] + stages[2])
        )
        print(f"{len(batches)} batches, {ahead} submitted ahead, {overlaps} overlaps")
        return ahead, overlaps

    def test_answers_order_and_replay(self):
        print(f"TUTTI_SEED={SEED}")
        made = list(bodies())
        prng = random.Random(SEED)
        clients = [http.client.HTTPConnection(self.server.address, timeout=60) for _ in range(CLIENTS)]
        alone = []
        for body in made:
            send(clients[0], body)
            alone.append(receive(clients[0]))

        def ask_at_once():
            """All clients send before the first one reads, so that several batches are there at a time."""
            kinds = [prng.randrange(KINDS) for _ in clients]
            for client, kind in zip(clients, kinds):
                send(client, made[kind])
            for client, kind in zip(clients, kinds):
                answer = receive(client)
                if max(abs(a - b) for a, b in zip(answer, alone[kind])) > 1e-4 * max(1, max(map(abs, alone[kind]))):
                    raise AssertionError(f"request {kind} of seed {SEED}: another answer than alone")

        sent, ahead, overlaps = KINDS, 0, 0
        for _ in range(MOST_ROUNDS):
            for _ in range(REQUESTS):
                ask_at_once()
            sent += CLIENTS * REQUESTS
            ahead, overlaps = self.check_trace(self.batches(), sent)
            if ahead and overlaps:
                break
        for client in clients:
            client.close()
        self.assertGreater(ahead, 0)
        self.assertGreater(overlaps, 0)
        self.assertEqual(self.server.end(signal.SIGTERM), 0, self.server.said())
        type(self).ended = True
        replayed = subprocess.run([TUTTI, "replay", self.recording], capture_output=True, text=True, timeout=60)
        self.assertEqual(replayed.returncode, 0, replayed.stdout + replayed.stderr)


@needing("onnx")
class OnThreads(StagesAhead, unittest.TestCase):
    pass


@needing("onnx")
class OnHostDevice(StagesAhead, unittest.TestCase):
    device = "device { }"


@needing("onnx")
class OnGpu(StagesAhead, unittest.TestCase):
    device, environment, compares_clocks_s, error_us = "device { kind: CUDA }", GPU, 8, 500


if __name__ == "__main__":
    unittest.main(verbosity=1)
