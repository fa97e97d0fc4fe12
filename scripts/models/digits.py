"""A classifier of handwritten digits with four exits, trained here on real data.

The data are the 1,797 digits of 8 x 8 that the PyPI package scikit-learn carries (a part of the UCI machine learning
repository's "Optical recognition of handwritten digits"); the wheel is downloaded for that file alone. The network is
four dense layers of WIDTH, with a head behind each, all trained together: so an early head is as good as so few layers
can be. Training takes some seconds; the seeds are fixed, and the same machine with the same numpy gives the same bytes.

model.onnx is the trunk with the last head; exit_1.onnx ... hold the other heads, each with its condition: the most
likely class has more than a threshold of the probability. A request that meets it leaves (`exit { ... }` in tutti.pbtxt).
"""
import gzip

import numpy as np

from . import wheel as wheels
from .onnx_graph import Graph
from .repository import Model, Tensor

PACKAGE = "scikit-learn"
VERSION = "1.9.1"
FILES = {"digits.csv.gz": "09f66e6debdee2cd"}  # the first digits of its SHA-256

BLOCKS = 4
WIDTH = 256
CLASSES = 10
PIXELS = 64
TRAINED, CHOSEN = 1000, 300  # how many of the digits, in an order drawn once; the others are to test with
EPOCHS = 120
BATCH = 50
RATE = 1e-3
THRESHOLDS = [0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99, 0.999]


def read_digits(cache):
    """(pixels [n, 64] in 0 .. 1, classes [n]): to train with, to choose a threshold with, to test with."""
    content = wheels.read(wheels.fetch(cache, PACKAGE, VERSION, "9 MB"), FILES)
    rows = np.loadtxt(gzip.decompress(content["digits.csv.gz"]).decode().splitlines(), delimiter=",")
    order = np.random.Generator(np.random.PCG64(7)).permutation(len(rows))
    pixels, classes = (rows[order, :PIXELS] / 16).astype(np.float32), rows[order, PIXELS].astype(np.int64)
    ends = [0, TRAINED, TRAINED + CHOSEN, len(rows)]
    return [(pixels[a:b], classes[a:b]) for a, b in zip(ends, ends[1:])]


def softmax(logits):
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def _layers(rng):
    """[(weight, bias)]: the trunk's, then the heads'."""
    sizes = [(PIXELS if k == 0 else WIDTH, WIDTH) for k in range(BLOCKS)] + [(WIDTH, CLASSES)] * BLOCKS
    return [
        [(rng.standard_normal((i, o)) * np.sqrt(2 / i)).astype(np.float32), np.zeros(o, np.float32)]
        for i, o in sizes
    ]


def forward(layers, x):
    """What each block makes (after the pixels themselves), and each head's logits."""
    made = [x]
    for weight, bias in layers[:BLOCKS]:
        made.append(np.maximum(made[-1] @ weight + bias, 0))
    return made, [made[k + 1] @ w + b for k, (w, b) in enumerate(layers[BLOCKS:])]


def _gradients(layers, x, classes):
    """Of the sum of the heads' cross entropies."""
    made, logits = forward(layers, x)
    gradients = [None] * (2 * BLOCKS)
    from_above = 0
    for k in reversed(range(BLOCKS)):
        error = softmax(logits[k])
        error[np.arange(len(x)), classes] -= 1
        error /= len(x)
        head = layers[BLOCKS + k][0]
        gradients[BLOCKS + k] = (made[k + 1].T @ error, error.sum(axis=0))
        above = (error @ head.T + from_above) * (made[k + 1] > 0)
        gradients[k] = (made[k].T @ above, above.sum(axis=0))
        from_above = above @ layers[k][0].T
    return gradients


def _shifted(rng, pixels):
    """Each picture moved by up to one pixel, at random."""
    pictures = np.pad(pixels.reshape(-1, 8, 8), ((0, 0), (1, 1), (1, 1)))
    moved = np.empty((len(pixels), 8, 8), np.float32)
    for i, (down, right) in enumerate(rng.integers(0, 3, (len(pixels), 2))):
        moved[i] = pictures[i, down : down + 8, right : right + 8]
    return moved.reshape(-1, PIXELS)


