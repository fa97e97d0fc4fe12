"""What HTTP brings with it: packed bodies, chunks, pipelines, Expect, deadlines; and those parts of
tritonclient that the other tests leave out."""
import gzip
import http.client
import json
import socket
import unittest
import zlib

import numpy as np
import tritonclient.http as triton
from tritonclient.utils import InferenceServerException

from server_case import ServerCase, address, infer, tensor
from transport import connect, transport, triton_client

REQUEST = {
    "inputs": [
        {"name": "INPUT0", "shape": [1, 16], "datatype": "FP32", "data": [float(i) for i in range(16)]}
    ]
}
PATH = "/v2/models/identity_fp32/infer"


class Packed(ServerCase):
    def setUp(self):
        super().setUp()
        self.rows = np.arange(64 * 16, dtype=np.float32).reshape(64, 16)

    def test_both_ways(self):
        for packs in (None, "gzip", "deflate"):
            for likes in (None, "gzip", "deflate"):
                for binary in (True, False):
                    with self.subTest(packs=packs, likes=likes, binary=binary):
                        result = self.client.infer(
                            "identity_fp32",
                            [tensor("INPUT0", self.rows, binary=binary)],
                            outputs=[triton.InferRequestedOutput("OUTPUT0", binary_data=binary)],
                            request_compression_algorithm=packs,
                            response_compression_algorithm=likes,
                        )
                        np.testing.assert_array_equal(result.as_numpy("OUTPUT0"), self.rows)

    def ask(self, body, **headers):
        connection = connect(address())
        connection.request(
            "POST", PATH, body, {k.replace("_", "-"): v for k, v in headers.items()}
        )
        answer = connection.getresponse()
        content = answer.read()
        connection.close()
        return answer, content

    def test_answer_says_how_it_is_packed(self):
        values = list(range(64 * 16))
        row = {"name": "INPUT0", "shape": [64, 16], "datatype": "FP32", "data": values}
        body = json.dumps({"inputs": [row]}).encode()
        answer, content = self.ask(body, Accept_Encoding="gzip")
        self.assertEqual(answer.headers["Content-Encoding"], "gzip")
        self.assertEqual(json.loads(gzip.decompress(content))["outputs"][0]["data"], values)
        answer, content = self.ask(body, Accept_Encoding="deflate;q=0.9, gzip;q=0.1")
        self.assertEqual(answer.headers["Content-Encoding"], "deflate")
        json.loads(zlib.decompress(content))
        answer, content = self.ask(body)
        self.assertIsNone(answer.headers["Content-Encoding"])
        json.loads(content)

    def test_only_inference_is_packed(self):
        # tritonclient.http.aio asks for compression always, and reads metadata as it comes.
        for path in ("/v2", "/v2/models/identity_fp32", "/v2/models/identity_fp32/config", "/metrics"):
            connection = connect(address())
            connection.request("GET", path, headers={"Accept-Encoding": "gzip, deflate"})
            answer = connection.getresponse()
            content = answer.read()
            connection.close()
            self.assertEqual(answer.status, 200, path)
            self.assertIsNone(answer.headers["Content-Encoding"], path)
            self.assertGreater(len(content), 100, path)

    def test_bombs(self):
        for bomb in (b" " * (1 << 27), json.dumps(REQUEST).encode() + b" " * (1 << 27)):
            packed = gzip.compress(bomb, 1)
            self.assertLess(len(packed), 1 << 20)
            answer, content = self.ask(packed, Content_Encoding="gzip")
            self.assertEqual(answer.status, 413)
            self.assertIn("unpacks to more than", json.loads(content)["error"])

    def test_what_is_not_packed_as_it_says(self):
        body = json.dumps(REQUEST).encode()
        good = gzip.compress(body)
        for sent, coding, status in (
            (good, "gzip", 200),
            (zlib.compress(body), "deflate", 200),
            (body, "gzip", 400),
            (good, "deflate", 400),
            (good[:-1], "gzip", 400),
            (good + b"x", "gzip", 400),
            (b"", "gzip", 400),
            (body, "br", 415),
            (gzip.compress(good), "gzip, gzip", 415),
            (body, "identity", 200),
        ):
            with self.subTest(coding=coding, status=status):
                answer, content = self.ask(sent, Content_Encoding=coding)
                self.assertEqual(answer.status, status, content)


