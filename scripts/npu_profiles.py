#!/usr/bin/env python3
"""Profiles of the LazyBatching paper's NPU by an analytic model: data/npu-MODEL.csv and the lengths beside them
(data/wmt19-lengths.csv, data/speech-lengths.csv).

    scripts/npu_profiles.py            write them
    scripts/npu_profiles.py --check    compare what lies in data/ with what would be written
    scripts/npu_profiles.py --report   single-request latencies and how they grow with the batch

The device (paper, table I): a 128 x 128 systolic array at 700 MHz, 360 GB/s of memory bandwidth, 100 cycles of memory
latency, 8 MB of SRAM for activations. The paper says no more, so this is assumed: one byte per value (as in the first
TPU, which it is modelled after); weights stay in the array while the rows of the batch stream through; the next tile's
weights come in behind them at memory bandwidth; every node reads its weights from memory once, and activations only
where they do not fit the SRAM. Then for an M x K by K x N product

    tiles   = ceil(K / 128) ceil(N / 128)
    compute = tiles max(M, cycles to load a tile at memory bandwidth) + 256 cycles to fill and drain
    time    = max(compute, bytes / bandwidth) + 100 cycles

Calibration: one constant per kind of model, from the published single-request latencies (table II), nothing else.
  cnn        ResNet 1.1 ms: time of a node plus a constant. (A factor instead would leave batches nothing to gain: the
             convolutions are bound by compute at batch 1 already. The paper's figure 3 has ResNet saturate at a batch
             of 16, and its figure 5 serves 2000 requests/s, which says that something there does not grow with the
             batch.) The same constant for VGG16 and MobileNet.
  rnn        GNMT 7.2 ms: a factor, at the median lengths of the distribution below. The same factor for LAS.
  attention  Transformer 2.4 ms: a factor, likewise. The same factor for BERT.

Layer shapes are those of the models' public definitions. A node is a layer with what is fused into it.
"""
import argparse
import math
import os
import statistics
import sys

CLOCK_HZ, BANDWIDTH, ARRAY = 700e6, 360e9, 128
LATENCY_CYCLES, FILL_CYCLES, SRAM_BYTES = 100, 256, 8 << 20
BATCHES = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)
LENGTHS = (1, 4, 8, 12, 16, 20, 24, 28, 32, 40, 48, 64, 80)
DATA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "data")


def product(m, k, n, moved=0.0):
    """Seconds of an m x k by k x n product whose weights come from memory; `moved`: bytes besides them."""
    tiles = math.ceil(k / ARRAY) * math.ceil(n / ARRAY)
    load = ARRAY * ARRAY / (BANDWIDTH / CLOCK_HZ)
    compute = (tiles * max(m, load) + FILL_CYCLES) / CLOCK_HZ
    return max(compute, (k * n + moved) / BANDWIDTH) + LATENCY_CYCLES / CLOCK_HZ


def spilled(bytes_):
    """Activations that do not fit are written and read again."""
    return 2.0 * bytes_ if bytes_ > SRAM_BYTES else 0.0


# ---- the models: [(name, kind, seconds(batch, length))] ----


def conv(name, size, kernel, inputs, outputs):
    def seconds(batch, _length):
        m = batch * size * size
        return product(m, kernel * kernel * inputs, outputs, spilled(m * outputs))

    return (name, "static", seconds)


def depthwise(name, size, channels):
    """3 x 3 on each channel by itself: an array of which one column in a tile works; the batch streams through."""

    def seconds(batch, _length):
        return channels / ARRAY * 9 * (batch * size * size) / CLOCK_HZ + (FILL_CYCLES + LATENCY_CYCLES) / CLOCK_HZ

    return (name, "static", seconds)


def dense(name, inputs, outputs, kind="static"):
    return (name, kind, lambda batch, _length: product(batch, inputs, outputs))


def resnet50():
    nodes = [conv("conv1", 112, 7, 3, 64)]
    size, inputs = 56, 64
    for stage, (blocks, width) in enumerate([(3, 64), (4, 128), (6, 256), (3, 512)], start=2):
        for block in range(blocks):
            first = block == 0
            name = f"res{stage}{chr(ord('a') + block)}"
            before = size * 2 if first and stage > 2 else size
            nodes.append(conv(f"{name}_1", before, 1, inputs, width))
            nodes.append(conv(f"{name}_2", size, 3, width, width))
            nodes.append(conv(f"{name}_3", size, 1, width, 4 * width))
            if first:
                nodes.append(conv(f"{name}_skip", size, 1, inputs, 4 * width))
            inputs = 4 * width
        size //= 2
    return nodes + [dense("fc", 2048, 1000)]


def vgg16():
    nodes, size, inputs = [], 224, 3
    for stage, (layers, width) in enumerate([(2, 64), (2, 128), (3, 256), (3, 512), (3, 512)], start=1):
        for layer in range(layers):
            nodes.append(conv(f"conv{stage}_{layer + 1}", size, 3, inputs, width))
            inputs = width
        size //= 2
    return nodes + [dense("fc6", 25088, 4096), dense("fc7", 4096, 4096), dense("fc8", 4096, 1000)]


