#!/usr/bin/env python3
"""Writes the golden values of facts/*.pbtxt from outputs of `tutti reproduce SYSTEM --json`, full and --quick.

A golden value is what a later run must give again within 2 %. Only facts that have one already are changed; a value of 0
becomes a bound. Prints each value that was another one, so that a commit can list it with its reason.

    build/tutti reproduce symphony --json > full.json
    build/tutti reproduce symphony --quick --json > quick.json
    scripts/record_facts.py full.json quick.json
"""
import json
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]


def values_of(paths):
    """{system: {(id, key): value}} of all rows that have a value."""
    found = {}
    for path in paths:
        content = json.loads(pathlib.Path(path).read_text())
        for system in content.get("systems", [content]):
            key = "golden_quick" if system["quick"] else "golden"
            rows = found.setdefault(system["system"], {})
            for row in [*system["published"], *system["regression"]]:
                if row["ours"] is not None:
                    rows[row["id"], key] = row["ours"]
    return found


def recorded(name, holds, values):
    """The text of `holds { ... }` with the values of the fact."""
    for key in ("golden", "golden_quick"):
        value = values.get((name, key))
        old = re.search(rf"\b{key}: (\S+) ?", holds)
        if value is None:
            continue
        if value == 0:
            holds = holds.replace(old[0], "") if old else holds
            holds = holds if "at_most" in holds else holds + "at_most: 0.000001 "
            continue
        new = f"{key}: {value:.6g} "
        if old and abs(float(old[1]) / value - 1) > 1e-5:
            print(f"{name}: {key} {old[1]} -> {value:.6g}")
        holds = holds.replace(old[0], new) if old else new + holds
    return holds


def main():
    for system, values in values_of(sys.argv[1:]).items():
        path = ROOT / "facts" / f"{system}.pbtxt"
        facts = re.split(r"(?m)(?=^fact \{\n)", path.read_text())
        for i, fact in enumerate(facts[1:], 1):
            name = re.search(r'^  id: "(.*)"', fact, re.M)[1]
            holds = re.search(r"(?m)^  holds \{ (.*)\}$", fact)
            if holds and "golden" in holds[1]:
                text = recorded(name, holds[1], values)
                facts[i] = fact.replace(holds[0], "  holds { " + text + "}")
        path.write_text("".join(facts))


if __name__ == "__main__":
    main()
