#!/usr/bin/env python3
"""S9: a primary scheduler starts and stops backends through a provider, and no request is lost.

No test states a time: what must hold is what the scaling, the provider and the answers say.
"""
import pathlib
import sys
import unittest

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "python"))

from cluster_process import Clients, Cluster, await_true  # noqa: E402
from scaling_case import EmulatedCase, ScalingCase  # noqa: E402


class EmulatedTest(EmulatedCase):
    # S9: drain before stop; what runs is never stopped with requests in it
    def test_backends_come_and_go_under_load(self):
        self.begin_emulated(schedulers=2)
        clients = Clients(self.cluster, ["f1"])
        self.addCleanup(clients.stop)
        clients.await_more()
        self.pin(6)
        self.await_pool(ready=6, stage="STEADY", asked=6, mode="PINNED")
        clients.await_more()
        self.assertGreater(self.pool()["start_up_s"], 0)  # learnt from three starts
        self.assertTrue(0 < self.pool()["start_up_confidence"] < 1, self.pool())
        self.pin(2)
        seen = self.await_pool(ready=2, asked=2, stage="STEADY")
        self.assertEqual({node["name"]: node["state"] for node in seen["nodes"]}, {"b1": "SERVING", "b2": "ABSENT", "b3": "ABSENT"})
        clients.await_more()
        # The spare takes the pool over, with what was pinned.
        primary = self.cluster.primary()
        spare = {"s1": "s2", "s2": "s1"}[primary]
        self.cluster.kill(primary)
        await_true(lambda: self.cluster.status()[spare].get("primary"), 60, "the spare is primary")
        self.assertEqual(self.await_pool(asked=2, stage="STEADY")["mode"], "PINNED")
        self.pin(4)
        self.await_pool(ready=4, asked=4, stage="STEADY")
        clients.await_more()
        clients.stop()
        self.assertEqual(clients.failures, [], self.cluster.said())
        for family, value in (("pool_devices_asked", 4), ("pool_devices_ready", 4)):
            await_true(lambda f=family, v=value: self.metrics(spare).get("tutti_cluster_" + f) == {"default": v}, 60, family)
        metrics = self.metrics(spare)
        self.assertEqual(metrics["tutti_cluster_pool_devices_most"], {"default": 6})
        self.assertEqual(metrics["tutti_cluster_start_up_seconds"].keys(), {"default"})
        self.assertEqual(metrics["tutti_cluster_scale_stage"], {"default": 1})
        self.assertEqual(metrics["tutti_cluster_plans_total"], {"done": 0, "dropped": 0})
        text = self.cluster.command("status", self.cluster.spec, "--timeout", "30").stdout
        self.assertRegex(text, r"\ndefault +(\d+|-) +4 +4 +4 +6  PINNED   STEADY +b1 b2\n")

    def test_preemption_stop_and_faults(self):
        self.begin_emulated("--scale-start-up-s", "90")
        self.assertEqual((self.pool()["start_up_s"], self.pool()["start_up_confidence"]), (90, 1))
        text = self.cluster.command("scale", "show", self.cluster.spec, "--timeout", "30").stdout
        self.assertIn("\n  start-up: 90 s, confidence 1.00\n", text)
        self.pin(2)
        self.assertIn("there is no backend 'b9'", self.scale("preempt", self.cluster.spec, "--node", "b9"))
        self.assertIn("node b3 does not run", self.scale("preempt", self.cluster.spec, "--node", "b3"))
        self.assertIsInstance(self.scale("preempt", self.cluster.spec, "--node", "b1"), dict)
        await_true(lambda: self.states()["b2"] == "SERVING", 60, self.cluster.said)
        await_true(lambda: self.states()["b1"] == "DRAINED", 60, self.cluster.said)
        self.assertEqual(self.pool()["preempted"], 1)
        self.assertEqual(self.cluster.infer("f1", 5)[0], 200)
        # A stopped pool stays as it is, whatever is pinned later.
        self.assertEqual(self.scale("stop", self.cluster.spec)["pools"][0]["mode"], "STOPPED")
        self.assertEqual(self.scale("resume", self.cluster.spec, "--pool", "default")["pools"][0]["mode"], "AUTO")
        self.assertIn("there is no pool 'x'", self.scale("stop", self.cluster.spec, "--pool", "x"))
        said = self.scale("pin", self.cluster.spec, "--pool", "default", "--devices", "7")
        self.assertIn("pool default: 7 devices; the limits of the pool are 2 to 6", said)
        # A later primary has scaled: this one has lost its place, and changes nothing.
        (self.folder / "epoch").write_text("99999999\n")
        self.pin(6)
        self.await_last("emulated does not run 6 devices: .*: a primary of epoch 99999999 has scaled; this one has")
        self.assertEqual(self.states()["b3"], "ABSENT")
        self.assertGreaterEqual(self.pool()["failures"], 1)


