"""A cluster of real processes for a test: loopback, free ports, emulated models."""
import atexit
import contextlib
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import urllib.error
import urllib.request

from server_process import Server, free_port

PROGRAM = os.environ["TUTTI_PROGRAM"]
# The tests of clusters run over memory, over TCP (test_cluster_tcp.py), and through UCX (test_cluster_ucx.py).
MEMORY = ["--cluster-memory", os.environ["TUTTI_CLUSTER_MEMORY"]] if "TUTTI_CLUSTER_MEMORY" in os.environ else []
MEMORY += ["--cluster-ucx", os.environ["TUTTI_CLUSTER_UCX"]] if "TUTTI_CLUSTER_UCX" in os.environ else []
# And once with schedulers that have threads (test_cluster_threads.py).
THREADS = os.environ.get("TUTTI_CLUSTER_SCHEDULER_THREADS")
CONFIG = """
backend: "emulated" max_batch_size: 16
input { name: "x" data_type: TYPE_FP32 dims: 4 }
input { name: "label" data_type: TYPE_STRING dims: 1 }
output { name: "y" data_type: TYPE_FP32 dims: 4 }
"""
OTHER_TIMES = "overdue-ms 400\nfetch-ms 1000\npatience-ms 10000\ngrace-ms 10000\nvacancy-ms 60000\n"
# Wide, so that a busy machine causes no takeover by itself. A cluster starts after a silence.
SILENCE_S = 1.5
TIMES = "silence-ms %d\n" % (1000 * SILENCE_S) + OTHER_TIMES
# For a test that shows that something causes no takeover, and needs none from silence.
STEADY = "silence-ms 6000\n" + OTHER_TIMES


class Cluster:
    def __init__(self, schedulers=1, frontends=1, backends=1, devices=2, times=TIMES, slow=False, pools=0, memory=0):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="tutti-cluster-"))
        atexit.register(shutil.rmtree, self.folder, True)
        atexit.register(self.stop)
        self.models = self.folder / "models"
        self.add_model("echo", slow=slow)
        self.nodes, self.ports, self.http = {}, {}, {}
        lines = [times]
        for role, count in (("scheduler", schedulers), ("frontend", frontends), ("backend", backends)):
            for number in range(1, count + 1):
                name = role[0] + str(number)
                self.nodes[name] = role
                extra = " devices=%d" % devices if role == "backend" else ""
                if role == "backend" and pools:
                    extra += " pool=p%d" % ((number - 1) % pools + 1)
                if role == "backend" and memory:
                    extra += " memory-mib=%d" % memory
                lines.append("%s %s %s%s\n" % (role, name, self.place(name), extra))
        self.file = self.folder / "nodes"
        self.file.write_text("".join(lines))
        self.spec = "static:%s" % self.file
        self.processes = {}

    def place(self, name):
        """The address of a node."""
        self.ports[name] = free_port()
        return "127.0.0.1:%d" % self.ports[name]

    def command_of(self, name, command):
        """How a node's command is run."""
        return command

    def add_model(self, name, models=None, slow=False):
        """slow: one request at a time, for two seconds."""
        folder = (models or self.models) / name
        folder.joinpath("1").mkdir(parents=True)
        folder.joinpath("config.pbtxt").write_text(CONFIG.replace("size: 16", "size: 1") if slow else CONFIG)
        folder.joinpath("profile.pbtxt").write_text("linear { alpha_ms: 0.1 beta_ms: %d }\n" % (2000 if slow else 2))

    def start(self, name, *more, models=None, spec=None, http=0, grpc=0):
        role = self.nodes[name]
        command = [PROGRAM, "serve", "--model-repository", str(models or self.models), "--role", role,
                   "--cluster", spec or self.spec, "--node", name, "--http-port", str(http), "--grpc-port", str(grpc), *MEMORY, *more]  # fmt: skip
        if role == "scheduler" and THREADS:
            command += ["--scheduler-threads", THREADS]
        self.processes[name] = Server(self.command_of(name, command))
        return self.processes[name]

    def start_all(self, *more):
        for name in self.nodes:
            self.start(name, *more)
        for name in self.nodes:
            if not self.processes[name].wait_ready(60):
                raise AssertionError("%s does not start; %s" % (name, self.processes[name].said()))
        for name, role in self.nodes.items():
            if role == "frontend":
                self.await_ready(name)

    def await_ready(self, name, wanted=200, seconds=60):
        await_true(lambda: self.get(name, "/v2/health/ready")[0] == wanted, seconds,
                   lambda: "%s answers %d; %s" % (name, wanted, self.said()))  # fmt: skip

    def get(self, name, path):
        try:
            with urllib.request.urlopen("http://%s%s" % (self.processes[name].address, path), timeout=30) as answer:
                return answer.status, answer.read()
        except urllib.error.HTTPError as error:
            return error.code, error.read()

    def body(self, value):
        return json.dumps({"inputs": [
            {"name": "label", "datatype": "BYTES", "shape": [1, 1], "data": ["of %s" % value]},
            {"name": "x", "datatype": "FP32", "shape": [1, 4], "data": [value, 1, 2, 3]}]}).encode()  # fmt: skip

    def begin_infer(self, name, value, model="echo"):
        """Sends a request; the connection has its answer."""
        host, port = self.processes[name].address.rsplit(":", 1)
        line, body = socket.create_connection((host, int(port)), timeout=60), self.body(value)
        head = "POST /v2/models/%s/infer HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % (model, len(body))
        line.sendall(head.encode() + body)
        return line

    def infer(self, name, value, model="echo", timeout=60):
        """The status and the answer, or the error's text."""
        request = urllib.request.Request(
            "http://%s/v2/models/%s/infer" % (self.processes[name].address, model), self.body(value)
        )
        try:
            with urllib.request.urlopen(request, timeout=timeout) as answer:
                return answer.status, json.loads(answer.read())
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def command(self, *arguments):
        return subprocess.run([PROGRAM, "cluster", *arguments], capture_output=True, text=True, timeout=60)

    def status(self):
        """What the nodes that answer say; also while etcd, which may describe them, is away."""
        return self.status_with()

    def status_with(self, *more):
        nodes = json.loads(self.command("status", "static:%s" % self.file, "--json", *more).stdout)["nodes"]
        return {node["name"]: node for node in nodes}

    def primary(self):
        """The name of the primary, once there is one."""
        found = []

        def look():
            found[:] = [name for name, node in self.status().items() if node.get("primary")]
            return len(found) == 1

        await_true(look, 60, "one primary")
        return found[0]

    def kill(self, name, number=signal.SIGKILL):
        os.kill(self.processes[name].process.pid, number)

    def stop(self):
        for server in self.processes.values():
            if server.process.poll() is None:
                server.process.send_signal(signal.SIGCONT)
                server.process.kill()
        for server in self.processes.values():
            server.process.wait()
        for pid in self.left():
            with contextlib.suppress(ProcessLookupError):  # it has ended by itself
                os.kill(pid, signal.SIGKILL)

    def left(self):
        """Processes with the cluster's folder in their command line: those that chaos started, whether they answer or not."""
        found = []
        for path in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
            try:
                words = path.read_bytes().decode(errors="replace")
            except OSError:
                continue  # it has ended meanwhile
            if str(self.folder) in words and int(path.parent.name) != os.getpid():
                found.append(int(path.parent.name))
        return found

    def said(self):
        return "\n".join("%s: %s" % (name, server.said()) for name, server in self.processes.items())


