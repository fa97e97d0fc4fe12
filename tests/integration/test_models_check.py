#!/usr/bin/env python3
"""`tutti models check` finds what `tutti serve` refuses, and says what would be right."""
import json
import os
import pathlib
import re
import subprocess
import sys
import unittest
import urllib.request

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "python"))

from needs import need  # noqa: E402

need("numpy", "onnx", "tritonclient")

import numpy as np  # noqa: E402
import onnx  # noqa: E402
from control_case import PROGRAM, adder  # noqa: E402
from onnx import TensorProto, helper, numpy_helper  # noqa: E402
from own_folder import make_folder  # noqa: E402
from server_process import Server  # noqa: E402


def model(nodes, inputs, outputs, weights=(), opset=17, ir=8, domains=()):
    graph = helper.make_graph(nodes, "g", inputs, outputs, list(weights))
    sets = [helper.make_opsetid("", opset)] + [helper.make_opsetid(d, 1) for d in domains]
    made = helper.make_model(graph, opset_imports=sets)
    made.ir_version = ir
    return made


def value(name, shape, kind=TensorProto.FLOAT):
    return helper.make_tensor_value_info(name, kind, shape)


def identity(shape=("n", 4), **options):
    node = helper.make_node("Identity", ["x"], ["y"])
    return model([node], [value("x", shape)], [value("y", shape)], **options)


def with_external(path):
    """A model whose weights lie in path/weights.bin."""
    weights = numpy_helper.from_array(np.ones((4, 4), np.float32), "w")
    node = helper.make_node("MatMul", ["x", "w"], ["y"])
    made = model([node], [value("x", ("n", 4))], [value("y", ("n", 4))], [weights])
    onnx.save(
        made,
        str(path / "model.onnx"),
        save_as_external_data=True,
        location="weights.bin",
        size_threshold=0,
    )


def zipmap():
    maps = helper.make_sequence_type_proto(
        helper.make_map_type_proto(
            TensorProto.INT64, helper.make_tensor_type_proto(TensorProto.FLOAT, [])
        )
    )
    node = helper.make_node("ZipMap", ["x"], ["y"], domain="ai.onnx.ml", classlabels_int64s=[0, 1])
    output = helper.make_value_info("y", maps)
    return model([node], [value("x", ("n", 2))], [output], domains=["ai.onnx.ml"])


class CheckCase(unittest.TestCase):
    def setUp(self):
        self.path = make_folder(self)

    def put(self, name, data=None, config=None, tutti=None, profile=None):
        version = self.path / name / "1"
        version.mkdir(parents=True)
        if data is None:
            data = adder(1.0)
        if data != b"":
            data = data if isinstance(data, bytes) else data.SerializeToString()
            (version / "model.onnx").write_bytes(data)
        for file, text in (("config", config), ("tutti", tutti), ("profile", profile)):
            if text:
                (self.path / name / (file + ".pbtxt")).write_text(text)
        return version

    def check(self, *flags, path=None):
        command = [PROGRAM, "models", "check", str(path or self.path)] + list(flags)
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        self.assertIn(done.returncode, (0, 1), done.stderr)
        return done

    def findings(self, *flags):
        """By model: ("problem" or "remark", sentence) each; with the exit code."""
        done = self.check("--json", *flags)
        models = json.loads(done.stdout)
        self.assertEqual(done.returncode, 0 if all(m["ok"] for m in models) else 1)
        return {
            m["name"]: [(f["kind"], f["sentence"]) for f in m["findings"]] for m in models
        }, done.returncode

    def serve_refuses(self):
        """Names of the models that a server with the same repository does not serve."""
        command = [PROGRAM, "serve", "--model-repository", str(self.path), "--http-port", "0"]
        server = Server(command)
        self.assertTrue(server.wait_ready(60), server.said())
        self.assertEqual(server.stop(60), 0)
        return {
            found.group(1)
            for line in server.lines
            for found in [re.search(r" model (\S+) version \d+ does not serve: ", line)]
            if found
        }


