"""Models of cells: recurrent, sequence to sequence, tree, decoders, and prompts read in chunks.

All weights are drawn from fixed seeds; no model is trained. To a server they are like real models:
the same operators, the same sizes, and outputs that end early or late depending on the input. A
cell's file contains its weights, and the first dimension of every tensor counts cells. A whole-sequence twin (ONNX's LSTM, with padding and a mask) has the weights of
its chain, so that both can be compared on the same requests.
"""
import functools

import numpy as np
from onnx import TensorProto

from .onnx_graph import ONNX_TYPES, Graph
from .repository import Model, Tensor

PROMPT_CHUNK = 16  # words of a prompt that a cell of a decoder with attention reads
GO = 1  # the first input of a decoder
EOS = 2  # what it says last
FIRST_WORD = 3  # 0 is for padding
SURE = 30.0  # a sigmoid of this is 1 in fp32
UNIT = 0.5  # what a counter moves by
NEVER = -1e4  # a logit that never wins


def _random(seed):
    return np.random.Generator(np.random.PCG64(seed))


def _dense(rng, rows, columns, gain=1.0):
    return (rng.standard_normal((rows, columns)) * np.sqrt(gain / rows)).astype(np.float32)


def _bias(rng, count):
    return (rng.standard_normal(count) * 0.1).astype(np.float32)


def _table(rng, vocabulary, size):
    return rng.standard_normal((vocabulary, size)).astype(np.float32)


def _ratios(rng, vocabulary):
    """How many words of output a word of input is worth: mean 0.89, as from English to Czech."""
    return np.clip(rng.normal(0.89, 0.17, vocabulary), 0.5, 1.3).astype(np.float32)


# ---- LSTM ----


class LstmWeights:
    """Gates in the order i, f, g, o; rows are those of the input, then those of the state."""

    def __init__(self, rng, size, vocabulary):
        self.size = size
        self.table = _table(rng, vocabulary, size)
        self.w = _dense(rng, 2 * size, 4 * size, gain=2.0)
        self.b = _bias(rng, 4 * size)

    def count_in_unit_0(self):
        """Unit 0 of the state becomes a counter: it keeps all that it has (f = 1), takes in all
        that it is given (i = 1), shows all (o = 1), and is given tanh of component 0 of the input,
        and nothing else."""
        for gate in range(4):
            self.w[:, gate * self.size] = 0.0
            self.b[gate * self.size] = SURE
        self.w[0, 2 * self.size] = 1.0
        self.b[2 * self.size] = 0.0

    def gate_graph(self, g, x, h, c):
        """Nodes from x, h, c to h_out, c_out."""
        w = g.weight("weight", self.w)
        b = g.weight("bias", self.b)
        names = ["gate.i", "gate.f", "gate.g", "gate.o"]
        g.op("Split", g.op("Gemm", g.op("Concat", x, h, axis=1), w, b), outs=names, axis=1)
        kept = g.op("Mul", g.op("Sigmoid", "gate.f"), c)
        added = g.op("Mul", g.op("Sigmoid", "gate.i"), g.op("Tanh", "gate.g"))
        g.op("Add", kept, added, out="c_out")
        g.op("Mul", g.op("Sigmoid", "gate.o"), g.op("Tanh", "c_out"), out="h_out")


def _lstm_state(g, size):
    return g.input("h", "FP32", ["N", size]), g.input("c", "FP32", ["N", size])


def _lstm_outputs(g, size):
    g.output("h_out", "FP32", ["N", size])
    g.output("c_out", "FP32", ["N", size])


def _lstm_cell(name, weights):
    g = Graph(name)
    token = g.input("token", "INT64", ["N"])
    h, c = _lstm_state(g, weights.size)
    weights.gate_graph(g, g.op("Gather", g.weight("words", weights.table), token), h, c)
    _lstm_outputs(g, weights.size)
    return g.to_bytes()


def build_chain(size, vocabulary):
    return {"lstm.onnx": _lstm_cell("lstm", LstmWeights(_random(21), size, vocabulary))}


