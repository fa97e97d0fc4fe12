#!/usr/bin/env python3
"""Large requests and answers: over HTTP and gRPC, as text, as bytes and compressed. The work that they take is done beside the
threads that serve connections, the answers are right, and a client that leaves meanwhile leaves nothing behind."""
import gzip
import http.client
import json
import pathlib
import select
import sys
import threading
import unittest

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "python"))

from needs import need  # noqa: E402

need("numpy", "onnx", "tritonclient")

import grpc  # noqa: E402
import numpy as np  # noqa: E402
import tritonclient.grpc as triton  # noqa: E402
from control_case import ControlCase, adder, identity, one_node  # noqa: E402
from onnx import TensorProto, helper  # noqa: E402
from server_process import free_port  # noqa: E402
from tritonclient.grpc import service_pb2, service_pb2_grpc  # noqa: E402
from tritonclient.utils import InferenceServerException  # noqa: E402

COLUMNS = 1 << 20
POOL = "tutti-bodies"


def repeater():
    """A row of y is x, COLUMNS times: a small request with a large answer."""
    repeats = helper.make_tensor("repeats", TensorProto.INT64, [2], [1, COLUMNS])
    return one_node(helper.make_node("Tile", ["x", "repeats"], ["y"]), ["N", 1], ["N", COLUMNS], [repeats])


class Beside(ControlCase):
    """What the threads of the pool do, and what those of the connections."""

    def ticks(self):
        """Processor time so far: of the pool's threads, and of those that serve connections."""
        pool = others = 0
        for task in pathlib.Path("/proc/%d/task" % self.server.process.pid).iterdir():
            name, _, rest = (task / "stat").read_text().partition("(")[2].rpartition(")")
            fields = rest.split()
            spent = int(fields[11]) + int(fields[12])
            if name == POOL:
                pool += spent
            elif name in ("tutti", "tutti-grpc-0"):
                others += spent
        return pool, others

    def in_pool(self, work, *arguments):
        """The result of the work, of which the pool's threads did some: at other times they do nothing."""

        def spent_ns():
            tasks = pathlib.Path("/proc/%d/task" % self.server.process.pid).iterdir()
            return sum(int((t / "schedstat").read_text().split()[0]) for t in tasks if (t / "comm").read_text().strip() == POOL)

        before = spent_ns()
        result = work(*arguments)
        self.wait_until(lambda: spent_ns() > before, "the connections' threads did it")
        return result

    def beside(self, work, *arguments):
        """The result of the work, most of whose processor time the pool's threads spent."""
        pool, others = self.ticks()
        for _ in range(100):
            result = work(*arguments)
            pool_after, others_after = self.ticks()
            if pool_after - pool + others_after - others >= 20:
                break
        self.assertGreater(pool_after - pool, others_after - others, "the connections' threads did it")
        return result