def mobilenet():
    nodes, size, inputs = [conv("conv1", 112, 3, 3, 32)], 112, 32
    plan = [(1, 64), (2, 128), (1, 128), (2, 256), (1, 256), (2, 512)] + [(1, 512)] * 5 + [(2, 1024), (1, 1024)]
    for index, (stride, outputs) in enumerate(plan, start=1):
        size //= stride
        nodes.append(depthwise(f"dw{index}", size, inputs))
        nodes.append(conv(f"pw{index}", size, 1, inputs, outputs))
        inputs = outputs
    return nodes + [dense("fc", 1024, 1000)]


def gnmt():
    """8 + 8 LSTM layers of 1024, the first encoder layer in both directions, 32,000 words."""
    nodes = [dense("encoder1_forward", 2048, 4096, "encoder"), dense("encoder1_backward", 2048, 4096, "encoder"),
             dense("encoder2", 3072, 4096, "encoder")]
    nodes += [dense(f"encoder{layer}", 2048, 4096, "encoder") for layer in range(3, 9)]
    nodes += [dense("decoder1", 3072, 4096, "decoder"), dense("attention", 1024, 1024, "decoder")]
    nodes += [dense(f"decoder{layer}", 3072, 4096, "decoder") for layer in range(2, 9)]
    return nodes + [dense("words", 1024, 32000, "decoder")]


def recurrent(name, inputs, hidden, steps, kind):
    """One direction of an LSTM layer, its four gates in one product, `steps` times one after the other."""
    return (name, kind, lambda batch, _length: steps * product(batch, inputs + hidden, 4 * hidden))


def las():
    """Listen, attend and spell (Chan and others, 2016): 40 features every 10 ms; a bidirectional LSTM layer of 256 and
    three more, each of which reads the one below two steps at a time; a speller of 2 x 512 with attention, 30
    characters. A round of the encoder is 80 ms of speech, one step of the topmost layer and 2, 4, 8 of those below."""
    nodes, inputs = [], 40
    for layer, steps in enumerate((8, 4, 2, 1), start=1):
        for direction in ("forward", "backward"):
            nodes.append(recurrent(f"listen{layer}_{direction}", inputs, 256, steps, "encoder"))
        inputs = 2 * 2 * 256
    nodes += [recurrent("spell1", 30 + 512, 512, 1, "decoder"), dense("attend", 512, 512, "decoder")]
    return nodes + [recurrent("spell2", 512, 512, 1, "decoder"), dense("characters", 1024, 30, "decoder")]


def attention(name, width, parts, kind):
    """`parts` products of width x width over all positions, and the scores, which no batch shares."""

    def seconds(batch, length):
        m = batch * (length if kind == "static" else 1)
        scores = 2.0 * batch * length * width * (length if kind == "static" else 1) / (ARRAY * ARRAY * CLOCK_HZ)
        return product(m, width, parts * width, spilled(m * parts * width)) + scores

    return (name, kind, seconds)


def feed_forward(name, width, inner, kind):
    def seconds(batch, length):
        m = batch * (length if kind == "static" else 1)
        return product(m, width, inner, spilled(m * inner)) + product(m, inner, width)

    return (name, kind, seconds)


def transformer():
    """The base model: 6 + 6 layers of 512, inner 2048, 37,000 words; the encoder reads all positions at once."""
    nodes = []
    for layer in range(1, 7):
        nodes.append(attention(f"encoder{layer}_attention", 512, 4, "static"))
        nodes.append(feed_forward(f"encoder{layer}_ffn", 512, 2048, "static"))
    for layer in range(1, 7):
        nodes.append(attention(f"decoder{layer}_self", 512, 4, "decoder"))
        nodes.append(attention(f"decoder{layer}_cross", 512, 2, "decoder"))
        nodes.append(feed_forward(f"decoder{layer}_ffn", 512, 2048, "decoder"))
    return nodes + [dense("words", 512, 37000, "decoder")]


def bert():
    """Base: 12 layers of 768, inner 3072, on 128 tokens."""
    nodes = []
    for layer in range(1, 13):
        _, _, heads = attention("", 768, 4, "static")
        _, _, inner = feed_forward("", 768, 3072, "static")
        nodes.append((f"layer{layer}_attention", "static", lambda batch, _length, f=heads: f(batch, 128)))
        nodes.append((f"layer{layer}_ffn", "static", lambda batch, _length, f=inner: f(batch, 128)))
    return nodes


# ---- lengths ----

# Lognormal through what the paper states: 16 % of the German sentences have at most 10 words and 90 % at most 32
# (section VI-C); 70 % of the English ones have less than 20 (section IV-C), with the same spread; at most 80.
Z = statistics.NormalDist()
SIGMA = math.log(32 / 10) / (Z.inv_cdf(0.90) - Z.inv_cdf(0.16))
MU = {"german": math.log(10) - SIGMA * Z.inv_cdf(0.16), "english": math.log(20) - SIGMA * Z.inv_cdf(0.70)}


