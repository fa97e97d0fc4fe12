#!/usr/bin/env python3
"""Measures the tree: sizes, circles, language, and names that leak through the interfaces.

    tree_report.py [--build DIR] [--json]

Prints a table per folder of src, then one figure a line. Circles of calls are read from the object files in DIR
(build): a circle is a set of files of one folder that call each other directly or through others.
"""
import argparse
import collections
import json
import pathlib
import re
import statistics
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import check_language  # noqa: E402
import check_layers  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parent.parent
SRC = ROOT / "src"
COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.S)
PUBLIC = re.compile(r"^(?!static|typedef|struct|enum|union|extern|#|/|\*|\s)[^;{}]*?\btt_\w+\s*\([^;{}]*\)[^;{}]*;", re.M)


def quantile(values, share):
    values = sorted(values)
    return values[min(len(values) - 1, int(share * len(values)))] if values else 0


def circles(edges):
    """Strongly connected sets of more than one node (Tarjan)."""
    index, low, stack, on_stack, found = {}, {}, [], set(), []

    def visit(node):
        index[node] = low[node] = len(index)
        stack.append(node)
        on_stack.add(node)
        for other in edges.get(node, ()):
            if other not in index:
                visit(other)
                low[node] = min(low[node], low[other])
            elif other in on_stack:
                low[node] = min(low[node], index[other])
        if low[node] == index[node]:
            members = []
            while not members or members[-1] != node:
                members.append(stack.pop())
                on_stack.discard(members[-1])
            if len(members) > 1:
                found.append(sorted(members))

    sys.setrecursionlimit(10000)
    for node in list(edges):
        if node not in index:
            visit(node)
    return sorted(found, key=len, reverse=True)


class File:
    def __init__(self, path):
        self.path = path
        self.folder = str(path.parent.relative_to(SRC))
        text = path.read_text(encoding="utf-8")
        self.lines = text.count("\n")
        self.comment_lines = sum(m.group().count("\n") + 1 for m in COMMENT.finditer(text))
        code = check_layers.code_only(text)
        self.functions = [code.count("\n", first, last) + 1 for _, _, first, last in check_layers.functions(code)]
        self.asserts = len(re.findall(r"\btt_assert\(", code))
        self.public = len(PUBLIC.findall(code)) if path.suffix == ".h" else 0
        self.includes = re.findall(r'^#include "([^"]+)"', text, re.M)
        self.text, self.code = text, code


def folder_circles(files):
    edges = collections.defaultdict(set)
    for file in files:
        for name in file.includes:
            target = name.rpartition("/")[0]
            if target and target != file.folder:
                edges[file.folder].add(target)
    return circles(edges)


def call_circles(build):
    """Circles of files of one folder, by the symbols that their objects define and use."""
    defined, used = {}, collections.defaultdict(set)
    objects = [p for p in pathlib.Path(build).rglob("*.c.o") if "/src/" in str(p) and "tests" not in p.parts]
    # A build folder keeps the objects of files that are gone.
    objects = [p for p in objects if (SRC / str(p).split("/src/", 1)[1][: -len(".o")]).exists()]
    for path in objects:
        name = str(path).split("/src/", 1)[1].removesuffix(".c.o")
        for line in subprocess.run(["nm", path], capture_output=True, text=True).stdout.splitlines():
            fields = line.split()
            if len(fields) == 3 and fields[1] in "TDBR":
                defined[fields[2]] = name
            elif len(fields) == 2 and fields[0] == "U":
                used[name].add(fields[1])
    edges = collections.defaultdict(set)
    for name, symbols in used.items():
        for symbol in symbols:
            target = defined.get(symbol)
            if target and target != name and target.rpartition("/")[0] == name.rpartition("/")[0]:
                edges[name].add(target)
    return circles(edges), len(objects)


def policy_names():
    text = (SRC / "policy/registry.c").read_text(encoding="utf-8")
    return re.findall(r"^\s*X\((\w+)\)", text, re.M)