def _whole_lstm(g, weights):
    """ONNX's own LSTM with these weights over padded sentences; the last h and c, in their names."""
    size = weights.size
    tokens = g.input("tokens", "INT64", ["N", "S"])
    mask = g.input("mask", "INT64", ["N", "S"])
    lengths = g.op("ReduceSum", mask, g.constant([1], np.int64), keepdims=0)
    i, f, c, o = np.split(np.arange(4 * size), 4)
    order = np.concatenate([i, o, f, c])  # ONNX's: i, o, f, c
    w = weights.w[:, order].T
    x = g.op("Transpose", g.op("Gather", g.weight("words", weights.table), tokens), perm=[1, 0, 2])
    g.op(
        "LSTM",
        x,
        g.weight("w", w[None, :, :size]),
        g.weight("r", w[None, :, size:]),
        g.weight("b", np.concatenate([weights.b[order], np.zeros_like(weights.b)])[None]),
        g.op("Cast", lengths, to=ONNX_TYPES["INT32"]),
        outs=["", "last_h", "last_c"],
        hidden_size=size,
    )
    return [g.op("Squeeze", last, g.constant([0], np.int64)) for last in ("last_h", "last_c")]


def build_whole_chain(size, vocabulary):
    """The weights of build_chain, over padded sentences."""
    g = Graph("lstm_whole")
    h, _ = _whole_lstm(g, LstmWeights(_random(21), size, vocabulary))
    g.op("Identity", h, out="h_out")
    g.output("h_out", "FP32", ["N", size])
    return {"model.onnx": g.to_bytes()}


def build_layers(operator, size, vocabulary, layers):
    """Layers of ONNX's own LSTM or GRU over padded sentences, to the last layer's last state. Between the layers a sentence's
    words are dimension 0 and the sentences dimension 1."""
    gates = {"LSTM": 4, "GRU": 3}[operator]
    rng = _random(29)
    g = Graph(operator.lower() + "_layers")
    tokens = g.input("tokens", "INT64", ["N", "S"])
    mask = g.input("mask", "INT64", ["N", "S"])
    lengths = g.op("ReduceSum", mask, g.constant([1], np.int64), keepdims=0)
    lengths = g.op("Cast", lengths, to=ONNX_TYPES["INT32"])
    x = g.op("Gather", g.weight("words", _table(rng, vocabulary, size)), tokens)
    x = g.op("Transpose", x, perm=[1, 0, 2])
    for layer in range(layers):
        weights = [_dense(rng, size, gates * size).T[None] for _ in range(2)] + [_bias(rng, 2 * gates * size)[None]]
        w, r, b = (g.weight("layer%d.%s" % (layer, name), array) for name, array in zip("wrb", weights))
        is_last = layer + 1 == layers
        out = "layer%d" % layer
        g.op(operator, x, w, r, b, lengths, outs=["", out] if is_last else [out], hidden_size=size)
        x = g.op("Squeeze", out, g.constant([0 if is_last else 1], np.int64), out="h_out" if is_last else None)
    g.output("h_out", "FP32", ["N", size])
    return g.to_bytes()


# ---- sequence to sequence ----


class Seq2Seq:
    """The encoder's counter goes up by what each word is worth, the decoder's down by one word per
    cell; when it is half a word below nothing <eos> beats every other word."""

    def __init__(self, size, vocabulary):
        rng = _random(22)
        self.size = size
        self.encoder = LstmWeights(rng, size, vocabulary)
        self.decoder = LstmWeights(rng, size, vocabulary)
        self.encoder.count_in_unit_0()
        self.decoder.count_in_unit_0()
        self.encoder.table[:, 0] = np.arctanh(UNIT * _ratios(rng, vocabulary))
        self.decoder.table[:, 0] = np.arctanh(-UNIT)
        self.out = _dense(rng, size, vocabulary, gain=4.0)
        self.bias = _bias(rng, vocabulary)
        self.bias[:FIRST_WORD] = NEVER
        # The logit of <eos> is 200 * (tanh(-UNIT / 2) - tanh(counter)).
        self.out[:, EOS] = 0.0
        self.out[0, EOS] = -200.0
        self.bias[EOS] = -200.0 * np.tanh(UNIT / 2)

    def say(self, g):
        """Nodes from previous, h, c to h_out, c_out and word."""
        words = g.op("Gather", g.weight("decoder.words", self.decoder.table), "previous")
        self.decoder.gate_graph(g, words, "h", "c")
        out, bias = g.weight("out", self.out), g.weight("out_bias", self.bias)
        g.op("ArgMax", g.op("Gemm", "h_out", out, bias), out="word", axis=1, keepdims=0)


