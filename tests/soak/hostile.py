#!/usr/bin/env python3
"""Good clients with deadlines beside hostile ones, and faults of the system. Prints a report as JSON; exit code 1 if an answer was
wrong, a request was lost, the server ended, memory grew, or the good clients were not served within a second of the end.

SOAK_SECONDS (1800), SOAK_SEED, PROGRAM (build/tutti), SOAK_ONLY: some of the hostile loads, to find a culprit. SOAK_PACE (0):
seconds that each hostile load waits after an action, and a good client five times less, where others need the processors."""
import base64
import http.client
import json
import os
import pathlib
import random
import re
import resource
import signal
import socket
import struct
import sys
import tempfile
import threading
import time
import zlib

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "python"))
os.environ.setdefault("TUTTI_PROGRAM", os.environ.get("PROGRAM", str(ROOT / "build" / "tutti")))

from fault_board import open_board  # noqa: E402
from plain_client import Server, is_sanitized  # noqa: E402
from plain_grpc import CONTINUATION, DATA, HEADERS, PING, PREFACE, RST_STREAM, SETTINGS, frame, literal  # noqa: E402
from server_process import free_port  # noqa: E402

SECONDS = float(os.environ.get("SOAK_SECONDS", 1800))
SEED = int(os.environ.get("SOAK_SEED", random.randrange(1 << 31)))
PACE_S = float(os.environ.get("SOAK_PACE", 0))
ONLY = os.environ.get("SOAK_ONLY", "").split()
CALM_S = max(3.0, SECONDS / 10)  # before the hostile clients come
GOOD = 4  # clients
DEADLINE_US = 2_000_000
MIB = 1 << 20
INFER = "/v2/models/good/infer"
CONFIG = """backend: "emulated" max_batch_size: 8
input { name: "input" data_type: TYPE_FP32 dims: 16 }
output { name: "y" data_type: TYPE_FP32 dims: 16 }
"""


def pack(text):
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    return packer.compress(text) + packer.flush()


def body(values):
    return json.dumps(
        {
            "inputs": [{"name": "input", "shape": [1, 16], "datatype": "FP32", "data": values}],
            "parameters": {"timeout": DEADLINE_US},
        }
    ).encode()


BOMBS = [pack(b" " * (30 * MIB)), pack(b'{"inputs":[' + b"{}," * (8 * MIB)), pack(b"[" * (20 * MIB)), pack(body([0] * 16) + b" " * (60 * MIB)),
         pack(json.dumps({"parameters": {"config": '{"input":[' + "{}," * (8 * MIB)}}).encode())]  # fmt: skip
MESSAGES = [("RepositoryModelLoad", pack(b"\x1a\0" * (8 * MIB))), ("ModelInfer", pack(b"\x22\0" * (8 * MIB))),
            ("LogSettings", pack(b"\x0a\0" * 16000)), ("ModelInfer", pack(b"\xf8\7\1" * 100_000))]  # fmt: skip


def is_echo(found, sent):
    """The same as numbers of 32 bits."""
    return struct.pack("16f", *found) == struct.pack("16f", *sent) if len(found) == 16 else False


END_STREAM, END_HEADERS = 1, 4  # flags of frames of HTTP/2


def head(method, path, **more):
    fields = {":method": method, ":scheme": "http", ":path": path, ":authority": "x", **more}
    return b"".join(literal(name.replace("_", "-"), value) for name, value in fields.items())


GRPC_HEAD = head("POST", "/inference.GRPCInferenceService/ServerLive", te="trailers", content_type="application/grpc")


