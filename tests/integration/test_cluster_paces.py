#!/usr/bin/env python3
"""Backends on which a model takes different times: the status and the metrics show it, slow ones are not suspected, and a
spare plans with the slowest."""
import pathlib
import re
import sys
import unittest

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "python"))

from cluster_process import TIMES, Cluster, Clients, await_true  # noqa: E402


class ClusterPacesTest(unittest.TestCase):
    def tearDown(self):
        self.cluster.stop()

    def paces(self, scheduler):
        return {(pace["model"], pace["node"]): pace["pace"] for pace in self.cluster.status()[scheduler]["paces"]}

    def test_a_slower_backend(self):
        cluster = self.cluster = Cluster(schedulers=2, backends=2, devices=1, times=TIMES.replace("overdue-ms 400", "overdue-ms 150"))
        slow = cluster.folder / "slow"
        cluster.add_model("echo", slow)
        (slow / "echo" / "profile.pbtxt").write_text("linear { alpha_ms: 0.1 beta_ms: 600 }\n")
        for name in "s1", "f1", "b1":
            cluster.start(name)
        for name in "s1", "f1", "b1":
            self.assertTrue(cluster.processes[name].wait_ready(60))
        cluster.await_ready("f1")
        self.assertEqual(cluster.primary(), "s1")
        self.assertEqual(self.paces("s1"), {})
        cluster.start("s2")
        cluster.start("b2", models=slow)
        for name in "s2", "b2":
            self.assertTrue(cluster.processes[name].wait_ready(60))
        await_true(lambda: self.paces("s1"), 60, "the primary sees it")
        pace = self.paces("s1")[("echo", "b2")]
        self.assertGreater(pace, 100)
        self.assertIn("model echo version 1 takes %.2f times as long on b2 as s1 plans with" % pace,
                      cluster.command("status", cluster.spec).stdout)  # fmt: skip
        await_true(lambda: 'tutti_cluster_pace{model="echo",version="1",node="b2"}' in cluster.get("s1", "/metrics")[1].decode(), 60, "metrics")
        clients = Clients(cluster, ["f1"])

        def is_expected():
            """Each batch would be overdue by the first profile. By the pace only one is that a pause of the machine holds up."""
            status = cluster.status()
            return status["b2"]["batches"] >= 3 and 2 * status["s1"]["suspected"] < status["b2"]["batches"]

        await_true(is_expected, 120, lambda: "its batches are not overdue; %s" % cluster.status())
        clients.stop()
        self.assertEqual(clients.failures, [])
        self.assertEqual(cluster.command("promote", cluster.spec).returncode, 0)
        await_true(lambda: cluster.status()["s2"]["state"] == "PRIMARY", 60, "the spare is primary")
        self.assertNotIn(("echo", "b2"), self.paces("s2"))  # that is what it plans with
        await_true(lambda: self.paces("s1").get(("echo", "b2")) is None, 60, "so does the other one, now a spare")

    def believed(self):
        """What the scheduler believes of the model, per what it plans with."""
        found = re.search(r'^tutti_cluster_believed_pace\{model="echo",version="1",pool="[^"]+"\} (\S+)$',
                          self.cluster.get("s1", "/metrics")[1].decode(), re.M)  # fmt: skip
        return float(found[1]) if found else None

    def slow_cluster(self, *flags):
        cluster = self.cluster = Cluster()
        settings = 'slo_ms: 600000 policy { name: "eager" } emulation { perturb { speed: 0.333 } }'
        (cluster.models / "echo" / "tutti.pbtxt").write_text(settings)
        cluster.start_all(*flags)
        clients = Clients(cluster, ["f1"])
        # On two devices these take more than the second within which the metrics are written again.
        await_true(lambda: cluster.status()["b1"]["batches"] >= 400, 120, "it has run many batches")
        clients.stop()
        self.assertEqual(clients.failures, [])

    def test_slower_than_stated(self):
        """Devices take three times what the profile says. They never take less, however busy the machine is."""
        self.slow_cluster()
        await_true(lambda: (self.believed() or 0) > 2, 60, "the scheduler learns it")

    def test_profiles_are_believed(self):
        self.slow_cluster("--learn-percent", "0")
        self.assertIsNone(self.believed())


if __name__ == "__main__":
    unittest.main(verbosity=2)
