#!/usr/bin/env python3
"""S10: a cluster that etcd describes: members, the primary's record, and what happens while etcd is away.

No test states a time: what must hold is that every request is answered, and that etcd says the truth in the end.
"""
import pathlib
import signal
import sys
import unittest

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "python"))

from cluster_process import STEADY, Cluster, await_true  # noqa: E402
from etcd_process import Etcd, find_etcd  # noqa: E402


@unittest.skipUnless(find_etcd(), "etcd is not there; scripts/setup.sh --etcd unpacks it")
class EtcdTest(unittest.TestCase):
    def setUp(self):
        self.etcd, self.cluster = Etcd(), None

    def tearDown(self):
        if self.cluster:
            self.cluster.stop()
        self.etcd.stop()

    def begin(self, **shape):
        cluster = self.cluster = Cluster(**shape)
        cluster.spec = "etcd://127.0.0.1:%d/test" % self.etcd.port
        self.etcd.put("tutti/test/nodes", cluster.file.read_text())
        cluster.start_all()
        return cluster

    def epoch(self):
        """Of the primary, and as etcd has it."""
        status = self.cluster.status()
        return max(node["epoch"] for node in status.values() if "epoch" in node), self.etcd.keys("tutti/test/").get("primary")

    def await_record(self):
        await_true(lambda: len({str(epoch) for epoch in self.epoch()}) == 1, 60, "etcd has the primary's epoch")

    def await_members(self, *names):
        await_true(lambda: set(self.etcd.keys("tutti/test/members/")) == set(names), 60, "members are %s" % (names,))

    def infer(self, count=20):
        for value in range(count):
            status, answer = self.cluster.infer("f1", value)
            self.assertEqual(status, 200, answer)

    def test_members_and_the_record(self):
        cluster = self.begin(schedulers=2)
        self.infer()
        self.await_members(*cluster.nodes)
        self.assertEqual(self.etcd.keys("tutti/test/members/")["b1"], "backend 127.0.0.1:%d" % cluster.ports["b1"])
        await_true(lambda: all(node["member"] for node in cluster.status().values()), 60, "all know that they are")
        self.await_record()
        primary = cluster.primary()
        cluster.kill(primary)
        other = {"s1": "s2", "s2": "s1"}[primary]
        await_true(lambda: cluster.status()[other].get("primary"), 60, "the spare is primary")
        self.await_record()
        self.infer()
        self.assertEqual(cluster.processes["b1"].stop(30), 0)  # ends its lease
        await_true(lambda: "b1" not in self.etcd.keys("tutti/test/members/"), 60, "b1 has left")
        await_true(lambda: "etcd says that b1 is no member" in cluster.processes["f1"].said(), 60, "f1 was notified")

    def test_etcd_is_away(self):
        cluster = self.begin(schedulers=2)
        self.await_members(*cluster.nodes)
        self.await_record()
        for number in (signal.SIGSTOP, signal.SIGKILL):  # it freezes, and it ends
            self.etcd.kill(number)
            self.infer()
            primary = cluster.primary()
            cluster.command("promote", "static:%s" % cluster.file)
            await_true(lambda: cluster.primary() != primary, 60, "another primary")
            self.infer()
            if number == signal.SIGSTOP:
                self.etcd.kill(signal.SIGCONT)
            else:
                self.etcd.start()
            self.await_record()
            self.await_members(*cluster.nodes)
        self.infer()
        self.assertEqual(cluster.status()["f1"]["failed"], 0)

    def test_etcd_has_lost_its_data(self):
        """Members come again, and so does the highest epoch; requests notice nothing."""
        cluster = self.begin(schedulers=2, times=STEADY)
        self.await_members(*cluster.nodes)
        cluster.command("promote", cluster.spec)
        self.await_record()
        epoch, primary = self.epoch()[0], cluster.primary()
        self.etcd.lose()
        self.infer()
        self.await_members(*cluster.nodes)
        self.await_record()
        self.assertEqual((self.epoch()[0], cluster.primary()), (epoch, primary))
        self.infer()
        self.assertEqual(cluster.status()["f1"]["failed"], 0)

    def test_a_lease_that_expired(self):
        """Its node lives, takes another one, and was used all the time."""
        cluster = self.begin(times=STEADY)
        self.await_members(*cluster.nodes)
        for name in cluster.nodes:
            key = "tutti/test/members/" + name
            lease = self.etcd.lease_of(key)
            self.assertNotEqual(lease, 0)
            self.etcd.revoke(lease)
            self.infer()
            await_true(lambda k=key, old=lease: self.etcd.lease_of(k) not in (0, old), 60, name + " is a member again")
            await_true(lambda n=name: cluster.status()[n]["member"], 60, name + " knows that it is")
        self.infer()
        status = cluster.status()
        self.assertEqual((status["f1"]["failed"], status["s1"]["claims"]), (0, 1))

    def test_what_is_refused(self):
        cluster = self.cluster = Cluster()
        start = ("--http-port", "0", "--grpc-port", "0")
        for spec, says in (
            ("etcd://127.0.0.1:%d/none" % self.etcd.port, "etcd has no cluster 'none'"),
            ("etcd://127.0.0.1:1/test", "connection refused"),
            ("etcd://127.0.0.1:%d/" % self.etcd.port, "a name has letters"),
            ("etcd:///test", "is not etcd://HOST:PORT"),
        ):
            server = cluster.start("s1", *start, spec=spec)
            self.assertNotEqual(server.process.wait(60), 0)
            self.assertIn(says, server.said())
        self.etcd.put("tutti/bad/nodes", "scheduler s1 nowhere")
        server = cluster.start("s1", *start, spec="etcd://127.0.0.1:%d/bad" % self.etcd.port)
        self.assertNotEqual(server.process.wait(60), 0)
        self.assertIn("/bad:1", server.said())
        # The second server answers, where the first does not.
        self.etcd.put("tutti/test/nodes", cluster.file.read_text())
        cluster.spec = "etcd://127.0.0.1:1,127.0.0.1:%d/test" % self.etcd.port
        cluster.start_all()
        self.infer()
        self.await_members(*cluster.nodes)
        self.await_record()


if __name__ == "__main__":
    unittest.main(verbosity=2)
