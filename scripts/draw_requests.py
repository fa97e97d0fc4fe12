#!/usr/bin/env python3
"""Draws requests for models of cells, one JSON object a line, for `tutti load --input-file`.

    draw_requests.py tokens --vocabulary 500 --lengths newstest2015_en --out sentences.jsonl
    draw_requests.py trees --vocabulary 1000 --lengths sst_leaves --out trees.jsonl
    tutti load --model tree64 --input-file trees.jsonl --rate 200

Lengths (words, or leaves of a tree) are a number, a range A-B, or a column of
data/length-and-gap-quantiles.csv: of texts that people wrote. Trees have the shape of parsed
sentences: every second time one word and the rest, else cut anywhere. The same seed gives the same
requests.
"""
import argparse
import csv
import json
import pathlib
import random
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
QUANTILES = ROOT / "data" / "length-and-gap-quantiles.csv"
FIRST_WORD = 3  # what is below has a meaning of its own


def give_up(message):
    print("draw_requests: " + message, file=sys.stderr)
    sys.exit(2)


def parse_arguments():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("kind", choices=("tokens", "trees"))
    parser.add_argument("--vocabulary", type=int, required=True, metavar="N", help="tokens are 3 .. N-1")
    parser.add_argument("--lengths", default="newstest2015_en", metavar="N|A-B|COLUMN")
    parser.add_argument("--longest", type=int, default=512, metavar="N", help="what is longer is drawn anew")
    parser.add_argument("--count", type=int, default=1000, metavar="N")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", metavar="FILE", help="else standard output")
    return parser.parse_args()


def read_quantiles(column):
    """[(share, length)], ascending."""
    with open(QUANTILES, newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    if column not in rows[0]:
        known = ", ".join(name for name in rows[0] if name != "percentile")
        give_up("--lengths %s: a number, a range A-B, or one of: %s" % (column, known))
    return [(float(row["percentile"]) / 100, float(row[column])) for row in rows if row[column]]


def length_drawer(text, draw):
    first, dash, last = text.partition("-")
    if first.isdigit() and (last.isdigit() if dash else not last):
        low, high = int(first), int(last) if dash else int(first)
        if not 1 <= low <= high:
            give_up("--lengths %s: 1 or more, the smaller one first" % text)
        return lambda: draw.randint(low, high)
    points = read_quantiles(text)

    def between():
        share = draw.random()
        for (low, a), (high, b) in zip(points, points[1:]):
            if share <= high:
                return max(1, round(a + (b - a) * (share - low) / (high - low)))
        return max(1, round(points[-1][1]))

    return between


def tree_arrays(leaves, draw, token):
    """Nodes from the root on, without recursion: a sentence may be a deep tree."""
    tokens, left, right = [0], [-1], [-1]
    open_nodes = [(0, leaves)]
    while open_nodes:
        node, count = open_nodes.pop()
        if count == 1:
            tokens[node] = token()
            continue
        cut = 1 if draw.random() < 0.5 else draw.randint(1, count - 1)
        for children, size in ((left, cut), (right, count - cut)):
            children[node] = len(tokens)
            open_nodes.append((len(tokens), size))
            for array, value in ((tokens, 0), (left, -1), (right, -1)):
                array.append(value)
    return {"tokens": tokens, "left": left, "right": right}


def request(arrays):
    return {
        "inputs": [
            {"name": name, "datatype": "INT64", "shape": [1, len(values)], "data": values}
            for name, values in arrays.items()
        ]
    }


def main():
    arguments = parse_arguments()
    if arguments.vocabulary <= FIRST_WORD or arguments.count < 1 or arguments.longest < 1:
        give_up("--vocabulary is more than %d, --count and --longest are 1 or more" % FIRST_WORD)
    draw = random.Random(arguments.seed)
    length = length_drawer(arguments.lengths, draw)
    out = open(arguments.out, "w", encoding="utf-8") if arguments.out else sys.stdout
    made = tries = 0
    while made < arguments.count:
        tries += 1
        if tries > 1000 * (made + 1):
            give_up("--longest %d: hardly any length is as short as that" % arguments.longest)
        count = length()
        if count > arguments.longest:
            continue

        def token():
            return draw.randrange(FIRST_WORD, arguments.vocabulary)

        if arguments.kind == "trees":
            arrays = tree_arrays(count, draw, token)
        else:
            arrays = {"tokens": [token() for _ in range(count)]}
        out.write(json.dumps(request(arrays), separators=(",", ":")) + "\n")
        made += 1
    if arguments.out:
        out.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
