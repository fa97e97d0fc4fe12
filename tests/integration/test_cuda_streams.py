#!/usr/bin/env python3
"""D4, E1 over HTTP: models on the streams of a GPU by ONNX Runtime's CUDA provider. Stand-ins take the place of the driver and of the
library (tests/standin): what is submitted, in which order, and what follows from a fault is real; that a GPU computes it is not."""
import concurrent.futures
import hashlib
import http.client
import json
import os
import pathlib
import sys
import tempfile
import time
import unittest

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "python"))

from needs import needing  # noqa: E402
from plain_client import get  # noqa: E402
from server_process import Server  # noqa: E402

PROGRAM = os.environ["TUTTI_PROGRAM"]
STANDIN = pathlib.Path(PROGRAM).resolve().parent / "tests" / "standin"
DRIVER = STANDIN / "cuda_standin.so"
RUNTIME = STANDIN / "onnxruntime_standin.so"
CUDA = "device { kind: CUDA }"
EMULATED = """backend: "emulated"
max_batch_size: 4
input { name: "x" data_type: TYPE_FP32 dims: 4 }
output { name: "y" data_type: TYPE_FP32 dims: 4 }
"""
PICKER = """max_batch_size: 8
input { name: "x" data_type: TYPE_INT64 dims: 2 }
output { name: "y" data_type: TYPE_FP32 dims: 2 }
"""
WINDOW = 'policy { name: "window" option { key: "max_delay" value: "5ms" } } '


def picker():
    """y = the row of a table of 3 that x names: out of range, its kernel is at fault; needs onnx."""
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


