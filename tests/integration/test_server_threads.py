#!/usr/bin/env python3
"""S6: a server whose deferred domains are scheduled on threads of their own, under the tests with many clients at once, and
stopped under load."""
import os
import pathlib
import subprocess
import sys

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "python"))
PROGRAM = pathlib.Path(os.environ["TUTTI_PROGRAM"])

from needs import need  # noqa: E402

need("numpy", "onnx", "tritonclient")
runner = str(ROOT / "tests" / "python" / "run_server_tests.py")
models = str(PROGRAM.parent / "test-models-threads")
flags = ["--serve-flag=--scheduler-threads", "--serve-flag=3"]
command = [sys.executable, runner, "--tutti", str(PROGRAM), "--models", models, *flags, "Concurrency", "concurrent"]
sys.exit(subprocess.call(command))
