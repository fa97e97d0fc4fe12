#!/usr/bin/env python3
"""`tutti experiment --trace` and GET /v2/debug/trace: what Perfetto loads is well formed and says what happened."""
import collections
import csv
import json
import pathlib
import signal
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "python"))

from needs import needing  # noqa: E402
from plain_client import PROGRAM, Server, get, infer_body, load, make_two_models  # noqa: E402

EXPERIMENT = """
title: "a trace" seed: 5 duration_s: 2
device { count: 3 }
model { name: "a" slo_ms: 20 profile { linear { alpha_ms: 1 beta_ms: 3 } } }
model { name: "b" slo_ms: 30 profile { linear { alpha_ms: 2 beta_ms: 2 } } }
load { rate: 900 }
policy { name: "deferred" }
"""


def slices_of(trace):
    """{(pid, tid): [(begin, end, event)]} in order, in whole ns."""
    slices = collections.defaultdict(list)
    for event in trace["traceEvents"]:
        if event["ph"] == "X":
            begin = round(event["ts"] * 1000)
            slices[event["pid"], event["tid"]].append((begin, begin + round(event["dur"] * 1000), event))
    for track in slices.values():
        track.sort(key=lambda one: one[:2])
    return slices


def check_well_formed(test, trace):
    """Every event has what its phase needs, slices of a track do not overlap, flows are paired and stand on slices."""
    slices = slices_of(trace)
    for track in slices.values():
        for (_, end, _), (begin, _, _) in zip(track, track[1:]):
            test.assertLessEqual(end, begin)
    flows = collections.defaultdict(list)
    names = {}
    for event in trace["traceEvents"]:
        test.assertIn(event["ph"], "MXsf")
        test.assertIsInstance(event["pid"], int)
        test.assertIsInstance(event["tid"], int)
        if event["ph"] == "M":
            if event["name"] == "thread_name":
                names[event["pid"], event["tid"]] = event["args"]["name"]
            continue
        test.assertGreaterEqual(event["ts"], 0)
        if event["ph"] in "sf":
            flows[event["id"]].append(event)
            at = round(event["ts"] * 1000)
            test.assertTrue(
                any(b <= at <= e for b, e, _ in slices[event["pid"], event["tid"]]), event
            )
    for ends in flows.values():
        test.assertEqual(sorted(event["ph"] for event in ends), ["f", "s"])
        begin = next(event for event in ends if event["ph"] == "s")
        finish = next(event for event in ends if event["ph"] == "f")
        test.assertLessEqual(begin["ts"], finish["ts"])
        test.assertEqual(finish["bp"], "e")
    for track in slices:
        test.assertIn(track, names)
    return slices, flows, names


class Experiment(unittest.TestCase):
    def test_it_says_what_the_tables_say(self):
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            (folder / "e.pbtxt").write_text(EXPERIMENT)
            files = [folder / name for name in ("t.json", "tasks.csv", "outcomes.csv")]
            subprocess.run(
                [PROGRAM, "experiment", folder / "e.pbtxt", "--trace", files[0], "--tasks", files[1]]
                + ["--outcomes", files[2]],
                check=True,
                capture_output=True,
            )
            trace = json.loads(files[0].read_text())
            tasks = list(csv.DictReader(files[1].read_text().splitlines()))
            outcomes = list(csv.DictReader(files[2].read_text().splitlines()))
        slices, flows, names = check_well_formed(self, trace)
        batches, requests = [], {}
        for (_, thread), track in slices.items():
            for begin, end, event in track:
                if event["cat"] == "batch":
                    batches.append((begin, end, thread - 1, event["name"], event["args"]["requests"]))
                else:
                    number = int(event["name"].split()[1])
                    requests[number] = (begin, end, event["args"])
        told = [
            (int(t["start_ns"]), int(t["end_ns"]), int(t["executor"]), t["model"], len(t["requests"].split()))
            for t in tasks
        ]
        self.assertEqual(sorted(batches), sorted(told))
        self.assertEqual(trace["otherData"]["requests"], len(outcomes))
        self.assertEqual(trace["otherData"]["requests_without_a_track"], 0)
        self.assertEqual(len(requests), len(outcomes))
        for outcome in outcomes:
            begin, end, args = requests[int(outcome["request"])]
            self.assertEqual(begin, int(outcome["arrived_ns"]))
            self.assertEqual(end, int(outcome["finished_ns"]))
            self.assertEqual(args["model"], outcome["model"])
            same = {"ok": "done", "late": "done"}.get(outcome["outcome"], outcome["outcome"])
            self.assertEqual(args["ending"], same)
            slack_ns = int(outcome["deadline_ns"]) - end if outcome["deadline_ns"] else None
            self.assertEqual("slack_us" in args, slack_ns is not None)
            if slack_ns is not None:
                self.assertEqual(args["slack_us"], int(slack_ns / 1000))
        computed = sum(o["outcome"] in ("ok", "late") for o in outcomes)
        self.assertGreater(computed, 100)
        self.assertEqual(len(flows), computed)
        self.assertIn("executor 0", names.values())
        self.assertIn('requests of a', names.values())

    def test_it_belongs_to_a_single_run(self):
        experiment = ROOT / "experiments" / "symphony" / "densenet121-8-devices.pbtxt"
        answer = subprocess.run(
            [PROGRAM, "experiment", experiment, "--goodput", "--trace", "/tmp/t"],
            capture_output=True,
            text=True,
        )
        self.assertEqual(answer.returncode, 2)
        self.assertIn("--trace", answer.stderr)


