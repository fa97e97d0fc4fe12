#!/usr/bin/env python3
"""REST over HTTP/2 on the HTTP port: tests of HTTP/1.1 that need more than a running server, over HTTP/2; and what only
HTTP/2 has. tests/python/run_server_tests.py runs the suite of a running server (test_server_http2.py)."""
import json
import pathlib
import select
import signal
import socket
import ssl
import struct
import sys
import threading
import unittest

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests" / "python"), str(ROOT / "tests" / "integration")]

from needs import need  # noqa: E402

need("numpy", "tritonclient", "grpc", "h2")

import hpack  # noqa: E402
import test_access  # noqa: E402
from access_case import BODY, Case, until  # noqa: E402
from h2.errors import ErrorCodes  # noqa: E402
from http2_client import Http2Connection  # noqa: E402
from plain_grpc import CONTINUATION, DATA, GOAWAY, HEADERS, PING, PREFACE, RST_STREAM, SETTINGS, frame  # noqa: E402
from server_process import free_port, is_read  # noqa: E402

INFER = "/v2/models/floats/infer"


class Http2Case(Case):
    def connection(self, tls=None, port=None, **options):
        made = Http2Connection("127.0.0.1:%d" % (port or self.port), context=tls, **options)
        self.addCleanup(made.close)
        return made

    def metrics(self):
        page = self.ask(self.connection(), "GET", "/metrics")[2]
        lines = [line.rsplit(" ", 1) for line in page.splitlines() if not line.startswith("#")]
        return {name: float(value) for name, value in lines}


class Access(Http2Case):
    """Tests of HTTP/1.1 (test_access.py)."""

    test_roles = test_access.TokensTest.test_roles_over_http
    test_pages_of_other_sites_change_nothing = test_access.CrossSiteTest.test_pages_of_other_sites_change_nothing

    def test_names(self):
        self.serve()
        connection = self.connection()
        for host, status in (("127.0.0.1:%d" % self.port, 200), ("other.test", 400)):
            self.assertEqual(self.ask(connection, "GET", "/v2", headers={"host": host})[0], status)
        self.stop()

    def test_lines_of_the_access_log(self):
        self.serve("--access-log", self.path("log"))
        connection = self.connection()
        for path, status in ((INFER, 200), ("/v2/models/none/infer", 404), (INFER, 200)):
            self.assertEqual(self.ask(connection, "POST", path, BODY)[0], status)
        self.stop()
        with open(self.path("log"), encoding="utf-8") as log:
            lines = [json.loads(line) for line in log]
        self.assertEqual([(line["method"], line["path"], line["status"]) for line in lines][:2], [("POST", INFER, 200), ("POST", "/v2/models/none/infer", 404)])
        self.assertEqual(len(lines), 3)
        self.assertEqual((lines[0]["model"], lines[0]["batch"], lines[0]["client"]), ("floats", 1, "127.0.0.1"))
        self.assertGreater(lines[0]["bytes"], 10)

    def test_unix_socket(self):
        admin = self.path("admin")
        self.serve("--admin", "unix:" + admin)
        connection = self.connection(path=admin)
        for _ in range(3):
            self.assertEqual(self.ask(connection, "POST", "/v2/repository/models/floats/load", {})[0], 200)
        self.stop()

    def test_the_port_of_metrics(self):
        port = free_port()
        self.serve("--metrics-port", port)
        connection = self.connection(port=port)
        self.assertEqual(self.ask(connection, "GET", "/v2")[0], 404)
        self.assertIn("tutti_http2_requests_total", self.ask(connection, "GET", "/metrics")[2])
        self.stop()