def leaks(files):
    """Places outside src/policy and src/engine that recognise a policy or an engine by its name or its callbacks."""
    names = "|".join(policy_names())
    patterns = {
        "policy names compared": re.compile(rf'str\w*cmp\([^;"]*(?:polic|name)[^;"]*"(?:{names})"'),
        "policy callbacks asked for": re.compile(r"ops->(released|ready|max_tasks)\b(?!\()"),
        "engine types outside engine": re.compile(r"\b(?:tt_ort_|tt_emulated_engine|is_emulated)\w*"),
    }
    counts = collections.Counter({what: 0 for what in patterns})
    for file in files:
        top = file.folder.split("/")[0]
        text = COMMENT.sub("", file.text)
        for what, pattern in patterns.items():
            home = "engine" if what.startswith("engine") else "policy"
            if top not in (home, "core"):
                counts[what] += len(pattern.findall(text))
    return counts


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--build", default=str(ROOT / "build"))
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    files = [File(p) for p in sorted(SRC.rglob("*")) if p.suffix in (".c", ".h")]
    by_folder = collections.defaultdict(list)
    for file in files:
        by_folder[file.folder].append(file)
    rows = []
    for folder in sorted(by_folder, key=lambda f: (check_layers.LAYER_OF.get(f, 99), f)):
        own = by_folder[folder]
        sources = [f for f in own if f.path.suffix == ".c"]
        functions = [n for f in own for n in f.functions]
        headers = [f.public for f in own if f.path.suffix == ".h"]
        lines = sum(f.lines for f in own)
        checker = check_language.Checker()
        for file in own:
            checker.check(file.path)
        rows.append({
            "folder": folder, "modules": len({f.path.stem for f in own}), "lines": lines,
            "c_median": int(statistics.median([f.lines for f in sources] or [0])),
            "c_max": max([f.lines for f in sources], default=0),
            "function_p50": quantile(functions, 0.5), "function_p95": quantile(functions, 0.95),
            "function_max": max(functions, default=0),
            "comment_percent": round(100 * sum(f.comment_lines for f in own) / max(1, lines), 1),
            "public_max": max(headers, default=0),
            "lines_per_assert": lines // max(1, sum(f.asserts for f in own)),
            "phrases": sum(1 for p in checker.problems if p[2] != "long"),
        })  # fmt: skip
    functions = [n for f in files for n in f.functions]
    calls, objects = call_circles(options.build)
    checker = check_language.Checker()
    for path in check_language.all_files():
        checker.check(path)
    words = sum(checker.words.values())
    totals = {
        "lines of src": sum(f.lines for f in files),
        "files of src": len(files),
        "files over 500 lines": sum(f.lines > 500 for f in files),
        "largest file": max(f.lines for f in files),
        "functions over 70 lines": sum(n > 70 for n in functions),
        "function p50 / p95 / max": [quantile(functions, 0.5), quantile(functions, 0.95), max(functions)],
        "most modules in a folder": max(r["modules"] for r in rows),
        "comment lines, percent": round(100 * sum(f.comment_lines for f in files) / sum(f.lines for f in files), 1),
        "lines per assertion": sum(f.lines for f in files) // sum(f.asserts for f in files),
        "circles between folders": folder_circles(files),
        "circles of calls within folders": calls if objects else "no object files: build first",
        "rejected phrases": len(checker.problems),
        "rejected phrases per 1000 words": round(1000 * len(checker.problems) / max(1, words), 2),
        **leaks(files),
    }
    if options.json:
        print(json.dumps({"folders": rows, "totals": totals}, indent=1))
        return 0
    columns = list(rows[0])
    widths = [max(len(c), *(len(str(r[c])) for r in rows)) for c in columns]
    for line in [dict(zip(columns, columns)), *rows]:
        print("  ".join(str(line[c]).ljust(w) if i == 0 else str(line[c]).rjust(w)
                        for i, (c, w) in enumerate(zip(columns, widths))))  # fmt: skip
    print()
    for name, value in totals.items():
        if isinstance(value, list) and value and isinstance(value[0], list):
            print(f"{name}: {len(value)}")
            for members in value:
                print(f"    {' - '.join(members)}")
        else:
            print(f"{name}: {0 if value == [] else value}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
