#!/usr/bin/env python3
"""gRPC: the unmodified tritonclient.grpc, and one suite of calls over HTTP and gRPC whose answers and errors must agree."""
import json
import os
import pathlib
import queue
import struct
import sys
import tempfile
import unittest
import urllib.request

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "python"))

from needs import need  # noqa: E402

need("numpy", "tritonclient", "grpc")

import grpc  # noqa: E402
import numpy as np  # noqa: E402
import tritonclient.grpc  # noqa: E402
import tritonclient.http  # noqa: E402
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory  # noqa: E402
from plain_grpc import DATA, GOAWAY, HEADERS, PING, PlainGrpc  # noqa: E402
from server_process import Server, free_port  # noqa: E402
from tritonclient.utils import InferenceServerException  # noqa: E402

CONFIG = """backend: "emulated"
max_batch_size: %d
input { name: "INPUT0" data_type: %s dims: %s }
output { name: "OUTPUT0" data_type: %s dims: %s }
"""
MODELS = {
    "floats": (8, "TYPE_FP32", "16"),
    "any": (8, "TYPE_FP32", "-1"),
    "bytes8": (8, "TYPE_UINT8", "4"),
    "longs": (8, "TYPE_INT64", "4"),
    "unloaded": (8, "TYPE_FP32", "1"),
}


def make_models(folder):
    for name, (rows, datatype, dims) in MODELS.items():
        model = pathlib.Path(folder, name)
        (model / "1").mkdir(parents=True)
        (model / "config.pbtxt").write_text(CONFIG % (rows, datatype, dims, datatype, dims))
        (model / "profile.pbtxt").write_text("linear { beta_ms: 0.001 }\n")


def sent(library, array, datatype, name="INPUT0"):
    tensor = library.InferInput(name, array.shape, datatype)
    tensor.set_data_from_numpy(array)
    return tensor


def outcome(call):
    """What a call returns, or the error message."""
    try:
        return call()
    except InferenceServerException as error:
        return "error: " + error.message()


class GrpcTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        make_models(cls.folder.name)
        for _ in range(5):  # another process may take the port that was free
            cls.grpc_port = free_port()
            command = [os.environ["TUTTI_PROGRAM"], "serve", "--model-repository", cls.folder.name, "--http-port", 0]
            command += ["--grpc-port", cls.grpc_port, "--model-control-mode", "explicit", "--max-body-bytes", 4000000]
            command += [word for name in MODELS if name != "unloaded" for word in ("--load-model", name)]
            cls.server = Server([str(word) for word in command])
            if cls.server.wait_ready(60):
                break
        assert cls.server.address, cls.server.said()
        cls.address = "127.0.0.1:%d" % cls.grpc_port
        cls.http = tritonclient.http.InferenceServerClient(cls.server.address)
        cls.grpc = tritonclient.grpc.InferenceServerClient(cls.address)
        cls.both = ((tritonclient.http, cls.http), (tritonclient.grpc, cls.grpc))

    @classmethod
    def tearDownClass(cls):
        cls.grpc.close()
        cls.http.close()
        assert cls.server.stop(60) == 0, cls.server.said()
        cls.folder.cleanup()

    # --- the same over both ---

    def same(self, call):
        over_http, over_grpc = (outcome(lambda: call(library, client)) for library, client in self.both)
        self.assertEqual(over_http, over_grpc)
        return over_grpc

    def infer(self, model, array, datatype, name="INPUT0", outputs=None, **options):
        def call(library, client):
            wanted = [library.InferRequestedOutput(output) for output in outputs] if outputs else None
            result = client.infer(model, [sent(library, array, datatype, name)], outputs=wanted, **options)
            return result.as_numpy("OUTPUT0").tolist()

        return self.same(call)

    def test_answers(self):
        row = np.arange(16, dtype=np.float32)[None]
        self.assertEqual(self.infer("floats", row, "FP32"), row.tolist())
        self.assertEqual(self.infer("floats", row, "FP32", outputs=["OUTPUT0"], request_id="7"), row.tolist())
        self.assertEqual(self.infer("floats", np.tile(row, (8, 1)), "FP32", priority=1), [row[0].tolist()] * 8)
        self.assertEqual(self.infer("bytes8", np.array([[1, 2, 254, 255]], np.uint8), "UINT8"), [[1, 2, 254, 255]])
        large = np.array([[2**62, -(2**63), 0, -1]])
        self.assertEqual(self.infer("longs", large, "INT64"), large.tolist())
        for count in (1, 511, 512, 513, 4096, 100000, 700000):
            many = np.random.default_rng(count).random((1, count), np.float32)
            self.assertEqual(self.infer("any", many, "FP32"), many.tolist())

    def test_errors_of_inference(self):
        row = np.arange(16, dtype=np.float32)[None]
        for arguments, options, part in (
            (("nothing", row, "FP32"), {}, "unknown model"),
            (("unloaded", row, "FP32"), {}, "unloaded"),
            (("floats", row, "FP32"), {"model_version": "9"}, "9"),
            (("x" * 300, row, "FP32"), {}, "so long a name"),
            (("floats", row, "FP32"), {"model_version": "1" * 40}, "so long a name"),
            (("floats", row, "FP32", "OTHER"), {}, "unexpected inference input 'OTHER'"),
            (("floats", row, "FP32"), {"outputs": ["OTHER"]}, "unexpected inference output 'OTHER'"),
            (("floats", row.astype(np.int32), "INT32"), {}, "data-type is 'INT32'"),
            (("floats", row[:, :15], "FP32"), {}, "shape"),
            (("floats", np.tile(row, (9, 1)), "FP32"), {}, "8"),
            (("floats", row[0], "FP32"), {}, "shape"),
            (("floats", row, "FP32"), {"sequence_id": 5}, "sequences are not supported"),
        ):
            with self.subTest(arguments[0][:20], **options):
                message = self.infer(*arguments, **options)
                self.assertTrue(str(message).startswith("error: "), message)
                self.assertIn(part, message)

    def test_missing_and_repeated_inputs(self):
        row = np.zeros((1, 16), np.float32)
        for count in (0, 2):
            message = self.same(
                lambda library, client: client.infer("floats", [sent(library, row, "FP32")] * count).get_response()
            )
            self.assertTrue(str(message).startswith("error: "), message)

    def test_classification_is_rejected(self):
        row = np.zeros((1, 16), np.float32)
        message = self.same(
            lambda library, client: client.infer(
                "floats",
                [sent(library, row, "FP32")],
                outputs=[library.InferRequestedOutput("OUTPUT0", class_count=2)],
            )
        )
        self.assertIn("classification", message)

    def test_pages(self):
        def as_json(call):
            def either(library, client):
                return call(client, {"as_json": True} if library is tritonclient.grpc else {})

            http, over_grpc = (outcome(lambda: either(*pair)) for pair in self.both)
            return http, over_grpc

        http, over_grpc = as_json(lambda client, form: client.get_server_metadata(**form))
        self.assertEqual(http, over_grpc)
        http, over_grpc = as_json(lambda client, form: client.get_model_metadata("any", **form))
        self.assertEqual(json.loads(json.dumps(http).replace("-1", '"-1"')), over_grpc)
        http, over_grpc = as_json(lambda client, form: client.get_model_config("any", **form))
        self.assertEqual(http["name"], over_grpc["config"]["name"])
        self.assertEqual(http["max_batch_size"], over_grpc["config"]["max_batch_size"])
        self.assertEqual(http["input"][0]["data_type"], over_grpc["config"]["input"][0]["data_type"])
        http, over_grpc = as_json(lambda client, form: client.get_model_repository_index(**form))
        members = ("name", "version", "state", "reason")
        self.assertEqual(
            [{key: model.get(key, "") for key in members} for model in http],
            [{key: model.get(key, "") for key in members} for model in over_grpc["models"]],
        )
        for call in (
            lambda client, form: client.get_model_metadata("nothing", **form),
            lambda client, form: client.get_model_config("nothing", **form),
            lambda client, form: client.get_inference_statistics("nothing", **form),
            lambda client, form: client.get_trace_settings("nothing", **form),
            lambda client, form: client.update_log_settings({"log_other": True}, **form),
            lambda client, form: client.update_log_settings({"log_format": "other"}, **form),
            lambda client, form: client.update_trace_settings(settings={"trace_rate": "5"}, **form),
            lambda client, form: client.update_trace_settings(settings={"trace_other": "5"}, **form),
        ):
            http, over_grpc = as_json(call)
            self.assertTrue(str(http).startswith("error: "), http)
            self.assertEqual(http, over_grpc)

    def test_statistics(self):
        def counts():
            http = self.http.get_inference_statistics("longs")["model_stats"][0]
            over_grpc = self.grpc.get_inference_statistics("longs").model_stats[0]
            for name in ("success", "fail", "queue", "compute_input", "compute_infer", "compute_output"):
                ours = getattr(over_grpc.inference_stats, name)
                self.assertEqual(http["inference_stats"][name], {"count": ours.count, "ns": ours.ns})
            self.assertEqual(http["execution_count"], over_grpc.execution_count)
            self.assertEqual(len(http["batch_stats"]), len(over_grpc.batch_stats))
            return over_grpc.inference_count

        before = counts()
        self.infer("longs", np.zeros((1, 4), np.int64), "INT64")
        self.assertEqual(counts(), before + 2)

    def test_log_settings(self):
        for _, client in self.both:
            for level in (2, 0):
                client.update_log_settings({"log_verbose_level": level, "log_info": True})
                self.assertEqual(self.http.get_log_settings()["log_verbose_level"], level)
                settings = self.grpc.get_log_settings().settings
                self.assertEqual(settings["log_verbose_level"].uint32_param, level)
                self.assertTrue(settings["log_info"].bool_param)

    def test_load_and_unload(self):
        for _, client in self.both:
            client.load_model("unloaded")
            self.assertTrue(self.grpc.is_model_ready("unloaded"))
            self.assertTrue(self.http.is_model_ready("unloaded"))
            config = dict(backend="emulated", max_batch_size=4)
            for side in ("input", "output"):
                config[side] = [dict(name=side.upper() + "0", data_type="TYPE_FP32", dims=[1])]
            client.load_model("unloaded", config=json.dumps(config))
            self.assertEqual(self.grpc.get_model_config("unloaded").config.max_batch_size, 4)
            client.unload_model("unloaded")
        for name, options in (
            ("nothing", {}),
            ("unloaded", {"config": "no JSON"}),
            ("unloaded", {"config": '{"other": 1}'}),
            ("unloaded", {"files": {"file:1/model.onnx": b"bytes"}}),
        ):
            message = self.same(lambda library, client: client.load_model(name, **options))
            self.assertTrue(str(message).startswith("error: "), message)
        self.same(lambda library, client: client.unload_model("nothing"))

    # --- gRPC alone ---

    def status_of(self, call):
        with self.assertRaises(InferenceServerException) as caught:
            call()
        return caught.exception.status().removeprefix("StatusCode.")

    def test_statuses(self):
        row = np.zeros((1, 16), np.float32)
        infer = lambda model, **options: self.grpc.infer(  # noqa: E731
            model, [sent(tritonclient.grpc, row, "FP32")], **options
        )
        self.assertEqual(self.status_of(lambda: infer("nothing")), "NOT_FOUND")
        self.assertEqual(self.status_of(lambda: infer("longs")), "INVALID_ARGUMENT")
        self.assertEqual(self.status_of(lambda: infer("floats", sequence_id=3)), "UNIMPLEMENTED")
        self.assertEqual(self.status_of(lambda: self.grpc.get_system_shared_memory_status()), "UNIMPLEMENTED")
        self.assertEqual(self.status_of(lambda: self.grpc.unregister_cuda_shared_memory()), "UNIMPLEMENTED")
        large = np.zeros((1, 1500000), np.float32)
        call = lambda: self.grpc.infer("any", [sent(tritonclient.grpc, large, "FP32")])  # noqa: E731
        self.assertEqual(self.status_of(call), "RESOURCE_EXHAUSTED")

    def test_compression(self):
        array = np.tile(np.arange(100, dtype=np.float32), 100)[None]
        for name in ("gzip", "deflate"):
            result = self.grpc.infer("any", [sent(tritonclient.grpc, array, "FP32")], compression_algorithm=name)
            self.assertTrue((result.as_numpy("OUTPUT0") == array).all())

    def test_stream(self):
        answers = queue.Queue()
        with tritonclient.grpc.InferenceServerClient(self.address) as client:
            client.start_stream(lambda result, error: answers.put((result, error)))
            for i in range(1000):
                row = np.full((1, 16), i, np.float32)
                client.async_stream_infer(
                    "floats",
                    [sent(tritonclient.grpc, row, "FP32")],
                    request_id=str(i),
                    enable_empty_final_response=i % 2 == 0,
                )
            client.async_stream_infer("nothing", [sent(tritonclient.grpc, row, "FP32")], request_id="bad")
            seen, errors = set(), []
            for _ in range(1001):
                result, error = answers.get(timeout=60)
                if error:
                    errors.append(str(error))
                    continue
                response = result.get_response()
                seen.add(response.id)
                self.assertTrue((result.as_numpy("OUTPUT0") == float(response.id)).all())
                is_final = response.parameters["triton_final_response"].bool_param
                self.assertEqual(is_final, int(response.id) % 2 == 0)
            client.stop_stream()
        self.assertEqual(len(seen), 1000)
        self.assertEqual(errors, ["Request for unknown model: 'nothing' is not found"])

    def test_many_at_once(self):
        futures = []
        for i in range(300):
            row = np.full((1, 16), i, np.float32)
            futures.append(queue.Queue())
            self.grpc.async_infer(
                "floats",
                [sent(tritonclient.grpc, row, "FP32")],
                callback=lambda result, error, to=futures[-1]: to.put((result, error)),
            )
        for i, future in enumerate(futures):
            result, error = future.get(timeout=60)
            self.assertIsNone(error)
            self.assertTrue((result.as_numpy("OUTPUT0") == i).all())

    def test_health(self):
        with grpc.insecure_channel(self.address) as channel:
            check = channel.unary_unary("/grpc.health.v1.Health/Check")
            self.assertEqual(check(b""), b"\x08\x01")
            self.assertEqual(check(b"\x0a\x06floats"), b"\x08\x01")
            with self.assertRaises(grpc.RpcError) as caught:
                check(b"\x0a\x07nothing")
            self.assertEqual(caught.exception.code(), grpc.StatusCode.NOT_FOUND)
            watch = channel.unary_stream("/grpc.health.v1.Health/Watch")(b"\x0a\x08unloaded")
            states = [next(watch)]
            self.grpc.load_model("unloaded")
            states.append(next(watch))
            self.grpc.unload_model("unloaded")
            states.append(next(watch))
            self.assertEqual(states[1], b"\x08\x01")
            self.assertNotIn(b"\x08\x01", (states[0], states[2]))
            watch.cancel()

    def test_keepalive(self):
        """The pings of a client, also of one without a call, get their answers, and the connection goes on."""
        client = PlainGrpc(self.grpc_port)
        wanted = [struct.pack(">q", number) for number in range(20)]
        for payload in wanted:
            client.frame(PING, 0, 0, payload)
        found = []
        while len(found) < len(wanted):
            length, kind, flags, _ = struct.unpack(">IBBI", b"\0" + client.exactly(9))
            payload = client.exactly(length)
            self.assertNotEqual(kind, GOAWAY)
            if kind == PING:
                self.assertEqual(flags, 1)
                found.append(payload)
        self.assertEqual(found, wanted)
        client.begin("/inference.GRPCInferenceService/ServerLive", 0)
        client.frame(DATA, 1, 1, b"")
        while kind != HEADERS:
            length, kind, flags, _ = struct.unpack(">IBBI", b"\0" + client.exactly(9))
            client.exactly(length)
        client.socket.close()

    def reflect(self, channel, version, request):
        call = channel.stream_stream("/grpc.reflection.%s.ServerReflection/ServerReflectionInfo" % version)
        return next(call(iter([request])))

    def test_reflection(self):
        """A client without any .proto learns the service, and calls it."""
        with grpc.insecure_channel(self.address) as channel:
            for version in ("v1", "v1alpha"):
                services = self.reflect(channel, version, b"\x3a\x00")
                for name in (b"inference.GRPCInferenceService", b"grpc.health.v1.Health"):
                    self.assertIn(name, services)
                symbol = b"inference.GRPCInferenceService.ServerLive"
                answer = self.reflect(channel, version, b"\x22" + bytes([len(symbol)]) + symbol)
                self.assertIn(b"ModelConfig", answer)
                missing = self.reflect(channel, version, b"\x22\x07no.such")
                self.assertIn(b"no such file or symbol", missing)
            own = descriptor_pool.DescriptorPool()
            for name in (b"grpc_reflection.proto", b"grpc_service.proto"):
                raw = self.reflect(channel, "v1", b"\x1a" + bytes([len(name)]) + name)
                if name == b"grpc_reflection.proto":
                    at = raw.index(b"\x0a" + bytes([len(name)]) + name)
                    own.Add(descriptor_pb2.FileDescriptorProto.FromString(raw[at:]))
                    factory = own.FindMessageTypeByName("grpc.reflection.v1.ServerReflectionResponse")
                    response = message_factory.GetMessageClass(factory)
                else:
                    files = response.FromString(raw).file_descriptor_response.file_descriptor_proto
                    for file in reversed(files):  # a file comes before those it imports
                        own.Add(descriptor_pb2.FileDescriptorProto.FromString(file))
            answer = message_factory.GetMessageClass(own.FindMessageTypeByName("inference.ServerLiveResponse"))
            call = channel.unary_unary("/inference.GRPCInferenceService/ServerLive")
            self.assertTrue(answer.FromString(call(b"")).live)

    def test_metrics_add_up(self):
        page = urllib.request.urlopen("http://%s/metrics" % self.server.address).read().decode()
        value = dict(line.rsplit(" ", 1) for line in page.splitlines() if line.startswith("tutti_grpc"))
        self.assertGreater(int(value["tutti_grpc_connections_accepted_total"]), 0)
        self.assertEqual(
            int(value["tutti_grpc_requests_total"]),
            sum(int(value["tutti_grpc_" + name]) for name in ("answered_total", "gone_total", "in_flight")),
        )


if __name__ == "__main__":
    unittest.main()
