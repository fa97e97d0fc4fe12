"""Tests that bring a repository and start a server of their own. The program is $TUTTI_PROGRAM."""
import http.client
import json
import os
import pathlib
import shutil
import socket
import tempfile
import time
import unittest

import numpy as np
import tritonclient.http as triton
from onnx import TensorProto, helper
from server_process import Server
from tritonclient.utils import InferenceServerException

PROGRAM = os.environ["TUTTI_PROGRAM"]
WAIT_S = 30


def adder(amount, count=1):
    """y = x + amount, rows of 4; `count` times, to make it heavier."""
    amounts = helper.make_tensor("amount", TensorProto.FLOAT, [1], [amount])
    zero = helper.make_tensor("zero", TensorProto.FLOAT, [1], [0.0])
    nodes, last = [], "x"
    for i in range(count - 1):
        nodes.append(helper.make_node("Add", [last, "zero"], ["t%d" % i]))
        last = "t%d" % i
    nodes.append(helper.make_node("Add", [last, "amount"], ["y"]))
    shape = ["N", 4]
    graph = helper.make_graph(
        nodes,
        "adder",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)],
        [amounts, zero],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 8
    return model.SerializeToString()


def one_node(node, x_shape, y_shape, initializers=()):
    """y is what the node makes of x."""
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, x_shape)
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, y_shape)
    graph = helper.make_graph([node], "one node", [x], [y], list(initializers))
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 8
    return model.SerializeToString()


def identity():
    """y = x, rows of any length."""
    return one_node(helper.make_node("Identity", ["x"], ["y"]), ["N", "M"], ["N", "M"])


def slow(layers=150, width=512):
    """y = 0, rows of 4, after a few milliseconds."""
    sizes = {"in": [4, width], "w": [width, width], "out": [width, 4]}
    weights = [
        helper.make_tensor(n, TensorProto.FLOAT, s, bytes(4 * s[0] * s[1]), True)
        for n, s in sizes.items()
    ]
    names = ["in"] + ["w"] * layers + ["out"]
    nodes, last = [], "x"
    for i, weight in enumerate(names):
        to = "y" if i == len(names) - 1 else "t%d" % i
        nodes.append(helper.make_node("MatMul", [last, weight], [to]))
        last = to
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 4])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", 4])
    graph = helper.make_graph(nodes, "slow", [x], [y], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 8
    return model.SerializeToString()


class Repository:
    def __init__(self):
        self.path = pathlib.Path(tempfile.mkdtemp(prefix="tutti-control-"))

    def put(self, name, amounts, config=""):
        """`amounts`: by version. Written beside, then moved, so that no poll sees half of it."""
        fresh = self.path / ("." + name)
        shutil.rmtree(fresh, ignore_errors=True)
        for version, amount in amounts.items():
            (fresh / str(version)).mkdir(parents=True)
            data = amount if isinstance(amount, bytes) else adder(amount)
            (fresh / str(version) / "model.onnx").write_bytes(data)
        if config:
            (fresh / "config.pbtxt").write_text(config)
        self.remove(name)
        fresh.rename(self.path / name)

    def remove(self, name):
        shutil.rmtree(self.path / name, ignore_errors=True)

    def close(self):
        shutil.rmtree(self.path, ignore_errors=True)


class ControlCase(unittest.TestCase):
    flags = []

    def setUp(self):
        self.repository = Repository()
        self.addCleanup(self.repository.close)
        self.fill()
        command = [PROGRAM, "serve", "--model-repository", str(self.repository.path)]
        self.server = Server(command + ["--http-port", "0"] + self.flags)
        self.addCleanup(self.stop)
        self.assertTrue(self.server.wait_ready(60), self.server.said())
        self.client = self.new_client()

    def new_client(self):
        client = triton.InferenceServerClient(self.server.address, network_timeout=60)
        self.addCleanup(client.close)
        return client

    def stop(self):
        self.assertEqual(self.server.stop(60), 0, self.server.said())

    def dial(self):
        host, port = self.server.address.split(":")
        found = socket.create_connection((host, int(port)), timeout=60)
        self.addCleanup(found.close)
        return found

    def memory(self, what):
        """Bytes of a line of the server's /proc/PID/status: VmSize, VmRSS, VmHWM (the peak)."""
        for line in pathlib.Path("/proc/%d/status" % self.server.process.pid).read_text().splitlines():
            if line.startswith(what + ":"):
                return int(line.split()[1]) * 1024
        raise AssertionError("no " + what)

    def is_sanitized(self):
        """AddressSanitizer keeps freed memory, and so shows nothing about ours."""
        return "libasan" in pathlib.Path("/proc/%d/maps" % self.server.process.pid).read_text()

    def ask(self, method, path, body=None, headers=None):
        connection = http.client.HTTPConnection(self.server.address, timeout=60)
        connection.request(method, path, body, headers or {})
        answer = connection.getresponse()
        content = answer.read()
        connection.close()
        return answer.status, json.loads(content) if content else None

    def infer(self, model, version="", client=None, **options):
        x = triton.InferInput("x", [1, 4], "FP32")
        x.set_data_from_numpy(np.zeros((1, 4), np.float32))
        result = (client or self.client).infer(model, [x], model_version=version, **options)
        y = result.as_numpy("y")
        self.assertEqual(len(set(y.reshape(-1).tolist())), 1, y)
        return float(y[0, 0]), result.get_response()["model_version"]

    def index(self, only_ready=False):
        status, entries = self.ask(
            "POST", "/v2/repository/index", json.dumps({"ready": only_ready})
        )
        self.assertEqual(status, 200)
        found = {}
        for entry in entries:
            found.setdefault(entry["name"], {})[entry.get("version")] = (
                entry.get("state"),
                entry.get("reason"),
            )
        return found

    def wait_until(self, check, what):
        end = time.monotonic() + WAIT_S
        while not check():
            self.assertLess(time.monotonic(), end, "%s; %s" % (what, self.server.said()))
            time.sleep(0.02)

    def refused(self, status, part, work, *arguments, **options):
        with self.assertRaises(InferenceServerException) as caught:
            work(*arguments, **options)
        self.assertEqual(caught.exception.status(), str(status), caught.exception.message())
        self.assertIn(part, caught.exception.message())

    def metrics(self):
        found = {}

        def read():
            connection = http.client.HTTPConnection(self.server.address, timeout=60)
            connection.request("GET", "/metrics")
            answer = connection.getresponse()
            text = answer.read().decode()
            connection.close()
            if answer.status != 200:  # over some limit still
                return False
            for line in text.splitlines():
                if line and not line.startswith("#"):
                    name, value = line.rsplit(" ", 1)
                    found[name] = float(value)
            return True

        self.wait_until(read, "no metrics")
        return found

    def check_conservation(self, model, succeeded):
        label = '{model="%s",version="1"' % model
        at = self.metrics()
        accepted = at["tutti_requests_accepted_total%s}" % label]
        self.assertEqual(at["nv_inference_request_success%s}" % label], succeeded)
        failed = sum(
            v for k, v in at.items() if k.startswith("nv_inference_request_failure" + label)
        )
        self.assertEqual(
            accepted, succeeded + failed + at["nv_inference_pending_request_count%s}" % label]
        )
