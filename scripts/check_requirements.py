#!/usr/bin/env python3
"""Which code implements and which tests prove each requirement of REQUIREMENTS.md.

    check_requirements.py [--check] [ROOT]

Reads the table of REQUIREMENTS.md (ID | requirement | status) and the citations in src/ and tests/: a
comment that begins with the ID and a colon, "/* S2: ... */", "/* S2, S3: ... */", or in Python "# S2: ...".
Prints ID x status x {implemented in, tested in}. With --check it prints problems only, and the exit code
is 1 when a requirement marked `built` or `partial` lacks an implementation or a test, when a `partial`
does not say what is missing ("partial: no GPU"), when a citation names an ID that does not exist, or when
the table is not as it should be.

A status `partial: what is missing` is checked as `built` is.
"""
import collections
import pathlib
import re
import sys

IDS = [f"{letter}{n}" for letter, last in (("S", 11), ("C", 7), ("L", 6), ("D", 9), ("E", 7)) for n in range(1, last + 1)]
STATUSES = ("built", "partial", "planned")
ROW = re.compile(r"^\|\s*([SCLDE]\d+)\s*\|(.*)\|\s*([^|]*?)\s*\|\s*$")
ID_LIST = r"((?:[SCLDE]\d+)(?:\s*,\s*[SCLDE]\d+)*):"
C_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.S)
C_CITATION = re.compile(r"(?:/\*+|//|^\s*\*|^)\s*" + ID_LIST, re.M)
PYTHON_CITATION = re.compile(r"#\s*" + ID_LIST)


def read_table(path):
    """({id: status}, [problem])"""
    statuses, problems = {}, []
    for number, line in enumerate(path.read_text(encoding="utf-8").split("\n"), 1):
        match = ROW.match(line)
        if not match:
            continue
        name, text, status = match.groups()
        where = f"{path.name}:{number}"
        if name in statuses:
            problems.append(f"{where}: {name} stands there twice")
        if name not in IDS:
            problems.append(f"{where}: {name} is no requirement; there are S1-S11, C1-C7, L1-L6, D1-D9, E1-E7")
        status, _, missing = (part.strip() for part in status.partition(":"))
        if (status == "partial") != bool(missing):
            problems.append(f"{where}: {name}: what is missing stands behind the colon of partial, and only there")
        if status not in STATUSES:
            problems.append(f"{where}: the status of {name} is \"{status}\"; it is {' or '.join(STATUSES)}")
        if not text.strip():
            problems.append(f"{where}: {name} says nothing")
        statuses[name] = status
    problems += [f"{path.name}: {name} is missing from the table" for name in IDS if name not in statuses]
    return statuses, problems


def citations(path):
    """Yields (id, line number) for every citation in the file."""
    text = path.read_text(encoding="utf-8", errors="replace")
    if path.suffix == ".py":
        for number, line in enumerate(text.split("\n"), 1):
            for match in PYTHON_CITATION.finditer(line):
                for name in re.findall(r"[SCLDE]\d+", match.group(1)):
                    yield name, number
        return
    for comment in C_COMMENT.finditer(text):
        first = text.count("\n", 0, comment.start()) + 1
        for match in C_CITATION.finditer(comment.group()):
            number = first + comment.group().count("\n", 0, match.start(1))
            for name in re.findall(r"[SCLDE]\d+", match.group(1)):
                yield name, number


def collect(root, folder):
    found = collections.defaultdict(list)
    for path in sorted((root / folder).rglob("*")):
        if path.suffix in (".c", ".h", ".py") and path.is_file():
            for name, number in citations(path):
                found[name].append(f"{path.relative_to(root)}:{number}")
    return found


def files_of(places):
    """The files of "file:line" places, each once, in order."""
    return list(dict.fromkeys(place.rsplit(":", 1)[0] for place in places))


def main(arguments):
    if any(a in ("-h", "--help") for a in arguments):
        print(__doc__)
        return 0
    only_check = "--check" in arguments
    rest = [a for a in arguments if a != "--check"]
    root = pathlib.Path(rest[0] if rest else pathlib.Path(__file__).parent.parent).resolve()
    table = root / "REQUIREMENTS.md"
    if len(rest) > 1 or not table.is_file():
        print(f"check_requirements: {table} cannot be read: give the root of the tree", file=sys.stderr)
        return 2
    statuses, problems = read_table(table)
    implemented, tested = collect(root, "src"), collect(root, "tests")
    for name in IDS:
        if statuses.get(name) in ("built", "partial"):
            for what, found in (("an implementation in src", implemented), ("a test in tests", tested)):
                if name not in found:
                    problems.append(f"REQUIREMENTS.md: {name} is marked {statuses[name]} but nothing cites it as {what}: "
                                    f"write /* {name}: ... */ there, or mark it planned")  # fmt: skip
    for found in (implemented, tested):
        for name, places in found.items():
            problems += [f"{place}: cites {name}, which REQUIREMENTS.md does not have" for place in places
                         if name not in statuses]  # fmt: skip
    if not only_check:
        for name in IDS:
            print(f"{name:4} {statuses.get(name, '?'):8} implemented in {', '.join(files_of(implemented[name])) or '-'}"
                  f"; tested in {', '.join(files_of(tested[name])) or '-'}")  # fmt: skip
    for problem in problems:
        print(problem)
    counts = ", ".join(f"{list(statuses.values()).count(status)} {status}" for status in STATUSES)
    print(f"check_requirements: {len(statuses)} requirements, {counts}, {len(problems)} problems")
    return 1 if problems and only_check else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
