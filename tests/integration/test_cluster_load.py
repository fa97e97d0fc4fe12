#!/usr/bin/env python3
"""`tutti cluster load` and `unload`: all nodes follow, each one's result is shown, and the exit code says whether all have
done it."""
import json
import pathlib
import sys
import unittest

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "python"))

from cluster_process import Cluster, await_true  # noqa: E402

EXPLICIT = ("--model-control-mode", "explicit")


class ClusterLoadTest(unittest.TestCase):
    def tearDown(self):
        self.cluster.stop()

    def begin(self, *flags, **shape):
        self.cluster = Cluster(**shape)
        self.cluster.add_model("second")
        self.cluster.start_all(*(flags or EXPLICIT))
        return self.cluster

    def change(self, action, model, *more):
        """The exit code, what came of it, and what was said."""
        done = self.cluster.command(action, model, self.cluster.spec, "--json", *more)
        return done.returncode, json.loads(done.stdout) if done.stdout else None, done.stderr

    def states(self, answer):
        return {node["name"]: (node["state"], node["wanted"]) for node in answer["nodes"]}

    def test_all_nodes_follow(self):
        cluster = self.begin(frontends=2, backends=2)
        nodes = ("f1", "f2", "b1", "b2")
        code, answer, said = self.change("unload", "echo")
        self.assertEqual((code, answer["done"], answer["state"]), (0, True, "DONE"), answer)
        self.assertEqual(self.states(answer), {name: ("UNAVAILABLE", False) for name in nodes})
        self.assertEqual(cluster.infer("f2", 1)[0], 503)
        self.assertEqual(cluster.infer("f2", 1, "second")[0], 200)
        code, answer, said = self.change("load", "echo")
        self.assertEqual((code, answer["model"], answer["action"]), (0, "echo", "load"), said)
        self.assertEqual(self.states(answer), {name: ("READY", True) for name in nodes})
        for name in nodes:  # progress
            self.assertRegex(said, "(?m)^%s +READY$" % name)
        self.assertEqual(cluster.infer("f2", 1)[0], 200)
        table = cluster.command("load", "echo", cluster.spec)
        self.assertEqual(table.returncode, 0, table.stderr)
        self.assertRegex(table.stdout, "(?m)^node +role +state +wanted +reason$")
        self.assertRegex(table.stdout, "(?m)^b2 +backend +READY +yes +$")

    def test_what_cannot_be_loaded(self):
        """A model that no repository has, and one that one node cannot load: the exit code is 1, and the reason names the nodes."""
        cluster = self.begin(backends=2)
        code, answer, said = self.change("load", "nothing")
        self.assertEqual((code, answer["done"], answer["state"]), (1, False, "FAILED"), answer)
        self.assertIn("nothing", answer["reason"])
        self.assertIn("tutti cluster: load nothing: failed to load 'nothing'", said)
        self.assertEqual(self.change("unload", "echo")[0], 0)
        profile = cluster.models / "echo" / "profile.pbtxt"
        good = profile.read_text()
        profile.write_text("broken")
        code, answer, said = self.change("load", "echo")
        self.assertEqual((code, answer["state"]), (1, "FAILED"), answer)
        self.assertIn("profile.pbtxt", answer["reason"])
        self.assertNotIn("READY", [state for state, _ in self.states(answer).values()])
        profile.write_text(good)
        self.assertEqual(self.change("load", "echo")[0], 0)

    def test_a_node_that_is_away_follows_later(self):
        cluster = self.begin(backends=2)
        cluster.kill("b2")
        await_true(lambda: cluster.status()["b2"]["state"] == "DOWN", 60, "it is down")
        code, answer, _ = self.change("unload", "second")
        self.assertEqual(code, 0, answer)
        self.assertEqual(self.states(answer)["b2"], ("DOWN", None))
        self.assertEqual(self.states(answer)["b1"], ("UNAVAILABLE", False))

    def test_refused(self):
        """Without a frontend, and when the flags make no sense. Operators need no permission of clients."""
        cluster = self.begin("--model-control-mode", "none")
        self.assertEqual(self.change("unload", "echo")[0], 0)
        self.assertEqual(cluster.infer("f1", 1)[0], 503)
        for words, sentence in ((["load"], "load and unload need MODEL"), (["status", cluster.spec, "echo"], "unexpected argument 'echo'")):
            refused = cluster.command(*words)
            self.assertEqual(refused.returncode, 2)
            self.assertIn(sentence, refused.stderr)
        cluster.kill("f1")
        cluster.processes["f1"].process.wait()
        refused = cluster.command("load", "echo", cluster.spec)
        self.assertEqual(refused.returncode, 1)
        self.assertIn("no frontend takes the command", refused.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
