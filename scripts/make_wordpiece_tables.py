#!/usr/bin/env python3
"""Writes src/engine/wordpiece/wordpiece_tables.c: what PyPI's tokenizers (BertNormalizer in lower case, BertPreTokenizer)
does with each code point. `--check` compares the file instead. Rows are found, not written by hand, so that the two agree
whatever release of Unicode either knows."""
import argparse
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
FILE = ROOT / "src" / "engine" / "wordpiece" / "wordpiece_tables.c"
HANGUL = range(0xAC00, 0xD7A4)  # decomposed by arithmetic, in the code


def ranges(points):
    found = []
    for c in points:
        if found and found[-1][1] == c - 1:
            found[-1][1] = c
        else:
            found.append([c, c])
    return found


def runs(folds):
    """(first, count, step, to, to_step): code points first, first + step, ... fold to `to`, to + to_step, ..."""
    found = []
    for c, to in folds:
        if found:
            run = found[-1]
            first, count, step, start, to_step = run
            if count == 1 and c - first in (1, 2) and to - start in (0, 1, 2):
                found[-1] = (first, 2, c - first, start, to - start)
                continue
            if count > 1 and c == first + count * step and to == start + count * to_step:
                found[-1] = (first, count + 1, step, start, to_step)
                continue
        found.append((c, 1, 1, to, 0))
    return found


def table(kind, name, rows):
    body = ", ".join("{%s}" % ", ".join("0x%x" % value if i in (0, 3) or kind == "tt_code_range" else str(value)
                                        for i, value in enumerate(row)) for row in rows)
    return "const struct %s %s[] = {%s};\nconst int32_t %s_count = TT_COUNT(%s);\n" % (kind, name, body, name, name)


def text():
    from tokenizers.normalizers import BertNormalizer
    from tokenizers.pre_tokenizers import BertPreTokenizer

    normalizer = BertNormalizer(lowercase=True)
    splitter = BertPreTokenizer()
    removed, spaces, punctuation, single, several = [], [], [], [], []
    for c in [*range(0xD800), *range(0xE000, 0x110000)]:
        if c in HANGUL:
            continue
        to = normalizer.normalize_str(chr(c))
        if to in ("", " "):
            (spaces if to else removed).append(c)
            continue
        bare = to.strip(" ")
        if len(bare) == 1 and bare != chr(c):
            single.append((c, ord(bare)))
        elif len(bare) > 1:
            several.append((c, *map(ord, bare), *[0] * (4 - len(bare))))
        if len(splitter.pre_tokenize_str("a%sa" % bare[0])) == 3:
            punctuation.append(c)
    out = '/* Written by scripts/make_wordpiece_tables.py. */\n#include "engine/wordpiece/wordpiece_tables.h"\n\n'
    out += '#include "base/err.h"\n\n'
    for name, points in (("removed", removed), ("spaces", spaces), ("punctuation", punctuation)):
        out += table("tt_code_range", "tt_wordpiece_" + name, ranges(points)) + "\n"
    out += table("tt_fold_run", "tt_wordpiece_folds", runs(single)) + "\n"
    rows = ", ".join("{0x%x, {%s}}" % (row[0], ", ".join("0x%x" % to for to in row[1:])) for row in several)
    out += "const struct tt_expansion tt_wordpiece_expansions[] = {%s};\n" % rows
    out += "const int32_t tt_wordpiece_expansions_count = TT_COUNT(tt_wordpiece_expansions);\n"
    return subprocess.run(["clang-format", "--style=file", "--assume-filename", str(FILE)], input=out, text=True,
                          capture_output=True, check=True).stdout  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    made = text()
    if not parser.parse_args().check:
        FILE.write_text(made)
    elif FILE.read_text() != made:
        sys.exit("%s differs from what the installed tokenizers does" % FILE)


if __name__ == "__main__":
    main()