# Speech, for LAS, whose inputs the paper does not describe. Assumed: the English sentences above, read aloud at 150 words
# a minute (0.4 s a word, 5 rounds of 80 ms) and written down with 6 characters a word, the space included.
ROUNDS_PER_WORD, CHARACTERS_PER_WORD = 5, 6


def length_at(language, percentile):
    if language == "speech":
        return ROUNDS_PER_WORD * length_at("english", percentile)
    if language == "characters":
        return CHARACTERS_PER_WORD * length_at("english", percentile)

    if percentile in (0, 100):
        return 1 if percentile == 0 else 80
    return min(80, max(1, round(math.exp(MU[language] + SIGMA * Z.inv_cdf(percentile / 100)))))


# ---- calibration ----

PUBLISHED_MS = {"cnn": ("resnet50", 1.1), "rnn": ("gnmt", 7.2), "attention": ("transformer", 2.4)}
MODELS = {"resnet50": ("cnn", resnet50()), "vgg16": ("cnn", vgg16()), "mobilenet": ("cnn", mobilenet()),
          "gnmt": ("rnn", gnmt()), "las": ("rnn", las()), "transformer": ("attention", transformer()), "bert": ("attention", bert())}


def times(kind, length, output):
    return {"static": 1, "encoder": length, "decoder": output}[kind]


def lengths_of(model):
    return ("speech", "characters") if model == "las" else ("english", "german")


def single(model, batch=1):
    nodes = MODELS[model][1]
    n, m = (length_at(language, 50) for language in lengths_of(model))
    return sum(seconds(batch, n) * times(kind, n, m) for _, kind, seconds in nodes)


def calibrate():
    constants = {}
    for kind, (model, milliseconds) in PUBLISHED_MS.items():
        nodes = MODELS[model][1]
        missing = milliseconds / 1e3 - single(model)
        constants[kind] = (1.0, missing / len(nodes)) if kind == "cnn" else (milliseconds / 1e3 / single(model), 0.0)
    return constants


def latency_ns(constant, seconds):
    factor, per_node = constant
    return max(1, round((seconds * factor + per_node) * 1e9))


# ---- files ----


def profile_csv(model, constants):
    kind_of_model, nodes = MODELS[model]
    lines = ["step,kind,length,batch,latency_ns"]
    for name, kind, seconds in nodes:
        varies = model == "transformer" and name.split("_")[-1] in ("attention", "ffn", "cross") and kind == "static"
        for length in LENGTHS if varies else (0,):
            for batch in BATCHES:
                ns = latency_ns(constants[kind_of_model], seconds(batch, length or length_at("english", 50)))
                lines.append(f"{name},{kind},{length},{batch},{ns}")
    return "\n".join(lines) + "\n"


def lengths_csv(*languages):
    rows = [",".join(str(value) for value in [p, *(length_at(own, p) for own in languages)]) for p in range(101)]
    return "\n".join([",".join(("percentile",) + languages)] + rows) + "\n"


def files():
    constants = calibrate()
    contents = {f"npu-{model}.csv": profile_csv(model, constants) for model in MODELS}
    contents["wmt19-lengths.csv"] = lengths_csv("english", "german")
    contents["speech-lengths.csv"] = lengths_csv("speech", "characters")
    return contents


def report():
    constants = calibrate()
    print(f"median lengths: {length_at('english', 50)} in, {length_at('german', 50)} out")
    for kind, (factor, per_node) in constants.items():
        print(f"{kind}: factor {factor:.3f}, {per_node * 1e6:.2f} us per node")
    for model, (kind, nodes) in MODELS.items():
        factor, per_node = constants[kind]
        n, m = (length_at(language, 50) for language in lengths_of(model))
        count = sum(times(k, n, m) for _, k, _ in nodes)
        whole = [1e3 * (single(model, batch) * factor + per_node * count) for batch in BATCHES]
        print(f"{model:12s} {len(nodes):3d} nodes", " ".join(f"{b}:{ms:.2f}" for b, ms in zip(BATCHES, whole)), "ms")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--check", action="store_true", help="compare with data/ and write nothing")
    parser.add_argument("--report", action="store_true", help="print latencies and write nothing")
    arguments = parser.parse_args()
    if arguments.report:
        report()
        return 0
    wrong = 0
    for name, text in files().items():
        path = os.path.join(DATA, name)
        if not arguments.check:
            with open(path, "w", encoding="ascii") as file:
                file.write(text)
            continue
        with open(path, encoding="ascii") as file:
            if file.read() != text:
                print(f"data/{name} is not what scripts/npu_profiles.py makes; run it", file=sys.stderr)
                wrong = 1
    return wrong


if __name__ == "__main__":
    sys.exit(main())
