#!/usr/bin/env python3
"""Models with `backend: "python"`: batches, steps of ensembles, and processes that fail, beside models that go on."""
import concurrent.futures
import json
import os
import pathlib
import signal
import subprocess
import sys
import unittest

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "python"))

from needs import need  # noqa: E402

need("numpy", "onnx", "tritonclient")

import numpy as np  # noqa: E402
import tritonclient.http as triton  # noqa: E402
from control_case import PROGRAM, ControlCase  # noqa: E402
from server_process import Server  # noqa: E402

CONFIG = """backend: "python"
max_batch_size: 4
input [ { name: "x" data_type: TYPE_FP32 dims: [ 4 ] } ]
output [ { name: "y" data_type: TYPE_FP32 dims: [ 4 ] } ]
"""
MODEL = """import os
import sys
import threading
import time
import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        self.amount = %g

    def execute(self, requests):
        responses = []
        for request in requests:
            x = pb_utils.get_input_tensor_by_name(request, "x").as_numpy()
            if x[0, 0] == -1:
                os.abort()
            if x[0, 0] == -6:
                sys.exit(3)
            if x[0, 0] == -7:
                threading.Thread(target=time.sleep, args=[3600]).start()
                sys.exit(2**40 + 4)
            if x[0, 0] == -2:
                open(os.path.join(os.path.dirname(__file__), "hangs"), "w").close()
                time.sleep(3600)
            if x[0, 0] == -3:
                raise ValueError("x begins with -3")
            if x[0, 0] == -4:
                error = pb_utils.TritonError("not this one", pb_utils.TritonError.INVALID_ARG)
                responses.append(pb_utils.InferenceResponse(error=error))
                continue
            y = x + np.float32(self.amount)
            if x[0, 0] == -5:
                y[:] = len(requests)
            responses.append(pb_utils.InferenceResponse([pb_utils.Tensor("y", y)]))
        return responses
"""
WORDS = """import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        return [self.answer(pb_utils.get_input_tensor_by_name(request, "text").as_numpy()) for request in requests]

    def answer(self, text):
        upper = np.array([[row[0].decode().upper()] for row in text], dtype=object)
        return pb_utils.InferenceResponse([pb_utils.Tensor("upper", upper)])
"""
WORDS_CONFIG = """backend: "python"
max_batch_size: 8
input [ { name: "text" data_type: TYPE_STRING dims: [ 1 ] } ]
output [ { name: "upper" data_type: TYPE_STRING dims: [ 1 ] } ]
"""
ENSEMBLE = """platform: "ensemble"
max_batch_size: 4
input [ { name: "x" data_type: TYPE_FP32 dims: [ 4 ] } ]
output [ { name: "y" data_type: TYPE_FP32 dims: [ 4 ] } ]
ensemble_scheduling { step [
  { model_name: "one" model_version: -1 input_map { key: "x" value: "x" } output_map { key: "y" value: "middle" } },
  { model_name: "onnx" model_version: -1 input_map { key: "x" value: "middle" } output_map { key: "y" value: "y" } } ] }
"""


def processes_of(parent):
    """The process ids of its children."""
    found = []
    for path in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            after = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it has gone
        if int(after[1]) == parent and after[0] != "Z":
            found.append(int(path.parent.name))
    return found


