#!/usr/bin/env python3
"""Models of cells over a cluster of processes: the answers and words of one process, by policies that keep deciding on the
backend; streams over HTTP and gRPC; cancellation; a backend that ends; and what is refused."""
import contextlib
import http.client
import json
import os
import pathlib
import random
import re
import signal
import subprocess
import sys
import time
import unittest

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "python"))

from needs import need, needing  # noqa: E402

need("numpy", "onnx")

from cluster_process import Cluster, await_true  # noqa: E402
from plain_client import Server  # noqa: E402
from server_process import free_port  # noqa: E402

STEP = 'step { name: "%s" point { batch: 1 latency_ns: 50000 } point { batch: 64 latency_ns: 400000 } }\n'
# Wide, so that on a busy machine no node is suspected.
TIMES = "silence-ms 1500\noverdue-ms 2000\nfetch-ms 2000\npatience-ms 5000\ngrace-ms 20000\n"
EMULATED = """backend: "emulated" max_batch_size: 16
input { name: "lengths" data_type: TYPE_INT32 dims: -1 }
output { name: "output" data_type: TYPE_UINT8 dims: 1 }
"""
ENDLESS_WORDS = 100000
CHAIN, SEQUENCE, TREE = "chain64", "seq2seq64", "tree64"


def make_models(models):
    """A chain, a decoder and a tree; the decoder by steps, by whole sequences, without an end, and on the streams of a device."""
    maker = [sys.executable, ROOT / "scripts" / "make_models.py", "--out", models, "--only", CHAIN, SEQUENCE, TREE]
    subprocess.run(maker, check=True, capture_output=True)
    settings = (models / SEQUENCE / "tutti.pbtxt").read_text()
    endless = re.sub(r"threshold: \d+ eos: \d+", "threshold: %d eos: 1000000" % ENDLESS_WORDS, settings)
    streams, lazy = settings + "\ndevice { }\n", settings + '\npolicy { name: "lazy" }\n'
    first = settings + "\nttft_ms: 1\n"  # more than its first word takes, less than the whole
    for name, text in ("lazy", lazy), ("endless", endless), ("streams", streams), ("first", first):
        (models / name).mkdir()
        (models / name / "1").symlink_to(models / SEQUENCE / "1")
        (models / name / "tutti.pbtxt").write_text(text)
    for settings in models.glob("*/tutti.pbtxt"):
        files = re.findall(r'file: "(\w+)\.onnx"', settings.read_text())
        whole = "linear { alpha_ms: 0.1 beta_ms: 1 }\n"
        (settings.parent / "profile.pbtxt").write_text(whole + "".join(STEP % name for name in files))


def draw_requests(count):
    """Models with inputs, by seed."""
    seed = int(os.environ.get("TUTTI_SEED") or random.randrange(1 << 30))
    print("seed: TUTTI_SEED=%d" % seed, file=sys.stderr)
    draw = random.Random(seed)
    tokens = lambda: [draw.randrange(3, 500) for _ in range(draw.choice([1, 2, 5, 9]))]  # noqa: E731
    return [(draw.choice([CHAIN, SEQUENCE, "lazy", "streams"]), {"tokens": tokens()}) for _ in range(count)]