class Advice(CheckCase):
    def test_stages_and_lengths(self):
        self.put("whole", tutti='policy { name: "lazy" }')
        self.put("plain", tutti='policy { name: "window" }')
        self.put("lengths", identity(("n", "m")))
        self.put("padded", identity(("n", "m")), tutti="length { pad: true }")
        self.put("fixed", identity(("n", 4)))
        findings, code = self.findings()
        self.assertEqual(code, 0)
        stages = ("remark", "policy lazy decides between stages, and this model runs whole: ")
        lengths = ("remark", "input 'x' has a free dimension besides the rows: only requests of equal shape")

        def has(name, remark):
            return any(k == remark[0] and s.startswith(remark[1]) for k, s in findings[name])

        self.assertEqual([n for n in sorted(findings) if has(n, stages)], ["whole"], findings)
        self.assertEqual([n for n in sorted(findings) if has(n, lengths)], ["lengths"], findings)


    def test_priorities(self):
        """Both the check and the server say where they have no effect."""
        config = 'backend: "emulated" max_batch_size: 4 dynamic_batching { priority_levels: %d default_priority_level: 1 } '
        x = 'input { name: "x" data_type: TYPE_FP32 dims: 4 } output { name: "y" data_type: TYPE_FP32 dims: 4 } '
        policies = {"default": None, "objective": "slo_ms: 50", "window": 'policy { name: "window" }', "serial": 'policy { name: "serial" }',
                    "auto": 'policy { name: "auto" }'}  # fmt: skip
        for name, tutti in policies.items():
            self.put(name, b"", config % 2 + x, tutti, "linear { beta_ms: 1 }")
        self.put("one", b"", config % 1 + x, policies["serial"], "linear { beta_ms: 1 }")
        findings, code = self.findings()
        self.assertEqual(code, 0)
        remark = "priority_levels is 2, but policy %s does not order requests by priority; these do: diversity, padded, window"
        wanted = {"objective": [("remark", remark % "adaptive")], "serial": [("remark", remark % "serial")]}
        self.assertEqual({name: found for name, found in findings.items() if found}, wanted)
        server = Server([PROGRAM, "serve", "--model-repository", str(self.path), "--http-port", "0", "--grpc-port", "0"])
        self.assertTrue(server.wait_ready(60), server.said())
        self.assertEqual(server.stop(60), 0)
        said = sorted(line.split("model ", 1)[1].split(":")[0] for line in server.lines if "does not order requests by priority" in line)
        self.assertEqual(said, ["objective", "serial"])

    def test_models_without_a_graph(self):
        """No remark tells to cut or to export what is no ONNX file."""
        x = 'input { name: "x" data_type: TYPE_FP32 dims: 4 } output { name: "y" data_type: TYPE_FP32 dims: 4 } '
        lengths = 'input { name: "lengths" data_type: TYPE_INT32 dims: -1 } output { name: "output" data_type: TYPE_UINT8 dims: 1 } '
        steps = "".join('step { name: "%s" point { batch: 1 latency_ns: 1000 } } ' % name for name in "ab")
        lazy, whole = 'policy { name: "lazy" } ', "point { batch: 1 latency_ns: 2000 } "
        emulated = 'backend: "emulated" '
        self.put("steps", b"", emulated + "max_batch_size: 4 " + x, lazy, whole + steps)
        self.put("alone", b"", emulated + x, None, "linear { beta_ms: 1 }")
        self.put("cells", b"", emulated + "max_batch_size: 4 " + lengths, lazy + "emulation { cells { kind: SEQ2SEQ } }", whole + steps)
        findings, _ = self.findings()
        self.assertEqual(findings, {"steps": [], "alone": [], "cells": []})

    def test_settings_that_have_no_effect(self):
        x = 'input { name: "x" data_type: TYPE_FP32 dims: 4 } output { name: "y" data_type: TYPE_FP32 dims: 4 } '
        step = 'step { model_name: "good" model_version: -1 input_map { key: "x" value: "x" } output_map { key: "y" value: "y" } }'
        self.put("good")
        self.put("both", b"", 'platform: "ensemble" max_batch_size: 4 %s ensemble_scheduling { %s }' % (x, step), 'slo_ms: 50 policy { name: "window" } stages { count: 2 }')
        (self.put("python", b"", 'backend: "python" ' + x, 'policy { name: "lazy" }') / "model.py").write_text("")
        (self.put("cut", b"", 'backend: "python" ' + x, "stages { count: 2 }") / "model.py").write_text("")
        findings, _ = self.findings()
        remark = "%s in tutti.pbtxt has no effect in an ensemble; write it for its steps' models"
        self.assertEqual(findings["both"], [("remark", remark % "policy"), ("remark", remark % "stages")])
        whole = "policy lazy decides between stages, and this model runs whole: choose another policy"
        self.assertEqual(findings["python"], [("remark", whole)])
        cut = "version 1: a model with backend 'python' has no graph to cut: leave `stages` out of tutti.pbtxt"
        self.assertEqual(findings["cut"], [("problem", cut)])


