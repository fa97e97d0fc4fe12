#!/usr/bin/env python3
"""S10, S8: nodes that do not reach each other, and nodes whose clocks differ: real processes, each in a network namespace.

No test states a time: what must hold is that every request is answered, once and rightly, and that one scheduler is primary.
"""
import json
import pathlib
import signal
import subprocess
import sys
import time
import unittest

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "python"))

import net_namespaces  # noqa: E402
from cluster_process import PROGRAM, SILENCE_S, STEADY, Clients, Cluster, await_true  # noqa: E402


class Apart(Cluster):
    """Each node in a namespace of its own. `skews`: seconds by which the clocks of nodes are ahead."""

    def __init__(self, skews=None, **shape):
        self.net, self.skews = net_namespaces.Namespaces(), skews or {}
        super().__init__(**shape)
        self.key = self.folder / "key"
        self.key.write_text("a key of a test: 16 bytes or more\n")
        self.key.chmod(0o600)

    def place(self, name):
        return self.net.address(name) + ":7100"

    def command_of(self, name, command):
        skew = self.skews.get(name)
        late = ["unshare", "--time", "--monotonic", str(skew), "--boottime", str(skew)] if skew else []
        return self.net.inside(name, late + command)

    def start(self, name, *more, **options):
        more += ("--cluster-key", str(self.key))
        if self.nodes[name] == "frontend":
            more += ("--http-host", self.net.address(name), "--insecure")
        return super().start(name, *more, **options)

    def start_all(self, *more):
        for name in self.nodes:
            self.start(name, *more)
        frontends = [name for name, role in self.nodes.items() if role == "frontend"]
        for name in frontends:
            await_true(lambda n=name: self.status().get(n, {}).get("http"), 60, lambda: "it listens; " + self.said())
            self.processes[name].address = self.status()[name]["http"].split("//")[-1]
        for name in frontends:
            self.await_ready(name)
        backends = [name for name, role in self.nodes.items() if role == "backend"]
        await_true(lambda: self.status()[self.primary()]["devices"] == 2 * len(backends), 60, "all devices are there")

    def command(self, *arguments):
        return super().command(*arguments, "--cluster-key", str(self.key))

    def command_at(self, name, *arguments):
        """Where the node is, as an operator beside it would. Returns what was printed."""
        command = [PROGRAM, "cluster", *arguments, self.spec, "--cluster-key", str(self.key)]
        done = subprocess.run(self.net.inside(name, command), capture_output=True, text=True, timeout=60, check=False)
        return done.stdout + done.stderr

    def stop(self):
        super().stop()
        self.net.end()


