#!/usr/bin/env python3
"""Spans over OTLP and the W3C trace context, by HTTP and gRPC: a small collector takes what the server sends."""
import http.client
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import unittest

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "python"))

from needs import need  # noqa: E402

need("grpc", "numpy", "tritonclient")

import numpy as np  # noqa: E402
import tritonclient.grpc  # noqa: E402
from collector import Collector, interval, trees  # noqa: E402
from plain_client import PROGRAM, get, infer_body  # noqa: E402
from server_process import Server, free_port  # noqa: E402

CONFIG = """backend: "emulated"
max_batch_size: 8
input { name: "input" data_type: TYPE_FP32 dims: 16 }
output { name: "output" data_type: TYPE_FP32 dims: 16 }
"""
TRACE = "0af7651916cd43dd8448eb211c80319c"
SPAN = "b7ad6b7169203331"
PARENT = "00-%s-%s-01" % (TRACE, SPAN)


def make_models(folder):
    for name, more in (("quick", ""), ("slow", "slo_ms: 1000\n")):
        model = pathlib.Path(folder, name)
        (model / "1").mkdir(parents=True)
        (model / "config.pbtxt").write_text(CONFIG)
        (model / "profile.pbtxt").write_text("linear { alpha_ms: 1 beta_ms: 3 }\n")
        (model / "tutti.pbtxt").write_text(more)


