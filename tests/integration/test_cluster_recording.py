#!/usr/bin/env python3
"""S10, S11: what a scheduler of a cluster records (`tutti serve --role scheduler --record`) replays to the same decisions:
those of a primary that hands over, of its successor, and of schedulers with threads."""
import json
import os
import pathlib
import subprocess
import sys
import unittest

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "python"))

from cluster_process import Clients, Cluster, await_true  # noqa: E402


class Recording(unittest.TestCase):
    def replay(self, path, *more):
        answer = subprocess.run(
            [os.environ["TUTTI_PROGRAM"], "replay", str(path), "--json", *more], capture_output=True, text=True, timeout=120
        )
        self.assertEqual((answer.returncode, answer.stderr), (0, ""), answer.stdout)
        return json.loads(answer.stdout)

    def pools(self, path, threads):
        """The domains of the cluster's pool; the process's own domain serves no one."""
        report = self.replay(path, "--check")
        self.assertTrue(report["identical"] and report["complete"])
        pools = [domain for domain in report["domains"] if domain["policy"] == "deferred"]
        self.assertEqual({domain["scheduler_threads"] for domain in pools}, {threads})
        self.assertEqual([d["requests"] for d in report["domains"] if d not in pools], [0])
        return pools

    def play(self, threads):
        cluster = Cluster(schedulers=2, backends=2)
        self.addCleanup(cluster.stop)
        files = {name: cluster.folder / (name + ".rec") for name in ("s1", "s2")}
        for name, role in cluster.nodes.items():
            more = ["--scheduler-threads", str(threads)] if threads else []
            cluster.start(name, *(["--record", str(files[name])] + more if role == "scheduler" else []))
        for name in cluster.nodes:
            self.assertTrue(cluster.processes[name].wait_ready(60), cluster.said())
        cluster.await_ready("f1")
        first = cluster.primary()
        clients = Clients(cluster, ["f1"])
        clients.await_more(60)
        self.assertEqual(cluster.command("promote", cluster.spec).returncode, 0)
        clients.await_more(60)
        cluster.kill("b1")  # what it had is lost to the scheduler, and comes again
        clients.await_more(60)
        clients.stop()
        self.assertEqual(clients.failures, [], cluster.said())
        second = cluster.primary()
        self.assertNotEqual(first, second)
        await_true(lambda: cluster.status()[first]["state"] == "SPARE", 60, "the former primary is a spare")
        for name in files:
            self.assertEqual(cluster.processes[name].stop(60), 0, cluster.said())
        served = []
        for name in (first, second):
            pools = self.pools(files[name], threads)
            self.assertGreater(len(pools), 1)  # it stepped down, now or at its end: another domain, which has no requests
            self.assertEqual([domain["requests"] > 0 for domain in pools], [True] + [False] * (len(pools) - 1))
            served.append(pools[0])
        self.assertGreaterEqual(sum(domain["requests"] for domain in served), clients.answers)
        totals = [domain["recorded"]["total"] for domain in served]
        self.assertGreater(min(total["ok"] + total["late"] for total in totals), 0)
        return files[second]

    @unittest.skipIf("TUTTI_CLUSTER_SCHEDULER_THREADS" in os.environ, "this test says how many threads there are")
    def test_on_the_node_s_thread(self):
        path = self.play(0)
        report = self.replay(path, "--policy", "eager")  # another policy on the same requests
        domain = [d for d in report["domains"] if d["requests"] > 0][0]
        self.assertEqual(domain["simulated"]["total"]["arrived"], domain["recorded"]["total"]["arrived"])

    @unittest.skipIf("TUTTI_CLUSTER_SCHEDULER_THREADS" in os.environ, "this test says how many threads there are")
    def test_on_threads(self):
        self.play(2)


if __name__ == "__main__":
    unittest.main(verbosity=2)
