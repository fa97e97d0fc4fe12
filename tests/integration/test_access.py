#!/usr/bin/env python3
"""TLS, tokens, roles and the admin interface of `tutti serve`, as clients see them over HTTP and gRPC."""
import http.client
import json
import os
import pathlib
import re
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time
import unittest

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "python"))

from needs import need  # noqa: E402

need("numpy", "tritonclient", "grpc")

import grpc  # noqa: E402
import numpy as np  # noqa: E402
import tritonclient.grpc  # noqa: E402
import tritonclient.http  # noqa: E402
from certificates import Certificates  # noqa: E402
from server_process import Server, free_port  # noqa: E402
from tritonclient.utils import InferenceServerException  # noqa: E402

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
        return answer.status, dict(answer.getheaders()), answer.read().decode()

    def bearer(self, role):
        return {"Authorization": "Bearer " + self.tokens[role]} if role else {}

    def said(self, *parts):
        return any(all(part in line for part in parts) for line in list(self.server.lines))

    def stop(self):
        self.assertEqual(self.server.stop(60), 0, self.server.said())


class TokensTest(Case):
    def test_roles_over_http(self):
        self.serve(*self.with_tokens())
        connection = self.connection()
        rows = (  # method, path, body; statuses without token, of infer, read, admin
            ("GET", "/v2/health/live", None, 200, 200, 200, 200),
            ("GET", "/v2/health/ready", None, 200, 200, 200, 200),
            ("GET", "/v2/models/floats/ready", None, 200, 200, 200, 200),
            ("GET", "/v2", None, 401, 200, 200, 200),
            ("GET", "/nowhere", None, 401, 404, 404, 404),
            ("GET", "/v2/models/floats", None, 401, 200, 200, 200),
            ("GET", "/v2/models/floats/config", None, 401, 200, 200, 200),
            ("POST", "/v2/models/floats/infer", BODY, 401, 200, 403, 200),
            ("GET", "/v2/models/floats/stats", None, 401, 403, 200, 200),
            ("GET", "/v2/models/stats", None, 401, 403, 200, 200),
            ("GET", "/metrics", None, 401, 403, 200, 200),
            ("POST", "/v2/repository/index", {}, 401, 403, 200, 200),
            ("GET", "/v2/logging", None, 401, 403, 200, 200),
            ("POST", "/v2/logging", {"log_info": True}, 401, 403, 403, 200),
            ("GET", "/v2/debug/trace", None, 401, 403, 403, 200),
            ("POST", "/v2/repository/models/floats/load", {}, 401, 403, 403, 200),
            ("POST", "/v2/repository/models/floats/unload", {}, 401, 403, 403, 200),
        )
        for method, path, body, *statuses in rows:
            for role, status in zip((None, "infer", "read", "admin"), statuses):
                got, headers, text = self.ask(connection, method, path, body, self.bearer(role))
                self.assertEqual(got, status, (method, path, role, text))
                if status == 401:
                    self.assertEqual(headers["WWW-Authenticate"], "Bearer")
                    self.assertIn("Authorization: Bearer TOKEN", text)
        self.assertEqual(self.ask(connection, "GET", "/v2", headers={"Authorization": "Bearer x"})[0], 401)
        self.assertEqual(self.ask(connection, "GET", "/v2", headers={"Authorization": "Bearer " + "x" * 9000})[0], 401)
        until(lambda: self.said("audit: admin-user: POST /v2/repository/models/floats/unload: status 200"))
        time.sleep(1.1)  # the lines of a second are limited
        self.ask(connection, "GET", "/v2/debug/trace?secret", headers=self.bearer("infer"))
        until(lambda: self.said("audit: refused: infer-user: GET /v2/debug/trace: the role infer may not do this"))
        self.stop()
        for secret in self.tokens.values():
            self.assertNotIn(secret, "".join(self.server.lines))

    def test_roles_over_grpc(self):
        self.serve(*self.with_tokens())
        client = tritonclient.grpc.InferenceServerClient("127.0.0.1:%d" % self.grpc_port)
        self.addCleanup(client.close)
        no, denied = "StatusCode.UNAUTHENTICATED", "StatusCode.PERMISSION_DENIED"
        rows = (
            (lambda h: client.is_server_ready(headers=h), None, None, None, None),
            (lambda h: client.is_model_ready("floats", headers=h), None, None, None, None),
            (lambda h: client.get_model_metadata("floats", headers=h), no, None, None, None),
            (lambda h: client.infer("floats", [tensor(tritonclient.grpc)], headers=h), no, None, denied, None),
            (lambda h: client.get_inference_statistics("floats", headers=h), no, denied, None, None),
            (lambda h: client.get_model_repository_index(headers=h), no, denied, None, None),
            (lambda h: client.get_log_settings(headers=h), no, denied, denied, None),
            (lambda h: client.load_model("floats", headers=h), no, denied, denied, None),
            (lambda h: client.unload_model("floats", headers=h), no, denied, denied, None),
        )
        for call, *statuses in rows:
            for role, status in zip((None, "infer", "read", "admin"), statuses):
                headers = {name.lower(): value for name, value in self.bearer(role).items()}
                try:
                    call(headers)
                    got = None
                except InferenceServerException as error:
                    got = error.status()
                self.assertEqual(got, status, role)
        until(lambda: self.said("audit: admin-user: gRPC RepositoryModelUnload: done"))
        self.stop()

    def test_a_token_that_goes_ends_a_stream(self):
        self.serve(*self.with_tokens())
        client = tritonclient.grpc.InferenceServerClient("127.0.0.1:%d" % self.grpc_port)
        self.addCleanup(client.close)
        answers = []
        client.start_stream(lambda result, error: answers.append(error), headers={"authorization": "Bearer " + self.tokens["infer"]})
        client.async_stream_infer("floats", [tensor(tritonclient.grpc)])
        until(lambda: answers)
        self.assertIsNone(answers[0])
        replace(self.path("tokens"), token("new", "admin")[1])
        until(lambda: self.said("tokens read again: 1 in"))
        client.async_stream_infer("floats", [tensor(tritonclient.grpc)])
        until(lambda: len(answers) > 1)
        self.assertIn("the token is not known to this server", str(answers[1]))
        client.stop_stream()
        self.stop()

    def test_limits(self):
        self.serve(*self.with_tokens())
        slow, line = token("slow", "infer", "--rate", "1")
        with open(self.path("tokens"), encoding="utf-8") as now:
            replace(self.path("tokens"), now.read() + line)
        until(lambda: self.said("tokens read again: 4 in"))
        connection = self.connection()
        answers = [
            self.ask(connection, "POST", "/v2/models/floats/infer", BODY, {"Authorization": "Bearer " + slow}) for _ in range(20)
        ]
        self.assertEqual(answers[0][0], 200)
        refused = [answer for answer in answers if answer[0] == 429]
        self.assertTrue(refused)
        self.assertIn("slow has reached its limit of 1 requests per second", refused[0][2])
        self.assertEqual(refused[0][1]["Retry-After"], "1")
        self.assertEqual(self.ask(connection, "POST", "/v2/models/floats/infer", BODY, self.bearer("infer"))[0], 200)
        self.stop()

    def test_reload(self):
        self.serve(*self.with_tokens())
        connection = self.connection()
        good = self.bearer("read")
        replace(self.path("tokens"), "broken\n")
        until(lambda: self.said("the former tokens stay in force:", "tokens:1: the second field is the role"))
        self.assertEqual(self.ask(connection, "GET", "/v2", headers=good)[0], 200)
        time.sleep(1.5)
        self.assertEqual(sum("stay in force" in line for line in self.server.lines), 1)
        os.unlink(self.path("tokens"))
        self.assertEqual(self.ask(connection, "GET", "/v2", headers=good)[0], 200)
        made, line = token("next", "read")
        replace(self.path("tokens"), line)
        self.server.process.send_signal(signal.SIGHUP)
        until(lambda: self.said("tokens read again: 1 in"))
        self.assertEqual(self.ask(connection, "GET", "/v2", headers=good)[0], 401)
        self.assertEqual(self.ask(connection, "GET", "/v2", headers={"Authorization": "Bearer " + made})[0], 200)
        self.stop()


