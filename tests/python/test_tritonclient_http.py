"""Drives a running server with the unmodified Python package tritonclient[http].

The models are those of scripts/make_models.py --test-models.
"""
import json
import re
import struct
import unittest

import numpy as np
import tritonclient.http
from tritonclient.utils import InferenceServerException, triton_to_np_dtype

from server_case import ServerCase, address, infer, tensor
from transport import connect

INTEGERS = {
    "uint8": np.uint8,
    "uint16": np.uint16,
    "uint32": np.uint32,
    "uint64": np.uint64,
    "int8": np.int8,
    "int16": np.int16,
    "int32": np.int32,
    "int64": np.int64,
}


class Metadata(ServerCase):
    def test_health(self):
        self.assertTrue(self.client.is_server_live())
        self.assertTrue(self.client.is_server_ready())

    def test_server_metadata(self):
        metadata = self.client.get_server_metadata()
        self.assertTrue(metadata["name"])
        self.assertRegex(metadata["version"], r"\d")
        self.assertIn("binary_tensor_data", metadata["extensions"])
        self.assertIn("model_configuration", metadata["extensions"])

    def test_model_ready(self):
        self.assertTrue(self.client.is_model_ready("mlp"))
        self.assertTrue(self.client.is_model_ready("mlp", "1"))
        self.assertFalse(self.client.is_model_ready("mlp", "7"))
        self.assertFalse(self.client.is_model_ready("no_such_model"))

    def test_model_metadata(self):
        metadata = self.client.get_model_metadata("addsub")
        self.assertEqual(metadata["name"], "addsub")
        self.assertEqual(metadata["versions"], ["1"])
        self.assertTrue(metadata["platform"])
        expected = [
            {"name": "INPUT0", "datatype": "INT32", "shape": [-1, 16]},
            {"name": "INPUT1", "datatype": "INT32", "shape": [-1, 16]},
        ]
        self.assertEqual(metadata["inputs"], expected)
        self.assertEqual([o["name"] for o in metadata["outputs"]], ["OUTPUT0", "OUTPUT1"])
        self.assertEqual(metadata["outputs"][1]["shape"], [-1, 16])
        self.assertEqual(self.client.get_model_metadata("addsub", "1"), metadata)

    def test_metadata_of_a_model_without_batch_dimension(self):
        metadata = self.client.get_model_metadata("identity_no_batch")
        self.assertEqual(metadata["inputs"][0]["shape"], [16])

    def test_metadata_of_a_model_without_configuration(self):
        """config.pbtxt is completed from the ONNX file when it is absent."""
        metadata = self.client.get_model_metadata("mlp_no_config")
        self.assertEqual(
            metadata["inputs"], [{"name": "input", "datatype": "FP32", "shape": [-1, 16]}]
        )
        self.assertEqual(
            metadata["outputs"], [{"name": "output", "datatype": "FP32", "shape": [-1, 4]}]
        )
        config = self.client.get_model_config("mlp_no_config")
        self.assertGreaterEqual(config["max_batch_size"], 1)

    def test_string_type_is_called_bytes(self):
        metadata = self.client.get_model_metadata("identity_bytes")
        self.assertEqual(metadata["inputs"][0]["datatype"], "BYTES")
        config = self.client.get_model_config("identity_bytes")
        self.assertEqual(config["input"][0]["data_type"], "TYPE_STRING")

    def test_model_config(self):
        config = self.client.get_model_config("addsub")
        self.assertEqual(config["name"], "addsub")
        self.assertEqual(config["max_batch_size"], 8)
        self.assertEqual([i["name"] for i in config["input"]], ["INPUT0", "INPUT1"])
        self.assertEqual(config["input"][0]["data_type"], "TYPE_INT32")
        self.assertEqual([int(d) for d in config["input"][0]["dims"]], [16])
        self.assertIn("dynamic_batching", config)
        config = self.client.get_model_config("embed")
        delay = config["dynamic_batching"]["max_queue_delay_microseconds"]
        self.assertEqual(int(delay), 2000)

    def test_repository_index(self):
        index = {entry["name"]: entry for entry in self.client.get_model_repository_index()}
        self.assertEqual(index["mlp"]["state"], "READY")
        self.assertEqual(index["mlp"]["version"], "1")
        self.assertEqual(index["broken"]["state"], "UNAVAILABLE")
        self.assertGreater(len(index["broken"]["reason"]), 10)

    def test_broken_model_leaves_the_others_alone(self):
        self.assertFalse(self.client.is_model_ready("broken"))
        row = np.zeros((1, 16), np.float32)
        with self.assertRaises(InferenceServerException) as caught:
            infer(self.client, "broken", {"input": row})
        self.assertIn("broken", caught.exception.message())
        self.assertEqual(infer(self.client, "mlp", {"input": row}).as_numpy("output").shape, (1, 4))

    def test_unknown_model_metadata(self):
        for call in (self.client.get_model_metadata, self.client.get_model_config):
            with self.assertRaises(InferenceServerException) as caught:
                call("no_such_model")
            self.assertIn("no_such_model", caught.exception.message())
        self.assertTrue(self.client.is_server_live())


