#!/usr/bin/env python3
"""What 10,000 idle and 2000 slow clients cost 200 good ones: `tutti load` at a fixed rate, alone and beside the others, in turns.

usage: many_clients.py [--tutti PROGRAM] [--seconds S] [--rounds N] [--rate R] [--idle N] [--slow N] [--good N] [--out FILE]

Idle clients are connected and send nothing. A slow one sends a byte of a request's headers every --every seconds, and comes
again when the server closes. They run in a process of their own at a low priority. Each connection needs a descriptor in it
and one in the server: both raise RLIMIT_NOFILE to what the clients need, and say so if the hard limit is lower (ulimit -Hn,
LimitNOFILE= of systemd). The connections of one address must not exceed --limit-per-address, nor its ports: 28,000 by default.

Prints a Markdown table of the good ones' latency, medians over the rounds, and of the server's memory."""

import argparse
import datetime
import json
import os
import pathlib
import re
import resource
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "python"))

SPARE_FILES = 512  # descriptors of a server and of Python beside the clients'
SETTINGS = """backend: "emulated" max_batch_size: 8
input { name: "input" data_type: TYPE_FP32 dims: 16 }
output { name: "y" data_type: TYPE_FP32 dims: 16 }
"""
HEAD = b"GET /v2/health/live HTTP/1.1\r\nHost: x\r\nX: "


def arguments():
    parser = argparse.ArgumentParser(usage=__doc__.split("\n\n")[1].removeprefix("usage: "))
    parser.add_argument("--tutti", default=str(ROOT / "build" / "tutti"))
    parser.add_argument("--seconds", type=float, default=8)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--rate", type=float, default=400)
    parser.add_argument("--idle", type=int, default=10000)
    parser.add_argument("--slow", type=int, default=2000)
    parser.add_argument("--good", type=int, default=200)
    parser.add_argument("--every", type=float, default=2)
    parser.add_argument("--out")
    return parser.parse_args()


def raise_files(count):
    """For this process and those that it starts."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < count:
        sys.exit("many_clients: %d descriptors are needed, and the hard limit is %d (ulimit -Hn)" % (count, hard))
    if soft < count:
        resource.setrlimit(resource.RLIMIT_NOFILE, (count, hard))


class Crowd:
    """The idle and the slow clients, in a process that is forked."""

    def __init__(self, address, idle, slow, every):
        self.address, self.idle, self.slow, self.every = address, idle, slow, every
        begun, tell = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            os.close(begun)
            try:
                os.setpriority(os.PRIO_PROCESS, 0, 10)
                signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
                self.run(tell)
            finally:
                os._exit(1)  # never back into the caller's program
        os.close(tell)
        if os.read(begun, 1) != b"x":
            raise RuntimeError("the clients could not all connect")
        os.close(begun)

    def end(self):
        os.kill(self.pid, signal.SIGTERM)
        os.waitpid(self.pid, 0)

    def dial(self):
        return socket.create_connection(self.address, timeout=60)

    def begin_slow(self):
        client = self.dial()
        client.sendall(HEAD)
        client.setblocking(False)
        return client

    def run(self, tell):
        idle = [self.dial() for _ in range(self.idle)]
        slow = [self.begin_slow() for _ in range(self.slow)]
        os.write(tell, b"x")
        at = 0
        while True:
            if not slow:
                time.sleep(1)
                continue
            time.sleep(self.every / len(slow))
            at = (at + 1) % len(slow)
            try:
                slow[at].sendall(b"a")
                if slow[at].recv(4096):  # it took too long
                    raise ConnectionError
            except BlockingIOError:
                pass
            except OSError:
                slow[at].close()
                slow[at] = self.begin_slow()
            assert len(idle) == self.idle


def start(program, folder, options, *flags):
    """A server with room for all of them."""
    os.environ["TUTTI_PROGRAM"] = program
    from plain_client import Server

    models = pathlib.Path(folder) / "models"
    (models / "good" / "1").mkdir(parents=True)
    (models / "good" / "config.pbtxt").write_text(SETTINGS)
    (models / "good" / "profile.pbtxt").write_text("linear { alpha_ms: 0.05 beta_ms: 0.2 }")
    clients = options.idle + options.slow + options.good
    raise_files(clients + SPARE_FILES)
    return Server(models, "--max-connections", clients + SPARE_FILES, *flags)


def load(options, server):
    """The good clients' report."""
    command = [options.tutti, "load", "http://" + server.address, "--model", "good", "--rate", options.rate, "--duration", options.seconds]
    command += ["--connections", options.good, "--json"]
    done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False)
    return json.loads(done.stdout)


def resident_mib(server):
    text = pathlib.Path("/proc/%d/status" % server.process.pid).read_text()
    return int(re.search(r"VmHWM:\s+(\d+)", text).group(1)) / 1024


def main():
    options = arguments()
    options.tutti = str(pathlib.Path(options.tutti).resolve())
    before = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as folder:
        server = start(options.tutti, folder, options)
        host, port = server.address.split(":")
        load(options, server)  # warm
        memory = [resident_mib(server)]
        rounds = []
        for _ in range(options.rounds):
            alone = load(options, server)["total"]["latency_ms"]
            crowd = Crowd((host, int(port)), options.idle, options.slow, options.every)
            rounds.append((alone, load(options, server)["total"]["latency_ms"]))
            crowd.end()
        memory.append(resident_mib(server))
        server.process.terminate()
        server.process.wait(60)
    lines = ["| | alone, ms | beside, ms | ratio of a round |", "|---|---|---|---|"]
    for name in ("p50", "p99"):
        alone, beside = ([r[i][name] for r in rounds] for i in (0, 1))
        ratio = statistics.median(b / a for a, b in zip(alone, beside))
        lines.append("| %s | %.3f | %.3f | %.3f |" % (name, statistics.median(alone), statistics.median(beside), ratio))
    lines.append("| memory, at most, MiB | %.0f | %.0f | |" % tuple(memory))
    commit = subprocess.run(["git", "-C", ROOT, "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    head = "%s, commit %s, %d processors, load %.1f before; %d idle, %d slow, %d good clients, %g requests/s for %g s, %d rounds" % (
        datetime.date.today(), commit.stdout.strip() or "unknown", os.cpu_count(), before, options.idle, options.slow,
        options.good, options.rate, options.seconds, options.rounds)  # fmt: skip
    text = "%s.\n\n%s\n" % (head, "\n".join(lines))
    print(text)
    if options.out:
        pathlib.Path(options.out).write_text(text)


if __name__ == "__main__":
    main()
