#!/usr/bin/env python3
"""A scheduler whose etcd, or whose API server of Kubernetes, answers what costs most: heads and bodies that never end,
lengths that are not kept, nesting, names without number, silence. It says so, goes on trying, and keeps within its memory."""
import base64
import itertools
import json
import os
import pathlib
import re
import shutil
import socket
import ssl
import sys
import threading
import time
import unittest

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "python"))

from certificates import Certificates  # noqa: E402
from cluster_process import PROGRAM, Cluster, await_true  # noqa: E402

MIB = 1 << 20
MEMORY_BYTES = 64 * MIB  # more than before the answers
OK = b"HTTP/1.1 200 OK\r\n"
BLOCK = b"y" * 65536


def fixed(text, status=b"200 OK", more=b""):
    return b"HTTP/1.1 %s\r\n%sContent-Length: %d\r\n\r\n" % (status, more, len(text)) + text


def encode(text):
    return base64.b64encode(text.encode()).decode()


def entry(key, value, revision=7):
    return {"key": encode("tutti/test/" + key), "value": encode(value), "mod_revision": str(revision)}


def listing(entries):
    return fixed(json.dumps({"header": {"revision": "9"}, "kvs": entries}).encode())


# What comes first, and what is repeated for ever.
ANSWERS = {
    "head": (OK, b"X: " + BLOCK + b"\r\n"),
    "line": (b"HTTP/1.1 200 ", BLOCK),
    "length": (OK + b"Content-Length: 100000000000\r\n\r\n", BLOCK),
    "no length": (OK + b"\r\n", BLOCK),
    "chunks": (OK + b"Transfer-Encoding: chunked\r\n\r\n", b"%x\r\n%s\r\n" % (len(BLOCK), BLOCK)),
    "chunk's length": (OK + b"Transfer-Encoding: chunked\r\n\r\n", b"0" * 65536),
    "interim": (b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 1000),
    "refusal": (b"HTTP/1.1 500 No\r\n\r\n", BLOCK),
    "nesting": (fixed(b"[" * 900_000), None),
    "values": (fixed(b'{"kvs":[' + b"{}," * 300_000 + b"1]}"), None),
    "many values": (fixed(b'{"kvs":[' + b"{}," * 60_000 + b"{}]}"), None),
    "not a number": (fixed(b'{"header":{"revision":"-1"},"spec":{"replicas":1e300},"metadata":{"resourceVersion":5}}'), None),
    "half": (OK + b"Content-Length: 100\r\n\r\n{", None),
    "nothing": (b"", None),
    "longer": (OK + b"Content-Length: 2\r\n\r\n{}" + BLOCK, None),
    "redirect": (fixed(b"", b"302 Found", b"Location: http://127.0.0.1:1/\r\n"), None),
    "no text": (fixed(b'{"message":"\xff\xfe\xc3("}', b"403 Forbidden"), None),
    "bytes": (fixed(b"\xff\xfe\x00\x1b[2J\n", b"403 Forbidden"), None),
    "control": (fixed(b'{"message":"one\\n\\u001b[2Jtwo\\u0007"}', b"403 Forbidden"), None),
    "other protocol": (b"SSH-2.0-OpenSSH_9.2\r\n", None),
}
SILENT = {"silence": (b"", b"")}  # the connection stays, and nothing comes


