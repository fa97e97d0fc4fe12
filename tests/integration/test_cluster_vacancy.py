#!/usr/bin/env python3
"""S10: requests to a model whose last backend has gone wait for the next one, for a while.

No test states a time: what must hold is what the frontends say, and that every request is answered once.
"""
import contextlib
import json
import pathlib
import sys
import unittest
import urllib.request

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "python"))

from cluster_process import PROGRAM, TIMES, Clients, Cluster, ClusterTestCase, await_true  # noqa: E402
from needs import needing  # noqa: E402
from plain_client import is_sanitized  # noqa: E402
from server_process import free_port  # noqa: E402

SHORT = TIMES.replace("vacancy-ms 60000", "vacancy-ms 300")
EXPLICIT = ("--model-control-mode", "explicit")
SHIM = pathlib.Path(PROGRAM).resolve().parent / "tests" / "faults" / "late_datagrams.so"


class LateCluster(Cluster):
    """Its scheduler stands still for longer than a beat whenever it reads the answers to one."""

    def command_of(self, name, command):
        late = ["env", "LD_PRELOAD=%s" % SHIM, "LATE_DATAGRAMS_MS=60"] if name == "s1" else []
        return late + command


class Vacancy(ClusterTestCase):
    def drain(self, *names):
        for name in names:
            answer = self.cluster.command("drain", name, self.cluster.spec)
            self.assertEqual(answer.returncode, 0, answer.stderr)

    def first_line(self, line):
        with line.makefile("rb") as answer:
            first = answer.readline()
        line.close()
        return first

    def index(self, model="echo"):
        request = urllib.request.Request("http://%s/v2/repository/index" % self.cluster.processes["f1"].address, b"{}")
        with urllib.request.urlopen(request, timeout=30) as answer:
            answer = json.loads(answer.read())
        return next((entry["state"], entry.get("reason", "")) for entry in answer if entry["name"] == model)


