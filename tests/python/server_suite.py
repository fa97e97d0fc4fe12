"""Runs the tests of a running server (run_server_tests.py) as an integration test."""
import os
import pathlib
import subprocess
import sys

from needs import need


def run(models, *more, needed=()):
    """Ends the program. `models`: a folder beside the program, of this test alone."""
    need("numpy", "onnx", "tritonclient", *needed)
    program = pathlib.Path(os.environ["TUTTI_PROGRAM"])
    runner = str(pathlib.Path(__file__).with_name("run_server_tests.py"))
    folder = str(program.parent / models)
    sys.exit(subprocess.call([sys.executable, runner, "--tutti", str(program), "--models", folder, *more]))