class Datatypes(ServerCase):
    def there_and_back(self, name, array, datatype=None, json_too=True):
        """The array comes back as it went, for binary and JSON in each direction."""
        model = "identity_" + name
        ways = [(True, True)] + ([(False, True), (True, False), (False, False)] if json_too else [])
        for binary_in, binary_out in ways:
            with self.subTest(model=model, binary_in=binary_in, binary_out=binary_out):
                wanted = tritonclient.http.InferRequestedOutput("OUTPUT0", binary_data=binary_out)
                sent = tensor("INPUT0", array, datatype, binary=binary_in)
                result = self.client.infer(model, [sent], outputs=[wanted])
                reply = result.get_output("OUTPUT0")
                self.assertEqual(reply["shape"], list(array.shape))
                if datatype:
                    self.assertEqual(reply["datatype"], datatype)
                self.assertEqual("data" in reply, not binary_out)
                np.testing.assert_array_equal(result.as_numpy("OUTPUT0"), array)

    def test_integers(self):
        for name, kind in INTEGERS.items():
            limits = np.iinfo(kind)
            row = np.arange(16).astype(kind)
            row[0], row[1] = limits.min, limits.max
            self.there_and_back(name, np.stack([row, row[::-1]]), name.upper())

    def test_bool(self):
        row = np.arange(16) % 3 == 0
        self.there_and_back("bool", np.stack([row, ~row]), "BOOL")

    def test_fp32(self):
        row = np.linspace(-1.0, 1.0, 16, dtype=np.float32) / np.float32(3.0)
        row[:4] = [np.finfo(np.float32).max, np.finfo(np.float32).tiny, 1e-45, -0.0]
        self.there_and_back("fp32", row[None, :], "FP32")

    def test_fp64(self):
        row = np.linspace(-1.0, 1.0, 16) / 3.0
        row[:3] = [np.finfo(np.float64).max, np.finfo(np.float64).tiny, 5e-324]
        self.there_and_back("fp64", row[None, :], "FP64")

    def test_fp16(self):
        row = (np.linspace(-1.0, 1.0, 16) / 3.0).astype(np.float16)
        row[:2] = [65504.0, 6e-8]
        self.there_and_back("fp16", row[None, :], "FP16", json_too=False)

    def test_bf16(self):
        """The client's type is ml_dtypes.bfloat16 or, before its release 26.06, float32; these
        values lose nothing in either."""
        row = np.array([0.0, 1.0, -2.5, 3.0e38, 2.0e-38, 0.15625, 7.0, -0.5] * 2, np.float32)
        row = (row.view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32)
        row = row.astype(triton_to_np_dtype("BF16"))
        self.there_and_back("bf16", row[None, :], "BF16", json_too=False)

    def test_not_a_number_and_infinity(self):
        """Binary only: JSON has no words for them."""
        row = np.zeros((1, 16), np.float32)
        row[0, :3] = [np.nan, np.inf, -np.inf]
        got = infer(self.client, "identity_fp32", {"INPUT0": row}).as_numpy("OUTPUT0")
        np.testing.assert_array_equal(got, row)

    def test_bytes(self):
        words = [b"", b"a", "Bäckerstraße".encode(), b"x" * 5000, b'quote " backslash \\', b"\n\t"]
        row = np.array([words[i % len(words)] for i in range(16)], dtype=np.object_)
        # JSON comes back as text, binary as bytes: compare what both can hold.
        for binary_in in (True, False):
            for binary_out in (True, False):
                with self.subTest(binary_in=binary_in, binary_out=binary_out):
                    sent = row if binary_in else np.array([w.decode() for w in row], np.object_)
                    wanted = tritonclient.http.InferRequestedOutput(
                        "OUTPUT0", binary_data=binary_out
                    )
                    result = self.client.infer(
                        "identity_bytes",
                        [tensor("INPUT0", sent[None, :], "BYTES", binary=binary_in)],
                        outputs=[wanted],
                    )
                    if binary_out:
                        got = list(result.as_numpy("OUTPUT0").reshape(-1))
                    else:
                        got = [w.encode() for w in result.get_output("OUTPUT0")["data"]]
                    self.assertEqual(got, list(row))

    def test_bytes_that_are_no_text(self):
        row = np.array([b"\xff\x00\xfe" * i for i in range(16)], dtype=np.object_)
        result = self.client.infer("identity_bytes", [tensor("INPUT0", row[None, :], "BYTES")])
        self.assertEqual(list(result.as_numpy("OUTPUT0").reshape(-1)), list(row))


