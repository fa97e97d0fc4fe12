#!/usr/bin/env python3
"""The suite of test_server.py over HTTP/2 with TLS."""
import pathlib
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "python"))

import server_suite  # noqa: E402

server_suite.run("test-models-h2", "--transport", "h2", needed=["h2"])
