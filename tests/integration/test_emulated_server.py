#!/usr/bin/env python3
"""S11 over HTTP: emulated models in steps, on devices that several executors share, with copies, and on 4096 executors. What
happened is read from the server's trace (/v2/debug/trace). Batches never end before their time, however busy the machine is,
so times are lower bounds."""
import concurrent.futures
import http.client
import json
import os
import pathlib
import re
import subprocess
import sys
import threading
import time
import unittest

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "python"))

from own_folder import make_folder  # noqa: E402
from server_process import Server  # noqa: E402

PROGRAM = os.environ["TUTTI_PROGRAM"]
CONFIG = """backend: "emulated"
max_batch_size: 4
input { name: "x" data_type: TYPE_FP32 dims: 4 }
output { name: "y" data_type: TYPE_FP32 dims: 4 }
"""
STEP = 'step { name: "%s" point { batch: 1 latency_ns: %d } point { batch: 4 latency_ns: %d } }\n'
STEPS = "point { batch: 1 latency_ns: 9000000 } point { batch: 4 latency_ns: 18000000 }\n" + "".join(
    STEP % (name, ns, 2 * ns) for name, ns in (("a", 2000000), ("b", 3000000), ("c", 4000000))
)
STEP_US = (2000, 3000, 4000)  # of one row; four rows take twice as long


CELL = 'step { name: "%s" point { batch: 1 latency_ns: %d } point { batch: 16 latency_ns: 5000000 } }\n'
CELL_US = (2000, 3000)
CELLS = "linear { beta_ms: 1 }\n" + CELL % ("first", 2000000) + CELL % ("second", 3000000)
EMULATED_CELLS = 'slo_ms: 600000 policy { name: "%s" } emulation { cells { kind: %s max_length: 16 } }'
CELL_TENSORS = {
    "tree": """input { name: "left" data_type: TYPE_INT64 dims: -1 } input { name: "right" data_type: TYPE_INT64 dims: -1 }
output { name: "output" data_type: TYPE_UINT8 dims: 1 }
""",
    "sequence": """input { name: "lengths" data_type: TYPE_INT32 dims: -1 }
output { name: "output" data_type: TYPE_UINT8 dims: 1 }
""",
}