class Inference(ServerCase):
    def test_several_inputs_and_outputs(self):
        a = np.arange(16, dtype=np.int32)[None, :]
        b = np.full((1, 16), 100, np.int32)
        result = infer(self.client, "addsub", {"INPUT0": a, "INPUT1": b})
        np.testing.assert_array_equal(result.as_numpy("OUTPUT0"), a + b)
        np.testing.assert_array_equal(result.as_numpy("OUTPUT1"), a - b)

    def test_inputs_in_any_order(self):
        a = np.arange(16, dtype=np.int32)[None, :]
        b = np.full((1, 16), 100, np.int32)
        result = infer(self.client, "addsub", {"INPUT1": b, "INPUT0": a})
        np.testing.assert_array_equal(result.as_numpy("OUTPUT1"), a - b)

    def test_one_input_as_json_and_one_as_binary(self):
        a = np.arange(16, dtype=np.int32)[None, :]
        inputs = [tensor("INPUT0", a, binary=False), tensor("INPUT1", a * 2, binary=True)]
        wanted = [
            tritonclient.http.InferRequestedOutput("OUTPUT0", binary_data=True),
            tritonclient.http.InferRequestedOutput("OUTPUT1", binary_data=False),
        ]
        result = self.client.infer("addsub", inputs, outputs=wanted)
        np.testing.assert_array_equal(result.as_numpy("OUTPUT0"), a * 3)
        np.testing.assert_array_equal(result.as_numpy("OUTPUT1"), -a)
        self.assertIn("data", result.get_output("OUTPUT1"))

    def test_requested_outputs_only(self):
        a = np.ones((2, 16), np.int32)
        wanted = [tritonclient.http.InferRequestedOutput("OUTPUT1")]
        result = infer(self.client, "addsub", {"INPUT0": a, "INPUT1": a}, outputs=wanted)
        self.assertIsNone(result.as_numpy("OUTPUT0"))
        np.testing.assert_array_equal(result.as_numpy("OUTPUT1"), a - a)

    def test_rows_up_to_the_maximum(self):
        """KServe's first dimension counts rows; they stay together."""
        generator = np.random.default_rng(1)
        for rows in range(1, 9):
            a = generator.integers(-1000, 1000, (rows, 16), dtype=np.int32)
            b = generator.integers(-1000, 1000, (rows, 16), dtype=np.int32)
            result = infer(self.client, "addsub", {"INPUT0": a, "INPUT1": b})
            np.testing.assert_array_equal(result.as_numpy("OUTPUT0"), a + b)

    def test_rows_equal_single_rows(self):
        generator = np.random.default_rng(2)
        for model, name, shape in (
            ("mlp", "input", (16,)),
            ("cnn", "image", (3, 32, 32)),
        ):
            rows = generator.standard_normal((7,) + shape).astype(np.float32)
            output = {"mlp": "output", "cnn": "logits"}[model]
            whole = infer(self.client, model, {name: rows}).as_numpy(output)
            for i in range(len(rows)):
                single = infer(self.client, model, {name: rows[i : i + 1]}).as_numpy(output)
                self.assert_rows_equal(whole[i : i + 1], single, "%s row %d" % (model, i))

    def test_state_goes_in_and_out(self):
        generator = np.random.default_rng(3)
        x = generator.standard_normal((3, 256)).astype(np.float32)
        zeros = np.zeros_like(x)
        first = infer(self.client, "lstm256", {"x": x, "h": zeros, "c": zeros})
        state = {"h": first.as_numpy("h_out"), "c": first.as_numpy("c_out")}
        second = infer(self.client, "lstm256", dict(state, x=x)).as_numpy("h_out")
        self.assertEqual(second.shape, (3, 256))
        self.assertLess(np.abs(second).max(), 1.0)
        self.assertGreater(np.abs(second - state["h"]).max(), 1e-3)

    def test_model_without_batch_dimension(self):
        values = np.arange(16, dtype=np.float32)
        got = infer(self.client, "identity_no_batch", {"INPUT0": values}).as_numpy("OUTPUT0")
        np.testing.assert_array_equal(got, values)

    def test_model_without_configuration(self):
        row = np.linspace(0, 1, 16, dtype=np.float32)[None, :]
        got = infer(self.client, "mlp_no_config", {"input": row}).as_numpy("output")
        expected = infer(self.client, "mlp", {"input": row}).as_numpy("output")
        self.assert_rows_equal(got, expected)

    def test_any_length(self):
        for length in (1, 3, 16, 1000, 20000):
            row = np.arange(2 * length, dtype=np.float32).reshape(2, length)
            got = infer(self.client, "identity_any_length", {"INPUT0": row}).as_numpy("OUTPUT0")
            np.testing.assert_array_equal(got, row)

    def test_request_id_comes_back(self):
        row = np.zeros((1, 16), np.float32)
        for request_id in ("42", "a-b/c d", "Zürich \"7\"", "x" * 200):
            result = infer(self.client, "mlp", {"input": row}, request_id=request_id)
            self.assertEqual(result.get_response()["id"], request_id)
        self.assertNotIn("id", infer(self.client, "mlp", {"input": row}).get_response())

    def test_response_names_the_model(self):
        row = np.zeros((1, 16), np.float32)
        for version in ("", "1"):
            result = infer(self.client, "mlp", {"input": row}, model_version=version)
            response = result.get_response()
            self.assertEqual((response["model_name"], response["model_version"]), ("mlp", "1"))


