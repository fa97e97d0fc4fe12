#!/usr/bin/env python3
"""Our clients with a server that answers what costs them most: heads, bodies and chunks that never end, lengths that are not
kept, nesting, silence. They end with a sentence, and keep within their limit of an answer."""
import json
import os
import pathlib
import socket
import sys
import tempfile
import threading
import time
import unittest

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "python"))

from plain_client import PROGRAM  # noqa: E402

MIB = 1 << 20
SENT_BYTES = 96 * MIB  # by the server, on a connection: much more than the 16 MiB that a client takes
MEMORY_BYTES = 48 * MIB
WAIT_S = 60
OK = b"HTTP/1.1 200 OK\r\n"
BLOCK = b"y" * 65536
# What comes first, and what is repeated.
ANSWERS = {
    "head": (OK, b"X: " + BLOCK + b"\r\n"),
    "line": (b"HTTP/1.1 200 ", BLOCK),
    "length": (OK + b"Content-Length: 100000000000\r\n\r\n", BLOCK),
    "no length": (OK + b"\r\n", BLOCK),
    "chunks": (OK + b"Transfer-Encoding: chunked\r\n\r\n", b"%x\r\n%s\r\n" % (len(BLOCK), BLOCK)),
    "chunk's length": (OK + b"Transfer-Encoding: chunked\r\n\r\n", b"0" * 65536),
    "nesting": (OK + b"Content-Length: 12000000\r\n\r\n" + b"[" * 12000000, b""),
    "values": (OK + b"Content-Length: 12000009\r\n\r\n" + b'{"a":[' + b"{}," * 4000000 + b"1]}", b""),
    "silence": (b"", b""),
}
MODEL = {
    "name": "m",
    "versions": ["1"],
    "platform": "p",
    "inputs": [{"name": "x", "datatype": "FP32", "shape": [-1, 16]}],
    "outputs": [{"name": "y", "datatype": "FP32", "shape": [-1, 4]}],
}


class HostileServer:
    def __init__(self, first, again):
        self.first, self.again = first, again
        self.socket = socket.socket()
        self.socket.bind(("127.0.0.1", 0))
        self.socket.listen(64)
        self.url = "http://127.0.0.1:%d" % self.socket.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        try:
            while True:
                client = self.socket.accept()[0]
                threading.Thread(target=self.answer, args=(client,), daemon=True).start()
        except OSError:
            return  # it is closed

    def answer(self, client):
        with client:
            try:
                client.recv(65536)
                client.sendall(self.first)
                for _ in range(SENT_BYTES // len(self.again) if self.again else 0):
                    client.sendall(self.again)
                while client.recv(65536):  # until the client has had enough
                    pass
            except OSError:
                pass


class Clients(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def run_client(self, arguments):
        """Its exit code, its largest memory, and what it said."""
        said = self.folder / ("said-%d" % threading.get_ident())
        with open(said, "wb") as out:
            pid = os.posix_spawn(
                PROGRAM,
                [PROGRAM, *arguments],
                os.environ,
                file_actions=[(os.POSIX_SPAWN_DUP2, out.fileno(), 1), (os.POSIX_SPAWN_DUP2, out.fileno(), 2)],
            )
        until, most = time.monotonic() + WAIT_S, 0
        while True:
            most = max(most, peak(pid))
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                return os.waitstatus_to_exitcode(status), most, said.read_text(errors="replace")
            if time.monotonic() > until:
                os.kill(pid, 9)
                os.waitpid(pid, 0)
                raise AssertionError("tutti %s does not end" % " ".join(arguments))
            time.sleep(0.01)

    def check(self, name, arguments, codes, failures):
        server = HostileServer(*ANSWERS[name])
        try:
            code, memory, said = self.run_client([server.url if a == "URL" else a for a in arguments])
            self.assertIn(code, codes, said)
            self.assertTrue(said.strip())
            self.assertNotIn("Sanitizer", said)
            if not is_sanitized():
                self.assertLess(memory, MEMORY_BYTES, said)
        except AssertionError as error:
            failures.append("%s, tutti %s: %s" % (name, arguments[0], error))
        finally:
            server.socket.close()

    def check_all(self, arguments, codes, names=tuple(ANSWERS)):
        failures = []
        threads = [
            threading.Thread(target=self.check, args=(name, arguments, codes, failures), daemon=True) for name in names
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(2 * WAIT_S)
            self.assertFalse(thread.is_alive())
        self.assertEqual(failures, [])

    def test_answers_to_inferences(self):
        metadata = self.folder / "metadata.json"
        metadata.write_text(json.dumps(MODEL))
        flags = "--model m --requests 4 --rate 20 --give-up-ms 500 --metadata".split()
        self.check_all(["load", "URL", *flags, str(metadata)], {0, 1})  # 0: a status is enough for it

    def test_metadata(self):
        self.check_all(["load", "URL", "--model", "m", "--requests", "1"], {1, 2}, ("length", "no length", "chunks", "nesting", "values"))

    def test_metrics(self):
        self.check_all(["top", "--once", "URL"], {0, 1})  # 0: a page without a metric is an empty table


def peak(pid):
    """The most memory that the process had so far; 0: it has ended. (That of getrusage() includes the time before exec.)"""
    status = pathlib.Path("/proc/%d/status" % pid).read_text()
    found = [line for line in status.splitlines() if line.startswith("VmHWM:")]
    return int(found[0].split()[1]) * 1024 if found else 0


def is_sanitized():
    """AddressSanitizer keeps freed memory, and so shows nothing about ours."""
    return b"__asan_init" in pathlib.Path(PROGRAM).read_bytes()


if __name__ == "__main__":
    unittest.main()
