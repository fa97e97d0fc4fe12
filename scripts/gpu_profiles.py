#!/usr/bin/env python3
"""Profiles of the GPUs of the DVABatch, E2bird and LazyBatching papers by an analytic model: data/gpu-*.csv.

    scripts/gpu_profiles.py            write them
    scripts/gpu_profiles.py --check    compare what lies in data/ with what would be written
    scripts/gpu_profiles.py --report   parameters and operations of each network, and ours beside what the papers measured

Neither paper publishes a table of latencies by batch size, but for E2bird's table 1 (three networks, four sizes). So the
latency of a network is the sum over its operators, and that of an operator

    launch + max(arithmetic, traffic)
    arithmetic  a product of M x K by K x N is cut into tiles; a tile is one thread block, the SMs take one tile each at a
                time, so that it takes ceil(tiles / SMs) rounds of one tile: occupancy saturates with the number of thread
                blocks. The tile is the one of the library's sizes that is fastest here. A convolution is the product of
                its im2col form (no Winograd).
    traffic     inputs, weights and outputs, each once, through memory

Its demand, the share of the device that it keeps busy while it runs, is the larger of tiles / (SMs x rounds) x arithmetic /
time and traffic / time; while a launch is awaited it is 0. What others can have of the device meanwhile is 1 - demand.

The constants stand below, once, for all networks and figures. None was fitted to a figure that is reproduced here; the
smallest tile is what DVABatch's figure 5 says (a product of 49 b rows does not slow down until b = 8).

Two stacks, as in the papers. `fused` (DVABatch: TensorRT): normalisation, activation and a residual sum are part of the
convolution before them. `plain` (E2bird: cuDNN, operator by operator): normalisation, activation and sum are kernels of
their own.

Networks are those of their public definitions. Input sizes: ImageNet networks 224 x 224 (InceptionV4 299 x 299). DVABatch
does not say what its Unet and LinkNet see: 128 x 128 and 256 x 256 here, since with 256 x 256 a batch of 30 of Unet, which
the paper observed, would break its QoS of 200 ms. BERT without padding to a fixed length, a row of the profile for each of
LENGTHS.

`saturating` (gpu-titanrtx-saturating-*.csv) is `fused` on a device whose terms let half of a large batch take half the time,
as DVABatch's policy II requires: launches are issued ahead, so that a kernel takes at least LAUNCH_S, not LAUNCH_S more; a
kernel fills the SMs evenly once it has as many tiles as there are SMs; weights are fetched behind the kernel before. Times
are rounded down, so that twice the time of half a batch is never more by rounding.

gpu-titanxp-transformer.csv: the Transformer of scripts/npu_profiles.py by nodes on LazyBatching's NVIDIA Titan Xp, fp32, a
kernel per product, per softmax and per normalisation.
"""
import argparse
import math
import os
import sys

import npu_profiles

# ---- the device ----
SMS = 72  # NVIDIA Titan RTX: both papers, and the vendor's Turing whitepaper
PEAK_FLOPS = 16.3e12  # fp32, the vendor's data sheet
BANDWIDTH = 672e9  # bytes/s, the vendor's data sheet
L2_BANDWIDTH = 2.0e12  # bytes/s, between SMs and L2; order of magnitude of published microbenchmarks of Turing
# ---- what software gets out of it: assumptions, typical of the vendor's libraries ----
ARITHMETIC = 0.85  # of the peak, inside a tile
STREAMING = 0.80  # of the bandwidth, for kernels that only move data
LAUNCH_S = 5e-6  # from the end of one kernel to the start of the next
TILES = ((128, 128), (128, 64), (64, 128), (64, 64))
BYTES = 4  # fp32

BATCHES = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)
LENGTHS = (8, 16, 24, 32, 48, 64, 80, 96, 128, 160, 192, 256)
DATA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "data")


# (SMs, peak, bandwidth, L2 bandwidth): the vendor's data sheets; of the Titan Xp's L2 the ratio of the two bandwidths.
TITAN_XP = (30, 12.15e12, 547.7e9, 1.6e12)