@unittest.skipIf(transport() != "http1", "the bytes of HTTP/1.1")
class Wire(unittest.TestCase):
    def setUp(self):
        host, port = address().split(":")
        self.socket = socket.create_connection((host, int(port)), timeout=60)
        self.addCleanup(self.socket.close)
        self.file = self.socket.makefile("rb")
        self.addCleanup(self.file.close)

    def hear(self):
        status = int(self.file.readline().split()[1])
        headers = http.client.parse_headers(self.file)
        body = self.file.read(int(headers.get("Content-Length", 0)))
        return status, headers, body

    def request(self, number, more=""):
        body = json.dumps(dict(REQUEST, id=str(number)))
        return "POST %s HTTP/1.1\r\nHost: x\r\n%sContent-Length: %d\r\n\r\n%s" % (
            PATH, more, len(body), body)

    def test_pipeline(self):
        self.socket.sendall("".join(self.request(i) for i in range(50)).encode())
        for i in range(50):
            status, _, body = self.hear()
            self.assertEqual((status, json.loads(body)["id"]), (200, str(i)))

    def test_rubbish_behind_a_good_request(self):
        self.socket.sendall((self.request(1) + "\x00\x01 what is this\r\n\r\n").encode())
        status, _, body = self.hear()
        self.assertEqual((status, json.loads(body)["id"]), (200, "1"))
        status, headers, _ = self.hear()
        self.assertEqual((status, headers["Connection"]), (400, "close"))
        self.assertEqual(self.file.read(), b"")

    def test_chunks(self):
        body = json.dumps(REQUEST)
        sent = "POST %s HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n" % PATH
        for at in range(0, len(body), 7):
            piece = body[at : at + 7]
            sent += "%x\r\n%s\r\n" % (len(piece), piece)
        self.socket.sendall((sent + "0\r\n\r\n").encode())
        self.assertEqual(self.hear()[0], 200)

    def test_expect(self):
        body = json.dumps(REQUEST)
        self.socket.sendall(
            (
                "POST %s HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: %d\r\n\r\n"
                % (PATH, len(body))
            ).encode()
        )
        self.assertEqual(self.file.readline(), b"HTTP/1.1 100 Continue\r\n")
        self.assertEqual(self.file.readline(), b"\r\n")
        self.socket.sendall(body.encode())
        self.assertEqual(self.hear()[0], 200)

    def test_no_cors(self):
        self.socket.sendall(self.request(1, "Origin: http://elsewhere\r\n").encode())
        status, headers, _ = self.hear()
        self.assertEqual(status, 200)
        self.assertFalse([h for h in headers if h.lower().startswith("access-control")])

    def test_smuggling_shapes(self):
        body = "{}"
        for head in (
            "Content-Length: 2\r\nTransfer-Encoding: chunked\r\n",
            "Content-Length: 2\r\nContent-Length: 2\r\n",
            "Content-Length: +2\r\n",
            "Content-Length: 2,2\r\n",
            "Transfer-Encoding: xchunked\r\n",
            "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n",
            "Content-Length : 2\r\n",
            "X: a\r\n b\r\nContent-Length: 2\r\n",
            "X: a\nContent-Length: 2\r\n",
        ):
            with self.subTest(head=head):
                host, port = address().split(":")
                with socket.create_connection((host, int(port)), timeout=60) as sent:
                    sent.sendall(
                        ("POST %s HTTP/1.1\r\nHost: x\r\n%s\r\n%s" % (PATH, head, body)).encode()
                    )
                    answer = sent.makefile("rb").read().decode("latin-1")
                    self.assertRegex(answer.splitlines()[0], "HTTP/1.1 400")
                    self.assertIn("Connection: close", answer)


