#!/usr/bin/env python3
"""The unmodified tritonclient against the program (tests/python), on models made for it."""
import importlib.util
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = pathlib.Path(os.environ["TUTTI_PROGRAM"])

missing = [
    name for name in ("numpy", "onnx", "tritonclient") if importlib.util.find_spec(name) is None
]
if missing:
    print("skipped: this Python lacks " + ", ".join(missing))
    sys.exit(77)
sys.exit(
    subprocess.call(
        [
            sys.executable,
            str(ROOT / "tests" / "python" / "run_server_tests.py"),
            "--tutti",
            str(PROGRAM),
            "--models",
            str(PROGRAM.parent / "test-models"),
        ]
    )
)
