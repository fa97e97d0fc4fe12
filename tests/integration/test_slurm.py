#!/usr/bin/env python3
"""S7, S10: packaging/slurm as a job of a real Slurm with three nodes on this machine. No test states a time."""
import json
import os
import pathlib
import signal
import sys
import unittest

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "python"))

import needs  # noqa: E402
import slurm_process  # noqa: E402
from cluster_process import PROGRAM, TIMES, Clients, Cluster, await_true  # noqa: E402
from own_hosts import Hosts, enter  # noqa: E402
from server_process import free_port  # noqa: E402

SCRIPT = ROOT / "packaging" / "slurm" / "tutti.sbatch"
HTTP = 8000


class Address:
    """As a Server, of a process that Slurm has started."""

    def __init__(self, address):
        self.address = address

    def said(self):
        return self.address


class JobTest(unittest.TestCase):
    def setUp(self):
        # Of the cluster only the models, the clients and the folder are used.
        self.cluster = Cluster()
        folder = self.cluster.folder
        first = "127.%d.%d." % (192 + os.getppid() % 32, free_port() % 256)
        self.nodes = {"n%d" % i: first + str(i) for i in (1, 2, 3)}
        hosts = Hosts(folder / "hosts", self)
        for name, address in self.nodes.items():
            hosts.put(name, address)
        self.slurm = slurm_process.Slurm(folder, self.nodes)
        self.addCleanup(self.slurm.stop)
        self.addCleanup(self.cluster.processes.clear)
        self.job = self.described = None

    def submit(self):
        done = self.slurm.run("sbatch", "--parsable", "--output=job.log", str(SCRIPT), TUTTI=PROGRAM, TUTTI_MODELS=str(self.cluster.models),
                              TUTTI_FLAGS="--insecure --log-verbose 0", TUTTI_TIMES=TIMES)  # fmt: skip
        self.assertEqual(done.returncode, 0, done.stderr)
        self.job = done.stdout.strip()
        self.described = self.cluster.folder / ("tutti-" + self.job)

    def status(self):
        if not (self.described / "nodes").exists():
            return {}
        done = self.slurm.run(PROGRAM, "cluster", "status", "static:%s" % (self.described / "nodes"), "--cluster-key", str(self.described / "key"), "--json")
        return {node["name"]: node for node in json.loads(done.stdout)["nodes"]} if done.stdout else {}

    def await_states(self, **wanted):
        def look():
            status = self.status()
            return all(status.get(name, {}).get("state") == state for name, state in wanted.items())

        await_true(look, 120, lambda: "%s: %s %s" % (wanted, self.status(), self.slurm.said()))

    def test_a_job(self):
        tried = self.slurm.run("sbatch", "--test-only", str(SCRIPT))
        self.assertEqual(tried.returncode, 0, tried.stderr)
        self.submit()
        backends = {"b1": "READY", "b2": "READY", "b3": "READY"}
        self.await_states(f1="READY", f2="READY", **backends)
        status = self.status()
        self.assertEqual(sorted(node["state"] for name, node in status.items() if name in ("s1", "s2")), ["PRIMARY", "SPARE"])
        self.assertEqual(len(status), 7)
        for name, node in (("f1", "n1"), ("f2", "n2")):
            self.cluster.processes[name] = Address("%s:%d" % (self.nodes[node], HTTP))
        clients = Clients(self.cluster, ["f1", "f2"])
        self.addCleanup(clients.stop)
        clients.await_more()
        killed = [name for name in ("s1", "s2") if status[name]["primary"]] + ["b3"]
        for name in killed:
            os.kill(status[name]["pid"], signal.SIGKILL)

        def are_back():
            now = self.status()
            return all(now.get(name, {}).get("pid") not in (None, status[name]["pid"]) for name in killed)

        await_true(are_back, 120, lambda: "%s are started again: %s" % (killed, self.slurm.said()))
        self.await_states(**backends)
        clients.await_more()
        clients.stop()
        self.assertEqual(clients.failures, [], self.slurm.said())
        pids = [node["pid"] for node in self.status().values()]
        self.assertEqual(self.slurm.run("scancel", "--batch", "--signal=TERM", self.job).returncode, 0)
        await_true(lambda: not self.slurm.run("squeue", "-h", "-j", self.job).stdout.strip(), 120, self.slurm.said)
        for pid in pids:
            self.assertFalse(pathlib.Path("/proc/%d" % pid).exists(), self.slurm.said())
        self.assertIn("stopped", (self.described / "b1.log").read_text())  # it was drained, not killed


if __name__ == "__main__":
    if not slurm_process.is_there():
        needs.skip("Slurm is not there; scripts/setup.sh --slurm unpacks it")
    if os.geteuid() != 0:
        needs.skip("only root may run Slurm's daemons for jobs")
    enter("--pid", "--fork", "--mount-proc", "--kill-child")
    unittest.main(verbosity=2)
