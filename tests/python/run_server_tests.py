#!/usr/bin/env python3
"""Starts `tutti serve` on models of its own and runs the tests of this folder against it.

    python tests/python/run_server_tests.py --tutti build/tutti [TEST ...]

TEST: parts of test names (as unittest's -k). Needs Python's numpy, onnx, tritonclient[http] and
tokenizers; where this Python lacks them, .deps/venv is taken. At the end the server gets SIGTERM
while clients keep asking. Exit codes: 0 passed; 1 a test failed, or the server did not stop as it
should; 2 it could not be tried.
"""
import argparse
import importlib.util
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import threading
import time
import unittest

sys.dont_write_bytecode = True

from server_process import Server  # noqa: E402
from transport import TRANSPORTS, triton_client  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]


def parse_arguments():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tutti", default=str(ROOT / "build" / "tutti"), metavar="FILE")
    parser.add_argument(
        "--models",
        default=str(ROOT / "build" / "test-models"),
        metavar="DIR",
        help="where the test models are made and kept (default: build/test-models)",
    )
    parser.add_argument("--start-timeout", type=float, default=60.0, metavar="SECONDS")
    parser.add_argument("--stop-timeout", type=float, default=60.0, metavar="SECONDS")
    parser.add_argument(
        "--serve-flag", action="append", default=[], metavar="FLAG", help="one more for the server"
    )
    parser.add_argument("--transport", choices=TRANSPORTS, default="http1", help="default: http1")
    parser.add_argument("tests", nargs="*", metavar="TEST")
    return parser.parse_args()


def give_up(message):
    print("run_server_tests: " + message, file=sys.stderr)
    sys.exit(2)


def use_the_house_python(transport):
    """Continues in .deps/venv when this Python lacks a package and that one exists."""
    needed = ("numpy", "onnx", "tritonclient") + (() if transport == "http1" else ("h2",))
    missing = [name for name in needed if importlib.util.find_spec(name) is None]
    if not missing:
        return
    venv = ROOT / ".deps" / "venv"
    python = venv / "bin" / "python"
    if python.exists() and pathlib.Path(sys.prefix).resolve() != venv.resolve():
        os.execv(python, [str(python), __file__] + sys.argv[1:])
    give_up(
        "this Python lacks %s; `pip install numpy onnx tritonclient[http] tokenizers`, "
        "or run scripts/setup.sh --python and take .deps/venv/bin/python" % ", ".join(missing)
    )


def run_tests(patterns):
    loader = unittest.TestLoader()
    if patterns:
        loader.testNamePatterns = ["*%s*" % p for p in patterns]
    suite = loader.discover(str(pathlib.Path(__file__).parent), pattern="test_*.py")
    if suite.countTestCases() == 0:
        give_up("no test is called like that: " + " ".join(patterns))
    return unittest.TextTestRunner(verbosity=1).run(suite)


class Load:
    """Clients that ask the model mlp again and again, until the server no longer answers.

    Once they are busy, a refusal or a closed connection ends a client, as a stopping server may do;
    before that, a busy machine may cause one. A wrong answer, or none at all, is a fault.
    """

    CLIENTS = 4

    def __init__(self, address):
        self.address = address
        self.answers = 0
        self.faults = []
        self._lock = threading.Lock()
        self._busy = threading.Event()
        self._until = time.monotonic() + 60
        self._threads = [
            threading.Thread(target=self._ask, args=(i,), daemon=True) for i in range(self.CLIENTS)
        ]
        for thread in self._threads:
            thread.start()
        if not self._busy.wait(60):
            self.faults.append("no client had an answer before the stop")

    def _ask(self, index):
        import numpy as np
        import tritonclient.http as http

        client = triton_client(self.address, concurrency=1, network_timeout=30)
        row = http.InferInput("input", [1, 16], "FP32")
        row.set_data_from_numpy(np.full((1, 16), 0.25 * index, np.float32))
        expected = None
        while True:
            try:
                got = client.infer("mlp", [row]).as_numpy("output")
            except Exception as error:  # the client has many: refused, reset, closed, 503
                if "timed out" in str(error):
                    self.faults.append("an accepted request had no answer: %s" % error)
                elif not self._busy.is_set() and time.monotonic() < self._until:
                    continue
                break
            if expected is not None and not np.array_equal(got, expected):
                self.faults.append("client %d got %s and not %s" % (index, got, expected))
            expected = got
            with self._lock:
                self.answers += 1
                if self.answers >= 10 * self.CLIENTS:
                    self._busy.set()
        client.close()

    def wait_gone(self):
        for thread in self._threads:
            thread.join(60)
            if thread.is_alive():
                self.faults.append("a client still waits a minute after the server's end")
        return self.faults


def relax(settings):
    """A promise of a minute: the tests ask for right answers, however slow the machine is just now.
    (Its policy does not wait for the promise, unlike deferred, so that they take no longer.)"""
    if settings.exists():
        text = re.sub(r"slo_ms: [\d.]+", "slo_ms: 60000", settings.read_text())
        settings.write_text(text)


def use_transport(transport, folder):
    """The tests then use it; returns what the server needs for it."""
    os.environ["TUTTI_TRANSPORT"] = transport
    if transport != "h2":
        return []
    from certificates import Certificates

    files = Certificates(folder)
    os.environ["TUTTI_CA"] = files.path("ca.pem")
    certificate, key = files.make("server")
    return ["--tls-cert", certificate, "--tls-key", key]


def main():
    arguments = parse_arguments()
    use_the_house_python(arguments.transport)
    if not os.access(arguments.tutti, os.X_OK):
        give_up("there is no program %s; build it first, or name it with --tutti" % arguments.tutti)
    maker = [sys.executable, str(ROOT / "scripts" / "make_models.py"), "--test-models"]
    if subprocess.run(maker + ["--out", arguments.models]).returncode != 0:
        give_up("the test models could not be made")

    relax(pathlib.Path(arguments.models, "minilm", "tutti.pbtxt"))
    command = [arguments.tutti, "serve", "--model-repository", arguments.models]
    # One of the test models is broken on purpose.
    command += ["--strict-readiness", "false"]
    folder = tempfile.TemporaryDirectory()
    command += use_transport(arguments.transport, folder.name)
    server = Server(command + ["--http-port", "0", "--grpc-port", "0"] + arguments.serve_flag)
    passed = False
    load = None
    try:
        if not server.wait_ready(arguments.start_timeout):
            code = server.exit_code_if_gone()
            server.stop(arguments.stop_timeout)
            what = "ended with exit code %s" % code
            if code is None:
                what = "did not come within %g s" % arguments.start_timeout
            give_up(
                "waiting for `%s serve` to print `try: curl http://127.0.0.1:PORT`: it %s; %s"
                % (arguments.tutti, what, server.said())
            )
        os.environ["TUTTI_HTTP"] = server.address
        passed = run_tests(arguments.tests).wasSuccessful()
        if server.process.poll() is not None:
            print("run_server_tests: the server went away during the tests", file=sys.stderr)
            passed = False
        else:
            load = Load(server.address)
    finally:
        code = server.stop(arguments.stop_timeout)
    for fault in load.wait_gone() if load else []:
        print("run_server_tests: stopping under load: " + fault, file=sys.stderr)
        passed = False
    if code != 0:
        what = "did not stop within %g s of" % arguments.stop_timeout
        if code is not None:
            what = "ended with exit code %d, and not 0, on" % code
        print("run_server_tests: the server %s SIGTERM" % what, file=sys.stderr)
        passed = False
    if not passed:
        print("run_server_tests: " + server.said(), file=sys.stderr)
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
