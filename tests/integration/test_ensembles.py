#!/usr/bin/env python3
"""Ensembles: models whose steps are requests to other models, over HTTP and gRPC."""
import json
import pathlib
import re
import subprocess
import sys
import threading
import unittest

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "python"))

from needs import need  # noqa: E402

need("numpy", "onnx", "tritonclient")

import numpy as np  # noqa: E402
import tritonclient.grpc as grpc  # noqa: E402
import tritonclient.http as triton  # noqa: E402
from control_case import PROGRAM, ControlCase, slow  # noqa: E402
from onnx import TensorProto, helper  # noqa: E402
from server_process import free_port  # noqa: E402


def summer():
    """y = a + b, rows of 4."""
    node = helper.make_node("Add", ["a", "b"], ["y"])
    a, b, y = (
        helper.make_tensor_value_info(name, TensorProto.FLOAT, ["N", 4]) for name in ("a", "b", "y")
    )
    graph = helper.make_graph([node], "summer", [a, b], [y])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 8
    return model.SerializeToString()


def step(model, inputs, outputs, version=-1):
    maps = ["input_map { key: %s value: %s }" % tuple(map(json.dumps, pair)) for pair in inputs.items()]
    maps += ["output_map { key: %s value: %s }" % tuple(map(json.dumps, pair)) for pair in outputs.items()]
    return "{ model_name: %s model_version: %d %s }" % (json.dumps(model), version, " ".join(maps))


def ensemble(*steps, batch=8, inputs="x", outputs="y", dims="4", more=""):
    """config.pbtxt of an ensemble of FP32 tensors with these names."""
    tensors = ""
    for role, names in (("input", inputs), ("output", outputs)):
        for name in names.split():
            tensors += "%s [ { name: \"%s\" data_type: TYPE_FP32 dims: [ %s ] } ]\n" % (role, name, dims)
    return 'platform: "ensemble"\nmax_batch_size: %d\n%sensemble_scheduling {\n  step [ %s ]\n}\n%s' % (
        batch, tensors, ",\n    ".join(steps), more)  # fmt: skip


CHAIN = (
    step("one", {"x": "x"}, {"y": "t"}),
    step("ten", {"x": "t"}, {"y": "y"}),
)
# The last step is written first; `one` and `ten` run side by side.
DIAMOND = (
    step("sum", {"a": "p", "b": "q"}, {"y": "y"}),
    step("one", {"x": "x"}, {"y": "p"}),
    step("ten", {"x": "x"}, {"y": "q"}),
)


class Ensembles(ControlCase):
    def put_ensemble(self, name, config, tutti=""):
        fresh = self.repository.path / ("." + name)
        (fresh / "1").mkdir(parents=True)
        (fresh / "config.pbtxt").write_text(config)
        if tutti:
            (fresh / "tutti.pbtxt").write_text(tutti)
        self.repository.remove(name)
        fresh.rename(self.repository.path / name)

    def fill(self):
        self.grpc_port = free_port()
        self.flags = self.flags[:2] + ["--grpc-port", str(self.grpc_port)]
        self.repository.put("one", {1: 1.0})
        self.repository.put("ten", {1: 10.0})
        self.repository.put("sum", {1: summer()})
        self.put_ensemble("chain", ensemble(*CHAIN))
        self.put_ensemble("diamond", ensemble(*DIAMOND))

    def statistics(self, model):
        return self.client.get_inference_statistics(model)["model_stats"][0]["inference_stats"]

    def reason(self, model):
        return self.index()[model]["1"]


