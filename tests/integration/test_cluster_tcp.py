#!/usr/bin/env python3
"""S7: the tests of a cluster (test_cluster.py) once more, with tensors over TCP instead of shared memory."""
import os
import pathlib
import runpy
import sys

sys.dont_write_bytecode = True

if __name__ == "__main__":
    os.environ["TUTTI_CLUSTER_MEMORY"] = "off"
    runpy.run_path(str(pathlib.Path(__file__).with_name("test_cluster.py")), run_name="__main__")
