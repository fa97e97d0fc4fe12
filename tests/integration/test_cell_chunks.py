#!/usr/bin/env python3
"""Cells that read several elements of a request: a chain, and a prompt that is read in chunks and answered word by
word. Every answer is compared, bit for bit, with numpy on the whole request, alone and in batches, under all ways to
run cells; a recording of it is replayed to the same decisions."""
import collections
import concurrent.futures
import csv
import http.client
import json
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "python"))
sys.path.insert(0, str(ROOT / "scripts"))

from needs import need  # noqa: E402

need("numpy", "onnx")

import numpy as np  # noqa: E402
from models import cells  # noqa: E402
from plain_client import Server, get  # noqa: E402
from recordings import replay  # noqa: E402

PROGRAM = os.environ["TUTTI_PROGRAM"]
VOCABULARY, THRESHOLD = 500, 10
WHOLE = 'policy { name: "window" option { key: "same_length" value: "off" } }\n'
WAYS = {
    "cellular": "",
    "cellular_too": "",  # equal cells: batches of both
    "padded": 'policy { name: "padded" }\n',
    "window": WHOLE,
    "lazy": 'policy { name: "lazy" }\n',
    "merged": 'policy { name: "merged" }\n',
}
KINDS = "chunks64", "prompts64"


class Reference:
    """From the definition: the words of each chunk are weighted by their places and added."""

    def __init__(self):
        self.weights = cells.Chunks(64, VOCABULARY)

    def mix(self, h, added):
        return (31 * h + added) % cells.PRIME

    def chunks64(self, tokens):
        h = np.zeros(64, np.int64)
        for at in range(0, len(tokens), cells.CHUNK):
            part = tokens[at : at + cells.CHUNK]
            h = self.mix(h, sum((k + 1) * self.weights.words[word] for k, word in enumerate(part)))
        return h[None]

    def prompts64(self, tokens):
        h, word, words = self.chunks64(tokens)[0], cells.GO, []
        while word != cells.EOS and len(words) < len(tokens) + THRESHOLD:
            h = self.mix(h, self.weights.words[word])
            best = np.argmax(h.astype(np.float32) @ self.weights.out + self.weights.banned)
            word = int(best) if len(words) < len(tokens) else cells.EOS
            words.append(word)
        return np.array([words])


def make_models(folder):
    maker = [sys.executable, ROOT / "scripts" / "make_models.py", "--out", folder, "--only"]
    subprocess.run([*maker, *KINDS], check=True, capture_output=True)
    for kind in KINDS:
        made = folder / kind
        for way, policy in WAYS.items():
            model = folder / ("%s_%s" % (way, kind))
            model.mkdir()
            shutil.copytree(made / "1", model / "1")
            (model / "tutti.pbtxt").write_text((made / "tutti.pbtxt").read_text() + policy)
        shutil.rmtree(made)


PROFILE = 'linear { beta_ms: 1 }\nstep { name: "read" point { batch: 1 latency_ns: 300000 } }\n'
EXPERIMENT = """repository: "%s"
seed: 3
duration_s: 0.2
device { count: 1 }
model { name: "cellular_chunks64" slo_ms: 10000 length: %d }
load { rate: 100 }
policy { name: "cellular" }
"""


def cells_of_tasks(path, model=None):
    """How many cells ran, each in a row of --tasks with others."""
    with open(path, newline="") as file:
        return sum(len(row["requests"].split()) for row in csv.DictReader(file) if model in (None, row["model"]))