def build_seq2seq(size, vocabulary):
    weights = Seq2Seq(size, vocabulary)
    g = Graph("decoder")
    g.input("previous", "INT64", ["N"])
    _lstm_state(g, size)
    weights.say(g)
    g.output("word", "INT64", ["N"])
    _lstm_outputs(g, size)
    return {"encoder.onnx": _lstm_cell("encoder", weights.encoder), "decoder.onnx": g.to_bytes()}


# ---- trees ----


def _tree_outputs(g, size):
    g.op("Mul", g.op("Sigmoid", "gate.o"), g.op("Tanh", "c"), out="h")
    g.output("h", "FP32", ["N", size])
    g.output("c", "FP32", ["N", size])


def build_tree(size, vocabulary):
    """Binary TreeLSTM. Leaf: gates i, u, o of the word. Inner node: i, f left, f right, u, o of
    both children's h."""
    rng = _random(23)
    g = Graph("leaf")
    token = g.input("token", "INT64", ["N"])
    x = g.op("Gather", g.weight("words", _table(rng, vocabulary, size)), token)
    w = g.weight("weight", _dense(rng, size, 3 * size))
    gates = g.op("Gemm", x, w, g.weight("bias", _bias(rng, 3 * size)))
    g.op("Split", gates, outs=["gate.i", "gate.u", "gate.o"], axis=1)
    g.op("Mul", g.op("Sigmoid", "gate.i"), g.op("Tanh", "gate.u"), out="c")
    _tree_outputs(g, size)
    leaf = g.to_bytes()

    g = Graph("inner")
    left_h, left_c, right_h, right_c = (
        g.input(name, "FP32", ["N", size]) for name in ("left_h", "left_c", "right_h", "right_c")
    )
    w = g.weight("weight", _dense(rng, 2 * size, 5 * size))
    both = g.op("Concat", left_h, right_h, axis=1)
    gates = g.op("Gemm", both, w, g.weight("bias", _bias(rng, 5 * size)))
    names = ["gate.i", "gate.left", "gate.right", "gate.u", "gate.o"]
    g.op("Split", gates, outs=names, axis=1)
    new = g.op("Mul", g.op("Sigmoid", "gate.i"), g.op("Tanh", "gate.u"))
    left = g.op("Mul", g.op("Sigmoid", "gate.left"), left_c)
    right = g.op("Mul", g.op("Sigmoid", "gate.right"), right_c)
    g.op("Add", g.op("Add", new, left), right, out="c")
    _tree_outputs(g, size)
    return {"leaf.onnx": leaf, "inner.onnx": g.to_bytes()}


# ---- from both ends, by the plug-in of examples/unfold ----


def build_bidirectional(size, vocabulary):
    rng = _random(25)
    files = {}
    for name in ("forward", "backward"):
        files[name + ".onnx"] = _lstm_cell(name, LstmWeights(rng, size, vocabulary))
    g = Graph("join")
    both = g.op(
        "Concat",
        g.input("forward_h", "FP32", ["N", size]),
        g.input("backward_h", "FP32", ["N", size]),
        axis=1,
    )
    w = g.weight("weight", _dense(rng, 2 * size, size))
    g.op("Tanh", g.op("Gemm", both, w, g.weight("bias", _bias(rng, size))), out="h")
    g.output("h", "FP32", ["N", size])
    files["join.onnx"] = g.to_bytes()
    return files


# ---- a decoder with attention ----


