#!/usr/bin/env python3
"""S7: tensors through memory that a frontend and a backend of one host share: when they do, what a node that ends leaves
behind, and what strangers of the same host can do.
"""
import os
import pathlib
import signal
import socket
import struct
import sys
import unittest

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "python"))

from cluster_process import Cluster, ClusterTestCase, await_true  # noqa: E402


def target(link):
    """What an open descriptor points at; empty for one that was closed since it was listed."""
    try:
        return os.readlink(link)
    except FileNotFoundError:
        return ""


def listening(process):
    """The names of the process's Unix sockets by which nodes of clusters are found."""
    links = [target(link) for link in pathlib.Path("/proc/%d/fd" % process).iterdir()]
    own = {link.removeprefix("socket:[").rstrip("]") for link in links if link.startswith("socket:[")}
    lines = [line.split() for line in pathlib.Path("/proc/net/unix").read_text().splitlines()]
    return {words[-1] for words in lines if words[-1].startswith("@tutti/") and words[-2] in own}


class ClusterMemoryTest(ClusterTestCase):
    def memory(self, name):
        return self.cluster.status()[name]["memory"]

    def infer(self, frontend, count):
        for value in range(count):
            status, answer = self.cluster.infer(frontend, value)
            self.assertEqual(status, 200, answer)
            self.assertEqual(answer["outputs"][0]["data"], [value, 1, 2, 3])

    def held(self, name):
        """Regions that the process has mapped, and its descriptors."""
        process = pathlib.Path("/proc/%d" % self.cluster.processes[name].process.pid)
        maps = process.joinpath("maps").read_text().splitlines()
        return sum("memfd:tutti" in line for line in maps), len(list(process.joinpath("fd").iterdir()))

    def await_no_more_than(self, name, held):
        """A client's connection may have been open when it was counted."""
        await_true(lambda: all(now <= before for now, before in zip(self.held(name), held)), 60, "%s holds no more" % name)

    def test_tensors_go_through_memory(self):
        self.begin("--cluster-memory", "required", frontends=2)
        for name in ("f1", "f2"):
            self.infer(name, 10)
        self.assertEqual(self.memory("b1"), {"peers": 2, "inputs": 20, "results": 20})
        for name in ("f1", "f2"):
            self.assertEqual(self.memory(name), {"peers": 1, "inputs": 0, "results": 10})
        self.assertEqual(self.memory("s1"), {"peers": 0, "inputs": 0, "results": 0})

    def test_tcp_where_one_side_has_none(self):
        cluster = self.cluster = Cluster()
        for name in cluster.nodes:
            cluster.start(name, "--cluster-memory", "off" if name == "b1" else "auto")
        for name in cluster.nodes:
            self.assertTrue(cluster.processes[name].wait_ready(60))
        cluster.await_ready("f1")
        self.infer("f1", 10)
        for name in cluster.nodes:
            self.assertEqual(self.memory(name), {"peers": 0, "inputs": 0, "results": 0})

    def test_required_memory(self):
        """A frontend is not ready while a backend has a link to it and no memory; another backend ends that."""
        cluster = self.cluster = Cluster()
        for name in cluster.nodes:
            cluster.start(name, "--cluster-memory", "off" if name == "b1" else "required")
        for name in cluster.nodes:
            self.assertTrue(cluster.processes[name].wait_ready(60))
        await_true(lambda: "linked to b1" in cluster.processes["f1"].said(), 60, "they are linked")
        await_true(lambda: cluster.status()["s1"].get("devices") == 2, 60, "the scheduler has the backend")
        self.assertEqual(cluster.get("f1", "/v2/health/ready")[0], 503)
        self.assertEqual(cluster.processes["b1"].stop(30), 0)
        cluster.start("b1")
        self.assertTrue(cluster.processes["b1"].wait_ready(60))
        cluster.await_ready("f1")
        self.infer("f1", 3)
        self.assertEqual(self.memory("b1")["inputs"], 3)

    def test_nothing_is_left_of_a_backend_that_ends(self):
        cluster = self.begin("--cluster-memory", "required")
        self.infer("f1", 1)
        held = self.held("f1")
        self.assertEqual(held[0], 2)  # its inputs, and the room for the backend's results
        for _ in range(3):
            cluster.kill("b1")
            cluster.processes["b1"].process.wait()
            await_true(lambda: self.held("f1")[0] == 1, 60, "the room for results is gone")
            cluster.start("b1", "--cluster-memory", "required")
            self.assertTrue(cluster.processes["b1"].wait_ready(60))
            await_true(lambda: self.memory("f1")["peers"] == 1, 60, "memory is shared again")
            cluster.await_ready("f1")
            self.infer("f1", 2)
        self.await_no_more_than("f1", held)

    def test_nothing_is_left_of_a_frontend_that_ends(self):
        cluster = self.begin("--cluster-memory", "required", frontends=2)
        self.infer("f1", 1)
        held = self.held("b1")
        self.assertEqual(held[0], 4)  # two regions of each frontend
        for number in (signal.SIGKILL, signal.SIGTERM):
            cluster.kill("f1", number)
            cluster.processes["f1"].process.wait()
            await_true(lambda: self.held("b1")[0] == 2, 60, "the regions of the frontend are gone")
            self.infer("f2", 2)
            cluster.start("f1", "--cluster-memory", "required")
            self.assertTrue(cluster.processes["f1"].wait_ready(60))
            cluster.await_ready("f1")
            self.infer("f1", 2)
        self.await_no_more_than("b1", held)

    def test_inputs_of_a_frozen_frontend(self):
        """A backend reads what a frozen frontend had accepted; its client gets the answer when it goes on."""
        cluster = self.begin("--cluster-memory", "required", devices=1, slow=True, frontends=2)
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

    def test_strangers_of_the_same_host(self):
        """Packets that no link's key has signed, and other users: refused, and the node goes on."""
        cluster = self.begin("--cluster-memory", "required")
        nodes = [node.process.pid for node in cluster.processes.values()]
        (name,) = set().union(*(listening(node) for node in nodes))
        head = struct.pack("<IHHHHIQQ", 0x4D435454, 1, 1, 1, 2, 0, 0, 0)  # HELLO of f1 to b1
        offer = struct.pack("<IHHHHIQQ", 0x4D435454, 3, 1, 1, 2, 4096, 256 << 20, 64 << 20)
        packets = [b"x", os.urandom(48), os.urandom(500), head + bytes(16), offer + bytes(16)]
        for packet in packets:
            line = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            line.settimeout(60)
            line.connect("\0" + name[1:])
            memory = os.memfd_create("stranger")
            socket.send_fds(line, [packet], [memory, memory])
            os.close(memory)
            self.assertIn(line.recv(100), (b"",), packet)
            line.close()
        if os.geteuid() == 0:
            child = os.fork()
            if child == 0:
                os.setuid(65534)
                line = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
                line.settimeout(60)
                line.connect("\0" + name[1:])
                os._exit(len(line.recv(100)))
            self.assertEqual(os.waitpid(child, 0)[1], 0)
            await_true(lambda: "user 65534 is at the other side" in cluster.processes["b1"].said(), 60, "it is in the log")
        self.assertIn("has a wrong tag", cluster.processes["b1"].said())
        self.infer("f1", 3)
        self.assertEqual(self.memory("b1"), {"peers": 1, "inputs": 3, "results": 3})


if __name__ == "__main__":
    unittest.main(verbosity=2)
