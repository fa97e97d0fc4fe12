"""What the tests of TLS, tokens and the admin interface share: a server of their own, and its clients."""
import http.client
import json
import os
import pathlib
import re
import ssl
import subprocess
import tempfile
import time
import unittest

import numpy as np
from certificates import Certificates
from server_process import Server, free_port

PROGRAM = os.environ["TUTTI_PROGRAM"]
CONFIG = """backend: "emulated"
max_batch_size: 8
input { name: "INPUT0" data_type: TYPE_FP32 dims: -1 }
output { name: "OUTPUT0" data_type: TYPE_FP32 dims: -1 }
"""
ADDRESS = re.compile(r"serving .* at https?://127\.0\.0\.1:(\d+)")
ROW = np.arange(16, dtype=np.float32)[None]
BODY = {"inputs": [{"name": "INPUT0", "shape": [1, 2], "datatype": "FP32", "data": [1, 2]}]}


def token(name, role, *limits):
    """A new token and its line."""
    out = subprocess.run([PROGRAM, "token", name, role, *limits, "--json"], check=True, stdout=subprocess.PIPE).stdout
    made = json.loads(out)
    return made["token"], made["line"] + "\n"


def replace(path, text):
    """As an editor does: readers see the old file or the new one."""
    with open(path + ".new", "w", encoding="utf-8") as out:
        out.write(text)
    os.replace(path + ".new", path)


def until(what, seconds=60):
    """Waits for what must come."""
    for _ in range(seconds * 50):
        if what():
            return
        time.sleep(0.02)
    raise AssertionError("it does not come")


def tensor(library, array=ROW):
    made = library.InferInput("INPUT0", array.shape, "FP32")
    made.set_data_from_numpy(array)
    return made


class Case(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.files = Certificates(self.folder.name)
        model = pathlib.Path(self.folder.name, "models", "floats")
        (model / "1").mkdir(parents=True)
        (model / "config.pbtxt").write_text(CONFIG)
        (model / "profile.pbtxt").write_text("linear { beta_ms: 0.001 }\n")
        self.server = None

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def command(self, *flags):
        command = [PROGRAM, "serve", "--model-repository", self.path("models"), "--model-control-mode", "explicit"]
        return command + ["--load-model", "floats", "--http-port", "0", *map(str, flags)]

    def serve(self, *flags):
        for _ in range(5):  # another process may take the port that was free
            self.grpc_port = free_port()
            self.server = Server(self.command("--grpc-port", self.grpc_port, *flags))
            if self.server.wait_ready(0.01) or self.wait_address():
                break
        self.addCleanup(self.server.stop, 60)
        self.port = int(ADDRESS.search("".join(self.server.lines)).group(1))

    def wait_address(self):
        until(lambda: ADDRESS.search("".join(self.server.lines)) or self.server.process.poll() is not None)
        return self.server.process.poll() is None

    def with_tls(self):
        certificate, key = self.files.make("server")
        return ["--tls-cert", certificate, "--tls-key", key]

    def with_tokens(self):
        self.tokens, lines = {}, "# tokens\n"
        for role in ("infer", "read", "admin"):
            self.tokens[role], line = token(role + "-user", role)
            lines += line
        replace(self.path("tokens"), lines)
        return ["--tokens", self.path("tokens")]

    def context(self, ca="ca.pem"):
        return ssl.create_default_context(cafile=self.files.path(ca))

    def connection(self, tls=None, port=None):
        if tls:
            made = http.client.HTTPSConnection("127.0.0.1", port or self.port, timeout=60, context=tls)
        else:
            made = http.client.HTTPConnection("127.0.0.1", port or self.port, timeout=60)
        self.addCleanup(made.close)
        return made

    def ask(self, connection, method, path, body=None, headers=()):
        """Status, headers and text of the answer."""
        text = json.dumps(body) if isinstance(body, dict) else body
        connection.request(method, path, text, dict(headers))
        answer = connection.getresponse()
        return answer.status, answer.headers, answer.read().decode()

    def lines_of_log(self):
        """Of the access log, which is whole once the server has ended."""
        with open(self.path("log"), encoding="utf-8") as log:
            return [json.loads(line) for line in log]

    def bearer(self, role):
        return {"Authorization": "Bearer " + self.tokens[role]} if role else {}

    def said(self, *parts):
        return any(all(part in line for part in parts) for line in list(self.server.lines))

    def stop(self):
        self.assertEqual(self.server.stop(60), 0, self.server.said())