class Attention:
    """A transformer that reads one word per cell. Its state is what it has read: keys and values of
    each layer up to `longest` words, and how many there are. All of it is read and written anew with
    every cell; keys lie as the product with a query reads them, [head, d, word]."""

    def __init__(self, size, vocabulary, layers, heads, longest):
        rng = _random(24)
        self.size, self.vocabulary = size, vocabulary
        self.layers, self.heads, self.longest = layers, heads, longest
        self.words = _table(rng, vocabulary, size)
        self.places = _table(rng, longest, size) * np.float32(0.2)
        self.ratios = _ratios(rng, vocabulary)
        self.weights = []
        for _ in range(layers):
            self.weights.append(
                {
                    "qkv": _dense(rng, size, 3 * size),
                    "out": _dense(rng, size, size),
                    "up": _dense(rng, size, 4 * size, gain=2.0),
                    "down": _dense(rng, 4 * size, size),
                }
            )
        self.head = _dense(rng, size, vocabulary, gain=4.0)

    def _normal(self, g, x, name):
        ones = g.weight(name + ".scale", np.ones(self.size, np.float32))
        zeros = g.weight(name + ".shift", np.zeros(self.size, np.float32))
        return g.op("LayerNormalization", x, ones, zeros, axis=-1)

    def _attend(self, g, x, layer, key_at, value_at, seen):
        """What attention adds to x; takes and gives the layer's two states."""
        name = "layer%d" % layer
        h, d = self.heads, self.size // self.heads
        shapes = {"keys%d": ["N", h, d, self.longest], "values%d": ["N", h, self.longest, d]}
        for state, shape in shapes.items():
            g.input(state % layer, "FP32", shape)
            g.output(state % layer + "_out", "FP32", shape)
        qkv = g.op("MatMul", self._normal(g, x, name + ".before"),
                   g.weight(name + ".qkv", self.weights[layer]["qkv"]))
        parts = [name + ".q", name + ".k", name + ".v"]
        g.op("Split", qkv, outs=parts, axis=1)
        row, column = ([0, h, 1, d], [0, h, d, 1])
        q, k, v = (g.op("Reshape", part, g.constant(shape, np.int64))
                   for part, shape in zip(parts, (row, column, row)))
        keys = g.op("ScatterElements", "keys%d" % layer, key_at, k, axis=3,
                    out="keys%d_out" % layer)
        values = g.op("ScatterElements", "values%d" % layer, value_at, v, axis=2,
                      out="values%d_out" % layer)
        scores = g.op("Mul", g.op("MatMul", q, keys), g.constant(d**-0.5, np.float32))
        scores = g.op("Where", seen, scores, g.constant(-1e30, np.float32))
        mixed = g.op("MatMul", g.op("Softmax", scores, axis=-1), values)  # [N, h, 1, d]
        flat = g.op("Reshape", mixed, g.constant([0, self.size], np.int64))
        return g.op("MatMul", flat, g.weight(name + ".out", self.weights[layer]["out"]))

    def _think(self, g, x, layer):
        name = "layer%d" % layer
        weights = self.weights[layer]
        inner = g.op("MatMul", self._normal(g, x, name + ".middle"),
                     g.weight(name + ".up", weights["up"]))
        return g.op("MatMul", g.op("Relu", inner), g.weight(name + ".down", weights["down"]))

    def _prepare(self, g, place):
        """What every layer's _attend() needs."""
        h, d = self.heads, self.size // self.heads
        wide = g.op("Unsqueeze", place, g.constant([1, 2, 3], np.int64))  # [N, 1, 1, 1]
        key_at, value_at = (g.op("Expand", wide, g.constant(shape, np.int64))
                            for shape in ([1, h, d, 1], [1, h, 1, d]))
        count = np.arange(self.longest, dtype=np.int64)
        seen = g.op("LessOrEqual", g.constant(count.reshape(1, 1, 1, -1), np.int64), wide)
        return key_at, value_at, seen

    def body(self, g, token):
        """Everything up to the last layer, and the new state; returns the last layer's output."""
        place = g.input("place", "INT64", ["N"])
        x = g.op(
            "Add",
            g.op("Gather", g.weight("words", self.words), token),
            g.op("Gather", g.weight("places", self.places), place),
        )
        prepared = self._prepare(g, place)
        for layer in range(self.layers):
            x = g.op("Add", x, self._attend(g, x, layer, *prepared))
            x = g.op("Add", x, self._think(g, x, layer))
        g.op("Add", place, g.constant([1], np.int64), out="place_out")
        g.output("place_out", "INT64", ["N"])
        return x

    def read_bytes(self):
        """A word of the prompt; `budget` is what it is worth in words of the answer."""
        g = Graph("read")
        token = g.input("token", "INT64", ["N"])
        budget = g.input("budget", "FP32", ["N"])
        self.body(g, token)
        worth = g.op("Gather", g.weight("ratios", self.ratios), token)
        g.op("Add", budget, worth, out="budget_out")
        g.output("budget_out", "FP32", ["N"])
        return g.to_bytes()

    def write_bytes(self):
        """A word of the answer: the last one goes in, the next one comes out, <eos> when nothing
        is left of the budget."""
        g = Graph("write")
        previous = g.input("previous", "INT64", ["N"])
        budget = g.input("budget", "FP32", ["N"])
        x = self.body(g, previous)
        g.op("Sub", budget, g.constant([1.0], np.float32), out="budget_out")
        banned = np.zeros(self.vocabulary, np.float32)
        banned[:FIRST_WORD] = NEVER
        logits = g.op("MatMul", self._normal(g, x, "last"), g.weight("head", self.head))
        best = g.op("ArgMax", g.op("Add", logits, g.weight("banned", banned)), axis=1, keepdims=0)
        over = g.op("Less", "budget_out", g.constant([-0.5], np.float32))
        g.op("Where", over, g.constant([EOS], np.int64), best, out="word")
        g.output("word", "INT64", ["N"])
        g.output("budget_out", "FP32", ["N"])
        return g.to_bytes()