class Problems(CheckCase):
    def test_everything_that_serve_refuses(self):
        slo = "slo_us: 50000 "
        wrong = {
            "policy": (
                self.put("policy", tutti='policy { name: "lasy" }'),
                r"tutti.pbtxt:1:10: no policy is called 'lasy'; did you mean 'lazy'\?",
            ),
            "strange": (
                self.put("strange", tutti='policy { name: "magic" }'),
                "no policy is called 'magic'; there are: adaptive, ",
            ),
            "option": (
                self.put(
                    "option",
                    tutti='policy {\n name: "lazy"\n option { key: "pacience" value: "1" } }',
                ),
                r"tutti.pbtxt:3:11: policy lazy: no option 'pacience'; did you mean 'patience'\?",
            ),
            "drop": (
                self.put(
                    "drop",
                    tutti='policy { name: "deferred" option { key: "drop" value: "none" } }',
                ),
                "policy deferred: no option 'drop'; its options: ",
            ),
            "value": (
                self.put(
                    "value",
                    tutti='policy { name: "window" option { key: "max_delay" value: "5 millis" }}',
                ),
                "tutti.pbtxt:1:.*: policy window: option max_delay: '5 millis' is not a duration",
            ),
            "cells": (
                self.put("cells", tutti='policy { name: "cellular" }'),
                "policy 'cellular' works by cells, but tutti.pbtxt names none",
            ),
            "mixes": (
                self.put("mixes", identity(("n", "m")), tutti='policy { name: "deferred" }'),
                "policy 'deferred' puts requests of any shapes into one batch",
            ),
            "slots": (
                self.put("slots", tutti="input_slots: 64"),
                "input_slots: policy window does not wait for inputs",
            ),
            "stale": (
                self.put(
                    "stale",
                    tutti=slo,
                    profile='model_sha256: "0123456789abcdef" device: "abacus"\n'
                    "point { batch: 1 latency_ns: 5000 }",
                ),
                "profile.pbtxt is stale: it was measured of another model file",
            ),
            "damaged": (
                self.put("damaged", tutti=slo, profile="point { batch: none }"),
                "profile.pbtxt:1:16: ",
            ),
            "named": (
                self.put("named", tutti='profile: "times.pbtxt"'),
                "times.pbtxt: No such file",
            ),
            "emulated": (
                self.put(
                    "emulated",
                    config='backend: "emulated" input { name: "x" data_type: TYPE_FP32 dims: 1 } '
                    'output { name: "y" data_type: TYPE_FP32 dims: 1 }',
                ),
                "an emulated model takes as long as its profile says, and there is none",
            ),
            "opset": (
                self.put("opset", identity(opset=99)),
                r"needs opset 99, and ONNX Runtime \S+ runs opsets up to \d+; export it with "
                r"opset_version=\d+ or lower",
            ),
            "ir": (self.put("ir", identity(ir=99)), "has IR version 99, and ONNX Runtime"),
            "zipmap": (self.put("zipmap", zipmap()), "options={'zipmap': False}"),
            "ensemble": (
                self.put("ensemble", b"", config='platform: "ensemble"'),
                "platform 'ensemble' needs ensemble_scheduling, with a step per model",
            ),
            "pytorch": (
                self.put("pytorch", b"", config='backend: "pytorch"'),
                "backend 'pytorch' cannot be served; there are: onnxruntime, emulated",
            ),
            "python": (
                self.put(
                    "python",
                    b"",
                    config='backend: "python" input { name: "x" data_type: TYPE_FP32 dims: 1 } '
                    'output { name: "y" data_type: TYPE_FP32 dims: 1 }',
                ),
                "python/1/model.py: there is no such file; a model with backend 'python' is model.py",
            ),
            "plan": (
                self.put("plan", b"", config='platform: "tensorrt_plan"'),
                "platform 'tensorrt_plan' cannot be served; Tutti runs ONNX models",
            ),
        }
        wrong["external"] = (
            self.put("external", b""),
            "its weights are in .*/external/1/weights.bin, and there is no such file",
        )
        with_external(wrong["external"][0])
        (wrong["external"][0] / "weights.bin").unlink()
        wrong["renamed"] = (
            self.put("renamed", b""),
            "model.onnx: No such file.*; resnet.onnx lies there: rename it, or write "
            'default_model_filename: "resnet.onnx"',
        )
        (wrong["renamed"][0] / "resnet.onnx").write_bytes(adder(1.0))
        wrong["torch"] = (self.put("torch", b""), "model.pt lies there: Tutti runs ONNX files")
        (wrong["torch"][0] / "model.pt").write_bytes(b"x")
        self.put("good")
        with_external(self.put("good_external", b""))
        found, code = self.findings()
        self.assertEqual(code, 1)
        for name, (_, sentence) in wrong.items():
            with self.subTest(model=name):
                problems = [text for kind, text in found[name] if kind == "problem"]
                self.assertEqual(len(problems), 1, found[name])
                self.assertRegex(problems[0], sentence)
        self.assertEqual(found["good"], [])
        self.assertEqual(found["good_external"], [])
        self.assertEqual(self.serve_refuses(), set(wrong))

    def test_only_loading_finds(self):
        node = helper.make_node("Nonsense", ["x"], ["y"], domain="made.up")
        shape = [value("x", ("n", 4))], [value("y", ("n", 4))]
        self.put("custom", model([node], *shape, domains=["made.up"]))
        softmax = model([helper.make_node("Softmax", ["x"], ["y"], axis=0)], *shape)
        self.put("rows", softmax, config="max_batch_size: 8")
        self.put("alone", softmax)
        # Its inputs are indices into one element: only zeros are.
        gather = helper.make_node("Gather", ["w", "x"], ["y"])
        weights = [numpy_helper.from_array(np.ones((1,), np.float32), "w")]
        ids = [value("x", ("n", 4), TensorProto.INT64)], [value("y", ("n", 4))]
        self.put("zeros", model([gather], *ids, weights))
        self.put("good")
        found, code = self.findings()
        self.assertEqual((code, [f for f in found.values() if f]), (0, []))
        found, code = self.findings("--load")
        self.assertEqual(code, 1)
        self.assertEqual([kind for kind, _ in found["custom"]], ["problem"])
        self.assertIn("Nonsense", found["custom"][0][1])
        self.assertEqual([kind for kind, _ in found["rows"]], ["problem"])
        self.assertIn("its rows depend on each other", found["rows"][0][1])
        self.assertEqual([kind for kind, _ in found["alone"]], ["remark"])
        self.assertIn("it is served without batching: its rows depend", found["alone"][0][1])
        self.assertEqual((found["good"], found["zeros"]), ([], []))
        self.assertEqual(self.serve_refuses(), {"custom", "rows"})

    def test_a_row_is_run(self):
        # Generated inputs have 16 * 16, 64 * 64 or 224 * 224 elements: no three equal parts.
        nodes = [
            helper.make_node("Reshape", ["x", "three"], ["a"]),
            helper.make_node("Identity", ["a"], ["y"]),
        ]
        three = numpy_helper.from_array(np.array([3, -1], np.int64), "three")
        self.put(
            "stuck",
            model(nodes, [value("x", ("n", "m"))], [value("y", ("k", "l"))], [three]),
            config="max_batch_size: 0",
        )
        self.assertEqual(self.findings()[0]["stuck"], [])
        found, code = self.findings("--load")
        self.assertEqual(code, 0)
        self.assertEqual([kind for kind, _ in found["stuck"]], ["remark"])
        self.assertIn("it runs with no made-up input: ", found["stuck"][0][1])


