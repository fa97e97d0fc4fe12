#!/usr/bin/env python3
"""`tutti serve --record` under load, and `tutti replay` of what it wrote: whole, cut, damaged, short of disk."""
import json
import pathlib
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import unittest

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "python"))

from needs import need  # noqa: E402
from pages import data_of  # noqa: E402
from plain_client import PROGRAM, Server, ask, get, load, make_two_models  # noqa: E402
from recordings import replay  # noqa: E402

need("onnx")


class Replay(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        cls.models = make_two_models(cls.folder)
        cls.recording = cls.folder / "whole.rec"
        server = Server(cls.models, "--record", cls.recording)
        cls.codes = load(server.address, ("mlp", "quick"), 8, 60)
        cls.exit_code = server.end(signal.SIGTERM)
        cls.said = server.said()

    def test_the_server_served(self):
        self.assertEqual(self.exit_code, 0, self.said)
        self.assertEqual(len(self.codes), 8 * 60)
        self.assertGreater(self.codes.count(200), 8)
        self.assertEqual(set(self.codes) - {200, 503, 504, 408}, set(), self.said)

    def test_identical_decisions(self):
        answer = replay(self.recording)
        self.assertEqual(answer.returncode, 0, answer.stderr)
        self.assertEqual(answer.stderr, "")
        self.assertEqual(len(answer.stdout.splitlines()), 2)
        for line in answer.stdout.splitlines():
            self.assertIn("all identical", line)

    def test_the_figures_are_what_clients_saw(self):
        answer = replay(self.recording, "--json")
        self.assertEqual(answer.returncode, 0, answer.stderr)
        report = json.loads(answer.stdout)
        self.assertTrue(report["identical"] and report["complete"])
        totals = [domain["recorded"]["total"] for domain in report["domains"]]
        arrived = sum(total["arrived"] for total in totals)
        served = sum(total["ok"] + total["late"] for total in totals)
        # Clients that vanish may do so before their request is there, or be answered in vain.
        self.assertGreaterEqual(served, self.codes.count(200))
        self.assertTrue(len(self.codes) <= arrived <= len(self.codes) + 40, arrived)
        names = sorted(m["name"] for d in report["domains"] for m in d["recorded"]["models"])
        self.assertEqual(names, ["mlp", "quick"])
        for domain in report["domains"]:
            self.assertEqual(domain["recorded"]["world"], "recorded")

    def test_another_policy(self):
        option = "max_delay=2ms"
        answer = replay(self.recording, "--policy", "window", "--policy-option", option, "--json")
        self.assertEqual(answer.returncode, 0, answer.stderr)
        for domain in json.loads(answer.stdout)["domains"]:
            simulated, recorded = domain["simulated"], domain["recorded"]
            self.assertEqual(simulated["policy"], "window")
            self.assertEqual(simulated["world"], "simulated")
            self.assertEqual(simulated["total"]["arrived"], recorded["total"]["arrived"])
            self.assertGreater(simulated["total"]["ok"], 0)
            same = domain["simulated_recorded"]
            self.assertEqual((same["policy"], same["world"]), (recorded["policy"], "simulated"))
            self.assertEqual(same["total"]["arrived"], recorded["total"]["arrived"])
        answer = replay(self.recording, "--domain", 0, "--policy", "window", "--policy-option", option)
        recorded = json.loads(replay(self.recording, "--json").stdout)["domains"][0]["policy"]
        worlds, policies = (line.split() for line in answer.stdout.splitlines()[2:4])
        self.assertEqual(worlds, ["recorded", "simulated", "simulated"])
        self.assertEqual(policies, ["model", recorded, recorded, "window"])

    def test_the_table_and_the_files_of_one_domain(self):
        files = {name: self.folder / name for name in ("tasks", "outcomes", "html")}
        flags = [word for name, path in files.items() for word in ("--" + name, path)]
        answer = replay(self.recording, "--domain", 0, "--policy", "recorded", *flags)
        self.assertEqual(answer.returncode, 0, answer.stderr)
        self.assertEqual(answer.stdout.splitlines()[2].split(), ["recorded", "simulated"])
        self.assertEqual(
            files["tasks"].read_text().splitlines()[0],
            "start_ns,end_ns,executor,model,step,requests",
        )
        self.assertGreater(len(files["outcomes"].read_text().splitlines()), 100)
        recorded, simulated = data_of(files["html"])["body"]["runs"]
        self.assertEqual((recorded["report"]["world"], simulated["report"]["world"]), ("recorded", "simulated"))
        for run in (recorded, simulated):
            self.assertEqual(run["timeline"]["seen"], run["report"]["total"]["batch"]["executions"])
            self.assertTrue(all(bar[5] >= bar[4] >= 0 and bar[7] for bar in run["timeline"]["bars"]))
        answer = replay(self.recording, "--policy", "recorded", *flags)
        self.assertEqual(answer.returncode, 2)
        self.assertIn("--domain", answer.stderr)

    def assert_refused(self, *arguments, says):
        answer = replay(*arguments)
        self.assertEqual(answer.returncode, 2, answer.stderr)
        self.assertEqual(answer.stdout, "")
        self.assertEqual(len(answer.stderr.strip().splitlines()), 1, answer.stderr)
        self.assertIn(says, answer.stderr)

    def test_what_makes_no_sense(self):
        self.assert_refused(says="FILE is missing: the recording")
        self.assert_refused("/no/such/file", says="/no/such/file")
        self.assert_refused(__file__, says="offset 0: this is not a recording")
        self.assert_refused(self.recording, "--policy", "nothing", says="nothing")
        self.assert_refused(self.recording, "--domain", "7", says="there is no 7")
        self.assert_refused(self.recording, "--tasks", "/tmp/t", says="--policy")
        self.assert_refused(
            self.recording, "--policy", "serial", "--policy-option", "speed=9", says="speed"
        )

    def test_damage(self):
        damaged = self.folder / "damaged.rec"
        content = bytearray(self.recording.read_bytes())
        content[len(content) // 2] ^= 4
        damaged.write_bytes(content)
        self.assert_refused(damaged, says="offset")

    def test_a_killed_server_leaves_what_it_wrote(self):
        path = self.folder / "killed.rec"
        server = Server(self.models, "--record", path)
        ask(server.address, "mlp", 50)
        size = -1
        while path.stat().st_size != size:  # the last events are a moment on their way
            size = path.stat().st_size
            threading.Event().wait(0.2)
        server.end(signal.SIGKILL)
        answer = replay(path)
        self.assertEqual(answer.returncode, 0, answer.stderr)
        self.assertIn("the file was cut", answer.stderr)
        self.assertIn("50 requests", answer.stdout)
        cut = self.folder / "cut.rec"
        cut.write_bytes(path.read_bytes()[:-7])
        answer = replay(cut)
        self.assertEqual(answer.returncode, 0, answer.stderr)
        self.assertIn("the file was cut", answer.stderr)

    def test_models_that_come_and_go(self):
        path = self.folder / "control.rec"
        flags = ["--model-control-mode", "explicit", "--load-model", "mlp", "--record", path]
        server = Server(self.models, *flags)
        post = "/v2/repository/models/quick/"
        for _ in range(3):
            self.assertEqual(get(server.address, post + "load", "POST")[0], 200)
            self.assertEqual(ask(server.address, "quick", 5), [200] * 5)
            self.assertEqual(get(server.address, post + "unload", "POST")[0], 200)
            self.assertEqual(ask(server.address, "mlp", 5), [200] * 5)
        self.assertEqual(server.end(signal.SIGTERM), 0, server.said())
        answer = replay(path, "--json")
        self.assertEqual(answer.returncode, 0, answer.stderr)
        report = json.loads(answer.stdout)
        self.assertTrue(report["identical"] and report["complete"])
        self.assertEqual(sum(domain["requests"] for domain in report["domains"]), 30)
        names = [m["name"] for d in report["domains"] for m in d["recorded"]["models"]]
        self.assertEqual(len(names), 4)
        # What was loaded three times is one row, of all requests.
        rows = {m["name"]: (m["loads"], m["arrived"], m["ok"]) for m in report["models"]}
        self.assertEqual(rows, {"mlp": (1, 15, 15), "quick": (3, 15, 15)})
        table = replay(path).stdout
        self.assertRegex(table, r"recorded of all loads\nmodel .*\n(mlp +1 +15 .*\n)?quick +3 +15 ")

    def test_a_full_disk_does_not_stop_serving(self):
        path = self.folder / "full.rec"

        def small_disk():
            resource.setrlimit(resource.RLIMIT_FSIZE, (12000, 12000))

        server = Server(self.models, "--record", path, limits=small_disk)
        codes = load(server.address, ("mlp", "quick"), 4, 150)
        self.assertEqual(ask(server.address, "mlp", 20), [200] * 20)
        self.assertEqual(server.end(signal.SIGTERM), 0)
        self.assertGreater(codes.count(200), 100)
        self.assertIn("serving goes on", server.said())
        self.assertIn("ends early", server.said())
        self.assertLessEqual(path.stat().st_size, 12000)
        answer = replay(path)
        self.assertEqual(answer.returncode, 0, answer.stderr)
        self.assertIn("the file was cut", answer.stderr)

    def test_a_limit(self):
        """It ends whole, and says so; what came before replays, what came after was served."""
        path = self.folder / "limit.rec"
        server = Server(self.models, "--record", path, "--record-max-bytes", "12000")
        codes = load(server.address, ("mlp", "quick"), 4, 150)
        self.assertEqual(server.end(signal.SIGTERM), 0)
        self.assertGreater(codes.count(200), 100)
        self.assertIn("it ends here", server.said())
        self.assertNotIn("lost", server.said())
        self.assertLessEqual(path.stat().st_size, 12000)
        answer = replay(path)
        self.assertEqual(answer.returncode, 0, answer.stderr)
        self.assertNotIn("the file was cut", answer.stderr)

    def test_a_file_that_cannot_be_made(self):
        answer = subprocess.run(
            [PROGRAM, "serve", "--model-repository", self.models, "--record", "/no/such/place/f"],
            capture_output=True,
            text=True,
            timeout=60,
        )
        self.assertEqual(answer.returncode, 2, answer.stderr)
        self.assertIn("/no/such/place/f", answer.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=1)
