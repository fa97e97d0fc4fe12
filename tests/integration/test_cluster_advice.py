#!/usr/bin/env python3
"""S9: how many devices a cluster needs: tutti cluster status and the primary's metrics page. No test states a time."""
import json
import pathlib
import re
import signal
import subprocess
import sys
import time
import unittest

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "python"))

from cluster_process import PROGRAM, Clients, Cluster, await_true  # noqa: E402


class AdviceTest(unittest.TestCase):
    def setUp(self):
        # One request at a time, for two seconds: two a second keep four devices busy.
        self.cluster = Cluster(schedulers=2, backends=2, slow=True)
        self.addCleanup(self.cluster.stop)
        self.cluster.start_all()

    def domains(self):
        return json.loads(self.cluster.command("status", self.cluster.spec, "--json").stdout)["domains"]

    def metrics(self, name):
        page = self.cluster.get(name, "/metrics")[1].decode()
        return {key: float(value) for key, value in re.findall(r"^(tutti_cluster_\w+) (\S+)$", page, re.M)}

    def wanted(self):
        return self.domains()[0]["devices_wanted"]

    def test_what_status_and_metrics_say(self):
        cluster = self.cluster
        primary = cluster.primary()
        spare = {"s1": "s2", "s2": "s1"}[primary]
        (domain,) = self.domains()
        self.assertEqual((domain["domain"], domain["policy"], domain["devices"]), (0, "deferred", 4))
        self.assertIsNone(domain["devices_wanted"])
        self.assertEqual(
            [(b["name"], b["state"], b["devices"], b["models"]) for b in domain["backends"]],
            [("b1", "READY", 2, 1), ("b2", "READY", 2, 1)],
        )
        self.assertIn("4 devices; wanted: not known before 10 s with requests", cluster.command("status", cluster.spec).stdout)
        clients = Clients(cluster, ["f1"], count=12)
        self.addCleanup(clients.stop)
        await_true(lambda: (self.wanted() or 0) >= 2, 120, lambda: "two devices are wanted; %s" % self.domains())
        (domain,) = self.domains()
        self.assertLessEqual(domain["devices_wanted_fewest"], domain["devices_wanted"])
        self.assertLessEqual(domain["devices_wanted"], domain["devices_wanted_most"])
        self.assertTrue(0 <= domain["confidence"] <= 1, domain)
        said = cluster.command("status", cluster.spec).stdout
        self.assertRegex(said, r"\ndomain 0 \(deferred\): 4 devices; wanted: \d+ \(\d+ to \d+\), confidence \d\.\d\d\n")
        metrics = self.metrics(primary)
        self.assertEqual((metrics["tutti_cluster_primary"], metrics["tutti_cluster_devices"]), (1, 4))
        self.assertGreaterEqual(metrics["tutti_cluster_devices_wanted"], 2)
        self.assertIn("tutti_cluster_devices_wanted_confidence", metrics)
        self.assertEqual(self.metrics(spare), {"tutti_cluster_primary": 0})
        self.assertEqual(self.metrics("f1"), {})
        # A scheduler that takes over has measured nothing yet.
        cluster.kill(primary)
        await_true(lambda: self.metrics(spare)["tutti_cluster_primary"] == 1, 60, "the spare is primary")
        clients.stop()
        self.assertEqual(clients.failures, [], cluster.said())
        cluster.kill(spare)
        cluster.processes[spare].process.wait()
        self.assertEqual(self.domains(), [])

    def test_a_command_that_stood_still(self):
        """As all processes of a machine may. That time is no silence of the node's."""
        cluster = self.cluster
        command = [PROGRAM, "cluster", "status", cluster.spec, "--json", "--timeout", "5"]
        cluster.kill("b1", signal.SIGSTOP)
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as status:
            time.sleep(0.5)  # it waits for b1
            status.send_signal(signal.SIGSTOP)
            time.sleep(5.5)
            cluster.kill("b1", signal.SIGCONT)
            status.send_signal(signal.SIGCONT)
            nodes = {node["name"]: node for node in json.loads(status.communicate(timeout=60)[0])["nodes"]}
        self.assertEqual(nodes["b1"].get("pid"), cluster.processes["b1"].process.pid, nodes)


if __name__ == "__main__":
    unittest.main(verbosity=2)
