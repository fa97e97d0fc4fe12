#!/usr/bin/env python3
"""C6 over HTTP and gRPC: models of cells on the streams of a device. Each answer is what the same model gives on the CPU, from the host
device and from a GPU (stand-ins for driver and library: tests/standin); what happened is read from the trace."""
import concurrent.futures
import http.client
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import time
import unittest

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "python"))

from needs import needing  # noqa: E402
from plain_client import get  # noqa: E402
from server_process import Server, free_port  # noqa: E402

PROGRAM = os.environ["TUTTI_PROGRAM"]
STANDIN = pathlib.Path(PROGRAM).resolve().parent / "tests" / "standin"
KINDS = ("chain64", "seq2seq64", "tree64", "chunks64")
CLIENTS, EACH, VOCABULARY = 8, 12, 500
CELL = 'step { name: "%s" point { batch: 1 latency_ns: %d } point { batch: 16 latency_ns: %d } }\n'
PLAIN = "linear { beta_ms: 1 }\n" + CELL % ("first", 2000000, 5000000) + CELL % ("second", 3000000, 5000000)
TENSORS = """backend: "emulated" max_batch_size: 16
input { name: "lengths" data_type: TYPE_INT32 dims: -1 }
output { name: "output" data_type: TYPE_UINT8 dims: 1 }
"""


def random_request(draw, kind):
    tokens = [draw.randrange(VOCABULARY) for _ in range(draw.randrange(1, 14))]
    if not kind.startswith("tree"):
        return {"tokens": tokens}
    left, right, roots = [-1] * len(tokens), [-1] * len(tokens), list(range(len(tokens)))
    while len(roots) > 1:
        at = draw.randrange(len(roots) - 1)
        left.append(roots[at])
        right.append(roots[at + 1])
        tokens.append(0)
        roots[at : at + 2] = [len(tokens) - 1]
    return {"tokens": tokens, "left": left, "right": right}


def body(tensors, datatype="INT64"):
    given = [{"name": n, "shape": [1, len(v)], "datatype": datatype, "data": v} for n, v in tensors.items()]
    return json.dumps({"inputs": given})


