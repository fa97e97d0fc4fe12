#!/usr/bin/env python3
"""A real HAProxy before the frontends of a cluster: what its clients notice of frontends that end, leave and return.

No test states a time: what must hold is that every request is answered.
"""
import pathlib
import sys
import unittest

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "python"))

from cluster_process import Clients, Cluster, await_true  # noqa: E402
from haproxy_process import Haproxy, find_haproxy  # noqa: E402
from needs import lacking  # noqa: E402
from server_process import free_port  # noqa: E402

FRONTENDS = ("f1", "f2")


@unittest.skipUnless(find_haproxy(), "HAProxy is not there; scripts/setup.sh --haproxy unpacks it")
class HaproxyTest(unittest.TestCase):
    def setUp(self):
        cluster = self.cluster = Cluster(frontends=2, backends=2)
        self.addCleanup(cluster.stop)
        self.at = {name: (free_port(), free_port()) for name in FRONTENDS}
        for name, role in cluster.nodes.items():
            if role != "frontend":
                cluster.start(name)
        for name in FRONTENDS:
            self.start(name)
        for name in FRONTENDS:
            self.assertTrue(cluster.processes[name].wait_ready(60), cluster.said())
            cluster.await_ready(name)
        self.proxy = Haproxy(*(["127.0.0.1:%d" % self.at[name][i] for name in FRONTENDS] for i in range(2)), cluster.folder / "haproxy.log")
        cluster.processes["proxy"] = self.proxy
        await_true(self.answers, 60, "HAProxy answers")

    def start(self, name):
        http, grpc = self.at[name]
        self.cluster.start(name, "--drain-ms", "500", http=http, grpc=grpc)

    def answers(self, status=200):
        self.assertIsNone(self.proxy.process.poll(), self.proxy.said())
        try:
            return self.cluster.get("proxy", "/v2/health/ready")[0] == status
        except OSError:
            return False

    def await_accepted(self, *names):
        """Until each of them has accepted another request."""
        before = {name: self.cluster.status()[name].get("accepted", 0) for name in names}
        for name in names:
            await_true(lambda name=name: self.cluster.status()[name].get("accepted", 0) > before[name], 60, "%s is used" % name)

    def end(self, clients):
        clients.stop()
        self.assertEqual(clients.failures, [], self.cluster.said())

    # S7: a client of the balancer does not notice that a frontend ends
    def test_frontends_are_killed(self):
        clients = Clients(self.cluster, ["proxy"])
        self.addCleanup(clients.stop)
        self.await_accepted(*FRONTENDS)
        for name in FRONTENDS:
            clients.await_more()
            self.cluster.kill(name)
            self.cluster.processes[name].process.wait()
            clients.await_more(60)
            self.start(name)
            self.assertTrue(self.cluster.processes[name].wait_ready(60), self.cluster.said())
            self.cluster.await_ready(name)
            self.await_accepted(*FRONTENDS)
        self.end(clients)

    def test_a_frontend_leaves(self):
        """SIGTERM with --drain-ms: it is taken out first, and ends what it has."""
        clients = Clients(self.cluster, ["proxy"])
        self.addCleanup(clients.stop)
        self.await_accepted(*FRONTENDS)
        self.assertEqual(self.cluster.processes["f2"].stop(60), 0, self.cluster.said())
        clients.await_more(60)
        self.end(clients)

    def test_none_is_ready(self):
        for name in FRONTENDS:
            self.cluster.kill(name)
        await_true(lambda: self.answers(503), 60, "HAProxy answers 503")
        self.start("f1")
        await_true(self.answers, 60, "HAProxy answers again")
        self.assertEqual(self.cluster.infer("proxy", 1)[0], 200)

    @unittest.skipIf(lacking(["tritonclient"]), lacking(["tritonclient"]))
    def test_grpc(self):
        import numpy
        from tritonclient import grpc

        def infer(value):
            with grpc.InferenceServerClient(self.proxy.grpc_address) as client:
                label, x = grpc.InferInput("label", [1, 1], "BYTES"), grpc.InferInput("x", [1, 4], "FP32")
                label.set_data_from_numpy(numpy.array([[b"a"]], dtype=object))
                x.set_data_from_numpy(numpy.full((1, 4), value, numpy.float32))
                self.assertEqual(client.infer("echo", [label, x]).as_numpy("y").tolist(), [[value] * 4])

        infer(1)
        self.cluster.kill("f1")
        for value in range(20):
            infer(value)


if __name__ == "__main__":
    unittest.main(verbosity=2)
