#!/usr/bin/env python3
"""Tokens, roles, the admin interface and the access log of `tutti serve`, as clients see them over HTTP and gRPC."""
import http.client
import json
import os
import pathlib
import select
import shutil
import signal
import socket
import subprocess
import sys
import time
import unittest

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "python"))

from needs import need  # noqa: E402

need("numpy", "tritonclient", "grpc")

import grpc  # noqa: E402
import tritonclient.grpc  # noqa: E402
from access_case import BODY, PROGRAM, Case, replace, tensor, token, until  # noqa: E402
from server_process import Server, free_port  # noqa: E402
from tritonclient.utils import InferenceServerException  # noqa: E402


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

    def test_a_limit_refuses_one_request_of_a_stream(self):
        late = pathlib.Path(self.path("models"), "late")
        shutil.copytree(pathlib.Path(self.path("models"), "floats"), late)
        (late / "profile.pbtxt").write_text("linear { beta_ms: 1000 }\n")
        secret, line = token("lim", "infer", "--in-flight", "1")
        replace(self.path("tokens"), line)
        self.serve("--load-model", "late", "--tokens", self.path("tokens"), "--access-log", self.path("log"))
        client = tritonclient.grpc.InferenceServerClient("127.0.0.1:%d" % self.grpc_port)
        self.addCleanup(client.close)
        answers = []
        client.start_stream(lambda result, error: answers.append((result, error)), headers={"authorization": "Bearer " + secret})
        client.async_stream_infer("late", [tensor(tritonclient.grpc)], request_id="1")
        client.async_stream_infer("floats", [tensor(tritonclient.grpc)], request_id="2")
        until(lambda: len(answers) == 2)
        self.assertIn("lim has reached its limit of 1 inferences at a time", str(answers[0][1]))
        self.assertIsNone(answers[1][1])
        self.assertEqual(answers[1][0].get_response().id, "1")
        client.async_stream_infer("floats", [tensor(tritonclient.grpc)])
        until(lambda: len(answers) == 3)
        self.assertIsNone(answers[2][1])
        client.stop_stream()
        until(lambda: self.said("audit: refused: lim: gRPC ModelStreamInfer: lim has reached its limit"))
        self.stop()
        refused = [line for line in self.lines_of_log() if line.get("grpc_status") == 8]
        self.assertEqual([(line["identity"], line["id"]) for line in refused], [("lim", "2")])

    def test_switches_of_the_log_do_not_hide_what_manages(self):
        self.serve(*self.with_tokens())
        connection = self.connection()
        settings = {"log_info": False, "log_warning": False, "log_error": False}
        for path, body in (("/v2/logging", settings),) * 30 + (("/v2/repository/models/floats/load", {}),):  # more than ten a second
            self.assertEqual(self.ask(connection, "POST", path, body, self.bearer("admin"))[0], 200)
        self.assertEqual(self.ask(connection, "POST", "/v2/logging", {}, self.bearer("infer"))[0], 403)
        until(lambda: self.said("audit: admin-user: POST /v2/repository/models/floats/load: status 200"))
        until(lambda: self.said("audit: refused: infer-user: POST /v2/logging: "))
        self.stop()

    def test_limits(self):
        self.serve(*self.with_tokens(), "--access-log", self.path("log"))
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
        until(lambda: self.said("audit: refused: slow: POST /v2/models/floats/infer: slow has reached its limit"))
        self.stop()
        self.assertEqual({line["identity"] for line in self.lines_of_log() if line["status"] == 429}, {"slow"})

    def test_bytes_of_bodies(self):
        """What an identity has in receipt, over all its connections."""
        self.serve(*self.with_tokens(), "--connection-threads", "2")
        wide, line = token("wide", "infer", "--bytes", str(1 << 20))
        with open(self.path("tokens"), encoding="utf-8") as now:
            replace(self.path("tokens"), now.read() + line)
        until(lambda: self.said("tokens read again: 4 in"))
        authorization = "Authorization: Bearer %s\r\n" % wide

        def hold():
            """A body of which 3/8 of the limit has been sent."""
            found = socket.create_connection(("127.0.0.1", self.port), timeout=60)
            self.addCleanup(found.close)
            found.sendall(("POST /v2/models/floats/infer HTTP/1.1\r\nHost: x\r\nContent-Length: 500000\r\n%s\r\n"
                           % authorization).encode() + b" " * 393216)  # fmt: skip
            return found

        held = [hold(), hold()]

        def ask(name):
            bearer = {"Authorization": "Bearer " + wide} if name == "wide" else self.bearer(name)
            return self.ask(self.connection(), "POST", "/v2/models/floats/infer", b" " * 300000 + json.dumps(BODY).encode(), bearer)

        def is_over():
            for index, found in enumerate(held):  # it is the one over the limit if the request below came first
                if select.select([found], [], [], 0)[0]:
                    self.assertIn(b" 429 ", found.recv(4096))
                    held[index] = hold()
            return ask("wide")[0] == 429

        until(is_over)
        status, headers, content = ask("wide")
        self.assertEqual(status, 429)
        self.assertIn("wide has reached its limit of 1048576 bytes of bodies in receipt at a time", content)
        self.assertEqual(headers["Retry-After"], "1")
        self.assertEqual(ask("infer")[0], 200)  # another identity
        held[0].close()
        until(lambda: ask("wide")[0] == 200)
        held[1].close()
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
        page = free_port()
        self.serve("--admin", "unix:" + place, "--dashboard", page, "--access-log", self.path("log"), *self.with_tokens())
        self.assertEqual(os.stat(place).st_mode & 0o777, 0o600)
        self.assertEqual(self.ask(self.connection(port=page), "GET", "/v2", headers=self.bearer("infer"))[0], 200)

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
        seen = {(line["method"], line["path"], line["status"]) for line in self.lines_of_log()}
        for line in ("POST", "/v2/models/floats/infer", 200), ("POST", "/v2/repository/models/floats/load", 200), ("GET", "/v2", 200):
            self.assertIn(line, seen)

    def test_ipv6(self):
        """Addresses stand in the log as they are to be written."""
        try:
            with socket.socket(socket.AF_INET6) as probe:
                probe.bind(("::1", 0))
        except OSError:
            self.skipTest("this machine has no IPv6 loopback")
        server = Server(self.command("--http-host", "::1", "--grpc-port", "0", "--admin", "[::1]:0"))
        until(lambda: any("try: curl" in line for line in server.lines) or server.process.poll() is not None)
        self.assertEqual(server.stop(60), 0, server.said())
        for pattern in (r"serving 1 of 1 models at http://\[::1\]:\d+\n", r"try: curl .*http://\[::1\]:\d+/", r"the admin interface is \[::1\]:\d+\n"):
            self.assertRegex("".join(server.lines), pattern)

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
        lines = self.lines_of_log()
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

    def test_identities(self):
        secret, line = token("shop", "infer")
        replace(self.path("tokens"), line)
        self.serve("--access-log", self.path("log"), "--tokens", self.path("tokens"))
        bearer = "Bearer " + secret
        connection = self.connection()
        for headers, status in (({"Authorization": bearer}, 200), ({"Authorization": "Bearer x"}, 401), ({}, 401)):
            self.assertEqual(self.ask(connection, "POST", "/v2/models/floats/infer", BODY, headers)[0], status)
        client = tritonclient.grpc.InferenceServerClient("127.0.0.1:%d" % self.grpc_port)
        self.addCleanup(client.close)
        client.infer("floats", [tensor(tritonclient.grpc)], headers={"authorization": bearer})
        client.get_model_metadata("floats", headers={"authorization": bearer})
        self.stop()
        with open(self.path("log"), encoding="utf-8") as log:
            text = log.read()
        self.assertNotIn(secret, text)
        lines = [json.loads(line) for line in text.splitlines()]
        lines.sort(key=lambda line: line["method"] == "gRPC")
        self.assertEqual([line.get("identity") for line in lines], ["shop", None, None, "shop", "shop"])
        self.assertEqual({line["client"] for line in lines}, {"127.0.0.1"})


