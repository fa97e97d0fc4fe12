#!/usr/bin/env python3
"""S9: a primary scheduler scales a StatefulSet, through a stand-in for the API server of Kubernetes.

No test states a time: what must hold is what the scaling, the API server and the answers say.
"""
import pathlib
import signal
import sys
import unittest

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "python"))

from certificates import Certificates  # noqa: E402
from cluster_process import Cluster, await_true  # noqa: E402
from kubernetes_api import KubernetesApi  # noqa: E402
from scaling_case import ScalingCase  # noqa: E402


class KubernetesTest(ScalingCase):
    def setUp(self):
        super().setUp()
        self.cluster = Cluster(frontends=2, backends=3)
        self.addCleanup(self.cluster.stop)
        files = Certificates(self.cluster.folder)
        self.api = KubernetesApi(files, self.cluster.folder / "account", {"tutti-default": 1})
        self.addCleanup(self.api.stop)

    def begin_pods(self, *flags, pods=("b1",)):
        for name in pods:
            self.cluster.start(name)
        self.start("--scale-kubernetes", "tutti-{pool}", "--scale-kubernetes-url", self.api.url,
                   "--scale-kubernetes-account", str(self.api.account), "--scale-hold-s", "1", "--scale-retry-s", "0.5", *flags)  # fmt: skip
        self.await_pool(stage="STEADY", asked=2 * len(pods), ready=2 * len(pods))

    def test_replicas_follow(self):
        self.begin_pods()
        self.pin(4)
        await_true(lambda: self.api.patches() == [2], 60, self.cluster.said)
        self.await_pool(stage="DELIVERING", asked=4, ready=2)
        self.cluster.start("b2")
        self.await_pool(stage="STEADY", asked=4, ready=4)
        self.api.renew("second." + "y" * 900)
        self.pin(2)
        await_true(lambda: self.api.patches() == [2, 1], 60, self.cluster.said)
        self.assertEqual(self.states()["b2"], "DRAINED")  # before it was stopped
        self.assertEqual(self.cluster.processes["b2"].stop(60), 0)
        self.await_pool(stage="STEADY", asked=2)
        # The number is changed elsewhere: that is taken over, and then what is pinned is asked for.
        self.api.set("tutti-default", 3)
        self.pin(4)
        await_true(lambda: self.api.patches()[2:] in ([2], [1, 2], [2, 2]) or self.pool()["changed"] >= 1, 60, self.cluster.said)
        self.assertGreaterEqual(self.pool()["changed"], 1)

    def test_a_deposed_primary_changes_nothing(self):
        """Another primary changes the number between this one's look and its change."""
        self.begin_pods()
        self.api.before_patch = lambda: self.api.set("tutti-default", 1)
        self.pin(6)
        self.await_last("kubernetes does not run 6 devices: .*/tutti-default/scale: HTTP status 409: the object has been modified")
        self.assertEqual(self.api.replicas["tutti-default"], 1)
        self.api.before_patch = None
        await_true(lambda: self.api.replicas["tutti-default"] == 3, 60, self.cluster.said)

    def test_a_scheduler_without_its_nodes_changes_nothing(self):
        """Most nodes must answer that they obey it."""
        self.begin_pods()
        for name in ("f1", "f2"):
            self.cluster.kill(name, signal.SIGSTOP)
        self.pin(6)
        self.await_last("[01] of 3 nodes answer that they obey this scheduler; more than half must")
        self.assertEqual(self.api.patches(), [])
        for name in ("f1", "f2"):
            self.cluster.kill(name, signal.SIGCONT)
        await_true(lambda: self.api.patches() == [3], 60, self.cluster.said)

    def test_promises_and_refusals(self):
        self.begin_pods("--scale-deliver-s", "2")
        self.api.refusal = (403, "exceeded quota: nodes")
        self.pin(4)
        self.await_last("kubernetes does not run 4 devices: .*HTTP status 403: exceeded quota: nodes")
        self.assertEqual((self.pool()["asked"], self.pool()["ready"]), (2, 2))
        self.api.refusal = None
        # It promises, and no pod comes.
        self.await_last("kubernetes promised 4 devices 2 s ago, and 2 serve; it is asked again")
        self.assertEqual(self.cluster.infer("f1", 5)[0], 200)
        self.assertGreaterEqual(self.pool()["late"], 1)
        self.cluster.start("b2")
        self.await_pool(stage="STEADY", asked=4, ready=4)
        self.api.renew("third")
        (self.api.account / "token").write_text("another\n")
        self.pin(6)
        self.await_last("HTTP status 401: Unauthorized")


if __name__ == "__main__":
    unittest.main(verbosity=2)
