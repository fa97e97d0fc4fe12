"""Small models with fixed seeds: two for the demonstration, the others for tests."""
import numpy as np

from . import onnx_graph
from .onnx_graph import Graph
from .repository import Model, Tensor


def _random(seed):
    return np.random.Generator(np.random.PCG64(seed))


def _dense(rng, rows, columns, gain=2.0):
    scale = np.sqrt(gain / rows)
    return (rng.standard_normal((rows, columns)) * scale).astype(np.float32)


def _bias(rng, count):
    return (rng.standard_normal(count) * 0.1).astype(np.float32)


def build_mlp():
    rng = _random(11)
    g = Graph("mlp")
    x = g.input("input", "FP32", ["N", 16])
    for i, (rows, columns) in enumerate([(16, 64), (64, 64)]):
        w = g.weight("layer%d.weight" % i, _dense(rng, rows, columns))
        b = g.weight("layer%d.bias" % i, _bias(rng, columns))
        x = g.op("Relu", g.op("Gemm", x, w, b))
    w = g.weight("head.weight", _dense(rng, 64, 4, gain=1.0))
    g.op("Gemm", x, w, g.weight("head.bias", _bias(rng, 4)), out="output")
    g.output("output", "FP32", ["N", 4])
    return g.to_bytes()


def _convolution(g, rng, x, name, channels_in, channels_out, stride=1):
    scale = np.sqrt(2.0 / (channels_in * 9))
    kernel = rng.standard_normal((channels_out, channels_in, 3, 3)) * scale
    w = g.weight(name + ".weight", kernel.astype(np.float32))
    b = g.weight(name + ".bias", _bias(rng, channels_out))
    return g.op(
        "Conv", x, w, b, kernel_shape=[3, 3], pads=[1, 1, 1, 1], strides=[stride, stride]
    )


def build_cnn():
    """A stem and three residual blocks, the picture halved before each: 32x32 down to 4x4."""
    rng = _random(12)
    g = Graph("cnn")
    x = g.input("image", "FP32", ["N", 3, 32, 32])
    x = g.op("Relu", _convolution(g, rng, x, "stem", 3, 16))
    channels = 16
    for i in range(3):
        down = _convolution(g, rng, x, "block%d.down" % i, channels, channels * 2, stride=2)
        down = g.op("Relu", down)
        channels *= 2
        inner = _convolution(g, rng, down, "block%d.inner" % i, channels, channels)
        x = g.op("Relu", g.op("Add", inner, down))
    x = g.op("Flatten", g.op("GlobalAveragePool", x), axis=1)
    w = g.weight("head.weight", _dense(rng, channels, 10, gain=1.0))
    g.op("Gemm", x, w, g.weight("head.bias", _bias(rng, 10)), out="logits")
    g.output("logits", "FP32", ["N", 10])
    return g.to_bytes()


def build_lstm_cell(size):
    """One LSTM step as Gemms: the state goes in and comes out, gates in the order i, f, g, o."""
    rng = _random(13)
    g = Graph("lstm%d" % size)
    x = g.input("x", "FP32", ["N", size])
    h = g.input("h", "FP32", ["N", size])
    c = g.input("c", "FP32", ["N", size])
    w = g.weight("weight", _dense(rng, 2 * size, 4 * size, gain=1.0))
    gates = g.op("Gemm", g.op("Concat", x, h, axis=1), w, g.weight("bias", _bias(rng, 4 * size)))
    names = ["gate.i", "gate.f", "gate.g", "gate.o"]
    g.op("Split", gates, outs=names, axis=1)
    kept = g.op("Mul", g.op("Sigmoid", "gate.f"), c)
    added = g.op("Mul", g.op("Sigmoid", "gate.i"), g.op("Tanh", "gate.g"))
    g.op("Add", kept, added, out="c_out")
    g.op("Mul", g.op("Sigmoid", "gate.o"), g.op("Tanh", "c_out"), out="h_out")
    g.output("h_out", "FP32", ["N", size])
    g.output("c_out", "FP32", ["N", size])
    return g.to_bytes()


