#!/usr/bin/env python3
"""Which lines of a parser its fuzzer reaches: fuzz_coverage.py [fuzz_NAME ...] (all of them)

Builds the programs that try seeds with line counters (build-coverage/, as scripts/coverage.sh does), runs each with its seeds and
with the corpus that scripts/fuzz.sh keeps (build-fuzz/corpus/), and prints the lines that were reached of the files of src/ that
the fuzzer names in its comment "covers: FILE FILE". Exit code 1 where an input fails, or no line of a file is reached."""
import os
import pathlib
import re
import subprocess
import sys

BUILD = pathlib.Path("build-coverage")
PIECE = 1000  # inputs of one run: they are arguments


def covered_files(source):
    """The files that the fuzzer names."""
    comments = re.findall(r"/\* covers: (.*?)\*/", source, re.DOTALL)
    return [name for comment in comments for name in comment.split() if name != "*"]


def lines_of(report, name):
    """Lines reached and all lines of src/NAME, from what gcov prints; None: it is not there."""
    found = re.search(r"^File '(?:.*/)?src/%s'\nLines executed:([0-9.]+)%% of (\d+)$" % re.escape(name), report, re.MULTILINE)
    return found and (round(float(found[1]) * int(found[2]) / 100), int(found[2]))


def build(programs):
    if not (BUILD / "build.ninja").exists():
        subprocess.run(
            ["cmake", "--preset", "default", "-B", BUILD, "-DTUTTI_COVERAGE=ON", "-DTUTTI_HARDEN=OFF"], check=True, stdout=2
        )
    subprocess.run(["cmake", "--build", BUILD, "-j", str(os.cpu_count()), "--target", *programs], check=True, stdout=2)


def measure(name, files):
    """Lines by file, after a run of all inputs."""
    for counters in BUILD.rglob("*.gcda"):
        counters.unlink()
    folders = [pathlib.Path("tests/fuzz/seeds", name), pathlib.Path("build-fuzz/corpus", name)]
    inputs = sorted(str(path) for folder in folders if folder.is_dir() for path in folder.iterdir())
    for i in range(0, len(inputs), PIECE):
        command = [BUILD / name.replace("fuzz_", "seeds_"), *inputs[i : i + PIECE]]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    lines = {}
    for file in files:
        counters = list(BUILD.glob("CMakeFiles/*/src/%s.gcda" % file))
        report = subprocess.run(["gcov", "-n", *counters], capture_output=True, text=True, check=True) if counters else None
        lines[file] = lines_of(report.stdout, file) if report else None
    return len(inputs), lines


def show(name, count, lines):
    missing = [file for file, found in lines.items() if not found or not found[0]]
    if missing:
        sys.exit("%s: no line of %s is reached: it is not linked, or its seeds are refused before" % (name, missing[0]))
    reached, total = (sum(column) for column in zip(*lines.values()))
    print("%s: %d of %d lines (%.1f %%), %d inputs" % (name, reached, total, 100 * reached / total, count))
    for file, found in lines.items():
        print("  %-32s %5d of %5d" % (file, *found))


def main(names):
    os.chdir(pathlib.Path(__file__).resolve().parents[1])
    sources = {path.stem: path for path in sorted(pathlib.Path("tests/fuzz").glob("fuzz_*.c"))}
    unknown = sorted(set(names) - set(sources))
    if unknown:
        sys.exit("there is no fuzzer %s; there are %s" % (unknown[0], ", ".join(sources)))
    names = names or list(sources)
    files = {name: covered_files(sources[name].read_text(encoding="utf-8")) for name in names}
    without = [name for name in names if not files[name]]
    if without:
        sys.exit("tests/fuzz/%s.c: it has no comment 'covers: FILE', with files of src/" % without[0])
    build([name.replace("fuzz_", "seeds_") for name in names])
    for name in names:
        show(name, *measure(name, files[name]))


if __name__ == "__main__":
    main(sys.argv[1:])