class CachedAttention(Attention):
    """The same, and the same weights, but keys and values are updated in place: the operator writes
    those of one word, or of a chunk of the prompt, into the state's memory, and reads only what
    `place` says is there."""

    chunk = 1  # words that a cell reads

    def _prepare(self, g, place):
        # A cell that runs in vain may be beyond the end.
        last = g.op("Min", place, g.constant([self.longest - self.chunk], np.int64))
        last = g.op("Add", last, g.constant([self.chunk - 1], np.int64))
        longest = g.op("Add", g.op("ReduceMax", last, keepdims=0), g.constant(1, np.int64))
        return (g.op("Cast", last, to=TensorProto.INT32), g.op("Cast", longest, to=TensorProto.INT32))

    def _attend(self, g, x, layer, seen, longest):
        """`x` has the words' dimension where a cell reads a chunk of the prompt."""
        name = "layer%d" % layer
        h, d = self.heads, self.size // self.heads
        for state in ("keys%d", "values%d"):
            g.input(state % layer, "FP32", ["N", h, self.longest, d])
            g.output(state % layer + "_out", "FP32", ["N", h, self.longest, d])
        qkv = g.op("MatMul", self._normal(g, x, name + ".before"),
                   g.weight(name + ".qkv", self.weights[layer]["qkv"]))
        parts = [name + ".q", name + ".k", name + ".v"]
        g.op("Split", qkv, outs=parts, axis=-1)
        q, k, v = parts
        if self.chunk == 1:
            q, k, v = (g.op("Unsqueeze", part, g.constant([1], np.int64)) for part in parts)
        mixed = name + ".mixed"
        g.op(
            "GroupQueryAttention", q, k, v, "keys%d" % layer, "values%d" % layer, seen, longest,
            outs=[mixed, "keys%d_out" % layer, "values%d_out" % layer],
            domain="com.microsoft", num_heads=h, kv_num_heads=h, scale=d**-0.5,
        )
        if self.chunk == 1:
            mixed = g.op("Squeeze", mixed, g.constant([1], np.int64))
        return g.op("MatMul", mixed, g.weight(name + ".out", self.weights[layer]["out"]))