class Errors(ServerCase):
    def assert_refused(self, words, model, inputs, **options):
        """A 4xx whose message holds every word; the connection then answers a good request."""
        with self.assertRaises(InferenceServerException) as caught:
            self.client.infer(model, inputs, **options)
        self.assertRegex(str(caught.exception.status()), r"\b4\d\d\b")
        for word in words:
            self.assertIn(word, caught.exception.message())
        a = np.arange(16, dtype=np.int32)[None, :]
        result = infer(self.client, "addsub", {"INPUT0": a, "INPUT1": a})
        np.testing.assert_array_equal(result.as_numpy("OUTPUT0"), a + a)

    def setUp(self):
        super().setUp()
        good = np.ones((1, 16), np.int32)
        self.a = tensor("INPUT0", good)
        self.b = tensor("INPUT1", good)

    def test_unknown_model(self):
        self.assert_refused(["no_such_model"], "no_such_model", [self.a])

    def test_unknown_version(self):
        self.assert_refused(["addsub", "7"], "addsub", [self.a, self.b], model_version="7")

    def test_wrong_shape(self):
        for shape in ((1, 15), (1, 17), (16,), (1, 16, 1), (1, 4, 4), (1,)):
            for binary in (True, False):
                wrong = tensor("INPUT0", np.ones(shape, np.int32), binary=binary)
                with self.subTest(shape=shape, binary=binary):
                    words = ["INPUT0"] + (["16"] if len(shape) > 1 else [])
                    self.assert_refused(words, "addsub", [wrong, self.b])

    def test_empty_batch(self):
        wrong = [tensor(name, np.ones((0, 16), np.int32)) for name in ("INPUT0", "INPUT1")]
        self.assert_refused([], "addsub", wrong)

    def test_wrong_datatype(self):
        wrong = tensor("INPUT0", np.ones((1, 16), np.float32))
        self.assert_refused(["INPUT0", "FP32", "INT32"], "addsub", [wrong, self.b])

    def test_missing_input(self):
        self.assert_refused(["INPUT1"], "addsub", [self.a])

    def test_unknown_input(self):
        stranger = tensor("INPUT9", np.ones((1, 16), np.int32))
        self.assert_refused(["INPUT9"], "addsub", [self.a, self.b, stranger])

    def test_input_given_twice(self):
        self.assert_refused(["INPUT0"], "addsub", [self.a, self.a, self.b])

    def test_unknown_output(self):
        wanted = [tritonclient.http.InferRequestedOutput("OUTPUT9")]
        self.assert_refused(["OUTPUT9"], "addsub", [self.a, self.b], outputs=wanted)

    def test_batch_over_the_maximum(self):
        nine = np.ones((9, 16), np.int32)
        wrong = [tensor("INPUT0", nine), tensor("INPUT1", nine)]
        self.assert_refused(["8"], "addsub", wrong)

    def test_inputs_with_different_rows(self):
        wrong = [self.a, tensor("INPUT1", np.ones((2, 16), np.int32))]
        self.assert_refused(["INPUT"], "addsub", wrong)

    def test_broken_bytes_elements(self):
        """An element that claims more bytes than there are."""
        wrong = tensor("INPUT0", np.array([[b"ab"] * 16], np.object_), "BYTES")
        raw = bytearray(wrong._raw_data)
        raw[-6:-2] = struct.pack("<I", 1000)
        wrong._raw_data = bytes(raw)
        self.assert_refused(["INPUT0"], "identity_bytes", [wrong])


