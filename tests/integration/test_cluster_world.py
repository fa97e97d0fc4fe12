#!/usr/bin/env python3
"""S7, S11: one experiment in virtual time, on emulated devices, and on a cluster of processes: the same requests, each ends
once, the same keys; what a cluster cannot do is refused; all processes end. Nothing here asserts how long anything takes."""
import csv
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "python"))

from cluster_process import await_true  # noqa: E402

PROGRAM = os.environ["TUTTI_PROGRAM"]
WORLDS = ("simulated", "emulated", "cluster")
ENDINGS = ("ok", "late", "failed", "cancelled")

SMALL = """title: "small"
seed: 5
duration_s: 0.5
device { count: 3 }
model { name: "a" slo_ms: 2000 max_batch: 16 profile { linear { alpha_ms: 0.5 beta_ms: 3 } } }
model { name: "b" slo_ms: 3000 max_batch: 4 rows: 2 profile { linear { alpha_ms: 1 beta_ms: 2 } } }
model { name: "c" slo_ms: 3000 max_batch: 4 length: 20 profile {
  point { batch: 1 length: 16 latency_ns: 1000000 } point { batch: 4 length: 16 latency_ns: 2000000 }
  point { batch: 1 length: 32 latency_ns: 2000000 } point { batch: 4 length: 32 latency_ns: 4000000 } } }
load { rate: 300 }
policy { name: "deferred" }
cluster { frontends: 2 backends: 2 }
"""
INSIDE = """seed: 6
duration_s: 0.5
device { count: 2 executors: 2 }
inside { executors: 2 policy { name: "diversity" option { key: "stretch" value: "off" } } }
model { name: "a" slo_ms: 60000 max_batch: 8 step { profile { linear { alpha_ms: 0.5 beta_ms: 3 } } }
  step { profile { linear { alpha_ms: 1 beta_ms: 2 } } } }
load { rate: 200 }
policy { name: "deferred" }
"""
ENDLESS = SMALL.replace("duration_s: 0.5", "duration_s: 1000")