class Cells(unittest.TestCase):
    def setUp(self):
        self.cluster = self.alone = None

    def tearDown(self):
        if self.alone:
            self.alone.end(signal.SIGTERM)
        if self.cluster:
            self.cluster.stop()

    def open(self, *more, backends=1, grants=8):
        cluster = self.cluster = Cluster(backends=backends, devices=1, times=TIMES)
        for name in "config.pbtxt", "profile.pbtxt":
            (cluster.models / "echo" / name).unlink()
        for folder in (cluster.models / "echo" / "1", cluster.models / "echo"):
            folder.rmdir()
        make_models(cluster.models)
        cluster.file.write_text(cluster.file.read_text().replace("devices=1", "devices=1 grants=%d" % grants))
        self.grpc_port = free_port()
        for name in cluster.nodes:
            cluster.start(name, *more, grpc=self.grpc_port if name == "f1" else 0)
        for name in cluster.nodes:
            self.assertTrue(cluster.processes[name].wait_ready(60), cluster.processes[name].said())
        cluster.await_ready("f1")
        return cluster

    def post(self, path, body, address=None):
        client = http.client.HTTPConnection(address or self.cluster.processes["f1"].address, timeout=60)
        self.addCleanup(client.close)
        client.request("POST", path, json.dumps(body))
        return client, client.getresponse()

    def infer(self, model, inputs, address=None):
        tensors = [{"name": n, "shape": [1, len(v)], "datatype": "INT64", "data": v} for n, v in inputs.items()]
        answer = self.post("/v2/models/%s/infer" % model, {"inputs": tensors}, address)[1]
        said = json.loads(answer.read())
        return answer.status, [o["data"] for o in said["outputs"]] if answer.status == 200 else said["error"]

    def stream(self, model, tokens):
        """The connection, and its events as they come."""
        client, answer = self.post("/v2/models/%s/generate_stream" % model, {"tokens": tokens})
        self.assertEqual(answer.status, 200, answer.status)
        return client, (json.loads(line[6:]) for line in answer if line.startswith(b"data: "))

    def metrics_of(self, node, model):
        page = self.cluster.get(node, "/metrics")[1].decode()
        found = re.findall(r'^(\w+)\{model="%s",version="1"\} (\S+)$' % model, page, re.M)
        return {name: float(value) for name, value in found}

    def test_answers_are_those_of_one_process(self):
        """Chains, decoders and trees, from several clients at once; words are those of the answer."""
        cluster = self.open()
        self.alone = Server(cluster.models)
        requests = draw_requests(40)
        tree = {"left": [-1, -1, 0], "right": [-1, -1, 1], "tokens": [7, 8, 0]}
        wanted = [self.infer(*request, self.alone.address) for request in requests]
        found = [self.infer(*request) for request in requests]
        for request, one, other in zip(requests, wanted, found):
            self.assertEqual(one[0], 200, (request, one))
            self.assertEqual(one, other, request)
        self.assertEqual(self.infer("first", {"tokens": [5, 6, 7]})[0], 200)
        self.assertNotIn("ttft_ms", cluster.processes["f1"].said() + cluster.processes["b1"].said())
        self.assertEqual(self.metrics_of("f1", "first")["tutti_requests_late_total"], 0)
        once = self.infer(TREE, tree, self.alone.address)
        self.assertEqual(self.infer(TREE, tree), once)
        for model in SEQUENCE, "lazy":
            words = self.infer(model, {"tokens": [5, 6, 7]})[1][0]
            client, events = self.stream(model, [5, 6, 7])
            self.assertEqual([event.get("word") for event in events], words)
        # Cells were batched on the backend, by its own policy.
        self.assertGreater(self.metrics_of("b1", SEQUENCE)["tutti_words_total"], 0)
        status, error = self.infer(SEQUENCE, {"tokens": [999]})
        self.assertEqual(status, 400)
        self.assertIn("element 0 of input 'tokens' is 999", error)

    def test_a_client_that_leaves_frees_its_slots(self):
        cluster = self.open(grants=1)
        client, events = self.stream("endless", [5])
        first = [next(events) for _ in range(3)]
        self.assertTrue(all("word" in event for event in first), first)
        client.close()
        events.close()
        await_true(lambda: self.metrics_of("b1", "endless")["tutti_cell_slots_promised"] == 0, 60, "slots are free")
        self.assertLess(self.metrics_of("b1", "endless")["tutti_words_total"], ENDLESS_WORDS)
        # The device, which has one grant at a time, takes the next one.
        self.assertEqual(self.infer(SEQUENCE, {"tokens": [5]})[0], 200)
        await_true(lambda: cluster.status()["f1"]["under_way"] == 0, 60, "nothing is left")

    def test_a_stream_ends_with_its_backend(self):
        """What has emitted nothing is tried again on the other one; what has ends with an error that says so."""
        cluster = self.open(backends=2, grants=4)
        streams = [self.stream("endless", [5 + i])[1] for i in range(3)]
        for events in streams:
            self.assertIn("word", next(events))
        busy = {name for name in ("b1", "b2") if self.metrics_of(name, "endless")["tutti_cell_slots_promised"] > 0}
        for name in busy:
            cluster.kill(name)
        for events in streams:
            last = list(events)[-1]
            self.assertIn("was lost after the first words of a request to model 'endless'", last.get("error", last))
            self.assertRegex(last["error"], "backend b[12] ")
        for name in busy:
            cluster.start(name)
            self.assertTrue(cluster.processes[name].wait_ready(60))
        await_true(lambda: self.infer(SEQUENCE, {"tokens": [5]})[0] == 200, 60, "the cluster serves on")

    def test_a_client_that_does_not_read(self):
        cluster = self.open("--max-stream-words", "64")
        client, answer = self.post("/v2/models/endless/generate_stream", {"tokens": [5]})
        await_true(lambda: cluster.status()["f1"]["under_way"] == 0, 60, "it is given up")
        events = [json.loads(line[6:]) for line in answer if line.startswith(b"data: ")]
        self.assertIn("reads the stream too slowly", events[-1].get("error", events[-1]))
        await_true(lambda: self.metrics_of("b1", "endless")["tutti_cell_slots_promised"] == 0, 60, "slots are free")

    def test_emulated_cells(self):
        """Cells that take time only, by a policy for cells and as whole sequences; files of cells are not emulated."""
        cluster = self.cluster = Cluster(devices=2, times=TIMES)
        for name, policy in ("cells", "cellular"), ("whole", "window"):
            folder = cluster.models / name
            (folder / "1").mkdir(parents=True)
            (folder / "config.pbtxt").write_text(EMULATED)
            (folder / "profile.pbtxt").write_text("linear { beta_ms: 1 }\n" + STEP % "first" + STEP % "second")
            (folder / "tutti.pbtxt").write_text('policy { name: "%s" } emulation { cells { max_length: 16 } }' % policy)
        maker = [sys.executable, ROOT / "scripts" / "make_models.py", "--out", cluster.folder / "other", "--only", CHAIN]
        subprocess.run(maker, check=True, capture_output=True)
        (cluster.folder / "other" / CHAIN).rename(cluster.models / CHAIN)
        (cluster.models / CHAIN / "profile.pbtxt").write_text("linear { beta_ms: 1 }\n" + STEP % "cell")
        for name in cluster.nodes:
            cluster.start(name, *(["--emulated"] if name == "b1" else []))
        for name in cluster.nodes:
            self.assertTrue(cluster.processes[name].wait_ready(60), cluster.processes[name].said())
        cluster.await_ready("f1")
        for model in "cells", "whole":
            tensor = {"name": "lengths", "shape": [1, 3], "datatype": "INT32", "data": [1, 1, 1]}
            answer = self.post("/v2/models/%s/infer" % model, {"inputs": [tensor]})[1]
            self.assertEqual((answer.status, json.loads(answer.read())["outputs"][0]["data"]), (200, [0]))
        self.assertIn("backend 'emulated' reads no files of cells", cluster.processes["b1"].said())
        self.assertEqual(self.infer(CHAIN, {"tokens": [5]})[0], 503)

    def test_whole_batches_are_refused_where_grants_share_a_device(self):
        cluster = self.cluster = Cluster(devices=1, times=TIMES)
        cluster.file.write_text(cluster.file.read_text().replace("devices=1", "devices=1 grants=4"))
        for name in cluster.nodes:
            cluster.start(name)
        said = cluster.processes["b1"].said
        await_true(lambda: "is granted several at once" in said(), 60, said)


@needing("tritonclient", "grpc")
class GrpcCells(Cells):
    """By an unmodified tritonclient.grpc."""

    def test_words_over_grpc(self):
        import queue

        import numpy
        import tritonclient.grpc as library

        self.open()
        words = self.infer(SEQUENCE, {"tokens": [5, 6, 7]})[1][0]
        answers = queue.Queue()
        with contextlib.closing(library.InferenceServerClient("127.0.0.1:%d" % self.grpc_port)) as client:
            client.start_stream(lambda result, error: answers.put((result, error)))
            array = numpy.array([[5, 6, 7]], numpy.int64)
            tensor = library.InferInput("tokens", array.shape, "INT64")
            tensor.set_data_from_numpy(array)
            client.async_stream_infer(SEQUENCE, [tensor])
            found = []
            for _ in words:
                result, error = answers.get(timeout=60)
                self.assertIsNone(error)
                found.append(result.as_numpy(result.get_response().outputs[0].name).reshape(-1)[0])
            client.stop_stream()
        self.assertEqual(found, words)


for inherited in [name for name in dir(Cells) if name.startswith("test_")]:
    setattr(GrpcCells, inherited, None)

if __name__ == "__main__":
    unittest.main(verbosity=2)
