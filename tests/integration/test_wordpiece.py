#!/usr/bin/env python3
"""The tokenizer `backend: "wordpiece"`: against PyPI's tokenizers on every code point and on random texts, and as the
first step of an ensemble.

TUTTI_STRINGS=1000000 TUTTI_PROGRAM=build/tutti scripts/test_python.sh tests/integration/test_wordpiece.py -k random
compares that many random texts, seeded by TUTTI_SEED; the test of every build takes 10,000.
"""
import os
import pathlib
import random
import sys
import unittest

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "python"))

from needs import need  # noqa: E402

need("numpy", "onnx", "tritonclient", "tokenizers")

import numpy as np  # noqa: E402
import tritonclient.http as triton  # noqa: E402
from control_case import ControlCase  # noqa: E402
from onnx import TensorProto, helper  # noqa: E402
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers  # noqa: E402
from tokenizers.processors import TemplateProcessing  # noqa: E402

ROWS = 256
PART = 10 * ROWS  # random texts that are made at once
ACCENTS = "áéñçöÅøŁİıßẞǅ\u0301\u0327ﬁ１Ａ"
SAMPLES = [
    "", " ", "Hello, World!", "naïve café", "don't stop-the U.S.A. 3.14", "日本語のテキスト", "한국어 텍스트", "\t a\r\nb\u00a0c",
    "x" * 100, "x" * 101, "é" * 60 + "e\u0301" * 41, "zero\u200bwidth \ufeffbom \ufffd \x00 nul", "😀 emoji ☃", "Ⅷ ǆ Σίσυφος ΣΑΣ",
]  # fmt: skip


POINTS = [c for c in range(0x30000) if not 0xD800 <= c < 0xE000]


def targets():
    """Every character that another one folds to: a wrong one must not be just another [UNK]."""
    normalizer = normalizers.BertNormalizer(lowercase=True)
    folded = (normalizer.normalize_str(chr(c)).strip(" ") for c in POINTS)
    return sorted({d for c, text in zip(POINTS, folded) if text != chr(c) for d in text if not d.isspace()})


def vocabulary():
    """Special tokens, letters with and without ##, and pieces that overlap, so that the longest must be found."""
    letters = [chr(c) for c in (*range(33, 127), *range(0xE0, 0x180), *range(0x3B1, 0x3CA), *range(0x430, 0x450))]
    letters += list("日本語的中国人ᄀᄂ한\u1112\u1161\u11ab☃")
    pieces = ["hello", "hell", "he", "lo", "world", "wor", "na", "nai", "naive", "caf", "cafe", "stop", "the", "un", "able", "ing"]
    letters += targets()
    words = letters + pieces + ["##" + w for w in letters + pieces]
    return list(dict.fromkeys(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"] + words))


def reference(words):
    known = {word: i for i, word in enumerate(words)}
    made = Tokenizer(models.WordPiece(known, unk_token="[UNK]", max_input_chars_per_word=100))
    made.normalizer = normalizers.BertNormalizer(lowercase=True)
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    made.post_processor = TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)])
    return made


def summing():
    """text ids to the sum of the ids that the mask marks: what comes behind a tokenizer, in small."""
    nodes = [
        helper.make_node("Mul", ["input_ids", "attention_mask"], ["masked"]),
        helper.make_node("ReduceSum", ["masked", "axes"], ["sum"], keepdims=1),
    ]
    axes = helper.make_tensor("axes", TensorProto.INT64, [1], [1])
    ids, mask = (
        helper.make_tensor_value_info(name, TensorProto.INT64, ["N", "L"]) for name in ("input_ids", "attention_mask")
    )
    out = helper.make_tensor_value_info("sum", TensorProto.INT64, ["N", 1])
    graph = helper.make_graph(nodes, "summing", [ids, mask], [out], [axes])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 8
    return model.SerializeToString()


def config(dims, outputs=("input_ids", "attention_mask", "token_type_ids")):
    tensors = ", ".join('{ name: "%s" data_type: TYPE_INT64 dims: [ %d ] }' % (name, dims) for name in outputs)
    return (
        'backend: "wordpiece"\nmax_batch_size: %d\ninput [ { name: "text" data_type: TYPE_STRING dims: [ 1 ] } ]\n'
        "output [ %s ]\n" % (ROWS, tensors)
    )


