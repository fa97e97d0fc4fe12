"""The sentence encoder through a running server: golden embeddings, and equality of rows.

Skipped, with the reason, where the model's weights could not be had.
"""
import json
import pathlib
import unittest

import numpy as np
from tritonclient.utils import InferenceServerException

from server_case import ServerCase, infer

ROOT = pathlib.Path(__file__).resolve().parents[2]
GOLDEN = json.loads((ROOT / "tests" / "data" / "minilm_golden.json").read_text())
TOKENIZER = ROOT / ".deps" / "models" / "minilm-tokenizer.json"
CLS, SEP = 101, 102


def inputs_of(rows, length=None):
    """Ids padded with 0 to `length` (the longest row's, unless given), and their mask."""
    length = length or max(len(row) for row in rows)
    ids = np.zeros((len(rows), length), np.int64)
    mask = np.zeros_like(ids)
    for i, row in enumerate(rows):
        ids[i, : len(row)] = row
        mask[i, : len(row)] = 1
    return {"input_ids": ids, "attention_mask": mask}


def random_rows(generator, count, longest):
    lengths = generator.integers(1, longest - 1, count)
    return [[CLS] + generator.integers(1000, 30000, n).tolist() + [SEP] for n in lengths]


class Minilm(ServerCase):
    def setUp(self):
        super().setUp()
        names = [entry["name"] for entry in self.client.get_model_repository_index()]
        if "minilm" not in names:
            self.skipTest("the repository has no minilm: its weights could not be had")
        self.assertTrue(self.client.is_model_ready("minilm"))

    def embed(self, rows, length=None, client=None):
        # A deadline far off: how long it takes on a busy machine is not asked here.
        result = infer(client or self.client, "minilm", inputs_of(rows, length), timeout=60_000_000)
        return result.as_numpy("sentence_embedding")

    def test_goldens(self):
        tolerance = GOLDEN["tolerance"]
        for golden in GOLDEN["goldens"]:
            with self.subTest(golden["sentence"]):
                got = self.embed([golden["ids"]])[0]
                self.assertEqual(got.shape, (384,))
                np.testing.assert_allclose(got[:8], golden["first"], rtol=0, atol=tolerance)
                self.assertEqual(int(got.argmax()), golden["maximum_at"])
                self.assertEqual(int(got.argmin()), golden["minimum_at"])
                self.assertAlmostEqual(float(got.max()), golden["maximum"], delta=tolerance)
                self.assertAlmostEqual(float(got.min()), golden["minimum"], delta=tolerance)
                total = float(got.astype(np.float64).sum())
                self.assertAlmostEqual(total, golden["sum"], delta=GOLDEN["sum_tolerance"])
                self.assertAlmostEqual(float(np.linalg.norm(got)), 1.0, delta=1e-5)

    def test_similarities(self):
        vectors = [self.embed([golden["ids"]])[0] for golden in GOLDEN["goldens"]]
        for pair in GOLDEN["cosines"]:
            cosine = float(vectors[pair["a"]] @ vectors[pair["b"]])
            self.assertAlmostEqual(cosine, pair["cosine"], delta=1e-4)

    def test_tokenizer(self):
        if not TOKENIZER.exists():
            self.skipTest("no tokenizer at %s" % TOKENIZER)
        try:
            from tokenizers import Tokenizer
        except ImportError:
            self.skipTest("the Python package tokenizers is not installed")
        tokenizer = Tokenizer.from_file(str(TOKENIZER))
        tokenizer.no_padding()
        tokenizer.no_truncation()
        for golden in GOLDEN["goldens"]:
            self.assertEqual(tokenizer.encode(golden["sentence"]).ids, golden["ids"])
        close = GOLDEN["paraphrase"]
        vector = self.embed([tokenizer.encode(close["sentence"]).ids])[0]
        other = self.embed([GOLDEN["goldens"][close["of"]]["ids"]])[0]
        self.assertAlmostEqual(float(vector @ other), close["cosine"], delta=1e-4)

    def test_batched_and_padded_rows_equal_single_rows(self):
        generator = np.random.default_rng(5)
        for size in (2, 3, 8):
            rows = random_rows(generator, size, 48)
            together = self.embed(rows)
            longer = self.embed(rows, max(len(row) for row in rows) + 13)
            for i, row in enumerate(rows):
                alone = self.embed([row])
                self.assert_rows_equal(together[i : i + 1], alone, "row %d of %d" % (i, size))
                self.assert_rows_equal(longer[i : i + 1], alone, "row %d of %d" % (i, size))

    def test_concurrent_requests_of_all_lengths_equal_single_ones(self):
        rows = random_rows(np.random.default_rng(6), 24, 32)
        rows += [golden["ids"] for golden in GOLDEN["goldens"]]
        singles = [self.embed([row]) for row in rows]

        def work(index, client):
            for i in range(6):
                chosen = (index * 5 + i * 7) % len(rows)
                got = self.embed([rows[chosen]], client=client)
                self.assert_rows_equal(got, singles[chosen], "row %d" % chosen)

        self.in_threads(12, work)

    def test_everything_masked(self):
        """The count is clipped: zeros, not NaN."""
        inputs = inputs_of([[CLS, 7592, SEP]])
        inputs["attention_mask"][:] = 0
        got = infer(self.client, "minilm", inputs).as_numpy("sentence_embedding")
        np.testing.assert_array_equal(got, np.zeros((1, 384), np.float32))

    def test_inputs_of_different_length(self):
        inputs = inputs_of([[CLS, 7592, SEP]])
        inputs["attention_mask"] = np.ones((1, 4), np.int64)
        with self.assertRaises(InferenceServerException):
            infer(self.client, "minilm", inputs)
        self.assertEqual(self.embed([[CLS, 7592, SEP]]).shape, (1, 384))


if __name__ == "__main__":
    unittest.main()
