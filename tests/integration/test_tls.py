#!/usr/bin/env python3
"""TLS of `tutti serve` over HTTP and gRPC, and the clients of ours that use it."""
import http.client
import json
import os
import pathlib
import select
import signal
import socket
import ssl
import subprocess
import sys
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
from plain_grpc import HEADERS, PREFACE, SETTINGS, frame, literal  # noqa: E402
from access_case import BODY, PROGRAM, Case, tensor, until  # noqa: E402
from tritonclient.utils import InferenceServerException  # noqa: E402


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

    def one_turn(self, prepare):
        """What `prepare` sends while the server stands still is there when it goes on."""
        os.kill(self.server.process.pid, signal.SIGSTOP)
        try:
            prepare()
        finally:
            os.kill(self.server.process.pid, signal.SIGCONT)

    def hello(self):
        """The first bytes of a handshake."""
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        session = self.context().wrap_bio(incoming, outgoing, server_hostname="127.0.0.1")
        with self.assertRaises(ssl.SSLWantReadError):
            session.do_handshake()
        return outgoing.read()

    def test_handshakes_in_turns(self):
        """Many at a time hold up a connection that is there for some of them only."""
        self.serve(*self.with_tls())
        good = self.connection(self.context())
        self.assertEqual(self.ask(good, "GET", "/v2/health/live")[0], 200)
        hello, before = self.hello(), 0
        for _ in range(20):
            others = [socket.create_connection(("127.0.0.1", self.port), 60) for _ in range(200)]
            self.assertEqual(self.ask(good, "GET", "/v2/health/live")[0], 200)  # they are accepted

            def prepare():
                for other in others:
                    other.sendall(hello)
                good.request("GET", "/v2/health/live")

            self.one_turn(prepare)
            self.assertEqual(good.getresponse().read(), b"")
            before = len(select.select(others, [], [], 0)[0])
            for other in others:
                self.assertTrue(other.recv(1))  # each gets its turn
                other.close()
            if before < len(others) // 2:  # else this client was late to look
                break
        self.assertLess(before, len(others) // 2)
        self.stop()

    def test_requests_in_many_records(self):
        """More requests than a turn answers, in more records than TLS keeps, beside another connection that is read."""
        self.serve(*self.with_tls())
        context = self.context()
        context.set_alpn_protocols(["h2"])
        fields = {":method": "GET", ":scheme": "https", ":path": "/v2/health/live", ":authority": "x", "x": "y" * 50}
        block = b"".join(literal(name, value) for name, value in fields.items())
        count = 400

        def dial():
            made = context.wrap_socket(socket.create_connection(("127.0.0.1", self.port), 60), server_hostname="127.0.0.1")
            made.sendall(PREFACE + frame(SETTINGS, 0, 0))
            return made, made.recv(65536)

        one, other = dial(), dial()
        text = b"".join(frame(HEADERS, 5, stream, block) for stream in range(1, 2 * count, 2))
        self.assertGreater(len(text), 3 * 16384)
        self.one_turn(lambda: (one[0].sendall(text), other[0].sendall(text)))
        for connection, received in (one, other):
            ended = 0
            while ended < count:
                some = connection.recv(65536)
                self.assertTrue(some, "the connection ended after %d answers" % ended)
                received += some
                while len(received) >= 9 and len(received) >= 9 + int.from_bytes(received[:3], "big"):
                    ended += received[3] in (0, HEADERS) and received[4] & 1
                    received = received[9 + int.from_bytes(received[:3], "big") :]
            connection.close()
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


if __name__ == "__main__":
    unittest.main(verbosity=2)