class EmulatedServer(unittest.TestCase):
    def start(self, models, *flags, executors=2):
        """`models`: by name, profile.pbtxt and tutti.pbtxt."""
        folder = make_folder(self)
        for name, (profile, settings) in models.items():
            (folder / name / "1").mkdir(parents=True)
            tensors = CELL_TENSORS["tree" if "TREE" in settings else "sequence"]
            config = 'backend: "emulated" max_batch_size: 16\n' + tensors if "cells {" in settings else CONFIG
            (folder / name / "config.pbtxt").write_text(config)
            (folder / name / "profile.pbtxt").write_text(profile)
            (folder / name / "tutti.pbtxt").write_text(settings)
        self.folder = folder
        command = [PROGRAM, "serve", "--model-repository", folder, "--http-port", "0", "--grpc-port", "0"]
        self.server = Server(command + ["--executors", str(executors), "--run-here-us", "0", *flags])
        self.addCleanup(self.server.process.kill)
        self.assertTrue(self.server.wait_ready(60), self.server.said())

    def stop(self):
        self.assertEqual(self.server.stop(60), 0, self.server.said())

    def request(self, method, path, body=None):
        connection = http.client.HTTPConnection(self.server.address.removeprefix("http://"), timeout=60)
        connection.request(method, path, body)
        answer = connection.getresponse()
        content = answer.read()
        connection.close()
        return answer.status, content

    def ask(self, model, value):
        row = [float(value)] * 4
        body = {"inputs": [{"name": "x", "shape": [1, 4], "datatype": "FP32", "data": row}]}
        status, content = self.request("POST", f"/v2/models/{model}/infer", json.dumps(body))
        self.assertEqual(status, 200, content)
        self.assertEqual(json.loads(content)["outputs"][0]["data"], row)

    def ask_many(self, model, count):
        with concurrent.futures.ThreadPoolExecutor(count) as pool:
            for done in [pool.submit(self.ask, model, i) for i in range(count)]:
                done.result(60)

    def batches(self):
        status, content = self.request("GET", "/v2/debug/trace?seconds=60")
        self.assertEqual(status, 200)
        return [event for event in json.loads(content)["traceEvents"] if event.get("cat") == "batch"]

    def rows_by_step(self, batches):
        """How many rows each step computed; checks that no batch was quicker than its steps."""
        rows = [0, 0, 0]
        for batch in batches:
            given = batch["args"]
            least = 0
            for step in range(given["first_step"], given["last_step_done"] + 1):
                rows[step] += given["rows"]
                least += STEP_US[step] * (1 + (given["rows"] - 1) / 3)
            self.assertGreaterEqual(batch["dur"], least - 1)
        return rows

    def check_models(self):
        """What serves has no problem in `tutti models check` either."""
        done = subprocess.run([PROGRAM, "models", "check", self.folder], capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_stages(self):
        """D2: a policy between stages runs each of an emulated model as a batch of its own."""
        self.start({"m": (STEPS, 'slo_ms: 600000 policy { name: "diversity" }')})
        self.ask_many("m", 8)
        batches = self.batches()
        self.assertEqual(self.rows_by_step(batches), [8, 8, 8])
        self.assertEqual({b["args"]["first_step"] for b in batches}, {0, 1, 2})
        self.assertTrue(all(b["args"]["first_step"] == b["args"]["last_step_done"] for b in batches))
        self.check_models()
        self.stop()

    def test_nodes(self):
        """L1: so does a policy between nodes, whose batches run on until it asks for them back."""
        self.start({"m": (STEPS, 'slo_ms: 600000 policy { name: "lazy" }')})
        self.ask_many("m", 8)
        batches = [b for b in self.batches() if b["args"]["last_step_done"] >= b["args"]["first_step"]]
        self.assertEqual(self.rows_by_step(batches), [8, 8, 8])
        self.assertTrue({b["args"]["outcome"] for b in batches} <= {"done", "preempted"})
        self.stop()

    def infer(self, model, inputs):
        """`inputs`: rows of one request by name, with their type. Its answer is a zero."""
        inputs = [{"name": n, "shape": [1, len(row)], "datatype": t, "data": row} for n, t, row in inputs]
        status, content = self.request("POST", f"/v2/models/{model}/infer", json.dumps({"inputs": inputs}))
        self.assertEqual(status, 200, content)
        self.assertEqual(json.loads(content)["outputs"][0]["data"], [0])

    def rows_by_type(self, model):
        """Cells that each type ran; checks that no batch was quicker than a cell of it."""
        rows = {}
        for batch in self.batches():
            given = batch["args"]
            if batch["name"] == model and given["last_step_done"] >= 0:
                rows[given["first_step"]] = rows.get(given["first_step"], 0) + given["rows"]
                self.assertGreaterEqual(batch["dur"], CELL_US[given["first_step"]] - 1)
        return rows

    def test_cells(self):
        """C2, C4: requests to emulated models become cells, which batch across requests."""
        self.start({k: (CELLS, EMULATED_CELLS % ("cellular", k.upper())) for k in ("seq2seq", "tree")} | {
            "chain": (CELLS.split("step", 1)[0] + CELL % ("cell", 2000000), EMULATED_CELLS % ("cellular", "CHAIN"))
        })
        with concurrent.futures.ThreadPoolExecutor(6) as pool:
            lengths = [("lengths", "INT32", [3, 0, 0, 0])]
            children = [("left", "INT64", [1, 3, -1, -1, -1]), ("right", "INT64", [2, 4, -1, -1, -1])]
            work = [pool.submit(self.infer, "chain", lengths) for _ in range(6)]
            work += [pool.submit(self.infer, "seq2seq", lengths) for _ in range(6)]
            work += [pool.submit(self.infer, "tree", children) for _ in range(6)]
            for done in work:
                done.result(60)
        self.assertEqual(self.rows_by_type("chain"), {0: 6 * 4})
        cells = self.rows_by_type("seq2seq")
        self.assertEqual(cells[0], 6 * 4)
        # At least three words of each, and at most what was submitted ahead before the third was known.
        self.assertIn(cells[1], range(6 * 3, 6 * 6))
        self.assertEqual(self.rows_by_type("tree"), {0: 6 * 3, 1: 6 * 2})
        self.check_models()
        self.stop()

    def test_sequences(self):
        """C7, L1: policies of whole sequences run the same models: in step, or round by round."""
        for policy in ("padded", "lazy"):
            self.start({"m": (CELLS, EMULATED_CELLS % (policy, "SEQ2SEQ"))})
            lengths = [("lengths", "INT32", [3, 0, 0, 0])]
            with concurrent.futures.ThreadPoolExecutor(4) as pool:
                for done in [pool.submit(self.infer, "m", lengths) for _ in range(4)]:
                    done.result(60)
            # Four encoders and three decoders, whatever the batches.
            self.assertGreaterEqual(sum(b["dur"] for b in self.batches()), 4 * CELL_US[0] + 3 * CELL_US[1] - 10)
            self.stop()

    def test_shared_device(self):
        """Two executors of one device slow each other down by their demands; those of two devices do not."""
        whole = "point { batch: 1 latency_ns: 100000000 }"
        window = 'slo_ms: 600000 policy { name: "serial" } '
        self.start(
            {"shared": (whole, window + "emulation { device_executors: 2 }"), "apart": (whole, window + "emulation { }")}
        )
        for model in ("shared", "apart"):
            self.ask_many(model, 8)
        batches = self.batches()
        spans = {m: sorted((b["ts"], b["ts"] + b["dur"]) for b in batches if b["name"] == m) for m in ("shared", "apart")}
        for model, times in spans.items():
            self.assertEqual(len(times), 8)
            # No device does more than a second of work in a second: 8 batches of 100 ms on one, or on two devices.
            devices = 1 if model == "shared" else 2
            took = max(end for _, end in times) - min(start for start, _ in times)
            self.assertGreaterEqual(took, 8 * 100000 / devices - 10)
        # Both executors of the shared device were busy at once: it was shared, not used in turns.
        overlaps = [a for a, b in zip(spans["shared"], spans["shared"][1:]) if b[0] < a[1]]
        self.assertTrue(overlaps)
        self.assertTrue(all(end - start >= 100000 - 1 for times in spans.values() for start, end in times))
        self.stop()

    def test_copies(self):
        """A batch lasts for its copies too: 30 ms in and 15 ms out per row beside 10 ms of work."""
        profile = "point { batch: 1 latency_ns: 10000000 } point { batch: 4 latency_ns: 10000000 }"
        copies = "copy_in { fixed_us: 5000 gb_per_s: 0.1 } input_bytes: 3000000 copy_out { gb_per_s: 0.1 } output_bytes: 1500000"
        self.start({"m": (profile, 'slo_ms: 600000 policy { name: "window" } emulation { %s }' % copies)}, executors=1)
        self.ask_many("m", 6)
        batches = self.batches()
        self.assertEqual(sum(b["args"]["rows"] for b in batches), 6)
        for batch in batches:
            self.assertGreaterEqual(batch["dur"], 5000 + 10000 + 45000 * batch["args"]["rows"] - 1)
        self.stop()

    def test_refusals(self):
        """What the server does not emulate makes the model unavailable, with the reason."""
        self.start(
            {
                "good": (STEPS, ""),
                "cut": (STEPS, "stages { count: 3 }"),
                "cells": (STEPS, 'unfold { kind: CHAIN } cell { file: "cell.onnx" }'),
                "plugin": (CELLS, "emulation { cells { kind: PLUGIN } }"),
                "binary": (STEPS, "emulation { cells { kind: TREE } }"),
                "stepless": ("linear { beta_ms: 1 }", "emulation { cells { } }"),
                "idle": (STEPS, "emulation { copy_in { gb_per_s: 1 } }"),
            }
        )
        _, content = self.request("POST", "/v2/repository/index")
        reasons = {entry["name"]: entry["reason"] for entry in json.loads(content)}
        self.assertEqual(reasons["good"], "")
        self.assertIn("a model with backend 'emulated' has no graph to cut", reasons["cut"])
        self.assertIn("a model with backend 'emulated' has no files of cells", reasons["cells"])
        self.assertIn("cells of a plug-in are not emulated", reasons["plugin"])
        self.assertIn("which has 3: write a `step { ... }` per type of cell, leaf and inner node", reasons["binary"])
        self.assertIn("which has 0", reasons["stepless"])
        self.assertIn("copy_in needs input_bytes", reasons["idle"])
        self.stop()

    def test_deadline_beside_other_requests(self):
        """A request counts from when it came, not from when the server last ran one: what it is said to have waited is at most
        what its client waited. Others ask all the time meanwhile, so that the server finds it without a wait."""
        self.start({"m": (STEPS, "slo_ms: 600000")})
        address, done = self.server.address.removeprefix("http://"), threading.Event()

        def ask_others():
            connection = http.client.HTTPConnection(address, timeout=60)
            while not done.is_set():
                connection.request("GET", "/v2/health/live")
                connection.getresponse().read()
            connection.close()

        others = [threading.Thread(target=ask_others) for _ in range(2)]
        for other in others:
            other.start()
        row = {"inputs": [{"name": "x", "shape": [1, 4], "datatype": "FP32", "data": [0] * 4}], "parameters": {"timeout": 30000}}
        try:
            for _ in range(20):
                time.sleep(0.06)
                began = time.monotonic()
                status, content = self.request("POST", "/v2/models/m/infer", json.dumps(row))
                waited = re.search(rb"it had waited ([0-9.]+) ms", content)
                self.assertEqual(status, 503 if waited else 200, content)
                if waited:
                    self.assertLessEqual(float(waited[1]), 1e3 * (time.monotonic() - began), content)
        finally:
            done.set()
            for other in others:
                other.join()
        self.stop()

    def test_4096_executors(self):
        """A domain of 4096 executors, eight to a device, serves; the advice says how many are too many."""
        profile = "point { batch: 1 latency_ns: 1000000 demand: 0.125 }"
        settings = 'slo_ms: 600000 policy { name: "serial" } emulation { device_executors: 8 }'
        self.start({"m": (profile, settings)}, executors=4096)
        self.ask_many("m", 32)
        _, content = self.request("GET", "/metrics")
        page = content.decode()
        self.assertIn('tutti_domain_executors{domain="0",policy="serial"} 4096\n', page)
        self.assertIn('nv_inference_request_success{model="m",version="1"} 32\n', page)
        self.assertEqual(sum(b["args"]["rows"] for b in self.batches()), 32)
        self.stop()


if __name__ == "__main__":
    unittest.main(verbosity=1)