class RawRequests(unittest.TestCase):
    """What no well-behaved client sends: framed correctly, so the connection has to go on."""

    def setUp(self):
        self.connection = connect(address())
        self.connection.connect()
        self.addCleanup(self.connection.close)
        self.socket = self.connection.sock

    def ask(self, method, path, body=None, **headers):
        headers = {name.replace("_", "-"): value for name, value in headers.items()}
        self.connection.request(method, path, body=body, headers=headers)
        reply = self.connection.getresponse()
        return reply.status, reply.read()

    def post(self, body, model="addsub", **headers):
        return self.ask("POST", "/v2/models/%s/infer" % model, body, **headers)

    def request(self, **changes):
        data = list(range(16))
        made = {
            "inputs": [
                {"name": "INPUT0", "datatype": "INT32", "shape": [1, 16], "data": data},
                {"name": "INPUT1", "datatype": "INT32", "shape": [1, 16], "data": data},
            ]
        }
        made["inputs"][0].update(changes)
        return made

    def assert_goes_on(self, status, answer, expected=400):
        self.assertEqual(status, expected, answer)
        error = json.loads(answer)["error"]
        self.assertGreater(len(error), 8)
        status, answer = self.post(json.dumps(self.request()))
        self.assertEqual(status, 200, answer)
        self.assertIs(self.connection.sock, self.socket, "the server closed the connection")
        outputs = {o["name"]: o["data"] for o in json.loads(answer)["outputs"]}
        self.assertEqual(outputs["OUTPUT0"], [2 * i for i in range(16)])
        return error

    def test_nested_data(self):
        nested = self.request(data=[[list(range(8)), list(range(8, 16))]])
        status, answer = self.post(json.dumps(nested))
        self.assertEqual(status, 200, answer)

    def test_malformed_json(self):
        whole = json.dumps(self.request())
        for body in ("", "{", "[]", "null", "\xff", whole[:-1], whole + "x", "[" * 5000):
            with self.subTest(body=body[:20]):
                self.assert_goes_on(*self.post(body.encode("latin-1")))

    def test_members_of_the_wrong_type(self):
        for changes in (
            {"shape": "16"},
            {"shape": [1, -16]},
            {"shape": [1, 16.5]},
            {"shape": [2**62, 16]},
            {"datatype": 5},
            {"datatype": "INT33"},
            {"name": 7},
            {"data": "text"},
            {"data": {}},
            {"data": [1.5] * 16},
            {"data": ["1"] * 16},
            {"data": [2**31] + [0] * 15},
            {"data": [0] * 15},
            {"data": [0] * 17},
            {"data": [0] * 15 + [None]},
        ):
            with self.subTest(**changes):
                body = json.dumps(self.request(**changes))
                self.assert_goes_on(*self.post(body))

    def test_no_inputs(self):
        self.assert_goes_on(*self.post("{}"))
        self.assert_goes_on(*self.post('{"inputs": []}'))

    def binary_request(self, size, raw, length=None):
        made = self.request(parameters={"binary_data_size": size})
        del made["inputs"][0]["data"]
        head = json.dumps(made).encode()
        header = str(len(head) if length is None else length)
        return self.post(head + raw, Inference_Header_Content_Length=header)

    def test_binary_input(self):
        raw = np.arange(16, dtype="<i4").tobytes()
        status, answer = self.binary_request(64, raw)
        self.assertEqual(status, 200, answer)

    def test_binary_sizes_that_lie(self):
        raw = bytes(64)
        cases = [(60, raw), (68, raw), (64, raw[:60]), (64, raw + b"xxxx"), (2**60, raw), (-1, raw)]
        for size, sent in cases:
            with self.subTest(size=size, sent=len(sent)):
                self.assert_goes_on(*self.binary_request(size, sent))

    def test_json_length_that_lies(self):
        raw = bytes(64)
        for length in (1, 10**6, -1, "abc"):
            with self.subTest(length=length):
                self.assert_goes_on(*self.binary_request(64, raw, length))

    def test_unknown_path_and_wrong_method(self):
        self.assert_goes_on(*self.ask("GET", "/v3/nothing"), expected=404)
        self.assert_goes_on(*self.ask("GET", "/v2/models/addsub/infer"), expected=405)

    def test_metrics(self):
        status, answer = self.post(json.dumps(self.request()))
        self.assertEqual(status, 200, answer)
        status, answer = self.ask("GET", "/metrics")
        self.assertEqual(status, 200)
        lines = [x for x in answer.decode().splitlines() if x and not x.startswith("#")]
        sample = re.compile(r'[a-zA-Z_:][\w:]*(\{([a-zA-Z_]\w*="[^"]*",?)*\})? \S+( \d+)?$')
        for line in lines:
            self.assertRegex(line, sample)
        self.assertTrue([x for x in lines if "addsub" in x], "no metric names the model addsub")