class CutsTest(unittest.TestCase):
    def begin(self, **shape):
        self.cluster = Apart(**shape)
        self.addCleanup(self.cluster.stop)
        self.cluster.start_all()
        clients = Clients(self.cluster, ["f1"])
        self.addCleanup(clients.stop)
        clients.await_more()
        return self.cluster, clients

    def end(self, clients):
        """Every request was answered rightly, and what the frontend accepted is answered, once."""
        clients.stop()
        self.assertEqual(clients.failures, [], self.cluster.said())
        await_true(lambda: self.cluster.status()["f1"]["under_way"] == 0, 60, "nothing is under way")
        node = self.cluster.status()["f1"]
        self.assertEqual((node["accepted"], node["failed"]), (node["answered"], 0), node)

    def test_the_primary_is_cut_off(self):
        cluster, clients = self.begin(schedulers=2, backends=2)
        primary = cluster.primary()
        other = {"s1": "s2", "s2": "s1"}[primary]
        epoch = cluster.status()[primary]["epoch"]
        cluster.net.unplug(primary)
        await_true(lambda: cluster.status()[other].get("primary"), 60, "the spare is primary")
        clients.await_more(100)
        self.assertGreater(cluster.status()[other]["epoch"], epoch)
        cluster.net.plug(primary)
        await_true(lambda: cluster.status()[primary].get("state") == "SPARE", 60, "the former one is a spare")
        clients.await_more(60)
        self.assertEqual(cluster.primary(), other)
        self.end(clients)

    def test_two_primaries_plan(self):
        """S8: one is cut off from all but a backend that does not reach the other. The plan of the other is in force in the end,
        and the former primary says what became of its own."""
        cluster = self.cluster = Apart(schedulers=2, backends=4, pools=2)
        self.addCleanup(cluster.stop)
        cluster.add_model("second")  # echo lies in p1, second in p2
        cluster.start_all()
        clients = Clients(cluster, ["f1"])
        self.addCleanup(clients.stop)
        clients.await_more()
        former = cluster.primary()
        later = {"s1": "s2", "s2": "s1"}[former]

        def show():
            done = cluster.command("placement", "show", cluster.spec, "--json")
            return json.loads(done.stdout) if done.returncode == 0 else {"stage": "", "pools": []}

        def plan():
            return cluster.command("placement", "plan", cluster.spec, "--move", "second=p1")

        cluster.kill("b2", signal.SIGSTOP)  # so that the plan does not end before the cut
        self.assertIn("LOADING", cluster.command_at(former, "placement", "plan", "--move", "echo=p2"))
        cuts = [(former, name) for name in (later, "f1", "b2", "b3", "b4")] + [(later, "b1")]
        for pair in cuts:
            cluster.net.cut(*pair)
        cluster.kill("b2", signal.SIGCONT)

        def at(name):
            """What one scheduler says of itself, which the test reaches though others do not."""
            return cluster.status().get(name, {})

        await_true(lambda: at(later).get("primary"), 60, "the spare is primary")
        dropped = "the plan of 1 move was dropped: "
        await_true(lambda: dropped in cluster.processes[former].said(), 60, cluster.said)
        refused = "node %s is not linked: it could take over with the placement of before"
        await_true(lambda: refused % later in cluster.command_at(former, "placement", "plan", "--move", "echo=p2"), 60,
                   "the former primary says that it waits for the later")  # fmt: skip
        await_true(lambda: refused % former in cluster.command_at(later, "placement", "plan", "--move", "second=p1"), 60,
                   "the later primary says that it waits for the former")  # fmt: skip
        self.assertTrue(at(former)["primary"] and at(later)["primary"], cluster.status())
        clients.await_more()
        for pair in cuts:
            cluster.net.mend(*pair)
        await_true(lambda: at(former).get("state") == "SPARE", 60, "the former one is a spare")
        self.assertEqual([pool["models"] for pool in show()["pools"]], [["echo"], ["second"]])
        await_true(lambda: plan().returncode == 0, 60, "the later primary plans")
        await_true(lambda: show()["stage"] == "NONE", 60, "its plan has ended")
        self.assertIn("the plan of 1 move is in force", show()["last"])
        self.assertEqual([pool["models"] for pool in show()["pools"]], [["echo", "second"], []])
        self.assertNotIn("is in force", cluster.processes[former].said())
        self.assertEqual(cluster.command("promote", cluster.spec).returncode, 0)  # the former one has it, too
        await_true(lambda: at(former).get("primary") and show()["pools"], 60, "the former one is primary again")
        self.assertEqual([pool["models"] for pool in show()["pools"]], [["echo", "second"], []])
        self.end(clients)

    def test_the_schedulers_lose_each_other(self):
        """The others hear the primary, so the spare stays one."""
        cluster, clients = self.begin(schedulers=2, backends=2)
        primary = cluster.primary()
        other = {"s1": "s2", "s2": "s1"}[primary]
        before = cluster.status()
        cluster.net.cut("s1", "s2")
        time.sleep(3 * SILENCE_S)  # the spare suspects, and asks
        clients.await_more(60)
        after = cluster.status()
        self.assertEqual([after[name]["epoch"] for name in after], [before[primary]["epoch"]] * len(after))
        self.assertEqual(after[other]["claims"], before[other]["claims"])
        self.assertTrue(after[primary]["primary"])
        cluster.net.mend("s1", "s2")
        clients.await_more(60)
        self.assertEqual(cluster.primary(), primary)
        self.end(clients)

    def test_a_link_that_the_primary_gave_up(self):
        """The primary, which is the one that dials, comes back. The spare hears that the former link is reset, or still holds it."""
        cluster, clients = self.begin(schedulers=2, backends=2, times=STEADY)
        if cluster.primary() == "s1":
            self.assertEqual(cluster.command("promote", cluster.spec).returncode, 0)
            await_true(lambda: cluster.primary() == "s2", 60, "s2 is primary")
        claims = cluster.status()["s1"]["claims"]
        linked = lambda: sum("cluster: linked to s2" in line for line in cluster.processes["s1"].lines)  # noqa: E731
        before = linked()
        if not cluster.net.abort_links("s2", "s1"):
            self.skipTest("this system gives no connection up by command")
        await_true(lambda: linked() > before, 60, "the spare is linked again")
        before = linked()
        cluster.net.cut("s1", "s2")
        cluster.net.abort_links("s2", "s1")
        cluster.net.mend("s1", "s2")
        await_true(lambda: linked() > before, 60, "the spare is linked again")
        clients.await_more(60)
        self.assertEqual((cluster.primary(), cluster.status()["s1"]["claims"]), ("s2", claims))
        self.end(clients)

    def test_a_frontend_and_a_backend_lose_each_other(self):
        cluster, clients = self.begin(backends=3)
        cluster.net.cut("f1", "b1")
        await_true(lambda: cluster.status()["s1"]["avoided"] > 0, 60, "b1 is avoided")
        clients.await_more(100)
        self.assertEqual(cluster.status()["s1"]["claims"], 1)
        cluster.net.mend("f1", "b1")
        done = cluster.status()["b1"]["requests"]
        await_true(lambda: cluster.status()["b1"]["requests"] > done or clients.failures, 60, "b1 gets requests again")
        self.end(clients)

    def test_a_backend_is_cut_off(self):
        cluster, clients = self.begin(backends=2)
        cluster.net.unplug("b2")
        clients.await_more(100)
        cluster.net.plug("b2")
        await_true(lambda: cluster.status()["s1"]["devices"] == 4, 60, "b2 is there again")
        done = cluster.status()["b2"]["requests"]
        await_true(lambda: cluster.status()["b2"]["requests"] > done or clients.failures, 60, "b2 gets requests again")
        self.end(clients)

    def test_clocks_differ(self):
        """A day and a week ahead: messages have durations only."""
        if subprocess.run(["unshare", "--time", "--monotonic", "9", "true"], capture_output=True, check=False).returncode:
            self.skipTest("no time namespaces here")
        cluster, clients = self.begin(schedulers=2, backends=2, times=STEADY, skews={"s1": 86400, "b1": 604800, "f1": 3600})
        clients.await_more(100)
        primary = cluster.primary()
        self.assertEqual(cluster.status()[primary]["claims"], 1)
        self.assertEqual(cluster.command("promote", cluster.spec).returncode, 0)
        await_true(lambda: cluster.primary() != primary, 60, "the other is primary")
        clients.await_more(100)
        status = cluster.status()
        self.assertGreater(min(status["b1"]["requests"], status["b2"]["requests"]), 0)
        self.end(clients)


if __name__ == "__main__":
    net_namespaces.enter()
    unittest.main(verbosity=2)