class HostileServer:
    """Sends `answer` to whatever is asked. None: `serve` of its owner does."""

    def __init__(self, answer, context=None, serve=None):
        self.answer, self.context, self.serve = answer, context, serve
        self.count, self.sent = 0, 0  # of hostile answers, and of their bytes
        self.socket = socket.socket()
        self.socket.bind(("127.0.0.1", 0))
        self.socket.listen(64)
        self.port = self.socket.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        try:
            while True:
                client = self.socket.accept()[0]
                threading.Thread(target=self.take, args=(client,), daemon=True).start()
        except OSError:
            return  # it is closed

    def stop(self):
        self.socket.close()

    def take(self, client):
        try:
            if self.context:
                client = self.context.wrap_socket(client, server_side=True)
            with client:
                self.talk(client)
        except OSError:
            pass

    def talk(self, client):
        while request := self.read(client):
            if self.serve and (reply := self.serve(request)):
                client.sendall(reply)
                continue
            self.count += 1
            first, again = self.answer
            client.sendall(first)
            self.sent += len(first)
            for _ in itertools.repeat(None) if again else ():
                client.sendall(again)
                self.sent += len(again)
            if again is not None:
                while client.recv(65536):  # until the client has had enough
                    pass
            return

    @staticmethod
    def read(client):
        """A request, with its body."""
        text = b""
        while b"\r\n\r\n" not in text:
            some = client.recv(65536)
            if not some:
                return None
            text += some
        found = re.search(rb"Content-Length: (\d+)", text)
        while found and len(text) < text.index(b"\r\n\r\n") + 4 + int(found.group(1)):
            text += client.recv(65536)
        return text


def memory(pid, what):
    status = pathlib.Path("/proc/%d/status" % pid).read_text()
    return int(re.search(r"^%s:\s+(\d+) kB" % what, status, re.M).group(1)) * 1024


def processor_s(pid):
    fields = pathlib.Path("/proc/%d/stat" % pid).read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def is_sanitized():
    """AddressSanitizer keeps freed memory, and so shows nothing about ours."""
    return b"__asan_init" in pathlib.Path(PROGRAM).read_bytes()


class Node(unittest.TestCase):
    """A scheduler beside a hostile server."""

    maxDiff = None

    def await_attempts(self, server, count, what):
        await_true(lambda: server.count >= count, 60, lambda: "%s: %d of %d attempts" % (what, server.count, count))

    def check_lines(self, text):
        """What a server sent begins no line of its own, and moves no cursor."""
        for line in text.splitlines()[1:]:
            self.assertRegex(line, r"^  [IWE]\d{4} ", text)
        self.assertNotIn("\x1b", text)


    def end(self, node):
        began = time.monotonic()
        self.assertEqual(node.stop(30), 0, node.said())
        self.assertLess(time.monotonic() - began, 20, node.said())

    def check(self, name, answer):
        server, node = self.begin(answer)
        pid = node.process.pid
        before, began, used = memory(pid, "VmRSS"), time.monotonic(), processor_s(pid)
        self.await_attempts(server, self.ATTEMPTS, name)
        await_true(lambda: self.WORDS in node.said(), 60, lambda: name + ": " + node.said())
        share = (processor_s(pid) - used) / (time.monotonic() - began)
        if not is_sanitized():
            self.assertLess(memory(pid, "VmHWM") - before, MEMORY_BYTES, node.said())
        if not answer[1]:  # reading what does come is work
            self.assertLess(share, 0.5, "%s: it spins; %s" % (name, node.said()))
        self.check_lines(node.said())
        self.check_page(node)
        self.end(node)

    def check_page(self, node):
        """Where else a person sees what the server said."""

    def check_all(self, answers, check=None):
        failures = []

        def run(name, answer):
            try:
                (check or self.check)(name, answer)
            except Exception as error:  # noqa: BLE001: whatever it is, it is reported
                failures.append("%s: %r" % (name, error))

        threads = [threading.Thread(target=run, args=pair, daemon=True) for pair in answers.items()]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(200)
            self.assertFalse(thread.is_alive())
        self.assertEqual(failures, [])


