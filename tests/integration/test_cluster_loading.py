#!/usr/bin/env python3
"""S7: models that clients load and unload at a frontend come and go at all nodes of a cluster.

No test states a time: what must hold is that a command is answered when it is true everywhere.
"""
import json
import pathlib
import shutil
import sys
import threading
import unittest
import urllib.error
import urllib.request

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "python"))

from cluster_process import Cluster, await_true  # noqa: E402

EXPLICIT = ("--model-control-mode", "explicit")


class ClusterModelsTest(unittest.TestCase):
    def tearDown(self):
        self.cluster.stop()

    def post(self, name, path, body=None):
        request = urllib.request.Request(
            "http://%s%s" % (self.cluster.processes[name].address, path), json.dumps(body or {}).encode()
        )
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def change(self, name, model, action):
        return self.post(name, "/v2/repository/models/%s/%s" % (model, action))

    def state(self, name, model="echo"):
        index = json.loads(self.post(name, "/v2/repository/index")[1])
        return [entry.get("state", "") for entry in index if entry["name"] == model]

    def begin(self, **shape):
        self.cluster = Cluster(**shape)
        self.cluster.add_model("second")
        self.cluster.start_all(*EXPLICIT)
        return self.cluster

    # S7: one command, all nodes
    def test_all_nodes_follow(self):
        cluster = self.begin(frontends=2, backends=2)
        nodes = ("f1", "f2", "b1", "b2")
        self.assertEqual(self.change("f1", "echo", "unload")[0], 200)
        for name in nodes:
            self.assertEqual(self.state(name), ["UNAVAILABLE"], name)
            self.assertEqual(self.state(name, "second"), ["READY"], name)
        for name in ("f1", "f2"):
            status, answer = cluster.infer(name, 1)
            self.assertIn(status, (400, 404, 503), answer)
            self.assertEqual(cluster.infer(name, 1, "second")[0], 200)
        self.assertEqual(self.change("f2", "echo", "load")[0], 200)
        for name in nodes:
            self.assertEqual(self.state(name), ["READY"], name)
        for name in ("f1", "f2"):
            self.assertEqual(cluster.infer(name, 7)[1]["outputs"][0]["data"], [7, 1, 2, 3])
        self.assertEqual(self.change("f2", "echo", "load")[0], 200)  # again: nothing has changed

    def test_nodes_that_return_follow(self):
        cluster = self.begin(schedulers=2, backends=2)
        cluster.kill("b1")
        await_true(lambda: cluster.status()[cluster.primary()]["devices"] == 2, 60, "b1 is gone")
        self.assertEqual(self.change("f1", "echo", "unload")[0], 200)
        cluster.start("b1", *EXPLICIT)  # loads all models when it starts
        self.assertTrue(cluster.processes["b1"].wait_ready(60))
        await_true(lambda: self.state("b1") == ["UNAVAILABLE"], 60, "b1 unloads it")
        primary = cluster.primary()
        cluster.kill(primary)
        await_true(lambda: cluster.primary() != primary, 60, "another primary")
        cluster.await_ready("f1")
        self.assertEqual(self.state("f1"), ["UNAVAILABLE"])
        await_true(lambda: self.change("f1", "echo", "load")[0] == 200, 60, "the new primary loads it")
        self.assertEqual(self.state("b1") + self.state("b2"), ["READY", "READY"])
        self.assertEqual(cluster.infer("f1", 7)[0], 200)

    def test_errors_name_the_node(self):
        cluster = self.cluster = Cluster(backends=2)
        cluster.add_model("second")
        others = cluster.folder / "others"
        shutil.copytree(cluster.models, others)
        for name in cluster.nodes:
            cluster.start(name, *EXPLICIT, models=others if name == "b2" else None)
        self.assertTrue(all(cluster.processes[name].wait_ready(60) for name in cluster.nodes), cluster.said())
        cluster.await_ready("f1")
        await_true(lambda: cluster.status()["s1"]["devices"] == 4, 60, "both backends are there")
        self.assertEqual(self.change("f1", "echo", "unload")[0], 200)
        config = others / "echo" / "config.pbtxt"
        right = config.read_text()
        config.write_text("this is no configuration")
        status, answer = self.change("f1", "echo", "load")
        self.assertNotEqual(status, 200)
        self.assertIn("b2: ", answer)
        self.assertNotIn("b1: ", answer)
        self.assertEqual(self.state("f1"), ["UNAVAILABLE"])
        await_true(lambda: self.state("b1") == ["UNAVAILABLE"], 60, "b1 unloads it again")
        config.write_text(right.replace("dims: 4", "dims: 5"))
        status, answer = self.change("f1", "echo", "load")
        self.assertIn("b2: model 'echo' has other versions, inputs, outputs or limits", answer)
        config.write_text(right)
        self.assertEqual(self.change("f1", "echo", "load")[0], 200)
        for value in range(8):
            self.assertEqual(cluster.infer("f1", value)[0], 200)
        for name in ("s1", "b1"):
            status, answer = self.change(name, "echo", "unload")
            self.assertNotEqual(status, 200)
            self.assertIn("at its frontends", answer)
        status, answer = self.change("f1", "none", "load")
        self.assertNotEqual(status, 200)
        self.assertIn("s1: ", answer)  # its repository does not have it
        status, answer = self.post("f1", "/v2/repository/models/echo/load", {"parameters": {"config": "{}"}})
        self.assertNotEqual(status, 200)
        self.assertIn("takes none from a client", answer)
        cluster.kill("s1")
        cluster.await_ready("f1", 503)
        status, answer = self.change("f1", "echo", "unload")
        self.assertEqual(status, 503, answer)
        self.assertIn("no scheduler of the cluster is known", answer)

    def test_an_unload_waits_for_requests(self):
        cluster = self.begin(slow=True)
        line = cluster.begin_infer("f1", 5)
        await_true(lambda: cluster.status()["b1"]["requests"] == 1, 60, "it runs")
        done = []
        thread = threading.Thread(target=lambda: done.append(self.change("f1", "echo", "unload")))
        thread.start()
        with line.makefile("rb") as answer:
            self.assertIn(b"200 OK", answer.readline())
        thread.join(60)
        line.close()
        self.assertEqual([status for status, _ in done], [200])
        self.assertEqual(self.state("b1"), ["UNAVAILABLE"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