class VacancyTest(Vacancy):
    def slow_down(self, cluster):
        """A run takes longer than what follows."""
        profile = cluster.models / "echo" / "profile.pbtxt"
        profile.write_text(profile.read_text().replace("2000", "8000"))

    def check_drained(self, *more):
        """What waits is answered 503, what runs is answered, and a backend that comes makes the frontend ready."""
        cluster = self.cluster = Cluster(backends=2, devices=1, slow=True, times=SHORT)
        self.slow_down(cluster)
        cluster.start_all(*more)
        await_true(lambda: cluster.status()["s1"]["devices"] == 2, 60, "both backends take batches")
        running = [cluster.begin_infer("f1", value) for value in range(2)]
        await_true(lambda: cluster.status()["s1"]["busy"] == 2, 60, "they run")
        waiting = cluster.begin_infer("f1", 2)
        await_true(lambda: cluster.status()["s1"]["requests"] == 3, 60, "it waits")
        self.drain("b1")
        self.assertEqual(cluster.get("f1", "/v2/health/ready")[0], 200)
        self.drain("b2")
        self.assertIn(b" 503 ", self.first_line(waiting))
        for line in running:
            self.assertIn(b" 200 ", self.first_line(line))
        cluster.await_ready("f1", 503)
        self.assertEqual(cluster.status()["f1"]["state"], "WAITING")
        status, answer = cluster.infer("f1", 3)
        self.assertEqual(status, 503, answer)
        self.assertIn("no backend of the cluster takes", answer)
        self.assertIn("tutti cluster status", answer)
        state, reason = self.index()
        self.assertEqual(state, "UNAVAILABLE")
        self.assertIn("no backend", reason)
        self.assertEqual(cluster.get("f1", "/v2/models/echo/ready")[0], 400)
        self.assertIn('tutti_model_ready{model="echo",version="1"} 0', cluster.get("f1", "/metrics")[1].decode())
        cluster.processes["b1"].stop(60)
        cluster.start("b1", *more)
        cluster.await_ready("f1")
        self.assertEqual(self.index(), ("READY", ""))
        self.assertEqual(cluster.get("f1", "/v2/models/echo/ready")[0], 200)
        self.assertEqual(cluster.infer("f1", 4)[0], 200)
        node = cluster.status()["f1"]
        self.assertEqual(node["accepted"], node["answered"] + node["failed"], node)

    def test_all_backends_are_drained(self):
        self.check_drained()

    def test_all_backends_are_drained_in_mode_explicit(self):
        self.check_drained(*EXPLICIT)

    def test_requests_wait_for_the_next_backend(self):
        cluster = self.begin(backends=2)
        cluster.processes["b2"].stop(60)
        clients = Clients(cluster, ["f1"])
        self.addCleanup(clients.stop)
        clients.await_more()
        self.drain("b1")
        await_true(lambda: cluster.status()["s1"]["requests"] > 0 and cluster.status()["s1"]["devices"] == 0, 60, "they wait")
        self.assertEqual(cluster.get("f1", "/v2/health/ready")[0], 200)
        self.assertEqual(self.index()[0], "READY")
        cluster.start("b2")
        clients.await_more()
        clients.stop()
        self.assertEqual(clients.failures, [], cluster.said())

    @unittest.skipIf(is_sanitized(), "a sanitizer must be the first library of a process")
    def test_an_end_within_a_turn(self):
        """The wait ends while the scheduler reads answers, which are later than the beginning of its turn."""
        cluster = self.cluster = LateCluster(devices=1, slow=True, times=SHORT)
        self.slow_down(cluster)
        cluster.start_all()
        running = cluster.begin_infer("f1", 0)
        await_true(lambda: cluster.status()["s1"]["busy"] == 1, 60, "it runs")
        waiting = cluster.begin_infer("f1", 1)
        await_true(lambda: cluster.status()["s1"]["requests"] == 2, 60, "it waits")
        self.drain("b1")
        self.assertIn(b" 503 ", self.first_line(waiting))
        self.assertIn(b" 200 ", self.first_line(running))
        self.assertEqual(cluster.status()["s1"]["state"], "PRIMARY")

    def test_one_pool_of_two(self):
        """The other pool's model is served on, and the frontend is ready for it."""
        cluster = self.cluster = Cluster(backends=2, pools=2, times=SHORT)
        cluster.add_model("second")
        cluster.start_all()
        await_true(lambda: cluster.status()["s1"]["devices"] == 4, 60, "both backends take batches")
        for model in ("echo", "second"):
            self.assertEqual(cluster.infer("f1", 1, model)[0], 200)
        self.drain("b1")
        states = lambda: [self.index(model)[0] for model in ("echo", "second")]  # noqa: E731
        await_true(lambda: sorted(states()) == ["READY", "UNAVAILABLE"], 60, "the model of one pool is not ready")
        left = ("echo", "second")[states().index("READY")]
        gone = ("echo", "second")[states().index("UNAVAILABLE")]
        self.assertEqual((cluster.infer("f1", 1, left)[0], cluster.infer("f1", 1, gone)[0]), (200, 503))
        self.assertEqual(cluster.get("f1", "/v2/health/ready")[0], 200)
        cluster.processes["b1"].stop(60)
        cluster.start("b1")
        await_true(lambda: states() == ["READY", "READY"], 60, "both models are ready")
        self.assertEqual(cluster.infer("f1", 1, gone)[0], 200)

    def test_a_takeover_meanwhile(self):
        """The next primary knows what is not there."""
        cluster = self.begin(schedulers=2, times=SHORT)
        self.drain("b1")
        cluster.await_ready("f1", 503)
        primary = cluster.primary()
        cluster.kill(primary)
        await_true(lambda: cluster.primary() not in (None, primary), 60, "another primary")
        self.assertEqual(cluster.infer("f1", 1)[0], 503)
        self.assertEqual(cluster.get("f1", "/v2/health/ready")[0], 503)
        cluster.processes["b1"].stop(60)
        cluster.start("b1")
        cluster.await_ready("f1")
        self.assertEqual(cluster.infer("f1", 1)[0], 200)


@needing("tritonclient", "grpc")
class GrpcVacancyTest(Vacancy):
    def test_over_grpc(self):
        import numpy
        import tritonclient.grpc as library

        cluster = self.cluster = Cluster(times=SHORT)
        port = free_port()
        for name in cluster.nodes:
            cluster.start(name, grpc=port if name == "f1" else 0)
        self.assertTrue(cluster.processes["f1"].wait_ready(60), cluster.said())
        cluster.await_ready("f1")
        inputs = []
        for name, kind, array in (("x", "FP32", numpy.zeros((1, 4), numpy.float32)),
                                  ("label", "BYTES", numpy.array([[b"a"]], object))):  # fmt: skip
            inputs.append(library.InferInput(name, array.shape, kind))
            inputs[-1].set_data_from_numpy(array)
        with contextlib.closing(library.InferenceServerClient("127.0.0.1:%d" % port)) as client:
            self.assertTrue(client.is_server_ready() and client.is_model_ready("echo"))
            client.infer("echo", inputs)
            self.drain("b1")
            await_true(lambda: not client.is_server_ready(), 60, "it is not ready")
            self.assertFalse(client.is_model_ready("echo"))
            (entry,) = client.get_model_repository_index().models
            self.assertEqual(entry.state, "UNAVAILABLE")
            with self.assertRaises(library.InferenceServerException) as caught:
                client.infer("echo", inputs)
            self.assertIn("UNAVAILABLE", caught.exception.status())
            self.assertIn("no backend of the cluster takes", caught.exception.message())


if __name__ == "__main__":
    unittest.main(verbosity=2)