class AdminTest(Case):
    def test_unix_socket(self):
        place = self.path("admin")
        with socket.socket(socket.AF_UNIX) as stale:  # as a server leaves it that is killed
            stale.bind(place)
        self.serve("--admin", "unix:" + place, *self.with_tokens())
        self.assertEqual(os.stat(place).st_mode & 0o777, 0o600)

        def local(method, path, body=None):
            connection = http.client.HTTPConnection("admin", timeout=60)
            connection.sock = socket.socket(socket.AF_UNIX)
            connection.sock.connect(place)
            try:
                return self.ask(connection, method, path, body)
            finally:
                connection.close()

        self.assertEqual(local("POST", "/v2/repository/models/floats/unload", {})[0], 200)
        self.assertEqual(local("POST", "/v2/repository/models/floats/load", {})[0], 200)
        self.assertEqual(local("GET", "/v2/debug/trace")[0], 200)
        self.assertEqual(local("POST", "/v2/models/floats/infer", BODY)[0], 200)
        status, _, text = self.ask(
            self.connection(), "POST", "/v2/repository/models/floats/unload", {}, self.bearer("admin")
        )
        self.assertEqual(status, 403)
        self.assertIn("management is on the admin interface", text)
        client = tritonclient.grpc.InferenceServerClient("127.0.0.1:%d" % self.grpc_port)
        self.addCleanup(client.close)
        with self.assertRaises(InferenceServerException) as caught:
            client.unload_model("floats", headers={"authorization": "Bearer " + self.tokens["admin"]})
        self.assertEqual(caught.exception.status(), "StatusCode.PERMISSION_DENIED")
        until(lambda: self.said("audit: (admin socket): POST /v2/repository/models/floats/load: status 200"))
        second = subprocess.run(
            self.command("--grpc-port", "0", "--admin", "unix:" + place), stderr=subprocess.PIPE, text=True, timeout=60
        )
        self.assertEqual(second.returncode, 2)
        self.assertIn("a server listens there", second.stderr)
        self.stop()
        self.assertFalse(os.path.exists(place))

    def test_port(self):
        self.serve("--admin", "127.0.0.1:0")
        until(lambda: self.said("the admin interface is 127.0.0.1:"))
        line = next(line for line in self.server.lines if "the admin interface is" in line)
        admin = self.connection(port=int(line.rsplit(":", 1)[1]))
        self.assertEqual(self.ask(admin, "POST", "/v2/repository/models/floats/unload", {})[0], 200)
        self.assertEqual(self.ask(admin, "GET", "/metrics")[0], 200)
        public = self.connection()
        self.assertEqual(self.ask(public, "POST", "/v2/repository/models/floats/load", {})[0], 403)
        self.assertEqual(self.ask(public, "POST", "/v2/logging", {})[0], 403)
        self.assertEqual(self.ask(public, "GET", "/v2/logging")[0], 200)
        self.stop()