def train(pixels, classes):
    """The layers after EPOCHS of Adam."""
    rng = np.random.Generator(np.random.PCG64(3))
    layers = _layers(rng)
    first = [[np.zeros_like(a) for a in layer] for layer in layers]
    second = [[np.zeros_like(a) for a in layer] for layer in layers]
    step = 0
    for epoch in range(EPOCHS):
        rate = RATE * (0.1 if epoch >= EPOCHS * 3 // 4 else 1)
        order = rng.permutation(len(pixels))
        moved = _shifted(rng, pixels)
        for at in range(0, len(order), BATCH):
            picked = order[at : at + BATCH]
            step += 1
            for layer, gradient, m, v in zip(
                layers, _gradients(layers, moved[picked], classes[picked]), first, second
            ):
                for j in range(2):
                    m[j] += 0.1 * (gradient[j] - m[j])
                    v[j] += 0.001 * (gradient[j] ** 2 - v[j])
                    scale = rate * np.sqrt(1 - 0.999**step) / (1 - 0.9**step)
                    layer[j] -= (scale * m[j] / (np.sqrt(v[j]) + 1e-8)).astype(np.float32)
    return layers


def leave_at(layers, pixels, threshold):
    """The block behind which each picture leaves, and its class, worked out here."""
    likely = [softmax(logits) for logits in forward(layers, pixels)[1]]
    depth = np.full(len(pixels), BLOCKS)
    for k in range(BLOCKS - 1, 0, -1):
        depth[likely[k - 1].max(axis=1) > threshold] = k
    return depth, np.choose(depth - 1, [p.argmax(axis=1) for p in likely])


def choose_threshold(layers, pixels, classes):
    """The lowest at which no more of these pictures are misread than by the last head."""
    last = forward(layers, pixels)[1][-1].argmax(axis=1)
    wanted = (last == classes).sum()
    for threshold in THRESHOLDS:
        if (leave_at(layers, pixels, threshold)[1] == classes).sum() >= wanted:
            return threshold
    return 1.0  # no request leaves


# ---- graphs ----


def _head(g, x, layer, number):
    """Probabilities, and how many blocks it took, as a number per row."""
    w, b = g.weight("head.%d.weight" % number, layer[0]), g.weight("head.%d.bias" % number, layer[1])
    likely = g.op("Softmax", g.op("Gemm", x, w, b), out="probabilities", axis=1)
    most = g.op("ReduceMax", likely, axes=[1], keepdims=1)
    g.op("Add", g.op("Mul", most, g.constant(0, np.float32)), g.constant(number, np.float32), out="depth")
    g.output("probabilities", "FP32", ["N", CLASSES])
    g.output("depth", "FP32", ["N", 1])
    return most


def build_trunk(layers):
    g = Graph("digits")
    x = g.input("pixels", "FP32", ["N", PIXELS])
    for k, (weight, bias) in enumerate(layers[:BLOCKS], 1):
        w, b = g.weight("block.%d.weight" % k, weight), g.weight("block.%d.bias" % k, bias)
        x = g.op("Relu", g.op("Gemm", x, w, b), out="block.%d" % k)
    _head(g, x, layers[-1], BLOCKS)
    return g.to_bytes()


def build_exit(layers, number, threshold):
    g = Graph("exit_%d" % number)
    x = g.input("block.%d" % number, "FP32", ["N", WIDTH])
    most = _head(g, x, layers[BLOCKS + number - 1], number)
    g.op("Sub", most, g.constant(threshold, np.float32), out="confident")
    g.output("confident", "FP32", ["N", 1])
    return g.to_bytes()


def settings(exits, policy="diversity"):
    """tutti.pbtxt, with the exits of these numbers."""
    lines = ["slo_ms: 20", 'policy { name: "%s" }' % policy]
    lines += ["stages { %s }" % " ".join('after: "block.%d"' % k for k in range(1, BLOCKS))]
    lines += [
        'exit { after_stage: %d graph: "exit_%d.onnx" condition: "confident" }' % (k - 1, k) for k in exits
    ]
    return ("\n".join(lines) + "\n").encode()


def model(cache, threshold=None, exits=range(1, BLOCKS), name="digits", policy="diversity", trained=None):
    """The repository's entry. `threshold` None: chosen. `trained`: layers that train() gave before."""
    layers = list(trained or [])

    def learnt():
        if not layers:
            layers.extend(train(*read_digits(cache)[0]))
        return layers

    def extra_files():
        above = threshold or choose_threshold(learnt(), *read_digits(cache)[1])
        files = {"1/exit_%d.onnx" % k: build_exit(learnt(), k, above) for k in exits}
        files["tutti.pbtxt"] = settings(exits, policy)
        return files

    return Model(
        name,
        [Tensor("pixels", "FP32", [PIXELS])],
        [Tensor("probabilities", "FP32", [CLASSES]), Tensor("depth", "FP32", [1])],
        lambda: build_trunk(learnt()),
        max_batch_size=32,
        extra_files=extra_files,
    )