class Chunks(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.models = pathlib.Path(folder.name) / "models"
        cls.models.mkdir()
        make_models(cls.models)
        cls.recording = pathlib.Path(folder.name) / "chunks.rec"
        cls.server = Server(cls.models, "--record", cls.recording)
        cls.reference = Reference()
        cls.lengths = collections.defaultdict(list)  # of the requests to each model that were answered

    @classmethod
    def tearDownClass(cls):
        code = cls.server.end(signal.SIGTERM) if cls.server.process.poll() is None else cls.server.process.returncode
        if code != 0:
            raise AssertionError("the server ended with %d:\n%s" % (code, cls.server.said()))

    def ask(self, model, tokens):
        client = http.client.HTTPConnection(self.server.address, timeout=60)
        tensor = {"name": "tokens", "shape": [1, len(tokens)], "datatype": "INT64", "data": tokens}
        client.request("POST", "/v2/models/%s/infer" % model, json.dumps({"inputs": [tensor]}))
        answer = client.getresponse()
        body = json.loads(answer.read())
        client.close()
        return answer.status, body

    def check(self, model, tokens, expected):
        status, body = self.ask(model, tokens)
        self.assertEqual(status, 200, body)
        self.lengths[model].append(len(tokens))
        output = body["outputs"][0]
        self.assertEqual(output["shape"], list(expected.shape), (model, tokens))
        self.assertEqual(output["data"], expected.flatten().tolist(), (model, tokens))

    def test_answers_are_those_of_the_definition(self):
        seed = int(os.environ.get("TUTTI_SEED") or random.randrange(1 << 30))
        print("seed: TUTTI_SEED=%d" % seed, file=sys.stderr)
        draw, requests = random.Random(seed), []
        for length in [*range(1, 10), 16, 41]:
            for way in WAYS:
                for kind in KINDS:
                    tokens = [draw.randrange(VOCABULARY) for _ in range(length)]
                    expected = getattr(self.reference, kind)(tokens)
                    requests.append(("%s_%s" % (way, kind), tokens, expected))
        for request in requests:
            self.check(*request)
        with concurrent.futures.ThreadPoolExecutor(24) as pool:
            for _ in range(4):
                draw.shuffle(requests)
                for done in [pool.submit(self.check, *request) for request in requests]:
                    done.result()
        trace = json.loads(get(self.server.address, "/v2/debug/trace")[2])
        batches = [e for e in trace["traceEvents"] if e["ph"] == "X" and e.get("cat") == "batch"]
        self.assertTrue(any(batch["args"]["rows"] > 1 for batch in batches))

    def test_malformed_requests_name_the_element(self):
        for kind in KINDS:
            for tokens, place in (
                ([1] * 6 + [500], "element 6 of input 'tokens' is 500"),
                ([1, -1], "element 1 of input 'tokens' is -1"),
                ([1] * 513, "has 513 elements; this model takes at most 512"),
                ([], "'tokens' is empty"),
            ):
                status, body = self.ask("cellular_" + kind, tokens)
                self.assertEqual(status, 400, body)
                self.assertIn(place, body["error"])

    def test_the_longest_request(self):
        tokens = [k % VOCABULARY for k in range(511)]
        for way in WAYS:
            self.check("%s_chunks64" % way, tokens, self.reference.chunks64(tokens))

    def test_a_profile_counts_cells(self):
        """A whole is its chunks, and an answer of as many words as the chunks have room for."""
        with tempfile.TemporaryDirectory() as folder:
            model = pathlib.Path(folder) / "model"
            shutil.copytree(self.models / "cellular_prompts64", model)
            command = [PROGRAM, "profile", model, "--runs", "3", "--max-batch", "1"]
            done = subprocess.run([*command, "--lengths", "4,5"], capture_output=True, text=True, timeout=300)
            self.assertEqual(done.returncode, 0, done.stderr)
            text = (model / "profile.pbtxt").read_text()
        times = {length: int(ns) for ns, length in re.findall(r"latency_ns: (\d+) length: (\d+)", text)}
        read, write = (
            int(re.search(r'name: "%s".*?latency_ns: (\d+)' % name, text, re.S).group(1)) for name in ("read", "write")
        )
        self.assertEqual(times, {"4": read + 4 * write, "5": 2 * read + 8 * write})

    def test_an_experiment_counts_cells(self):
        """Simulated requests have as many cells as real ones, up to the longest."""
        with tempfile.TemporaryDirectory() as folder:
            home = pathlib.Path(folder)
            model = home / "models" / "cellular_chunks64"
            shutil.copytree(self.models / "cellular_chunks64", model)
            settings = (model / "tutti.pbtxt").read_text()
            (model / "tutti.pbtxt").write_text(settings.replace("max_length: 512", "max_length: 21"))
            (model / "profile.pbtxt").write_text(PROFILE)
            for length in 3, 6:  # of 12 elements; of 21
                (home / "experiment.pbtxt").write_text(EXPERIMENT % ("models", length))
                for world in "simulated", "real":
                    tasks, outcomes = home / "tasks.csv", home / "outcomes.csv"
                    command = [PROGRAM, "experiment", home / "experiment.pbtxt", "--world", world, "--tasks", tasks]
                    done = subprocess.run(
                        [*command, "--outcomes", outcomes], capture_output=True, text=True, timeout=120
                    )
                    self.assertEqual(done.returncode, 0, done.stderr)
                    with open(outcomes, newline="") as file:
                        answered = [row["outcome"] for row in csv.DictReader(file)]
                    self.assertEqual(set(answered), {"ok"}, world)
                    self.assertEqual(cells_of_tasks(tasks), length * len(answered), world)
            (home / "experiment.pbtxt").write_text(EXPERIMENT % ("models", 7))
            command = [PROGRAM, "experiment", home / "experiment.pbtxt", "--world", "real"]
            done = subprocess.run(command, capture_output=True, text=True, timeout=120)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn("it takes at most 21 (max_length in its tutti.pbtxt)", done.stderr)

    def test_z_a_recording_is_replayed(self):
        """Last by its name: the server ends."""
        self.assertEqual(self.server.end(signal.SIGTERM), 0, self.server.said())
        answer = replay(self.recording, "--json")
        self.assertEqual((answer.returncode, answer.stderr), (0, ""), answer.stderr)
        report = json.loads(answer.stdout)
        self.assertTrue(report["identical"] and report["complete"])
        policies = {domain["policy"]: domain["domain"] for domain in report["domains"]}
        self.assertEqual(sorted(policies), ["cellular", "lazy", "merged", "padded", "window"])
        for policy in "cellular", "merged", "lazy":
            answer = replay(self.recording, "--domain", policies["cellular"], "--policy", policy, "--json")
            self.assertEqual(answer.returncode, 0, answer.stderr)
        # A request walks its block as many rounds as it has chunks, also where that follows from its length.
        tasks = self.recording.with_suffix(".csv")
        answer = replay(self.recording, "--domain", policies["lazy"], "--policy", "recorded", "--tasks", tasks)
        self.assertEqual(answer.returncode, 0, answer.stderr)
        expected = sum(-(-length // cells.CHUNK) for length in self.lengths["lazy_chunks64"])
        self.assertEqual(cells_of_tasks(tasks, "lazy_chunks64"), expected)


if __name__ == "__main__":
    unittest.main()