class CrossSiteTest(Case):
    def test_pages_of_other_sites_change_nothing(self):
        self.serve()
        connection = self.connection()
        own = "http://127.0.0.1:%d" % self.port
        load = "/v2/repository/models/floats/load"
        form = {"Content-Type": "application/x-www-form-urlencoded"}
        for headers, status in (
            ({}, 200),
            (form, 200),  # curl -d
            ({"Origin": own}, 200),
            ({"Sec-Fetch-Site": "same-origin"}, 200),
            ({"Sec-Fetch-Site": "none"}, 200),
            ({"Origin": "https://evil.test", **form}, 403),
            ({"Origin": "null"}, 403),
            ({"Sec-Fetch-Site": "cross-site"}, 403),
            ({"Sec-Fetch-Site": "same-site"}, 403),
            # A name that the site pointed to this machine:
            ({"Origin": "http://evil.test:8000", "Host": "evil.test:8000"}, 403),
        ):
            got, _, text = self.ask(connection, "POST", load, {}, headers)
            self.assertEqual(got, status, (headers, text))
        self.assertEqual(self.ask(connection, "POST", "/v2/logging", {}, {"Origin": "https://evil.test"})[0], 403)
        self.assertEqual(self.ask(connection, "GET", "/v2/logging", None, {"Origin": "https://evil.test"})[0], 200)
        until(lambda: self.said("audit: refused: (no identity): POST " + load))
        self.stop()