class Beginning(Http2Case):
    """How a connection becomes one of HTTP/2."""

    def talk(self, plain, *pieces):
        """What a client of HTTP/1.1 reads that sends these pieces, until the server closes the connection. A client that closes its
        side first has gone: what it sent ahead may stay unanswered."""
        for piece in pieces:
            plain.sendall(piece)
        with plain.makefile("rb") as answers:
            return answers.read()

    def dial(self):
        plain = socket.create_connection(("127.0.0.1", self.port), 60)
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.addCleanup(plain.close)
        return plain

    def test_prior_knowledge(self):
        self.serve()
        plain = self.dial()
        for byte in PREFACE + frame(SETTINGS, 0, 0):
            plain.sendall(bytes([byte]))
        self.assertEqual(plain.recv(9)[3], SETTINGS)
        # It is the first thing on a connection, or nothing.
        get = b"GET /v2/health/live HTTP/1.1\r\nHost: x\r\n\r\n"
        for first in (get, b""):
            said = self.talk(self.dial(), first + (PREFACE if first else PREFACE.replace(b"SM", b"MS")))
            self.assertEqual(said.count(b"HTTP/1.1 200"), bool(first))
            self.assertIn(b"HTTP/1.1 505" if first else b"HTTP/1.1 400", said)
        # An offer to change to it is not taken up.
        offer = b"Connection: Upgrade, HTTP2-Settings, close\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n\r\n"
        self.assertIn(b"HTTP/1.1 200", self.talk(self.dial(), get[:-2] + offer))
        self.stop()
        self.assertEqual(self.server.process.returncode, 0)

    def test_alpn(self):
        self.serve(*self.with_tls())
        ask = b"GET /v2/health/live HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
        for offered, chosen in ((["http/1.1", "h2"], "h2"), (["h2"], "h2"), (["http/1.1"], "http/1.1"), (None, None)):
            context = self.context()
            if offered:
                context.set_alpn_protocols(offered)
            with context.wrap_socket(self.dial(), server_hostname="127.0.0.1") as made:
                self.assertEqual(made.selected_alpn_protocol(), chosen)
                if chosen != "h2":
                    self.assertIn(b"HTTP/1.1 200", self.talk(made, ask))
            if chosen != "h2":  # the bytes say nothing where the handshake has decided
                with context.wrap_socket(self.dial(), server_hostname="127.0.0.1") as made:
                    self.assertIn(b"HTTP/1.1 505", self.talk(made, PREFACE))
        context = self.context()
        context.set_alpn_protocols(["h3"])
        with self.assertRaises(ssl.SSLError):
            context.wrap_socket(self.dial(), server_hostname="127.0.0.1")
        connection = self.connection(self.context())
        for count in (1, 5000, 200000):
            values = list(range(count))
            body = {"inputs": [{"name": "INPUT0", "shape": [1, count], "datatype": "FP32", "data": values}]}
            status, _, text = self.ask(connection, "POST", INFER, body)
            self.assertEqual((status, json.loads(text)["outputs"][0]["data"] == values), (200, True))
        self.stop()


class Streams(Http2Case):
    """Many requests of one connection."""

    def setUp(self):
        super().setUp()
        pathlib.Path(self.folder.name, "models", "floats", "profile.pbtxt").write_text("linear { alpha_ms: 1 beta_ms: 30 }\n")

    def start(self, connection, count):
        return [connection.start("POST", INFER, json.dumps(dict(BODY, id=str(i)))) for i in range(count)]

    def test_in_flight(self):
        self.serve()
        connection = self.connection()
        streams = self.start(connection, 100)
        self.assertEqual(self.ask(connection, "GET", "/v2/health/live")[0], 200)  # it overtakes them
        for i, number in reversed(list(enumerate(streams))):
            stream = connection.wait(number)
            self.assertEqual((stream.status, json.loads(stream.body)["id"]), (200, str(i)))
        self.assertEqual(self.metrics()["tutti_http2_connections_accepted_total"], 2)
        self.stop()

    def test_clients_that_leave(self):
        self.serve()
        connection = self.connection()
        for number in self.start(connection, 20):
            connection.cancel(number)
        self.assertEqual(self.ask(connection, "POST", INFER, BODY)[0], 200)
        other = self.connection()
        self.start(other, 20)
        other.close()

        def settled():
            at = self.metrics()
            done = at["tutti_http_answered_total"] + at["tutti_http_gone_total"]
            return at["tutti_http_in_flight"] == 1 and at["tutti_http_requests_total"] == done + 1

        until(settled)
        self.stop()

    def test_a_server_that_stops_answers_what_has_begun(self):
        self.serve()
        connection = self.connection()
        streams = self.start(connection, 30)
        until(lambda: self.metrics()["tutti_http2_requests_total"] >= 30)
        self.server.process.send_signal(signal.SIGTERM)
        for number in streams:
            self.assertEqual(connection.wait(number).status, 200)
        self.assertEqual(connection.wait_end(), ErrorCodes.NO_ERROR)
        self.assertGreaterEqual(connection.last, streams[-1])
        self.stop()

    def test_an_address(self):
        self.serve("--limit-per-address", 5)
        connection = self.connection()
        streams = self.start(connection, 6)  # the batch of the first takes longer than sending the rest, or they wait
        answers = [connection.wait(number) for number in streams]
        for answer in answers:
            self.assertIn(answer.status, (200, 429))
            if answer.status == 429:
                self.assertIn("5 requests in flight, the limit of each address", answer.body.decode())
                self.assertEqual(answer.headers["retry-after"], "1")
        held = [connection.start("POST", INFER, b"{", end=False) for _ in range(5)]
        self.assertEqual(self.ask(connection, "GET", "/v2")[0], 429)
        connection.cancel(held[0])
        until(lambda: self.ask(connection, "GET", "/v2")[0] == 200)
        self.stop()

    def test_the_last_places(self):
        """They are kept for one short request each, of health or metrics."""
        self.serve("--max-connections", 128)
        kept = [self.connection() for _ in range(126)]
        for connection in kept:
            self.assertEqual(self.ask(connection, "GET", "/v2/health/live")[0], 200)

        def is_answered():
            probe = self.connection()
            try:
                self.assertEqual(self.ask(probe, "GET", "/v2/health/live")[0], 200)
            except ConnectionError:  # it took longer than its place is lent for
                return False
            self.assertEqual(probe.wait_end(), ErrorCodes.NO_ERROR)
            return True

        until(is_answered)
        self.stop()


