#!/usr/bin/env python3
"""A model whose batch never ends beside a good one: the good one answers throughout, the other gets its errors and
becomes UNAVAILABLE with the reason, and SIGTERM ends the server in time, whether the batch can be stopped or not."""
import http.client
import json
import os
import pathlib
import re
import shutil
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

from needs import need  # noqa: E402

need("onnx", "numpy")

import numpy  # noqa: E402
import onnx  # noqa: E402
from onnx import TensorProto, helper  # noqa: E402

from added_engine import build  # noqa: E402
from plain_client import PROGRAM, Server, get  # noqa: E402

LIMIT_MS = 1000
PROGRAM_FOLDER = pathlib.Path(PROGRAM).resolve().parent


def info(name, shape, kind=TensorProto.FLOAT):
    return helper.make_tensor_value_info(name, kind, shape)


def save(graph, path):
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)])
    model.ir_version = 8
    path.parent.mkdir(parents=True)
    onnx.save(model, path)


def loop_graph():
    """y = x, after as many rounds of a loop as the largest x says."""
    body = helper.make_graph(
        [helper.make_node("Identity", ["on"], ["go_on"]), helper.make_node("Relu", ["v"], ["w"])],
        "body",
        [info("i", [], TensorProto.INT64), info("on", [], TensorProto.BOOL), info("v", ["n", 1])],
        [info("go_on", [], TensorProto.BOOL), info("w", ["n", 1])],
    )
    nodes = [
        helper.make_node("ReduceMax", ["x"], ["largest"], keepdims=0),
        helper.make_node("Cast", ["largest"], ["rounds"], to=TensorProto.INT64),
        helper.make_node("Loop", ["rounds", "yes", "x"], ["y"], body=body),
    ]
    yes = onnx.numpy_helper.from_array(numpy.array(True), "yes")
    return helper.make_graph(nodes, "loop", [info("x", ["n", 1])], [info("y", ["n", 1])], [yes])


def loop_cell():
    """h_out = h, after as many rounds of a loop as the largest word says."""
    body = helper.make_graph(
        [helper.make_node("Identity", ["on"], ["go_on"]), helper.make_node("Relu", ["v"], ["w"])],
        "body",
        [info("i", [], TensorProto.INT64), info("on", [], TensorProto.BOOL), info("v", ["n", 1])],
        [info("go_on", [], TensorProto.BOOL), info("w", ["n", 1])],
    )
    nodes = [
        helper.make_node("ReduceMax", ["word"], ["rounds"], keepdims=0),
        helper.make_node("Loop", ["rounds", "yes", "h"], ["h_out"], body=body),
    ]
    yes = onnx.numpy_helper.from_array(numpy.array(True), "yes")
    inputs = [info("word", ["n"], TensorProto.INT64), info("h", ["n", 1])]
    return helper.make_graph(nodes, "cell", inputs, [info("h_out", ["n", 1])], [yes])


def good_graph():
    return helper.make_graph(
        [helper.make_node("Relu", ["x"], ["y"])], "good", [info("x", ["n", 1])], [info("y", ["n", 1])]
    )


# The engine of the example, but some inputs make a batch hang: at -2 it can be stopped, at -3 it cannot.
HANG = """
#include <time.h>

static void hang(struct tt_executor_thread *thread, const struct tt_engine_valid_members *valid) {
    float first = valid->count ? *(const float *)valid->members[0]->inputs[0].bytes : 0;
    while (first == -3 ||
           (first == -2 && tt_executor_thread_asked(thread) != TT_EXECUTOR_ABORT))
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

static void run("""
DEAF_CONFIG = """
backend: "deaf" max_batch_size: 4
input { name: "x" data_type: TYPE_FP32 dims: 1 }
output { name: "y" data_type: TYPE_FP32 dims: 1 }
"""


def deaf_engine():
    text = (ROOT / "examples/engine/echo.c").read_text().replace("echo", "deaf")
    changed = text.replace("\nstatic void run(", HANG, 1).replace(
        "&self->valid);\n", "&self->valid);\n    hang(thread, &self->valid);\n", 1
    )
    assert changed.count("hang(") == 2
    return changed


