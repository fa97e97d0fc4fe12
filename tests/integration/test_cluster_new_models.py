#!/usr/bin/env python3
"""S7: models that come to a cluster that runs, and nodes that do not have the same models.

No test states a time: what must hold is what is served, where, and what an error names.
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

from cluster_process import Clients, Cluster, await_true  # noqa: E402

EXPLICIT = ("--model-control-mode", "explicit")


class ClusterNewModelsTest(unittest.TestCase):
    def tearDown(self):
        self.cluster.stop()

    def post(self, name, path, body=None):
        request = urllib.request.Request(
            "http://%s%s" % (self.cluster.processes[name].address, path), json.dumps(body or {}).encode()
        )
        try:
            with urllib.request.urlopen(request, timeout=120) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def change(self, name, model, action):
        return self.post(name, "/v2/repository/models/%s/%s" % (model, action))

    def state(self, name, model):
        index = json.loads(self.post(name, "/v2/repository/index")[1])
        return [entry.get("state", "") for entry in index if entry["name"] == model]

    def folder(self, name, *models):
        """A repository of its own for a node."""
        folder = self.cluster.folder / name
        for model in models:
            self.cluster.add_model(model, folder)
        return folder

    def start(self, repositories):
        """Each node with its own repository."""
        for name in self.cluster.nodes:
            self.cluster.start(name, *EXPLICIT, models=repositories.get(name))
        for name in self.cluster.nodes:
            self.assertTrue(self.cluster.processes[name].wait_ready(60), self.cluster.said())
        self.cluster.await_ready("f1")
        backends = [name for name, role in self.cluster.nodes.items() if role == "backend"]
        await_true(
            lambda: self.cluster.status()["s1"]["devices"] == 2 * len(backends), 60, "all backends are there"
        )

    def answers(self, model, count, frontend="f1"):
        return [self.cluster.infer(frontend, value, model)[0] for value in range(count)]

    def together(self, models, count):
        """So many requests to each, under way at once; all are answered."""
        statuses = []
        threads = [
            threading.Thread(target=lambda v=value, m=model: statuses.append(self.cluster.infer("f1", v, m)[0]))
            for value in range(count)
            for model in models
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(statuses, [200] * (count * len(models)))

    def requests(self, name):
        return self.cluster.status()[name]["requests"]

    # S7: a new folder in the repositories, one command, all nodes; it outlives the primary
    def test_a_new_model_comes(self):
        cluster = self.cluster = Cluster(schedulers=2, frontends=2, backends=2)
        cluster.start_all(*EXPLICIT)
        status, answer = self.change("f1", "late", "load")  # it is nowhere yet
        self.assertNotEqual(status, 200)
        self.assertIn("%s: " % cluster.primary(), answer)
        cluster.add_model("late")
        clients = Clients(cluster, ["f1", "f2"])
        self.addCleanup(clients.stop)
        clients.await_more()
        status, answer = self.change("f1", "late", "load")
        self.assertEqual(status, 200, answer)
        for name in ("f1", "f2", "b1", "b2"):
            self.assertEqual(self.state(name, "late"), ["READY"], name)
        for name in ("f1", "f2"):
            self.assertEqual(self.answers("late", 4, name), [200] * 4)
        primary = cluster.primary()
        cluster.kill(primary)
        await_true(lambda: cluster.primary() != primary, 60, "another primary")
        cluster.await_ready("f1")
        cluster.await_ready("f2")
        for name in ("f1", "f2"):
            self.assertEqual(self.answers("late", 4, name), [200] * 4)
        await_true(lambda: self.change("f2", "late", "unload")[0] == 200, 60, "it is unloaded")
        for name in ("f1", "f2", "b1", "b2"):
            self.assertEqual(self.state(name, "late"), ["UNAVAILABLE"], name)
        self.assertEqual(self.change("f2", "late", "load")[0], 200)
        self.assertEqual(self.answers("late", 4), [200] * 4)
        clients.await_more()
        clients.stop()
        self.assertEqual(clients.failures, [], cluster.said())

    def test_errors_name_the_node(self):
        cluster = self.cluster = Cluster(backends=2)
        others = self.folder("others", "echo")
        self.start({"b2": others})
        status, answer = self.change("f1", "none", "load")
        self.assertNotEqual(status, 200)
        self.assertIn("s1: ", answer)
        cluster.add_model("late")
        status, answer = self.change("f1", "late", "load")  # b2 does not have it
        self.assertNotEqual(status, 200)
        self.assertIn("b2: ", answer)
        self.assertNotIn("b1: ", answer)
        await_true(lambda: self.state("b1", "late") == ["UNAVAILABLE"], 60, "b1 unloads it again")
        cluster.add_model("late", others)
        config = others / "late" / "config.pbtxt"
        right = config.read_text()
        config.write_text(right.replace("dims: 4", "dims: 5"))
        status, answer = self.change("f1", "late", "load")
        self.assertNotEqual(status, 200)
        self.assertIn("b2: model 'late' has other versions, inputs, outputs or limits than at node s1", answer)
        config.write_text(right)
        status, answer = self.change("f1", "late", "load")
        self.assertEqual(status, 200, answer)
        self.assertEqual(self.answers("late", 8), [200] * 8)
        large = cluster.models / "large"
        cluster.add_model("large")
        large.joinpath("config.pbtxt").write_text(right.replace("size: 16", "size: 1000"))
        status, answer = self.change("f1", "large", "load")
        self.assertNotEqual(status, 200)
        self.assertIn("batches of 1000 rows", answer)
        self.assertEqual(self.answers("echo", 4), [200] * 4)

    # S7: a node is used for the models that it has
    def test_each_backend_has_its_own_models(self):
        cluster = self.cluster = Cluster(backends=2)
        cluster.add_model("second")
        self.start({"b1": self.folder("of-b1", "echo"), "b2": self.folder("of-b2", "second", "third")})
        self.assertEqual(self.answers("echo", 10), [200] * 10)
        self.assertEqual((self.requests("b1"), self.requests("b2")), (10, 0))
        self.assertEqual(self.answers("second", 10), [200] * 10)
        self.assertEqual((self.requests("b1"), self.requests("b2")), (10, 10))
        self.together(("echo", "second"), 40)
        self.assertEqual((self.requests("b1"), self.requests("b2")), (50, 50))
        cluster.kill("b2")
        await_true(lambda: cluster.status()["s1"]["devices"] == 2, 60, "b2 is gone")
        await_true(lambda: self.state("f1", "second") == ["UNAVAILABLE"], 60, "no backend has it")
        status, answer = cluster.infer("f1", 1, "second")
        self.assertEqual(status, 503, answer)
        self.assertIn("'second'", answer)
        self.assertEqual(self.answers("echo", 4), [200] * 4)
        cluster.start("b2", *EXPLICIT, models=cluster.folder / "of-b2")
        await_true(lambda: self.state("f1", "second") == ["READY"], 60, "b2 has it again")
        self.assertEqual(self.answers("second", 4), [200] * 4)

    # S7: as soon as the index says so, whatever the command's client has heard
    def test_a_model_that_is_ready_is_served(self):
        cluster = self.cluster = Cluster()
        cluster.start_all(*EXPLICIT)
        for _ in range(20):
            self.assertEqual(self.change("f1", "echo", "unload")[0], 200)
            load = threading.Thread(target=self.change, args=("f1", "echo", "load"))
            load.start()
            while self.state("f1", "echo") != ["READY"]:
                pass  # at once
            status, answer = cluster.infer("f1", 1)
            load.join()
            self.assertEqual(status, 200, answer)

    # S7: other files of a model that is unloaded are another model, for all nodes
    def test_a_model_changes(self):
        cluster = self.cluster = Cluster(schedulers=2, backends=2)
        cluster.start_all(*EXPLICIT)
        config = cluster.models / "echo" / "config.pbtxt"
        right = config.read_text()
        for output in ("z", "y"):
            config.write_text(right.replace('"y"', '"%s"' % output))
            status, answer = self.change("f1", "echo", "load")
            self.assertNotEqual(status, 200)
            self.assertIn("unload it, then load it", answer)
            self.assertEqual(self.change("f1", "echo", "unload")[0], 200)
            self.assertEqual(self.change("f1", "echo", "load")[0], 200)
            status, answer = cluster.infer("f1", 5)
            self.assertEqual((status, answer["outputs"][0]["name"]), (200, output))
            self.assertEqual([self.state(name, "echo") for name in ("f1", "b1", "b2")], [["READY"]] * 3)

    # S7: two nodes disagree about one model
    def test_a_disagreement_is_about_one_model(self):
        cluster = self.cluster = Cluster(backends=2)
        cluster.add_model("second")
        others = cluster.folder / "others"
        shutil.copytree(cluster.models, others)
        config = others / "echo" / "config.pbtxt"
        config.write_text(config.read_text().replace("dims: 4", "dims: 5"))
        self.start({"b2": others})
        said = lambda name: "\n".join(cluster.processes[name].lines)  # noqa: E731
        await_true(lambda: "model 'echo' of node b2 has other versions" in said("s1"), 60, "s1 names the node")
        await_true(lambda: "that of node s1" in said("s1"), 60, "and itself")
        await_true(lambda: self.state("b2", "echo") == ["UNAVAILABLE"], 60, "b2 does not serve it")
        self.assertEqual(self.answers("echo", 20), [200] * 20)
        self.assertEqual(self.requests("b2"), 0)
        self.assertEqual(self.state("b2", "second"), ["READY"])

        def is_used():  # by requests that come together
            self.together(("second",), 8)
            return self.requests("b2") > 0

        await_true(is_used, 60, "b2 is used")

    # S10: chaos amid a load; the command is answered, and requests to other models do not notice
    def test_a_backend_dies_while_a_model_comes(self):
        cluster = self.cluster = Cluster(backends=2)
        cluster.start_all(*EXPLICIT)
        clients = Clients(cluster, ["f1"])
        self.addCleanup(clients.stop)
        for turn in range(3):
            clients.await_more()
            model = "late%d" % turn
            cluster.add_model(model)
            done = []
            thread = threading.Thread(target=lambda m=model: done.append(self.change("f1", m, "load")))
            thread.start()
            cluster.kill("b2")
            thread.join(120)
            self.assertEqual(len(done), 1)
            status, answer = done[0]
            self.assertEqual(status, 200, answer)  # the other backend has it
            self.assertEqual(self.answers(model, 4), [200] * 4)
            cluster.start("b2", *EXPLICIT)
            self.assertTrue(cluster.processes["b2"].wait_ready(60))
            await_true(lambda: cluster.status()["s1"]["devices"] == 4, 60, "b2 is back")
        clients.stop()
        self.assertEqual(clients.failures, [], cluster.said())

    def test_the_primary_dies_while_a_model_comes(self):
        cluster = self.cluster = Cluster(schedulers=2, backends=2)
        cluster.start_all(*EXPLICIT)
        clients = Clients(cluster, ["f1"])
        self.addCleanup(clients.stop)
        for turn in range(3):
            clients.await_more()
            model = "late%d" % turn
            cluster.add_model(model)
            primary = cluster.primary()
            done = []
            thread = threading.Thread(target=lambda m=model: done.append(self.change("f1", m, "load")))
            thread.start()
            cluster.kill(primary)
            thread.join(120)
            self.assertEqual(len(done), 1)
            self.assertIn(done[0][0], (200, 503), done[0][1])
            cluster.start(primary, *EXPLICIT)
            self.assertTrue(cluster.processes[primary].wait_ready(60))
            cluster.await_ready("f1")
            await_true(lambda: self.change("f1", model, "load")[0] == 200, 60, "the new primary loads it")
            self.assertEqual([self.state(name, model) for name in ("f1", "b1", "b2")], [["READY"]] * 3)
            self.assertEqual(self.answers(model, 4), [200] * 4)
        clients.stop()
        self.assertEqual(clients.failures, [], cluster.said())


if __name__ == "__main__":
    unittest.main(verbosity=2)
