#!/usr/bin/env python3
"""S6, S10: the tests of a cluster (test_cluster.py: kills, freezes, drains) once more, with scheduler threads; and which
roles may have them."""
import os
import pathlib
import runpy
import subprocess
import sys

sys.dont_write_bytecode = True


def refused(role):
    """A frontend and a backend do not schedule."""
    done = subprocess.run(
        [os.environ["TUTTI_PROGRAM"], "serve", "--model-repository", ".", "--role", role, "--cluster", "static:nodes",
         "--node", "n", "--scheduler-threads", "2"],
        capture_output=True, text=True, timeout=60, check=False)  # fmt: skip
    assert done.returncode == 2 and "--scheduler-threads needs --role scheduler" in done.stderr, done


if __name__ == "__main__":
    refused("frontend")
    refused("backend")
    os.environ["TUTTI_CLUSTER_SCHEDULER_THREADS"] = "3"
    runpy.run_path(str(pathlib.Path(__file__).with_name("test_cluster.py")), run_name="__main__")
