#!/usr/bin/env python3
"""S10: a cluster of real processes on the loopback: roles, failures, and what is refused.

No test states a time: what must hold is that every request is answered, once and rightly.
"""
import os
import pathlib
import signal
import struct
import sys
import time
import unittest

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "python"))

from cluster_process import TIMES, Clients, Cluster, ClusterTestCase, await_true  # noqa: E402


class ClusterTest(ClusterTestCase):
    def accounts_agree(self, frontends):
        """What a frontend accepted is answered, once."""
        for name in frontends:
            await_true(lambda: self.cluster.status()[name]["under_way"] == 0, 60, "nothing is under way")
            node = self.cluster.status()[name]
            self.assertEqual(node["accepted"], node["answered"] + node["failed"], node)

    # S7: three roles in three processes
    def test_one_of_each(self):
        cluster = self.begin()
        for value in range(20):
            status, answer = cluster.infer("f1", value)
            self.assertEqual(status, 200, answer)
            self.assertEqual(answer["outputs"][0]["data"], [value, 1, 2, 3])
        nodes = cluster.status()
        self.assertEqual({name: node["role"] for name, node in nodes.items()},
                         {"s1": "scheduler", "f1": "frontend", "b1": "backend"})  # fmt: skip
        self.assertEqual(nodes["s1"]["state"], "PRIMARY")
        self.assertEqual(nodes["s1"]["pid"], cluster.processes["s1"].process.pid)
        self.assertEqual(nodes["b1"]["requests"], 20)
        self.assertEqual(nodes["s1"]["devices"], 2)
        self.assertEqual(nodes["s1"]["threads"], int(os.environ.get("TUTTI_CLUSTER_SCHEDULER_THREADS", "0")))
        self.assertEqual(nodes["f1"]["epoch"], nodes["s1"]["epoch"])
        told = (ROOT / "docs" / "FORMATS.md").read_text().split("## `tutti cluster --json`", 1)[1].split("\n## ", 1)[0]
        for node in nodes.values():
            self.assertEqual([key for key in node if "`%s`" % key not in told], [])
        status, answer = cluster.infer("f1", 1, model="none")
        self.assertIn(status, (400, 404), answer)
        status, answer = cluster.infer("s1", 1)
        self.assertEqual(status, 503, answer)
        self.assertIn("requests go to a frontend", answer)
        self.accounts_agree(["f1"])
        for name in cluster.nodes:
            self.assertEqual(cluster.processes[name].stop(30), 0, cluster.processes[name].said())

    def test_clients_that_go(self):
        """A client's end frees its place at the scheduler; the next request gets the device."""
        cluster = self.begin(devices=1, slow=True)

        first = cluster.begin_infer("f1", 1)  # runs for seconds
        await_true(lambda: cluster.status()["b1"]["requests"] == 1, 60, "the first one runs")
        waiting = [cluster.begin_infer("f1", value) for value in range(2, 6)]
        await_true(lambda: cluster.status()["s1"]["requests"] == 5, 60, "the others wait at the scheduler")
        for line in waiting[:3] + [first]:
            line.close()
        await_true(lambda: cluster.status()["f1"]["under_way"] == 1, 60, "the frontend has one")
        await_true(lambda: cluster.status()["s1"]["requests"] == 1, 60, "the scheduler has one")
        with waiting[3].makefile("rb") as answer:
            self.assertIn(b"200 OK", answer.readline())
        waiting[3].close()
        node = cluster.status()["f1"]
        self.assertEqual((node["answered"], node["cancelled"], node["failed"]), (1, 4, 0), node)
        self.assertEqual(cluster.status()["b1"]["requests"], 2)

    # S10: the spare takes over, and nothing is lost
    def test_primary_is_killed(self):
        cluster = self.begin(schedulers=2, frontends=2, backends=2)
        primary = cluster.primary()
        clients = Clients(cluster, ["f1", "f2"])
        clients.await_more()
        cluster.kill(primary)
        clients.await_more(100)
        clients.stop()
        self.assertEqual(clients.failures, [], cluster.said())
        self.assertNotEqual(cluster.primary(), primary)
        self.accounts_agree(["f1", "f2"])
        cluster.start(primary)  # comes back as a spare
        await_true(lambda: cluster.status()[primary]["state"] == "SPARE", 60, "it is a spare")

    def test_primary_freezes(self):
        cluster = self.begin(schedulers=2)
        primary = cluster.primary()
        clients = Clients(cluster, ["f1"])
        clients.await_more()
        cluster.kill(primary, signal.SIGSTOP)
        clients.await_more(100)
        other = {"s1": "s2", "s2": "s1"}[primary]
        await_true(lambda: cluster.status()[other]["primary"], 60, "the spare is primary")
        cluster.kill(primary, signal.SIGCONT)
        await_true(lambda: cluster.status()[primary]["state"] == "SPARE", 60, "the old one steps down")
        clients.await_more()
        clients.stop()
        self.assertEqual(clients.failures, [], cluster.said())
        self.accounts_agree(["f1"])

    def test_the_spare_ends(self):
        cluster = self.begin(schedulers=2)
        primary = cluster.primary()
        spare = {"s1": "s2", "s2": "s1"}[primary]
        epoch = cluster.status()[primary]["epoch"]
        clients = Clients(cluster, ["f1"])
        clients.await_more()
        cluster.kill(spare)
        clients.await_more(60)
        cluster.start(spare)
        await_true(lambda: cluster.status()[spare].get("state") == "SPARE", 60, "it is a spare again")
        clients.await_more()
        clients.stop()
        self.assertEqual(clients.failures, [], cluster.said())
        self.assertEqual((cluster.primary(), cluster.status()[primary]["epoch"]), (primary, epoch))
        self.accounts_agree(["f1"])

    def test_a_backend_is_slow(self):
        """It runs by fits and starts: late again and again, so it is suspected, and used again when it keeps up."""
        cluster = self.begin(backends=2, times=TIMES.replace("overdue-ms 400", "overdue-ms 100"))
        clients = Clients(cluster, ["f1"])
        clients.await_more()

        def stumble():
            cluster.kill("b1", signal.SIGSTOP)
            time.sleep(0.3)
            cluster.kill("b1", signal.SIGCONT)
            return cluster.status()["s1"]["suspected"] > 2

        await_true(stumble, 120, "it is suspected, again and again")
        clients.await_more(60)
        await_true(lambda: cluster.status()["s1"]["devices"] == 4, 60, "its devices take batches again")
        done = cluster.status()["b1"]["requests"]
        await_true(lambda: cluster.status()["b1"]["requests"] > done or clients.failures, 60, "b1 gets requests")
        clients.stop()
        self.assertEqual(clients.failures, [], cluster.said())
        self.accounts_agree(["f1"])

    def test_backends_fail(self):
        cluster = self.begin(backends=3)
        clients = Clients(cluster, ["f1"], count=6)
        clients.await_more()
        cluster.kill("b1")
        clients.await_more(60)
        cluster.kill("b2", signal.SIGSTOP)
        clients.await_more(60)
        cluster.kill("b2", signal.SIGCONT)
        clients.await_more(60)
        clients.stop()
        self.assertEqual(clients.failures, [], cluster.said())
        self.accounts_agree(["f1"])

    def test_ready_means_a_scheduler_and_a_backend(self):
        cluster = self.begin()
        cluster.kill("b1")
        cluster.await_ready("f1", 503)
        cluster.start("b1")
        cluster.await_ready("f1")
        cluster.kill("s1")
        cluster.await_ready("f1", 503)
        cluster.start("s1")
        cluster.await_ready("f1")
        self.assertEqual(cluster.infer("f1", 5)[0], 200)

    def test_promote_and_drain(self):
        cluster = self.begin(schedulers=2, frontends=2)
        primary = cluster.primary()
        clients = Clients(cluster, ["f1"])
        clients.await_more()
        answer = cluster.command("promote", cluster.spec)
        self.assertEqual(answer.returncode, 0, answer.stderr)
        clients.await_more(50)
        clients.stop()
        self.assertEqual(clients.failures, [], cluster.said())
        self.assertNotEqual(cluster.primary(), primary)
        answer = cluster.command("drain", "f2", cluster.spec, "--json")
        self.assertEqual(answer.returncode, 0, answer.stderr)
        cluster.await_ready("f2", 503)
        self.assertEqual(cluster.infer("f2", 1)[0], 503)
        self.assertEqual(cluster.infer("f1", 1)[0], 200)
        answer = cluster.command("drain", "elsewhere", cluster.spec)
        self.assertEqual(answer.returncode, 2)
        self.assertIn("there is no node 'elsewhere'", answer.stderr)

    def test_nodes_that_are_to_end(self):
        """SIGTERM with --drain-ms: a backend takes nothing new, a primary hands over; a second signal ends them."""
        cluster = self.begin("--drain-ms", "600000", schedulers=2, backends=2)
        clients = Clients(cluster, ["f1"])
        self.addCleanup(clients.stop)
        clients.await_more()
        cluster.kill("b1", signal.SIGTERM)
        await_true(lambda: cluster.status()["b1"]["state"] == "DRAINED", 60, "b1 has ended what it had")
        done = cluster.status()["b1"]["requests"]
        primary = cluster.primary()
        cluster.kill(primary, signal.SIGTERM)
        await_true(lambda: cluster.status()[primary]["state"] == "SPARE", 60, "the primary hands over")
        self.assertNotEqual(cluster.primary(), primary)
        cluster.kill("f1", signal.SIGTERM)  # goes on; its readiness sends clients elsewhere
        cluster.await_ready("f1", 503)
        clients.await_more(60)
        clients.stop()
        self.assertEqual(clients.failures, [], cluster.said())
        self.assertEqual(cluster.status()["b1"]["requests"], done)
        for name in ("b1", primary, "f1"):
            self.assertEqual(cluster.processes[name].stop(60), 0, cluster.said())

    def test_keys(self):
        cluster = self.cluster = Cluster(backends=2)
        right, wrong = cluster.folder / "right", cluster.folder / "wrong"
        for path, text in ((right, "the right key of 16\n"), (wrong, "a wrong key of 16 bytes\n")):
            path.write_text(text)
            path.chmod(0o600)
        for name in ("s1", "f1", "b1"):
            cluster.start(name, "--cluster-key", str(right))
        self.assertTrue(cluster.processes["f1"].wait_ready(60))
        cluster.await_ready("f1")
        stranger = cluster.start("b2", "--cluster-key", str(wrong))
        await_true(lambda: any("another key" in line for line in stranger.lines), 60, "it is refused")
        for value in range(10):
            self.assertEqual(cluster.infer("f1", value)[0], 200)
        self.assertEqual(cluster.command("status", cluster.spec).returncode, 1)
        answer = cluster.command("status", cluster.spec, "--cluster-key", str(right))
        self.assertEqual(answer.returncode, 0, answer.stdout)
        right.chmod(0o644)
        answer = cluster.command("status", cluster.spec, "--cluster-key", str(right))
        self.assertEqual(answer.returncode, 2)
        self.assertIn("chmod 600", answer.stderr)

    def test_other_models_are_no_obstacle(self):
        """A node joins with other models; none of them is served (test_cluster_new_models.py has the rest)."""
        cluster = self.cluster = Cluster()
        others = cluster.folder / "others"
        cluster.add_model("other", others)
        cluster.start("s1")
        cluster.start("f1")
        cluster.start("b1", models=others)
        for name in ("s1", "f1", "b1"):
            self.assertTrue(cluster.processes[name].wait_ready(60), cluster.said())
        await_true(lambda: cluster.status()["s1"]["devices"] == 2, 60, "it takes batches")
        cluster.await_ready("f1", 503)  # it has nothing to serve
        lines = cluster.processes["s1"].lines
        for text in ("model other has come from node b1", "node b1 does not serve model echo: "):
            await_true(lambda t=text: any(t in line for line in lines), 60, "s1 says: " + text)
        status, answer = cluster.infer("f1", 1)
        self.assertEqual(status, 503, answer)
        self.assertIn("'echo'", answer)

    def test_what_strangers_send(self):
        """Bytes that are no hello, and hellos of other releases, are refused; the node goes on."""
        import socket

        cluster = self.begin()
        release = (9, 9)

        def hello(major, minor, node=0xFFFF):
            return struct.pack("<IHHHHHHQQQ", 0x31435454, 1, 64, major, minor, node, 0, 0, 0, 0) + os.urandom(32)

        def send(data):
            with socket.create_connection(("127.0.0.1", cluster.ports["s1"]), timeout=30) as line:
                line.sendall(data)
                line.shutdown(socket.SHUT_WR)
                answer = b""
                while True:
                    try:
                        more = line.recv(4096)
                    except ConnectionResetError:
                        break
                    if not more:
                        break
                    answer += more
                return answer

        self.assertIn(b"does not work with release 9.9", send(hello(*release)))
        self.assertIn(b"node 77 is not expected", send(hello(0, 1, 77)))
        for data in (b"GET / HTTP/1.1\r\n\r\n", os.urandom(5000), b"", struct.pack("<IHH", 0x31435454, 2, 0xFFFF)):
            send(data)
        datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        for length in (0, 1, 47, 48, 63, 64, 100, 2000):
            datagrams.sendto(os.urandom(length), ("127.0.0.1", cluster.ports["s1"]))
        datagrams.close()
        self.assertEqual(cluster.infer("f1", 3)[0], 200)

    def test_usage(self):
        import subprocess

        cluster = self.cluster = Cluster()
        outside = cluster.folder / "outside"
        outside.write_text("scheduler s 192.0.2.1:1\nfrontend f 127.0.0.1:2\nbackend b 127.0.0.1:3\n")

        def refused(*arguments):
            answer = subprocess.run(
                [os.environ["TUTTI_PROGRAM"], "serve", "--model-repository", str(cluster.models), *arguments],
                capture_output=True, text=True, timeout=60)  # fmt: skip
            self.assertEqual(answer.returncode, 2, answer.stderr)
            return answer.stderr

        there = ("--cluster", cluster.spec, "--http-port", "0", "--grpc-port", "0")
        self.assertIn("--role needs --cluster SPEC and --node NAME", refused("--role", "backend"))
        self.assertIn("need --role", refused("--node", "b1"))
        self.assertIn("explicit without --load-model", refused("--role", "backend", "--node", "b1", "--cluster", cluster.spec,
                                                               "--model-control-mode", "explicit", "--load-model", "echo"))  # fmt: skip
        self.assertIn("there is no node 'x'", refused("--role", "backend", "--node", "x", *there))
        self.assertIn("--role says backend", refused("--role", "backend", "--node", "f1", *there))
        self.assertIn("--emulated needs --role backend", refused("--role", "frontend", "--node", "f1", "--emulated", *there))
        self.assertIn("it would be static:FILE", refused("--role", "backend", "--node", "b1", *there, "--cluster", "etcd"))
        self.assertIn("beyond this machine", refused("--role", "frontend", "--node", "f", "--cluster", "static:%s" % outside))


if __name__ == "__main__":
    unittest.main(verbosity=2)
