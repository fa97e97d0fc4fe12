"""An etcd of one server for a test: loopback, free ports, a folder of its own. What scripts/setup.sh --etcd unpacked. With
certificates (certificates.py) it speaks TLS, and asks clients for a certificate."""
import atexit
import base64
import json
import pathlib
import shutil
import signal
import ssl
import subprocess
import tempfile
import time
import urllib.request

from needs import find_program
from server_process import free_port


def find_etcd():
    """The program; None: it is not there."""
    return find_program("etcd/usr/bin/etcd")


class Etcd:
    def __init__(self, certificates=None):
        self.scheme, self.tls, self.context = "http", [], None
        if certificates:
            self.use(certificates)
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="tutti-etcd-"))
        atexit.register(shutil.rmtree, self.folder, True)
        atexit.register(self.stop)
        self.port, self.peer_port, self.process = free_port(), free_port(), None
        self.start()

    def use(self, certificates, ca="ca"):
        """A certificate signed by that authority; the clients' are, too. From the next start on."""
        certificate, key = certificates.make("etcd", ca)
        authority = certificates.path(ca + ".pem")
        self.scheme = "https"
        self.tls = ["--cert-file", certificate, "--key-file", key, "--trusted-ca-file", authority, "--client-cert-auth"]
        self.context = ssl.create_default_context(cafile=authority)
        self.context.load_cert_chain(certificate, key)

    def start(self):
        url, peer = "%s://127.0.0.1:%d" % (self.scheme, self.port), "http://127.0.0.1:%d" % self.peer_port
        command = [find_etcd(), "--data-dir", str(self.folder / "data"), "--listen-client-urls", url, "--advertise-client-urls", url,
                   "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", "default=" + peer, *self.tls]  # fmt: skip
        with open(self.folder / "log", "ab") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log)
        until = time.monotonic() + 60
        while True:
            try:
                self.ask("/v3/kv/range", {"key": encode("x")})
                return
            except OSError:
                if time.monotonic() > until:
                    raise AssertionError("etcd does not start: " + (self.folder / "log").read_text()) from None
                time.sleep(0.05)

    def ask(self, path, body):
        request = urllib.request.Request("%s://127.0.0.1:%d%s" % (self.scheme, self.port, path), json.dumps(body).encode())
        with urllib.request.urlopen(request, timeout=5, context=self.context) as answer:
            return json.loads(answer.read())

    def put(self, key, value):
        self.ask("/v3/kv/put", {"key": encode(key), "value": encode(value)})

    def lease_of(self, key):
        """0: it has none."""
        entries = self.ask("/v3/kv/range", {"key": encode(key)}).get("kvs", [])
        return int(entries[0].get("lease", 0)) if entries else 0

    def revoke(self, lease):
        """As when it runs out."""
        self.ask("/v3/lease/revoke", {"ID": lease})

    def lose(self):
        """It ends, and so does its data; another one starts at its address."""
        self.kill()
        self.process.wait()
        shutil.rmtree(self.folder / "data")
        self.start()

    def keys(self, prefix):
        """Names behind the prefix, and values."""
        body = {"key": encode(prefix), "range_end": encode(prefix[:-1] + chr(ord(prefix[-1]) + 1))}
        entries = self.ask("/v3/kv/range", body).get("kvs", [])
        return {decode(entry["key"])[len(prefix):]: decode(entry.get("value", "")) for entry in entries}

    def kill(self, number=signal.SIGKILL):
        self.process.send_signal(number)
        if number == signal.SIGKILL:
            self.process.wait()

    def stop(self):
        if self.process and self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.kill()
            self.process.wait()


def encode(text):
    return base64.b64encode(text.encode()).decode()


def decode(text):
    return base64.b64decode(text).decode()
