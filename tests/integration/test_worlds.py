#!/usr/bin/env python3
"""One experiment in virtual time, on emulated devices and on real models: the same requests, each ends once; and what
cannot be run is refused with what would be right. Nothing here asserts how long anything takes."""
import csv
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
PROGRAM = os.environ["TUTTI_PROGRAM"]
WORLDS = ("simulated", "emulated", "real")

from needs import need  # noqa: E402
from pages import data_of  # noqa: E402

need("numpy", "onnx")

MLP = """title: "small <1>"
repository: "models"
seed: 5
duration_s: 0.4
device { count: 2 }
model { name: "mlp" slo_ms: 2000 max_batch: 16 }
load { rate: 300 }
policy { name: "deferred" }
"""

LAZY = """repository: "models"
seed: 5
duration_s: 0.4
device { count: 1 }
model { name: "cnn" slo_ms: 2000 }
load { rate: 200 }
policy { name: "lazy" }
"""


CELLS = """repository: "models"
seed: 5
duration_s: 0.4
device { count: 2 }
model { name: "chain64" slo_ms: 5000 length: 9 }
model { name: "seq2seq64" slo_ms: 5000 length: 9 output_length: 8 }
load { rate: 300 }
policy { name: "cellular" }
"""

TREES = """repository: "models"
seed: 5
duration_s: 0.4
device { count: 1 }
model { name: "tree64" slo_ms: 5000 tree: RANDOM length: 9 }
load { rate: 200 }
policy { name: "merged" option { key: "max_requests" value: "1" } }
"""


def run(*arguments, timeout=120, cwd=None):
    return subprocess.run(
        [PROGRAM, *map(str, arguments)], capture_output=True, text=True, timeout=timeout, cwd=cwd
    )


def rows_of(path):
    return list(csv.DictReader(path.read_text().splitlines()))


