#!/usr/bin/env python3
"""What `tutti serve` writes to standard error: its forms and levels, at the start and changed while it runs."""
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "python"))

from needs import need  # noqa: E402

need("onnx")

from plain_client import PROGRAM, Server, ask, get, infer_body, make_two_models  # noqa: E402


class Logging(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        cls.models = make_two_models(folder.name)
        broken = cls.models / "broken" / "1"
        broken.mkdir(parents=True)
        (broken / "model.onnx").write_bytes(b"no model")

    def lines(self, *flags, body=None):
        """What a server says that is asked once, with this body."""
        server = Server(self.models, *flags)
        get(server.address, "/v2/models/mlp/infer", "POST", body or infer_body())
        self.assertEqual(server.end(signal.SIGTERM), 0)
        return server.said().splitlines()

    def test_default(self):
        lines = self.lines()
        for line in lines:
            self.assertRegex(line, r"^[IWE]\d{4} \d\d:\d\d:\d\d\.\d{6} \d+\] \S")
        warnings = [line for line in lines if line.startswith("W")]
        self.assertEqual(len(warnings), 1, lines)
        self.assertIn("model broken version 1 does not serve", warnings[0])
        self.assertIn("stopped", lines[-1])
        # Their policies differ: two domains, each with --executors 2.
        crowded = "2 scheduling domains have 4 executors on %d processors" % os.sysconf("SC_NPROCESSORS_ONLN")
        self.assertEqual(any(crowded in line for line in lines), os.sysconf("SC_NPROCESSORS_ONLN") < 4, lines)

    def test_iso8601(self):
        for line in self.lines("--log-format", "ISO8601"):
            self.assertRegex(line, r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ [IWE] \d+\] \S")

    def test_json_and_request_ids(self):
        body = json.loads(infer_body())
        body["id"] = 'order "66" \u00e9'
        lines = self.lines("--log-format", "json", "--log-verbose", 1, body=json.dumps(body))
        entries = [json.loads(line) for line in lines]
        for entry in entries:
            self.assertTrue({"time", "level", "pid", "message"} <= entry.keys())
            self.assertRegex(entry["time"], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$")
        verbose = [entry for entry in entries if entry["level"] == "verbose"]
        self.assertEqual([entry["message"] for entry in verbose], ["model mlp: answered"])
        self.assertEqual(verbose[0]["request_id"], body["id"])
        self.assertEqual({entry["level"] for entry in entries}, {"info", "warning", "verbose"})

    def test_levels_can_be_changed(self):
        server = Server(self.models)
        ask(server.address, "mlp", 1)
        said = len(server.said().splitlines())
        settings = json.dumps({"log_info": False, "log_verbose_level": 1})
        self.assertEqual(get(server.address, "/v2/logging", "POST", settings)[0], 200)
        ask(server.address, "mlp", 3)
        server.end(signal.SIGTERM)
        audit, *lines = server.said().splitlines()[said:]
        self.assertIn("audit: (no identity): POST /v2/logging: status 200", audit)  # at any level
        self.assertEqual(len(lines), 3, lines)
        for line in lines:
            self.assertTrue(line.endswith("model mlp: answered"))

    def test_levels_at_the_start(self):
        answer = subprocess.run(
            [PROGRAM, "serve", "--help"], capture_output=True, text=True, check=True
        )
        for flag in ("--log-format", "--log-verbose", "--log-info", "--log-warning", "--log-error"):
            self.assertIn(flag, answer.stdout)
        for flags in (["--log-format", "xml"], ["--log-info", "maybe"], ["--log-verbose", "-1"]):
            answer = subprocess.run(
                [PROGRAM, "serve", "--model-repository", self.models, *flags],
                capture_output=True,
                text=True,
            )
            self.assertEqual(answer.returncode, 2, answer.stderr)
            self.assertTrue(re.search(re.escape(flags[1]), answer.stderr))

    def test_access_log(self):
        path, moved = self.folder / "access.log", self.folder / "access.log.1"
        server = Server(self.models, "--access-log", path)
        body = json.loads(infer_body())
        body["id"] = 'order "66" \u00e9'
        asked = [
            ("POST", "/v2/models/quick/infer", json.dumps(body), 200),
            ("POST", "/v2/models/mlp/infer", infer_body(), 200),
            ("POST", "/v2/models/mlp/infer", "{", 400),
            ("POST", "/v2/models/none/infer", infer_body(), 404),
            ("GET", "/v2/models/none", None, 404),
            ("GET", "/v2/health/live?x=%22", None, 200),
        ]
        sizes = []
        for method, target, content, status in asked:
            got, _, answer = get(server.address, target, method, content)
            self.assertEqual(got, status, answer)
            sizes.append(len(answer))
        os.rename(path, moved)
        server.process.send_signal(signal.SIGHUP)
        until = time.monotonic() + 60
        while not path.exists():
            self.assertLess(time.monotonic(), until)
            time.sleep(0.01)
        metrics = get(server.address, "/metrics")[2].decode()
        self.assertIn('tutti_http_responses_total{code="404"} 2\n', metrics)
        self.assertIn('tutti_http_responses_total{code="200"} 3\n', metrics)
        self.assertIn("tutti_access_log_dropped_total 0\n", metrics)
        self.assertEqual(server.end(signal.SIGTERM), 0)
        entries = [json.loads(line) for line in moved.read_text().splitlines()]
        self.assertEqual(
            [(e["method"], e["path"], e["status"]) for e in entries], [(m, t, s) for m, t, _, s in asked]
        )
        self.assertEqual([e["bytes"] for e in entries], sizes)
        for entry in entries:
            self.assertRegex(entry["time"], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$")
            self.assertGreaterEqual(entry["ms"], 0)
        self.assertEqual([e.get("model") for e in entries], ["quick", "mlp", "mlp", "none", "none", None])
        self.assertEqual([e.get("batch") for e in entries], [1, 1, None, None, None, None])
        self.assertEqual([e.get("id") for e in entries], [body["id"]] + [None] * 5)
        self.assertLess(entries[0]["slack_ms"], 500)  # of its objective
        self.assertNotIn("slack_ms", entries[1])  # it has none
        [last] = [json.loads(line) for line in path.read_text().splitlines()]
        self.assertEqual((last["path"], last["status"]), ("/metrics", 200))

    def test_access_log_on_standard_output(self):
        with open(self.folder / "out", "w") as out:
            server = Server(self.models, "--access-log", "-", start={"stdout": out})
            ask(server.address, "mlp", 3)
            self.assertEqual(server.end(signal.SIGTERM), 0)
        lines = (self.folder / "out").read_text().splitlines()
        self.assertEqual([json.loads(line)["model"] for line in lines], ["mlp"] * 3)

    def test_what_cannot_be_opened_is_found_before_models_are_loaded(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = str(taken.getsockname()[1])
            for flags, said in (
                (["--http-port", port], "cannot listen on 127.0.0.1:%s: address already in use" % port),
                (["--http-port", "0", "--metrics-port", port], "127.0.0.1:%s: address already in use" % port),
                (["--http-port", "0", "--dashboard", port], "127.0.0.1:%s: address already in use" % port),
                (["--http-port", "0", "--access-log", "/nowhere/log"], "the access log to /nowhere/log: No such file"),
            ):
                answer = subprocess.run(
                    [PROGRAM, "serve", "--model-repository", self.models, *flags],
                    capture_output=True, text=True, timeout=60,
                )  # fmt: skip
                self.assertEqual(answer.returncode, 2, answer.stderr)
                self.assertEqual(len(answer.stderr.splitlines()), 1, answer.stderr)
                self.assertIn(said, answer.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=1)
