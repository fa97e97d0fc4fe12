"""What the server costs per request: processor time, latency of one client, memory of idle connections.

Everything is loaded by `tutti load` in closed loops; processor time is the server process's own (utime + stime) over
the requests that it answered. With --peer another server of KServe v2 over HTTP is measured in turns with ours, A B A B,
so that other work on the machine affects both alike: read the ratios. On a shared machine the smallest figure of the rounds
is robust; the median is typical.

Cases: identity-binary, identity-json (64 in flight, no batching, a copy in C on both sides), identity-256, runtime (the same,
ours through ONNX Runtime), batched-binary, batched-json (with dynamic batching), one-client (p50), lstm256, mlp1024
(64 in flight, dynamic batching), slow (16 clients on a model of 1 ms with an objective of 5 ms), bytes64k (64 KiB inputs, beside the same
bytes refused after parsing), idle (memory of 15,000 keep-alive connections).
"""

import argparse
import json
import os
import pathlib
import re
import shlex
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request

import serving_models

ROOT = pathlib.Path(__file__).resolve().parents[1]
TICK = os.sysconf("SC_CLK_TCK")
# Ours -> the peer's names; --peer-models changes them.
PEER_MODELS = "identity=id_plain,runtime=id_plain,identity_dyn=id_dyn,mlp1024=mlp1024_dyn,lstm256=lstm256_dyn,slow=id_dyn"
CASES = {
    "identity-binary": ("identity", ["--concurrency", "64", "--binary"]),
    "identity-json": ("identity", ["--concurrency", "64", "--json-body"]),
    "identity-256": ("identity", ["--concurrency", "256", "--binary"]),
    "runtime": ("runtime", ["--concurrency", "64", "--binary"]),
    "batched-binary": ("identity_dyn", ["--concurrency", "64", "--binary"]),
    "batched-json": ("identity_dyn", ["--concurrency", "64", "--json-body"]),
    "one-client": ("identity", ["--concurrency", "1", "--binary"]),
    "lstm256": ("lstm256", ["--concurrency", "64", "--binary"]),
    "mlp1024": ("mlp1024", ["--concurrency", "64", "--binary"]),
    "slow": ("slow", ["--concurrency", "16", "--binary"]),
}


class Server:
    """A server process and where it listens."""

    def __init__(self, name, command, url=None, environment=None):
        self.name, self.url = name, url
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE if url is None else subprocess.DEVNULL,
            env={**os.environ, **(environment or {})},
            text=True,
            start_new_session=True,
        )
        if url is None:
            self.url = self.read_url()
        self.wait_ready()

    def read_url(self):
        said = []
        for line in self.process.stderr:
            said.append(line)
            found = re.search(r"serving \d+ of \d+ models at (http://\S+)", line)
            if found:
                return found.group(1)
        sys.exit("serving: our server did not start:\n" + "".join(said))

    def wait_ready(self):
        ends_at = time.monotonic() + 60
        while time.monotonic() < ends_at and self.process.poll() is None:
            try:
                with urllib.request.urlopen(self.url + "/v2/health/ready", timeout=5):
                    return
            except OSError:
                time.sleep(0.1)
        self.stop()
        sys.exit(f"serving: {self.name} did not become ready at {self.url}")

    def cpu_seconds(self):
        fields = pathlib.Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / TICK

    def heap_bytes(self):
        """What of the heap is in memory; elsewhere huge pages come and go."""
        text = pathlib.Path(f"/proc/{self.process.pid}/smaps").read_text()
        return 1024 * int(re.search(r"\[heap\].*?Rss:\s+(\d+)", text, re.S).group(1))

    def stop(self):
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGTERM)
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                os.killpg(self.process.pid, signal.SIGKILL)
                self.process.wait()


def load(options, server, model, flags, may_fail=False):
    """One run; its report, and the server's processor time in microseconds per ended request."""
    before = server.cpu_seconds()
    done = subprocess.run(
        [options.tutti, "load", server.url, "--model", model, "--json", "--duration", str(options.seconds), *flags],
        capture_output=True,
        text=True,
        check=False,
    )
    spent = server.cpu_seconds() - before
    if done.returncode and not may_fail:
        sys.exit(f"serving: {server.name}, {model}: {done.stderr.strip()}")
    total = json.loads(done.stdout)["total"]
    if not may_fail and total["ok"] < 0.95 * total["arrived"] and model != "slow":
        sys.exit(f"serving: {server.name}, {model}: only {total['ok']} of {total['arrived']} were answered")
    return total, 1e6 * spent / max(1, total["arrived"])


def ours(options, folder):
    command = [options.tutti, "serve", "--model-repository", folder, "--http-port", "0"]
    return Server("ours", command + shlex.split(options.serve_flags))


def peer(options, slow):
    environment = dict(v.split("=", 1) for v in options.peer_slow) if slow else {}
    return Server("peer", shlex.split(options.peer), options.peer_url, environment)


def spread(values):
    return f"{min(values):8.1f} {statistics.median(values):8.1f} {max(values):8.1f}"