class Limits(Http2Case):
    """Each has the status of HTTP/1.1, and the connection goes on."""

    def test_of_requests(self):
        self.serve("--max-header-bytes", 3000, "--max-header-count", 20, "--max-body-bytes", 5000, "--max-management-bytes", 100)
        connection = self.connection()
        many = {"x-%d" % i: "y" for i in range(20)}
        chunked = [connection.start("POST", INFER, b" " * 6000, end=False)]  # of unknown length
        for method, path, body, headers, status, part in (
            ("GET", "/v2", None, many, 431, "more than 20 headers"),
            ("GET", "/v2", None, {"x": "y" * 4000}, 431, "take more than 3000 bytes"),
            ("GET", "/v2?" + "x" * 2048, None, {}, 414, "longer than 2047 bytes"),
            ("POST", INFER, b" " * 5001, {}, 413, "the body of 5001 bytes is over the limit of 5000"),
            ("POST", "/v2/logging", b" " * 101, {}, 413, "the body of 101 bytes is over the limit of 100"),
            ("POST", INFER, b"{}", {"expect": "200"}, 417, "100-continue"),
            ("POST", INFER, b"{}", {"content-encoding": "br"}, 415, "gzip or deflate"),
            ("POST", "/v2", b"{}", {}, 405, ""),
            ("GET", "/nothing", None, {}, 404, ""),
        ):
            got, answered, text = self.ask(connection, method, path, body, headers)
            self.assertEqual(got, status, text)
            self.assertIn(part, text)
            self.assertEqual(answered.get("allow"), "GET, HEAD" if status == 405 else None)
        self.assertEqual(connection.wait(chunked[0]).status, 413)
        number = connection.start("POST", INFER, None, {"expect": "100-continue"}, end=False)
        until(lambda: connection.receive() or connection.streams[number].informed)
        self.assertEqual(connection.streams[number].informed, [100])
        connection.send(number, json.dumps(BODY).encode(), end=True)
        self.assertEqual(connection.wait(number).status, 200)
        self.assertEqual(self.ask(connection, "HEAD", "/v2")[1]["content-length"], self.ask(connection, "GET", "/v2")[1]["content-length"])
        self.stop()

    def test_of_time(self):
        self.serve("--body-timeout-ms", 100, "--header-timeout-ms", 100)
        connection = self.connection()
        number = connection.start("POST", INFER, b"{", end=False)
        stream = connection.wait(number)
        self.assertEqual((stream.status, b"the body took too long" in stream.body), (408, True))
        slow = Raw(self)
        slow.send(frame(HEADERS, 0, 1, slow.fields))  # and no CONTINUATION
        self.assertEqual(slow.end(), ErrorCodes.ENHANCE_YOUR_CALM)
        self.stop()
        self.serve("--idle-timeout-ms", 100)
        self.assertIsNone(Raw(self).end())
        self.stop()

    def test_of_bodies_together(self):
        """The largest one is given up, whichever version of HTTP it comes by."""
        mib = 1 << 20
        self.serve("--max-receive-bytes", 8 * mib)
        for hog_version in ("h2", "http1"):
            if hog_version == "h2":
                hog = self.connection()
                number = hog.start("POST", INFER, b" " * (6 * mib), end=False)
                found = hog.socket
            else:
                found = socket.create_connection(("127.0.0.1", self.port), 60)
                found.sendall(b"POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % (INFER.encode(), 7 * mib))
                found.sendall(b" " * (6 * mib))
            until(lambda: is_read(found))  # else the next one would be the largest
            body = b" " * (4 * mib) + json.dumps(BODY).encode()
            other = self.connection()

            def is_given_up():  # once all that it sent has arrived
                self.ask(other, "POST", INFER, body)
                if hog_version == "http1":
                    return select.select([found], [], [], 0)[0]
                while select.select([found], [], [], 0)[0]:
                    hog.receive()
                return hog.streams[number].ended

            until(is_given_up)
            said = bytes(hog.streams[number].body) if hog_version == "h2" else found.recv(4096)
            self.assertIn(b"this one holds the most of it", said)
            found.close()
            self.assertEqual(self.ask(other, "POST", INFER, body)[0], 200)
        self.stop()


class Raw:
    """A client that makes frames of its own."""

    def __init__(self, case):
        self.socket = socket.create_connection(("127.0.0.1", case.port), 60)
        case.addCleanup(self.socket.close)
        self.fields = hpack.Encoder().encode(
            [(":method", "POST"), (":path", INFER), (":authority", "x"), (":scheme", "http")], huffman=False
        )
        self.send(PREFACE + frame(SETTINGS, 0, 0))

    def send(self, sent):
        """False: the server takes no more."""
        try:
            self.socket.sendall(sent)
            return True
        except OSError:
            return False

    def end(self):
        """Reads until the server closes; the code of its GOAWAY, None: it sent none."""
        said, code = b"", None
        try:
            while piece := self.socket.recv(65536):
                said += piece
        except ConnectionError:
            pass  # it closed while bytes were on their way
        while len(said) >= 9:
            length = int.from_bytes(said[:3], "big")
            if said[3] == GOAWAY:
                code = ErrorCodes(int.from_bytes(said[13:17], "big"))
            said = said[9 + length :]
        return code


class Abuse(Http2Case):
    """What a client must not do ends its connection, and no other one."""

    def check(self, make):
        """Sends what `make` makes of the number of a stream, until the connection ends."""
        raw, number = Raw(self), 1
        reader = threading.Thread(target=lambda: codes.append(raw.end()), daemon=True)
        codes = []
        reader.start()
        while reader.is_alive() and raw.send(b"".join(make(raw, number + 2 * i) for i in range(100))):
            number += 200
        reader.join(60)
        self.assertFalse(reader.is_alive())
        self.assertIn(codes[0], (ErrorCodes.ENHANCE_YOUR_CALM, ErrorCodes.INTERNAL_ERROR, ErrorCodes.PROTOCOL_ERROR, None))
        self.assertEqual(self.ask(self.connection(), "POST", INFER, BODY)[0], 200)

    def test_floods(self):
        self.serve()
        cancel = struct.pack(">I", ErrorCodes.CANCEL)
        self.check(lambda raw, number: frame(HEADERS, 4, number, raw.fields) + frame(RST_STREAM, 0, number, cancel))
        self.check(lambda raw, number: frame(SETTINGS, 0, 0))
        self.check(lambda raw, number: frame(PING, 0, 0, b"12345678"))
        self.check(lambda raw, number: (frame(HEADERS, 0, 1, raw.fields) if number == 1 else b"") + frame(CONTINUATION, 0, 1))
        self.check(lambda raw, number: (frame(HEADERS, 4, 1, raw.fields) if number == 1 else b"") + frame(DATA, 0, 1))
        self.stop()

    def test_the_reason_reaches_a_client_that_goes_on_sending(self):
        """The server reads on until the client has closed: a reset could take the reason with it."""
        self.serve()
        for _ in range(20):
            raw = Raw(self)
            self.assertTrue(raw.send(frame(DATA, 0, 0, b"x") + frame(PING, 0, 0, bytes(8)) * 4000))
            said = b""
            while piece := raw.socket.recv(65536):  # a reset would raise
                said += piece
            self.assertIn(b"\0\0\0\0" + struct.pack(">I", ErrorCodes.PROTOCOL_ERROR), said)
            raw.socket.close()
        self.stop()

    def test_what_comes_after_the_end_is_read_slowly(self):
        """Flow control stops a client that goes on sending, until the server closes."""
        self.serve()
        raw, sent, piece = Raw(self), 0, bytes(1 << 16)
        raw.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 16)
        self.assertTrue(raw.send(frame(DATA, 0, 0, b"x")))
        while raw.send(piece):
            sent += len(piece)
        self.assertLess(sent, 16 << 20)
        self.stop()

    def test_a_client_that_takes_nothing(self):
        self.serve("--write-timeout-ms", 100)
        connection = self.connection(window=0)
        streams = [connection.start("GET", "/metrics") for _ in range(50)]
        for number in streams:
            with self.assertRaises(ConnectionResetError):
                connection.wait(number)
            self.assertEqual(connection.streams[number].reset, ErrorCodes.CANCEL)
        self.assertEqual(self.ask(self.connection(), "POST", INFER, BODY)[0], 200)
        self.stop()


if __name__ == "__main__":
    unittest.main()
