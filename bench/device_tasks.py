#!/usr/bin/env python3
"""D4: what the host device adds to a task, below HTTP and the scheduler.

    ninja -C build tutti && bench/device_tasks.py [--tasks N] [--processors N]

Builds bench/device_tasks.c with the libraries of build/ and runs it. The same copy of 16 floats per request runs as a task of an engine
of threads, on the caller's thread, and on a stream of the host device, in turns. The table has processor time of the process per task,
best and median of 51 rounds, the difference from the first way, and how often a thread went to sleep per task. All threads share one
processor by default: across processors the kernel's wake-ups take more time than all else, and differ from turn to turn."""
import argparse
import os
import pathlib
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
LAYERS = ("engine", "device", "model", "proto", "core", "base")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--tasks", type=int, default=1000)
    parser.add_argument("--processors", type=int, default=1)
    given = parser.parse_args()
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[-given.processors :])
    with tempfile.TemporaryDirectory() as folder:
        program = pathlib.Path(folder, "device_tasks")
        command = ["cc", "-O2", "-g", "-std=gnu17", "-D_GNU_SOURCE", "-I", ROOT / "src", "-I", given.build, ROOT / "bench" / "device_tasks.c"]
        libraries = [given.build / ("libtutti_%s.a" % name) for name in LAYERS]
        command += ["-Wl,--start-group", *libraries, "-Wl,--end-group", "-lprotobuf-c", "-ljansson", "-lcrypto", "-ldl", "-lm", "-lpthread", "-o", program]
        subprocess.run(command, check=True)
        subprocess.run([program, str(given.tasks)], check=True)


if __name__ == "__main__":
    main()