def compare(options, case, folder, results):
    """Rounds of ours and the peer in turns; a line each, and the ratios."""
    model, flags = CASES[case]
    names = dict(pair.split("=") for pair in options.peer_models.split(","))
    servers = [(ours(options, folder), model)]
    try:
        if options.peer:
            servers.append((peer(options, model == "slow"), names[model]))
        for server, name in servers:
            load(options, server, name, flags)
        seen = {server.name: [] for server, _ in servers}
        for _ in range(options.rounds):
            for server, name in servers:
                seen[server.name].append(load(options, server, name, flags))
    finally:
        for server, _ in servers:
            server.stop()
    for name, runs in seen.items():
        cpu = [us for _, us in runs]
        rate = [total["answered_per_s"] for total, _ in runs]
        p50 = [1000 * total["latency_ms"]["p50"] for total, _ in runs]
        in_time = [sum(total["ok"] for total, _ in runs) / max(1, sum(t["arrived"] for t, _ in runs))]
        print(f"{case:16} {name:5} {spread(cpu)}  {spread(rate)}  {spread(p50)}  {100 * in_time[0]:6.2f}", flush=True)
        results.append({"case": case, "server": name, "cpu_us": cpu, "answered_per_s": rate, "p50_us": p50})
    if options.peer:
        pairs = list(zip(seen["ours"], seen["peer"]))
        cpu = statistics.median(a[1] / b[1] for a, b in pairs)
        best = min(a for _, a in seen["ours"]) / min(b for _, b in seen["peer"])
        rate = statistics.median(a[0]["answered_per_s"] / b[0]["answered_per_s"] for a, b in pairs)
        p50 = statistics.median(a[0]["latency_ms"]["p50"] / b[0]["latency_ms"]["p50"] for a, b in pairs)
        print(
            f"{case:16} ours / peer: cpu {cpu:.2f} (best / best {best:.2f}), answered/s {rate:.2f}, p50 {p50:.2f}",
            flush=True,
        )
        results[-1]["ratios"] = {"cpu": cpu, "cpu_best": best, "answered_per_s": rate, "p50": p50}


def bytes64k(options, folder, results):
    """64 KiB inputs answered, and the same bytes refused once they have been read and their JSON parsed."""
    wrong = {"inputs": [{"name": "NOBODY", "datatype": "FP32", "shape": [1, 16384], "data": [0.5] * 16384}]}
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(wrong, file)
        file.flush()
        server = ours(options, folder)
        try:
            flags = ["--concurrency", "16", "--binary"]
            refused = [*flags, "--input-file", file.name]
            rounds = []
            for _ in range(options.rounds + 1):
                whole = load(options, server, "bytes64k", flags)[1]
                rounds.append((whole, load(options, server, "bytes64k", refused, may_fail=True)[1]))
        finally:
            server.stop()
    answered, parsed = zip(*rounds[1:])
    print(f"bytes64k         answered with 64 KiB, cpu us  {spread(answered)}")
    print(f"bytes64k         read and refused,     cpu us  {spread(parsed)}")
    print(f"bytes64k         best / best {min(answered) / min(parsed):.2f}", flush=True)
    results.append({"case": "bytes64k", "answered_cpu_us": answered, "refused_cpu_us": parsed})


def idle(options, folder, results):
    """Memory of the server per connection that has asked once and waits: what the last third of them adds, since the
    others find memory that was freed while models were loaded."""
    server = ours(options, folder)
    host, port = server.url.removeprefix("http://").rsplit(":", 1)
    sockets, before = [], 0
    last = options.connections // 3
    try:
        for number in range(options.connections):
            if number == options.connections - last:
                before = server.heap_bytes()
            connection = socket.create_connection((host, int(port)))
            connection.sendall(b"GET /v2/health/live HTTP/1.1\r\nHost: x\r\n\r\n")
            connection.recv(4096)
            sockets.append(connection)
        each = (server.heap_bytes() - before) / last
    finally:
        for connection in sockets:
            connection.close()
        server.stop()
    print(f"idle             {len(sockets)} connections, {each:.0f} bytes each", flush=True)
    results.append({"case": "idle", "connections": len(sockets), "bytes_each": each})


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tutti", default=str(ROOT / "build" / "tutti"))
    parser.add_argument("--serve-flags", default="--executors 1", help="more for our server")
    parser.add_argument("--peer", metavar="COMMAND", help="starts the other server, in the foreground")
    parser.add_argument("--peer-url", default="http://127.0.0.1:18000", help="where it listens")
    parser.add_argument("--peer-models", default=PEER_MODELS, help="OURS=THEIRS,...")
    parser.add_argument("--peer-slow", action="append", default=[], metavar="NAME=VALUE",
                        help="environment that makes its model of the case `slow` last 1 ms")  # fmt: skip
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--connections", type=int, default=15000, help="of the case `idle`")
    parser.add_argument("--cases", default=",".join([*CASES, "bytes64k", "idle"]))
    parser.add_argument("--json", metavar="FILE", help="write every figure there")
    options = parser.parse_args()
    results = []
    print(f"{'':22} {'cpu us/request':^26}  {'answered/s':^26}  {'p50 us':^26}  in time")
    print(f"{'case':16} {'':5} {'min':>8} {'median':>8} {'max':>8}  {'min':>8} {'median':>8} {'max':>8}  "
          f"{'min':>8} {'median':>8} {'max':>8}  {'%':>6}")  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        serving_models.write(folder)
        for case in options.cases.split(","):
            if case in CASES:
                compare(options, case, folder, results)
            elif case == "bytes64k":
                bytes64k(options, folder, results)
            elif case == "idle":
                idle(options, folder, results)
            else:
                sys.exit(f"serving: no case is called '{case}'")
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(results, indent=1) + "\n")


main()