class Telemetry(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        cls.models = cls.folder / "models"
        make_models(cls.models)

    def serve(self, *flags):
        for _ in range(5):  # another process may take the port that was free
            self.grpc_port = free_port()
            command = [PROGRAM, "serve", "--model-repository", self.models, "--http-port", 0]
            command += ["--grpc-port", self.grpc_port, "--executors", 2, *flags]
            server = Server([str(word) for word in command])
            if server.wait_ready(60):
                return server
        raise AssertionError(server.said())

    def collector(self, *flags):
        collector = Collector()
        self.addCleanup(collector.close)
        return collector, self.serve("--otlp", collector.url, *flags)

    def infer(self, server, headers=(), model="quick", body=None):
        """Status and headers of one inference over HTTP."""
        client = http.client.HTTPConnection(server.address, timeout=60)
        client.putrequest("POST", "/v2/models/%s/infer" % model)
        body = (body or infer_body()).encode()
        for name, value in (*headers, ("Content-Length", str(len(body)))):
            client.putheader(name, value)
        client.endheaders(body)
        answer = client.getresponse()
        answer.read()
        client.close()
        return answer.status, answer.headers

    def check_tree(self, tree, names):
        """The spans have these names, and lie within their parents, one after the other."""
        self.assertEqual(set(tree.names), set(names))
        for parent in (tree.root, *tree.names.values()):
            begin, end = interval(parent)
            self.assertLessEqual(begin, end)
            at = begin
            for child in tree.children.get(parent["spanId"], []):
                self.assertEqual(child["kind"], 1)
                child_begin, child_end = interval(child)
                self.assertGreaterEqual(child_begin, at, (parent["name"], child["name"]))
                self.assertLessEqual(child_end, end, (parent["name"], child["name"]))
                at = child_end
        for name in names:
            inner = name == "run"
            self.assertEqual(tree.names[name]["parentSpanId"], tree.names["batch"]["spanId"] if inner else tree.root["spanId"])

    def end(self, server):
        self.assertEqual(server.stop(60), 0, server.said())

    ALL = ("receive", "queue", "batch", "run", "send")

    def test_spans_over_http(self):
        collector, server = self.collector()
        before = time.time_ns()
        status, headers = self.infer(
            server, [("Traceparent", PARENT), ("tracestate", "a=1"), ("tracestate", "b=2")], "slow"
        )
        self.assertEqual(status, 200)
        answered = headers["traceparent"].split("-")
        self.assertEqual((answered[0], answered[1], answered[3]), ("00", TRACE, "01"))
        self.assertEqual(headers["tracestate"], "a=1,b=2")
        self.assertEqual(self.infer(server, model="none")[0], 404)
        self.assertEqual(get(server.address, "/v2/health/live")[0], 200)
        self.assertEqual(get(server.address, "/v2/models/slow")[0], 200)  # only inferences have spans
        self.end(server)  # which sends what is left
        self.assertEqual(collector.problems, [])
        [tree, lost] = sorted(trees(collector.spans()), key=lambda tree: interval(tree.root))
        self.check_tree(tree, self.ALL)
        root = tree.root
        self.assertEqual((root["traceId"], root["parentSpanId"], root["spanId"]), (TRACE, SPAN, answered[2]))
        self.assertEqual((root["name"], root["traceState"]), ("POST infer", "a=1,b=2"))
        self.assertTrue(before <= interval(root)[0] <= interval(root)[1] <= time.time_ns())
        self.assertGreaterEqual(interval(tree.names["run"])[1] - interval(tree.names["run"])[0], 3_000_000)
        expected = {
            "http.request.method": "POST",
            "url.path": "/v2/models/slow/infer",
            "http.response.status_code": 200,
            "tutti.model": "slow",
            "tutti.rows": 1,
            "tutti.batch_rows": 1,
            "tutti.deadline_ms": 1000.0,
        }
        self.assertEqual({key: tree.attribute(key) for key in expected}, expected)
        self.assertLess(tree.attribute("tutti.slack_ms"), 1000)
        self.assertEqual(tree.attribute("tutti.batch_rows", tree.names["batch"]), 1)
        self.assertNotIn("status", root)
        self.check_tree(lost, ["receive"])
        self.assertNotIn("parentSpanId", lost.root)
        self.assertNotEqual(lost.root["traceId"], TRACE)
        self.assertEqual(lost.attribute("http.response.status_code"), 404)
        resource = {a["key"]: a["value"] for a in collector.posts[0]["resourceSpans"][0]["resource"]["attributes"]}
        self.assertEqual(resource["service.name"], {"stringValue": "tutti"})

    def test_spans_over_grpc(self):
        collector, server = self.collector()
        with tritonclient.grpc.InferenceServerClient("127.0.0.1:%d" % self.grpc_port) as client:
            sent = tritonclient.grpc.InferInput("input", [2, 16], "FP32")
            sent.set_data_from_numpy(np.zeros((2, 16), np.float32))
            client.infer("quick", [sent], headers={"traceparent": PARENT, "tracestate": "a=1"})
            client.infer("quick", [sent], headers={"traceparent": PARENT[:-1]})
            answers = []
            client.start_stream(lambda result, error: answers.append(error), headers={"traceparent": PARENT})
            for _ in range(3):
                client.async_stream_infer("quick", [sent])
            client.stop_stream()
        self.assertEqual(answers, [None] * 3)
        self.end(server)
        found = trees(collector.spans())
        self.assertEqual(len(found), 5)
        for tree in found:
            self.check_tree(tree, self.ALL)
            self.assertEqual(tree.attribute("rpc.service"), "inference.GRPCInferenceService")
            self.assertEqual(tree.attribute("rpc.grpc.status_code"), 0)
            self.assertEqual(tree.attribute("tutti.rows"), 2)
        unary = [tree for tree in found if tree.attribute("rpc.method") == "ModelInfer"]
        self.assertEqual(unary[0].root["name"], "inference.GRPCInferenceService/ModelInfer")
        ours = [tree for tree in found if tree.root["traceId"] == TRACE]
        self.assertEqual(len(ours), 4)  # one traceparent is malformed, and begins a trace
        self.assertEqual({tree.root["parentSpanId"] for tree in ours}, {SPAN})
        self.assertEqual(len({tree.root["spanId"] for tree in found}), 5)
        self.assertEqual(sorted(tree.root.get("traceState", "") for tree in ours), ["", "", "", "a=1"])

    def test_the_answer_has_the_context_over_grpc(self):
        import grpc

        collector, server = self.collector()
        with grpc.insecure_channel("127.0.0.1:%d" % self.grpc_port) as channel:
            call = channel.unary_unary("/inference.GRPCInferenceService/ModelInfer")
            empty = b"\x0a\x04none"  # model_name: "none"
            with self.assertRaises(grpc.RpcError) as raised:
                call(empty, metadata=[("traceparent", PARENT)], timeout=60)
            metadata = dict(raised.exception.initial_metadata() or ()) | dict(raised.exception.trailing_metadata())
        self.end(server)
        [tree] = trees(collector.spans())
        self.assertEqual(metadata["traceparent"], "00-%s-%s-01" % (TRACE, tree.root["spanId"]))
        self.assertEqual(tree.attribute("rpc.grpc.status_code"), 5)

    def test_who_is_sampled(self):
        collector, server = self.collector("--trace-sample", 0)
        for flags in ("00", "01", "00", "01"):
            status, headers = self.infer(server, [("traceparent", PARENT[:-2] + flags)])
            self.assertEqual((status, headers["traceparent"][-2:]), (200, flags))
        self.assertEqual(self.infer(server)[1]["traceparent"][-2:], "00")
        for malformed in ("nonsense", PARENT + "-x", PARENT.replace("0af7", "0AF7")):
            self.assertEqual(self.infer(server, [("traceparent", malformed)])[0], 200)
        self.assertEqual(self.infer(server, [("traceparent", PARENT)] * 2)[0], 200)
        metrics = get(server.address, "/metrics")[2].decode()
        self.assertIn('tutti_otlp_dropped_total{reason="queue_full"} 0\n', metrics)
        self.end(server)
        self.assertEqual([tree.root["traceId"] for tree in trees(collector.spans())], [TRACE] * 2)

    def test_a_collector_that_is_away(self):
        """Requests are answered; what it refuses for good is dropped and counted; the rest waits for it."""
        collector, server = self.collector()
        collector.status = 503
        for _ in range(20):
            self.assertEqual(self.infer(server)[0], 200)
        self.assertTrue(collector.wait(lambda: collector.refused > 0))
        with collector.changed:
            collector.status = 200
        self.assertTrue(collector.wait(lambda: len(trees_of(collector)) == 20))
        with collector.changed:
            collector.status = 400
            refused = collector.refused
        self.assertEqual(self.infer(server)[0], 200)
        self.assertTrue(collector.wait(lambda: collector.refused > refused))
        until = time.monotonic() + 60
        while 'reason="export"} 1\n' not in get(server.address, "/metrics")[2].decode():
            self.assertLess(time.monotonic(), until)
        metrics = get(server.address, "/metrics")[2].decode()
        self.assertIn("tutti_otlp_requests_total 20\n", metrics)
        self.end(server)
        said = "".join(server.lines)
        self.assertIn("requests are served all the same", said)
        self.assertIn("the collector takes them again", said)

    def test_the_end_does_not_wait_for_a_collector(self):
        server = self.serve("--otlp", "http://127.0.0.1:%d/other/path" % free_port())
        self.assertEqual(self.infer(server)[0], 200)
        self.end(server)
        self.assertIn("/other/path: ", "".join(server.lines))

    def test_the_access_log_has_client_and_trace(self):
        path = self.folder / "access.log"
        server = self.serve("--access-log", path)
        status, headers = self.infer(server, [("traceparent", PARENT)])
        self.assertEqual((status, headers["traceparent"]), (200, None))  # without --otlp nothing is answered
        self.assertEqual(self.infer(server, [("traceparent", "x")])[0], 200)
        with tritonclient.grpc.InferenceServerClient("127.0.0.1:%d" % self.grpc_port) as client:
            sent = tritonclient.grpc.InferInput("input", [1, 16], "FP32")
            sent.set_data_from_numpy(np.zeros((1, 16), np.float32))
            client.infer("quick", [sent], headers={"traceparent": PARENT})
            client.is_server_live(headers={"traceparent": PARENT})
        self.end(server)
        entries = [json.loads(line) for line in path.read_text().splitlines()]
        entries.sort(key=lambda entry: entry["method"] == "gRPC")  # each thread's are in order
        self.assertEqual([entry["client"] for entry in entries], ["127.0.0.1"] * 4)
        self.assertEqual([entry.get("trace") for entry in entries], [TRACE, None, TRACE, None])

    def test_what_is_refused(self):
        for flags, said in (
            (["--otlp", "127.0.0.1"], "--otlp: '127.0.0.1': expected a URL, as http://127.0.0.1:4318/v1/traces"),
            (["--otlp", "ftp://a"], "only http:// and https:// are supported"),
            (["--otlp", "http://127.0.0.1/a?b"], "the path of a collector has visible characters, without query"),
            (["--trace-sample", "2"], "--trace-sample R must be a number from 0 to 1, not '2'"),
        ):
            answer = subprocess.run(
                [PROGRAM, "serve", "--model-repository", self.models, "--http-port", "0", *flags],
                capture_output=True, text=True, timeout=60,
            )  # fmt: skip
            self.assertEqual(answer.returncode, 2, answer.stderr)
            self.assertIn(said, answer.stderr)


def trees_of(collector):
    """Within the collector's lock, which is reentrant."""
    return trees(collector.spans())


if __name__ == "__main__":
    os.environ.setdefault("TUTTI_PROGRAM", "build/tutti")
    unittest.main(verbosity=1)
