#!/usr/bin/env python3
"""Tutti beside Triton Inference Server: processor time of the server per request, and one client's p50, in turns.

usage: beside_triton.py --triton COMMAND [--tutti PROGRAM] [--rounds N] [--requests N] [--model NAME] [--busy-poll-us N]

COMMAND starts Triton in the foreground with HTTP at 127.0.0.1:18000, gRPC at 18001 and metrics at 18002, and a model NAME
(id_dyn) that returns its 16 floats: INPUT0 to OUTPUT0, FP32 [-1, 16]. Tutti serves the same as an emulated model whose batches
take 1 us. Each round runs Tutti, then Triton; each server gets the same loads: `tutti load` for HTTP, h2load for gRPC. A cell
is user and system time of the server's process, per request that its own metrics count as answered; the ratios are the
median and the greatest over the rounds of Tutti / Triton of the same round. Processor time can be compared on a busy machine; p50 cannot, so the
load average is printed with it. Where the kernel places a single client changes its p50 more than the server does: it shares
the server's processor, or it has one of its own. Two more rows: Tutti with an ensemble of the model and an equal one, and a
program that only reads requests and writes an answer of Tutti's (bench/read_write.c), which is the kernel's part of all others.
TLS: bench/tls_cost.py. Needs h2load and tritonclient[grpc]; prints Markdown."""

import argparse
import json
import os
import pathlib
import re
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

import grpc_loop
from own_server import ROOT, Server, cpu_seconds

MODEL = """backend: "emulated"
max_batch_size: 64
input { name: "INPUT0" data_type: TYPE_FP32 dims: 16 }
output { name: "OUTPUT0" data_type: TYPE_FP32 dims: 16 }
"""
ALL = os.sched_getaffinity(0)
TRITON = {"http": "http://127.0.0.1:18000", "grpc": "127.0.0.1:18001", "metrics": "http://127.0.0.1:18002/metrics"}
# name: over what, requests in flight, share of the requests, how many processors client and server have (None: all)
LOADS = {
    "gRPC, 64 in flight": ("grpc", 64, 1, None),
    "HTTP binary, 64 connections": ("--binary", 64, 1, None),
    "HTTP JSON, 64 connections": ("--json-body", 64, 1, None),
    "gRPC, one client, one processor": ("grpc", 1, 0.2, 1),
    "gRPC, one client, two processors": ("grpc", 1, 0.2, 2),
    "HTTP binary, one client, one processor": ("--binary", 1, 0.2, 1),
    "HTTP binary, one client, two processors": ("--binary", 1, 0.2, 2),
}
READ_WRITE = "HTTP binary, 64 connections, only read and written"
PLAIN, PAIR = "HTTP binary, 64 connections", "HTTP binary, 64 connections, an ensemble of two"
ENSEMBLE = MODEL.replace('backend: "emulated"', 'platform: "ensemble"') + """ensemble_scheduling { step [
  { model_name: "%s" model_version: -1 input_map { key: "INPUT0" value: "INPUT0" } output_map { key: "OUTPUT0" value: "t" } },
  { model_name: "second" model_version: -1 input_map { key: "INPUT0" value: "t" } output_map { key: "OUTPUT0" value: "OUTPUT0" } }
] }
"""


def run(*words, **options):
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=600, **options)
    if done.returncode != 0:
        sys.exit("%s: exit code %d\n%s%s" % (words[0], done.returncode, done.stdout, done.stderr))
    return done.stdout


class Tutti:
    def __init__(self, given, folder):
        self.grpc_port = free_port()
        flags = ["--grpc-port", self.grpc_port, "--busy-poll-us", given.busy_poll_us]
        self.server = Server(given.tutti, folder / "models", *flags, executors=None)
        self.pid = self.server.process.pid
        self.urls = {"http": self.server.address, "grpc": "127.0.0.1:%d" % self.grpc_port}
        self.urls["metrics"] = self.server.address + "/metrics"

    def stop(self):
        self.server.stop()


class ReadWrite:
    """Answers what `tutti load` asks as `server` does, which runs meanwhile."""

    def __init__(self, given, folder, server):
        program, port = folder / "read_write", free_port()
        run("cc", "-O2", "-o", program, pathlib.Path(ROOT) / "bench" / "read_write.c")
        words = [str(program), str(port)]
        for number, (request, answer) in enumerate(ask_through_relay(given, server.urls["http"]).items()):
            file = folder / ("answer%d" % number)
            file.write_bytes(answer)
            words += [request, str(file)]
        self.process = subprocess.Popen(words)
        self.pid = self.process.pid
        self.urls = {"http": "http://127.0.0.1:%d" % port}
        while listener_or_none(port) is None:
            time.sleep(0.01)

    def stop(self):
        self.process.kill()
        self.process.wait()