def set_device(sms, peak_flops, bandwidth, l2_bandwidth):
    """Another device for all kernels from now on."""
    global SMS, PEAK_FLOPS, BANDWIDTH, L2_BANDWIDTH
    SMS, PEAK_FLOPS, BANDWIDTH, L2_BANDWIDTH = sms, peak_flops, bandwidth, l2_bandwidth


class Cost:
    """Seconds of one kernel at a batch size, and the share of the device that it keeps busy (0 while it is launched)."""

    def __init__(self, arithmetic, occupancy, traffic):
        self.busy = max(arithmetic, traffic)
        self.seconds = LAUNCH_S + self.busy
        self.work = max(arithmetic * occupancy, traffic)  # seconds of the whole device


def product(m, k, n, moved=None, count=1):
    """`count` products of m x k by k x n, in one kernel; `moved` elements of traffic (all three matrices where None)."""
    best = None
    for rows, columns in TILES:
        tiles = count * math.ceil(m / rows) * math.ceil(n / columns)
        rounds = math.ceil(tiles / SMS)
        flops = 2 * rows * columns / (PEAK_FLOPS * ARITHMETIC / SMS)
        fetch = (rows + columns) * BYTES / (L2_BANDWIDTH / SMS)
        seconds = rounds * k * max(flops, fetch)
        if best is None or seconds < best[0]:
            best = (seconds, tiles / (SMS * rounds))
    moved = count * (m * k + k * n + m * n) if moved is None else moved
    return Cost(best[0], best[1], moved * BYTES / BANDWIDTH)


def stream(elements):
    """A kernel that moves so many elements and computes next to nothing."""
    return Cost(0.0, 0.0, elements * BYTES / (BANDWIDTH * STREAMING))