@needing("onnx")
class CudaStreams(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)

    def put(self, name, settings, config=PICKER, model=None):
        folder = self.folder / name
        (folder / "1").mkdir(parents=True)
        (folder / "config.pbtxt").write_text(config)
        (folder / "tutti.pbtxt").write_text(settings)
        if "emulated" in config:
            (folder / "profile.pbtxt").write_text("point { batch: 1 latency_ns: 1000 }\n")
        else:
            (folder / "1" / "model.onnx").write_bytes(model or picker())

    def start(self, *flags, driver=DRIVER, runtime=RUNTIME):
        names = [f"TUTTI_CUDA_DRIVER={driver}"] + ([f"TUTTI_ONNXRUNTIME={runtime}"] if runtime else [])
        command = ["env", *names, PROGRAM, "serve", "--model-repository", self.folder]
        self.server = Server(command + ["--http-port", "0", "--grpc-port", "0", "--executors", "2", *flags])
        self.addCleanup(self.server.process.kill)
        self.assertTrue(self.server.wait_ready(120), self.said())

    def said(self):
        return "".join(self.server.lines)

    def stop(self):
        self.assertEqual(self.server.stop(60), 0, self.said())

    def ask(self, model, row):
        inputs = [{"name": "x", "shape": [1, 2], "datatype": "INT64", "data": row}]
        client = http.client.HTTPConnection(self.server.address, timeout=60)
        client.request("POST", f"/v2/models/{model}/infer", json.dumps({"inputs": inputs}))
        answer = client.getresponse()
        content = json.loads(answer.read())
        client.close()
        return answer.status, content["outputs"][0]["data"] if answer.status == 200 else content["error"]

    def ask_many(self, model, count):
        rows = [[i % 3, i * 7 % 3] for i in range(count)]
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            answers = list(pool.map(lambda row: self.ask(model, row), rows))
        self.assertEqual(answers, [(200, [10.0 * (1 + v) for v in row]) for row in rows])

    def reasons(self):
        index = json.loads(get(self.server.address, "/v2/repository/index", "POST")[2])
        return {entry["name"]: entry["reason"] for entry in index}

    def await_reason(self, model, text):
        """The index says it soon after the first error."""
        end = time.monotonic() + 60
        while text not in self.reasons()[model]:
            self.assertLess(time.monotonic(), end, self.said())
            time.sleep(0.01)

    def post(self, model, what):
        return get(self.server.address, f"/v2/repository/models/{model}/{what}", "POST")[0]

    def test_served(self):
        """Answers of two models on one GPU, inputs copied when they arrive or with their batch; models come and go meanwhile."""
        self.put("each", WINDOW + CUDA, config=PICKER + "instance_group { kind: KIND_GPU count: 2 }")
        self.put("whole", "slo_ms: 600000 " + WINDOW + "device { kind: CUDA copies: WHOLE memory_mb: 64 }")
        self.start("--strict-gpu", "--model-control-mode", "explicit", "--load-model", "each", "--load-model", "whole")
        self.assertEqual(set(self.reasons().values()), {""})
        self.assertNotIn("uses no GPU", self.said())
        self.ask_many("each", 24)
        self.ask_many("whole", 24)
        found = json.loads(get(self.server.address, "/v2/debug/trace?seconds=600")[2])["traceEvents"]
        copies = {(e["args"]["model"], e["name"]) for e in found if e["ph"] == "X" and e["cat"] == "copy"}
        self.assertEqual(
            copies,
            {("each", "copies on arrival"), ("each", "copies out"), ("whole", "copies in"), ("whole", "copies out")},
        )
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            other = pool.submit(self.ask_many, "whole", 40)
            for _ in range(2):
                self.assertEqual((self.post("each", "unload"), self.post("each", "load")), (200, 200))
                self.ask_many("each", 4)
            other.result(120)
        self.stop()

    def test_profiles(self):
        """A profile is measured on the GPU, unless one was written by hand or measured there; one of this processor is stale."""
        settings = "slo_ms: 600000 " + WINDOW + CUDA
        point = "point { batch: 1 latency_ns: 1000000 }\n"
        digest = 'model_sha256: "%s" ' % hashlib.sha256(picker()).hexdigest()
        profiles = {
            "measured": "",
            "written": point,
            "here": digest + 'device: "stand-in" ' + point,
            "elsewhere": digest + 'device: "some processor, one thread" ' + point,
        }
        for model, profile in profiles.items():
            self.put(model, settings)
            if profile:
                (self.folder / model / "profile.pbtxt").write_text(profile)
        self.start()
        sources = {}
        for model in profiles:
            config = json.loads(get(self.server.address, f"/v2/models/{model}/config")[2])
            sources[model] = config["parameters"]["tutti_profile"]["string_value"]
            self.ask_many(model, 2)
        expected = {"measured": "measured", "written": "file", "here": "file", "elsewhere": "measured"}
        self.assertEqual(sources, expected, self.said())
        self.assertIn("elsewhere/profile.pbtxt is stale", self.said())
        self.stop()

    def test_fault(self):
        """A kernel at fault makes the GPU fail: the model becomes UNAVAILABLE with the driver's reason, and serves when it is loaded
        again."""
        self.put("m", WINDOW + CUDA)
        self.start("--model-control-mode", "explicit", "--load-model", "m")
        self.ask_many("m", 4)
        for _ in range(2):
            status, error = self.ask("m", [0, 7])
            self.assertEqual(status, 503, error)
            self.assertIn("CUDA_ERROR_ILLEGAL_ADDRESS", error)
            self.await_reason("m", "CUDA_ERROR_ILLEGAL_ADDRESS")
            self.assertEqual(self.post("m", "load"), 200)
            self.assertEqual(self.reasons()["m"], "")
            self.ask_many("m", 4)
        self.stop()

    def test_refusals(self):
        """What cannot run on a GPU says why; other models serve."""
        self.put("good", "slo_ms: 600000 " + WINDOW)
        self.put("absent", "device { kind: CUDA gpu: 3 }")
        self.put("negative", "device { kind: CUDA gpu: -1 }")
        self.put("software", "device { gpu: 1 }")
        self.put("emulated", CUDA, config=EMULATED)
        self.start()
        expected = {
            "absent": "there is no GPU 3: this machine has 1, counted from 0",
            "negative": "gpu is -1; with kind: CUDA it is a number from 0 on, else it is left out",
            "software": "gpu is 1; with kind: CUDA it is a number from 0 on, else it is left out",
            "emulated": "backend 'emulated' does not run on a GPU: leave `kind` out of `device` in tutti.pbtxt",
        }
        reasons = self.reasons()
        for model, text in expected.items():
            self.assertIn(text, reasons[model])
        self.ask_many("good", 4)
        self.stop()

    def test_no_gpu(self):
        """Without a driver, and with a library for the processor: one line says so."""
        self.put("good", "slo_ms: 600000 " + WINDOW)
        self.put("gpu", CUDA)
        for driver, runtime, text in (
            ("/no/such/libcuda.so", None, "no CUDA driver: /no/such/libcuda.so"),
            (DRIVER, None, "cannot use GPU 0 (`make cuda` fetches a library with CUDA)"),
        ):
            self.start(driver=driver, runtime=runtime)
            self.assertIn(text, self.reasons()["gpu"])
            self.assertEqual(sum(text in line for line in self.server.lines), 1, self.said())
            self.ask_many("good", 4)
            self.stop()


if __name__ == "__main__":
    unittest.main(verbosity=1)
