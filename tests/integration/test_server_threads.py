#!/usr/bin/env python3
"""S6: a server whose deferred domains are scheduled on threads of their own, under the tests with many clients at once, and
stopped under load."""
import pathlib
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "python"))

import server_suite  # noqa: E402

server_suite.run(
    "test-models-threads", "--serve-flag=--scheduler-threads", "--serve-flag=3", "Concurrency", "concurrent"
)