class Network:
    """Operators in topological order: (name, parameters, multiplications(batch, length), [Cost](batch, length))."""

    def __init__(self, fused, size=0, channels=3):
        self.fused, self.operators = fused, []
        self.height = self.width = size
        self.channels = channels

    def add(self, name, parameters, multiplications, costs):
        self.operators.append((name, parameters, multiplications, costs))

    def conv(self, name, outputs, kernel, stride=1, pad=None, norm=True, act=True, add=False, source=None):
        """From the present map (or source = (channels, height, width)); the map becomes its output. `add`: a residual."""
        kernel = kernel if isinstance(kernel, tuple) else (kernel, kernel)
        pad = (kernel[0] // 2, kernel[1] // 2) if pad is None else (pad, pad)
        inputs, h, w = source or (self.channels, self.height, self.width)
        oh, ow = (h + 2 * pad[0] - kernel[0]) // stride + 1, (w + 2 * pad[1] - kernel[1]) // stride + 1
        k = inputs * kernel[0] * kernel[1]

        def costs(b, _length):
            out = b * oh * ow * outputs
            moved = b * inputs * h * w + k * outputs + out * (2 if add and self.fused else 1)
            list_ = [product(b * oh * ow, k, outputs, moved)]
            if not self.fused:
                list_ += [stream(2 * out)] * (norm + act) + ([stream(3 * out)] if add else [])
            return list_

        self.add(name, k * outputs + (2 if norm else 1) * outputs, lambda b, _l: b * oh * ow * k * outputs, costs)
        self.channels, self.height, self.width = outputs, oh, ow

    def up(self, name, outputs, kernel=2, norm=False, act=False):
        """A transposed convolution that doubles the map."""
        inputs, h, w = self.channels, self.height, self.width
        n, oh, ow = outputs * kernel * kernel, 2 * h, 2 * w

        def costs(b, _length):
            out = b * oh * ow * outputs
            moved = b * inputs * h * w + inputs * n + out
            return [product(b * h * w, inputs, n, moved)] + ([] if self.fused else [stream(2 * out)] * (norm + act))

        self.add(name, inputs * n + (2 if norm else 1) * outputs, lambda b, _l: b * h * w * inputs * n, costs)
        self.channels, self.height, self.width = outputs, oh, ow

    def pool(self, name, kernel=2, stride=2, pad=0, source=None):
        inputs, h, w = source or (self.channels, self.height, self.width)
        oh, ow = (h + 2 * pad - kernel) // stride + 1, (w + 2 * pad - kernel) // stride + 1
        self.add(name, 0, lambda b, _l: 0, lambda b, _l: [stream(b * inputs * (h * w + oh * ow))])
        self.channels, self.height, self.width = inputs, oh, ow

    def dense(self, name, outputs, inputs=None, act=False):
        inputs = inputs or self.channels * self.height * self.width

        def costs(b, _length):
            return [product(b, inputs, outputs)] + ([stream(2 * b * outputs)] if act and not self.fused else [])

        self.add(name, inputs * outputs + outputs, lambda b, _l: b * inputs * outputs, costs)
        self.channels, self.height, self.width = outputs, 1, 1

    def map(self):
        return (self.channels, self.height, self.width)

    # -- figures of the whole --

    def parameters(self):
        return sum(o[1] for o in self.operators)

    def multiplications(self, length=0):
        return sum(o[2](1, length) for o in self.operators)

    def seconds(self, batch, length=0, first=0, end=None):
        return sum(c.seconds for o in self.operators[first:end] for c in o[3](batch, length))

    def demand(self, batch, length=0, first=0, end=None):
        work = sum(c.work for o in self.operators[first:end] for c in o[3](batch, length))
        return min(1.0, work / self.seconds(batch, length, first, end))

    def stages(self, count, batch, length):
        """[first, end) of `count` stages of about equal time at that batch, cut between operators (D1)."""
        times = [sum(c.seconds for c in o[3](batch, length)) for o in self.operators]
        total, ends, passed = sum(times), [], 0.0
        for index, seconds in enumerate(times):
            while len(ends) < count - 1 and passed + seconds / 2 >= total * (len(ends) + 1) / count:
                ends.append(max(index, ends[-1] + 1 if ends else 1))
            passed += seconds
        ends = ends + [len(times)] * (count - len(ends))
        return list(zip([0] + ends[:-1], ends))


# ---- the networks ----


def resnet(blocks, fused):
    n = Network(fused, 224)
    n.conv("conv1", 64, 7, 2)
    n.pool("pool1", 3, 2, 1)
    for stage, (count, width) in enumerate(zip(blocks, (64, 128, 256, 512)), start=2):
        for block in range(count):
            stride = 2 if block == 0 and stage > 2 else 1
            before = n.map()
            if block == 0:
                n.conv(f"res{stage}_{block}_skip", 4 * width, 1, stride, act=False)
            n.conv(f"res{stage}_{block}_1", width, 1, source=before)
            n.conv(f"res{stage}_{block}_2", width, 3, stride)
            n.conv(f"res{stage}_{block}_3", 4 * width, 1, add=True)
    n.pool("pool5", 7, 1)
    n.dense("fc", 1000)
    return n


def vgg(layers, fused):
    n = Network(fused, 224)
    for stage, (count, width) in enumerate(zip(layers, (64, 128, 256, 512, 512)), start=1):
        for layer in range(count):
            n.conv(f"conv{stage}_{layer + 1}", width, 3, norm=False)
        n.pool(f"pool{stage}")
    n.dense("fc6", 4096, act=True)
    n.dense("fc7", 4096, act=True)
    n.dense("fc8", 1000)
    return n


def unet(fused, size=128):
    """31.0 M parameters; padded convolutions, transposed convolutions upward, two classes."""
    n, skips = Network(fused, size), []
    for level, width in enumerate((64, 128, 256, 512, 1024)):
        if level:
            n.pool(f"pool{level}")
        n.conv(f"down{level}_1", width, 3, norm=False)
        n.conv(f"down{level}_2", width, 3, norm=False)
        skips.append(width)
    for level in (3, 2, 1, 0):
        width = skips[level]
        n.up(f"up{level}", width)
        n.channels += width  # beside the map that comes across
        n.conv(f"up{level}_1", width, 3, norm=False)
        n.conv(f"up{level}_2", width, 3, norm=False)
    n.conv("classes", 2, 1, norm=False, act=False)
    return n


def linknet(fused, size=256):
    """ResNet18 as encoder; decoders of 1 x 1, transposed 3 x 3, 1 x 1."""
    n = Network(fused, size)
    n.conv("conv1", 64, 7, 2)
    n.pool("pool1", 3, 2, 1)
    for stage, width in enumerate((64, 128, 256, 512), start=1):
        for block in range(2):
            stride, before = (2 if block == 0 and stage > 1 else 1), n.map()
            if stride == 2:
                n.conv(f"enc{stage}_{block}_skip", width, 1, stride, act=False)
            n.conv(f"enc{stage}_{block}_1", width, 3, stride, source=before)
            n.conv(f"enc{stage}_{block}_2", width, 3, add=True)
    for stage, width in ((4, 256), (3, 128), (2, 64), (1, 64)):
        inner = n.channels // 4
        n.conv(f"dec{stage}_1", inner, 1)
        if stage > 1:
            n.up(f"dec{stage}_2", inner, 3, norm=True, act=True)
        else:
            n.conv(f"dec{stage}_2", inner, 3)
        n.conv(f"dec{stage}_3", width, 1, add=stage > 1)
    n.up("final1", 32, 3, norm=True, act=True)
    n.conv("final2", 32, 3)
    n.up("classes", 2, 2)
    return n


def inception_v4(fused):
    """Szegedy et al. 2016, figures 3-9; 42.7 M parameters."""
    n = Network(fused, 299)

    def branches(name, *lists):
        """Each branch is a list of (outputs, kernel, stride, pad) or "pool"; outputs side by side."""
        before, channels, after = n.map(), 0, None
        for index, branch in enumerate(lists):
            n.channels, n.height, n.width = before
            for depth, step in enumerate(branch):
                at = f"{name}_{index}{chr(ord('a') + depth)}"
                if step[0] == "pool":
                    n.pool(at, *step[1:])
                elif step[0] == "fork":  # the last convolution's two heads on one map
                    fork = n.map()
                    for head, kernel in enumerate(step[2]):
                        n.conv(f"{at}{head}", step[1], kernel, source=fork)
                    n.channels = 2 * step[1]
                else:
                    n.conv(at, step[0], step[1], *step[2:])
            channels += n.channels
            after = n.map()
        n.channels, n.height, n.width = channels, after[1], after[2]

    n.conv("stem1", 32, 3, 2, 0)
    n.conv("stem2", 32, 3, 1, 0)
    n.conv("stem3", 64, 3)
    branches("stem4", [("pool", 3, 2)], [(96, 3, 2, 0)])
    branches("stem5", [(64, 1), (96, 3, 1, 0)], [(64, 1), (64, (7, 1)), (64, (1, 7)), (96, 3, 1, 0)])
    branches("stem6", [(192, 3, 2, 0)], [("pool", 3, 2)])
    for i in range(4):
        branches(f"a{i}", [("pool", 3, 1, 1), (96, 1)], [(96, 1)], [(64, 1), (96, 3)], [(64, 1), (96, 3), (96, 3)])
    branches("reduce_a", [("pool", 3, 2)], [(384, 3, 2, 0)], [(192, 1), (224, 3), (256, 3, 2, 0)])
    for i in range(7):
        branches(f"b{i}", [("pool", 3, 1, 1), (128, 1)], [(384, 1)], [(192, 1), (224, (1, 7)), (256, (7, 1))],
                 [(192, 1), (192, (1, 7)), (224, (7, 1)), (224, (1, 7)), (256, (7, 1))])
    branches("reduce_b", [("pool", 3, 2)], [(192, 1), (192, 3, 2, 0)],
             [(256, 1), (256, (1, 7)), (320, (7, 1)), (320, 3, 2, 0)])
    for i in range(3):
        branches(f"c{i}", [("pool", 3, 1, 1), (256, 1)], [(256, 1)], [(384, 1), ("fork", 256, ((1, 3), (3, 1)))],
                 [(384, 1), (448, (1, 3)), (512, (3, 1)), ("fork", 256, ((1, 3), (3, 1)))])
    n.pool("pool", 8, 1)
    n.dense("fc", 1000)
    return n


def bert(layers, hidden, heads, fused):
    n = Network(fused)
    n.add("embeddings", 30522 * hidden + 514 * hidden + 2 * hidden, lambda b, t: 0, lambda b, t: [stream(4 * b * t * hidden)])

    def dense(name, inputs, outputs, extra):
        def costs(b, t):
            after = [] if fused and extra == "act" else [stream((3 if extra == "sum" else 2) * b * t * outputs)]
            return [product(b * t, inputs, outputs)] + (after if extra else [])

        parameters = inputs * outputs + outputs + (2 * outputs if extra == "sum" else 0)
        n.add(name, parameters, lambda b, t: b * t * inputs * outputs, costs)

    for layer in range(layers):
        dense(f"layer{layer}_qkv", hidden, 3 * hidden, None)
        each = hidden // heads
        n.add(f"layer{layer}_attention", 0, lambda b, t: 2 * b * heads * t * t * each,
              lambda b, t: [product(t, each, t, count=b * heads), stream(2 * b * heads * t * t),
                            product(t, t, each, count=b * heads)])
        dense(f"layer{layer}_out", hidden, hidden, "sum")
        dense(f"layer{layer}_up", hidden, 4 * hidden, "act")
        dense(f"layer{layer}_down", 4 * hidden, hidden, "sum")
    n.add("pooler", hidden * hidden + hidden, lambda b, t: b * hidden * hidden, lambda b, t: [product(b, hidden, hidden)])
    return n


RESNETS = {"resnet50": (3, 4, 6, 3), "resnet101": (3, 4, 23, 3), "resnet152": (3, 8, 36, 3)}


def network(name, fused):
    if name in RESNETS:
        return resnet(RESNETS[name], fused)
    return {"vgg16": lambda: vgg((2, 2, 3, 3, 3), fused), "vgg19": lambda: vgg((2, 2, 4, 4, 4), fused),
            "unet": lambda: unet(fused), "linknet": lambda: linknet(fused), "inceptionv4": lambda: inception_v4(fused),
            "bertbase": lambda: bert(12, 768, 12, fused), "bertlarge": lambda: bert(24, 1024, 16, fused)}[name]()


# ---- what is written ----

# (file, network, fused, stages). DVABatch: the numbers of stages of its figure 20; E2bird: eight pieces, so that what a
# worker leaves of the device changes along the network as it does on a GPU.
DVABATCH = [("bertlarge", 2), ("unet", 4), ("vgg19", 4)] + [
    (name, count) for name in ("bertbase", "linknet", "resnet152") for count in (1, 2, 4, 8, 20)]
E2BIRD = ["inceptionv4", "resnet50", "resnet101", "resnet152", "vgg16", "vgg19"]

# E2bird, table 1: milliseconds.
TABLE1 = {"resnet50": {4: 6.8, 8: 12.1, 16: 21.5, 32: 40.1}, "resnet101": {4: 11.8, 8: 20.6, 16: 36.2, 32: 65.4},
          "resnet152": {4: 17.3, 8: 29.2, 16: 49.5, 32: 93.7}}


def table(name, fused, count, published=None):
    """The CSV of a network in `count` stages. `published`: latencies of the whole to scale to; between and below the
    sizes that it has, by the ratio at the next larger one."""
    n = network(name, fused)
    lengths = LENGTHS if name.startswith("bert") else (0,)
    cuts = n.stages(count, 16, 64 if len(lengths) > 1 else 0)
    batches = BATCHES if not published else [b for b in BATCHES if b <= max(published)]
    lines = ["step,kind,length,batch,latency_ns,demand"]
    for index, (first, end) in enumerate(cuts, start=1):
        for length in lengths:
            for b in batches:
                seconds = n.seconds(b, length, first, end)
                if published:
                    nearest = min(x for x in published if x >= b)
                    seconds *= published[nearest] / 1e3 / n.seconds(nearest, length)
                lines.append(f"stage{index},static,{length},{b},{round(seconds * 1e9)},"
                             f"{n.demand(b, length, first, end):.4f}")
    return "\n".join(lines) + "\n"


# ---- the saturating device ----


def saturating_product(m, k, n, weights, moved):
    """As product(), with rounds that need not be whole, and without the weights' traffic."""
    def seconds(rows, columns):
        rounds = max(1.0, m * n / (rows * columns) / SMS)
        flops = 2 * rows * columns / (PEAK_FLOPS * ARITHMETIC / SMS)
        return rounds * k * max(flops, (rows + columns) * BYTES / (L2_BANDWIDTH / SMS))

    return max(LAUNCH_S, min(seconds(*tile) for tile in TILES), (moved - weights) * BYTES / BANDWIDTH)


def saturating_table(name, count):
    """The CSV of a network in the stages of `fused`, each kernel by saturating_product()."""
    n = network(name, True)
    cuts = n.stages(count, 16, 0)
    lines = ["step,kind,length,batch,latency_ns,demand"]
    seen = []

    def record(m, k, columns, moved=None, count=1):
        assert count == 1
        moved = m * k + k * columns + m * columns if moved is None else moved
        seen.append(saturating_product(m, k, columns, k * columns, moved))
        return Cost(0.0, 0.0, 0.0)

    def record_stream(elements):
        seen.append(max(LAUNCH_S, elements * BYTES / (BANDWIDTH * STREAMING)))
        return Cost(0.0, 0.0, 0.0)

    originals = globals()["product"], globals()["stream"]
    globals()["product"], globals()["stream"] = record, record_stream
    try:
        for index, (first, end) in enumerate(cuts, start=1):
            for b in BATCHES:
                seen.clear()
                for operator in n.operators[first:end]:
                    operator[3](b, 0)
                lines.append(f"stage{index},static,0,{b},{math.floor(sum(seen) * 1e9)},1.0000")
    finally:
        globals()["product"], globals()["stream"] = originals
    return "\n".join(lines) + "\n"


# ---- LazyBatching's Transformer by nodes ----


def transformer_attention(m, length, rows, parts):
    """Products for `parts` matrices of 512 x 512 over m positions, scores of each with `length`, softmax, normalisation."""
    heads, width = 8, 512
    projections = [product(m, width, (parts - 1) * width), product(m, width, width)]
    scores = [product(m // rows, width // heads, length, count=rows * heads),
              product(m // rows, length, width // heads, count=rows * heads)]
    return projections + scores + [stream(2 * m * heads * length), stream(3 * m * width)]


def transformer_ffn(m):
    return [product(m, 512, 2048), product(m, 2048, 512), stream(2 * m * 2048), stream(3 * m * 512)]


def transformer_table():
    source = npu_profiles.length_at("english", 50)
    target = npu_profiles.length_at("german", 50)
    nodes = []
    for layer in range(1, 7):
        nodes.append((f"encoder{layer}_attention", "static", lambda b, t: transformer_attention(b * t, t, b, 4)))
        nodes.append((f"encoder{layer}_ffn", "static", lambda b, t: transformer_ffn(b * t)))
    for layer in range(1, 7):
        nodes.append((f"decoder{layer}_self", "decoder", lambda b, _t: transformer_attention(b, target, b, 4)))
        nodes.append((f"decoder{layer}_cross", "decoder", lambda b, _t: transformer_attention(b, source, b, 2)))
        nodes.append((f"decoder{layer}_ffn", "decoder", lambda b, _t: transformer_ffn(b)))
    nodes.append(("words", "decoder", lambda b, _t: [product(b, 512, 37000), stream(b * 37000)]))
    lines = ["step,kind,length,batch,latency_ns"]
    for name, kind, costs in nodes:
        for length in npu_profiles.LENGTHS if kind == "static" else (0,):
            for b in BATCHES:
                seconds = sum(cost.seconds for cost in costs(b, length))
                lines.append(f"{name},{kind},{length},{b},{round(seconds * 1e9)}")
    return "\n".join(lines) + "\n"


def tables():
    for name, count in DVABATCH:
        yield f"gpu-titanrtx-{name}-{count}.csv", table(name, True, count)
    for name in E2BIRD:
        yield f"gpu-titanrtx-plain-{name}.csv", table(name, False, 8)
    for name, published in TABLE1.items():
        yield f"gpu-titanrtx-table1-{name}.csv", table(name, False, 8, published)
    for name in ("linknet", "unet"):
        yield f"gpu-titanrtx-saturating-{name}.csv", saturating_table(name, 4)
    titan_rtx = SMS, PEAK_FLOPS, BANDWIDTH, L2_BANDWIDTH
    set_device(*TITAN_XP)
    try:
        yield "gpu-titanxp-transformer.csv", transformer_table()
    finally:
        set_device(*titan_rtx)


# ---- beside what is known ----

# Million parameters, and 10^9 multiplications for one input, as the networks' own papers and public implementations have
# them.
KNOWN = {"resnet50": (25.6, 4.1), "resnet101": (44.5, 7.8), "resnet152": (60.2, 11.5), "vgg16": (138.4, 15.5),
         "vgg19": (143.7, 19.6), "inceptionv4": (42.7, 12.3), "unet": (31.0, None), "linknet": (11.5, None),
         "bertbase": (109.5, None), "bertlarge": (335.1, None)}


def report():
    print("network      parameters [10^6]  known   multiplications [10^9]  known   fused: 1, 16, 64 [ms]       demand")
    for name, (parameters, multiplications) in KNOWN.items():
        n, length = network(name, True), 64 if name.startswith("bert") else 0
        print(f"{name:12} {n.parameters() / 1e6:17.1f}  {parameters:5.1f}   {n.multiplications(length) / 1e9:22.2f}  "
              f"{multiplications if multiplications else '-':>5}  "
              + "".join(f"{1e3 * n.seconds(b, length):8.2f}" for b in (1, 16, 64)) + "   "
              + "".join(f"{n.demand(b, length):6.2f}" for b in (1, 16, 64)) + ("   length 64" if length else ""))
    print("\nE2bird, table 1 [ms]     plain      published    ratio     fused   ratio")
    for name, published in TABLE1.items():
        plain, fused = network(name, False), network(name, True)
        for b, ms in published.items():
            ours, other = 1e3 * plain.seconds(b), 1e3 * fused.seconds(b)
            print(f"{name:10} b = {b:2}      {ours:10.1f} {ms:12.1f} {ours / ms:10.2f} {other:9.1f} {other / ms:7.2f}")
    print("\nDVABatch, figure 5: products of 576 columns [us]; A 3136 b x 64 is said to prefer 1 row, B 49 b x 512 is said "
          "to prefer 8")
    for b in (1, 2, 4, 8, 16, 32):
        print(f"  b = {b:2}: A {1e6 * product(3136 * b, 576, 64).seconds:7.0f}   B "
              f"{1e6 * product(49 * b, 576, 512).seconds:7.0f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="compare with data/ instead of writing")
    parser.add_argument("--report", action="store_true", help="print what the model says beside what is known")
    arguments = parser.parse_args()
    if arguments.report:
        report()
        return 0
    stale = []
    for file_name, text in tables():
        path = os.path.join(DATA, file_name)
        if arguments.check:
            try:
                with open(path, encoding="utf-8") as file:
                    same = file.read() == text
            except OSError:
                same = False
            if not same:
                stale.append(file_name)
        else:
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
    for file_name in stale:
        print(f"data/{file_name} is not what scripts/gpu_profiles.py writes; run it", file=sys.stderr)
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
