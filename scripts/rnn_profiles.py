#!/usr/bin/env python3
"""Profiles of BatchMaker's cells on its GPU, and the lengths of its sentences: data/v100-CELLS.csv, data/wmt15-lengths.csv.

    scripts/rnn_profiles.py            write them
    scripts/rnn_profiles.py --check    compare what lies in data/ with what would be written

Published (sections 7.2 and 7.3): a step of the LSTM with 1024 hidden units takes 185 us at a batch of 64 and about as long
at any smaller one, 784 us at 512. In between we draw the straight line.

  lstm      that cell
  seq2seq   an encoder of that cell, and a decoder: the paper says that decoding is about 75 % of the computation, where
            both run about equally often, so a decoder cell takes three times as long as an encoder cell; batches of 512
            and 256 are the best of each (lstm512-256), or 256 for both (lstm256-256)
  tree      binary TreeLSTM: the multiply-adds of the cells in hidden units h, 3 h^2 for a leaf (no forget gate, no child)
            and 10 h^2 for an inner node, against 8 h^2 of the LSTM; times in that proportion, batches of 64

Lengths: the paper states a mean of 24, 99 % below 100, and at most 330. wmt15 is the lognormal of that (mu 2.91, sigma
0.73), cut at 330; cap50 and cap100 are the sentences of it that are not longer than that; fixed24 and leaves16 are constant.
"""
import argparse
import math
import os
import statistics
import sys

FLAT_ROWS, FLAT_US, FULL_ROWS, FULL_US = 64, 185.0, 512, 784.0
BATCHES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
MU, SIGMA, LONGEST = 2.91, 0.73, 330
DATA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "data")


def lstm_us(rows):
    if rows <= FLAT_ROWS:
        return FLAT_US
    return FLAT_US + (rows - FLAT_ROWS) * (FULL_US - FLAT_US) / (FULL_ROWS - FLAT_ROWS)


def table(steps):
    """steps: (name, kind, factor, largest batch)."""
    lines = ["step,kind,batch,latency_ns"]
    for name, kind, factor, largest in steps:
        for rows in BATCHES:
            if rows <= largest:
                lines.append("%s,%s,%d,%d" % (name, kind, rows, round(1000 * factor * lstm_us(rows))))
    return "\n".join(lines) + "\n"


def lengths():
    normal = statistics.NormalDist(MU, SIGMA)

    def cut(share, longest):
        """The quantile of the sentences that are at most so long."""
        below = normal.cdf(math.log(longest))
        share = min(max(share * below, 1e-9), below - 1e-12)
        return max(1, min(longest, round(math.exp(normal.inv_cdf(share)))))

    lines = ["percentile,wmt15,cap50,cap100,fixed24,leaves16"]
    for percentile in [*range(100), 99.25, 99.5, 99.75, 99.9, 99.95, 99.99, 99.999, 100]:
        share = percentile / 100
        row = [cut(share, longest) for longest in (LONGEST, 50, 100)]
        lines.append("%g,%d,%d,%d,24,16" % (percentile, *row))
    return "\n".join(lines) + "\n"


def files():
    return {
        "v100-lstm.csv": table([("lstm", "encoder", 1, 512)]),
        "v100-seq2seq512-256.csv": table([("encoder", "encoder", 1, 512), ("decoder", "decoder", 3, 256)]),
        "v100-seq2seq256-256.csv": table([("encoder", "encoder", 1, 256), ("decoder", "decoder", 3, 256)]),
        "v100-tree.csv": table([("leaf", "static", 3 / 8, 64), ("node", "static", 10 / 8, 64)]),
        "wmt15-lengths.csv": lengths(),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    wrong = False
    for name, text in files().items():
        path = os.path.join(DATA, name)
        if not arguments.check:
            with open(path, "w", encoding="utf-8") as out:
                out.write(text)
        elif not os.path.isfile(path) or open(path, encoding="utf-8").read() != text:
            print(f"data/{name} is not what scripts/rnn_profiles.py makes; run it", file=sys.stderr)
            wrong = True
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