class Wordpiece(ControlCase):
    flags = ["--model-control-mode", "explicit"]

    def put_model(self, name, text, words=None):
        (self.repository.path / name / "1").mkdir(parents=True)
        (self.repository.path / name / "config.pbtxt").write_text(text)
        if words:
            (self.repository.path / name / "vocab.txt").write_text("".join(word + "\n" for word in words))

    @classmethod
    def setUpClass(cls):
        cls.words = vocabulary()
        cls.reference = reference(cls.words)

    def fill(self):
        self.put_model("free", config(-1), self.words)
        self.put_model("fixed", config(16), self.words)
        self.repository.put("summing", {1: summing()}, "max_batch_size: %d\n" % ROWS)
        self.put_model(
            "embed",
            """platform: "ensemble"
max_batch_size: 8
input [ { name: "text" data_type: TYPE_STRING dims: [ 1 ] } ]
output [ { name: "sum" data_type: TYPE_INT64 dims: [ 1 ] } ]
ensemble_scheduling { step [
  { model_name: "free" model_version: -1 input_map { key: "text" value: "text" }
    output_map { key: "input_ids" value: "ids" } output_map { key: "attention_mask" value: "mask" } },
  { model_name: "summing" model_version: -1 input_map { key: "input_ids" value: "ids" }
    input_map { key: "attention_mask" value: "mask" } output_map { key: "sum" value: "sum" } } ] }
""",
        )

    def encode(self, model, texts):
        text = triton.InferInput("text", [len(texts), 1], "BYTES")
        text.set_data_from_numpy(np.array([[t.encode()] for t in texts], dtype=object))
        return self.client.infer(model, [text])

    def compare(self, texts):
        """Rows of one request, filled up to the longest of them."""
        for first in range(0, len(texts), ROWS):
            part = texts[first : first + ROWS]
            result = self.encode("free", part)
            ids, mask = result.as_numpy("input_ids"), result.as_numpy("attention_mask")
            expected = [e.ids if len(e.ids) <= 512 else e.ids[:511] + [3] for e in self.reference.encode_batch(part)]
            self.assertEqual(ids.shape, (len(part), max(map(len, expected))))
            for text, row, marks, wanted in zip(part, ids.tolist(), mask.tolist(), expected):
                self.assertEqual(row, wanted + [0] * (len(row) - len(wanted)), ascii(text))
                self.assertEqual(marks, [1] * len(wanted) + [0] * (len(row) - len(wanted)), ascii(text))
            self.assertFalse(result.as_numpy("token_type_ids").any())

    def test_every_code_point(self):
        """Each alone between letters: it is removed, splits, folds, or is unknown, as there."""
        self.client.load_model("free")
        texts = [" ".join("a%sa" % chr(c) for c in POINTS[i : i + 40]) for i in range(0, len(POINTS), 40)]
        self.compare(SAMPLES + texts)

    def test_random_texts(self):
        seed = int(os.environ.get("TUTTI_SEED", "7"))
        print("TUTTI_SEED=%d" % seed)
        draw = random.Random(seed)
        parts = [w.removeprefix("##") for w in self.words[5:]] + list(ACCENTS) + [" "] * 60 + list(".,!?'\"-") + ["UNABLE", "Hello"]
        count = int(os.environ.get("TUTTI_STRINGS", "10000"))
        self.client.load_model("free")
        for first in range(0, count, PART):
            self.compare(["".join(draw.choices(parts, k=draw.randrange(40))) for _ in range(min(PART, count - first))])

    def test_fixed_length(self):
        self.client.load_model("fixed")
        result = self.encode("fixed", ["hello", "a " * 40])
        ids = result.as_numpy("input_ids")
        self.assertEqual(ids.shape, (2, 16))
        self.assertEqual(ids[0].tolist(), [2, self.words.index("hello"), 3] + [0] * 13)
        self.assertEqual(ids[1].tolist(), [2] + [self.words.index("a")] * 14 + [3])
        self.assertEqual(result.as_numpy("attention_mask").sum(axis=1).tolist(), [3, 16])

    def test_before_a_model(self):
        self.client.load_model("embed")
        texts = ["hello world", "cafe", ""]
        sums = self.encode("embed", texts).as_numpy("sum")
        self.assertEqual(sums.reshape(-1).tolist(), [sum(self.reference.encode(t).ids) for t in texts])

    def test_mistakes(self):
        text = triton.InferInput("text", [1, 1], "BYTES")
        text.set_data_from_numpy(np.array([[b"a\xff"]], dtype=object))
        self.client.load_model("free")
        self.refused(400, "row 0 of input 'text' is not UTF-8 text", self.client.infer, "free", [text])
        cases = {
            "nothing": (config(-1), None, "vocab.txt"),
            "bare": (config(-1), ["a"], "there is no token [PAD]; a vocabulary has one token per line"),
            "named": (config(-1, ("input_ids", "mask")), self.words, "a wordpiece model has no output 'mask'"),
            "typed": (config(-1).replace("INT64", "INT32", 1), self.words, "output 'input_ids' of a wordpiece model is TYPE_INT64"),
            "input": (config(-1).replace("dims: [ 1 ]", "dims: [ 2 ]"), self.words, "has one input, TYPE_STRING with dims [ 1 ]"),
            "alone": (config(-1).replace("max_batch_size: %d" % ROWS, "max_batch_size: 0"), self.words, "a wordpiece model batches"),
        }  # fmt: skip
        for name, (written, words, part) in cases.items():
            with self.subTest(name):
                self.put_model(name, written, words)
                status = 404 if name == "nothing" else 400
                self.refused(status, part, self.client.load_model, name)


if __name__ == "__main__":
    unittest.main()
