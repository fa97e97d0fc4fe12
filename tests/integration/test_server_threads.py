#!/usr/bin/env python3
"""S6: a server whose deferred domains are scheduled on threads of their own, under the tests that ask from many clients
at once, and stopped under load."""
import importlib.util
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = pathlib.Path(os.environ["TUTTI_PROGRAM"])

missing = [name for name in ("numpy", "onnx", "tritonclient") if importlib.util.find_spec(name) is None]
if missing:
    print("skipped: this Python lacks " + ", ".join(missing))
    sys.exit(77)
runner = str(ROOT / "tests" / "python" / "run_server_tests.py")
models = str(PROGRAM.parent / "test-models-threads")
flags = ["--serve-flag=--scheduler-threads", "--serve-flag=3"]
command = [sys.executable, runner, "--tutti", str(PROGRAM), "--models", models, *flags, "Concurrency", "concurrent"]
sys.exit(subprocess.call(command))