class TlsTest(Case):
    def test_http(self):
        self.serve(*self.with_tls())
        connection = self.connection(self.context())
        self.assertEqual(self.ask(connection, "GET", "/v2/health/ready")[0], 200)
        self.assertEqual(connection.sock.version(), "TLSv1.3")
        for count in (1, 1000, 5000, 200000):  # one record, many, more than a socket takes
            many = np.random.default_rng(count).random((8, count), np.float32)
            client = tritonclient.http.InferenceServerClient(
                "localhost:%d" % self.port, ssl=True, ssl_context_factory=self.context
            )
            got = client.infer("floats", [tensor(tritonclient.http, many)]).as_numpy("OUTPUT0")
            client.close()
            np.testing.assert_array_equal(got, many)
        plain = socket.create_connection(("127.0.0.1", self.port), 60)
        plain.sendall(b"GET /v2 HTTP/1.1\r\nHost: x\r\n\r\n")
        self.assertNotIn(b"HTTP/1.1 200", plain.recv(4096))
        plain.close()
        self.stop()

    def test_a_slow_reader_gets_all(self):
        self.serve(*self.with_tls())
        body = {"inputs": [{"name": "INPUT0", "shape": [1, 400000], "datatype": "FP32", "data": [0.5] * 400000}]}
        with self.context().wrap_socket(socket.create_connection(("127.0.0.1", self.port), 60), server_hostname="127.0.0.1") as raw:
            text = json.dumps(body).encode()
            head = "POST /v2/models/floats/infer HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(text)
            raw.sendall(head.encode() + text + b"GET /v2/health/live HTTP/1.1\r\nHost: x\r\n\r\n")
            time.sleep(0.3)  # the answer fills the socket meanwhile
            got = b""
            while got.count(b"HTTP/1.1 200 OK") < 2:
                got += raw.recv(10000)
        self.assertEqual(json.loads(got[got.index(b"{") : got.rindex(b"}") + 1])["outputs"][0]["data"], [0.5] * 400000)
        self.stop()

    def test_grpc(self):
        self.serve(*self.with_tls(), *self.with_tokens())
        client = tritonclient.grpc.InferenceServerClient(
            "localhost:%d" % self.grpc_port, ssl=True, root_certificates=self.files.path("ca.pem")
        )
        self.addCleanup(client.close)
        headers = {"authorization": "Bearer " + self.tokens["infer"]}
        for count in (1, 5000, 700000):
            many = np.random.default_rng(count).random((2, count), np.float32)
            got = client.infer("floats", [tensor(tritonclient.grpc, many)], headers=headers).as_numpy("OUTPUT0")
            np.testing.assert_array_equal(got, many)
        with self.assertRaises(InferenceServerException):
            client.infer("floats", [tensor(tritonclient.grpc)])
        self.stop()

    def test_wrong_certificates(self):
        self.serve(*self.with_tls())
        with self.assertRaisesRegex(ssl.SSLCertVerificationError, "unable to get local issuer"):
            self.connection(self.context("other.pem")).connect()
        channel = grpc.secure_channel(
            "localhost:%d" % self.grpc_port,
            grpc.ssl_channel_credentials(pathlib.Path(self.files.path("other.pem")).read_bytes()),
        )
        with self.assertRaises(grpc.RpcError):
            channel.unary_unary("/inference.GRPCInferenceService/ServerLive")(b"", timeout=30)
        channel.close()
        self.stop()

    def test_expired_certificate(self):
        certificate, key = self.files.make("late", expired=True)
        time.sleep(1.1)
        self.serve("--tls-cert", certificate, "--tls-key", key)
        until(lambda: self.said("late.pem: the certificate has expired"))
        with self.assertRaisesRegex(ssl.SSLCertVerificationError, "certificate has expired"):
            self.connection(self.context()).connect()
        self.stop()

    def test_client_certificates(self):
        self.serve(*self.with_tls(), "--tls-client-ca", self.files.path("ca.pem"))
        good, bad = self.context(), self.context()
        good.load_cert_chain(*self.files.make("client"))
        bad.load_cert_chain(*self.files.make("stranger", ca="other"))
        self.assertEqual(self.ask(self.connection(good), "GET", "/v2")[0], 200)
        for context in (bad, self.context()):
            with self.assertRaises((ssl.SSLError, ConnectionError, http.client.RemoteDisconnected)):
                self.ask(self.connection(context), "GET", "/v2")
        client = tritonclient.grpc.InferenceServerClient(
            "localhost:%d" % self.grpc_port,
            ssl=True,
            root_certificates=self.files.path("ca.pem"),
            private_key=self.files.path("client.key"),
            certificate_chain=self.files.path("client.pem"),
        )
        self.assertTrue(client.is_server_live())
        client.close()
        self.stop()

    def test_reload_loses_nothing(self):
        self.serve(*self.with_tls())
        counts, errors, stop = [0, 0], [], threading.Event()

        def ask_on(index):
            try:
                context = self.context()
                while not stop.is_set():
                    connection = http.client.HTTPSConnection("127.0.0.1", self.port, timeout=60, context=context)
                    for _ in range(5):
                        connection.request("POST", "/v2/models/floats/infer", json.dumps(BODY))
                        answer = connection.getresponse()
                        answer.read()
                        assert answer.status == 200, answer.status
                        counts[index] += 1
                    connection.close()
            except Exception as error:  # noqa: BLE001
                errors.append(error)

        threads = [threading.Thread(target=ask_on, args=(index,)) for index in range(2)]
        for thread in threads:
            thread.start()
        for round_ in range(1, 4):
            self.files.make("server")
            until(lambda: sum("certificate read again" in line for line in self.server.lines) >= round_)
            before = counts[0]
            until(lambda: counts[0] > before + 5 or errors)
        self.assertEqual(errors, [])
        pathlib.Path(self.files.path("server.pem")).write_text("broken")
        until(lambda: self.said("the former certificate stays in force:", "server.pem"))
        before = counts[0]
        until(lambda: counts[0] > before + 5 or errors)
        stop.set()
        for thread in threads:
            thread.join()
        self.assertEqual(errors, [])
        self.stop()

    def test_slow_handshakes_end(self):
        self.serve(*self.with_tls(), "--header-timeout-ms", "200")
        for port in (self.port, self.grpc_port):
            for first in (b"", b"\x16\x03\x01"):
                with socket.create_connection(("127.0.0.1", port), 60) as silent:
                    silent.sendall(first)
                    self.assertEqual(silent.recv(100), b"")
        self.stop()