class Deadlines(ServerCase):
    def test_a_deadline_that_cannot_be_met(self):
        """Told at once, with the reason and the numbers, and when to come again."""
        body = dict(REQUEST, parameters={"timeout": 1})
        connection = connect(address())
        refused = 0
        for _ in range(50):
            connection.request("POST", "/v2/models/mlp/infer", json.dumps(
                {"inputs": [{"name": "input", "shape": [1, 16], "datatype": "FP32",
                             "data": [0.0] * 16}], "parameters": body["parameters"]}))
            answer = connection.getresponse()
            content = json.loads(answer.read())
            if answer.status == 503:
                refused += 1
                self.assertEqual(answer.headers["Retry-After"], "1")
                self.assertRegex(
                    content["error"],
                    r"Request timeout expired: .*'mlp' .*deadline of 0\.001 ms; it had waited "
                    r"\d+\.\d{3} ms, and computing it takes \d+\.\d{3} ms",
                )
            else:
                self.assertEqual(answer.status, 200)
        connection.close()
        self.assertGreater(refused, 25)

    def test_a_long_one(self):
        row = np.zeros((1, 16), np.float32)
        result = infer(self.client, "mlp", {"input": row}, timeout=60_000_000, priority=0)
        self.assertEqual(result.as_numpy("output").shape[0], 1)


class RestOfTheClient(ServerCase):
    def test_async_infer(self):
        client = triton_client(address(), concurrency=4)
        self.addCleanup(client.close)
        asked = []
        for i in range(20):
            row = np.full((1, 16), float(i), np.float32)
            asked.append(client.async_infer("identity_fp32", [tensor("INPUT0", row)]))
        for i, request in enumerate(asked):
            got = request.get_result().as_numpy("OUTPUT0")
            np.testing.assert_array_equal(got, np.full((1, 16), float(i), np.float32))

    def test_bodies_made_and_read_by_hand(self):
        row = np.arange(16, dtype=np.float32)[None, :]
        body, json_size = triton.InferenceServerClient.generate_request_body(
            [tensor("INPUT0", row)], outputs=[triton.InferRequestedOutput("OUTPUT0")]
        )
        connection = connect(address())
        connection.request(
            "POST", PATH, body, {"Inference-Header-Content-Length": str(json_size)}
        )
        answer = connection.getresponse()
        content = answer.read()
        connection.close()
        result = triton.InferenceServerClient.parse_response_body(
            content, header_length=int(answer.headers["Inference-Header-Content-Length"])
        )
        np.testing.assert_array_equal(result.as_numpy("OUTPUT0"), row)

    def test_what_is_not_there_says_so(self):
        row = tensor("INPUT0", np.zeros((1, 16), np.float32))
        with self.assertRaises(InferenceServerException) as caught:
            self.client.infer("identity_fp32", [row], sequence_id=5, sequence_start=True)
        self.assertIn("sequence", caught.exception.message())
        with self.assertRaises(InferenceServerException) as caught:
            self.client.infer(
                "identity_fp32", [row], outputs=[triton.InferRequestedOutput("OUTPUT0", class_count=3)]
            )
        self.assertIn("classification", caught.exception.message())
        with self.assertRaises(InferenceServerException) as caught:
            self.client.get_system_shared_memory_status()
        self.assertEqual(caught.exception.status(), "404")

    def test_statistics_and_settings(self):
        infer(self.client, "mlp", {"input": np.zeros((1, 16), np.float32)}, timeout=60_000_000)
        names = [s["name"] for s in self.client.get_inference_statistics()["model_stats"]]
        self.assertIn("mlp", names)
        self.assertEqual(self.client.get_trace_settings("mlp")["trace_mode"], "triton")
        self.assertIn("log_verbose_level", self.client.get_log_settings())
        self.assertIn("statistics", self.client.get_server_metadata()["extensions"])


if __name__ == "__main__":
    unittest.main()
