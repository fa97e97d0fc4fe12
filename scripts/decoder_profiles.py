#!/usr/bin/env python3
"""A decoder of 13 billion weights on an A100, as a roofline model: data/a100-decoder13b.csv, data/chat-lengths.csv.

    scripts/decoder_profiles.py            write them
    scripts/decoder_profiles.py --check    compare what lies in data/ with what would be written

Nothing is measured. A step takes the longer of two times: its multiply-adds at the peak rate of the tensor cores (fp16,
dense), and its bytes at the peak rate of the memory. Both rates are those of NVIDIA's data sheet of the A100 80GB SXM: 312
TFLOPS and 2039 GB/s. Kernels reach less, so real times are longer; their proportions are what counts.

The decoder has the sizes of OPT-13B: 13.0 billion weights in fp16, 40 layers, 5120 hidden units. Keys and values of a token
are 2 x 40 x 5120 x 2 bytes = 0.82 MB.

  prefill  reads a prompt of p tokens: 2 x 13.0e9 x p operations, and 2 x 40 x 5120 x p^2 of causal attention, for each
           row; all weights once, and the keys and values that it writes
  decode   writes one token: 2 x 13.0e9 operations for each row; all weights once, and a cache for each row. The cache is of
           CONTEXT tokens, the mean prompt and half of the mean answer; that longer ones take longer is left out

Lengths: lognormals (sigma 1) with the means that the vLLM paper gives for ShareGPT, 161 tokens in and 338 out, cut at 2048;
`long` has prompts of 1000 and answers of 100 in the mean. A request draws one percentile for both: long prompts have long
answers.
"""
import argparse
import math
import os
import statistics
import sys

PEAK_FLOPS, PEAK_BYTES = 312e12, 2039e9
WEIGHTS, LAYERS, HIDDEN, BYTES = 13.0e9, 40, 5120, 2
CACHE_BYTES = 2 * LAYERS * HIDDEN * BYTES
CONTEXT = 161 + 338 // 2
SIGMA, LONGEST = 1.0, 2048
PROMPTS = (16, 32, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048)
BATCHES = (1, 2, 4, 8, 16, 32, 64)
DATA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "data")


def time_ns(flops, moved):
    return round(1e9 * max(flops / PEAK_FLOPS, moved / PEAK_BYTES))


def prefill_ns(rows, prompt):
    flops = rows * (2 * WEIGHTS * prompt + 2 * LAYERS * HIDDEN * prompt**2)
    return time_ns(flops, WEIGHTS * BYTES + rows * prompt * CACHE_BYTES)


def decode_ns(rows):
    return time_ns(rows * 2 * WEIGHTS, WEIGHTS * BYTES + rows * CONTEXT * CACHE_BYTES)


def steps():
    lines = ["step,kind,length,batch,latency_ns"]
    for prompt in PROMPTS:
        lines += ["prefill,static,%d,%d,%d" % (prompt, rows, prefill_ns(rows, prompt)) for rows in BATCHES]
    lines += ["decode,decoder,0,%d,%d" % (rows, decode_ns(rows)) for rows in BATCHES]
    return "\n".join(lines) + "\n"


def lengths():
    means = (161, 338, 1000, 100)
    normals = [statistics.NormalDist(math.log(mean) - SIGMA**2 / 2, SIGMA) for mean in means]

    def cut(normal, share):
        """The quantile of those that are at most LONGEST."""
        below = normal.cdf(math.log(LONGEST))
        share = min(max(share * below, 1e-9), below - 1e-12)
        return max(1, min(LONGEST, round(math.exp(normal.inv_cdf(share)))))

    lines = ["percentile,prompt,answer,long_prompt,short_answer"]
    for percentile in [*range(100), 99.5, 99.9, 100]:
        lines.append("%g,%d,%d,%d,%d" % (percentile, *(cut(normal, percentile / 100) for normal in normals)))
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    wrong = False
    for name, text in {"a100-decoder13b.csv": steps(), "chat-lengths.csv": lengths()}.items():
        path = os.path.join(DATA, name)
        if not arguments.check:
            with open(path, "w", encoding="utf-8") as out:
                out.write(text)
        elif not os.path.isfile(path) or open(path, encoding="utf-8").read() != text:
            print(f"data/{name} is not what scripts/decoder_profiles.py makes; run it", file=sys.stderr)
            wrong = True
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