class Worlds(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.models = pathlib.Path(cls.folder.name, "models")
        subprocess.run(
            [sys.executable, ROOT / "scripts" / "make_models.py", "--out", cls.models]
            + ["--only", "mlp", "cnn", "identity_any_length", "chain64", "seq2seq64", "tree64"],
            check=True,
            capture_output=True,
        )
        (cls.models / "cnn" / "tutti.pbtxt").write_text("stages { count: 3 }\n")
        for model in ("mlp", "cnn", "chain64", "seq2seq64", "tree64"):
            done = run("profile", cls.models / model, "--runs", "3", "--max-batch", "16")
            assert done.returncode == 0, done.stderr
            # As measured, but for the times: a machine that stood still just then must not overload what is simulated.
            profile = cls.models / model / "profile.pbtxt"
            profile.write_text(re.sub(r"latency_ns: \d+", "latency_ns: 300000", profile.read_text()))

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def write(self, text):
        path = pathlib.Path(self.folder.name, self.id().split(".")[-1] + ".pbtxt")
        path.write_text(text)
        return path

    def refused(self, text, *says, arguments=()):
        done = run("experiment", self.write(text), *arguments)
        self.assertEqual(done.returncode, 2, done.stdout + done.stderr)
        self.assertEqual(done.stdout, "")
        self.assertEqual(len(done.stderr.strip().splitlines()), 1, done.stderr)
        for words in says:
            self.assertIn(words, done.stderr)

    def outcomes(self, path, world):
        file = pathlib.Path(self.folder.name, world + ".csv")
        tasks = pathlib.Path(self.folder.name, world + ".tasks.csv")
        done = run("experiment", path, "--world", world, "--json", "--check", "--outcomes", file)
        self.assertEqual(done.returncode, 0, done.stderr)
        report = json.loads(done.stdout)
        self.assertEqual(report["world"], world)
        done = run("experiment", path, "--world", world, "--tasks", tasks)
        self.assertEqual(done.returncode, 0, done.stderr)
        starts = [int(row["start_ns"]) for row in rows_of(tasks)]
        self.assertEqual(starts, sorted(starts))
        return report, rows_of(file)

    def assert_same_requests(self, text):
        path = self.write(text)
        seen = []
        for world in WORLDS:
            report, rows = self.outcomes(path, world)
            self.assertEqual([int(row["request"]) for row in rows], list(range(len(rows))))
            self.assertEqual(len(rows), report["total"]["arrived"])
            self.assertEqual({row["outcome"] for row in rows} - {"ok", "late"}, set(), world)
            self.assertEqual("live" in report, world != "simulated")
            seen.append([(row["model"], row["arrived_ns"], row["deadline_ns"]) for row in rows])
        self.assertGreater(len(seen[0]), 20)
        self.assertEqual(seen[0], seen[1])
        self.assertEqual(seen[0], seen[2])

    def test_whole_graphs(self):
        self.assert_same_requests(MLP)

    def test_stages_under_lazy(self):
        self.assert_same_requests(LAZY)

    def test_side_by_side(self):
        page = pathlib.Path(self.folder.name, "worlds.html")
        done = run(
            "experiment", self.write(MLP), "--worlds", ",".join(WORLDS), "--json", "--html", page
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        report = json.loads(done.stdout)
        self.assertFalse(report["interrupted"])
        self.assertEqual([world["world"] for world in report["worlds"]], list(WORLDS))
        arrived = {world["total"]["arrived"] for world in report["worlds"]}
        self.assertEqual(len(arrived), 1)
        live = report["worlds"][2]["live"]
        self.assertGreater(live["cores"], 0)
        self.assertTrue(live["machine"] and live["date"])
        self.assertGreater(live["peak_memory_mib"], 1)
        self.assertLess(live["peak_memory_mib"], 100000)
        self.assertEqual(live["generator_lag_ms"]["count"], arrived.pop())
        self.assertIn("doubtful", live)
        data = data_of(page)
        self.assertIn("small <1>", data["title"])
        self.assertNotIn("small <1>", page.read_text())
        runs = data["body"]["runs"]
        self.assertEqual([drawn["report"]["world"] for drawn in runs], list(WORLDS))
        for drawn in runs:  # two pictures of each: its distribution, its timeline
            self.assertEqual(len(drawn["curves"]["latency_ms"]), len(drawn["shares"]))
            self.assertGreater(len(drawn["timeline"]["bars"]), 0)
        table = run("experiment", self.write(MLP), "--worlds", "simulated,real").stdout
        self.assertRegex(table, r"simulated +real\n")
        self.assertNotIn("emulated", table)

    def test_inputs_of_varying_length(self):
        text = MLP.replace('"mlp"', '"identity_any_length"').replace("max_batch: 16", "max_batch: 4")
        text = text.replace("deferred", "serial")
        profile = self.models / "identity_any_length" / "profile.pbtxt"
        profile.write_text("linear { alpha_ms: 0.1 beta_ms: 0.1 }\nmax_batch: 4\n")
        self.refused(text, "vary in length", "lengths", arguments=("--world", "real"))
        lengths = pathlib.Path(self.folder.name, "lengths.csv")
        lengths.write_text(
            "percentile,input\n" + "".join("%d,%d\n" % (p, 1 + p // 4) for p in range(101))
        )
        text = text.replace("slo_ms", 'lengths { file: "lengths.csv" input: "input" } slo_ms')
        self.assert_same_requests(text)

    def test_cells(self):
        """Chains and sequence to sequence models of cells, by cells and by sequences."""
        for policy in ("lazy", "cellular", "padded"):
            with self.subTest(policy):
                self.assert_same_requests(CELLS.replace("cellular", policy))
        path = self.write(CELLS)
        done = run("experiment", path, "--world", "real", "--rate", "3000", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        report = json.loads(done.stdout)
        self.assertGreater(report["total"]["batch"]["mean"], 1)
        self.assertIn("lengths of outputs", report["live"]["left_out"])

    def test_blocks_of_several_steps(self):
        """GNMT, whose encoder and decoder are of nine and ten steps per word: by sequences and by cells."""
        path = ROOT / "experiments" / "lazybatching" / "gnmt.pbtxt"
        for policy in ("lazy", "cellular"):
            seen = []
            for world in ("simulated", "emulated"):
                file = pathlib.Path(self.folder.name, "gnmt.csv")
                done = run(
                    *("experiment", path, "--world", world, "--policy", policy, "--check", "--outcomes", file),
                    *("--rate", "100", "--set", "duration_s=0.5", "--set", "warm_up_s=0", "--json"),
                )
                self.assertEqual(done.returncode, 0, done.stderr)
                rows = rows_of(file)
                self.assertEqual({row["outcome"] for row in rows} - {"ok", "late"}, set(), world)
                seen.append([(row["arrived_ns"], row["deadline_ns"]) for row in rows])
                self.assertFalse(json.loads(done.stdout).get("live", {}).get("left_out"))
            self.assertGreater(len(seen[0]), 20)
            self.assertEqual(seen[0], seen[1])

    def courses(self, path, world):
        """Of each request the levels in which it is computed: which step, and how many cells of it at once."""
        tasks = pathlib.Path(self.folder.name, world + ".tasks.csv")
        done = run("experiment", path, "--world", world, "--check", "--tasks", tasks)
        self.assertEqual(done.returncode, 0, done.stderr)
        found = {}
        for row in rows_of(tasks):
            members = row["requests"].split()
            for request in set(members):
                found.setdefault(request, []).append((row["step"], members.count(request)))
        return found

    def test_trees(self):
        """The same trees in all worlds: drawn, and as a file of arrivals writes them down."""
        self.assert_same_requests(re.sub("policy.*", 'policy { name: "cellular" }', TREES))
        drawn = [self.courses(self.write(TREES), world) for world in WORLDS]
        self.assertGreater(len({str(course) for course in drawn[0].values()}), 5)
        self.assertEqual(drawn[0], drawn[1])
        self.assertEqual(drawn[0], drawn[2])
        trees = ("(() ())", "((a b) (c (d e)))", "(((a b) c) d)", "word", "")
        rows = "".join(f"{20000000 * i},tree64,{tree},7\n" for i, tree in enumerate(trees))
        pathlib.Path(self.folder.name, "trees.csv").write_text("at_ns,model,tree,input_length\n" + rows)
        path = self.write(TREES.replace("rate: 200", 'file: "trees.csv"').replace("duration_s: 0.4\n", ""))
        written = [self.courses(path, world) for world in WORLDS]
        self.assertEqual(written[0]["2"], [("0", 4), ("1", 1), ("1", 1), ("1", 1)])
        self.assertEqual(written[0]["1"], [("0", 5), ("1", 2), ("1", 1), ("1", 1)])
        self.assertEqual(written[0], written[1])
        self.assertEqual(written[0], written[2])

    def test_cells_that_are_refused(self):
        self.refused(TREES.replace("tree: RANDOM", ""), "tree: RANDOM or tree: BALANCED")
        self.refused(TREES.replace("tree64", "chain64"), "takes no trees")
        self.refused(TREES.replace("length: 9", ""), "say how long its inputs are")
        self.refused(TREES.replace("length: 9", "length: 600"), "1199 elements", "1023", arguments=("--world", "real"))
        for world in WORLDS:
            lazy = re.sub("policy.*", 'policy { name: "lazy" }', TREES)
            self.refused(lazy, "cellular", "lazy", arguments=("--world", world))
        self.refused(CELLS.replace("length: 9", "max_batch: 8 length: 9"), "leave it out")
        self.refused(CELLS.replace("output_length: 8", ""), "say how long its outputs are")
        self.refused(CELLS.replace("cellular", "diversity"), "cellular and lazy", arguments=("--world", "real"))

    def test_pictures_alone(self):
        picture = pathlib.Path(self.folder.name, "picture.svg")
        path = self.write(LAZY)
        done = run("experiment", path, "--world", "real", "--svg", picture, "--draw", "0,300")
        self.assertEqual(done.returncode, 0, done.stderr)
        text = picture.read_text()
        self.assertTrue(text.startswith("<svg xmlns"))
        self.assertGreater(text.count("<rect"), 10)

    def test_what_makes_no_sense(self):
        real = MLP + "world: REAL\n"
        self.refused(real.replace('repository: "models"\n', ""), ":5:", "or the experiment a repository")
        self.refused(real.replace('"models"', '"nowhere"'), ":6:", "nowhere")
        self.refused(real.replace('"mlp"', '"nobody"'), ":6:", "nobody")
        (self.models / "mlp" / "profile.pbtxt").rename(self.models / "kept")
        try:
            self.refused(real, ":6:", "no profile", "tutti profile")
            self.refused(real, "tutti profile", arguments=("--world", "simulated"))
        finally:
            (self.models / "kept").rename(self.models / "mlp" / "profile.pbtxt")
        self.refused(real.replace("max_batch: 16", "max_batch: 100"), ":6:", "at most 64 rows")
        self.refused(
            real.replace("slo_ms", "profile { linear { beta_ms: 1 } } slo_ms"),
            "profile of its own",
        )
        self.refused(real + "network { control_us: 5 }\n", ":10:", "simulated only")
        self.refused(MLP, "simulated, emulated", arguments=("--world", "dreamt"))
        self.refused(MLP, "'dreamt'", "simulated", arguments=("--worlds", "real,dreamt"))
        self.refused(MLP, "named twice", arguments=("--worlds", "real,real"))
        self.refused(MLP, "--tasks", arguments=("--worlds", "real", "--tasks", "/tmp/t"))

    def test_a_stale_cut_is_told(self):
        settings = self.models / "cnn" / "tutti.pbtxt"
        text = settings.read_text()
        settings.write_text("stages { count: 2 }\n")
        try:
            self.refused(LAZY, "tutti profile", arguments=("--world", "real"))
        finally:
            settings.write_text(text)

    def test_interrupted(self):
        for world in ("emulated", "real"):
            path = self.write(MLP.replace("duration_s: 0.4", "duration_s: 60"))
            process = subprocess.Popen(
                [PROGRAM, "experiment", path, "--world", world, "--json"],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            time.sleep(4)
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=60)
            self.assertEqual(process.returncode, 130, err)
            report = json.loads(out)
            self.assertTrue(report["interrupted"])
            self.assertLess(report["window_s"], 59)

    def test_compared_one_after_the_other(self):
        text = MLP + (
            'world: REAL\nsweep { parameter: "rate" value: [ "100", "200" ] }\n'
            'contender { name: "serial" set: "policy=serial" }\n'
            'contender { name: "deferred" set: "policy=deferred" }\n'
        )
        done = run("compare", self.write(text), "--json", "--workers", "4")
        self.assertEqual(done.returncode, 0, done.stderr)
        points = json.loads(done.stdout)["points"]
        self.assertEqual(len(points), 4)
        for point in points:
            self.assertEqual(point["world"], "real")
            self.assertGreater(point["total"]["arrived"], 10)

    def test_a_thousand_executors(self):
        """S11: 500 requests are computed at once, each on an executor of its own."""
        path = self.write(
            """world: EMULATED
requests: 600
device { count: 1000 }
model { name: "m" slo_ms: 20000 max_batch: 1 profile { linear { beta_ms: 500 } } }
load { rate: 1000 process: UNIFORM }
policy { name: "serial" }
"""
        )
        done = run("experiment", path, "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        report = json.loads(done.stdout)
        self.assertEqual(report["total"]["arrived"], 600)
        self.assertEqual(report["total"]["ok"], 600)
        self.assertGreater(report["devices_used"], 256)
        self.refused(path.read_text().replace("1000 }", "4097 }", 1), ":3:", "at most 4096")

    def test_an_overloaded_generator_is_not_believed(self):
        text = """world: EMULATED
requests: 4000
device { count: 1 }
model { name: "m" slo_ms: 10000 max_batch: 64 profile { linear { beta_ms: 0.001 } } }
load { rate: 1 }
sweep { parameter: "rate" value: [ "5000000" ] }
contender { name: "window 0" set: "policy=window" set: "option.max_delay=0" }
contender { name: "window 1 ms" set: "policy=window" set: "option.max_delay=1ms" }
"""
        done = run("compare", self.write(text), "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        report = json.loads(done.stdout)
        for point in report["points"]:
            self.assertEqual(point["total"]["arrived"], 4000)
            self.assertTrue(point["live"]["doubtful"])
        for figure in report["best"].values():
            self.assertEqual(figure["5000000"], [])
        done = run("compare", self.write(text))
        self.assertIn("the load generator fell behind", done.stdout)
        self.assertIn("emulated, on ", done.stdout)


if __name__ == "__main__":
    unittest.main()