@needing("onnx")
class DeviceCells(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.made = tempfile.TemporaryDirectory()
        maker = [sys.executable, ROOT / "scripts" / "make_models.py", "--out", cls.made.name, "--only"]
        subprocess.run(maker + list(KINDS), check=True, capture_output=True)

    @classmethod
    def tearDownClass(cls):
        cls.made.cleanup()

    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name) / "models"

    def make(self, *devices):
        """The demo's models of cells, and for each device the same with that in tutti.pbtxt."""
        for suffix, device, config in (("", "", ""), *devices):
            for kind in KINDS:
                own, made = self.folder / (kind + suffix), pathlib.Path(self.made.name) / kind
                own.mkdir(parents=True)
                (own / "1").symlink_to(made / "1")
                (own / "tutti.pbtxt").write_text((made / "tutti.pbtxt").read_text() + "\n" + device)
                if config:
                    (own / "config.pbtxt").write_text(config)

    def start(self, *flags, environment=(), executors=2, grpc_port=0):
        command = ["env", *environment, PROGRAM, "serve", "--model-repository", self.folder, "--http-port", "0"]
        ports = ["--grpc-port", str(grpc_port)]
        self.server = Server(command + ports + ["--executors", str(executors), *flags])
        self.addCleanup(self.server.process.kill)
        self.assertTrue(self.server.wait_ready(120), self.server.said())

    def stop(self):
        self.assertEqual(self.server.stop(60), 0, self.server.said())

    def infer(self, model, content):
        client = http.client.HTTPConnection(self.server.address, timeout=60)
        client.request("POST", f"/v2/models/{model}/infer", content)
        answer = client.getresponse()
        found = json.loads(answer.read())
        client.close()
        return answer.status, found.get("outputs", found.get("error"))

    def batches(self, model):
        found = json.loads(get(self.server.address, "/v2/debug/trace?seconds=600")[2])["traceEvents"]
        batches = [e for e in found if e["ph"] == "X" and e["cat"] == "batch" and e["name"] == model]
        return sorted(batches, key=lambda e: e["ts"])

    def check_same(self, suffixes):
        seed = int(os.environ.get("TUTTI_SEED") or random.randrange(1 << 30))
        print(f"seed: TUTTI_SEED={seed}", file=sys.stderr)
        draw = random.Random(seed)
        asked = [(kind, random_request(draw, kind)) for kind in KINDS for _ in range(CLIENTS * EACH)]
        alone = []
        for kind, tensors in asked:
            status, outputs = self.infer(kind, body(tensors))
            self.assertEqual(status, 200, outputs)
            alone.append(outputs)
        for suffix in suffixes:
            with concurrent.futures.ThreadPoolExecutor(CLIENTS) as pool:
                found = list(pool.map(lambda a: self.infer(a[0] + suffix, body(a[1])), asked))
            for (kind, tensors), outputs, (status, answer) in zip(asked, alone, found):
                self.assertEqual((status, answer), (200, outputs), (kind + suffix, tensors))

    def until_shared(self, model):
        """Batches, some of which have cells of several requests: where clients did not meet they ask once more."""
        content = body({"tokens": list(range(1, 14))} if "tree" not in model else random_request(random.Random(1), "tree64"))
        end = time.monotonic() + 60
        while all(batch["args"]["rows"] == 1 for batch in self.batches(model)):
            self.assertLess(time.monotonic(), end, "no two requests of %s shared a cell" % model)
            with concurrent.futures.ThreadPoolExecutor(CLIENTS) as pool:
                found = list(pool.map(lambda _: self.infer(model, content), range(CLIENTS * EACH)))
            self.assertEqual({status for status, _ in found}, {200})
        return self.batches(model)

    def check_batches(self, model):
        """Requests of several clients shared cells; tasks of one stream ran one after the other; both streams ran some."""
        batches = self.until_shared(model)
        streams = {}
        for batch in batches:
            streams.setdefault(batch["tid"], []).append(batch)
        for own in streams.values():
            for before, after in zip(own, own[1:]):
                self.assertGreaterEqual(after["ts"], before["ts"] + before["dur"] - 1)
        return len(streams)

    def test_host(self):
        two = "instance_group { count: 2 kind: KIND_CPU }"
        self.make(("_device", "device { memory_mb: 64 }", ""), ("_two", "device { memory_mb: 64 }", two))
        self.start()
        self.check_same(["_device", "_two"])
        for kind in KINDS:
            self.check_batches(kind + "_device")
        self.assertEqual(self.check_batches("chain64_two"), 2)
        self.stop()

    def test_gpu(self):
        self.make(("_cuda", "device { kind: CUDA memory_mb: 4 }", ""))
        driver, runtime = STANDIN / "cuda_standin.so", STANDIN / "onnxruntime_standin.so"
        self.start(environment=[f"TUTTI_CUDA_DRIVER={driver}", f"TUTTI_ONNXRUNTIME={runtime}"])
        self.check_same(["_cuda"])
        for kind in KINDS:
            self.check_batches(kind + "_cuda")
        self.stop()

    @needing("numpy", "tritonclient", "grpc")
    def test_grpc(self):
        import numpy
        import tritonclient.grpc

        self.make(("_device", "device { memory_mb: 64 }", ""))
        port = free_port()
        self.start(grpc_port=port)
        client = tritonclient.grpc.InferenceServerClient("127.0.0.1:%d" % port)
        self.addCleanup(client.close)
        draw = random.Random(6)
        for kind in KINDS:
            tensors = random_request(draw, kind)
            given = []
            for name, values in tensors.items():
                given.append(tritonclient.grpc.InferInput(name, [1, len(values)], "INT64"))
                given[-1].set_data_from_numpy(numpy.array([values], dtype=numpy.int64))
            alone, result = self.infer(kind, body(tensors))[1][0], client.infer(kind + "_device", given)
            found = result.as_numpy(alone["name"])
            self.assertEqual(found.reshape(-1).tolist(), numpy.array(alone["data"], dtype=found.dtype).tolist())
        self.stop()

    def test_words_as_they_come(self):
        self.make(("_device", "device { memory_mb: 64 }", ""))
        self.start()
        draw = random.Random(5)
        for _ in range(10):
            tokens = random_request(draw, "seq2seq64")
            alone = self.infer("seq2seq64", body(tokens))
            streamed = self.stream("seq2seq64_device", tokens["tokens"])
            self.assertEqual((200, streamed), (alone[0], alone[1][0]["data"]))
        self.stop()

    def stream(self, model, tokens):
        client = http.client.HTTPConnection(self.server.address, timeout=60)
        client.request("POST", f"/v2/models/{model}/generate_stream", json.dumps({"tokens": tokens}))
        answer = client.getresponse()
        self.assertEqual(answer.status, 200)
        said = [json.loads(line[5:]) for line in answer.read().decode().splitlines() if line.startswith("data:")]
        client.close()
        words = []
        for event in said:
            found = [v for k, v in event.items() if k not in ("model_name", "model_version")]
            words += found[0] if isinstance(found[0], list) else found
        return words

    def test_emulated(self):
        """C6: a request's cells take what the profile says, and follow each other on the stream."""
        for name, device in (("plain", "device { }"), ("threads", "")):
            own = self.folder / name
            (own / "1").mkdir(parents=True)
            settings = 'slo_ms: 600000 policy { name: "cellular" } emulation { cells { kind: SEQ2SEQ max_length: 16 } } '
            (own / "tutti.pbtxt").write_text(settings + device)
            (own / "config.pbtxt").write_text(TENSORS)
            (own / "profile.pbtxt").write_text(PLAIN)
        self.start(executors=1)
        asked = [[1 + i % 4] * (1 + i % 3) for i in range(8)]
        rows = {}
        for model in ("plain", "threads"):
            with concurrent.futures.ThreadPoolExecutor(len(asked)) as pool:
                contents = [body({"lengths": lengths}, "INT32") for lengths in asked]
                for status, outputs in pool.map(lambda content: self.infer(model, content), contents):
                    self.assertEqual(status, 200, outputs)
                    self.assertEqual(outputs[0]["data"], [0])
            rows[model] = [0, 0]
            for batch in self.batches(model):
                self.assertGreaterEqual(batch["dur"], (2000, 3000)[batch["args"]["first_step"]] - 1)
                rows[model][batch["args"]["first_step"]] += batch["args"]["rows"]
        self.assertEqual(rows["plain"][0], sum(len(lengths) for lengths in asked))
        self.assertEqual(rows["plain"][0], rows["threads"][0])
        least = sum(lengths[0] for lengths in asked)  # cells behind an end may have been queued
        self.assertIn(rows["plain"][1], range(least, least + 5 * len(asked)))
        self.stop()

    def test_policies_that_run_sequences_are_refused(self):
        self.make(("_padded", 'device { } policy { name: "window" }', ""))
        command = [PROGRAM, "models", "check", self.folder]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        self.assertIn("a device runs single cells: choose policy cellular or merged", done.stdout + done.stderr)


if __name__ == "__main__":
    unittest.main()
