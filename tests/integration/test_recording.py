#!/usr/bin/env python3
"""`tutti serve --record` under load, and `tutti replay` of what it wrote: whole, cut, damaged, short of disk."""
import contextlib
import http.client
import importlib.util
import json
import os
import pathlib
import re
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = os.environ["TUTTI_PROGRAM"]
READY = re.compile(r"http://127\.0\.0\.1:(\d+)")

if importlib.util.find_spec("onnx") is None:
    print("skipped: this Python lacks onnx")
    sys.exit(77)


def infer_body(timeout_us=None):
    body = {
        "inputs": [{"name": "input", "shape": [1, 16], "datatype": "FP32", "data": [0.5] * 16}],
    }
    if timeout_us is not None:
        body["parameters"] = {"timeout": timeout_us}
    return json.dumps(body)


def replay(*arguments):
    return subprocess.run(
        [PROGRAM, "replay", *map(str, arguments)], capture_output=True, text=True, timeout=120
    )


class Server:
    def __init__(self, models, *flags, limits=None):
        self.lines = []
        self.process = subprocess.Popen(
            [PROGRAM, "serve", "--model-repository", str(models), "--http-port", "0"]
            + ["--executors", "2"]
            + list(map(str, flags)),
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=limits,
        )
        self.port = None
        while self.port is None:
            line = self.process.stderr.readline()
            if not line:
                raise RuntimeError("the server did not come:\n" + "".join(self.lines))
            self.lines.append(line)
            found = READY.search(line)
            self.port = int(found.group(1)) if found else None
        self.reader = threading.Thread(target=self.read)
        self.reader.start()

    def read(self):
        for line in self.process.stderr:
            self.lines.append(line)

    def end(self, number):
        self.process.send_signal(number)
        code = self.process.wait(60)
        self.reader.join()
        self.process.stderr.close()
        return code

    def said(self):
        return "".join(self.lines)

    def ask(self, model, count, timeouts=(None,)):
        """The status codes of `count` requests on one connection."""
        client = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        codes = []
        for i in range(count):
            body = infer_body(timeouts[i % len(timeouts)])
            client.request("POST", "/v2/models/%s/infer" % model, body)
            answer = client.getresponse()
            answer.read()
            codes.append(answer.status)
        client.close()
        return codes

    def vanish(self, model):
        """A client that sends a request and goes without its answer."""
        body = infer_body().encode()
        head = "POST /v2/models/%s/infer HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n"
        with socket.create_connection(("127.0.0.1", self.port)) as client:
            client.sendall((head % (model, len(body))).encode() + body)

    def load(self, clients, count):
        """Requests to both models from several clients at once, some with little time; returns the status codes."""
        codes = []
        timeouts = (None, 200000, 2000, 300)

        def run(index):
            codes.extend(self.ask(("mlp", "quick")[index % 2], count, timeouts))
            for _ in range(5):
                self.vanish("quick")

        threads = [threading.Thread(target=run, args=(i,)) for i in range(clients)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return codes


class Replay(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        with contextlib.ExitStack() as stack:
            folder = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory()))
            cls.models = folder / "models"
            subprocess.run(
                [sys.executable, ROOT / "scripts" / "make_models.py", "--out", cls.models]
                + ["--only", "mlp"],
                check=True,
                capture_output=True,
            )
            quick = cls.models / "quick"
            (quick / "1").mkdir(parents=True)
            model = (cls.models / "mlp" / "1" / "model.onnx").read_bytes()
            (quick / "1" / "model.onnx").write_bytes(model)
            (quick / "tutti.pbtxt").write_text('slo_us: 50000\npolicy { name: "deferred" }\n')
            (cls.models / "mlp" / "tutti.pbtxt").write_text('policy { name: "window" }\n')
            (quick / "profile.pbtxt").write_text(
                "point { batch: 1 latency_ns: 200000 } point { batch: 8 latency_ns: 300000 }\n"
            )
            cls.folder = folder
            cls.addClassCleanup(stack.pop_all().close)
        cls.recording = cls.folder / "whole.rec"
        server = Server(cls.models, "--record", cls.recording)
        cls.codes = server.load(8, 60)
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
            self.assertEqual(simulated["world"], "virtual")
            self.assertEqual(simulated["total"]["arrived"], recorded["total"]["arrived"])
            self.assertGreater(simulated["total"]["ok"], 0)

    def test_the_table_and_the_files_of_one_domain(self):
        files = {name: self.folder / name for name in ("tasks", "outcomes", "html")}
        flags = [word for name, path in files.items() for word in ("--" + name, path)]
        answer = replay(self.recording, "--domain", 0, "--policy", "recorded", *flags)
        self.assertEqual(answer.returncode, 0, answer.stderr)
        self.assertIn("recorded", answer.stdout)
        self.assertIn("simulated from the recorded requests", answer.stdout)
        self.assertEqual(
            files["tasks"].read_text().splitlines()[0],
            "start_ns,end_ns,executor,model,step,requests",
        )
        self.assertGreater(len(files["outcomes"].read_text().splitlines()), 100)
        self.assertIn("<svg", files["html"].read_text())
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
        self.assert_refused(says="which recording")
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
        server.ask("mlp", 50)
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

    def test_a_full_disk_does_not_stop_serving(self):
        path = self.folder / "full.rec"

        def small_disk():
            resource.setrlimit(resource.RLIMIT_FSIZE, (12000, 12000))

        server = Server(self.models, "--record", path, limits=small_disk)
        codes = server.load(4, 150)
        self.assertEqual(server.ask("mlp", 20), [200] * 20)
        self.assertEqual(server.end(signal.SIGTERM), 0)
        self.assertGreater(codes.count(200), 100)
        self.assertIn("serving goes on", server.said())
        self.assertIn("ends early", server.said())
        self.assertLessEqual(path.stat().st_size, 12000)
        answer = replay(path)
        self.assertEqual(answer.returncode, 0, answer.stderr)
        self.assertIn("the file was cut", answer.stderr)

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
