#!/usr/bin/env python3
"""Policy auto: it keeps its policy while load is light, changes it under heavy load, says why, and loses no request; what
it decided replays. And what refuses or lists auto."""
import contextlib
import http.client
import json
import os
import pathlib
import random
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "python"))

from plain_client import Server, get, infer_body  # noqa: E402

PROGRAM = os.environ.get("TUTTI_PROGRAM", str(ROOT / "build" / "tutti"))
# A batch of 16 takes sixteen times as long as one row: under too much load, a policy that does not ask what a batch
# takes makes nearly all of its requests late.
PROFILE = "point { batch: 1 latency_ns: 10000000 } point { batch: 16 latency_ns: 160000000 }\n"
# The same batches, each of which needs a quarter of its device.
QUARTER = PROFILE.replace(" }", " demand: 0.25 }")
TIMEOUT_US = 240000
CLIENTS = 64  # with their pauses they ask for about twice what batches of 16 can do
AUTO = 'policy { name: "auto" option { key: "interval" value: "100ms" } option { key: "window" value: "5s" } }\n'
PATIENCE_S = 120


def make_model(folder, name, tutti, profile=PROFILE):
    model = folder / name
    (model / "1").mkdir(parents=True)
    (model / "config.pbtxt").write_text(
        'backend: "emulated"\nmax_batch_size: 16\n'
        'input { name: "input" data_type: TYPE_FP32 dims: [ 16 ] }\n'
        'output { name: "output" data_type: TYPE_FP32 dims: [ 16 ] }\n'
    )
    (model / "profile.pbtxt").write_text(profile)
    (model / "tutti.pbtxt").write_text(tutti)


def run(*arguments):
    return subprocess.run([PROGRAM, *map(str, arguments)], capture_output=True, text=True, check=False, timeout=60)


class Clients:
    """Each sends its next request when the last one is answered, after a pause of at most `pause_s`."""

    def __init__(self, address, count, timeout_us, pause_s):
        self.codes = []
        self.stopping = threading.Event()
        self.threads = [
            threading.Thread(target=self.run, args=(address, timeout_us, pause_s, random.Random(i)), daemon=True)
            for i in range(count)
        ]
        for thread in self.threads:
            thread.start()

    def run(self, address, timeout_us, pause_s, pauses):
        client = http.client.HTTPConnection(address, timeout=60)
        while not self.stopping.is_set():
            client.request("POST", "/v2/models/em/infer", infer_body(timeout_us))
            answer = client.getresponse()
            answer.read()
            self.codes.append(answer.status)
            time.sleep(pauses.random() * pause_s)
        client.close()

    def end(self):
        self.stopping.set()
        for thread in self.threads:
            thread.join()
        return self.codes


