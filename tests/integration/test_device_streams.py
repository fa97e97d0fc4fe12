#!/usr/bin/env python3
"""D4, E1, E7 over HTTP: models on the streams of a device. What happened is read from the server's trace: copies and batches. An
emulated device never ends an operation before its time, so times are lower bounds; order and overlap are exact."""
import concurrent.futures
import http.client
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "python"))

from needs import needing  # noqa: E402
from plain_client import get  # noqa: E402
from server_process import Server  # noqa: E402

PROGRAM = os.environ["TUTTI_PROGRAM"]
EMULATED = """backend: "emulated"
max_batch_size: 4
input { name: "x" data_type: TYPE_FP32 dims: 4 }
output { name: "y" data_type: TYPE_FP32 dims: 4 }
"""
WORDS = """backend: "wordpiece"
max_batch_size: 4
input { name: "text" data_type: TYPE_STRING dims: 1 }
output { name: "input_ids" data_type: TYPE_INT64 dims: 16 }
"""
PROFILE = "point { batch: 1 latency_ns: 8000000 } point { batch: 4 latency_ns: 8000000 }\n"
STEPS = PROFILE + "".join('step { name: "%s" point { batch: 1 latency_ns: 4000000 } }\n' % name for name in "ab")
COPIES = "emulation { copy_in { fixed_us: 3000 } copy_out { fixed_us: 1000 } }"
COPY_IN_US, COPY_OUT_US, WORK_US = 3000, 1000, 8000
DOUBLING = "".join("point { batch: %d latency_ns: 8000000 } " % rows for rows in (1, 2, 4))
MOST_ROUNDS = 20


def end_of(event):
    return event["ts"] + event["dur"]