class AccessLogTest(Case):
    def test_lines_of_grpc(self):
        self.serve("--access-log", self.path("log"))
        client = tritonclient.grpc.InferenceServerClient("127.0.0.1:%d" % self.grpc_port)
        self.addCleanup(client.close)
        client.infer("floats", [tensor(tritonclient.grpc)], request_id="7", timeout=60000000)
        client.get_model_metadata("floats")
        for name in ("nothing", "floats"):
            with self.assertRaises(InferenceServerException):
                client.infer(name, [tensor(tritonclient.grpc)], outputs=[tritonclient.grpc.InferRequestedOutput("none")])
        answers = []
        client.start_stream(lambda result, error: answers.append(error))
        for name in ("floats", "nothing", "floats"):
            client.async_stream_infer(name, [tensor(tritonclient.grpc)])
        until(lambda: len(answers) == 3)
        client.stop_stream()
        self.ask(self.connection(), "POST", "/v2/models/floats/infer", BODY)
        self.stop()
        with open(self.path("log"), encoding="utf-8") as log:
            lines = [json.loads(line) for line in log]
        over_grpc = [line for line in lines if line["method"] == "gRPC"]
        self.assertEqual(len(lines), len(over_grpc) + 1)
        service = "/inference.GRPCInferenceService/"
        got = [(line["path"].replace(service, ""), line["status"], line["grpc_status"], line.get("model")) for line in over_grpc]
        self.assertEqual(
            got[:4],
            [
                ("ModelInfer", 200, 0, "floats"),
                ("ModelMetadata", 200, 0, None),
                ("ModelInfer", 200, 5, "nothing"),
                ("ModelInfer", 200, 3, "floats"),
            ],
        )
        self.assertEqual(
            sorted(got[4:]), sorted([("ModelStreamInfer", 200, 0, "floats")] * 2 + [("ModelStreamInfer", 200, 5, "nothing")])
        )
        first = over_grpc[0]
        self.assertEqual((first["id"], first["batch"]), ("7", 1))
        self.assertTrue(0 < first["slack_ms"] <= 60000)
        self.assertTrue(first["ms"] > 0 and first["bytes"] > 64)


