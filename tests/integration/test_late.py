#!/usr/bin/env python3
"""`late: DROP | SERVE`: late requests under every policy, simulated, served and
replayed."""
import concurrent.futures
import json
import os
import pathlib
import subprocess
import sys
import unittest

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "python"))

from needs import need  # noqa: E402

need("numpy", "onnx", "tritonclient")

from control_case import PROGRAM, ControlCase  # noqa: E402

CLIENTS = 12
PROFILE = "linear { alpha_ms: 0.01 beta_ms: 20 }"
CONFIG = (
    'backend: "emulated" max_batch_size: 2 '
    'input { name: "x" data_type: TYPE_FP32 dims: 4 } '
    'output { name: "y" data_type: TYPE_FP32 dims: 4 } '
)


def run(*arguments):
    done = subprocess.run(
        [PROGRAM] + [str(a) for a in arguments], capture_output=True, text=True, timeout=300
    )
    if done.returncode != 0:
        raise AssertionError(done.stderr)
    return json.loads(done.stdout)


def policies():
    """Those that run models of one graph in virtual time without further options."""
    return [p["name"] for p in run("policies", "--json") if p["name"] not in ("padded", "merged")]


class Simulated(unittest.TestCase):
    """Twice as many requests as can be served, for a second."""

    def experiment(self, policy, late):
        path = pathlib.Path(self.enterContext(self.directory()), "e.pbtxt")
        path.write_text(
            'duration_s: 1 seed: 5 device { count: 1 } load { rate: 600 } policy { name: "%s" }\n'
            'model { name: "m" slo_ms: 30 max_batch: 4 %s\n'
            "  profile { linear { alpha_ms: 1 beta_ms: 8 } } }" % (policy, late)
        )
        return run("experiment", path, "--json")

    @staticmethod
    def directory():
        import tempfile

        return tempfile.TemporaryDirectory(prefix="tutti-late-")

    def enterContext(self, context):  # before Python 3.11
        value = context.__enter__()
        self.addCleanup(context.__exit__, None, None, None)
        return value

    def test_every_policy(self):
        for policy in policies():
            with self.subTest(policy=policy):
                served = self.experiment(policy, "late: SERVE")["models"][0]
                self.assertEqual(served["dropped"], 0)
                self.assertGreater(served["late"], 0)
                self.assertGreater(served["ok"], 0)
                dropped = self.experiment(policy, "late: DROP")["models"][0]
                self.assertGreater(dropped["dropped"], 0)


class Served(ControlCase):
    late = "SERVE"
    policy = ""

    def fill(self):
        model = self.repository.path / "m"
        (model / "1").mkdir(parents=True)
        (model / "config.pbtxt").write_text(CONFIG)
        (model / "profile.pbtxt").write_text(PROFILE)
        (model / "tutti.pbtxt").write_text("slo_ms: 50 late: %s %s" % (self.late, self.policy))

    @property
    def flags(self):
        self.recording = str(self.repository.path / "recording")
        return ["--executors", "1", "--record", self.recording]

    def answers(self):
        """Statuses of requests from many clients at once, more than can be in time."""

        def ask(_):
            body = '{"inputs":[{"name":"x","shape":[1,4],"datatype":"FP32","data":[1,2,3,4]}]}'
            return [self.ask("POST", "/v2/models/m/infer", body)[0] for _ in range(4)]

        with concurrent.futures.ThreadPoolExecutor(CLIENTS) as pool:
            return [status for part in pool.map(ask, range(CLIENTS)) for status in part]

    def check(self, statuses):
        self.assertEqual(set(statuses), {200})
        metrics = self.metrics()
        label = '{model="m",version="1"}'
        self.assertGreater(metrics["tutti_requests_late_total" + label], 0)

    def test_how_it_is_served_is_visible(self):
        metrics = self.metrics()
        policy = "adaptive" if not self.policy else self.policy.split('"')[1]
        info = 'tutti_model_info{model="m",version="1",policy="%s",max_batch="2",executors="1",'
        self.assertEqual(metrics[info % policy + 'profile="file"}'], 1)
        self.assertEqual(metrics['tutti_slo_seconds{model="m",version="1"}'], 0.05)
        entry = self.ask("POST", "/v2/repository/index")[1][0]
        self.assertEqual((entry["policy"], entry["slo_ms"]), (policy, 50))
        parameters = self.client.get_model_config("m")["parameters"]
        self.assertEqual(
            {key: value["string_value"] for key, value in parameters.items()},
            {
                "tutti_slo_ms": "50",
                "tutti_late": self.late,
                "tutti_policy": policy,
                "tutti_executors": "1",
                "tutti_profile": "file",
            },
        )

    def test_all_clients_at_once(self):
        self.check(self.answers())
        self.assertEqual(self.server.stop(60), 0)
        report = run("replay", self.recording, "--json")
        self.assertTrue(report["identical"], report)


class ServedByWindow(Served):
    policy = 'policy { name: "window" }'


class ServedBySerial(Served):
    policy = 'policy { name: "serial" }'


class Dropped(Served):
    late = "DROP"

    def check(self, statuses):
        self.assertEqual(set(statuses), {200, 503})


class DroppedBySerial(Dropped):
    policy = 'policy { name: "serial" }'


if __name__ == "__main__":
    os.environ.setdefault("PYTHONUNBUFFERED", "1")
    unittest.main()
