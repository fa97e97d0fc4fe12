#!/usr/bin/env python3
"""S8: models move between pools of backends of a running cluster, and no request is lost.

No test states a time: what must hold is what the placement and the answers say.
"""
import json
import pathlib
import shutil
import signal
import subprocess
import sys
import threading
import time
import unittest
import urllib.request

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "python"))

from cluster_process import CONFIG, PROGRAM, TIMES, Cluster, await_true  # noqa: E402
from etcd_process import Etcd, find_etcd  # noqa: E402

MODELS = ("echo", "fourth", "second", "third")  # in the order of their names: p1, p2, p1, p2


class LivePlacementTest(unittest.TestCase):
    def setUp(self):
        self.cluster = None

    def tearDown(self):
        if self.cluster:
            self.cluster.stop()

    def begin(self, times=TIMES, copies=(), etcd=None, sizes="", **shape):
        """copies: nodes with repositories of their own; sizes: what each profile says of memory."""
        self.cluster = Cluster(times=times, **shape)
        if etcd:
            self.cluster.spec = "etcd://127.0.0.1:%d/test" % etcd.port
            etcd.put("tutti/test/nodes", self.cluster.file.read_text())
        for name in MODELS[1:]:
            self.cluster.add_model(name)
        for name in MODELS:
            with (self.cluster.models / name / "profile.pbtxt").open("a") as profile:
                profile.write(sizes)
        for name in self.cluster.nodes:
            models = None
            if name in copies:
                models = self.cluster.folder / ("models-" + name)
                shutil.copytree(self.cluster.models, models)
            self.cluster.start(name, models=models)
        for name, role in self.cluster.nodes.items():
            self.assertTrue(self.cluster.processes[name].wait_ready(60), self.cluster.said())
            if role == "frontend":
                self.cluster.await_ready(name)
        await_true(lambda: self.state(1)["usable"] and self.state(0)["usable"], 60, "both pools have devices")
        self.await_models("b1", {"echo", "second"})
        self.await_models("b2", {"fourth", "third"})
        return self.cluster

    def place(self, step, *more):
        """The placement, or the error."""
        result = self.cluster.command("placement", step, "static:%s" % self.cluster.file, "--json", *more)
        return json.loads(result.stdout) if result.returncode == 0 else result.stderr

    def show(self):
        answer = self.place("show")
        self.assertIsInstance(answer, dict, answer)
        return answer

    def state(self, pool):
        return self.show()["pools"][pool]

    def models(self):
        return [pool["models"] for pool in self.show()["pools"]]

    def await_end(self):
        """Until no plan is under way. The next one may be searched."""
        await_true(lambda: self.show()["stage"] in ("NONE", "SEARCHING"), 60, "the plan has ended")
        return self.show()

    def await_models(self, node, wanted):
        """Until the backend has these models loaded, and no others."""

        def look():
            request = urllib.request.Request(
                "http://%s/v2/repository/index" % self.cluster.processes[node].address, b"{}"
            )
            with urllib.request.urlopen(request, timeout=30) as answer:
                return {m["name"] for m in json.loads(answer.read()) if m.get("state") == "READY"} == set(wanted)

        await_true(look, 60, "%s has %s" % (node, wanted))

    def send(self, model, stopping, failures, answers):
        value = 0
        while not stopping.is_set():
            value += 1
            status, answer = self.cluster.infer("f1", value, model)
            if status == 200 and answer["outputs"][0]["data"] == [value, 1, 2, 3]:
                answers.append(value)
            else:
                failures.append((model, value, status, answer))

    # S8: the queue changes its pool when the new one has loaded; then the old one unloads
    def test_models_move_under_load(self):
        self.begin(backends=4, pools=2, schedulers=2)
        self.assertEqual(self.models(), [["echo", "second"], ["fourth", "third"]])
        stopping, failures, answers = threading.Event(), [], []
        threads = [
            threading.Thread(target=self.send, args=(model, stopping, failures, answers)) for model in MODELS * 2
        ]
        for thread in threads:
            thread.start()
        for step in (("plan", "--move", "echo=p2", "--move", "third=p1"), ("undo",), ("undo",)):
            before = len(answers)
            answer = self.place(*step)
            self.assertIsInstance(answer, dict, answer)
            placement = self.await_end()
            self.assertIn("the plan of 2 moves is in force", placement["last"])
            await_true(lambda: len(answers) > before + 50 or failures, 60, "more answers")
        stopping.set()
        for thread in threads:
            thread.join(60)
        self.assertEqual(failures, [], self.cluster.said())
        self.assertEqual(self.models(), [["second", "third"], ["echo", "fourth"]])
        self.assertEqual(self.show()["done"], 3)
        for node, wanted in (("b1", ("second", "third")), ("b2", ("echo", "fourth")), ("b3", ("second", "third"))):
            self.await_models(node, wanted)
        status = self.cluster.status()[self.cluster.primary()]
        self.assertEqual((status["placement"], status["plan"]), (3, "NONE"))
        self.assertIn("the plan of 2 moves is in force", self.cluster.said())

    # S8: a tenth of 50 models moves there and back while devices are busy for 70 % of the time with full batches
    def test_a_tenth_of_many_models_moves_under_load(self):
        names = ["echo"] + ["m%02d" % i for i in range(1, 50)]
        config = "".join(line for line in CONFIG.splitlines(keepends=True) if "label" not in line)
        cluster = self.cluster = Cluster(backends=2, pools=2, devices=1)
        for name in names[1:]:
            cluster.add_model(name)
        for name in names:
            (cluster.models / name / "config.pbtxt").write_text(config)
            (cluster.models / name / "profile.pbtxt").write_text("linear { alpha_ms: 5 beta_ms: 100 }\n")
        cluster.start_all()
        await_true(lambda: self.state(1)["usable"] and self.state(0)["usable"], 60, "both pools have devices")
        rate = 0.7 * 2 * 16 / (0.1 + 16 * 0.005)
        command = [PROGRAM, "load", "http://" + cluster.processes["f1"].address, "--rate", "%.1f" % rate, "--json",
                   "--duration", "3600", "--give-up-ms", "120000", *(w for n in names for w in ("--model", n))]  # fmt: skip
        load = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(lambda: load.poll() is None and load.kill())

        def answered():
            return sum(cluster.status()[name]["requests"] for name in ("b1", "b2"))

        left, right = (pool["models"] for pool in self.show()["pools"])
        self.assertEqual((len(left), len(right)), (25, 25))
        moves = ["%s=p2" % name for name in left[:3]] + ["%s=p1" % name for name in right[:2]]
        for step in (("plan", *(w for move in moves for w in ("--move", move))), ("undo",)):
            before = answered()
            await_true(lambda: answered() > before + 100 or load.poll() is not None, 60, "more answers")
            self.assertIsInstance(self.place(*step), dict)
            self.assertIn("the plan of 5 moves is in force", self.await_end()["last"])
        load.send_signal(signal.SIGINT)
        said, error = load.communicate(timeout=240)
        total = json.loads(said)["total"]
        self.assertGreater(total["ok"], 200, error)
        self.assertEqual(total["ok"] + total["unfinished"], total["arrived"], said + error + cluster.said())
        self.assertEqual([sorted(models) for models in self.models()], [sorted(left), sorted(right)])

    # S8: a plan is dropped as a whole
    def test_plans_are_dropped(self):
        cluster = self.begin(backends=2, pools=2, copies=("b2",))
        before = self.models()
        cluster.kill("b2", signal.SIGSTOP)  # it promises to load, and does not
        self.assertIsInstance(self.place("plan", "--move", "echo=p2"), dict)
        placement = self.show()
        self.assertEqual((placement["stage"], placement["waits_for"]), ("LOADING", "b2"))
        self.assertEqual(placement["moves"], [{"model": "echo", "from": "p1", "to": "p2"}])
        self.assertIn("a plan is under way", self.place("plan", "--move", "echo=p2"))
        text = cluster.command("placement", "show", cluster.spec).stdout
        self.assertIn("plan LOADING, waits for node b2", text)
        self.assertIn("echo: p1 to p2", text)
        self.assertEqual(cluster.infer("f1", 5)[0], 200)
        self.assertIsInstance(self.place("stop"), dict)
        self.assertIn("was dropped: a command stopped it", self.show()["last"])
        self.assertIsInstance(self.place("plan", "--move", "echo=p2"), dict)
        cluster.kill("b2")
        placement = self.await_end()
        self.assertIn("was dropped: node b2 is lost", placement["last"])
        self.assertEqual((placement["done"], placement["dropped"]), (0, 2))
        self.assertIn("no device of pool p2 takes work", self.place("plan", "--move", "echo=p2"))
        cluster.start("b2", models=cluster.folder / "models-b2")
        self.assertTrue(cluster.processes["b2"].wait_ready(60), cluster.said())
        await_true(lambda: self.state(1)["usable"], 60, "b2 is back")
        self.await_models("b2", {"fourth", "third"})
        shutil.rmtree(cluster.folder / "models-b2" / "echo")
        self.assertIsInstance(self.place("plan", "--move", "echo=p2"), dict)
        placement = self.await_end()
        self.assertIn("was dropped: node b2 cannot load model echo", placement["last"])
        self.assertEqual(self.models(), before)
        self.assertEqual(cluster.infer("f1", 6)[0], 200)

    # S8: a plan that its primary does not end leaves the placement as it was
    def test_primary_dies_amid_a_plan(self):
        cluster = self.begin(backends=2, pools=2, schedulers=2)
        primary, before = cluster.primary(), self.models()
        cluster.kill("b2", signal.SIGSTOP)
        self.assertIsInstance(self.place("plan", "--move", "echo=p2"), dict)
        cluster.kill(primary)
        cluster.kill("b2", signal.SIGCONT)
        await_true(lambda: cluster.primary() != primary, 60, "the spare is primary")
        cluster.await_ready("f1")
        self.assertEqual(self.models(), before)
        self.await_models("b2", {"fourth", "third"})
        for model in MODELS:
            status, answer = cluster.infer("f1", 7, model)
            self.assertEqual(status, 200, answer)

    # S8: plans by measured loads, at intervals
    def test_plans_follow_the_load(self):
        cluster = self.begin(times=TIMES + "plan-every-s 1\nplan-moves 1\n", backends=2, pools=2, schedulers=2)
        stopping, failures, answers = threading.Event(), [], []
        threads = [
            threading.Thread(target=self.send, args=(model, stopping, failures, answers))
            for model in ("echo", "second")  # both in p1
        ]
        for thread in threads:
            thread.start()
        await_true(lambda: self.show()["done"] > 0 or failures, 60, "a plan by itself")
        self.await_end()
        balanced = self.models()
        self.assertEqual([sum(name in pool for name in ("echo", "second")) for pool in balanced], [1, 1])
        # What an operator undoes is not planned again, also not by the next primary, until he asks.
        self.assertEqual(self.show()["mode"], "BY_ITSELF")
        self.assertIsInstance(self.place("undo"), dict)
        self.await_end()
        together = self.models()
        self.assertEqual([sum(name in pool for name in ("echo", "second")) for pool in together], [2, 0])
        primary = cluster.primary()
        cluster.kill(primary)
        await_true(lambda: cluster.primary() != primary, 60, "the spare is primary")
        time.sleep(3)  # two looks at the load
        self.assertEqual((self.models(), self.show()["mode"]), (together, "HELD"))
        self.assertIn("no plan is under way", self.place("stop"))
        self.assertIsInstance(self.place("plan"), dict)
        self.assertEqual(self.show()["mode"], "BY_ITSELF")
        await_true(lambda: self.show()["done"] > 0 or failures, 60, "a plan by itself")
        self.await_end()
        self.assertIsInstance(self.place("stop"), dict)  # of those to come
        self.assertEqual(self.show()["mode"], "HELD")
        stopping.set()
        for thread in threads:
            thread.join(60)
        self.assertEqual(failures, [], cluster.said())

    # S8: after an undo that waits for a backend, a plan that is refused does not end the hold
    def test_a_refused_plan_changes_nothing(self):
        cluster = self.begin(times=TIMES + "plan-every-s 3600\n", backends=2, pools=2)
        self.assertIsInstance(self.place("plan", "--move", "echo=p2"), dict)
        self.await_end()
        cluster.kill("b1", signal.SIGSTOP)
        self.assertIsInstance(self.place("undo"), dict)
        self.assertIn("a plan is under way", self.place("plan"))
        held = self.show()
        cluster.kill("b1", signal.SIGCONT)
        self.assertEqual((held["mode"], held["stage"]), ("HELD", "LOADING"))
        self.await_end()
        self.assertEqual(self.models(), [["echo", "second"], ["fourth", "third"]])

    def test_what_is_refused(self):
        cluster = self.begin(backends=2, pools=2, devices=1)
        before = self.models()
        self.assertIn("no plan was made: no request came: there is nothing to balance", self.look_for_a_plan())
        for arguments, said in (
            (("plan", "--move", "none=p2"), "there is no model 'none'"),
            (("plan", "--move", "echo=p9"), "there is no pool 'p9'"),
            (("plan", "--move", "echo"), "'echo' is no move; one is MODEL=POOL"),
            (("plan", "--move", "echo=p1"), "every model lies there already"),
            (("undo",), "every model lies there already"),
            (("stop",), "no plan is under way"),
        ):
            self.assertIn(said, self.place(*arguments))
        self.assertEqual((self.models(), self.show()["version"]), (before, 0))
        for arguments in (("other",), ("stop", cluster.spec, "--move", "echo=p2")):
            self.assertEqual(cluster.command("placement", *arguments).returncode, 2)
        self.assertEqual(cluster.command("status", cluster.spec, "--move", "echo=p2").returncode, 2)

    # S8, eq. 5: the static sum and the largest dynamic memory fit, also while models move
    def test_memory_bounds_plans(self):
        cluster = self.begin(backends=2, pools=2, memory=100, sizes="static_mib: 40 dynamic_mib: 10\n")
        before = self.models()
        said = self.place("plan", "--move", "echo=p2")
        self.assertIn("a device of pool p2 would need 130 MiB while models come before others leave; it has 100", said)
        for value in range(20):  # the load of one pool alone
            self.assertEqual(cluster.infer("f1", value)[0], 200)
        self.assertIn("no plan was made: ", self.look_for_a_plan())
        self.assertEqual((self.models(), self.show()["stage"]), (before, "NONE"))
        for model in MODELS:
            self.assertEqual(cluster.infer("f1", 7, model)[0], 200)

    def restart_schedulers(self):
        """All at once, so that only etcd has the placement."""
        names = [name for name, role in self.cluster.nodes.items() if role == "scheduler"]
        for name in names:
            self.cluster.kill(name)
            self.cluster.processes[name].process.wait()
        for name in names:
            self.cluster.start(name)
        self.cluster.primary()
        self.cluster.await_ready("f1")
        await_true(lambda: self.state(1)["usable"] and self.state(0)["usable"], 60, "both pools have devices")

    # S8: a plan is a version in etcd
    @unittest.skipUnless(find_etcd(), "etcd is not there; scripts/setup.sh --etcd unpacks it")
    def test_etcd_has_the_placement(self):
        etcd = Etcd()
        self.addCleanup(etcd.stop)
        cluster = self.begin(backends=2, pools=2, schedulers=2, etcd=etcd)

        def record():
            return etcd.keys("tutti/test/").get("placement", "")

        self.assertEqual(record(), "")
        self.assertIsInstance(self.place("plan", "--move", "echo=p2"), dict)
        self.assertIn("is in force", self.await_end()["last"])
        await_true(lambda: " done\n" in record(), 60, "etcd has the plan")
        epoch, rest = record().split("\n", 1)
        self.assertEqual(int(epoch), cluster.status()[cluster.primary()]["epoch"])
        self.assertEqual(rest, "1 done\necho\tp2\tp2\nfourth\tp2\tp2\nsecond\tp1\tp1\nthird\tp2\tp2\n")
        after = self.models()
        self.restart_schedulers()
        self.assertEqual((self.models(), self.show()["version"]), (after, 1))
        self.await_models("b2", {"echo", "fourth", "third"})

        etcd.kill(signal.SIGSTOP)  # nothing records the plan, and it can be stopped
        self.assertIsInstance(self.place("plan", "--move", "echo=p1"), dict)
        self.assertEqual(self.show()["stage"], "RECORDING")
        self.assertEqual(cluster.infer("f1", 1)[0], 200)
        self.assertIsInstance(self.place("stop"), dict)
        etcd.kill(signal.SIGCONT)
        await_true(lambda: " begun\n" in record(), 60, "what was under way is recorded, to no effect")

        dealt = [["echo", "second"], ["fourth", "third"]]
        lines = "echo\tp1\tp2\nfourth\tp2\tp2\nsecond\tp1\tp1\nthird\tp2\tp2\n"
        for text, models, said in (
            ("7\n3 begun\n" + lines, dealt, "is in force; a plan was under way and has no effect"),  # half written
            ("7\n3 done\necho", dealt, "the recorded placement has no effect: line 3 has no end"),
            ("7\n3 done\necho\tp7\tp7\nsecond\tp2\tp2\n", [["echo"], ["fourth", "second", "third"]],
             "is in force; pool p7 is gone, model echo lies in p1"),
        ):  # fmt: skip
            etcd.put("tutti/test/placement", text)
            self.restart_schedulers()
            self.assertEqual(self.models(), models)
            self.assertIn(said, cluster.said())
            for model in MODELS:
                await_true(lambda model=model: cluster.infer("f1", 7, model)[0] == 200, 60, "%s is served" % model)

        etcd.put("tutti/test/placement", "%d\n9 begun\n" % (1 << 60) + lines)  # of a primary of later times
        self.assertIsInstance(self.place("plan", "--move", "fourth=p1"), dict)
        self.assertIn("a later primary has recorded a plan", self.await_end()["last"])

    def look_for_a_plan(self):
        self.assertIsInstance(self.place("plan"), dict)
        await_true(lambda: self.show()["last"], 60, "the search has ended")
        return self.show()["last"]


if __name__ == "__main__":
    unittest.main()
