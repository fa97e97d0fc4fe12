#!/usr/bin/env python3
"""S7: tensors through UCX, over its lanes of one machine: which nodes use it, which refuse and why, what is left of a killed node,
and chaos. No test has run over RDMA.
"""
import json
import os
import pathlib
import signal
import subprocess
import sys
import unittest

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "python"))

import needs  # noqa: E402
from cluster_process import PROGRAM, Cluster, ClusterTestCase, await_true  # noqa: E402
from ucx_process import use_ucx  # noqa: E402

SEED = os.environ.get("TUTTI_SEED", "1")
SHARED = ("--cluster-ucx", "on", "--cluster-memory", "required")
EMULATED = ("--cluster-ucx", "emulated", "--cluster-memory", "required")


def segments():
    """Shared memory that has a name: System V's, and files."""
    lines = pathlib.Path("/proc/sysvipc/shm").read_text().splitlines()[1:]
    return len(lines) + sum(1 for path in pathlib.Path("/dev/shm").iterdir() if path.name.startswith("ucx"))


class ClusterUcxTest(ClusterTestCase):
    def setUp(self):
        os.environ["UCX_TLS"] = "posix,sysv,cma"
        super().setUp()

    def memory(self, name):
        return self.cluster.status()[name]["memory"]

    def infer(self, frontend, count):
        for value in range(count):
            status, answer = self.cluster.infer(frontend, value)
            self.assertEqual(status, 200, answer)
            self.assertEqual(answer["outputs"][0]["data"], [value, 1, 2, 3])

    def await_said(self, name, text):
        await_true(lambda: text in self.cluster.processes[name].said(), 60, "%s says: %s" % (name, text))

    def test_tensors_go_through_ucx(self):
        self.begin(*SHARED, frontends=2)
        for name in ("f1", "f2"):
            self.infer(name, 10)
        self.assertEqual(self.memory("b1"), {"peers": 2, "inputs": 20, "results": 20})
        for name in ("f1", "f2"):
            self.assertEqual(self.memory(name), {"peers": 1, "inputs": 0, "results": 10})
        said = self.cluster.processes["b1"].said()
        self.assertRegex(said, r"UCX reaches memory of f1 by (posix|sysv)/memory")
        self.assertNotIn("emulated", said)

    def test_lanes_that_are_emulated_are_refused(self):
        os.environ["UCX_TLS"] = "tcp"
        self.begin("--cluster-ucx", "on")
        reason = "these lanes are emulated, which --cluster-ucx emulated allows"
        self.await_said("f1", reason)
        self.assertRegex(self.cluster.processes["b1"].said(), "f1: tensors take TCP, not UCX: tcp/.*: " + reason)
        self.infer("f1", 5)
        for name in ("f1", "b1"):
            self.assertEqual(self.memory(name), {"peers": 0, "inputs": 0, "results": 0})

    def test_lanes_that_are_emulated_are_used_if_allowed(self):
        os.environ["UCX_TLS"] = "tcp"
        self.begin(*EMULATED)
        self.infer("f1", 10)
        self.assertEqual(self.memory("b1"), {"peers": 1, "inputs": 10, "results": 10})
        self.await_said("b1", ", which may be emulated")

    def test_tcp_to_a_node_without_it(self):
        cluster = self.cluster = Cluster()
        for name in cluster.nodes:
            cluster.start(name, "--cluster-ucx", "off" if name == "b1" else "on")
        for name in cluster.nodes:
            self.assertTrue(cluster.processes[name].wait_ready(60))
        cluster.await_ready("f1")
        self.await_said("f1", "b1: tensors take TCP, not UCX: it does not use UCX")
        self.infer("f1", 5)
        self.assertEqual(self.memory("b1"), {"peers": 0, "inputs": 0, "results": 0})

    def test_nodes_that_are_killed(self):
        """What they shared is agreed upon again, and no segment of memory is left behind."""
        before = segments()
        cluster = self.begin(*SHARED, frontends=2)
        for name in ("b1", "f1"):
            cluster.kill(name)
            cluster.processes[name].process.wait()
            cluster.start(name, *SHARED)
            self.assertTrue(cluster.processes[name].wait_ready(60))
            cluster.await_ready("f1")
            self.infer("f1", 3)
            self.assertEqual(self.memory("f1")["peers"], 1)
        for name in ("f1", "f2", "b1", "s1"):
            cluster.kill(name)
            cluster.processes[name].process.wait()
        await_true(lambda: segments() <= before, 60, "segments are gone")

    def test_inputs_of_a_frozen_frontend(self):
        """The frontend runs no code for it: a backend reads what it had accepted while it is frozen."""
        cluster = self.begin(*SHARED, devices=1, slow=True, frontends=2)
        first = cluster.begin_infer("f2", 1)  # runs for seconds
        await_true(lambda: cluster.status()["b1"]["requests"] == 1, 60, "the first one runs")
        second = cluster.begin_infer("f1", 2)
        await_true(lambda: cluster.status()["s1"]["requests"] == 2, 60, "the scheduler has both")
        cluster.kill("f1", signal.SIGSTOP)
        await_true(lambda: self.memory("b1")["inputs"] == 2, 60, "the backend has read the second one")
        cluster.kill("f1", signal.SIGCONT)
        for line in (first, second):
            with line.makefile("rb") as answer:
                self.assertIn(b"200 OK", answer.readline())
            line.close()

    def test_chaos(self):
        print("TUTTI_SEED=%s" % SEED, flush=True)
        self.begin("--cluster-ucx", "on", schedulers=2, frontends=2, backends=2)
        self.assertTrue(self.cluster.primary())
        answer = subprocess.run(
            [PROGRAM, "chaos", self.cluster.spec, "--seconds", "2", "--seed", SEED, "--clients", "6", "--json"],
            capture_output=True, text=True, timeout=120)  # fmt: skip
        self.assertEqual(answer.returncode, 0, answer.stdout + answer.stderr + self.cluster.said())
        account = json.loads(answer.stdout)
        self.assertTrue(account["holds"])
        self.assertGreater(account["answered"], 0)
        self.assertEqual(account["lost"] + account["wrong"], 0)
        self.cluster.stop()
        await_true(lambda: not self.cluster.left(), 60, "no process is left")

    def test_what_is_missing(self):
        cluster = self.cluster = Cluster()
        command = [PROGRAM, "serve", "--model-repository", str(cluster.models), "--role", "backend", "--cluster", cluster.spec,
                   "--node", "b1", "--http-port", "0", "--grpc-port", "0", "--cluster-ucx", "on"]  # fmt: skip

        def refused(*more, **environment):
            run = subprocess.run(
                command + list(more), env=dict(os.environ, **environment), capture_output=True, text=True, timeout=60
            )
            self.assertNotEqual(run.returncode, 0)
            return run.stderr

        self.assertIn("exclude each other", refused("--cluster-memory", "off"))
        self.assertIn("UCX cannot start", refused(UCX_TLS="nonexistent"))
        empty = cluster.folder / "empty"
        empty.mkdir()
        empty.joinpath("libucp.so.0").write_text("no library")
        said = refused(LD_LIBRARY_PATH=str(empty))
        self.assertIn("UCX cannot be loaded", said)
        self.assertIn("libucx0", said)


if __name__ == "__main__":
    if not use_ucx():
        needs.skip("UCX is not there; scripts/setup.sh --ucx unpacks it")
    unittest.main(verbosity=2)