def shape_of(value):
    """The keys of an object and of all that are in it."""
    if isinstance(value, dict):
        return {key: shape_of(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [shape_of(inner) for inner in value[:1]]
    return None


class ClusterWorld(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="tutti-world-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.environment = dict(os.environ, TMPDIR=folder.name)

    def write(self, text):
        path = self.folder / "file.pbtxt"
        path.write_text(text)
        return path

    def run_it(self, text, *arguments):
        command = [PROGRAM, "experiment", str(self.write(text)), *map(str, arguments)]
        return subprocess.run(command, capture_output=True, text=True, timeout=300, env=self.environment)

    def nodes(self):
        """The processes of the cluster by the name of their node."""
        found = {}
        for path in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
            try:
                words = path.read_bytes().decode(errors="replace").split("\0")
            except OSError:
                continue  # it has ended meanwhile
            if any(word.startswith("static:" + str(self.folder)) for word in words):
                found[words[words.index("--node") + 1]] = int(path.parent.name)
        return found

    def assert_nothing_is_left(self):
        await_true(lambda: self.nodes() == {}, 60, "all processes have ended")
        self.assertEqual([path.name for path in self.folder.iterdir() if path.is_dir()], [])

    def account(self, report):
        for part in [report["total"]] + report["models"]:
            ended = sum(part[key] for key in ENDINGS) + part["dropped"]
            self.assertEqual(part["arrived"], ended, part)
        self.assertEqual(report["total"]["arrived"], sum(model["arrived"] for model in report["models"]))

    def test_the_same_requests_in_each_world(self):
        seen = []
        for world in WORLDS:
            outcomes, tasks = self.folder / (world + ".csv"), self.folder / (world + ".tasks.csv")
            done = self.run_it(SMALL, "--world", world, "--json", "--outcomes", outcomes, "--tasks", tasks)
            self.assertEqual(done.returncode, 0, done.stderr)
            report = json.loads(done.stdout)
            self.assertEqual((report["world"], report["interrupted"]), (world, False))
            self.account(report)
            rows = list(csv.DictReader(outcomes.read_text().splitlines()))
            self.assertEqual([int(row["request"]) for row in rows], list(range(report["total"]["arrived"])))
            batches = list(csv.DictReader(tasks.read_text().splitlines()))
            done = [row for row in rows if row["outcome"] in ("ok", "late")]
            self.assertGreaterEqual(sum(len(row["requests"].split()) for row in batches), len(done))
            self.assertLessEqual({int(row["executor"]) for row in batches}, {0, 1, 2})
            starts = [int(row["start_ns"]) for row in batches]
            self.assertEqual(starts, sorted(starts))
            seen.append(([(row["model"], row["arrived_ns"], row["deadline_ns"]) for row in rows], report))
        requests, reports = [first for first, _ in seen], [second for _, second in seen]
        self.assertGreater(len(requests[0]), 50)
        self.assertEqual(requests[0], requests[1])
        self.assertEqual(requests[0], requests[2])
        self.assertEqual(shape_of(reports[1]), shape_of(reports[2]))
        self.assertEqual(reports[2]["live"]["first_failure"], "")
        self.assertGreater(reports[2]["total"]["ok"], 0)
        self.assert_nothing_is_left()

    def test_devices_with_a_policy_inside(self):
        """Composition: the same requests over devices that run stages, in virtual time and on backends with streams."""
        seen = []
        for world in "simulated", "cluster":
            outcomes, tasks = self.folder / (world + ".csv"), self.folder / (world + ".tasks.csv")
            done = self.run_it(INSIDE, "--world", world, "--json", "--outcomes", outcomes, "--tasks", tasks)
            self.assertEqual(done.returncode, 0, done.stderr)
            report = json.loads(done.stdout)
            self.account(report)
            self.assertEqual((report["total"]["failed"], report["total"]["dropped"]), (0, 0))
            rows = list(csv.DictReader(outcomes.read_text().splitlines()))
            batches = list(csv.DictReader(tasks.read_text().splitlines()))
            self.assertEqual(sum(len(row["requests"].split()) for row in batches), len(rows))
            self.assertLessEqual({int(row["executor"]) for row in batches}, {0, 1, 2, 3})
            seen.append([(row["model"], row["arrived_ns"], row["deadline_ns"]) for row in rows])
        self.assertGreater(len(seen[0]), 50)
        self.assertEqual(seen[0], seen[1])
        self.assert_nothing_is_left()
        self.refused(INSIDE.replace('"diversity" option { key: "stretch" value: "off" }', '"window"'), "policy window runs whole batches")
        self.refused(INSIDE.replace('name: "diversity" ', ""), "inside a device a policy is named")
        self.refused(INSIDE.replace("count: 2 executors: 2 }", "executors: 2 } device { executors: 1 }"), "granted equally many batches")
        self.refused(INSIDE + "cluster { backends: 1 }", "have a backend each")
        done = self.run_it(INSIDE, "--world", "emulated")
        self.assertIn("leave `inside` out to run in the emulated world", done.stderr)

    def test_side_by_side(self):
        done = self.run_it(SMALL, "--worlds", ",".join(WORLDS), "--html", self.folder / "page.html")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"simulated +emulated +cluster")
        self.assertIn("a scheduler, 2 frontends and 2 backends with 3 devices serve", done.stderr)
        self.assertIn("cluster", (self.folder / "page.html").read_text())

    def test_clients_that_leave_and_deadlines_that_cannot_be_met(self):
        """Arrivals of a file: some are cancelled, some have no time, and all are accounted for."""
        lines = ["at_ns,model,deadline_ns,cancel_at_ns"]
        for i in range(120):
            at = i * 2000000
            deadline = at + (1100000 if i % 3 == 0 else 2000000000)
            lines.append("%d,a,%d,%s" % (at, deadline, at + 500000 if i % 4 == 1 else ""))
        arrivals = self.folder / "arrivals.csv"
        arrivals.write_text("\n".join(lines) + "\n")
        done = self.run_it(SMALL, "--world", "cluster", "--arrivals", arrivals, "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        report = json.loads(done.stdout)
        self.account(report)
        self.assertEqual(report["total"]["arrived"], 120)
        self.assertGreater(report["total"]["dropped"], 0)
        self.assertGreater(report["total"]["cancelled"], 0)
        self.assertGreater(report["total"]["ok"], 0)
        self.assertEqual(report["total"]["failed"], 0, report["live"]["first_failure"])

    def test_overload_waits_in_the_cluster(self):
        """Requests that cannot be served are dropped there at their deadlines, as in the other worlds: none waits in the client,
        whose waiting no scheduler knows of."""
        text = """seed: 5 duration_s: 1 device { count: 2 } load { rate: 3500 } policy { name: "deferred" }
model { name: "a" slo_ms: 2500 max_batch: 4 profile { linear { alpha_ms: 1 beta_ms: 10 } } }"""
        done = self.run_it(text, "--world", "cluster", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        report = json.loads(done.stdout)
        self.account(report)
        self.assertEqual(report["total"]["failed"], 0, report["live"]["first_failure"])
        self.assertGreater(report["total"]["dropped"], report["total"]["late"])

    def test_goodput(self):
        text = SMALL.replace("slo_ms: 2000", "slo_ms: 200").replace("3000", "300") + "goodput { precision: 0.9 bad_rate: 0.5 }\n"
        done = self.run_it(text, "--world", "cluster", "--goodput", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        report = json.loads(done.stdout)
        self.assertGreater(report["goodput_per_s"], 0)
        self.assertGreater(report["bad_at_per_s"], report["goodput_per_s"])
        self.assert_nothing_is_left()

    def refused(self, text, *says, arguments=()):
        done = self.run_it(text, "--world", "cluster", *arguments)
        self.assertEqual((done.returncode, done.stdout), (2, ""), done.stderr)
        for words in says:
            self.assertIn(words, done.stderr)
        self.assertEqual(len(done.stderr.strip().splitlines()), 1, done.stderr)
        self.assertEqual(self.nodes(), {})

    def test_what_a_cluster_cannot_do(self):
        def changed(old, new):
            self.assertIn(old, SMALL)
            return SMALL.replace(old, new)

        def with_model(more):
            return changed("max_batch: 16", "max_batch: 16 " + more)

        self.refused(changed('"deferred"', '"lazy"'), "file.pbtxt:", "policy lazy", "--policy deferred")
        self.refused(changed('"deferred"', '"deferred" option { key: "split" value: "on" }'), "with options")
        self.refused(SMALL + "depth: 3\n", "depth is 3")
        self.refused(SMALL + "jitter: 0.1\n", "no jitter")
        self.refused(SMALL + "learn: true\n", "learns delays of messages only")
        self.refused(changed("count: 3", "count: 3 executors: 2"), "one executor")
        self.refused(with_model("late: SERVE"), "model 'a' has a rule for late requests")
        self.refused(with_model("window_ms: 3"), "settings of its own")
        self.refused(with_model("input_bytes: 3"), "has copies")
        self.refused(changed("slo_ms: 2000", "slo_ms: 0.5"), "leaves nothing", "reply_ms")
        self.refused(changed("backends: 2", "backends: 2 reply_ms: -1"), "reply_ms is -1; it must be > 0")
        self.refused(changed("backends: 2", "backends: 4"), "backends is 4", "number of devices, 3")
        self.refused(changed("frontends: 2", "frontends: 99"), "frontends is 99")
        self.refused(SMALL + "network { data_us_per_row: 1 }\n", "network")
        self.refused(SMALL, "--check", arguments=["--check"])
        self.refused(SMALL, "--trace", arguments=["--trace", self.folder / "trace.json"])
        self.refused(changed('"a"', '"a/b"'), "'a/b'")

    def begin(self):
        running = subprocess.Popen(
            [PROGRAM, "experiment", str(self.write(ENDLESS)), "--world", "cluster", "--json"],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=self.environment)  # fmt: skip
        self.addCleanup(running.kill)
        await_true(lambda: len(self.nodes()) == 5, 60, "all processes have started")
        return running

    def await_load(self, running):
        """Until the cluster serves, as the program says."""
        line = running.stderr.readline()
        self.assertIn("serve", line)

    def test_a_signal_ends_everything(self):
        """Ctrl-C, what `timeout` or a supervisor sends, and the end of the terminal."""
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            running = self.begin()
            self.await_load(running)
            running.send_signal(number)
            said, errors = running.communicate(timeout=120)
            self.assertEqual(running.returncode, 130, errors)
            report = json.loads(said)
            self.assertTrue(report["interrupted"])
            self.account(report)
            self.assert_nothing_is_left()

    def test_ctrl_c_while_processes_start(self):
        running = self.begin()
        running.send_signal(signal.SIGINT)
        running.communicate(timeout=120)
        self.assertEqual(running.returncode, 130)
        self.assert_nothing_is_left()

    def test_a_process_that_dies_is_named(self):
        for node, ends in (("b2", signal.SIGKILL), ("s1", signal.SIGTERM)):
            running = self.begin()
            self.await_load(running)
            os.kill(self.nodes()[node], ends)
            said, errors = running.communicate(timeout=120)
            self.assertEqual((running.returncode, said), (1, ""), errors)
            how = "by signal 9" if ends == signal.SIGKILL else "with exit code 0"
            self.assertIn("node %s has ended %s; it said: " % (node, how), errors)
            self.assertRegex(errors, r"it said: .*\S")
            self.assert_nothing_is_left()

    def test_a_folder_that_cannot_be_written(self):
        self.environment["TMPDIR"] = str(self.folder / "nowhere")
        done = self.run_it(SMALL, "--world", "cluster")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("nowhere", done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