class Loaded(Ensembles):
    flags = ["--model-control-mode", "none"]

    def fill(self):
        super().fill()
        # One ensemble as a step of another, and outputs of two steps.
        self.put_ensemble(
            "around",
            ensemble(
                step("diamond", {"x": "x"}, {"y": "t"}),
                step("one", {"x": "t"}, {"y": "y"}, version=1),
                outputs="y t",
            ),
        )

    def rows(self, client, kind, model, x, outputs=("y",)):
        tensor = kind.InferInput("x", list(x.shape), "FP32")
        tensor.set_data_from_numpy(x)
        result = client.infer(model, [tensor], client_timeout=60) if kind is grpc else client.infer(model, [tensor])
        return [result.as_numpy(name) for name in outputs]

    def test_answers(self):
        x = np.arange(12, dtype=np.float32).reshape(3, 4)
        with grpc.InferenceServerClient("127.0.0.1:%d" % self.grpc_port) as over_grpc:
            for client, kind in ((self.client, triton), (over_grpc, grpc)):
                np.testing.assert_array_equal(self.rows(client, kind, "chain", x)[0], x + 11)
                np.testing.assert_array_equal(self.rows(client, kind, "diamond", x)[0], 2 * x + 11)
                y, t = self.rows(client, kind, "around", x, ("y", "t"))
                np.testing.assert_array_equal(t, 2 * x + 11)
                np.testing.assert_array_equal(y, 2 * x + 12)
        # Each step was a request to its model.
        self.assertEqual(self.statistics("chain")["success"]["count"], 2)
        self.assertEqual(self.statistics("diamond")["success"]["count"], 4)
        self.assertEqual(self.statistics("sum")["success"]["count"], 4)
        self.assertEqual(self.statistics("ten")["success"]["count"], 6)
        self.assertEqual(self.statistics("one")["success"]["count"], 8)
        whole, part = self.statistics("chain"), self.statistics("one")
        self.assertGreater(whole["success"]["ns"], 0)
        self.assertEqual(whole["queue"]["count"], 2)
        self.assertGreater(whole["compute_infer"]["ns"], 0)
        self.assertGreater(part["compute_infer"]["ns"], 0)
        for model, count in (("chain", 2), ("diamond", 4), ("around", 2), ("one", 8)):
            self.check_conservation(model, count)

    def test_what_clients_see(self):
        metadata = self.client.get_model_metadata("diamond")
        self.assertEqual(metadata["platform"], "ensemble")
        self.assertEqual(metadata["inputs"], [{"name": "x", "datatype": "FP32", "shape": [-1, 4]}])
        self.assertEqual(metadata["outputs"], [{"name": "y", "datatype": "FP32", "shape": [-1, 4]}])
        config = self.client.get_model_config("diamond")
        steps = config["ensemble_scheduling"]["step"]
        self.assertEqual([s["model_name"] for s in steps], ["sum", "one", "ten"])
        self.assertEqual(config["max_batch_size"], 8)
        self.assertTrue(self.client.is_model_ready("diamond", "1"))
        self.assertEqual(self.index()["diamond"], {"1": ("READY", "")})
        with grpc.InferenceServerClient("127.0.0.1:%d" % self.grpc_port) as over_grpc:
            self.assertEqual(over_grpc.get_model_metadata("diamond").platform, "ensemble")
            self.assertTrue(over_grpc.is_model_ready("diamond"))
        self.refused(400, "batch-size must be 1 to 8", self.rows, self.client, triton, "chain", np.zeros((9, 4), np.float32))
        self.refused(400, "unexpected shape for input 'x'", self.rows, self.client, triton, "chain", np.zeros((1, 5), np.float32))

    def test_many_at_once(self):
        """Requests of many clients share batches, and none gets another's rows."""
        errors = []

        def work(seed):
            client = self.new_client()
            try:
                for i in range(40):
                    x = np.full((1 + (seed + i) % 3, 4), 100 * seed + i, np.float32)
                    model, expected = ("chain", x + 11) if i % 2 else ("around", 2 * x + 12)
                    np.testing.assert_array_equal(self.rows(client, triton, model, x)[0], expected)
            except BaseException as error:  # the thread's end would hide it
                errors.append(error)

        threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(errors, [])
        self.check_conservation("chain", 160)
        self.check_conservation("around", 160)


