#!/usr/bin/env python3
"""The unmodified tritonclient against the program (tests/python), on models made for it."""
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
