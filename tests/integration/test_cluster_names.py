#!/usr/bin/env python3
"""S7, S10: nodes with names for addresses, as container platforms give them: unknown at first, and another address after a start.

It changes /etc/hosts in a mount namespace of its own; where this user may not make one, it is skipped. No test states a time.
"""
import pathlib
import sys
import unittest

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "python"))

from cluster_process import Clients, Cluster, await_true  # noqa: E402
from own_hosts import Hosts, enter  # noqa: E402


def host(name):
    return "tutti-test-" + name


class NamesTest(unittest.TestCase):
    def setUp(self):
        cluster = self.cluster = Cluster(schedulers=2, backends=2)
        self.addCleanup(cluster.stop)
        self.hosts = Hosts(cluster.folder / "hosts", self)
        self.key = cluster.folder / "key"
        self.key.write_text("a key of sixteen bytes or more\n")
        self.key.chmod(0o600)
        lines = cluster.file.read_text().splitlines()
        for number, line in enumerate(lines):
            words = line.split()
            if words[0] in ("scheduler", "frontend", "backend"):
                lines[number] = line.replace("127.0.0.1", host(words[1]))
        cluster.file.write_text("\n".join(lines) + "\n")

    def start(self, name, address):
        self.hosts.put(host(name), address)
        server = self.cluster.start(name, "--cluster-key", str(self.key))
        self.assertTrue(server.wait_ready(60), server.said())

    def end(self, name):
        self.cluster.kill(name)
        self.cluster.processes[name].process.wait()

    def status(self):
        return self.cluster.status_with("--cluster-key", str(self.key))

    def await_state(self, name, state):
        await_true(lambda: self.status()[name]["state"] == state, 60,
                   lambda: "%s is %s; %s" % (name, state, self.cluster.said()))  # fmt: skip

    def infer(self, count=20):
        for value in range(count):
            status, answer = self.cluster.infer("f1", value)
            self.assertEqual(status, 200, answer)

    def test_nodes_come_later_and_elsewhere(self):
        cluster = self.cluster
        for name, address in (("s1", "127.0.0.2"), ("f1", "127.0.0.3"), ("b1", "127.0.0.4")):
            self.start(name, address)
        cluster.await_ready("f1")
        self.infer()  # s2 and b2 have no address yet
        self.assertIn('no address of "%s"' % host("s2"), "".join(cluster.processes["f1"].lines))
        self.start("b2", "127.0.0.5")
        self.start("s2", "127.0.0.6")
        self.await_state("b2", "READY")
        self.await_state("s2", "SPARE")
        primary = self.status()["s1"]["epoch"]
        self.end("b1")
        self.infer()
        self.start("b1", "127.0.0.7")
        self.await_state("b1", "READY")
        self.end("b2")
        self.infer()
        # f1 beats to both schedulers, and they to each other; all by the new addresses.
        self.assertEqual({self.status()[name]["epoch"] for name in ("s1", "s2", "f1", "b1")}, {primary}, cluster.said())
        self.end("s1")
        self.await_state("s2", "PRIMARY")
        self.infer()
        self.start("s1", "127.0.0.8")
        self.await_state("s1", "SPARE")
        clients = Clients(cluster, ["f1"])
        self.addCleanup(clients.stop)
        clients.await_more()
        self.end("s2")
        clients.await_more(60)
        clients.stop()
        self.assertEqual(clients.failures, [], cluster.said())
        self.await_state("s1", "PRIMARY")

    def test_the_own_name(self):
        """A node that does not know its own address says so and ends."""
        server = self.cluster.start("s1", "--cluster-key", str(self.key))
        self.assertNotEqual(server.process.wait(60), 0)
        self.assertIn('no address of "%s"' % host("s1"), server.said())


if __name__ == "__main__":
    enter()
    unittest.main(verbosity=2)