def infer(address, model, x):
    """The status, and the value or the error."""
    body = {"inputs": [{"name": "x", "shape": [1, 1], "datatype": "FP32", "data": [x]}]}
    status, _, answer = get(address, "/v2/models/%s/infer" % model, "POST", json.dumps(body))
    answer = json.loads(answer)
    return status, answer["outputs"][0]["data"][0] if status == 200 else answer["error"]


class Throughout:
    """Clients that ask the good model again and again."""

    def __init__(self, address, model, count=2):
        self.answers, self.over = [], threading.Event()
        self.threads = [threading.Thread(target=self.ask, args=(address, model)) for _ in range(count)]
        for thread in self.threads:
            thread.start()

    def ask(self, address, model):
        while not self.over.is_set():
            self.answers.append(infer(address, model, 3.0))

    def end(self):
        self.over.set()
        for thread in self.threads:
            thread.join()
        return self.answers


class Case(unittest.TestCase):
    def index(self, model):
        _, _, page = get(self.server.address, "/v2/repository/index", "POST")
        return next(entry for entry in json.loads(page) if entry["name"] == model)

    def metric(self, sample):
        _, _, page = get(self.server.address, "/metrics")
        return next(line.split()[-1] for line in page.decode().splitlines() if line.startswith(sample))

    def await_unavailable(self, model):
        while self.index(model)["state"] != "UNAVAILABLE":
            time.sleep(0.01)
        return self.index(model)["reason"]

    def load(self, model):
        return get(self.server.address, "/v2/repository/models/%s/load" % model, "POST", "{}")[0]

    def stop(self, grace_ms):
        """SIGTERM ends it with 0, and not long after the grace; the rest is for a busy machine."""
        self.server.process.send_signal(signal.SIGTERM)
        self.assertEqual(self.server.process.wait(grace_ms / 1000 + 30), 0, self.server.said())
        self.server.reader.join()
        self.server.process.stderr.close()


