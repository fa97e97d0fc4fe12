#!/usr/bin/env python3
"""The unmodified tritonclient against the program (tests/python), on models made for it."""
import pathlib
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "python"))

import server_suite  # noqa: E402

server_suite.run("test-models")