def ask_through_relay(given, url):
    """What `tutti load` asks the server there, "METHOD PATH", and the whole answers."""
    found = {}
    with socket.create_server(("127.0.0.1", 0)) as relay:

        def pass_on(client, server):
            while request := client.recv(1 << 16):
                server.sendall(request)
                answer = server.recv(1 << 16)
                found[" ".join(request.decode("latin-1").split()[:2])] = answer
                client.sendall(answer)

        def accept():
            while True:
                try:
                    client, _ = relay.accept()
                except OSError:
                    return  # it is closed
                server = socket.create_connection(url.rsplit("/", 1)[1].rsplit(":", 1))
                threading.Thread(target=pass_on, args=(client, server), daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()
        load_http(given, "http://127.0.0.1:%d" % relay.getsockname()[1], given.model, "--binary", 1, 10)
    return found


class Triton:
    def __init__(self, given):
        self.process = subprocess.Popen(
            given.triton, shell=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
        )
        self.urls = TRITON
        until = time.monotonic() + 60
        while True:
            try:
                urllib.request.urlopen(TRITON["http"] + "/v2/health/ready", timeout=5).read()
                break
            except OSError:
                if time.monotonic() > until or self.process.poll() is not None:
                    self.stop()
                    sys.exit("Triton does not come: " + given.triton)
                time.sleep(0.2)
        self.pid = listener(18000)

    def stop(self):
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGTERM)
        self.process.wait(60)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def listener(port):
    """The process that listens there."""
    return listener_or_none(port) or sys.exit("no process listens at port %d" % port)


def listener_or_none(port):
    inodes = set()
    for line in pathlib.Path("/proc/net/tcp").read_text().splitlines()[1:]:
        fields = line.split()
        if fields[1].endswith(":%04X" % port) and fields[3] == "0A":
            inodes.add("socket:[%s]" % fields[9])
    for folder in pathlib.Path("/proc").glob("[0-9]*/fd"):
        try:
            if any(os.readlink(fd) in inodes for fd in folder.iterdir()):
                return int(folder.parent.name)
        except OSError:
            continue
    return None


def answered(server, model):
    page = urllib.request.urlopen(server.urls["metrics"], timeout=30).read().decode()
    return int(float(re.search(r'nv_inference_request_success\{model="%s",version="1"\} (\S+)' % model, page).group(1)))


def load_grpc(given, server, folder, in_flight, requests):
    """p50 in us."""
    log = folder / "h2load.log"
    log.unlink(missing_ok=True)
    run(
        "h2load", "-n", requests, "-c", 1, "-m", in_flight, "-t", 1, "-d", folder / "message", "--log-file", log,
        "-H", "content-type: application/grpc", "-H", "te: trailers",
        "http://%s/inference.GRPCInferenceService/ModelInfer" % server.urls["grpc"],
    )  # fmt: skip
    return statistics.median(int(line.split()[2]) for line in log.read_text().splitlines())


def load_http(given, url, model, body, connections, requests):
    words = [given.tutti, "load", url, "--model", model, "--concurrency", connections, body]
    words += ["--requests", requests, "--duration", 600, "--json"]
    total = json.loads(run(*words))["total"]
    if total["ok"] != requests:
        sys.exit("%d of %d requests were answered" % (total["ok"], requests))
    return total["latency_ms"]["p50"] * 1e3


def place(server, processors):
    """Client and server get that many processors: one together, or one each. None: all that this program has."""
    every = sorted(ALL)
    if processors and processors > len(every):
        sys.exit("a load needs %d processors; this machine gives %d" % (processors, len(every)))
    os.sched_setaffinity(0, {every[0]} if processors else ALL)  # the clients inherit it
    for task in pathlib.Path("/proc/%d/task" % server.pid).iterdir():
        os.sched_setaffinity(int(task.name), {every[processors - 1]} if processors else ALL)