class Loop(Case):
    """ONNX Runtime stops a run when it is asked to."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.models = pathlib.Path(folder.name) / "models"
        self.recording = pathlib.Path(folder.name) / "run.rec"
        for name, graph in (("loop", loop_graph()), ("good", good_graph())):
            save(graph, self.models / name / "1" / "model.onnx")
            self.settings(name, "")

    def settings(self, name, more):
        (self.models / name / "config.pbtxt").write_text("max_batch_size: 4\n")
        (self.models / name / "tutti.pbtxt").write_text('policy { name: "window" }\n' + more)

    def serve(self, *flags, executors="1"):
        self.server = Server(self.models, "--executors", executors, *flags)
        self.addCleanup(self.server.process.kill)

    def test_the_batch_is_stopped(self):
        self.settings("loop", "max_run_ms: %d\n" % LIMIT_MS)
        explicit = ["--model-control-mode", "explicit", "--load-model", "*"]
        self.serve("--record", self.recording, *explicit)
        self.assertEqual(infer(self.server.address, "loop", 2.0), (200, 2.0))
        good = Throughout(self.server.address, "good")
        status, why = infer(self.server.address, "loop", 1e15)
        self.assertEqual(status, 503, why)
        self.assertIn("request to model 'loop' failed: its batch of 1 row ran longer than 1000 ms", why)
        reason = self.await_unavailable("loop")
        self.assertIn("a batch of 1 row ran longer than 1000 ms", reason)
        self.assertIn("was stopped", reason)
        status, why = infer(self.server.address, "loop", 1.0)
        self.assertEqual(status, 503)
        self.assertIn(reason, why)
        answers = good.end()
        self.assertEqual(set(answers), {(200, 3.0)})
        self.assertEqual(self.metric('tutti_watchdog_total{model="loop",version="1",action="stopped"}'), "1")
        self.assertEqual(self.metric('tutti_watchdog_total{model="loop",version="1",action="lost"}'), "0")
        self.assertEqual(self.index("good")["state"], "READY")
        self.assertEqual(self.load("loop"), 200)  # as the reason says
        self.assertEqual(infer(self.server.address, "loop", 5.0), (200, 5.0))
        self.stop(5000)
        self.assertTrue(any("model loop version 1: a batch of 1 row ran" in line for line in self.server.lines))
        replayed = subprocess.run(
            [PROGRAM, "replay", self.recording, "--check"], capture_output=True, text=True, check=False
        )
        self.assertEqual(replayed.returncode, 0, replayed.stdout + replayed.stderr)
        self.assertIn("all identical", replayed.stdout)

    def test_cells(self):
        """Requests of cells: the task with the cell that does not end, and all others of the model."""
        for policy in ("cellular", "window"):
            model = self.models / ("cells_" + policy)
            save(loop_cell(), model / "1" / "cell.onnx")
            same = ' option { key: "same_length" value: "off" }' if policy == "window" else ""
            (model / "tutti.pbtxt").write_text(
                'max_run_ms: %d policy { name: "%s"%s }\n' % (LIMIT_MS, policy, same)
                + 'cell { file: "cell.onnx" max_batch: 4 read { input: "word" from: "tokens" } '
                + 'state { output: "h_out" input: "h" } }\n'
                + 'unfold { kind: CHAIN max_length: 16 answer: "h_out" }\n'
            )
        self.serve("--record", self.recording)

        def tokens(model, *values):
            body = {
                "inputs": [{"name": "tokens", "shape": [1, len(values)], "datatype": "INT64", "data": list(values)}]
            }
            return get(self.server.address, "/v2/models/%s/infer" % model, "POST", json.dumps(body))[::2]

        for policy in ("cellular", "window"):
            model = "cells_" + policy
            self.assertEqual(tokens(model, 1, 2, 3)[0], 200)
            answers = []
            clients = [
                threading.Thread(target=lambda: answers.append(tokens(model, 1, 10**15, 1)[0])) for _ in range(3)
            ]
            for client in clients:
                client.start()
            for client in clients:
                client.join()
            self.assertEqual(answers, [503] * 3)
            self.assertIn("ran longer than 1000 ms", self.await_unavailable(model))
            self.assertEqual(infer(self.server.address, "good", 4.0), (200, 4.0))
        self.stop(5000)
        replayed = subprocess.run(
            [PROGRAM, "replay", self.recording, "--check"], capture_output=True, text=True, check=False
        )
        self.assertEqual(replayed.returncode, 0, replayed.stdout + replayed.stderr)

    def test_the_flag_is_the_default(self):
        self.serve("--max-run-ms", str(LIMIT_MS))
        status, why = infer(self.server.address, "loop", 1e15)
        self.assertEqual(status, 503)
        self.assertIn("ran longer than 1000 ms", why)
        self.stop(5000)

    def test_sigterm_does_not_wait_for_the_batch(self):
        self.serve("--grace-ms", "200", executors="2")  # the default limit is 10 s or more
        host, port = self.server.address.split(":")
        client = http.client.HTTPConnection(host, int(port), timeout=60)
        body = {"inputs": [{"name": "x", "shape": [1, 1], "datatype": "FP32", "data": [1e15]}]}
        client.request("POST", "/v2/models/loop/infer", json.dumps(body))
        while self.metric('nv_inference_pending_request_count{model="loop",version="1"}') != "1":
            time.sleep(0.01)
        self.stop(200)
        client.close()


class Deaf(Case):
    """An engine that never returns from a batch."""

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.program = build(folder.name, "deaf", deaf_engine())
        cls.models = pathlib.Path(folder.name) / "models"
        for name in ("stuck", "good"):
            (cls.models / name / "1").mkdir(parents=True)
            (cls.models / name / "config.pbtxt").write_text(DEAF_CONFIG)
            (cls.models / name / "tutti.pbtxt").write_text('policy { name: "window" }\n')

    def serve(self, *flags):
        self.server = Server(self.models, "--executors", "1", *flags, program=self.program)
        self.addCleanup(self.server.process.kill)

    def test_the_batch_is_given_up(self):
        self.serve("--max-run-ms", str(LIMIT_MS), "--strict-readiness", "false")
        good = Throughout(self.server.address, "good")
        status, why = infer(self.server.address, "stuck", -3)
        self.assertEqual(status, 503)
        self.assertIn("request to model 'stuck' failed: its batch of 1 row ran longer than 1000 ms", why)
        self.assertIn("did not stop: its thread is lost", self.await_unavailable("stuck"))
        self.assertEqual(infer(self.server.address, "good", 4.0), (200, 4.0))  # on a new thread
        self.assertEqual(set(good.end()), {(200, 3.0)})
        self.assertEqual(self.metric('tutti_watchdog_total{model="stuck",version="1",action="lost"}'), "1")
        self.assertEqual(self.metric("tutti_watchdog_lost_batches"), "1")
        self.assertEqual(get(self.server.address, "/v2/health/ready")[0], 200)
        self.stop(5000)
        self.assertTrue(any("1 batch never ended; it is left behind" in line for line in self.server.lines))

    def test_sigterm_leaves_it_behind(self):
        self.serve("--grace-ms", "200")
        client = http.client.HTTPConnection(self.server.address, timeout=60)
        body = {"inputs": [{"name": "x", "shape": [1, 1], "datatype": "FP32", "data": [-3]}]}
        client.request("POST", "/v2/models/stuck/infer", json.dumps(body))
        while self.metric('nv_inference_pending_request_count{model="stuck",version="1"}') != "1":
            time.sleep(0.01)
        self.stop(200)
        client.close()


class Plugin(Case):
    """An unfold plug-in that never returns: it has a thread of its own, so connections go on."""

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.models = pathlib.Path(folder.name) / "models"
        cls.go = pathlib.Path(folder.name) / "go"
        maker = [sys.executable, ROOT / "scripts" / "make_models.py", "--out", cls.models, "--only", "chain64"]
        subprocess.run(maker, check=True, capture_output=True)
        shutil.copytree(cls.models / "chain64", cls.models / "plugin")
        shutil.copy(PROGRAM_FOLDER / "tests" / "plugins" / "faulty.so", cls.models / "plugin")
        settings = cls.models / "plugin" / "tutti.pbtxt"
        text, count = re.subn(
            r"kind: CHAIN", 'kind: PLUGIN plugin: "faulty.so" parameter: "hang %s"' % cls.go, settings.read_text()
        )
        assert count == 1, text
        settings.write_text("max_run_ms: %d\n" % LIMIT_MS + text)

    def serve(self, *flags):
        self.server = Server(self.models, *flags)
        self.addCleanup(self.server.process.kill)

    def ask(self, model, *tokens):
        body = {
            "inputs": [{"name": "tokens", "shape": [1, len(tokens)], "datatype": "INT64", "data": list(tokens)}]
        }
        status, _, answer = get(self.server.address, "/v2/models/%s/infer" % model, "POST", json.dumps(body))
        return status, json.loads(answer)

    def test_the_plugin_is_given_up(self):
        self.serve("--strict-readiness", "false")
        good = self.ask("chain64", 1, 2, 3)
        self.assertEqual(good[0], 200)
        self.assertEqual(self.ask("plugin", 1, 2, 3)[1]["outputs"], good[1]["outputs"])
        answers = []
        stuck = threading.Thread(target=lambda: answers.append(self.ask("plugin", 666, 1)))
        stuck.start()
        while self.ask("chain64", 4, 5)[0] == 200 and not answers:  # on the same connections' thread
            pass
        stuck.join()
        self.assertEqual(answers[0][0], 503)
        self.assertIn("its unfold plug-in did not return within 1000 ms", answers[0][1]["error"])
        reason = self.await_unavailable("plugin")
        self.assertIn("its unfold plug-in did not return within 1000 ms", reason)
        self.assertEqual(self.ask("plugin", 1)[0], 503)
        self.assertEqual(self.ask("chain64", 1, 2, 3), good)
        self.assertEqual(self.metric("tutti_watchdog_lost_batches"), "1")
        self.assertEqual(self.metric('tutti_watchdog_total{model="plugin",version="1",action="lost"}'), "1")
        self.go.write_text("")  # it returns after all, and nothing is left behind
        self.addCleanup(self.go.unlink)
        while self.metric("tutti_watchdog_lost_batches") != "0":
            time.sleep(0.01)
        self.stop(5000)
        self.assertFalse(any("left behind" in line for line in self.server.lines))

    def test_sigterm_leaves_it_behind(self):
        self.serve("--grace-ms", "100")
        client = http.client.HTTPConnection(self.server.address, timeout=60)
        body = {"inputs": [{"name": "tokens", "shape": [1, 1], "datatype": "INT64", "data": [666]}]}
        client.request("POST", "/v2/models/plugin/infer", json.dumps(body))
        self.assertEqual(self.ask("chain64", 4, 5)[0], 200)
        self.stop(100)
        client.close()


if __name__ == "__main__":
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
    unittest.main()
