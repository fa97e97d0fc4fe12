#!/usr/bin/env python3
"""What online profiles cost (core/belief): per batch alone, and per batch and request of a simulation with and without them.

    ninja -C build tutti && bench/learning_cost.py

Builds bench/learning_cost.c with the libraries of build/ and runs it: processor time per batch, best and median of 31 passes, over
batches within 0, 2 and 10 percent of their profile. Then runs an experiment under callgrind for 3 and for 13 s, with `learn` and
without, so that its start does not count. Its devices are exact: both decide the same."""
import argparse
import json
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
FILE = ROOT / "experiments" / "symphony" / "densenet121-8-devices.pbtxt"


def alone(build, folder):
    program = pathlib.Path(folder, "learning_cost")
    libraries = [build / ("libtutti_%s.a" % name) for name in ("core", "base")]
    command = ["cc", "-O2", "-std=gnu17", "-D_GNU_SOURCE", "-I", ROOT / "src", ROOT / "bench" / "learning_cost.c"]
    subprocess.run([*command, *libraries, "-lm", "-lpthread", "-o", program], check=True)
    for spread in (0, 2, 10):
        subprocess.run([program, str(spread)], check=True)


def simulated(build, folder, learns, seconds):
    """Instructions by function, and how many requests and batches there were in the measured window."""
    out = pathlib.Path(folder, "callgrind.out")
    command = ["valgrind", "--tool=callgrind", "--callgrind-out-file=%s" % out, build / "tutti", "experiment", FILE]
    command += ["--set", "learn=" + learns, "--set", "duration_s=%d" % seconds, "--workers", "1", "--json"]
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    collected = re.findall(r"Collected : (\d+)", done.stderr)
    if not collected:
        sys.exit("learning_cost.py: " + done.stderr)
    total = json.loads(done.stdout)["total"]
    return int(collected[-1]), total["arrived"], total["batch"]["executions"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        alone(given.build, folder)
        between = {}
        for learns in ("false", "true"):
            few, many = (simulated(given.build, folder, learns, seconds) for seconds in (3, 13))
            between[learns] = [b - a for a, b in zip(few, many)]
    (without, requests, batches), (with_it, *same) = between["false"], between["true"]
    if same != [requests, batches]:
        sys.exit("learning_cost.py: learning changed what was decided")
    more = with_it - without
    print("simulated: %d instructions more for %d requests in %d batches: %.0f per batch, %.0f per request, %.1f %%"
          % (more, requests, batches, more / batches, more / requests, 100 * more / without))


if __name__ == "__main__":
    main()
