#!/usr/bin/env python3
"""`tutti plan`: what it reports, what it refuses, and that its tutti.pbtxt serves.

The model is emulated: a batch takes what its profile says, so which policy is best is known. No figure is compared with
real time."""
# plain build only: minutes of simulation, whose unit tests run under sanitizers
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.request

sys.dont_write_bytecode = True
PROGRAM = os.environ["TUTTI_PROGRAM"]
CONFIG = (
    'backend: "emulated" max_batch_size: 16 '
    'input { name: "x" data_type: TYPE_FP32 dims: 4 } '
    'output { name: "y" data_type: TYPE_FP32 dims: 4 } '
)
PROFILE = "linear { alpha_ms: 0.1 beta_ms: 19.9 }"
SETTINGS = "# kept\nslo_ms: 600\npolicy {\n  name: \"serial\"\n}\nlate: SERVE\n"
KEYS = {"policy", "settings", "devices", "goodput_per_s", "gain_over_simplest", "verdict"}


def run(*arguments, **more):
    return subprocess.run(
        [PROGRAM, *map(str, arguments)], capture_output=True, text=True, timeout=120, **more
    )


class Plan(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.TemporaryDirectory()
        self.addCleanup(self.directory.cleanup)
        self.repository = pathlib.Path(self.directory.name, "models")
        self.add("m", SETTINGS)

    def add(self, name, settings):
        model = self.repository / name
        (model / "1").mkdir(parents=True)
        (model / "config.pbtxt").write_text(CONFIG)
        (model / "profile.pbtxt").write_text(PROFILE)
        if settings:
            (model / "tutti.pbtxt").write_text(settings)

    def plan(self, *arguments):
        done = run("plan", self.repository, "--json", *arguments)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def test_batches_win_where_they_pay(self):
        # A batch of 16 takes as long as one request of 20 ms: serial holds at most 50 per second and device.
        plan = self.plan("--simulate-only", "--devices", 1)
        self.assertLessEqual(KEYS, set(plan))
        self.assertNotEqual(plan["policy"], "serial")
        self.assertEqual(plan["simplest"], "serial")
        self.assertGreater(plan["goodput_per_s"], 5 * 50)
        self.assertGreater(plan["gain_over_simplest"], 4)
        serial = next(c for c in plan["candidates"] if c["policy"] == "serial")
        self.assertLess(serial["highest_per_s"], 1.1 * 50)
        self.assertEqual((plan["check"], plan["server_cost"]), (None, None))

    def test_ties_go_to_the_simplest_and_devices_are_counted(self):
        plan = self.plan("--simulate-only", "--rate", 10)
        self.assertEqual(plan["policy"], "serial")
        self.assertEqual(plan["devices"], 1)
        self.assertEqual(plan["gain_over_simplest"], 0)
        self.assertEqual(plan["load"], {"kind": "poisson", "rate_per_s": 10.0})
        plan = self.plan("--simulate-only", "--rate", 1000)
        # 1300 per second at (1.6 + 19.9) / 16 ms each: at least 1.75 devices.
        self.assertGreaterEqual(plan["devices"], 2)
        self.assertLessEqual(plan["devices"], 4)

    def test_a_model_without_a_file_is_left_out(self):
        tokenizer = self.repository / "words"
        (tokenizer / "1").mkdir(parents=True)
        (tokenizer / "vocab.txt").write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\na\n")
        (tokenizer / "config.pbtxt").write_text(
            'backend: "wordpiece" max_batch_size: 8 '
            'input [{ name: "text" data_type: TYPE_STRING dims: [1] }] '
            'output [{ name: "input_ids" data_type: TYPE_INT64 dims: [-1] },'
            ' { name: "attention_mask" data_type: TYPE_INT64 dims: [-1] }]'
        )
        checked = run("models", "check", self.repository)
        self.assertIn("words: ok", checked.stdout)
        done = run("plan", self.repository, "--simulate-only", "--rate", 10, "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("model words is left out: it has no file to measure", done.stderr)
        done = run("plan", self.repository, "--model", "words", "--simulate-only", "--rate", 10)
        self.assertEqual(done.returncode, 2)
        self.assertIn("model 'words' has no file to measure", done.stderr)
        done = run("profile", tokenizer)
        self.assertEqual(done.returncode, 1)
        self.assertIn("has no model file: it is not profiled", done.stderr)

    def test_real_server_and_its_settings(self):
        plan = self.plan("--rate", 20, "--seconds", 0.5)
        self.assertGreaterEqual(plan["server_cost"]["cores"], 1)
        self.assertGreater(plan["server_cost"]["request_us"], 0)
        self.assertGreater(plan["check"]["offered_per_s"], 0)
        text = plan["models"][0]["tutti_pbtxt"]
        self.assertIn("# kept", text)
        self.assertIn("late: SERVE", text)
        self.assertEqual(text.count("policy"), 1)
        self.assertEqual((self.repository / "m" / "tutti.pbtxt").read_text(), SETTINGS)
        (self.repository / "m" / "tutti.pbtxt").write_text(text)
        checked = run("models", "check", self.repository)
        self.assertEqual(checked.returncode, 0, checked.stdout + checked.stderr)
        self.serves(plan["policy"])

    def serves(self, policy):
        server = subprocess.Popen(
            [PROGRAM, "serve", "--model-repository", self.repository, "--http-port", "0", "--exit-on-error", "true"]
            + (["--grpc-port", "0"] if "--grpc-port" in run("serve", "--help").stdout else []),
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            for line in server.stderr:
                if "models at http://" in line:
                    break
            self.assertIn("serving 1 of 1", line)
            url = line.split(" at ")[1].split()[0].rstrip(",;")
            body = {"inputs": [{"name": "x", "shape": [1, 4], "datatype": "FP32", "data": [1, 2, 3, 4]}]}
            request = urllib.request.Request(url + "/v2/models/m/infer", json.dumps(body).encode())
            with urllib.request.urlopen(request, timeout=30) as answer:
                self.assertEqual(answer.status, 200)
            live = run("plan", self.repository, "--url", url, "--seconds", 0.3)
            self.assertEqual(live.returncode, 2)
            self.assertIn("received no request of the planned models", live.stderr)
            with urllib.request.urlopen(url + "/metrics", timeout=30) as page:
                self.assertIn('policy="%s"' % policy, page.read().decode())
        finally:
            server.terminate()
            server.wait(30)
            server.stderr.close()

    def test_late_requests_are_simulated_as_they_are_served(self):
        # Alone a request takes 20 ms: of 91 per second (70 with headroom) a device serves 50. What is late and served
        # takes the time of others.
        bad = {}
        for late in ("DROP", "SERVE"):
            self.add(late.lower(), "slo_ms: 100\npolicy { name: \"serial\" }\nlate: %s\n" % late)
            plan = self.plan("--simulate-only", "--model", late.lower(), "--rate", 70, "--devices", 1)
            serial = next(c for c in plan["candidates"] if c["policy"] == "serial")
            bad[late] = serial["bad_rate"]
        self.assertGreater(bad["SERVE"], bad["DROP"])
        self.assertGreater(bad["DROP"], 0.2)

    def test_no_folder_is_left(self):
        temporary = pathlib.Path(self.directory.name, "temporary")
        temporary.mkdir()
        for number, code in ((signal.SIGTERM, 130), (signal.SIGINT, 130), (signal.SIGKILL, -signal.SIGKILL)):
            plan = subprocess.Popen(
                [PROGRAM, "plan", self.repository, "--rate", "20", "--seconds", "20"],
                stderr=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                text=True,
                env={**os.environ, "TMPDIR": str(temporary)},
            )
            self.addCleanup(plan.stderr.close)
            for line in plan.stderr:
                if "measuring what the server costs" in line:
                    break
            self.assertEqual(len(list(temporary.iterdir())), 1)
            plan.send_signal(number)
            self.assertEqual(plan.wait(60), code)
            left = list(temporary.iterdir())
            self.assertEqual(len(left), number == signal.SIGKILL)
        # The next plan removes what a killed one left, once it is older than one that just begins.
        again = {**os.environ, "TMPDIR": str(temporary)}
        deadline = time.monotonic() + 60
        while left and time.monotonic() < deadline:
            time.sleep(1)
            run("plan", self.repository, "--simulate-only", "--rate", "1", env=again)
            left = list(temporary.iterdir())
        self.assertEqual(left, [])

    def test_write(self):
        self.plan("--simulate-only", "--rate", 10, "--slo-ms", 1500, "--write")
        text = (self.repository / "m" / "tutti.pbtxt").read_text()
        self.assertIn("slo_us: 1500000", text)
        self.assertNotIn("slo_ms", text)

    def test_no_objective(self):
        self.add("free", None)
        done = run("plan", self.repository, "--model", "free", "--simulate-only", "--rate", 5)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("model free: objective 200 ms (none is written: ten times a request alone", done.stdout)
        self.assertIn("slo_us: 200000", done.stdout)

    def test_refusals(self):
        for arguments, sentence in (
            (["--model", "nope"], "has no model 'nope'; there are: m"),
            (["--model", "m", "--model", "m"], "--model m is given twice"),
            (["--model", "m:x"], "--model 'm:x' must be NAME or NAME:WEIGHT"),
            (["--rate", 1, "--url", "http://127.0.0.1:1"], "exclude each other"),
            (["--devices", 64], "--simulate-only plans without a server"),
            (["--rate", 0], "--rate"),
            (["--recording", self.repository / "m" / "config.pbtxt", "--simulate-only"], "config.pbtxt"),
        ):
            done = run("plan", self.repository, *arguments)
            self.assertEqual(done.returncode, 2, (arguments, done.stderr))
            self.assertIn(sentence, done.stderr)
            self.assertEqual(done.stdout, "")
        done = run("plan", self.repository, "--url", "http://127.0.0.1:1")
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("--url", done.stderr)
        done = run("plan", self.repository / "nowhere")
        self.assertEqual(done.returncode, 2, done.stderr)

    def test_an_objective_that_nothing_meets(self):
        done = run("plan", self.repository, "--simulate-only", "--slo-ms", 5, "--json")
        self.assertEqual(done.returncode, 1, done.stderr)
        plan = json.loads(done.stdout)
        self.assertEqual(plan["goodput_per_s"], 0)
        self.assertIn("the objective is too short", plan["verdict"])


if __name__ == "__main__":
    unittest.main()