class ClientsTest(Case):
    """`tutti load`, `top` and `plan` against a server with TLS and tokens."""

    def run_verb(self, *words, secret="", **environment):
        done = subprocess.run(
            [PROGRAM, *map(str, words)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            timeout=120,
            env={**os.environ, **environment},
        )
        return done.returncode, done.stdout, done.stderr

    def test_verbs(self):
        self.serve(*self.with_tls(), *self.with_tokens())
        url, ca = "https://localhost:%d" % self.port, ("--tls-ca", self.files.path("ca.pem"))
        pathlib.Path(self.path("one")).write_text(self.tokens["admin"] + "\n")
        login = (*ca, "--token-file", self.path("one"))
        load = ("load", url, "--model", "floats", "--length", 2000, "--concurrency", 8, "--requests", 200, "--rows", 8, "--json")
        code, out, said = self.run_verb(*load, *login)
        self.assertEqual(code, 0, said)
        report = json.loads(out)
        self.assertEqual(report["total"]["ok"], 200)
        code, out, said = self.run_verb("top", url, "--once", "--interval", 0.1, *ca, TUTTI_TOKEN=self.tokens["read"])
        self.assertEqual(code, 0, said)
        self.assertIn("floats", out)
        for words, environment, parts in (
            ((*load, *ca), {}, ["401", "Authorization: Bearer TOKEN"]),
            ((*load, *ca), {"TUTTI_TOKEN": self.tokens["read"]}, []),
            ((*load, "--token-file", self.path("one")), {}, ["unable to get local issuer certificate"]),
            ((*load, "--tls-ca", self.files.path("other.pem"), "--token-file", self.path("one")), {}, ["local issuer"]),
            ((*load, *ca, "--token-file", self.path("none")), {}, [self.path("none")]),
            ((*load, *ca, "--token-file", self.files.path("ca.pem")), {}, ["a token is one line of 1 to 511 visible"]),
            (("load", url.replace("https", "http"), *load[2:], *ca), {}, ["--tls-ca needs a URL that begins with https://"]),
            (("top", url.replace("https", "ftp"), "--once"), {}, ["only http:// and https:// are supported"]),
        ):
            code, out, said = self.run_verb(*words, **environment)
            if parts:
                self.assertNotEqual(code, 0, out)
            else:  # metadata may be read, inference not: every request is refused
                self.assertEqual(json.loads(out)["total"]["ok"], 0)
            for part in parts:
                self.assertIn(part, said)
            for secret in self.tokens.values():
                self.assertNotIn(secret, out + said)
        self.stop()


class StartTest(Case):
    def refused(self, *flags):
        done = subprocess.run(self.command("--grpc-port", "0", *flags), stderr=subprocess.PIPE, text=True, timeout=60)
        self.assertEqual(done.returncode, 2, done.stderr)
        return done.stderr

    def test_other_machines_need_a_guard(self):
        tls = self.with_tls()
        for flags in (["--http-host", "0.0.0.0"], ["--http-host", "::"], ["--dashboard", "0.0.0.0:0"], ["--admin", "0.0.0.0:0"]):
            said = self.refused(*flags)
            for word in flags[:1] + ["--tls-cert", "--tls-key", "--tokens", "--insecure"]:
                self.assertIn(word, said)
        self.assertIn("--tokens", self.refused("--http-host", "0.0.0.0", *tls))
        self.assertIn("--tls-cert", self.refused("--http-host", "0.0.0.0", *self.with_tokens()))
        for guard in (["--insecure"], tls + self.with_tokens(), tls + ["--tls-client-ca", self.files.path("ca.pem")]):
            server = Server(self.command("--grpc-port", "0", "--http-host", "0.0.0.0", *guard))
            until(lambda: any("serving 1 of 1" in line for line in server.lines) or server.process.poll() is not None)
            self.assertEqual(server.stop(60), 0, server.said())

    def test_broken_files(self):
        certificate, key = self.files.make("server")
        replace(self.path("tokens"), "ann infer\n")
        other = self.files.make("another")[1]
        for flags, parts in (
            (["--tls-cert", certificate], ["--tls-cert and --tls-key need each other"]),
            (["--tls-client-ca", certificate], ["--tls-client-ca needs --tls-cert"]),
            (["--tls-cert", self.path("none"), "--tls-key", key], [self.path("none"), "No such file"]),
            (["--tls-cert", key, "--tls-key", key], [key, "the server's certificate in PEM"]),
            (["--tls-cert", certificate, "--tls-key", other], [other, "private key of " + certificate]),
            (["--tokens", self.path("tokens")], ["tokens:1: the third field is the SHA-256 digest"]),
            (["--tokens", self.path("none")], [self.path("none")]),
            (["--admin", "here"], ["--admin here: it must be PORT, HOST:PORT", "unix:PATH"]),
            (["--admin", "unix:" + certificate], ["there is a file that is no socket"]),
            (["--admin", "unix:/" + "x" * 150], ["the path of a socket has 1 to 107 bytes"]),
        ):
            said = self.refused(*flags)
            for part in parts:
                self.assertIn(part, said)
        os.chmod(key, 0o644)
        self.serve("--tls-cert", certificate, "--tls-key", key)
        until(lambda: self.said("every user of this machine can read the private key"))
        self.stop()

    def test_token_verb(self):
        first, second = (subprocess.check_output([PROGRAM, "token", "ann", "infer", "--rate", "5"], text=True).split("\n") for _ in range(2))
        self.assertNotEqual(first[0], second[0])
        self.assertRegex(first[0], r"^[A-Za-z0-9_-]{44}$")
        self.assertRegex(first[1], r"^ann infer [0-9a-f]{64} rate=5$")
        for words in (["a b", "infer"], ["ann", "boss"], ["ann"]):
            done = subprocess.run([PROGRAM, "token", *words], stderr=subprocess.PIPE, text=True)
            self.assertEqual(done.returncode, 2, done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
