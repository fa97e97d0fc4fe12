#!/usr/bin/env python3
"""L1, L6: a convolutional network cut at every node, recurrent networks cut between their layers, and a sentence encoder cut in
stages, computed by ONNX Runtime under the policy lazy. The server's own trace shows a batch preempted at a boundary, newcomers that catch up, and both continuing as
one; and every answer is what the request gets when it is alone."""
import collections
import http.client
import json
import os
import pathlib
import random
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "python"))

from needs import needing  # noqa: E402
from plain_client import Server, get  # noqa: E402

SEED = int(os.environ.get("TUTTI_SEED", "8"))
CLIENTS, KINDS, LONGEST_S = 6, 12, 60
SENTENCES = {  # the names of their inputs, and how many words they know
    "lstm_layers": ("tokens", "mask", 1000),
    "gru_layers": ("tokens", "mask", 1000),
    "minilm": ("input_ids", "attention_mask", 30000),
}
LAYERS = (
    'slo_ms: 60000 policy { name: "lazy" } length { pad: true }\n'
    'stages { after: "layer0" after: "layer1" after: "layer2" }\n'
)
SETTINGS = {  # an objective so large that a busy machine makes no request late
    "cnn": 'slo_ms: 60000 policy { name: "lazy" } stages { per_node: true }\n',
    "lstm_layers": LAYERS,
    "gru_layers": LAYERS,
    "minilm": 'slo_ms: 60000 policy { name: "lazy" } stages { count: 6 } length { pad: true }\n',
}

Story = collections.namedtuple("Story", "preempted catching_up merged")


def stories(trace, model):
    """Three tasks of an executor, one after the other: stopped after step k; another from step 0 to k; both from k + 1."""
    tracks, found = collections.defaultdict(list), []
    for event in trace["traceEvents"]:
        if event["ph"] == "X" and event["cat"] == "batch":
            tracks[event["pid"], event["tid"]].append(event)
    for track in tracks.values():
        track.sort(key=lambda event: event["ts"])
        for three in zip(track, track[1:], track[2:]):
            a, b, c = (event["args"] for event in three)
            if (
                all(event["name"] == model for event in three)
                and a["outcome"] == "preempted"
                and (b["outcome"], b["first_step"], b["last_step_done"]) == ("done", 0, a["last_step_done"])
                and (c["first_step"], c["requests"]) == (a["last_step_done"] + 1, a["requests"] + b["requests"])
            ):
                found.append(Story(*three))
    return found


def bodies(model):
    """Requests of different contents; sentences of different lengths, too."""
    prng, made = random.Random(f"{SEED} {model}"), []
    for _ in range(KINDS):
        if model == "cnn":
            data = [round(prng.uniform(-1, 1), 4) for _ in range(3 * 32 * 32)]
            inputs = [{"name": "image", "shape": [1, 3, 32, 32], "datatype": "FP32", "data": data}]
        else:
            tokens, mask, words = SENTENCES[model]
            ids = [101] + [prng.randrange(200, words) for _ in range(prng.randrange(2, 12))] + [102]
            shape = [1, len(ids)]
            inputs = [
                {"name": tokens, "shape": shape, "datatype": "INT64", "data": ids},
                {"name": mask, "shape": shape, "datatype": "INT64", "data": [1] * len(ids)},
            ]
        made.append(json.dumps({"inputs": inputs}))
    return made


def ask(client, model, body):
    client.request("POST", f"/v2/models/{model}/infer", body)
    answer = client.getresponse()
    text = answer.read()
    if answer.status != 200:
        raise AssertionError(f"{model}: {answer.status} {text!r}")
    return json.loads(text)["outputs"][0]["data"]


@needing("onnx")
class LazyServing(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        models = pathlib.Path(cls.folder.name, "models")
        maker = [sys.executable, ROOT / "scripts" / "make_models.py", "--out", models, "--only"]
        subprocess.run([*maker, "cnn", "lstm_layers", "gru_layers"], check=True, capture_output=True)
        if list((ROOT / ".deps" / "models").glob("*minilm*.whl")):
            subprocess.run([*maker, "minilm"], check=True, capture_output=True)
        for model in models.iterdir():
            if model.name in SETTINGS:
                (model / "tutti.pbtxt").write_text(SETTINGS[model.name])
        cls.has_minilm = (models / "minilm" / "config.pbtxt").exists()
        cls.server = Server(models, "--executors", "1")

    @classmethod
    def tearDownClass(cls):
        code = cls.server.end(signal.SIGTERM)
        cls.folder.cleanup()
        if code:
            raise AssertionError(f"the server ended with {code}:\n{cls.server.said()}")

    def trace(self):
        return json.loads(get(self.server.address, "/v2/debug/trace?seconds=600")[2])

    def close_enough(self, answer, alone):
        self.assertEqual(len(answer), len(alone))
        difference = max(abs(a - b) for a, b in zip(answer, alone))
        self.assertLess(difference, 1e-4 * max(1, max(map(abs, alone))))

    def storm(self, model):
        made, stop, errors = bodies(model), threading.Event(), []
        alone_client = http.client.HTTPConnection(self.server.address, timeout=60)
        alone = [ask(alone_client, model, body) for body in made]
        alone_client.close()

        def keep_asking(number):
            prng = random.Random(f"{SEED} {model} {number}")
            client = http.client.HTTPConnection(self.server.address, timeout=60)
            try:
                while not stop.is_set():
                    kind = prng.randrange(KINDS)
                    self.close_enough(ask(client, model, made[kind]), alone[kind])
                    time.sleep(prng.expovariate(500))
            except Exception as error:  # noqa: the test raises it again
                errors.append(error)
            client.close()

        threads = [threading.Thread(target=keep_asking, args=(number,)) for number in range(CLIENTS)]
        for thread in threads:
            thread.start()
        found, until = [], time.monotonic() + LONGEST_S
        while not found and not errors and time.monotonic() < until:
            time.sleep(0.3)
            found = stories(self.trace(), model)
        stop.set()
        for thread in threads:
            thread.join()
        if errors:
            raise errors[0]
        self.assertTrue(found, f"seed {SEED}: no batch was preempted, caught up with and merged in {LONGEST_S} s")

    def test_a_network_cut_at_every_node(self):
        self.storm("cnn")

    def ends(self, model):
        """The operator after which each stage but the last ends."""
        (manifest,) = pathlib.Path(self.folder.name, "models", model).glob(".tutti/stages-*/slices.pbtxt")
        return re.findall(r'ends_after: "(\w+)', manifest.read_text())[:-1]

    def test_layers_of_recurrent_networks(self):
        # L6: what crosses has its rows in dimension 2, as ONNX has it, and each cut is behind a layer.
        for model in ("lstm_layers", "gru_layers"):
            with self.subTest(model):
                self.assertEqual(self.ends(model), 3 * [model.split("_")[0].upper()])
                self.storm(model)

    def test_sentences_of_different_lengths(self):
        if not self.has_minilm:
            self.skipTest("the weights of minilm are not here")
        self.storm("minilm")


if __name__ == "__main__":
    unittest.main(verbosity=1)