class Remarks(CheckCase):
    def test_gpus(self):
        self.put("kind", config="instance_group { kind: KIND_GPU }")
        self.put("gpus", config="instance_group { count: 1 gpus: [ 0 ] }")
        self.put("cpu", config="instance_group { kind: KIND_CPU }")
        found, code = self.findings()
        self.assertEqual((code, found["cpu"]), (0, []))
        for name in ("kind", "gpus"):
            (kind, sentence), = found[name]
            self.assertEqual(kind, "remark")
            self.assertIn("engine 'onnxruntime' uses no GPU: the group runs on the CPU", sentence)
            self.assertIn("config.pbtxt:1:", sentence)
        command = [PROGRAM, "serve", "--model-repository", str(self.path), "--http-port", "0"]
        server = Server(command)
        self.assertTrue(server.wait_ready(60), server.said())
        self.assertEqual(server.stop(60), 0)
        said = [line for line in server.lines if "uses no GPU" in line]
        self.assertEqual(len(said), 2, server.said())
        self.assertTrue(all(line.startswith("W") for line in said), said)

    def test_strict_gpu(self):
        """A group that asks for a GPU is served with a warning, or refused; the others serve either way."""
        for name, group in (("kind", "kind: KIND_GPU"), ("gpus", "count: 1 gpus: [ 0 ]"), ("cpu", "kind: KIND_CPU")):
            self.put(name, config="instance_group { %s }" % group)
        text = "asks for a GPU, and backend 'onnxruntime' uses none: write kind: KIND_CPU without gpus, or serve without --strict-gpu"
        found, code = self.findings("--strict-gpu")
        self.assertEqual((code, found["cpu"]), (1, []))
        for name in ("kind", "gpus"):
            self.assertTrue(any(kind == "problem" and text in sentence for kind, sentence in found[name]), found[name])
        command = [PROGRAM, "serve", "--model-repository", str(self.path), "--http-port", "0"]
        for flags, count in ((["--strict-gpu"], 1), (["--strict-gpu", "--model-control-mode", "poll", "--isolate-loads", "true"], 1), ([], 3)):
            server = Server(command + flags)
            self.assertTrue(server.wait_ready(60), server.said())
            self.assertEqual(server.stop(60), 0)
            self.assertIn("serving %d of 3 models" % count, server.said())
            self.assertEqual(text in server.said(), count == 1)
            self.assertIn("engine 'onnxruntime' uses no GPU: the group runs on the CPU", server.said())

    def test_fixed_batch(self):
        self.put("fixed", identity((8, 4)))
        self.put("written", identity((8, 4)), config="max_batch_size: 0")
        self.put("scalar", identity(()))
        found, code = self.findings()
        (kind, sentence), = found["fixed"]
        self.assertEqual((code, kind), (0, "remark"))
        self.assertIn("input 'x' has shape [8,4]", sentence)
        self.assertIn("export it with a symbolic first dimension to batch", sentence)
        self.assertEqual((found["written"], found["scalar"]), ([], []))

    def test_models_in_the_wrong_place(self):
        self.put("shop")
        (self.path / "loose.onnx").write_bytes(adder(1.0))
        done = self.check()
        self.assertIn("loose.onnx is no model where it lies; move it to ", done.stderr)
        self.assertIn("/loose/1/model.onnx", done.stderr)
        done = self.check(path=self.path / "shop")
        self.assertIn("is a model, not a folder of models; is its parent meant, ", done.stderr)
        self.assertIn(str(self.path.resolve()), done.stderr)
        command = [PROGRAM, "serve", "--http-port", "0", "--model-repository"]
        server = Server(command + [str(self.path / "shop")])
        self.assertTrue(server.wait_ready(60), server.said())
        self.assertEqual(server.stop(60), 0)
        self.assertIn("is its parent meant, ", server.said())

    def test_a_name_that_is_no_text(self):
        """Neither a path of HTTP nor a page of metrics can have it."""
        self.put("good")
        os.rename(os.fsencode(self.path / "good"), os.fsencode(self.path) + b"/bad\xff")
        self.put("good")
        done = self.check()
        self.assertIn("1 model, 0 with problems", done.stdout)
        self.assertIn("/bad? is no model: its name is not UTF-8 text; rename the folder", done.stderr)
        server = Server([PROGRAM, "serve", "--model-repository", str(self.path), "--http-port", "0"])
        self.assertTrue(server.wait_ready(60), server.said())
        page = urllib.request.urlopen("http://%s/metrics" % server.address, timeout=60).read()
        self.assertEqual(server.stop(60), 0)
        self.assertIn("serving 1 of 1 models", server.said())
        self.assertIn("/bad? is no model", server.said())
        self.assertEqual(set(re.findall(r'model_ready{model="([^"]*)"', page.decode())), {"good"})

    def test_profile_from_another_processor(self):
        import hashlib

        version = self.put("elsewhere", tutti="slo_us: 50000")
        digest = hashlib.sha256((version / "model.onnx").read_bytes()).hexdigest()
        (self.path / "elsewhere" / "profile.pbtxt").write_text(
            'model_sha256: "%s" device: "abacus"\npoint { batch: 1 latency_ns: 5000 }\n' % digest
        )
        found, code = self.findings()
        (kind, sentence), = found["elsewhere"]
        self.assertEqual((code, kind), (0, "remark"))
        self.assertIn("it was measured on 'abacus', and this is ", sentence)
        self.assertEqual(self.serve_refuses(), set())
        found, code = self.findings("--strict-profile")
        (kind, sentence), = found["elsewhere"]
        self.assertEqual((code, kind), (1, "problem"))
        self.assertIn("or serve without --strict-profile", sentence)
        command = [PROGRAM, "serve", "--model-repository", str(self.path), "--http-port", "0"]
        for flags, serves in ((["--strict-profile"], False), ([], True)):
            server = Server(command + flags)
            self.assertTrue(server.wait_ready(60), server.said())
            self.assertEqual(server.stop(60), 0)
            self.assertEqual("serving 1 of 1 models" in server.said(), serves)
            self.assertIn("it was measured on 'abacus'", server.said())
            self.assertEqual("measuring now" in server.said(), serves)


if __name__ == "__main__":
    os.environ.setdefault("PYTHONUNBUFFERED", "1")
    unittest.main()