def measure(given, server, folder, load):
    """Microseconds of processor per request, and p50 in us."""
    over, in_flight, share, processors = LOADS[PLAIN if load in (PAIR, READ_WRITE) else load]
    model = "pair" if load == PAIR else given.model
    requests = int(given.requests * share)

    def play(count):
        if over == "grpc":
            return load_grpc(given, server, folder, in_flight, count)
        return load_http(given, server.urls["http"], model, over, in_flight, count)

    def count_to(start, wanted):
        ends_at = time.monotonic() + 10  # Triton counts a request after its answer
        while (count := answered(server, model) - start) < wanted and time.monotonic() < ends_at:
            time.sleep(0.05)
        if count != wanted:
            sys.exit("%s: %d of %d requests were answered" % (load, count, wanted))

    place(server, processors)
    try:
        counts = "metrics" in server.urls  # else `tutti load` alone says that all were answered
        start, warm = answered(server, model) if counts else 0, max(requests // 10, in_flight)
        play(warm)  # pages, caches
        if counts:
            count_to(start, warm)
        cpu = cpu_seconds(server.pid)
        p50 = play(requests)
        cpu = cpu_seconds(server.pid) - cpu
        if counts:
            count_to(start, warm + requests)
    finally:
        place(server, None)
    return cpu / requests * 1e6, p50


def make_files(given, folder):
    for name, config in ((given.model, MODEL), ("second", MODEL), ("pair", ENSEMBLE % given.model)):
        model = folder / "models" / name
        (model / "1").mkdir(parents=True)
        (model / "config.pbtxt").write_text(config)
        if config is MODEL:
            (model / "profile.pbtxt").write_text("linear { beta_ms: 0.001 }\n")
    message, _ = grpc_loop.message(given.model)
    (folder / "message").write_bytes(b"\0" + len(message).to_bytes(4, "big") + message)


def show(given, cells, loads):
    print("Tutti beside Triton, %d rounds, model `%s`, %d requests per cell; load average at the start and the end: %s, %s."
          % (given.rounds, given.model, given.requests, *loads))  # fmt: skip
    print("\n| load | Tutti us/request: best, median | Triton | ratio: median, most | p50 us: Tutti | Triton | ratio: median, most |\n|---|---|---|---|---|---|---|")
    for load in LOADS:
        row = [load]
        for what in 0, 1:
            ours, theirs = ([cell[what] for cell in cells[load, name]] for name in ("Tutti", "Triton"))
            ratios = [a / b for a, b in zip(ours, theirs)]
            shown = ["%.1f, %.1f" % (min(side), statistics.median(side)) for side in (ours, theirs)]
            row += [*shown, "%.2f, %.2f" % (statistics.median(ratios), max(ratios))] if what == 0 or LOADS[load][1] == 1 else ["", "", ""]
        print("| " + " | ".join(row) + " |")
    plain, pair, least = ([cell[0] for cell in cells[load, "Tutti"]] for load in (PLAIN, PAIR, READ_WRITE))
    triton = [cell[0] for cell in cells[PLAIN, "Triton"]]
    ratio = statistics.median(a / b for a, b in zip(pair, plain))
    print("| %s | %.1f, %.1f | | %.2f of one | | | |" % (PAIR, min(pair), statistics.median(pair), ratio))
    ratio = statistics.median(a / b for a, b in zip(least, triton))
    print("| %s | %.1f, %.1f | | %.2f of Triton | | | |" % (READ_WRITE, min(least), statistics.median(least), ratio))


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--triton", required=True)
    arguments.add_argument("--tutti", default=os.path.join(ROOT, "build", "tutti"))
    arguments.add_argument("--model", default="id_dyn")
    arguments.add_argument("--busy-poll-us", default="auto", help="of Tutti")
    arguments.add_argument("--rounds", type=int, default=4)
    arguments.add_argument("--requests", type=int, default=20000)
    given = arguments.parse_args()
    cells, before = {}, "%.1f" % os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        make_files(given, folder)
        for _ in range(given.rounds):
            for kind, start in ("Tutti", lambda: Tutti(given, folder)), ("Triton", lambda: Triton(given)):
                server = start()
                try:
                    for load in sorted([*LOADS, PAIR], key=lambda name: PLAIN not in name) if kind == "Tutti" else LOADS:
                        cells.setdefault((load, kind), []).append(measure(given, server, folder, load))
                    if kind == "Tutti":
                        least = ReadWrite(given, folder, server)
                        try:
                            cells.setdefault((READ_WRITE, kind), []).append(measure(given, least, folder, READ_WRITE))
                        finally:
                            least.stop()
                finally:
                    server.stop()
    show(given, cells, (before, "%.1f" % os.getloadavg()[0]))


if __name__ == "__main__":
    main()