class Ids(unittest.TestCase):
    """The ids that clients gave to their requests; the model is emulated."""

    def test_they_are_shown_of_any_ending(self):
        with tempfile.TemporaryDirectory() as folder:
            model = pathlib.Path(folder, "em")
            (model / "1").mkdir(parents=True)
            tensor = '{ name: "%s" data_type: TYPE_FP32 dims: [ 16 ] }'
            (model / "config.pbtxt").write_text(
                f'backend: "emulated" max_batch_size: 4 input {tensor % "input"} output {tensor % "output"}'
            )
            (model / "profile.pbtxt").write_text("linear { alpha_ms: 1 beta_ms: 20 }")
            server = Server(folder, "--executors", "1")
            for name, timeout in (("first", None), ('a "b" \u00e9\n', None), ("x" * 300, None), (None, None), ("late", 1000)):
                body = json.loads(infer_body(timeout))
                if name is not None:
                    body["id"] = name
                code = get(server.address, "/v2/models/em/infer", "POST", json.dumps(body))[0]
                self.assertEqual(code, 503 if timeout else 200)
            trace = json.loads(get(server.address, "/v2/debug/trace")[2])
            self.assertEqual(server.end(signal.SIGTERM), 0)
        check_well_formed(self, trace)
        requests = [event["args"] for event in trace["traceEvents"] if event.get("cat") == "request"]
        ids = [args.get("request_id") for args in requests if args["ending"] == "done"]
        self.assertEqual(ids, ["first", 'a "b" \u00e9\n', "x" * 43, None])
        for args in requests:
            if args["ending"] == "dropped":
                self.assertEqual(args["request_id"], "late")
        self.assertEqual(trace["otherData"]["requests"], len(requests))


@needing("onnx")
class OfAServer(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        with tempfile.TemporaryDirectory() as folder:
            server = Server(make_two_models(folder))
            cls.codes = load(server.address, ("mlp", "quick"), 8, 40)
            cls.answer = get(server.address, "/v2/debug/trace?seconds=600")
            cls.empty = get(server.address, "/v2/debug/trace?seconds=1&x=2")
            cls.bad = [
                get(server.address, "/v2/debug/trace?" + query)[0]
                for query in ("seconds=0", "seconds=x", "seconds=", "seconds=-1", "since=5", "seconds=99999")
            ]
            cls.plain = get(server.address, "/v2/debug/trace")
            cls.post = get(server.address, "/v2/debug/trace", "POST", "{}")
            cls.exit_code = server.end(signal.SIGTERM)

    def test_well_formed_and_complete(self):
        self.assertEqual(self.exit_code, 0)
        status, headers, body = self.answer
        self.assertEqual(status, 200)
        self.assertEqual(headers["Content-Type"], "application/json")
        trace = json.loads(body)
        slices, flows, names = check_well_formed(self, trace)
        computed = self.codes.count(200)
        self.assertGreater(computed, 50)
        # Requests whose clients vanished may have been computed, too.
        self.assertTrue(computed <= len(flows) <= computed + 40, (computed, len(flows)))
        models = {e["args"]["model"] for track in slices.values() for _, _, e in track if e["cat"] == "request"}
        self.assertEqual(models, {"mlp", "quick"})
        self.assertIn("executor 0", names.values())
        domains = [e["args"]["name"] for e in trace["traceEvents"] if e["name"] == "process_name"]
        self.assertEqual(sorted(d.split(": ")[1] for d in domains), ["deferred", "window"])

    def test_the_query(self):
        self.assertEqual(self.bad, [400] * len(self.bad))
        self.assertEqual(self.empty[0], 400)
        self.assertEqual(self.plain[0], 200)
        json.loads(self.plain[2])
        self.assertEqual(self.post[0], 405)


if __name__ == "__main__":
    unittest.main(verbosity=1)