class ClusterTestCase(unittest.TestCase):
    """A test that begins a cluster of its own, which stops with it."""

    def setUp(self):
        self.cluster = None

    def tearDown(self):
        if self.cluster and self.has_failed():
            self.describe_cluster()
        if self.cluster:
            self.cluster.stop()

    def has_failed(self):
        result = self._outcome.result
        return any(test is self for test, _ in result.failures + result.errors)

    def describe_cluster(self):
        """What a failure that is seen once needs: the nodes' states and what they wrote."""
        with contextlib.suppress(OSError, ValueError, subprocess.SubprocessError):
            print(json.dumps(self.cluster.status(), indent=1), file=sys.stderr)
        print(self.cluster.said(), file=sys.stderr)

    def begin(self, *more, **shape):
        self.cluster = Cluster(**shape)
        self.cluster.start_all(*more)
        return self.cluster


class Clients:
    """Threads that send requests one after the other until told to stop; every answer is kept."""

    def __init__(self, cluster, frontends, count=4):
        self.cluster, self.frontends = cluster, frontends
        self.stopping = threading.Event()
        self.answers, self.failures = 0, []
        self.lock = threading.Lock()
        self.threads = [threading.Thread(target=self.run, args=(i,)) for i in range(count)]
        for thread in self.threads:
            thread.start()

    def run(self, number):
        value = number
        while not self.stopping.is_set():
            value += len(self.threads)
            try:
                status, answer = self.cluster.infer(self.frontends[number % len(self.frontends)], value)
            except OSError as error:
                status, answer = 0, str(error)
            with self.lock:
                if status == 200 and answer["outputs"][0]["data"] == [value, 1, 2, 3]:
                    self.answers += 1
                else:
                    self.failures.append((value, status, answer))

    def await_more(self, count=20):
        """Until so many more were answered."""
        wanted = self.answers + count
        await_true(lambda: self.answers >= wanted or self.failures, 60, "%d more answers" % count)

    def stop(self):
        self.stopping.set()
        for thread in self.threads:
            thread.join(60)


def await_true(question, seconds, what):
    """`what` may be a function that returns it."""
    until = time.monotonic() + seconds
    while not question():
        if time.monotonic() > until:
            raise AssertionError("never true: " + (what() if callable(what) else what))
        time.sleep(0.02)
