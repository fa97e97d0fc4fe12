#!/usr/bin/env python3
"""`ttft_ms` and `tpot_ms` of a server's models: what is checked when they are read, what is counted, and that a recording of
requests which `cellular` admits by them is replayed alike. And of an experiment in two worlds."""
import json
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "python"))

from needs import need  # noqa: E402

need("numpy", "onnx")

from plain_client import PROGRAM, Server, get  # noqa: E402

PROMPT = {"inputs": [{"name": "tokens", "shape": [1, 4], "datatype": "INT64", "data": [9, 8, 7, 6]}]}
DECODER = (
    'duration_s: 2 seed: 3 depth: 4 device { } load { rate: 15 } policy { name: "cellular" option { key: "max_tasks" value: "1" } } '
    'model { name: "m" max_batch: 8 length: 3 output_length: 5 late: DROP %s '
    'step { name: "read" profile { linear { alpha_ms: 4 beta_ms: 6 } } } '
    'step { name: "write" kind: DECODER profile { linear { alpha_ms: 1 beta_ms: 8 } } } }\n'
)


def run(*arguments):
    return subprocess.run([str(word) for word in (PROGRAM, *arguments)], capture_output=True, text=True, timeout=300)


class Served(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        cls.models = pathlib.Path(cls.folder.name) / "models"
        maker = [sys.executable, ROOT / "scripts" / "make_models.py", "--out", cls.models, "--only", "seq2seq64", "mlp"]
        subprocess.run(maker, check=True, capture_output=True)
        cls.settings = (cls.models / "seq2seq64" / "tutti.pbtxt").read_text()
        whole = 'policy { name: "window" option { key: "same_length" value: "off" } }\n'
        cls.put("kept", "ttft_ms: 60000 tpot_ms: 60000\n")
        cls.put("missed", "tpot_ms: 0.001\n")
        cls.put("hasty", "ttft_ms: 3\n")  # enough for short prompts
        cls.put("whole", "ttft_ms: 60000 tpot_ms: 0.001\n" + whole)

    @classmethod
    def put(cls, name, more):
        (cls.models / name).mkdir(exist_ok=True)
        if not (cls.models / name / "1").exists():
            (cls.models / name / "1").symlink_to(cls.models / "seq2seq64" / "1")
        (cls.models / name / "tutti.pbtxt").write_text(cls.settings + more)

    def metrics_of(self, server, model):
        page = get(server.address, "/metrics")[2].decode()
        found = re.findall(r'^(\w+)\{model="%s",version="1"(?:,objective="(\w+)")?\} (\S+)$' % model, page, re.M)
        return {" ".join(filter(None, (name, label))): float(value) for name, label, value in found}

    def send(self, server, model, count):
        for _ in range(count):
            status, _, body = get(server.address, "/v2/models/%s/infer" % model, "POST", json.dumps(PROMPT).encode())
            self.assertEqual(status, 200, body)

    def test_answers_are_counted_by_their_words(self):
        recording = pathlib.Path(self.folder.name) / "recording"
        server = Server(self.models, "--record", recording)
        try:
            config = json.loads(get(server.address, "/v2/models/kept/config")[2])["parameters"]
            self.assertEqual(config["tutti_ttft_ms"]["string_value"], "60000")
            self.assertEqual(config["tutti_tpot_ms"]["string_value"], "60000")
            for model in ("kept", "missed", "whole"):
                self.send(server, model, 3)
            prompt = {"inputs": [PROMPT["inputs"][0] | {"shape": [1, 500], "data": [9] * 500}]}
            status, _, refused = get(server.address, "/v2/models/hasty/infer", "POST", json.dumps(prompt).encode())
            kept, missed, whole = (self.metrics_of(server, name) for name in ("kept", "missed", "whole"))
        finally:
            code = server.end(signal.SIGTERM)
        self.assertEqual(code, 0, server.said())
        self.assertEqual(status, 503)
        self.assertIn("its first word would have come after ttft_ms, 3.000 ms; it had waited", refused.decode())
        self.assertGreater(kept["tutti_words_total"], 3)  # so that there is time between two
        self.assertEqual(kept["tutti_time_per_word_seconds_count"], 3)
        self.assertEqual(kept["tutti_requests_on_time_total"], 3)
        self.assertEqual(kept["tutti_words_late_total ttft"] + kept["tutti_words_late_total tpot"], 0)
        self.assertEqual(missed["tutti_requests_late_total"], 3)
        self.assertEqual(missed["tutti_words_late_total tpot"], 3)
        self.assertEqual(missed["tutti_words_late_total ttft"], 0)
        self.assertIn("model missed version 1: tpot_ms is 0.001, and for one request alone it is", server.said())
        self.assertNotIn("model kept version 1: t", server.said())
        # All words of a whole sequence are there at once.
        self.assertEqual(whole["tutti_requests_on_time_total"], 3)
        replayed = run("replay", recording, "--json")
        self.assertEqual(replayed.returncode, 0, replayed.stderr)
        self.assertTrue(json.loads(replayed.stdout)["identical"])

    def test_what_is_wrong_has_its_place(self):
        for model, text, message in [
            ("mlp", "ttft_ms: 5\n", "ttft_ms is for answers that come element by element"),
            ("wrong", "tpot_ms: -1\n", "tpot_ms is -1; it is a number of milliseconds"),
        ]:
            with self.subTest(model=model), tempfile.TemporaryDirectory() as folder:
                to = pathlib.Path(folder) / model
                to.mkdir()
                (to / "1").symlink_to(self.models / ("mlp" if model == "mlp" else "seq2seq64") / "1")
                settings = self.models / "mlp" / "tutti.pbtxt" if model == "mlp" else self.models / "seq2seq64" / "tutti.pbtxt"
                (to / "tutti.pbtxt").write_text((settings.read_text() if settings.exists() else "") + text)
                config = self.models / "mlp" / "config.pbtxt"
                if model == "mlp" and config.exists():
                    (to / "config.pbtxt").write_text(config.read_text())
                done = run("models", "check", folder)
                self.assertRegex(done.stdout + done.stderr, r"tutti\.pbtxt:\d+:\d+: " + re.escape(message))


class Experiments(unittest.TestCase):
    def tokens(self, text, *flags):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "e.pbtxt"
            path.write_text(text)
            done = run("experiment", path, "--json", *flags)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)["models"][0]

    def test_worlds_count_the_same(self):
        for policy in ("cellular", "padded"):
            text = (DECODER % "ttft_ms: 100000 tpot_ms: 100000").replace("cellular", policy)
            if policy == "padded":
                text = re.sub(r'option \{ key: "max_tasks".*?\} ', "", text)
            simulated, emulated = (self.tokens(text, "--set", "world=" + world) for world in ("simulated", "emulated"))
            self.assertEqual(simulated["tokens"]["count"], 5 * simulated["ok"])
            self.assertEqual(simulated["ok"], emulated["ok"])
            self.assertEqual(simulated["late"] + emulated["late"], 0)
            # In real time whole answers come at once.
            self.assertEqual(emulated["tokens"]["count"], (5 if policy == "cellular" else 1) * emulated["ok"])
            self.assertGreater(simulated["tokens"]["tpot_ms"]["p50"], 8)

    def test_late_tokens_are_late_requests(self):
        alone = self.tokens(DECODER % "ttft_ms: 19 tpot_ms: 9", "--set", "rate=1")
        self.assertEqual(alone["ok"] + alone["dropped"], alone["arrived"])
        self.assertGreater(alone["ok"], 0)
        late = self.tokens(DECODER % "ttft_ms: 19 tpot_ms: 8.9", "--set", "rate=1")
        self.assertEqual(late["late"], late["tokens"]["late"])
        self.assertGreater(late["late"], 0)
        self.assertEqual(late["ok"], 0)

    def test_tokens_of_a_device_with_a_policy_inside(self):
        """The scheduler before it sees whole requests, which take longer than TTFT; the tokens come from inside."""
        text = DECODER.replace("device { }", 'device { executors: 4 } inside { policy { name: "cellular" } }')
        text = re.sub(r'policy \{ name: "cellular" option.*?\} \} ', 'policy { name: "deferred" } ', text)
        kept = self.tokens(text % "ttft_ms: 40 tpot_ms: 40", "--set", "rate=1")
        self.assertEqual((kept["ok"], kept["tokens"]["count"]), (kept["arrived"], 5 * kept["arrived"]))
        missed = self.tokens(text % "ttft_ms: 40 tpot_ms: 8.9", "--set", "rate=1")
        self.assertEqual((missed["ok"], missed["late"]), (0, missed["tokens"]["late"]))
        self.assertGreater(missed["late"], 0)

    def test_objectives_need_a_decoder(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "e.pbtxt"
            path.write_text('model { name: "m" ttft_ms: 5 profile { linear { alpha_ms: 1 beta_ms: 8 } } } load { rate: 1 } device { }')
            done = run("experiment", path)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("model 'm' has no decoder steps, whose output ttft_ms would be for", done.stderr)


if __name__ == "__main__":
    unittest.main()