class ChunkedAttention(CachedAttention):
    """The prompt is read in chunks, of one request at a time, as the operator demands."""

    def read_bytes(self):
        """The next words of the prompt; -1 for those after its last one."""
        self.chunk, g = PROMPT_CHUNK, Graph("read")
        token = g.input("token", "INT64", ["N", self.chunk])
        budget = g.input("budget", "FP32", ["N"])
        place = g.input("place", "INT64", ["N"])
        known = g.op("Max", token, g.constant([0], np.int64))
        real = g.op("GreaterOrEqual", token, g.constant([0], np.int64))
        # What is after the last word has places, too, and is overwritten by the words that come there.
        steps = g.constant([list(range(self.chunk))], np.int64)
        at = g.op("Min", g.op("Add", g.op("Unsqueeze", place, g.constant([1], np.int64)), steps),
                  g.constant([self.longest - 1], np.int64))
        x = g.op("Add", g.op("Gather", g.weight("words", self.words), known),
                 g.op("Gather", g.weight("places", self.places), at))
        prepared = self._prepare(g, place)
        for layer in range(self.layers):
            x = g.op("Add", x, self._attend(g, x, layer, *prepared))
            x = g.op("Add", x, self._think(g, x, layer))
        count = g.op("ReduceSum", g.op("Cast", real, to=TensorProto.INT64), g.constant([1], np.int64), keepdims=0)
        g.op("Add", place, count, out="place_out")
        g.output("place_out", "INT64", ["N"])
        worth = g.op("Gather", g.weight("ratios", self.ratios), known)
        worth = g.op("Mul", worth, g.op("Cast", real, to=TensorProto.FLOAT))
        worth = g.op("ReduceSum", worth, g.constant([1], np.int64), keepdims=0)
        g.op("Add", budget, worth, out="budget_out")
        g.output("budget_out", "FP32", ["N"])
        self.chunk = 1
        return g.to_bytes()


# ---- a prompt in chunks ----

CHUNK = 4  # words that one cell reads
PRIME = 1009


class Chunks:
    """Integers only, so that every answer is exact. A cell reads CHUNK words, of which those after
    the last one of the request are -1. The state is a vector of remainders, and the number of words
    so far. A writer says one word per cell, and <eos> after as many words as it was given."""

    def __init__(self, size, vocabulary):
        rng = _random(26)
        self.size = size
        self.words = rng.integers(0, PRIME, (vocabulary, size))
        self.places = np.arange(1, CHUNK + 1).reshape(CHUNK, 1)
        self.out = rng.integers(-9, 10, (size, vocabulary)).astype(np.float32)
        self.banned = np.zeros(vocabulary, np.float32)
        self.banned[:FIRST_WORD] = -1e6

    def _mix(self, g, added, change):
        """Nodes from the state, and what is added to it, to the new state."""
        h = g.input("h", "INT64", ["N", self.size])
        left = g.input("left", "INT64", ["N"])
        grown = g.op("Add", g.op("Mul", h, g.constant(31, np.int64)), added)
        g.op("Mod", grown, g.constant(PRIME, np.int64), out="h_out")
        g.op("Add", left, change, out="left_out")
        g.output("h_out", "INT64", ["N", self.size])
        g.output("left_out", "INT64", ["N"])

    def read_bytes(self):
        g = Graph("read")
        token = g.input("token", "INT64", ["N", CHUNK])
        absent = g.op("Less", token, g.constant(0, np.int64))
        is_word = g.op("Cast", g.op("Not", absent), to=ONNX_TYPES["INT64"])
        words = g.op("Gather", g.weight("words", self.words), g.op("Mul", token, is_word))
        weights = g.op("Mul", g.op("Unsqueeze", is_word, g.constant([2], np.int64)),
                       g.weight("places", self.places))
        axis = g.constant([1], np.int64)
        added = g.op("ReduceSum", g.op("Mul", words, weights), axis, keepdims=0)
        self._mix(g, added, g.op("ReduceSum", is_word, axis, keepdims=0))
        return g.to_bytes()

    def write_bytes(self):
        g = Graph("write")
        previous = g.input("previous", "INT64", ["N"])
        self._mix(g, g.op("Gather", g.weight("words", self.words), previous),
                  g.constant([-1], np.int64))
        scores = g.op("MatMul", g.op("Cast", "h_out", to=ONNX_TYPES["FP32"]),
                      g.weight("out", self.out))
        allowed = g.op("Add", scores, g.weight("banned", self.banned))
        best = g.op("ArgMax", allowed, axis=1, keepdims=0)
        over = g.op("Less", "left_out", g.constant(0, np.int64))
        g.op("Where", over, g.constant([EOS], np.int64), best, out="word")
        g.output("word", "INT64", ["N"])
        return g.to_bytes()


def build_decoder(attention):
    return {"read.onnx": attention.read_bytes(), "write.onnx": attention.write_bytes()}


# ---- the repository's side ----


def _lstm_states():
    return '  state { output: "h_out" input: "h" }\n  state { output: "c_out" input: "c" }\n'