class PythonModels(ControlCase):
    flags = ["--model-control-mode", "explicit", "--python", sys.executable]

    def put_python(self, name, text, config=CONFIG, settings=""):
        folder = self.repository.path / name
        (folder / "1").mkdir(parents=True, exist_ok=True)
        (folder / "config.pbtxt").write_text(config)
        if text is not None:
            (folder / "1" / "model.py").write_text(text)
        if settings:
            (folder / "tutti.pbtxt").write_text(settings)

    def fill(self):
        self.put_python("one", MODEL % 1)
        self.repository.put("onnx", {1: 10.0})
        self.put_python("words", WORDS, WORDS_CONFIG)

    def send(self, model, first, client=None):
        x = triton.InferInput("x", [1, 4], "FP32")
        x.set_data_from_numpy(np.full((1, 4), first, np.float32))
        return float((client or self.client).infer(model, [x]).as_numpy("y")[0, 0])

    def serves(self, model):
        try:
            return self.send(model, 5) == 6
        except triton.InferenceServerException as error:
            self.assertEqual(error.status(), "503", error.message())
            return False

    def children(self):
        return processes_of(self.server.process.pid)

    def said(self, part):
        return any(part in line for line in self.server.lines)

    def test_answers(self):
        self.client.load_model("one")
        self.client.load_model("words")
        self.assertEqual(self.send("one", 2), 3)
        self.assertEqual(self.client.get_model_metadata("one")["platform"], "python")
        text = triton.InferInput("text", [3, 1], "BYTES")
        text.set_data_from_numpy(np.array([[b"tutti"], [b""], ["söl".encode()]], dtype=object))
        upper = self.client.infer("words", [text]).as_numpy("upper")
        self.assertEqual([row[0].decode() for row in upper], ["TUTTI", "", "SÖL"])

    def test_requests_of_a_batch(self):
        """Four requests that wait for each other are one call of execute."""
        config = CONFIG + "dynamic_batching { max_queue_delay_microseconds: 60000000 }\n"
        self.put_python("gathered", MODEL % 1, config)
        self.client.load_model("gathered")
        clients = [self.new_client() for _ in range(4)]
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            answers = list(pool.map(lambda client: self.send("gathered", -5, client), clients))
        self.assertEqual(answers, [4.0] * 4)

    def test_a_step_of_an_ensemble(self):
        self.put_python("both", None, ENSEMBLE)
        self.client.load_model("both")
        self.assertEqual(self.send("both", 2), 13)
        self.refused(500, "ValueError: x begins with -3", self.send, "both", -3)
        self.assertEqual(self.send("both", 4), 15)

    def test_errors_of_the_model(self):
        self.client.load_model("one")
        self.refused(500, 'raise ValueError("x begins with -3") | ValueError: x begins with -3', self.send, "one", -3)
        self.refused(400, "not this one", self.send, "one", -4)
        self.assertEqual(self.send("one", 2), 3)

    def test_a_process_that_crashes(self):
        self.client.load_model("one")
        self.client.load_model("onnx")
        self.refused(500, "the model's Python process ended by signal 6 (Aborted) during the batch", self.send, "one", -1)
        self.assertEqual(self.infer("onnx")[0], 10)
        self.wait_until(lambda: self.serves("one"), "it does not serve again")
        self.wait_until(lambda: self.said("Python process 0: it serves again"), "nothing says so")
        self.assertTrue(self.said("it ended by signal 6 (Aborted); it is started again in 0.1 s"), self.server.said())

    def test_a_model_that_exits(self):
        self.client.load_model("one")
        # An exit code has eight bits.
        for first, code in (-6, 3), (-7, 4):
            self.refused(500, "the model's Python process ended with exit code %d" % code, self.send, "one", first)
            self.wait_until(lambda: self.serves("one"), "it does not serve again")

    def test_a_batch_that_hangs(self):
        self.put_python("slow", MODEL % 1, settings="max_run_ms: 2000\n")
        self.client.load_model("slow")
        self.client.load_model("one")
        self.refused(503, "ran longer than 2000 ms, the model's maximum (max_run_ms)", self.send, "slow", -2)
        self.assertEqual(self.send("one", 2), 3)
        self.wait_until(lambda: self.index()["slow"]["1"][0] == "UNAVAILABLE", "the index does not say it")
        reason = self.index()["slow"]["1"][1]
        self.assertIn("was stopped; load the model again to serve it", reason)
        self.client.load_model("slow")
        self.assertEqual(self.send("slow", 2), 3)

    def test_instances(self):
        self.client.load_model("one")
        self.assertEqual(len(self.children()), 1)
        self.put_python("two", MODEL % 1, CONFIG + "instance_group [ { count: 2 kind: KIND_CPU } ]\n")
        self.client.load_model("two")
        self.assertEqual(len(self.children()), 3)
        self.assertEqual(self.client.get_model_config("two")["parameters"]["tutti_executors"]["string_value"], "2")
        self.client.unload_model("two")
        self.wait_until(lambda: len(self.children()) == 1, "a process outlives its model")
        self.client.unload_model("one")
        self.wait_until(lambda: not self.children(), "a process outlives its model")

    def test_a_profile_is_measured(self):
        self.put_python("timed", MODEL % 1, settings="slo_ms: 5000\n")
        self.client.load_model("timed")
        parameters = self.client.get_model_config("timed")["parameters"]
        self.assertEqual(parameters["tutti_profile"]["string_value"], "measured")
        self.assertEqual(self.send("timed", 2), 3)

    def test_a_profile_is_written(self):
        self.put_python("timed", MODEL % 1)
        command = [PROGRAM, "profile", str(self.repository.path / "timed"), "--python", sys.executable, "--executors", "2"]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.assertEqual(done.returncode, 0, done.stdout)
        self.client.load_model("timed")
        parameters = self.client.get_model_config("timed")["parameters"]
        self.assertEqual(parameters["tutti_profile"]["string_value"], "file")

    def test_models_that_cannot_be_loaded(self):
        self.put_python("syntax", "class TritonPythonModel:\n    def execute(self:\n")
        self.put_python("nothing", None)
        self.put_python("float16", MODEL % 1, CONFIG.replace("FP32", "BF16"))
        environment = 'parameters { key: "EXECUTION_ENV_PATH" value { string_value: "/no/env" } }\n'
        self.put_python("away", MODEL % 1, CONFIG + environment)
        cases = {
            "syntax": (400, 'model.py", line 2'),
            "nothing": (400, "1/model.py: there is no such file; a model with backend 'python' is model.py"),
            "float16": (400, "input 'x' is TYPE_BF16, which numpy does not have"),
            "away": (404, "EXECUTION_ENV_PATH: there is no '/no/env/bin/python3'"),
        }
        for name, (status, part) in cases.items():
            with self.subTest(name):
                self.refused(status, part, self.client.load_model, name)
        self.assertFalse(self.children())
        command = [PROGRAM, "models", "check", str(self.repository.path)]
        checked = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.assertEqual(checked.returncode, 1, checked.stdout)
        self.assertIn("nothing/1/model.py: there is no such file", checked.stdout)
        command += ["--load", "--python", sys.executable]
        checked = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.assertEqual(checked.returncode, 1, checked.stdout)
        self.assertIn("SyntaxError", checked.stdout)

    def test_clients_bring_no_programs(self):
        part = "models of backend 'python' are programs, of which a client brings neither files nor a configuration"
        config = json.dumps({"backend": "python", "max_batch_size": 4, "input": [], "output": []})
        self.refused(400, part, self.client.load_model, "mine", config=config, files={"file:1/model.py": WORDS.encode()})
        self.refused(400, part, self.client.load_model, "one", config=config)
        self.assertFalse(self.children())
        self.client.load_model("one")
        self.assertEqual(self.send("one", 2), 3)

    def test_the_end_of_the_server(self):
        """SIGTERM while a batch hangs, and SIGKILL: no process outlives the server."""
        hangs = self.repository.path / "one" / "1" / "hangs"
        for ending in (signal.SIGTERM, signal.SIGKILL):
            hangs.unlink(missing_ok=True)
            with self.subTest(ending.name):
                command = [PROGRAM, "serve", "--model-repository", str(self.repository.path), "--http-port", "0"]
                command += ["--load-model", "one", "--grace-ms", "1000"] + self.flags
                server = Server(command)
                self.assertTrue(server.wait_ready(60), server.said())
                children = processes_of(server.process.pid)
                self.assertEqual(len(children), 1)
                with concurrent.futures.ThreadPoolExecutor(1) as pool:
                    client = triton.InferenceServerClient(server.address, network_timeout=60)
                    asked = pool.submit(self.send, "one", -2, client)
                    self.wait_until(hangs.exists, "it runs no batch")
                    server.process.send_signal(ending)
                    with self.assertRaises(Exception):
                        asked.result(60)
                    client.close()
                self.assertEqual(server.stop(60), 0 if ending == signal.SIGTERM else -signal.SIGKILL, server.said())
                self.wait_until(lambda: not os.path.exists("/proc/%d/cwd" % children[0]), "it outlives the server")


if __name__ == "__main__":
    unittest.main()