class Etcd(Node):
    """It lists the cluster until a node has started."""

    ATTEMPTS = 6
    WORDS = "etcd does not answer, which delays no request: "

    def begin(self, answer):
        cluster = Cluster()
        self.file = cluster.file
        self.addCleanup(cluster.stop)

        def list_nodes(request):
            return listing([entry("nodes", cluster.file.read_text())]) if b"/v3/kv/range" in request else None

        server = HostileServer(answer, serve=list_nodes)
        self.addCleanup(server.stop)
        node = cluster.start("s1", spec="etcd://127.0.0.1:%d/test" % server.port)
        self.assertTrue(node.wait_ready(60), node.said())
        server.serve, server.count = None, 0
        return server, node

    def check_watch(self, name, answer, members=0):
        """Requests are answered, but not the watch."""

        def serve(request):
            if b"/v3/watch" in request:
                return None
            if b"/v3/kv/range" in request:
                many = [entry("members/%s%d" % ("n" * 150, i), "x") for i in range(members)]
                return listing([entry("nodes", self.file.read_text())] + many)
            lease = {"ID": "5", "TTL": "30"}
            return fixed(json.dumps({"result": lease, "succeeded": True, "header": {"revision": "9"}, **lease}).encode())

        server, node = self.begin(answer)
        server.serve = serve
        pid = node.process.pid
        before, began, used = memory(pid, "VmRSS"), time.monotonic(), processor_s(pid)
        self.await_attempts(server, 3, name)
        share = (processor_s(pid) - used) / (time.monotonic() - began)
        if members:
            self.assertLess(share, 0.7, node.said())
        await_true(lambda: name == "changes" or "etcd cannot be watched, which delays no request: " in node.said(), 60, lambda: name + ": " + node.said())
        if not is_sanitized():
            self.assertLess(memory(pid, "VmHWM") - before, MEMORY_BYTES, node.said())
        self.end(node)

    def test_answers_that_end(self):
        self.check_all({name: answer for name, answer in ANSWERS.items() if not answer[1]})

    def test_answers_that_do_not_end(self):
        self.check_all(SILENT | {name: answer for name, answer in ANSWERS.items() if answer[1]})

    def test_watches(self):
        line = b'{"result":{"header":{"revision":"9"},"events":[%s]}}\n'
        change = json.dumps({"kv": entry("members/" + "m" * 300_000, "x")}).encode()
        watches = {
            "changes": (OK + b"\r\n", line % change),
            "empty changes": (OK + b"\r\n", line % (b"{}," * 60_000 + b"{}")),
            "empty lines": (OK + b"\r\n", b"\n" * 65536),
        }
        names = ("head", "no length", "chunk's length", "half", "nothing", "redirect")
        self.check_all(SILENT | {name: ANSWERS[name] for name in names} | watches, self.check_watch)

    def test_members_without_number(self):
        self.check_watch("members", ANSWERS["nothing"], 12_000)


class Kubernetes(Node):
    """The scheduler asks how many pods there are."""

    ATTEMPTS = 3
    WORDS = "kubernetes does not say what runs: "

    def begin(self, answer):
        cluster = Cluster()
        self.addCleanup(cluster.stop)
        files = Certificates(cluster.folder)
        account = cluster.folder / "account"
        account.mkdir()
        shutil.copy(files.path("ca.pem"), account / "ca.crt")
        (account / "namespace").write_text("tutti")
        (account / "token").write_text("secret")
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*files.make("kubernetes"))
        server = HostileServer(answer, context)
        self.addCleanup(server.stop)
        cluster.start("f1")
        node = cluster.start("s1", "--scale-kubernetes", "tutti-{pool}", "--scale-kubernetes-account", str(account), "--scale-call-s", "2",
                             "--scale-kubernetes-url", "https://127.0.0.1:%d" % server.port, "--scale-retry-s", "0.5")  # fmt: skip
        self.assertTrue(node.wait_ready(60), node.said())
        node.cluster = cluster
        return server, node

    def check_page(self, node):
        shown = node.cluster.command("scale", "show", node.cluster.spec, "--json")
        self.assertEqual(shown.returncode, 0, shown.stderr)
        self.assertIn(self.WORDS, json.loads(shown.stdout)["pools"][0]["last"])
        plain = node.cluster.command("scale", "show", node.cluster.spec)
        self.assertNotIn("\x1b", plain.stdout + plain.stderr)

    def test_answers_that_end(self):
        names = ("values", "many values", "not a number", "half", "nothing", "longer", "redirect", "no text", "bytes", "control")
        self.check_all({name: ANSWERS[name] for name in names})

    def test_answers_that_do_not_end(self):
        self.check_all(SILENT | {name: ANSWERS[name] for name in ("head", "length", "chunk's length", "refusal")})


if __name__ == "__main__":
    unittest.main()