class Explicit(Ensembles):
    flags = ["--model-control-mode", "explicit"]

    def fill(self):
        super().fill()
        self.repository.put("heavy", {1: slow()})

    def test_parts_come_and_go(self):
        self.client.load_model("diamond")
        states = {name: versions.get("1") for name, versions in self.index().items()}
        for name in ("diamond", "one", "ten", "sum"):  # Triton loads an ensemble's models with it
            self.assertEqual(states[name], ("READY", ""))
        self.assertIsNone(states["heavy"])
        self.assertEqual(self.infer("diamond"), (11.0, "1"))
        self.client.unload_model("ten")
        self.wait_until(lambda: self.reason("ten")[0] == "UNAVAILABLE", "ten stays")
        state, why = self.reason("diamond")
        self.assertEqual(state, "UNAVAILABLE")
        self.assertIn("step 3 (model 'ten'): version 1 is UN", why)
        self.assertFalse(self.client.is_model_ready("diamond"))
        self.refused(503, "step 3 (model 'ten')", self.infer, "diamond")
        self.assertEqual(self.infer("one"), (1.0, "1"))
        self.repository.put("ten", {1: 20.0})
        self.client.load_model("ten")
        self.assertEqual(self.reason("diamond"), ("READY", ""))
        self.assertEqual(self.infer("diamond"), (21.0, "1"))
        self.client.unload_model("diamond")
        self.wait_until(lambda: self.reason("diamond") == ("UNAVAILABLE", "unloaded"), "it stays")
        self.assertEqual(self.infer("one"), (1.0, "1"))
        self.client.unload_model("one")
        self.client.load_model("diamond")
        self.assertEqual(self.infer("diamond"), (21.0, "1"))

    def test_reload_under_load(self):
        """While a part is loaded anew, every answer is of one of its versions, and none is lost."""
        self.client.load_model("chain")
        ended, errors, seen = threading.Event(), [], set()

        def work():
            client = self.new_client()
            try:
                while not ended.is_set():
                    seen.add(self.infer("chain", client=client)[0])
            except BaseException as error:
                errors.append(error)

        threads = [threading.Thread(target=work) for _ in range(3)]
        for thread in threads:
            thread.start()
        for amount in (20.0, 30.0, 40.0):
            self.repository.put("ten", {1: amount})
            self.client.load_model("ten")
            self.assertEqual(self.infer("chain")[0], amount + 1)
        ended.set()
        for thread in threads:
            thread.join()
        self.assertEqual(errors, [])
        self.assertLessEqual(seen, {11.0, 21.0, 31.0, 41.0})
        self.wait_until(lambda: self.index()["ten"] == {"1": ("READY", "")}, "old loads stay")

    def test_circles(self):
        self.put_ensemble("a", ensemble(step("b", {"x": "x"}, {"y": "y"})))
        self.put_ensemble("b", ensemble(step("a", {"x": "x"}, {"y": "y"})))
        self.refused(400, "that ensemble needs 'a' in turn", self.client.load_model, "a")
        self.assertIn("cannot go in a circle", self.reason("a")[1])
        # What was loaded before continues to serve when its new configuration leads in a circle.
        self.put_ensemble("b", ensemble(*CHAIN))
        self.client.load_model("a")
        self.assertEqual(self.infer("a"), (11.0, "1"))
        self.put_ensemble("b", ensemble(step("a", {"x": "x"}, {"y": "y"})))
        self.refused(400, "that ensemble needs 'b' in turn", self.client.load_model, "b")
        self.assertEqual(self.infer("a"), (11.0, "1"))

    def test_deadlines(self):
        """One deadline is for all steps; an error names the step that could not keep it."""
        steps = (
            step("heavy", {"x": "x"}, {"y": "t"}),
            step("one", {"x": "t"}, {"y": "y"}),
        )
        self.put_ensemble("late", ensemble(*steps), tutti="slo_ms: 20000")
        self.client.load_model("late")
        self.assertEqual(self.infer("late"), (1.0, "1"))
        self.refused(503, "step 1 (model 'heavy'): Request timeout expired", self.infer, "late", timeout=1)
        self.check_conservation("late", 1)
        at = self.metrics()
        self.assertEqual(at['tutti_requests_dropped_total{model="late",version="1",reason="deadline"}'], 1)
        self.assertEqual(at['tutti_requests_accepted_total{model="one",version="1"}'], 1)

    def test_mistakes(self):
        """Each mistake is an error of the load that names step and tensor."""
        one = step("one", {"x": "x"}, {"y": "y"})
        cases = {
            "unknown": (ensemble(step("none", {"x": "x"}, {"y": "y"})), "step 1 (model 'none'): there is no such model"),
            "version": (ensemble(step("one", {"x": "x"}, {"y": "y"}, version=7)), "step 1 (model 'one'): it has no version 7"),
            "input": (ensemble(step("one", {"z": "x"}, {"y": "y"})), "step 1 (model 'one'): input_map names input 'z', which the model does not have; it has 'x'"),
            "output": (ensemble(step("one", {"x": "x"}, {"z": "y"})), "step 1 (model 'one'): output_map names output 'z', which the model does not have; it has 'y'"),
            "unmapped": (ensemble(step("sum", {"a": "x"}, {"y": "y"})), "step 1 (model 'sum'): input 'b' of the model is missing in input_map"),
            "shape": (ensemble(one, dims="5"), "step 1 (model 'one'): tensor 'x' is FP32 [-1,5], but input 'x' of the model is FP32 [-1,4]"),
            "type": (ensemble(one).replace("FP32", "INT64", 1), "tensor 'x' is INT64 [-1,4], but input 'x'"),
            "result": (ensemble(one).replace("dims: [ 4 ] } ]\nensemble", "dims: [ 2 ] } ]\nensemble"), "output 'y' is FP32 [-1,2] in the configuration, but step 1 (model 'one') makes FP32 [-1,4]"),
            "batch": (ensemble(one, batch=100), "step 1 (model 'one'): the ensemble has max_batch_size 100, but the model takes 64 rows at most"),
            "nothing": (ensemble(step("one", {"x": "t"}, {"y": "y"})), "reads tensor 't', which is no input of the ensemble, and no step makes it"),
            "twice": (ensemble(one, one), "step 2 (model 'one') makes tensor 'y', which step 1 makes too"),
            "over": (ensemble(step("one", {"x": "x"}, {"y": "x"})), "makes tensor 'x', which is an input of the ensemble"),
            "circle": (ensemble(step("sum", {"a": "x", "b": "y"}, {"y": "t"}), step("one", {"x": "t"}, {"y": "y"})), "step 1 (model 'sum') waits for tensor 'y' of step 2, which waits for it in turn"),
            "missing": (ensemble(one, outputs="z"), "no step makes output 'z' of the ensemble"),
            "self": (ensemble(step("self", {"x": "x"}, {"y": "y"})), "step 1 names the ensemble itself"),
            "unnamed": (ensemble(step("", {"x": "x"}, {"y": "y"})), "step 1 has no model_name"),
            "steps": ('platform: "ensemble"\n', "platform 'ensemble' needs ensemble_scheduling"),
            "backend": (ensemble(one, more='backend: "onnxruntime"\n'), "an ensemble has no backend"),
        }  # fmt: skip
        for name, (config, part) in cases.items():
            with self.subTest(name):
                self.put_ensemble(name, config)
                status = 503 if name in ("unknown", "version") else 400
                self.refused(status, part, self.client.load_model, name)
                self.assertIn(part, self.reason(name)[1])
        self.assertEqual(self.infer("one"), (1.0, "1"))
        checked = subprocess.run(
            [PROGRAM, "models", "check", self.repository.path], capture_output=True, text=True, timeout=60
        )
        self.assertEqual(checked.returncode, 1)
        found = dict(re.findall(r"^(\w+): ((?:.*\n(?:  .*\n)*))", checked.stdout, re.M))
        for name, (_, part) in cases.items():
            self.assertIn(part, found[name])
        self.assertIn("ok, version 1, batches of up to 8", found["diamond"])


if __name__ == "__main__":
    unittest.main()