class CommandTest(ScalingCase):
    # S9: the load decides, through a command
    def test_a_command_is_run(self):
        self.cluster = Cluster(backends=2)
        self.addCleanup(self.cluster.stop)
        log = self.cluster.folder / "calls"
        script = self.cluster.folder / "scale"
        script.write_text('#!/bin/sh\necho "$*" >>%s\ntest "$2" = 2 || { echo no machine for $1; exit 3; }\n' % log)
        script.chmod(0o755)
        self.cluster.start("b1")
        self.start("--scale-command", "%s {pool} {nodes} '{devices} of {epoch}'" % script,
                   "--scale-deliver-s", "1", "--scale-retry-s", "0.2", "--scale-limits", "default=2:4")  # fmt: skip
        self.await_pool(stage="STEADY", asked=2, ready=2)
        self.pin(4)
        await_true(log.exists, 60, self.cluster.said)
        self.cluster.start("b2")
        self.await_pool(stage="STEADY", ready=4)
        self.assertRegex(log.read_text(), r"^default 2 4 of \d+\n")
        self.pin(2)
        self.await_last("command does not run 2 devices: .*/scale ended with exit code 3: no machine for default")
        self.assertEqual(self.states()["b2"], "DRAINED")


class FlagsTest(unittest.TestCase):
    def test_what_is_refused(self):
        cluster = Cluster()
        self.addCleanup(cluster.stop)
        for role, flags, said in (
            ("scheduler", ("--scale-command", "x {pol}"), "'{pol}' is no placeholder"),
            ("scheduler", ("--scale-command", "x 'y"), "a quote is open"),
            ("scheduler", ("--scale-command", "x", "--scale-emulated", "y"), "exclude each other"),
            ("scheduler", ("--scale-limits", "default=1:2"), "--scale-limits needs --scale-kubernetes"),
            ("scheduler", ("--scale-command", "x", "--scale-limits", "default=2:1"), "is not POOL=MIN:MAX"),
            ("scheduler", ("--scale-command", "x", "--scale-limits", "other=1:2"), "there is no pool 'other' to be scaled"),
            ("scheduler", ("--scale-command", "x", "--scale-limits", "default=1:3"), "pool default has 2 devices"),
            ("scheduler", ("--scale-kubernetes", "t"), "KUBERNETES_SERVICE_HOST is not set"),
            ("scheduler", ("--scale-kubernetes-url", "https://127.0.0.1:1"), "needs --scale-kubernetes"),
            ("scheduler", ("--scale-hold-s", "5"), "--scale-hold-s needs --scale-kubernetes, --scale-command or --scale-emulated"),
            ("frontend", ("--scale-command", "x"), "the flags --scale-... need --role scheduler"),
        ):
            with self.subTest(said=said):
                server = cluster.start({"scheduler": "s1", "frontend": "f1"}[role], *flags)
                self.assertNotEqual(server.process.wait(60), 0)
                self.assertIn(said, server.said())

    def test_what_the_command_refuses(self):
        cluster = Cluster()
        self.addCleanup(cluster.stop)
        for words, said in (
            (("scale", "grow"), "scale takes show, stop, resume, pin or preempt"),
            (("scale", "pin", "--pool", "p"), "scale pin needs --pool and --devices"),
            (("scale", "preempt"), "scale preempt needs --node"),
            (("scale", "show", "--pool", "p"), "--pool goes with scale stop, resume and pin"),
            (("status", "--node", "b1"), "--pool, --devices and --node need scale"),
            (("scale", "--move", "a=b"), "--move needs placement plan"),
        ):
            with self.subTest(words=words):
                result = cluster.command(*words)
                self.assertEqual(result.returncode, 2)
                self.assertIn(said, result.stderr)
        cluster.start("s1")
        self.assertTrue(cluster.processes["s1"].wait_ready(60))
        cluster.start("f1")
        cluster.start("b1")
        cluster.await_ready("f1") if cluster.processes["f1"].wait_ready(60) else self.fail(cluster.said())
        result = cluster.command("scale", "show", cluster.spec)
        self.assertEqual(result.returncode, 1)
        self.assertIn("this scheduler does not scale; it would with --scale-kubernetes", result.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