def build_embed():
    """Gather from 100 rows: an id of 100 or more makes ONNX Runtime's Run fail for its batch."""
    g = Graph("embed")
    ids = g.input("ids", "INT64", ["N", 4])
    table = np.arange(800, dtype=np.float32).reshape(100, 8) / np.float32(8.0)
    g.op("Gather", g.weight("table", table), ids, out="vectors", axis=0)
    g.output("vectors", "FP32", ["N", 4, 8])
    return g.to_bytes()


def build_addsub():
    g = Graph("addsub")
    a = g.input("INPUT0", "INT32", ["N", 16])
    b = g.input("INPUT1", "INT32", ["N", 16])
    g.op("Add", a, b, out="OUTPUT0")
    g.op("Sub", a, b, out="OUTPUT1")
    g.output("OUTPUT0", "INT32", ["N", 16])
    g.output("OUTPUT1", "INT32", ["N", 16])
    return g.to_bytes()


def build_identity(datatype, shape):
    g = Graph("identity")
    g.op("Identity", g.input("INPUT0", datatype, shape), out="OUTPUT0")
    g.output("OUTPUT0", datatype, shape)
    return g.to_bytes()


def _identity(name, datatype, dims=(16,), shape=("N", 16), **fields):
    return Model(
        name,
        [Tensor("INPUT0", datatype, list(dims))],
        [Tensor("OUTPUT0", datatype, list(dims))],
        lambda: build_identity(datatype, list(shape)),
        **fields,
    )


def _mlp(name, **fields):
    return Model(
        name,
        [Tensor("input", "FP32", [16])],
        [Tensor("output", "FP32", [4])],
        build_mlp,
        **fields,
    )


def demo_models():
    return [
        Model(
            "cnn",
            [Tensor("image", "FP32", [3, 32, 32])],
            [Tensor("logits", "FP32", [10])],
            build_cnn,
            max_batch_size=32,
            slo_ms=50,
        ),
        _mlp("mlp", slo_ms=20),
        _identity("identity_fp32", "FP32"),
    ]


def dtype_models():
    """An identity for each element type that ONNX and KServe share (FP32 is in the demo)."""
    return [
        _identity("identity_" + datatype.lower(), datatype)
        for datatype in onnx_graph.ONNX_TYPES
        if datatype != "FP32"
    ]


def test_models():
    state = [Tensor("h", "FP32", [256]), Tensor("c", "FP32", [256])]
    new_state = [Tensor("h_out", "FP32", [256]), Tensor("c_out", "FP32", [256])]
    int_rows = [16]
    return dtype_models() + [
        Model(
            "lstm256",
            [Tensor("x", "FP32", [256])] + state,
            new_state,
            lambda: build_lstm_cell(256),
        ),
        Model(
            "embed",
            [Tensor("ids", "INT64", [4])],
            [Tensor("vectors", "FP32", [4, 8])],
            build_embed,
            # A delay, so that tests can have an offender and its victims in one batch.
            batching="dynamic_batching { max_queue_delay_microseconds: 2000 }",
        ),
        Model(
            "addsub",
            [Tensor("INPUT0", "INT32", int_rows), Tensor("INPUT1", "INT32", int_rows)],
            [Tensor("OUTPUT0", "INT32", int_rows), Tensor("OUTPUT1", "INT32", int_rows)],
            build_addsub,
            max_batch_size=8,
        ),
        _identity("identity_any_length", "FP32", dims=[-1], shape=["N", "L"]),
        _identity("identity_no_batch", "FP32", shape=[16], max_batch_size=0),
        _mlp("mlp_no_config", has_config=False),
        Model(
            "broken",
            [Tensor("input", "FP32", [16])],
            [Tensor("output", "FP32", [4])],
            lambda: b"This file is not an ONNX model, and a server has to say so.\n",
        ),
    ]
