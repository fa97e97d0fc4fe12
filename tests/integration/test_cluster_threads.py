#!/usr/bin/env python3
"""S6, S10: the tests of a cluster once more, with scheduler threads: kills, freezes and drains (test_cluster.py), models of
cells, and backends of which one is slower; and which roles may have threads."""
import os
import pathlib
import runpy
import subprocess
import sys

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "python"))

from needs import SKIPPED  # noqa: E402


def refused(role):
    """A frontend and a backend do not schedule."""
    done = subprocess.run(
        [os.environ["TUTTI_PROGRAM"], "serve", "--model-repository", ".", "--role", role, "--cluster", "static:nodes",
         "--node", "n", "--scheduler-threads", "2"],
        capture_output=True, text=True, timeout=60, check=False)  # fmt: skip
    assert done.returncode == 2 and "--scheduler-threads needs --role scheduler" in done.stderr, done


def again(name):
    """It may be skipped where a package is missing."""
    code = subprocess.run([sys.executable, pathlib.Path(__file__).with_name(name)], check=False).returncode
    assert code in (0, SKIPPED), (name, code)


if __name__ == "__main__":
    refused("frontend")
    refused("backend")
    os.environ["TUTTI_CLUSTER_SCHEDULER_THREADS"] = "3"
    for name in "test_cluster_cells.py", "test_cluster_paces.py":
        again(name)
    runpy.run_path(str(pathlib.Path(__file__).with_name("test_cluster.py")), run_name="__main__")