class LargeMessages(Beside):
    def fill(self):
        self.repository.put("repeat", {1: repeater()})
        self.repository.put("same", {1: identity()})

    def setUp(self):
        self.grpc_port = free_port()
        self.flags = ["--grpc-port", str(self.grpc_port), "--model-control-mode", "explicit", "--load-model", "*"]
        self.flags += ["--isolate-loads", "false"]
        super().setUp()
        self.grpc = triton.InferenceServerClient("127.0.0.1:%d" % self.grpc_port)
        self.addCleanup(self.grpc.close)

    def ask_raw(self, model, inputs, outputs, data=b"", **headers):
        head = json.dumps({"inputs": inputs, "outputs": outputs}).encode()
        headers = {k.replace("_", "-"): v for k, v in headers.items()}
        if data:
            headers["Inference-Header-Content-Length"] = str(len(head))
        connection = http.client.HTTPConnection(self.server.address, timeout=60)
        connection.request("POST", "/v2/models/%s/infer" % model, head + data, headers)
        answer = connection.getresponse()
        content = answer.read()
        connection.close()
        self.assertEqual(answer.status, 200, content[:300])
        return gzip.decompress(content) if answer.headers.get("Content-Encoding") else content

    def test_answers_over_http(self):
        one = [{"name": "x", "shape": [1, 1], "datatype": "FP32", "data": [1.5]}]
        binary = [{"name": "y", "parameters": {"binary_data": True}}]
        text = [{"name": "y"}]
        values = json.loads(self.beside(self.ask_raw, "repeat", one, text))["outputs"][0]["data"]
        self.assertEqual((len(values), set(values)), (COLUMNS, {1.5}))
        expected = np.full(COLUMNS, 1.5, np.float32).tobytes()
        self.assertEqual(self.ask_raw("repeat", one, binary)[-4 * COLUMNS :], expected)
        noise = np.random.default_rng(1).random(COLUMNS, np.float32).tobytes()  # takes long to pack
        x = [{"name": "x", "shape": [1, COLUMNS], "datatype": "FP32", "parameters": {"binary_data_size": len(noise)}}]
        packed = self.beside(lambda: self.ask_raw("same", x, binary, noise, Accept_Encoding="gzip"))
        self.assertEqual(packed[-4 * COLUMNS :], noise)
        packed = self.ask_raw("same", x, text, noise, Accept_Encoding="gzip")
        values = np.array(json.loads(packed)["outputs"][0]["data"], np.float32)
        self.assertEqual(values.tobytes(), noise)

    def test_answers_of_all_short_lengths(self):
        """Those up to some length are joined with their heads, longer ones are not; the client sees no difference."""
        connection = http.client.HTTPConnection(self.server.address, timeout=60)
        self.addCleanup(connection.close)
        lengths = set()
        for count in range(1, 260):
            values = np.arange(count, dtype=np.float32)
            x = {"name": "x", "shape": [1, count], "datatype": "FP32", "data": values.tolist()}
            y = {"name": "y", "parameters": {"binary_data": count % 2 == 0}}
            connection.request("POST", "/v2/models/same/infer", json.dumps({"inputs": [x], "outputs": [y]}))
            answer = connection.getresponse()
            content = answer.read()
            self.assertEqual(answer.status, 200, content[:300])
            lengths.add(len(content) // 256)
            head = int(answer.headers.get("Inference-Header-Content-Length", len(content)))
            output = json.loads(content[:head])["outputs"][0]
            data = output["data"] if "data" in output else np.frombuffer(content[head:], np.float32)
            self.assertEqual(list(data), list(values))
        self.assertGreater(lengths, {1, 2, 3, 4})

    def test_values_that_json_has_not(self):
        one = {"inputs": [{"name": "x", "shape": [1, 1], "datatype": "FP32", "data": [1e38]}]}
        self.assertEqual(self.ask("POST", "/v2/models/repeat/infer", json.dumps(one))[0], 200)
        x = [{"name": "x", "shape": [1, 1], "datatype": "FP32", "parameters": {"binary_data_size": 4}}]
        head = json.dumps({"inputs": x, "outputs": [{"name": "y"}]}).encode()
        body = head + np.array([np.nan], np.float32).tobytes()
        headers = {"Inference-Header-Content-Length": str(len(head))}
        status, answer = self.ask("POST", "/v2/models/repeat/infer", body, headers)
        self.assertEqual(status, 400)
        self.assertIn("output 'y'", answer["error"])

    def infer_grpc(self, values, **options):
        x = triton.InferInput("x", list(values.shape), "FP32")
        x.set_data_from_numpy(values)
        return self.grpc.infer("same", [x], **options).as_numpy("y")

    def test_over_grpc(self):
        for shape in ((1, 1000), (3, COLUMNS)):  # read at once, and beside
            values = np.random.default_rng(2).random(shape, np.float32)
            np.testing.assert_array_equal(self.infer_grpc(values), values)
        values = np.random.default_rng(3).random((1, COLUMNS), np.float32)
        for coding in ("gzip", "deflate"):
            found = self.beside(lambda: self.infer_grpc(values, compression_algorithm=coding))
            np.testing.assert_array_equal(found, values)

    def request(self, values, name="same", datatype="FP32"):
        request = service_pb2.ModelInferRequest(model_name=name)
        x = request.inputs.add(name="x", datatype=datatype, shape=[1, len(values)])
        x.contents.fp32_contents.extend(values)
        return request

    def test_errors_over_grpc(self):
        stub = service_pb2_grpc.GRPCInferenceServiceStub(self.grpc._channel)
        values = [0.5] * (256 << 10)
        self.assertEqual(len(stub.ModelInfer(self.request(values)).raw_output_contents[0]), 1 << 20)
        for request, part in (
            (self.request(values, name="none"), "unknown model"),
            (self.request(values, datatype="INT32"), "input 'x'"),
            (service_pb2.ModelInferRequest(model_name="same", raw_input_contents=[b"a" * (1 << 20)]), ""),
        ):
            with self.assertRaises(Exception) as caught:
                stub.ModelInfer(request)
            self.assertIn(part, caught.exception.details())
            self.assertIn(caught.exception.code().name, ("NOT_FOUND", "INVALID_ARGUMENT"))
        with self.assertRaises(InferenceServerException) as caught:  # 120 MiB unpacked, some KiB packed
            self.infer_grpc(np.zeros((30, COLUMNS), np.float32), compression_algorithm="gzip")
        self.assertIn("more than the limit of", str(caught.exception))
        files = {"file:1/model.onnx": adder(3.0), "file:1/more": b"\1" * (4 << 20)}
        self.grpc.load_model("three", config="{}", files=files)
        with self.assertRaises(InferenceServerException) as caught:
            self.grpc.load_model("three", config="{", files=files)
        self.assertIn("config", str(caught.exception))
        self.assertEqual(self.infer("three"), (3.0, "1"))

    def test_of_many_small_parts(self):
        """Short messages that take long: many fields, or few bytes that unpack to many."""
        for compression in (grpc.Compression.NoCompression, grpc.Compression.Gzip):
            with grpc.insecure_channel("127.0.0.1:%d" % self.grpc_port, compression=compression) as channel:

                def call(method, message, code):
                    path = "/inference.GRPCInferenceService/" + method
                    plain = channel.unary_unary(path, request_serializer=bytes, response_deserializer=bytes)
                    with self.assertRaises(grpc.RpcError) as caught:
                        plain(message, timeout=60)
                    self.assertEqual(caught.exception.code(), code, caught.exception.details())

                invalid = grpc.StatusCode.INVALID_ARGUMENT
                named = service_pb2.ModelInferRequest(model_name="same").SerializeToString()
                for part in (b"\x22\0", b"\x32\0", b"\xf8\7\1"):  # parameters, outputs, unknown fields
                    self.in_pool(call, "ModelInfer", named + part * (100_000 // len(part)), invalid)
                one = service_pb2.ModelInferRequest(model_name="same")
                one.inputs.add(name="x", datatype="BYTES", shape=[1, 1]).contents.bytes_contents.extend([b""] * 100_000)
                self.in_pool(call, "ModelInfer", one.SerializeToString(), invalid)
                self.in_pool(call, "RepositoryModelLoad", b"\x1a\0" * 1000, invalid)
                for method in ("LogSettings", "TraceSetting", "RepositoryModelUnload", "RepositoryIndex"):
                    call(method, b"\x0a\0" * 16_000 if "Setting" in method else b"\xf8\7\1" * 16_000, invalid)

    def test_of_few_packed_bytes(self):
        one = {"inputs": [{"name": "x", "shape": [1, 1], "datatype": "FP32", "data": [1]}]}
        body = gzip.compress(b" " * 400_000 + json.dumps(one).encode())
        self.assertLess(len(body), 512)
        status, answer = self.in_pool(self.ask, "POST", "/v2/models/same/infer", body, {"Content-Encoding": "gzip"})
        self.assertEqual(status, 200, answer)
        text = json.dumps({"parameters": {"file:1/%d" % i: "" for i in range(100)}})
        for body, headers in ((text, {}), (gzip.compress(text.encode()), {"Content-Encoding": "gzip"})):
            status, answer = self.in_pool(self.ask, "POST", "/v2/repository/models/none/load", body, headers)
            self.assertEqual(status, 400, answer)

    def test_of_a_body_that_stops(self):
        """Its memory is given back beside the connections."""

        def begin():
            connection = http.client.HTTPConnection(self.server.address, timeout=60)
            connection.putrequest("POST", "/v2/models/same/infer")
            connection.putheader("Content-Length", str(8 << 20))
            connection.endheaders(bytes(4 << 20))
            connection.close()

        self.in_pool(begin)

    def test_streams(self):
        """Requests of one stream, large and small ones in turns: each gets its answer."""
        answers, done = {}, threading.Event()

        def take(result, error):
            self.assertIsNone(error)
            answers[result.get_response().id] = result.as_numpy("y")
            if len(answers) == 12:
                done.set()

        self.grpc.start_stream(take, compression_algorithm="gzip")
        sent = {}
        for i in range(12):
            values = np.full((1, 1 << 20 if i % 3 == 0 else 5), i, np.float32)
            x = triton.InferInput("x", list(values.shape), "FP32")
            x.set_data_from_numpy(values)
            sent[str(i)] = values
            self.grpc.async_stream_infer("same", [x], request_id=str(i))
        self.assertTrue(done.wait(60))
        self.grpc.stop_stream()
        for name, values in sent.items():
            np.testing.assert_array_equal(answers[name], values)

    def test_clients_that_leave(self):
        stub = service_pb2_grpc.GRPCInferenceServiceStub(self.grpc._channel)
        request = self.request([0.25] * (1 << 20))
        for _ in range(6):  # while the request is sent, read, run or answered
            call = stub.ModelInfer.future(request, compression=2)
            self.wait_until(lambda: self.metrics()["tutti_grpc_in_flight"] > 0 or call.done(), "it does not begin")
            call.cancel()
        one = {"inputs": [{"name": "x", "shape": [1, 1], "datatype": "FP32", "data": [1]}]}
        body = json.dumps(one).encode()
        for _ in range(6):  # while the answer is written
            found = self.dial()
            found.sendall(b"POST /v2/models/repeat/infer HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body))
            found.sendall(body)
            self.wait_until(lambda: self.metrics()["tutti_http_in_flight"] > 1 or select.select([found], [], [], 0)[0],
                            "it does not begin")  # fmt: skip
            found.close()

        def settled():
            at = self.metrics()
            done = at["tutti_http_answered_total"] + at["tutti_http_gone_total"]
            return at["tutti_grpc_in_flight"] == 0 and at["tutti_http_requests_total"] == done + 1

        self.wait_until(settled, "requests stay in flight")
        values = np.ones((1, 4), np.float32)
        np.testing.assert_array_equal(self.infer_grpc(values), values)


class ManyModels(Beside):
    """Pages that grow with the models, or with what happened."""

    COUNT = 150

    def setUp(self):
        self.grpc_port = free_port()
        self.flags = ["--grpc-port", str(self.grpc_port)]
        super().setUp()

    def fill(self):
        for i in range(self.COUNT):
            model = self.repository.path / ("model_%03d" % i)
            (model / "1").mkdir(parents=True)
            tensor = '{ name: "%s" data_type: TYPE_FP32 dims: 4 }'
            text = 'backend: "emulated" max_batch_size: 8 input %s output %s' % (tensor % "x", tensor % "y")
            (model / "config.pbtxt").write_text(text)
            (model / "profile.pbtxt").write_text("linear { beta_ms: 0.001 }")

    def page(self, path):
        connection = http.client.HTTPConnection(self.server.address, timeout=60)
        connection.request("GET", path)
        answer = connection.getresponse()
        content = answer.read().decode()
        connection.close()
        self.assertEqual(answer.status, 200)
        return content

    def test_metrics(self):
        page = self.beside(self.page, "/metrics")
        families, models = [], {}
        for line in page.splitlines():
            if line.startswith("# TYPE "):
                families.append(line.split()[2])
            elif not line.startswith("# "):
                name = line.partition("{")[0].partition(" ")[0]
                self.assertTrue(name.startswith(families[-1]), "%s below %s" % (line, families[-1]))
                if "{model=" in line:
                    models.setdefault(families[-1], []).append(line.split('"')[1])
        self.assertEqual(len(families), len(set(families)), "a family stands twice")
        expected = ["model_%03d" % i for i in range(self.COUNT)]
        self.assertIn("tutti_model_ready", models)
        for family, names in models.items():
            self.assertEqual(sorted(set(names)), expected, family)
        self.assertIn("\ntutti_http_in_flight 1\n", page)

    def names(self):
        return ["model_%03d" % i for i in range(self.COUNT)]

    def test_statistics(self):
        found = json.loads(self.in_pool(self.page, "/v2/models/stats"))["model_stats"]
        self.assertEqual([model["name"] for model in found], self.names())

    def test_index(self):
        with triton.InferenceServerClient("127.0.0.1:%d" % self.grpc_port) as client:
            for entries in (self.in_pool(self.ask, "POST", "/v2/repository/index", "")[1],
                            self.in_pool(self.ask, "POST", "/v2/repository/index", '{"ready": true}')[1],
                            self.in_pool(lambda: client.get_model_repository_index(as_json=True))["models"]):  # fmt: skip
                self.assertEqual([entry["name"] for entry in entries], self.names())
                self.assertEqual({entry["state"] for entry in entries}, {"READY"})
        self.assertEqual(self.ask("POST", "/v2/repository/index", '{"ready": 1}')[0], 400)

    def test_trace(self):
        x = {"name": "x", "shape": [1, 4], "datatype": "FP32", "data": [0] * 4}
        for i in range(self.COUNT):
            self.assertEqual(self.ask("POST", "/v2/models/model_%03d/infer" % i, json.dumps({"inputs": [x]}))[0], 200)
        trace = json.loads(self.in_pool(self.page, "/v2/debug/trace?seconds=3600"))
        self.assertEqual(trace["otherData"]["requests"], self.COUNT)
        named = {event["args"]["model"] for event in trace["traceEvents"] if event.get("cat") == "request"}
        self.assertEqual(sorted(named), self.names())
        self.assertEqual(self.ask("GET", "/v2/debug/trace?seconds=0")[0], 400)


if __name__ == "__main__":
    unittest.main()
