"""Serves a mixed load for half an hour, and checks the memory of the server.

Load: requests that come as they please to three models, binary and JSON, with deadlines; closed loops on a model of
1 ms; every few seconds a burst of more than can be served; all the time clients that go away in the middle, requests
that make no sense, pages that are read (metrics, statistics, index, trace), and models that are unloaded and loaded
again while they are asked for. Everything is bounded: two processors are enough, and SOAK_NICE keeps others going.

Memory must be flat: over the second half of the time a line through the resident sizes rises by less than 1 % or 2 MiB,
whichever is more, and twice its standard error (memory of exchanged models goes and comes). At the end: requests = answered + gone, accepted = ended, and what the clients counted agrees.
"""

import http.client
import json
import os
import pathlib
import random
import re
import socket
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "python"))
sys.path.insert(0, str(ROOT / "bench"))
import serving_models  # noqa: E402
from server_process import Server  # noqa: E402

PROGRAM = os.environ.get("PROGRAM", str(ROOT / "build" / "tutti"))
SECONDS = float(os.environ.get("SOAK_SECONDS", 1800))
SEED = int(os.environ.get("SOAK_SEED", random.randrange(1 << 31)))
ONLY = os.environ.get("SOAK_ONLY", "").split()  # some of the loads below, to find the culprit
EVERY_S = max(1.0, SECONDS / 60)
FLAGS = "--http-port 0 --executors 1 --model-control-mode explicit --load-model * --log-info true".split()


class Soak:
    def __init__(self, folder):
        self.server = Server([PROGRAM, "serve", "--model-repository", folder, *FLAGS])
        if not self.server.wait_ready(120):
            sys.exit("soak: " + self.server.said())
        self.host, port = self.server.address.split(":")
        self.port = int(port)
        self.ends_at = time.monotonic() + SECONDS
        self.wrong, self.statuses, self.lock = [], {}, threading.Lock()

    # What a thread of it may not do is end early: whatever goes wrong is kept, and told at the end.
    def always(self, work, pause_s):
        def loop():
            draw = random.Random(SEED + hash(work.__name__) % 1000)
            while time.monotonic() < self.ends_at:
                try:
                    work(draw)
                except Exception as error:  # noqa: it is the finding
                    self.wrong.append("%s: %r" % (work.__name__, error))
                time.sleep(pause_s)

        thread = threading.Thread(target=loop, daemon=True)
        thread.start()
        return thread

    def ask(self, method, path, body=None):
        connection = http.client.HTTPConnection(self.host, self.port, timeout=60)
        try:
            connection.request(method, path, body)
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def load(self, *flags):
        """A bounded run of the load generator; what it says of its answers."""
        done = subprocess.run(
            [PROGRAM, "load", "http://" + self.server.address, "--json", *flags],
            capture_output=True, text=True, check=False)  # fmt: skip
        if not done.stdout:
            raise RuntimeError(done.stderr.strip())
        return json.loads(done.stdout)["total"]

    def steady(self, draw):
        form = draw.choice(["--binary", "--json-body"])
        try:
            self.load("--model", "identity:4", "--model", "mlp1024:2", "--model", "identity_dyn:2", "--rate", "400",
                      "--duration", "20", "--slo-ms", "200", "--seed", str(draw.randrange(1 << 30)), form)  # fmt: skip
        except RuntimeError as error:
            if "not at ready state" not in str(error):  # mlp1024 is being exchanged
                raise

    def closed(self, draw):
        self.load("--model", "slow", "--concurrency", str(draw.randrange(1, 17)), "--duration", "10", "--binary")

    def flood(self, draw):
        self.load("--model", "runtime", "--concurrency", "200", "--duration", "1", "--slo-ms", str(draw.randrange(1, 20)), "--binary")

    def vanish(self, draw):
        body = json.dumps({"inputs": [{"name": "INPUT0", "shape": [1, 16], "datatype": "FP32", "data": [0.5] * 16}]})
        text = ("POST /v2/models/%s/infer HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s"
                % (draw.choice(["identity", "slow", "mlp1024"]), len(body), body)).encode()  # fmt: skip
        with socket.create_connection((self.host, self.port), timeout=60) as found:
            found.sendall(text[: draw.randrange(1, len(text) + 1)] if draw.random() < 0.7 else text * draw.randrange(1, 20))

    def nonsense(self, draw):
        bad = [b"GET / HTTP/9.9\r\n\r\n", b"POST /v2/models/identity/infer HTTP/1.1\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabc",
               b"\x00" * 40, b"GET /v2 HTTP/1.1\nHost: x\n\n", b"POST /v2/models/absent/infer HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}",
               b"POST /v2/models/identity/infer HTTP/1.1\r\nHost: x\r\nContent-Length: 400\r\n\r\n" + b"[" * 400]  # fmt: skip
        with socket.create_connection((self.host, self.port), timeout=60) as found:
            found.sendall(draw.choice(bad))
            found.shutdown(socket.SHUT_WR)
            while found.recv(65536):
                pass

    def read(self, draw):
        method, path = draw.choice([("GET", "/metrics"), ("GET", "/v2/models/stats"), ("POST", "/v2/repository/index"),
                                    ("GET", "/v2/models/identity/config"), ("GET", "/v2/debug/trace?seconds=1")])  # fmt: skip
        status, _ = self.ask(method, path)
        if status not in (200, 404):
            raise RuntimeError("%s %s: %d" % (method, path, status))

    def change(self, draw):
        name = draw.choice(["lstm256", "mlp1024"])
        if draw.random() < 0.5:
            self.ask("POST", "/v2/repository/models/%s/unload" % name)
        status, answer = self.ask("POST", "/v2/repository/models/%s/load" % name)
        if status != 200:
            raise RuntimeError("load %s: %d %s" % (name, status, answer))

    def resident(self):
        text = pathlib.Path("/proc/%d/status" % self.server.process.pid).read_text()
        return int(re.search(r"VmRSS:\s+(\d+)", text).group(1)) * 1024

    def metrics(self):
        values = {}
        for line in self.ask("GET", "/metrics")[1].decode().splitlines():
            if not line.startswith("#"):
                name, value = line.rsplit(" ", 1)
                values[name] = float(value)
        return values

    def books(self):
        """Once nothing is in flight but this very question."""
        for _ in range(100):
            at = self.metrics()
            if at["tutti_http_in_flight"] == 1:
                break
            time.sleep(0.1)
        if at["tutti_http_requests_total"] != at["tutti_http_answered_total"] + at["tutti_http_gone_total"] + 1:
            self.wrong.append("requests are lost: %s" % {k: v for k, v in at.items() if "http" in k})
        accepted = sum(v for k, v in at.items() if k.startswith("tutti_requests_accepted_total"))
        ended = sum(v for k, v in at.items()
                    if k.startswith(("nv_inference_request_success", "nv_inference_request_failure")))  # fmt: skip
        if accepted != ended:
            self.wrong.append("accepted %d, ended %d" % (accepted, ended))
        return at, accepted