class Concurrency(ServerCase):
    THREADS = 16

    def equal_to_single(self, model, input_name, output_name, shape):
        """Requests of 1 to 4 rows from many threads: each row as when it was asked for alone."""
        rows = np.random.default_rng(4).standard_normal((64,) + shape).astype(np.float32)
        singles = [
            infer(self.client, model, {input_name: rows[i : i + 1]}).as_numpy(output_name)
            for i in range(len(rows))
        ]
        singles = np.concatenate(singles)

        def work(index, client):
            picks = np.random.default_rng(100 + index)
            for _ in range(20):
                chosen = picks.integers(0, len(rows), picks.integers(1, 5))
                result = infer(client, model, {input_name: rows[chosen]})
                what = "%s rows %s in thread %d" % (model, chosen, index)
                self.assert_rows_equal(result.as_numpy(output_name), singles[chosen], what)

        self.in_threads(self.THREADS, work)

    def test_mlp(self):
        self.equal_to_single("mlp", "input", "output", (16,))

    def test_cnn(self):
        self.equal_to_single("cnn", "image", "logits", (3, 32, 32))

    def test_different_lengths(self):
        def work(index, client):
            for i in range(20):
                length = 1 + (7 * index + i) % 5
                row = np.full((1, length), 1000.0 * index + i, np.float32)
                result = infer(client, "identity_any_length", {"INPUT0": row})
                np.testing.assert_array_equal(result.as_numpy("OUTPUT0"), row)

        self.in_threads(self.THREADS, work)

    def test_strings(self):
        def work(index, client):
            for i in range(20):
                row = np.array([[b"%d-%d-%d" % (index, i, k) for k in range(16)]], np.object_)
                result = client.infer("identity_bytes", [tensor("INPUT0", row, "BYTES")])
                self.assertEqual(result.as_numpy("OUTPUT0").tolist(), row.tolist())

        self.in_threads(self.THREADS, work)

    def test_an_offender_does_not_hurt_its_batch_mates(self):
        """an id outside embed's 100 rows fails Run for the batch; only its sender may notice."""

        def work(index, client):
            offender = index % 8 == 0
            for i in range(20):
                ids = (np.arange(4, dtype=np.int64)[None, :] * 7 + index + i) % 100
                if offender:
                    ids[0, 3] = 100 + i
                    with self.assertRaises(InferenceServerException) as caught:
                        infer(client, "embed", {"ids": ids})
                    self.assertGreater(len(caught.exception.message()), 8)
                else:
                    got = infer(client, "embed", {"ids": ids}).as_numpy("vectors")
                    expected = (ids[..., None] * 8 + np.arange(8)).astype(np.float32) / 8
                    np.testing.assert_array_equal(got, expected)

        self.in_threads(self.THREADS, work)


if __name__ == "__main__":
    unittest.main()