class Serving(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        make_model(self.folder / "models", "em", AUTO)
        make_model(self.folder / "models", "idle", AUTO)  # in the domain of em

    def metric(self, name):
        page = get(self.server.address, "/metrics")[2].decode()
        return sum(float(value) for value in re.findall(rf'(?m)^{name}\{{model="em",.*\}} (\S+)$', page))

    def shown_policies(self):
        index = json.loads(get(self.server.address, "/v2/repository/index", "POST", "")[2])
        return {model["name"]: model.get("policy") for model in index}

    def wait(self, what, holds):
        until = time.monotonic() + PATIENCE_S
        while not holds():
            self.assertLess(time.monotonic(), until, f"{what} did not come:\n{self.server.said()}")
            time.sleep(0.05)

    def test_changes_under_load_and_loses_nothing(self):
        recording = self.folder / "auto.rec"
        self.server = Server(
            self.folder / "models", "--executors", "1", "--learn-percent", "0", "--record", recording
        )
        self.assertEqual(self.shown_policies(), dict.fromkeys(("em", "idle"), "auto (window)"))
        light = Clients(self.server.address, 2, None, 0.01)
        self.wait("a second comparison", lambda: self.metric("tutti_auto_comparisons_total") >= 2)
        codes = light.end()
        self.assertEqual(self.metric("tutti_auto_changes_total"), 0, self.server.said())
        # It says why, and does not repeat itself.
        kept = re.findall(r"model \w+: policy auto keeps window: (.*)", self.server.said())
        self.assertGreaterEqual(len(kept), 1, self.server.said())
        self.assertTrue(all(before != after for before, after in zip(kept, kept[1:])), kept)
        self.assertEqual(self.shown_policies(), dict.fromkeys(("em", "idle"), "auto (window)"))
        self.assertEqual(set(codes), {200})
        heavy = Clients(self.server.address, CLIENTS, TIMEOUT_US, 0.2)
        change = re.compile(
            r"model em: policy auto changed window to (\w+): "
            r"(?:more requests on time|as many on time, and faster answers): "
            r"([\d.]+) % and ([\d.]+) % in the two halves of the last \d+ requests"
        )
        self.wait("a change", lambda: change.search(self.server.said()))
        chosen, *gains = change.search(self.server.said()).groups()
        self.assertGreaterEqual(min(map(float, gains)), 5)
        both = dict.fromkeys(("em", "idle"), f"auto ({chosen})")
        self.wait("the change of both models", lambda: self.shown_policies() == both)
        self.assertGreaterEqual(self.metric("tutti_auto_changes_total"), 1)
        done = self.metric("tutti_requests_on_time_total")
        self.wait("an answer on time", lambda: self.metric("tutti_requests_on_time_total") > done)
        codes += heavy.end()
        # Each request was answered once, and the server counted the same.
        self.assertLessEqual(set(codes), {200, 503})
        self.assertEqual(self.metric("tutti_requests_accepted_total"), len(codes))
        self.assertEqual(self.metric("nv_inference_request_success"), codes.count(200))
        self.assertEqual(
            self.metric("tutti_requests_on_time_total") + self.metric("tutti_requests_bad_total"), len(codes)
        )
        self.assertEqual(self.server.end(signal.SIGTERM), 0, self.server.said())
        replay = run("replay", recording, "--check", "--json")
        self.assertEqual(replay.returncode, 0, replay.stdout + replay.stderr)
        domains = json.loads(replay.stdout)["domains"]
        self.assertEqual([domain["policy"] for domain in domains[:2]], ["window", chosen])
        self.assertTrue(all(domain["identical"] for domain in domains))
        self.assertEqual(sum(domain["requests"] for domain in domains), len(codes))


    def test_workers_use_a_device_that_one_batch_does_not_fill(self):
        make_model(self.folder / "shared", "em", AUTO + "emulation { device_executors: 8 }\n", QUARTER)
        self.server = Server(self.folder / "shared", "--executors", "1", "--learn-percent", "0")
        self.assertEqual(self.shown_policies(), {"em": "auto (window)"})
        heavy = Clients(self.server.address, CLIENTS, TIMEOUT_US, 0.2)
        change = re.compile(r"model em: policy auto changed window to (elastic \(workers 1,1,2,4,8,16.*?\)): ")
        self.wait("a change", lambda: change.search(self.server.said()))
        self.wait("elastic", lambda: self.shown_policies()["em"] == "auto (elastic)")
        config = json.loads(get(self.server.address, "/v2/models/em/config")[2])
        self.assertEqual(config["parameters"]["tutti_executors"]["string_value"], "6")
        done = self.metric("tutti_requests_on_time_total")
        self.wait("an answer on time", lambda: self.metric("tutti_requests_on_time_total") > done)
        codes = heavy.end()
        self.assertLessEqual(set(codes), {200, 503})
        self.assertEqual(self.metric("tutti_requests_accepted_total"), len(codes))
        self.assertEqual(
            self.metric("tutti_requests_on_time_total") + self.metric("tutti_requests_bad_total"), len(codes)
        )
        self.assertEqual(self.server.end(signal.SIGTERM), 0, self.server.said())

    def processor_s(self):
        """What the thread of policy auto has taken of processors."""
        for task in pathlib.Path("/proc", str(self.server.process.pid), "task").iterdir():
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # another thread has ended
                if (task / "comm").read_text().strip() == "tutti-auto":
                    return int((task / "schedstat").read_text().split()[0]) / 1e9
        return 0.0

    def test_takes_two_percent_of_a_processor(self):
        """With an interval of 0.1 s only the budget limits it: so many requests take longer to compare."""
        began_at = time.monotonic()
        self.server = Server(self.folder / "models", "--executors", "1", "--learn-percent", "0")
        heavy = Clients(self.server.address, CLIENTS, TIMEOUT_US, 0.01)
        ended = [0.0]  # what the thread had taken when each comparison ended, or little less
        while len(ended) < 6:
            taken = self.processor_s()
            if self.metric("tutti_auto_comparisons_total") >= len(ended):
                ended.append(taken)
            self.assertLess(time.monotonic(), began_at + PATIENCE_S, self.server.said())
            time.sleep(0.01)
        elapsed_s = time.monotonic() - began_at
        heavy.end()
        longest_s = max(after - before for before, after in zip(ended, ended[1:]))
        self.assertGreater(longest_s, 0)
        # The last comparison is not paid for yet, and another one may have begun.
        self.assertLessEqual(ended[-1], 0.02 * elapsed_s + 2 * longest_s, ended)
        self.assertEqual(self.server.end(signal.SIGTERM), 0, self.server.said())

    def test_keeps_the_policy_of_a_model_that_a_client_described(self):
        self.server = Server(
            self.folder / "models", "--executors", "1", "--learn-percent", "0", "--model-control-mode", "explicit"
        )
        tensor = {"data_type": "TYPE_FP32", "dims": [16]}
        config = {
            "backend": "emulated",
            "max_batch_size": 16,
            "input": [{"name": "input", **tensor}],
            "output": [{"name": "output", **tensor}],
        }
        load = json.dumps({"parameters": {"config": json.dumps(config)}})
        self.assertEqual(get(self.server.address, "/v2/repository/models/em/load", "POST", load)[0], 200)
        heavy = Clients(self.server.address, CLIENTS, TIMEOUT_US, 0.2)
        kept = re.compile(r"model em: policy auto keeps window instead of \w+: .* load it again to let auto change it")
        self.wait("the reason", lambda: kept.search(self.server.said()))
        self.assertLessEqual(set(heavy.end()), {200, 503})
        self.assertEqual(self.metric("tutti_auto_changes_total"), 0)
        self.assertEqual(self.shown_policies()["em"], "auto (window)")
        self.assertEqual(self.server.end(signal.SIGTERM), 0, self.server.said())


class Refusals(unittest.TestCase):
    def check(self, tutti):
        with tempfile.TemporaryDirectory() as folder:
            make_model(pathlib.Path(folder), "em", tutti)
            answer = run("models", "check", folder)
        return answer.returncode, answer.stdout + answer.stderr

    def test_models_check(self):
        self.assertEqual(self.check(AUTO)[0], 0)
        code, said = self.check('policy { name: "auto" option { key: "intervall" value: "1s" } }\n')
        self.assertEqual(code, 1)
        self.assertIn("policy auto: no option 'intervall'; did you mean 'interval'?", said)
        code, said = self.check('policy { name: "auto" option { key: "gain" value: "0" } }\n')
        self.assertEqual(code, 1)
        self.assertIn("policy auto: ", said)
        code, said = self.check('policy { name: "autto" }\n')
        self.assertEqual(code, 1)
        self.assertIn("did you mean 'auto'?", said)

    def test_experiments_and_replays_need_one_policy(self):
        answer = run("experiment", ROOT / "experiments" / "symphony" / "densenet121-24-devices.pbtxt", "--policy", "auto")
        self.assertEqual(answer.returncode, 2, answer.stdout + answer.stderr)
        self.assertIn("auto is the choice of a server that serves; an experiment needs one policy", answer.stderr)
        answer = run("replay", "any.rec", "--policy", "auto")
        self.assertEqual(answer.returncode, 2)
        self.assertIn("auto is the choice of a server that serves: name one policy", answer.stderr)

    def test_options_are_listed(self):
        self.assertIn("  interval: 100ms .. 3600s (30s)\n", run("policies", "auto").stdout)
        auto = json.loads(run("policies", "auto", "--json").stdout)
        self.assertEqual([option["key"] for option in auto[0]["options"]], ["interval", "window", "gain"])


if __name__ == "__main__":
    unittest.main()