class AddressTest(Case):
    """--limit-per-address: connections of both protocols together, and calls."""

    WORDS = "the client's address has %d %s, the limit of each address (--limit-per-address); try again later"

    def open_connections(self, count):
        """Kept HTTP connections, which the server knows."""
        made = [self.connection() for _ in range(count)]
        for connection in made:
            self.assertEqual(self.ask(connection, "GET", "/v2/health/live")[0], 200)
        return made

    def stub(self):
        channel = grpc.insecure_channel("127.0.0.1:%d" % self.grpc_port, [("grpc.use_local_subchannel_pool", 1)])
        self.addCleanup(channel.close)
        return channel.unary_unary("/inference.GRPCInferenceService/ServerLive")

    def test_connections(self):
        admin = self.path("admin")
        self.serve("--limit-per-address", 2, "--admin", "unix:" + admin)
        first, second = self.open_connections(2)
        status, headers, text = self.ask(self.connection(), "GET", "/v2/health/live")
        self.assertEqual((status, headers["Retry-After"], headers["Connection"]), (429, "1", "close"))
        self.assertEqual(json.loads(text)["error"], self.WORDS % (2, "connections"))
        # A connection of gRPC counts like the others, and its calls get the reason.
        with self.assertRaises(grpc.RpcError) as raised:
            self.stub()(b"", timeout=60)
        self.assertEqual(raised.exception.code(), grpc.StatusCode.RESOURCE_EXHAUSTED)
        self.assertEqual(raised.exception.details(), self.WORDS % (2, "connections"))
        # Another address, and the admin interface, are not concerned.
        other = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60, source_address=("127.0.0.2", 0))
        self.addCleanup(other.close)
        self.assertEqual(self.ask(other, "GET", "/v2/health/live")[0], 200)
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(admin)
            client.sendall(b"GET /v2/health/live HTTP/1.1\r\nHost: x\r\n\r\n")
            self.assertIn(b"200 OK", client.recv(1000))
        # What ends makes room.
        self.assertEqual(self.ask(first, "GET", "/v2/health/live")[0], 200)
        second.close()
        until(lambda: self.ask(self.connection(), "GET", "/v2/health/live")[0] == 200)
        first.close()
        until(lambda: self.is_live())
        self.stop()

    def is_live(self):
        try:
            return self.stub()(b"", timeout=60) == b"\x08\x01"
        except grpc.RpcError as error:
            self.assertEqual(error.code(), grpc.StatusCode.RESOURCE_EXHAUSTED)
            return False

    def test_a_refused_connection_ends(self):
        self.serve("--limit-per-address", 1)
        self.open_connections(1)
        with socket.create_connection(("127.0.0.1", self.grpc_port), timeout=60) as client:
            client.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\4\0\0\0\0\0")
            while client.recv(1000):
                pass
        self.stop()

    def test_calls(self):
        self.serve("--limit-per-address", 3)
        channel = grpc.insecure_channel("127.0.0.1:%d" % self.grpc_port)
        self.addCleanup(channel.close)
        watch = channel.unary_stream("/grpc.health.v1.Health/Watch")
        held = [watch(b"") for _ in range(3)]
        for call in held:
            next(call)
        live = channel.unary_unary("/inference.GRPCInferenceService/ServerLive")
        with self.assertRaises(grpc.RpcError) as raised:
            live(b"", timeout=60)
        self.assertEqual(raised.exception.code(), grpc.StatusCode.RESOURCE_EXHAUSTED)
        self.assertEqual(raised.exception.details(), self.WORDS % (3, "requests in flight"))
        held[0].cancel()

        def is_live():
            try:
                return live(b"", timeout=60) == b"\x08\x01"
            except grpc.RpcError as error:
                self.assertEqual(error.code(), grpc.StatusCode.RESOURCE_EXHAUSTED)
                return False

        until(is_live)
        for call in held:
            call.cancel()
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
            (["--admin", "unix:" + self.path("none/socket")], ["none/socket: No such file or directory"]),
        ):
            said = self.refused(*flags)
            for part in parts:
                self.assertIn(part, said)
        self.assertNotIn("model floats", said)  # it was found before models were loaded
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