def picker():
    """y = the row of a table of 3 that x names: out of range, it fails; needs onnx."""
    from onnx import TensorProto, helper

    table = helper.make_tensor("table", TensorProto.FLOAT, [3], [10.0, 20.0, 30.0])
    graph = helper.make_graph(
        [helper.make_node("Gather", ["table", "x"], ["y"])],
        "picker",
        [helper.make_tensor_value_info("x", TensorProto.INT64, ["N", 2])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", 2])],
        [table],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 8
    return model.SerializeToString()


def ladder():
    """h1 = x + 1, h2 = h1 * h1, y = h2 + h1, a stage each; and an exit behind the first: y = -h1 where h1 is above 10; needs onnx."""
    from onnx import TensorProto, helper

    def make(nodes, inputs, outputs, constants):
        rows = lambda name, width: helper.make_tensor_value_info(name, TensorProto.FLOAT, ["N", width])  # noqa: E731
        tensors = [helper.make_tensor(name, TensorProto.FLOAT, [1], [value]) for name, value in constants.items()]
        nodes = [helper.make_node(op, ins, outs, **attributes) for op, ins, outs, attributes in nodes]
        graph = helper.make_graph(nodes, "g", [rows(*i) for i in inputs], [rows(*o) for o in outputs], tensors)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
        model.ir_version = 8
        return model.SerializeToString()

    trunk = [("Add", ["x", "one"], ["h1"], {}), ("Mul", ["h1", "h1"], ["h2"], {}), ("Add", ["h2", "h1"], ["y"], {})]
    exit_ = [("Neg", ["h1"], ["y"], {}), ("ReduceMin", ["h1"], ["least"], {"axes": [1]}), ("Sub", ["least", "ten"], ["goes"], {})]
    return make(trunk, [("x", 2)], [("y", 2)], {"one": 1.0}), make(exit_, [("h1", 2)], [("y", 2), ("goes", 1)], {"ten": 10.0})


class DeviceStreams(unittest.TestCase):
    def put(self, name, settings, config=EMULATED, profile=PROFILE, model=None):
        folder = self.folder / name
        (folder / "1").mkdir(parents=True)
        (folder / "config.pbtxt").write_text(config)
        (folder / "tutti.pbtxt").write_text(settings)
        if profile:
            (folder / "profile.pbtxt").write_text(profile)
        if model:
            (folder / "1" / "model.onnx").write_bytes(model)

    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)

    def start(self, *flags, executors=2):
        command = [PROGRAM, "serve", "--model-repository", self.folder, "--http-port", "0", "--grpc-port", "0"]
        self.server = Server(command + ["--executors", str(executors), *flags])
        self.addCleanup(self.server.process.kill)
        self.assertTrue(self.server.wait_ready(60), self.server.said())

    def stop(self):
        self.assertEqual(self.server.stop(60), 0, self.server.said())

    def ask(self, model, row, datatype="FP32"):
        inputs = [{"name": "x", "shape": [1, len(row)], "datatype": datatype, "data": row}]
        client = http.client.HTTPConnection(self.server.address, timeout=60)
        client.request("POST", f"/v2/models/{model}/infer", json.dumps({"inputs": inputs}))
        answer = client.getresponse()
        content = json.loads(answer.read())
        client.close()
        return answer.status, content["outputs"][0]["data"] if answer.status == 200 else content["error"]

    def ask_many(self, model, rows, datatype="FP32"):
        with concurrent.futures.ThreadPoolExecutor(len(rows)) as pool:
            return list(pool.map(lambda row: self.ask(model, row, datatype), rows))

    def echo_many(self, model, count):
        rows = [[float(i), 1.0, 2.0, 3.0] for i in range(count)]
        self.assertEqual(self.ask_many(model, rows), [(200, row) for row in rows])

    def events(self, model):
        """Batches of the model by run, and its copies by direction, each a list in order of time by run."""
        found = json.loads(get(self.server.address, "/v2/debug/trace?seconds=600")[2])["traceEvents"]
        batches, copies = {}, {"copies in": {}, "copies out": {}, "copies on arrival": {}}
        for event in sorted((e for e in found if e["ph"] == "X"), key=lambda e: e["ts"]):
            if event["cat"] == "batch" and event["name"] == model:
                self.assertNotIn(event["args"]["run"], batches)
                batches[event["args"]["run"]] = event
            elif event["cat"] == "copy" and event["args"]["model"] == model:
                copies[event["name"]].setdefault(event["args"]["run"], []).append(event)
        return batches, copies["copies in"], copies["copies out"], copies["copies on arrival"]

    def check_arrivals(self, batches, out, arrived):
        """E1: every request was copied alone and in order, and before it ran; how many copies were beside another batch's work."""
        copies = sorted((c for found in arrived.values() for c in found), key=lambda c: c["ts"])
        self.assertTrue(all(c["args"]["requests"] == 1 and c["dur"] >= COPY_IN_US - 1 for c in copies))
        for before, after in zip(copies, copies[1:]):
            self.assertGreaterEqual(after["ts"], end_of(before) - 1)
        self.assertEqual(set(arrived), set(batches))
        overlaps = 0
        for run, batch in batches.items():
            self.assertEqual(len(arrived[run]), batch["args"]["requests"])
            self.assertGreaterEqual(out[run][0]["ts"], end_of(arrived[run][-1]) + WORK_US - 1)
            work_us = (max(batch["ts"], end_of(arrived[run][-1])), out[run][0]["ts"])
            overlaps += sum(c["ts"] < work_us[1] and work_us[0] < end_of(c) for c in copies if c["args"]["run"] != run)
        return overlaps

    def test_each(self):
        """E1: each request is copied when it arrives, beside the work of others; its batch waits for the last copy."""
        elastic = 'policy { name: "elastic" option { key: "workers" value: "1,4" } }'
        self.put("window", 'slo_ms: 600000 policy { name: "window" } device { } ' + COPIES)
        self.put("elastic", elastic + " device { } " + COPIES, profile=DOUBLING)
        self.start()
        for model in ("window", "elastic"):
            overlaps, sent = 0, 0
            while overlaps == 0 and sent < 12 * MOST_ROUNDS:
                self.echo_many(model, 12)
                sent += 12
                batches, into, out, arrived = self.events(model)
                self.assertEqual(sum(b["args"]["requests"] for b in batches.values()), sent)
                self.assertEqual((into, set(out)), ({}, set(batches)))
                overlaps = self.check_arrivals(batches, out, arrived)
            self.assertGreater(overlaps, 0)
        page = get(self.server.address, "/metrics")[2].decode()
        self.assertIn('tutti_input_slots_used{model="elastic",version="1"} 0\n', page)
        self.assertIn('nv_inference_request_success{model="window",version="1"} ', page)
        self.stop()

    def ends(self, model):
        """Of each request of the model: when it ended, and when its batch did."""
        found = json.loads(get(self.server.address, "/v2/debug/trace?seconds=600")[2])["traceEvents"]
        batches = {e["args"]["run"]: end_of(e) for e in found if e["ph"] == "X" and e["cat"] == "batch" and e["name"] == model}
        requests = [e for e in found if e["ph"] == "X" and e["cat"] == "request" and e["args"]["model"] == model]
        return [(end_of(e), batches[e["args"]["run"]]) for e in requests]

    def test_answers(self):
        """E7: outputs return one request after the other, and answers with them; copied as a whole, they leave with their batch."""
        window = 'slo_ms: 600000 policy { name: "window" option { key: "max_delay" value: "20ms" } } '
        copies = "emulation { copy_out { fixed_us: 20000 } }"
        self.put("each", window + "device { } " + copies)
        self.put("ordered", window + "device { } " + copies, config=EMULATED + "dynamic_batching { preserve_ordering: true }")
        self.put("whole", window + "device { copies: WHOLE } " + copies)
        self.start()
        for model in ("each", "ordered"):
            early, sent = 0, 0
            while early == 0 and sent < 12 * MOST_ROUNDS:
                self.echo_many(model, 12)
                sent += 12
                early = sum(ended < batch_ended - 1 for ended, batch_ended in self.ends(model))
            self.assertGreater(early, 0)
            self.assertEqual(len(self.ends(model)), sent)
        self.echo_many("whole", 12)
        self.assertTrue(all(ended >= batch_ended - 1 for ended, batch_ended in self.ends("whole")))
        page = get(self.server.address, "/metrics")[2].decode()
        self.assertIn('nv_inference_request_success{model="whole",version="1"} 12\n', page)
        self.stop()

    def test_whole(self):
        """E7: a batch is copied as a whole, strictly within its run; nothing is copied when it arrives."""
        self.put("m", 'slo_ms: 600000 policy { name: "window" } device { copies: WHOLE } ' + COPIES)
        self.start()
        self.echo_many("m", 12)
        batches, into, out, arrived = self.events("m")
        self.assertEqual(sum(b["args"]["requests"] for b in batches.values()), 12)
        self.assertEqual((set(into), set(out), arrived), (set(batches), set(batches), {}))
        for run, batch in batches.items():
            (came,), (left,) = into[run], out[run]
            self.assertGreaterEqual(came["ts"], batch["ts"] - 1)
            self.assertGreaterEqual(came["dur"], COPY_IN_US - 1)
            self.assertGreaterEqual(left["ts"], end_of(came) + WORK_US - 1)
            self.assertGreaterEqual(left["dur"], COPY_OUT_US - 1)
            self.assertLessEqual(end_of(left), end_of(batch) + 1)
        page = get(self.server.address, "/metrics")[2].decode()
        copied_us = float(page.split('nv_inference_compute_input_duration_us{model="m",version="1"} ')[1].split("\n")[0])
        self.assertGreaterEqual(copied_us, 12 * COPY_IN_US)
        self.stop()

    def test_steps(self):
        """D4: rows stay on the device between the steps of an emulated model; inputs are copied once."""
        self.put("m", 'slo_ms: 600000 policy { name: "diversity" option { key: "ahead" value: "on" } } device { }', profile=STEPS)
        self.start()
        self.echo_many("m", 8)
        batches, into, out, arrived = self.events("m")
        first = {run for run, b in batches.items() if b["args"]["first_step"] == 0}
        last = {run for run, b in batches.items() if b["args"]["last_step_done"] == 1}
        self.assertEqual(sum(batches[run]["args"]["requests"] for run in first), 8)
        self.assertEqual((into, set(out), set(arrived)), ({}, last, first))
        self.assertEqual(sum(map(len, arrived.values())), 8)
        self.stop()

    @needing("onnx")
    def test_computed(self):
        """Answers of ONNX Runtime on the host device; a request at fault is refused alone, whatever batch it was in."""
        config = 'max_batch_size: 8\ninput { name: "x" data_type: TYPE_INT64 dims: 2 }\noutput { name: "y" data_type: TYPE_FP32 dims: 2 }\n'
        for name, settings in (("device", "device { }"), ("plain", "")):
            window = 'policy { name: "window" option { key: "max_delay" value: "20ms" } } '
            self.put(name, window + settings, config=config, profile="point { batch: 1 latency_ns: 100000 }\n", model=picker())
        self.start()
        rows = [[i % 3, i % 2] for i in range(16)]
        rows[5] = [0, 7]
        answers = {}
        for name in ("device", "plain"):
            answers[name] = self.ask_many(name, rows, "INT64")
            for i, (status, content) in enumerate(answers[name]):
                if i == 5:
                    self.assertNotEqual(status, 200)
                    self.assertIn("idx=7", content)
                else:
                    self.assertEqual((status, content), (200, [10.0 * (1 + v) for v in rows[i]]))
        self.assertEqual(answers["device"][5][0], answers["plain"][5][0])
        batches, _, out, arrived = self.events("device")
        self.assertEqual((set(arrived), set(out)), (set(batches), set(batches)))
        self.assertEqual(self.events("plain")[1:], ({}, {}, {}))
        self.stop()

    @needing("onnx")
    def test_exits(self):
        """D8: which requests left, and where, read from the trace. What decides is read back behind the stage with the exit, and so are the
        answers of those that leave; behind no other. Answers are those of the processor."""
        config = 'max_batch_size: 8\ninput { name: "x" data_type: TYPE_FP32 dims: 2 }\noutput { name: "y" data_type: TYPE_FP32 dims: 2 }\n'
        exits = 'stages { after: "h1" after: "h2" } exit { after_stage: 0 graph: "exit.onnx" condition: "goes" } slo_ms: 600000 '
        diversity = exits + 'policy { name: "diversity" option { key: "ahead" value: "on" } } '
        trunk, exit_ = ladder()
        lazy = exits + 'policy { name: "lazy" } device { }'
        for name, settings in (("device", diversity + "device { }"), ("plain", diversity), ("lazy", lazy)):
            self.put(name, settings, config=config, profile=None, model=trunk)
            (self.folder / name / "1" / "exit.onnx").write_bytes(exit_)
        self.start("--exit-on-error", "false")
        reasons = {e["name"]: e["reason"] for e in json.loads(get(self.server.address, "/v2/repository/index", "POST")[2])}
        self.assertIn("policy 'lazy' does not return to the host at each stage", reasons["lazy"])
        rows = [[float(i % 23), float(i % 17)] for i in range(60)]
        leaves = [min(row) + 1 > 10 for row in rows]
        expected = [[-(v + 1) if left else (v + 1) ** 2 + (v + 1) for v in row] for row, left in zip(rows, leaves)]
        for name in ("device", "plain"):
            self.assertEqual(self.ask_many(name, rows), [(200, answer) for answer in expected])
        batches, _, out, _ = self.events("device")
        ended_at = {run: batch["args"]["last_step_done"] for run, batch in batches.items()}
        self.assertEqual({ended_at[run] for run in batches}, {0, 1, 2})
        self.assertEqual(set(out), {run for run, step in ended_at.items() if step != 1})
        found = json.loads(get(self.server.address, "/v2/debug/trace?seconds=600")[2])["traceEvents"]
        last = [ended_at[e["args"]["run"]] for e in found if e["ph"] == "X" and e["cat"] == "request" and e["args"]["model"] == "device"]
        self.assertEqual(sorted(last), sorted(0 if left else 2 for left in leaves))
        page = get(self.server.address, "/metrics")[2].decode()
        for name in ("device", "plain"):
            self.assertIn('tutti_left_early_total{model="%s",version="1"} %d\n' % (name, sum(leaves)), page)
        self.stop()

    def test_reload(self):
        """A model leaves its device and comes back while another one on the same device serves."""
        self.put("a", "device { } " + COPIES)
        self.put("b", "device { } " + COPIES)
        self.start("--model-control-mode", "explicit", "--load-model", "a", "--load-model", "b")
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            other = pool.submit(lambda: [self.ask("b", [1.0] * 4)[0] for _ in range(20)])
            for _ in range(3):
                self.echo_many("a", 4)
                self.assertEqual(get(self.server.address, "/v2/repository/models/a/unload", "POST")[0], 200)
                self.assertEqual(get(self.server.address, "/v2/repository/models/a/load", "POST")[0], 200)
            self.assertEqual(other.result(60), [200] * 20)
        self.echo_many("a", 4)
        page = get(self.server.address, "/metrics")[2].decode()
        self.assertEqual(page.count("tutti_domain_executors{"), 1)
        self.stop()

    def test_refusals(self):
        """What a device cannot run makes the model unavailable, with the reason, also for `models check`."""
        alone = EMULATED.replace("max_batch_size: 4\n", "")
        varies = EMULATED.replace('"x" data_type: TYPE_FP32 dims: 4', '"x" data_type: TYPE_FP32 dims: -1')
        self.put("good", "device { }")
        self.put("bytes", "device { } emulation { copy_in { fixed_us: 1 } input_bytes: 3 }")
        self.put("executors", "device { } emulation { device_executors: 2 }")
        self.put("network", "device { } emulation { network { control_us: 1 } }")
        self.put("memory", "device { memory_mb: -1 }")
        self.put("alone", "device { }", config=alone)
        self.put("varies", 'policy { name: "serial" } device { }', config=varies)
        self.put("large", "device { memory_mb: 1 }", config=EMULATED.replace("dims: 4", "dims: 400000"))
        self.put("words", "device { }", config=WORDS, profile=None)
        self.start()
        index = json.loads(get(self.server.address, "/v2/repository/index", "POST")[2])
        reasons = {entry["name"]: entry["reason"] for entry in index}
        expected = {
            "good": "",
            "bytes": "on a `device` the tensors themselves are copied: leave input_bytes and output_bytes out",
            "executors": "all executors are streams of the one `device`: leave device_executors out",
            "network": "a `device` emulates copies, not a network: leave `device` or this out",
            "memory": "memory_mb is -1; it is a number from 1 to 1048576, 0 for 256",
            "alone": "a device runs models that batch: leave `device` out of tutti.pbtxt, or give max_batch_size",
            "varies": "input 'x' has rows of no fixed size, and a device needs one",
            "words": "backend 'wordpiece' does not run on the streams of a device",
        }
        for model, text in expected.items():
            self.assertIn(text, reasons[model])
        self.assertEqual(reasons["good"], "")
        self.assertIn("device memory", reasons["large"])
        self.echo_many("good", 4)
        checked = subprocess.run([PROGRAM, "models", "check", self.folder], capture_output=True, text=True, timeout=60)
        for model, text in expected.items():
            self.assertIn(text, checked.stdout)
        self.stop()


if __name__ == "__main__":
    unittest.main(verbosity=1)