def _cell(file, read="", states="", emit="", max_batch=64, elements=1):
    text = 'cell {\n  file: "%s"\n  max_batch: %d\n' % (file, max_batch)
    if elements > 1:
        text += "  elements: %d\n" % elements
        text += '  read { input: "token" from: "tokens" below: %d fill: -1 }\n' % read
    elif read:
        text += '  read { input: "token" from: "tokens" below: %d }\n' % read
    return text + states + ('  emit: "%s"\n' % emit if emit else "") + "}\n"


def _chain(size, vocabulary, max_batch):
    return Model(
        "chain%d" % size,
        [Tensor("tokens", "INT64", [-1])],
        [Tensor("h_out", "FP32", [size])],
        lambda: build_chain(size, vocabulary),
        has_config=False,
        settings=_cell("lstm.onnx", vocabulary, _lstm_states(), max_batch=max_batch)
        + 'unfold { kind: CHAIN max_length: 512 answer: "h_out" }\n',
    )


def _whole(name, output, build, max_batch):
    return Model(
        name,
        [Tensor("tokens", "INT64", [-1]), Tensor("mask", "INT64", [-1])],
        [output],
        build,
        max_batch_size=max_batch,
        settings="length { pad: true }\n",
    )


def _whole_chain(size, vocabulary, max_batch):
    output = Tensor("h_out", "FP32", [size])
    build = lambda: build_whole_chain(size, vocabulary)  # noqa: E731
    return _whole("chain%d_whole" % size, output, build, max_batch)


def _seq2seq(size, vocabulary, encoder_batch, decoder_batch):
    return Model(
        "seq2seq%d" % size,
        [Tensor("tokens", "INT64", [-1])],
        [Tensor("word", "INT64", [-1])],
        lambda: build_seq2seq(size, vocabulary),
        has_config=False,
        settings=_cell("encoder.onnx", vocabulary, _lstm_states(), max_batch=encoder_batch)
        + _cell(
            "decoder.onnx",
            states=_lstm_states()
            + '  state { output: "word" input: "previous" initial: %d }\n' % GO,
            emit="word",
            max_batch=decoder_batch,
        )
        + "unfold { kind: SEQ2SEQ max_length: 512 threshold: 10 eos: %d }\n" % EOS,
    )


def _tree(size, vocabulary, max_batch):
    leaf = '  state { output: "h" }\n  state { output: "c" }\n'
    inner = (
        '  state { output: "h" input: "left_h" input: "right_h" }\n'
        '  state { output: "c" input: "left_c" input: "right_c" }\n'
    )
    return Model(
        "tree%d" % size,
        [Tensor("tokens", "INT64", [-1])],
        [Tensor("h", "FP32", [size])],
        lambda: build_tree(size, vocabulary),
        has_config=False,
        settings=_cell("leaf.onnx", vocabulary, leaf, max_batch=max_batch)
        + _cell("inner.onnx", states=inner, max_batch=max_batch)
        + 'unfold { kind: TREE max_length: 1023 answer: "h" }\n',
    )


def _bidirectional(size, vocabulary, max_batch):
    join = '  state { output: "h" input: "forward_h" input: "backward_h" }\n'
    return Model(
        "bidirectional%d" % size,
        [Tensor("tokens", "INT64", [-1])],
        [Tensor("h", "FP32", [size])],
        lambda: build_bidirectional(size, vocabulary),
        has_config=False,
        settings=_cell("forward.onnx", vocabulary, _lstm_states(), max_batch=max_batch)
        + _cell("backward.onnx", vocabulary, _lstm_states(), max_batch=max_batch)
        + _cell("join.onnx", states=join, max_batch=max_batch)
        + 'unfold { kind: PLUGIN plugin: "bidirectional.so" max_length: 512 answer: "h" }\n',
    )


DECODERS = {"": Attention, "_cached": CachedAttention, "_chunked": ChunkedAttention}


