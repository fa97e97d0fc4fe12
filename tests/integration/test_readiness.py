#!/usr/bin/env python3
"""Readiness of a real process: models that do not serve, an empty repository, and the stop."""
import http.client
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time
import unittest

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "python"))

from needs import need  # noqa: E402

need("numpy", "onnx", "tritonclient")

from control_case import PROGRAM, ControlCase, Repository  # noqa: E402

BROKEN = b"no model"


class ReadinessCase(ControlCase):
    def ready(self):
        return self.ask("GET", "/v2/health/ready")[0]

    def live(self):
        return self.ask("GET", "/v2/health/live")[0]


class OneBroken(ReadinessCase):
    flags = ["--model-control-mode", "poll", "--repository-poll-secs", "1"]

    def fill(self):
        self.repository.put("good", {1: 1.0})
        self.repository.put("bad", {1: BROKEN})

    def test_strict_by_default(self):
        self.assertEqual((self.ready(), self.live()), (503, 200))
        self.assertEqual(self.infer("good"), (1.0, "1"))
        self.repository.put("bad", {1: 2.0})
        # A model that is being loaded takes no server out of service.
        self.wait_until(lambda: self.ask("GET", "/v2/models/bad/ready")[0] == 200, "never ready")
        self.assertEqual(self.ready(), 200)
        self.assertEqual(self.infer("bad"), (2.0, "1"))

    def test_a_reload_that_fails_changes_nothing(self):
        self.repository.put("bad", {1: 2.0})
        self.wait_until(lambda: self.ready() == 200, "never ready")
        self.repository.put("good", {1: BROKEN})
        self.wait_until(
            lambda: any(
                "good" in line and "what was loaded before continues to serve" in line
                for line in self.server.lines
            ),
            "never looked at",
        )
        self.assertEqual(self.ready(), 200)
        self.assertEqual(self.infer("good"), (1.0, "1"))

    def test_a_model_that_goes(self):
        self.repository.remove("bad")
        self.wait_until(lambda: self.ready() == 200, "never ready")
        self.repository.remove("good")
        self.wait_until(lambda: self.ready() == 503, "ready without a model")


class OneBrokenNotStrict(ReadinessCase):
    flags = ["--strict-readiness", "false"]

    def fill(self):
        self.repository.put("good", {1: 1.0})
        self.repository.put("bad", {1: BROKEN})

    def test_one_is_enough(self):
        self.assertEqual(self.ready(), 200)


class AllBrokenNotStrict(ReadinessCase):
    flags = ["--strict-readiness", "false"]

    def fill(self):
        self.repository.put("bad", {1: BROKEN})

    def test_none_is_not_enough(self):
        self.assertEqual((self.ready(), self.live()), (503, 200))


class Empty(ReadinessCase):
    def fill(self):
        pass

    def test_not_ready(self):
        self.assertEqual((self.ready(), self.live()), (503, 200))


class Explicit(ReadinessCase):
    flags = ["--model-control-mode", "explicit"]

    def fill(self):
        self.repository.put("good", {1: 1.0})
        self.repository.put("bad", {1: BROKEN})

    def test_only_what_was_requested_counts(self):
        self.assertEqual(self.ready(), 200)  # clients load through it
        self.client.load_model("good")
        self.assertEqual(self.ready(), 200)
        self.refused(400, "bad", self.client.load_model, "bad")
        self.assertEqual(self.ready(), 503)
        self.client.unload_model("bad")
        self.assertEqual(self.ready(), 200)
        self.client.unload_model("good")
        self.assertEqual(self.ready(), 200)


class ExitOnError(unittest.TestCase):
    def serve(self, models):
        repository = Repository()
        self.addCleanup(repository.close)
        for name, model in models.items():
            repository.put(name, {1: model})
        command = [PROGRAM, "serve", "--model-repository", str(repository.path)]
        command += ["--http-port", "0", "--exit-on-error", "true"]
        return subprocess.Popen(command, stderr=subprocess.PIPE, text=True)

    def test_a_broken_model(self):
        process = self.serve({"good": 1.0, "bad": BROKEN})
        self.assertEqual(process.wait(60), 1)
        said = process.stderr.read()
        process.stderr.close()
        self.assertIn("model bad version 1 does not serve: ", said)
        self.assertIn("1 model does not serve, and --exit-on-error is on", said)

    def test_good_models(self):
        process = self.serve({"good": 1.0})
        for line in process.stderr:
            if "try: curl" in line:
                break
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(60), 0)
        process.stderr.close()


class Drain(ReadinessCase):
    flags = ["--drain-ms", "2000", "--grace-ms", "60000"]

    def fill(self):
        self.repository.put("good", {1: 1.0})

    def said(self, part):
        return any(part in line for line in self.server.lines)

    def test_not_ready_first_then_everything_else(self):
        address = self.server.address
        answers, failures, stop = [], [], threading.Event()

        def ask():
            """A new connection per request, as a load balancer that has not looked yet."""
            while not stop.is_set():
                try:
                    answers.append(self.infer("good", client=self.new_client()))
                except Exception as error:
                    failures.append((time.monotonic(), error))
                    return

        thread = threading.Thread(target=ask)
        self.assertEqual(self.ready(), 200)
        thread.start()
        self.wait_until(lambda: answers, "no answer")
        signalled_at = time.monotonic()
        self.server.process.send_signal(signal.SIGTERM)
        self.wait_until(lambda: self.said("stopping: not ready any more"), "nothing logged")
        self.assertEqual((self.ready(), self.live()), (503, 200))
        count = len(answers)
        self.wait_until(lambda: len(answers) > count, "no answer while it drains")
        self.assertIsNone(self.server.process.poll())
        self.assertEqual(self.server.process.wait(60), 0)
        stop.set()
        thread.join()
        for failed_at, error in failures:  # not before the drain is over
            self.assertGreaterEqual(failed_at - signalled_at, 1.9, error)
        with self.assertRaises(OSError):
            http.client.HTTPConnection(address, timeout=10).connect()
        self.server._reader.join(10)
        lines = "".join(self.server.lines)
        first = lines.index("stopping: not ready any more; serving for another 2000 ms")
        second = lines.index("stopping: no new connections; requests get 60000 ms to finish")
        self.assertLess(first, second)
        self.assertLess(second, lines.index("stopped"))
        self.assertEqual(lines.count("stopping: "), 2, lines)  # not again for gRPC


class DrainCutShort(ReadinessCase):
    flags = ["--drain-ms", "3600000"]

    def fill(self):
        self.repository.put("good", {1: 1.0})

    def test_a_second_signal_ends_it(self):
        self.server.process.send_signal(signal.SIGTERM)
        self.wait_until(
            lambda: any("not ready any more" in line for line in self.server.lines), "not said"
        )
        self.server.process.send_signal(signal.SIGTERM)
        self.assertEqual(self.server.process.wait(60), 0)


if __name__ == "__main__":
    os.environ.setdefault("PYTHONUNBUFFERED", "1")
    unittest.main()