def fill_disk():
    """In the server before it starts: a file of more than 1 MiB, which the recording becomes, finds no room."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (MIB, MIB))
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)


class Soak:
    def __init__(self, folder, has_faults=True):
        """Without faults: only clients are hostile, and nothing is recorded."""
        self.draw = random.Random(SEED)
        models = pathlib.Path(folder) / "models"
        for name in ("good", "other", "wide"):
            (models / name / "1").mkdir(parents=True)
            (models / name / "config.pbtxt").write_text(CONFIG.replace("16", "-1") if name == "wide" else CONFIG)
            (models / name / "profile.pbtxt").write_text("linear { alpha_ms: 0.05 beta_ms: 0.2 }")
        self.board, environment = open_board(pathlib.Path(folder) / "board")
        self.is_sanitized = is_sanitized()
        start = dict(os.environ)
        if has_faults and not self.is_sanitized:
            start.update(environment)
        flags = "--model-control-mode explicit --load-model good --load-model wide --body-timeout-ms 5000 --header-timeout-ms 3000".split()
        self.grpc_address = ("127.0.0.1", free_port())
        flags += ["--max-receive-bytes", str(128 * MIB), "--grpc-port", str(self.grpc_address[1])]
        flags += ["--record", str(pathlib.Path(folder) / "recording")] if has_faults else []
        self.server = Server(models, *flags, limits=fill_disk if has_faults else None, start={"env": start})
        host, port = self.server.address.split(":")
        self.address = (host, int(port))
        self.findings, self.latencies_s, self.counts, self.lock = [], {}, {}, threading.Lock()
        self.phase, self.ends_at = "calm", float("inf")

    def find(self, what):
        with self.lock:
            self.findings.append(what)

    def count(self, what):
        with self.lock:
            self.counts[what] = self.counts.get(what, 0) + 1

    # --- the good ones ---

    def good(self, index):
        """Its echo must be right, or the request refused with a reason; a broken connection is made again."""
        draw, connection = random.Random(SEED + index), None
        while time.monotonic() < self.ends_at:
            try:
                connection = connection or http.client.HTTPConnection(*self.address, timeout=30)
                began, phase = time.monotonic(), self.phase
                values = [draw.random() for _ in range(16)]
                connection.request("POST", INFER, body(values))
                answer = connection.getresponse()
                content = json.loads(answer.read())
                took = time.monotonic() - began
                with self.lock:
                    self.latencies_s.setdefault(phase, []).append(took if answer.status == 200 else None)
                if answer.status == 200 and not is_echo(content["outputs"][0]["data"], values):
                    self.find("a wrong answer: %s" % content)
                elif answer.status not in (200, 503, 500):
                    self.find("good: %d %s" % (answer.status, content))
            except (OSError, http.client.HTTPException, ValueError):
                connection = None  # an injected fault, or a descriptor that was missing
                with self.lock:
                    self.latencies_s.setdefault(self.phase, []).append(None)
            time.sleep(max(0.002, PACE_S / 5))

    # --- the hostile ones: each does one thing, and may fail in any way ---

    def dial(self):
        return socket.create_connection(self.address, timeout=5)

    def send(self, path, content, more="", read=True):
        with self.dial() as found:
            found.sendall(("POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n%s\r\n" % (path, len(content), more)).encode() + content)
            if read:
                found.recv(65536)

    def slow_loris(self, draw):
        held = [self.dial() for _ in range(20)]
        for found in held:
            found.sendall(b"GET /v2/health/live HTTP/1.1\r\nHost: x\r\nX: ")
        for _ in range(10):
            time.sleep(0.1)
            held[draw.randrange(len(held))].sendall(b"a")
        for found in held:
            found.close()

    def promise(self, draw):
        held = [self.dial() for _ in range(20)]
        for found in held:
            found.sendall(b"POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: 67108864\r\n\r\n" % INFER.encode())
            found.sendall(b" " * draw.randrange(MIB))
        time.sleep(0.5)
        for found in held:
            found.close()

    def bomb(self, draw):
        path = draw.choice([INFER, "/v2/trace/setting", "/v2/logging", "/v2/repository/models/other/load"])
        self.send(path, draw.choice(BOMBS), "Content-Encoding: gzip\r\n", draw.random() < 0.7)

    def answers(self, draw):
        """A few bytes ask for much text, or for its compression."""
        count = draw.choice([MIB // 8, MIB])
        request = {"inputs": [{"name": "input", "shape": [1, count], "datatype": "FP32", "parameters": {"binary_data_size": 4 * count}}],
                   "outputs": [{"name": "y", "parameters": {"binary_data": draw.random() < 0.5}}]}  # fmt: skip
        text = json.dumps(request).encode()
        more = "Inference-Header-Content-Length: %d\r\nAccept-Encoding: gzip\r\n" % len(text)
        with self.dial() as found:
            found.sendall(("POST /v2/models/wide/infer HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n%s\r\n" % (len(text) + 4 * count, more)).encode())
            found.sendall(text + struct.pack("<I", draw.randrange(1 << 30)) * count)
            if draw.random() < 0.7:
                found.recv(65536)

    def smuggle(self, draw):
        shapes = [b"Content-Length: 3\r\nTransfer-Encoding: chunked", b"Content-Length: 3\r\nContent-Length: 4", b"Transfer-Encoding: chunked, identity",
                  b"Content-Length : 3", b" Content-Length: 3", b"Transfer-Encoding:\tchunked\r\nTransfer-Encoding: x"]  # fmt: skip
        with self.dial() as found:
            found.sendall(b"POST %s HTTP/1.1\r\nHost: x\r\n%s\r\n\r\n0\r\n\r\nGET /metrics HTTP/1.1\r\nHost: x\r\n\r\n" % (INFER.encode(), draw.choice(shapes)))
            answer = found.recv(65536)
            if b"HTTP/1.1 200" in answer:
                self.find("smuggled: %r" % answer[:200])

    def reset(self, draw):
        for _ in range(20):
            found = self.dial()
            content = body([1] * 16)
            found.sendall(b"POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % (INFER.encode(), len(content)) + content[: draw.randrange(len(content) + 1)])
            found.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            found.close()

    def flood(self, draw):
        content = body([1] * 16)
        request = b"POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % (INFER.encode(), len(content)) + content
        with self.dial() as found:
            found.sendall(request * draw.randrange(1, 200))
            found.settimeout(0.2)
            while found.recv(65536):
                pass

    def reload(self, draw):
        name = draw.choice(["other", "absent", "%ff", "a%0ab", "x" * 300])
        file = base64.b64encode(bytes(draw.randrange(256) for _ in range(200))).decode()
        content = json.dumps({"parameters": {"config": "{}", "file:1/model.onnx": file}}) if draw.random() < 0.5 else "{}"
        self.send("/v2/repository/models/%s/%s" % (name, draw.choice(["load", "unload"])), content.encode())

    def dial_h2(self, address, settings=b""):
        found = socket.create_connection(address, timeout=5)
        found.sendall(PREFACE + frame(SETTINGS, 0, 0, settings))
        return found

    def h2_reset(self, draw):
        """Requests that are given up as soon as they are made."""
        address, fields = draw.choice([(self.address, head("GET", "/metrics")), (self.grpc_address, GRPC_HEAD)])
        with self.dial_h2(address) as found:
            for first in range(1, 2000, 200):
                found.sendall(b"".join(frame(HEADERS, END_HEADERS | END_STREAM, i, fields) + frame(RST_STREAM, 0, i, bytes(4)) for i in range(first, first + 200, 2)))
            found.settimeout(0.2)
            while found.recv(65536):
                pass

    def h2_deaf(self, draw):
        """Answers for which there is never room."""
        with self.dial_h2(self.address, struct.pack(">HI", 4, 0)) as found:
            found.sendall(b"".join(frame(HEADERS, END_HEADERS | END_STREAM, i, head("GET", "/metrics")) for i in range(1, 200, 2)))
            time.sleep(draw.random())

    def h2_endless(self, draw):
        """Headers, pings or settings without an end."""
        start, again = draw.choice([
            (frame(HEADERS, 0, 1, head("GET", "/metrics")), frame(CONTINUATION, 0, 1, literal("x", "y" * 100) * 100)),
            (b"", frame(PING, 0, 0, bytes(8)) * 1000),
            (b"", frame(SETTINGS, 0, 0, struct.pack(">HI", 3, 1)) * 1000),
            (frame(HEADERS, END_HEADERS, 1, head("POST", INFER)), frame(DATA, 0, 1) * 1000),
        ])  # fmt: skip
        with self.dial_h2(draw.choice([self.address, self.grpc_address])) as found:
            found.sendall(start)
            for _ in range(200):  # without reading, until the server has closed or reads no more
                found.sendall(again)

    def messages(self, draw):
        """A few bytes of gRPC that unpack to many fields."""
        method, packed = draw.choice(MESSAGES)
        fields = head("POST", "/inference.GRPCInferenceService/" + method, te="trailers", content_type="application/grpc", grpc_encoding="gzip")
        message = b"\1" + struct.pack(">I", len(packed)) + packed
        pieces = [message[i : i + 16384] for i in range(0, len(message), 16384)]
        with self.dial_h2(self.grpc_address) as found:
            found.sendall(frame(HEADERS, END_HEADERS, 1, fields) + b"".join(frame(DATA, 0, 1, piece) for piece in pieces[:-1]))
            found.sendall(frame(DATA, END_STREAM, 1, pieces[-1]))
            for _ in range(draw.randrange(4)):
                found.recv(65536)

    def pages(self, draw):
        """Those that take long to write."""
        path = draw.choice(["/v2/debug/trace?seconds=%d" % draw.randrange(1, 3601), "/metrics", "/v2/models/stats"])
        with self.dial() as found:
            found.sendall(b"GET %s HTTP/1.1\r\nHost: x\r\n\r\n" % path.encode() * draw.randrange(1, 20))
            for _ in range(draw.randrange(4)):
                found.recv(65536)

    def h2_promise(self, draw):
        """Bodies that begin on many streams, and stop."""
        with self.dial_h2(self.address) as found:
            for i in range(1, 100, 2):
                found.sendall(frame(HEADERS, END_HEADERS, i, head("POST", INFER)) + frame(DATA, 0, i, b" " * draw.randrange(1000)))
            time.sleep(draw.random())

    def descriptors(self, _draw):
        pid = self.server.process.pid
        before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
        used = len(list(pathlib.Path("/proc/%d/fd" % pid).iterdir()))
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (used + 2, before[1]))
        time.sleep(0.2)
        resource.prlimit(pid, resource.RLIMIT_NOFILE, before)
        time.sleep(5)

    def fault(self, draw):
        """One call of the system fails (tests/faults)."""
        if self.board.count:
            self.board.armed = draw.randrange(self.board.count)
        time.sleep(0.05)

    def hostile(self, work):
        draw = random.Random("%d %s" % (SEED, work.__name__))
        while time.monotonic() < self.ends_at:
            try:
                work(draw)
                self.count(work.__name__)
            except OSError:
                self.count(work.__name__ + " cut off")
                time.sleep(0.01)
            except Exception as error:  # pylint: disable=broad-exception-caught
                self.find("the soak itself, %s: %r" % (work.__name__, error))
                return
            time.sleep(PACE_S)

    # --- what must hold ---

    def resident(self):
        text = pathlib.Path("/proc/%d/status" % self.server.process.pid).read_text()
        return int(re.search(r"VmRSS:\s+(\d+)", text).group(1)) * 1024

    def page(self):
        connection = http.client.HTTPConnection(*self.address, timeout=30)
        connection.request("GET", "/metrics")
        lines = connection.getresponse().read().decode().splitlines()
        connection.close()
        return {line.rsplit(" ", 1)[0]: float(line.rsplit(" ", 1)[1]) for line in lines if line[:1] not in "#"}

    def balance(self):
        """Once nothing is in flight but this question."""
        for _ in range(200):
            at = self.page()
            if at["tutti_http_in_flight"] == 1:
                break
            time.sleep(0.05)
        if at["tutti_http_requests_total"] != at["tutti_http_answered_total"] + at["tutti_http_gone_total"] + 1:
            self.find("requests are lost: %s" % {k: v for k, v in at.items() if "http" in k})
        accepted = sum(v for k, v in at.items() if k.startswith("tutti_requests_accepted_total"))
        ended = sum(v for k, v in at.items() if k.startswith(("nv_inference_request_success", "nv_inference_request_failure")))
        if accepted != ended:
            self.find("accepted %d, ended %d" % (accepted, ended))
        return at

    def recovery_s(self):
        began = time.monotonic()
        while True:
            try:
                connection = http.client.HTTPConnection(*self.address, timeout=30)
                connection.request("POST", INFER, body([0] * 16))
                if connection.getresponse().status == 200:
                    return time.monotonic() - began
            except (OSError, http.client.HTTPException):
                pass
            if time.monotonic() - began > 30:
                self.find("it does not serve again")
                return None
            time.sleep(0.01)


def slope(samples):
    """Bytes by which the line through (s, bytes) rises over its length, and the standard error of that."""
    mean_t, mean_b = (sum(column) / len(samples) for column in zip(*samples))
    spread = sum((t - mean_t) ** 2 for t, _ in samples)
    rise = sum((t - mean_t) * (b - mean_b) for t, b in samples) / spread
    left = sum((b - mean_b - rise * (t - mean_t)) ** 2 for t, b in samples) / max(1, len(samples) - 2)
    span = samples[-1][0] - samples[0][0]
    return rise * span, (left / spread) ** 0.5 * span


def shares(values):
    took = sorted(t for t in values if t is not None)
    if not took:
        return {"requests": len(values), "served": 0}
    return {"requests": len(values), "served": len(took), "p50_ms": round(1e3 * took[len(took) // 2], 2),
            "p99_ms": round(1e3 * took[int(0.99 * (len(took) - 1))], 2)}  # fmt: skip


def run(soak):
    began = time.monotonic()
    threads = [threading.Thread(target=soak.good, args=(i,), daemon=True) for i in range(GOOD)]
    for thread in threads:
        thread.start()
    time.sleep(CALM_S)
    soak.phase, soak.ends_at = "hostile", began + SECONDS
    loads = [soak.slow_loris, soak.promise, soak.bomb, soak.answers, soak.smuggle, soak.reset, soak.flood, soak.reload, soak.descriptors]
    loads += [soak.h2_reset, soak.h2_deaf, soak.h2_endless, soak.h2_promise, soak.messages, soak.pages]
    loads += [] if soak.is_sanitized else [soak.fault]
    for load in loads:
        if not ONLY or load.__name__ in ONLY:
            threads.append(threading.Thread(target=soak.hostile, args=(load,), daemon=True))
            threads[-1].start()
    samples = []
    while time.monotonic() < soak.ends_at and soak.server.process.poll() is None:
        time.sleep(max(0.5, SECONDS / 100))
        if soak.server.process.poll() is None:
            samples.append((time.monotonic() - began, soak.resident()))
    for thread in threads:
        thread.join(60)
    for load in loads:
        name = load.__name__
        if name in (ONLY or [name]) and not soak.counts.get(name, 0) + soak.counts.get(name + " cut off", 0):
            soak.find("%s did nothing" % name)
    soak.board.armed = -1
    return samples


def main():
    with tempfile.TemporaryDirectory() as folder:
        soak = Soak(folder)
        samples = run(soak)
        code = soak.server.process.poll()
        report = {"seconds": SECONDS, "seed": SEED, "load_average": os.getloadavg()[1]}
        if code is None:
            report["recovery_s"] = soak.recovery_s()
            at = soak.balance()
            report["http_requests"] = at["tutti_http_requests_total"]
            soak.server.process.terminate()
            code = soak.server.process.wait(60)
        if code != 0:
            soak.find("the server ended with %r; %s" % (code, soak.server.said()[-2000:]))
    half = [s for s in samples if s[0] >= samples[-1][0] / 2]
    grown, error = slope(half) if len(half) > 2 else (0, 0)
    if grown > max(16 * MIB, 0.05 * half[0][1]) + 2 * error and not soak.is_sanitized:
        soak.find("memory grows by %.1f +- %.1f MiB" % (grown / MIB, error / MIB))
    if report.get("recovery_s") and report["recovery_s"] > 1 and not soak.is_sanitized:
        soak.find("it took %.1f s to serve again" % report["recovery_s"])
    report.update(
        good={phase: shares(values) for phase, values in soak.latencies_s.items()},
        hostile=soak.counts,
        faults=soak.board.failures,
        resident_mib=[round(b / MIB, 1) for _, b in (samples[0], max(samples, key=lambda s: s[1]), samples[-1])],
        rise_mib=[round(grown / MIB, 2), round(error / MIB, 2)],
        findings=sorted(set(soak.findings))[:20],
    )
    print(json.dumps(report, indent=1))
    sys.exit(1 if soak.findings else 0)


if __name__ == "__main__":
    main()