def _decoder(size, vocabulary, layers, heads, longest, max_batch, kind=""):
    names = [state % layer for layer in range(layers) for state in ("keys%d", "values%d")]
    state = '  state { output: "%s_out" input: "%s"%s }\n'
    shared = "".join(state % (name, name, " in_place: true" if kind else "") for name in names)
    shared += "".join(state % (name, name, "") for name in ("place", "budget"))
    word = '  state { output: "word" input: "previous" initial: %d }\n' % GO
    half = longest // 2  # so that the prompt and the answer fit the cache
    chunk, read_batch = (PROMPT_CHUNK, 1) if kind == "_chunked" else (1, max_batch)
    return Model(
        "decoder%d%s" % (size, kind),
        [Tensor("tokens", "INT64", [-1])],
        [Tensor("word", "INT64", [-1])],
        lambda: build_decoder(DECODERS[kind](size, vocabulary, layers, heads, longest)),
        has_config=False,
        settings=_cell("read.onnx", vocabulary, shared, max_batch=read_batch, elements=chunk)
        + _cell("write.onnx", states=shared + word, emit="word", max_batch=max_batch)
        + "unfold {\n  kind: SEQ2SEQ max_length: %d threshold: 10 max_output: %d eos: %d\n}\n"
        % (half, half, EOS),
    )


def _chunk_states():
    return '  state { output: "h_out" input: "h" }\n  state { output: "left_out" input: "left" }\n'


def _chunks(size, vocabulary, max_batch):
    read = _cell("read.onnx", vocabulary, _chunk_states(), max_batch=max_batch, elements=CHUNK)
    return Model(
        "chunks%d" % size,
        [Tensor("tokens", "INT64", [-1])],
        [Tensor("h_out", "INT64", [size])],
        lambda: {"read.onnx": Chunks(size, vocabulary).read_bytes()},
        has_config=False,
        settings=read + 'unfold { kind: CHAIN max_length: 512 answer: "h_out" }\n',
    )


def _prompts(size, vocabulary, max_batch):
    """Reads a prompt in chunks, and writes word by word."""
    states = _chunk_states()
    word = '  state { output: "word" input: "previous" initial: %d }\n' % GO
    weights = Chunks(size, vocabulary)
    return Model(
        "prompts%d" % size,
        [Tensor("tokens", "INT64", [-1])],
        [Tensor("word", "INT64", [-1])],
        lambda: {"read.onnx": weights.read_bytes(), "write.onnx": weights.write_bytes()},
        has_config=False,
        settings=_cell("read.onnx", vocabulary, states, max_batch=max_batch, elements=CHUNK)
        + _cell("write.onnx", states=states + word, emit="word", max_batch=max_batch)
        + "unfold { kind: SEQ2SEQ max_length: 512 threshold: 10 eos: %d }\n" % EOS,
    )


def test_models():
    """Small: a cell takes some ten microseconds."""
    return [
        _chain(64, 1000, 64),
        _whole_chain(64, 1000, 64),
        _seq2seq(64, 500, 64, 32),
        _tree(64, 1000, 64),
        _decoder(64, 500, 2, 4, 64, 16),
        _decoder(64, 500, 2, 4, 64, 16, "_cached"),
        _decoder(64, 500, 2, 4, 64, 16, "_chunked"),
        _chunks(64, 500, 16),
        _prompts(64, 500, 16),
    ]


def plugin_models():
    """They need their plug-in beside them: build/examples/unfold/bidirectional.so."""
    return [_bidirectional(64, 1000, 64)]


def layered_models():
    """Whole sequences, to be cut between their layers."""
    sentences = [Tensor("tokens", "INT64", [-1]), Tensor("mask", "INT64", [-1])]
    return [
        Model(
            operator.lower() + "_layers",
            sentences,
            [Tensor("h_out", "FP32", [256])],
            functools.partial(build_layers, operator, 256, 1000, 4),
        )
        for operator in ("LSTM", "GRU")
    ]


def large_models():
    """As the papers have them, and for this kind of machine."""
    return [
        _chain(256, 10000, 64),
        _whole_chain(256, 10000, 64),
        _seq2seq(256, 10000, 64, 32),
        _tree(256, 10000, 64),
        _decoder(256, 10000, 4, 4, 256, 16),
        _decoder(256, 10000, 4, 4, 256, 16, "_cached"),
        _decoder(256, 10000, 4, 4, 256, 16, "_chunked"),
        _chain(1024, 10000, 64),
        _whole_chain(1024, 10000, 64),
        _seq2seq(1024, 10000, 64, 32),
        _tree(1024, 10000, 64),
    ]