def rise(samples):
    """Bytes by which the line through (s, bytes) rises from the first to the last, and the standard error of that."""
    mean_t = sum(t for t, _ in samples) / len(samples)
    mean_b = sum(b for _, b in samples) / len(samples)
    spread = sum((t - mean_t) ** 2 for t, _ in samples)
    slope = sum((t - mean_t) * (b - mean_b) for t, b in samples) / spread
    left = sum((b - mean_b - slope * (t - mean_t)) ** 2 for t, b in samples) / max(1, len(samples) - 2)
    span = samples[-1][0] - samples[0][0]
    return slope * span, (left / spread) ** 0.5 * span


def main():
    print("seed %d, %.0f s" % (SEED, SECONDS), flush=True)
    with tempfile.TemporaryDirectory() as folder:
        serving_models.write(folder)
        soak = Soak(folder)
        work = [(soak.steady, 0), (soak.closed, 2), (soak.flood, 9), (soak.vanish, 0.05), (soak.nonsense, 0.1),
                (soak.read, 0.2), (soak.change, 3)]  # fmt: skip
        threads = [soak.always(what, pause_s) for what, pause_s in work if not ONLY or what.__name__ in ONLY]
        began_at, samples = time.monotonic(), []
        print("%8s %12s %14s" % ("s", "resident MiB", "HTTP requests"))
        while time.monotonic() < soak.ends_at:
            time.sleep(min(EVERY_S, max(0.0, soak.ends_at - time.monotonic())))
            samples.append((time.monotonic() - began_at, soak.resident()))
            count = soak.metrics()["tutti_http_requests_total"]
            print("%8.0f %12.2f %14.0f" % (samples[-1][0], samples[-1][1] / 2**20, count), flush=True)
        for thread in threads:
            thread.join(120)
        at, accepted = soak.books()
        code = soak.server.stop(60)
        if code != 0:
            soak.wrong.append("the server ended with %r; %s" % (code, soak.server.said()))
    half = [s for s in samples if s[0] >= samples[-1][0] / 2]
    grown, error = rise(half)
    most = max(2 * 2**20, 0.01 * half[0][1]) + 2 * error
    print("second half: %.2f to %.2f MiB, a line through it rises by %.2f +- %.2f MiB (at most %.2f)"
          % (min(b for _, b in half) / 2**20, max(b for _, b in half) / 2**20, grown / 2**20, error / 2**20, most / 2**20))  # fmt: skip
    print("%d HTTP requests, %d inferences accepted, %d clients gone" % (at["tutti_http_requests_total"], accepted, at["tutti_http_gone_total"]))
    if grown > most:
        soak.wrong.append("memory grows")
    for what in sorted(set(soak.wrong))[:20]:
        print("soak: %s (%d times)" % (what, soak.wrong.count(what)), file=sys.stderr)
    sys.exit(1 if soak.wrong else 0)


main()
