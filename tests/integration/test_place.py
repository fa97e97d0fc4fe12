#!/usr/bin/env python3
"""tutti place: the answer, its files, the program for a solver, and what it says about problems that are wrong."""
# plain build only: minutes of simulation, whose unit tests run under sanitizers
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "python"))
from needs import needing  # noqa: E402

PROGRAM = os.environ["TUTTI_PROGRAM"]
LARGE = ROOT / "experiments" / "place" / "800x20.pbtxt"
NEXT = ROOT / "experiments" / "place" / "800x20-next.pbtxt"
SMALL = """sub_clusters: 2
seed: 7
model { name: "a" rate_per_s: 10 static_mib: 40 dynamic_mib: 5 }
model { name: "b" rate_per_s: 20 static_mib: 30 dynamic_mib: 5 }
model { name: "c" rate_per_s: 30 static_mib: 20 dynamic_mib: 5 }
model { name: "d" rate_per_s: 40 static_mib: 10 dynamic_mib: 5 }
"""


class Place(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def write(self, text, name="problem.pbtxt"):
        path = self.folder / name
        path.write_text(text)
        return path

    def place(self, *arguments, code=0):
        former = self.write("the placement in force", "in-force.pbtxt") if code else None
        arguments += ("--out", former) if code else ()
        done = subprocess.run([PROGRAM, "place", *map(str, arguments)], capture_output=True, text=True, timeout=240)
        self.assertEqual(done.returncode, code, done.stderr)
        if code:
            self.assertEqual((former.read_text(), done.stdout), ("the placement in force", ""))
        return done

    def answer(self, *arguments):
        return json.loads(self.place(*arguments, "--json").stdout)

    def refused(self, text, *arguments, previous=None):
        path = self.write(text)
        if previous is not None:
            arguments += ("--previous", self.write(previous, "previous.pbtxt"))
        return self.place(path, *arguments, code=2).stderr.replace(str(self.folder) + "/", "")

    def test_a_small_problem(self):
        answer = self.answer(self.write(SMALL))
        self.assertEqual(answer["objective"], 0)
        where = {m["model"]: m["sub_cluster"] for m in answer["placement"]}
        self.assertEqual(where["a"], where["d"])
        self.assertEqual(where["b"], where["c"])
        self.assertNotEqual(where["a"], where["b"])
        for key in ("imbalance_rate", "imbalance_memory", "lower_bound", "moves", "cost", "seconds"):
            self.assertIn(key, answer)
        self.assertEqual((answer["moves"], answer["cost"], answer["imbalance_rate"]), (0, 0, 0))

    def test_the_shipped_problem(self):
        first = self.answer(LARGE, "--out", self.folder / "placement.pbtxt")
        self.assertEqual(len(first["placement"]), 800)
        self.assertLess(first["objective"], 0.001)
        self.assertLess(first["imbalance_rate"], 0.001)
        self.assertLess(first["imbalance_memory"], 0.001)
        sums = [0.0] * 20
        rates = {}
        for line in LARGE.read_text().splitlines():
            if line.startswith("model"):
                fields = line.split()
                rates[fields[fields.index("name:") + 1].strip('"')] = float(fields[fields.index("rate_per_s:") + 1])
        for entry in first["placement"]:
            sums[entry["sub_cluster"]] += rates[entry["model"]]
        mean = sum(sums) / len(sums)
        self.assertAlmostEqual((max(sums) - min(sums)) / mean, first["imbalance_rate"], places=9)
        # Other rates, and eight models may move.
        page = self.folder / "page.html"
        then = self.answer(NEXT, "--previous", self.folder / "placement.pbtxt", "--html", page)
        self.assertLessEqual(then["moves"], 8)
        self.assertEqual(then["cost"], 2 * then["moves"])
        self.assertLess(then["objective"], then["before"]["objective"] / 2)
        self.assertLessEqual(then["objective"], 0.1199)
        self.assertGreater(then["lower_bound"], 0.95 * then["objective"])
        self.assertLessEqual(then["lower_bound"], then["objective"])
        moved = [m for m in then["placement"] if m["previous"] != m["sub_cluster"]]
        self.assertEqual(len(moved), then["moves"])
        self.assertIn("Placement", page.read_text())

    def test_the_same_answer_again(self):
        again = [self.answer(LARGE, "--seconds", 0.05)["placement"] for _ in range(2)]
        self.assertEqual(again[0], again[1])

    def test_people_read_it(self):
        before = "".join('placement { model: "%s" sub_cluster: 0 }\n' % name for name in ("a", "b", "c", "gone"))
        said = self.place(
            self.write(SMALL + "max_cost: 5\n"), "--previous", self.write(before, "previous.pbtxt")).stdout
        self.assertIn("4 models on 2 sub-clusters", said)
        self.assertIn("The limit is 5.", said)
        self.assertIn("The previous placement names 1 model that is gone.", said)
        self.assertIn("no placement has less than 0.\n", said)
        said = self.place(LARGE, "--seconds", "0.1").stdout
        self.assertIn("no lower bound but 0 is known", said)

    def test_profiles_give_memory(self):
        profile = "linear { beta_ms: 1 }\nstatic_mib: 40\ndynamic_mib: 7\n"
        (self.folder / "models" / "a").mkdir(parents=True)
        self.write(profile, "models/a/profile.pbtxt")
        given = 'rate_per_s: 10 static_mib: 40 dynamic_mib: 5'
        self.assertIn(given, SMALL)
        for stated, dynamic in (("", 7), ("dynamic_mib: 6", 6)):
            problem = SMALL.replace(given, 'rate_per_s: 10 profile: "models/a/profile.pbtxt" ' + stated)
            answer = self.answer(self.write(problem))
            self.assertEqual([c["static_mib"] for c in answer["sub_clusters"]], [50, 50])
            self.assertEqual(max(c["dynamic_mib"] for c in answer["sub_clusters"]), dynamic)
        self.write(profile.replace("static_mib: 40", ""), "models/a/profile.pbtxt")
        self.assertIn("problem.pbtxt:3: models/a/profile.pbtxt does not state static_mib; measure it",
                      self.refused(problem))
        self.assertIn("problem.pbtxt:3: ", self.refused(problem.replace("models/a/", "models/b/")))

    def test_wrong_files(self):
        self.assertIn("problem.pbtxt:3: rate_per_s is nan; it must be 0 ..",
                      self.refused(SMALL.replace("rate_per_s: 10", "rate_per_s: nan")))
        self.assertIn("rate_per_s is -1; it must be 0 ..", self.refused(SMALL.replace("rate_per_s: 10", "rate_per_s: -1")))
        self.assertIn("sub_clusters is 0; it must be 1 ..", self.refused(SMALL.replace("sub_clusters: 2", "sub_clusters: 0")))
        self.assertIn("there are 0 models", self.refused("sub_clusters: 2"))
        self.assertIn("model 'a' is given twice", self.refused(SMALL.replace('"b"', '"a"')))
        self.assertIn("did you mean", self.refused(SMALL.replace("static_mib", "statik_mib")))
        self.assertIn("model 'a' fits nowhere", self.refused(SMALL + "max_memory_mib: 44\n"))
        self.assertIn("the models have 100 requests per second; 2 sub-clusters of 45 hold less",
                      self.refused(SMALL + "max_rate_per_s: 45\n"))
        self.assertIn("max_cost is nan", self.refused(SMALL + "max_cost: nan\n"))
        self.assertIn("loading the models that lie nowhere costs 3; max_cost is 1",
                      self.refused(SMALL + "max_cost: 1\n", previous='placement { model: "a" sub_cluster: 0 }'))
        twice = 'placement { model: "a" sub_cluster: 0 }\n' * 2
        self.assertIn("previous.pbtxt:2: model 'a' is placed twice", self.refused(SMALL, previous=twice))
        self.assertIn("sub_cluster is -3", self.refused(SMALL, previous='placement { model: "a" sub_cluster: -3 }'))
        missing = self.place(self.folder / "none.pbtxt", code=2).stderr
        self.assertIn("none.pbtxt", missing)

    def test_models_without_requests(self):
        answer = self.answer(self.write(re.sub(r"rate_per_s: \d+", "rate_per_s: 0", SMALL)))
        self.assertEqual((answer["imbalance_rate"], answer["objective"]), (0, 0))
        self.assertEqual(len({m["sub_cluster"] for m in answer["placement"]}), 2)
        answer = self.answer(self.write(re.sub(r"(rate_per_s|static_mib): \d+", r"\1: 0", SMALL)))
        self.assertEqual((answer["imbalance_memory"], answer["objective"], len(answer["placement"])), (0, 0, 4))

    def test_none_is_found(self):
        # Sums fit, the models do not.
        text = "sub_clusters: 2\nmax_rate_per_s: 51\n" + "".join(
            'model { name: "%d" rate_per_s: 34 static_mib: 1 }\n' % i for i in range(3))
        said = self.place(self.write(text), "--seconds", 0.05, code=1).stderr
        self.assertIn("no assignment was found that keeps the limits", said)
        self.assertIn("has 68 requests per second; 51 are allowed", said)

    def test_interrupted(self):
        process = subprocess.Popen([PROGRAM, "place", str(LARGE), "--seconds", "3600", "--json"],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        time.sleep(1)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=120)
        self.assertEqual(process.returncode, 130, err)
        answer = json.loads(out)
        self.assertTrue(answer["interrupted"])
        self.assertEqual(len(answer["placement"]), 800)

    @needing("highspy")
    def test_a_solver_agrees(self):
        import highspy

        for seed in range(1, 11):
            with self.subTest(seed=seed):
                problem, program = self.folder / "p.pbtxt", self.folder / "p.lp"
                arguments = ["--models", 10, "--sub-clusters", 3, "--seed", seed]
                previous = []
                if seed % 2 == 0:
                    arguments += ["--move", 0.2]
                    names = [line.split('"')[1] for line in self.generated(problem, arguments)]
                    text = "".join('placement { model: "%s" sub_cluster: %d }\n' % (name, i % 3)
                                   for i, name in enumerate(names))
                    previous = ["--previous", self.write(text, "previous.pbtxt")]
                else:
                    self.generated(problem, arguments)
                done = subprocess.run([PROGRAM, "place", problem, *previous, "--write-lp", program, "--json"],
                                      capture_output=True, text=True, timeout=120)
                solver = highspy.Highs()
                solver.setOptionValue("output_flag", False)
                self.assertEqual(solver.readModel(str(program)), highspy.HighsStatus.kOk)
                solver.run()
                if solver.getModelStatus() == highspy.HighsModelStatus.kInfeasible:
                    self.assertNotEqual(done.returncode, 0)
                    continue
                answer = json.loads(done.stdout)
                best = solver.getInfo().objective_function_value
                self.assertAlmostEqual(answer["objective"], best, places=5)
                self.assertLessEqual(answer["lower_bound"], best + 1e-9)

    def generated(self, problem, arguments):
        generator = ROOT / "scripts" / "make_placement.py"
        subprocess.run([sys.executable, "-B", str(generator), *map(str, arguments), "--out", str(problem)], check=True)
        return [line for line in problem.read_text().splitlines() if line.startswith("model")]


if __name__ == "__main__":
    unittest.main()
