#!/usr/bin/env python3
"""S7: the tests of a cluster (test_cluster.py) once more, with tensors through UCX instead of shared memory."""
import os
import pathlib
import runpy
import sys

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "python"))

import needs  # noqa: E402
from ucx_process import use_ucx  # noqa: E402

if __name__ == "__main__":
    if not use_ucx():
        needs.skip("UCX is not there; scripts/setup.sh --ucx unpacks it")
    os.environ["TUTTI_CLUSTER_UCX"] = "on"
    os.environ["TUTTI_CLUSTER_MEMORY"] = "required"
    os.environ["UCX_TLS"] = "posix,sysv,cma"
    runpy.run_path(str(pathlib.Path(__file__).with_name("test_cluster.py")), run_name="__main__")
