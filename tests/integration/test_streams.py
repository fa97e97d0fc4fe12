#!/usr/bin/env python3
"""Answers word by word, over server-sent events and gRPC: the words are the unary answer's, the first comes before the last
exists, a client that goes or does not read ends its request, and the bodies of the generate extension."""
import http.client
import json
import os
import pathlib
import random
import re
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time
import unittest

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "python"))

from certificates import Certificates  # noqa: E402
from needs import need, needing  # noqa: E402

need("numpy", "onnx")

from plain_client import Server, get  # noqa: E402
from server_process import free_port  # noqa: E402

MODELS = ["seq2seq64", "lazy", "padded", "decoupled"]
ENDLESS_WORDS = 100000  # a word takes a cell, and a cell tens of microseconds: seconds
STREAM_WORDS = 16384


def make_models(folder):
    """One pair of cells, under policies by cells, by steps and by whole sequences; and a decoder that nothing ends early."""
    models = pathlib.Path(folder) / "models"
    maker = [sys.executable, ROOT / "scripts" / "make_models.py", "--out", models, "--only", "seq2seq64", "mlp"]
    subprocess.run(maker, check=True, capture_output=True)
    settings = (models / "seq2seq64" / "tutti.pbtxt").read_text()
    endless = re.sub(r"threshold: \d+ eos: \d+", "threshold: %d eos: 1000000" % ENDLESS_WORDS, settings)
    assert endless != settings
    decoupled = models / "decoupled"
    decoupled.mkdir()
    (decoupled / "config.pbtxt").write_text("model_transaction_policy { decoupled: true }\n")
    (decoupled / "1").symlink_to(models / "seq2seq64" / "1")
    (decoupled / "tutti.pbtxt").write_text(settings)
    for name, text in [
        ("lazy", settings + '\npolicy { name: "lazy" }\n'),
        ("padded", settings + '\npolicy { name: "window" option { key: "same_length" value: "off" } }\n'),
        ("endless", endless),
    ]:
        (models / name).mkdir()
        (models / name / "1").symlink_to(models / "seq2seq64" / "1")
        (models / name / "tutti.pbtxt").write_text(text)
    return models


def events_of(answer):
    """The events of a response as they come."""
    for line in answer:
        if line.startswith(b"data: "):
            yield json.loads(line[len(b"data: ") :])


class Streams(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.grpc_port = free_port()
        models = make_models(cls.folder.name)
        # The flag given last counts.
        cls.server = Server(models, "--grpc-port", cls.grpc_port, "--max-stream-words", STREAM_WORDS)

    @classmethod
    def tearDownClass(cls):
        code = cls.server.end(signal.SIGTERM)
        said = cls.server.said()
        cls.folder.cleanup()
        if code != 0:
            raise AssertionError("the server ended with %d:\n%s" % (code, said))

    def client(self):
        client = http.client.HTTPConnection(self.server.address, timeout=60)
        self.addCleanup(client.close)
        return client

    def post(self, path, body, client=None, **headers):
        client = client or self.client()
        client.request("POST", path, json.dumps(body) if isinstance(body, dict) else body, headers)
        return client.getresponse()

    def words_at_once(self, model, tokens):
        tensor = {"name": "tokens", "shape": [1, len(tokens)], "datatype": "INT64", "data": tokens}
        answer = self.post("/v2/models/%s/infer" % model, {"inputs": [tensor]})
        return json.loads(answer.read())["outputs"][0]["data"]

    def metrics_of(self, model):
        page = get(self.server.address, "/metrics")[2].decode()
        found = re.findall(r'^(\w+)\{model="%s",version="1"(,cell="decoder")?\} (\S+)$' % model, page, re.M)
        return {name: float(value) for name, _, value in found}

    def wait_until(self, model, holds):
        give_up_at = time.monotonic() + 60
        while not holds(metrics := self.metrics_of(model)):
            self.assertLess(time.monotonic(), give_up_at, metrics)
        return self.metrics_of(model)  # the server may have counted while it wrote that page

    # --- the same words ---

    def random_requests(self, count):
        seed = int(os.environ.get("TUTTI_SEED") or random.randrange(1 << 30))
        print("seed: TUTTI_SEED=%d" % seed, file=sys.stderr)
        draw = random.Random(seed)
        return [
            (draw.choice(MODELS), [draw.randrange(3, 500) for _ in range(draw.choice([1, 2, 5, 9]))])
            for _ in range(count)
        ]

    def test_events_are_the_words_of_the_unary_answer(self):
        asked = self.random_requests(60)
        expected = [self.words_at_once(*request) for request in asked]
        wrong = []

        def run(mine):
            client = self.client()
            for model, tokens, words in mine:
                # A stream does not end its connection, and two can follow each other.
                answer = self.post("/v2/models/%s/generate_stream" % model, {"tokens": tokens}, client)
                events = list(events_of(answer))
                if answer.status != 200 or [event.get("word") for event in events] != words:
                    wrong.append((model, tokens, words, events))

        mine = [(*request, words) for request, words in zip(asked, expected)]
        threads = [threading.Thread(target=run, args=(mine[i::4],)) for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])

    def test_a_decoupled_model_says_so(self):
        """Triton's clients read it, and then use a stream."""
        config = json.loads(get(self.server.address, "/v2/models/decoupled/config")[2])
        self.assertEqual(config["model_transaction_policy"], {"decoupled": True})

    def test_an_event_names_model_and_request(self):
        body = {"tokens": [5, 6, 7], "id": 'a"\n', "max_tokens": 3}
        answer = self.post("/v2/models/seq2seq64/versions/1/generate_stream", body)
        self.assertEqual(answer.getheader("Content-Type"), "text/event-stream")
        self.assertEqual(answer.getheader("Transfer-Encoding"), "chunked")
        for event in events_of(answer):
            self.assertEqual(set(event), {"id", "model_name", "model_version", "word"})
            self.assertEqual((event["id"], event["model_name"], event["model_version"]), ('a"\n', "seq2seq64", "1"))

    def test_without_keep_alive_the_end_of_the_stream_is_the_connections(self):
        words = self.words_at_once("seq2seq64", [5, 6, 7])
        for version in "1.0", "1.1":
            host, port = self.server.address.split(":")
            with socket.create_connection((host, int(port))) as client:
                head = "POST /v2/models/seq2seq64/generate_stream HTTP/%s\r\nHost: x\r\nConnection: close\r\nContent-Length: 18\r\n\r\n"
                client.sendall((head % version + '{"tokens":[5,6,7]}').encode())
                with client.makefile("rb") as answer:
                    head, _, events = answer.read().partition(b"\r\n\r\n")
            self.assertNotIn(b"chunked", head)
            self.assertEqual([event["word"] for event in events_of(events.splitlines())], words)

    def test_a_request_behind_a_stream_is_answered_after_it(self):
        host, port = self.server.address.split(":")
        with socket.create_connection((host, int(port))) as client:
            head = "POST /v2/models/seq2seq64/generate_stream HTTP/1.1\r\nHost: x\r\nContent-Length: 18\r\n\r\n"
            behind = "GET /v2/health/live HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
            client.sendall((head + '{"tokens":[5,6,7]}' + behind).encode())
            with client.makefile("rb") as answer:
                said = answer.read()
        stream, end, after = said.partition(b"0\r\n\r\n")
        self.assertIn(b"text/event-stream", stream)
        self.assertTrue(after.startswith(b"HTTP/1.1 200 OK"), said)

    # --- generate, and models that emit nothing ---

    def test_generate_answers_once(self):
        words = self.words_at_once("seq2seq64", [5, 6, 7])
        answer = self.post("/v2/models/seq2seq64/generate", {"tokens": [5, 6, 7]})
        self.assertEqual(json.loads(answer.read())["word"], words)

    def post_in_time(self, path, body):
        """Asks again while the policy drops the request: its model has an objective, and the machine may be busy."""
        for _ in range(200):
            answer = self.post(path, body)
            if answer.status != 503:
                break
            self.assertRegex(answer.read(), rb"dropped \((deadline|early)\)")
        return answer

    def test_a_model_that_emits_nothing_has_one_event(self):
        row = {"input": [0.5] * 16}
        once = json.loads(self.post_in_time("/v2/models/mlp/generate", row).read())
        answer = self.post_in_time("/v2/models/mlp/generate_stream", row)
        self.assertEqual(answer.getheader("Content-Type"), "text/event-stream")
        self.assertEqual(list(events_of(answer)), [once])
        self.assertEqual(len(once["output"]), 4)

    def test_what_is_wrong_before_the_first_event_has_its_status(self):
        for path, body, status, sentence in [
            ("mlp/generate", '{"input": [1]}', 400, "has 1 values; it takes 16"),
            ("mlp/generate_stream", '{"input": "x"}', 400, "input 'input'"),
            ("seq2seq64/generate_stream", '{"tokens": [999]}', 400, "element 0 of input 'tokens' is 999"),
            ("seq2seq64/generate_stream", '{"tokens": []}', 400, "'tokens'"),
            ("seq2seq64/generate_stream", "{", 400, "JSON, byte 1"),
            ("nothing/generate_stream", "{}", 404, "'nothing' is not found"),
        ]:
            answer = self.post("/v2/models/" + path, body)
            text = json.loads(answer.read())["error"]
            self.assertEqual(answer.status, status, text)
            self.assertIn(sentence, text)
        client = self.client()
        client.request("GET", "/v2/models/mlp/generate_stream")
        self.assertEqual(client.getresponse().status, 405)

    # --- before the end ---

    def test_the_first_word_comes_before_the_last_exists_and_leaving_ends_the_rest(self):
        before = self.metrics_of("endless")
        client = self.client()
        answer = self.post("/v2/models/endless/generate_stream", {"tokens": [5]}, client)
        first = [next(events_of(answer)) for _ in range(3)]
        self.assertEqual(len({json.dumps(event) for event in first[:1]}), 1)
        answer.close()
        client.close()
        after = self.wait_until("endless", lambda now: now["tutti_cell_slots_promised"] == 0)
        emitted = after["tutti_words_total"] - before["tutti_words_total"]
        self.assertGreaterEqual(emitted, 3)
        self.assertLess(emitted, ENDLESS_WORDS)
        self.assertEqual(after["tutti_requests_cancelled_total"], before["tutti_requests_cancelled_total"] + 1)
        trace = json.loads(get(self.server.address, "/v2/debug/trace")[2])["traceEvents"]
        requests = [e for e in trace if e.get("cat") == "request" and e["args"]["model"] == "endless"]
        request = requests[-1]
        self.assertEqual(request["args"]["ending"], "cancelled")
        marks = [e for e in trace if e.get("cat") == "word" and e["args"]["model"] == "endless"]
        number = int(request["name"].split()[1])
        mark = [e for e in marks if e["args"]["request"] == number]
        self.assertEqual(len(mark), 1)
        self.assertLess(mark[0]["ts"], request["ts"] + request["dur"])
        # What was submitted before it left may still run; nothing was decided after.
        batches = [e for e in trace if e.get("cat") == "batch" and e["name"] == "endless"]
        left_at = request["ts"] + request["dur"]
        late = [e for e in batches if e["ts"] - e["args"]["decided_us_before"] > left_at]
        self.assertEqual(late, [])
        # And each cell more than its words was under way: a few tasks of one cell.
        cells = after["tutti_cells_total"] - before.get("tutti_cells_total", 0)
        self.assertLess(cells - emitted, 10)

    def test_a_client_that_does_not_read_is_cancelled(self):
        before = self.metrics_of("endless")
        host, port = self.server.address.split(":")
        with socket.socket() as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            client.connect((host, int(port)))
            head = "POST /v2/models/endless/generate_stream HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 14\r\n\r\n"
            client.sendall((head + '{"tokens":[5]}').encode())
            after = self.wait_until(
                "endless",
                lambda now: now["tutti_requests_cancelled_total"] > before["tutti_requests_cancelled_total"]
                and now["tutti_cell_slots_promised"] == 0,
            )
            # What was sent or waited is still there, in order; then the reason.
            with client.makefile("rb") as answer:
                events = list(events_of(answer))
        self.assertEqual(set(events[-1]), {"error"})
        self.assertIn("reads the stream too slowly; %d words wait" % STREAM_WORDS, events[-1]["error"])
        self.assertIn("--max-stream-words", events[-1]["error"])
        emitted = after["tutti_words_total"] - before["tutti_words_total"]
        self.assertEqual(len(events) - 1, emitted - 1)  # the word that found no room
        self.assertLess(emitted, ENDLESS_WORDS)
        self.assertEqual(after["nv_inference_pending_request_count"], 0)

    def test_metrics_count_words_and_first_words(self):
        for model in MODELS:
            before, words = self.metrics_of(model), 0
            for _ in range(3):
                answer = self.post("/v2/models/%s/generate_stream" % model, {"tokens": [9, 8, 7]})
                words += len(list(events_of(answer)))
            after = self.metrics_of(model)
            self.assertEqual(after["tutti_words_total"] - before["tutti_words_total"], words)
            self.assertEqual(after["tutti_first_word_seconds_count"] - before["tutti_first_word_seconds_count"], 3)
            # Of these three: a cancelled request of another test may have a first word, but it has no duration.
            first, whole = (after[name] - before[name] for name in ("tutti_first_word_seconds_sum", "tutti_request_duration_seconds_sum"))
            self.assertLess(first, whole)
        self.assertNotIn("tutti_words_total", self.metrics_of("mlp"))


@needing("tritonclient", "grpc")
class GrpcStreams(Streams):
    """The same server's gRPC, by an unmodified tritonclient.grpc. (It inherits the server, not the tests.)"""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        import queue

        import numpy
        import tritonclient.grpc

        self.library, self.queue, self.numpy = tritonclient.grpc, queue, numpy

    def open(self, **options):
        client = self.library.InferenceServerClient("127.0.0.1:%d" % self.grpc_port, **options)
        self.addCleanup(client.close)
        return client

    def send(self, client, model, tokens, **options):
        array = self.numpy.array([tokens], self.numpy.int64)
        tensor = self.library.InferInput("tokens", array.shape, "INT64")
        tensor.set_data_from_numpy(array)
        client.async_stream_infer(model, [tensor], **options)

    def read(self, answers, count):
        return [answers.get(timeout=60) for _ in range(count)]


def only(case, names):
    """A test case with these of the inherited tests."""
    for name in dir(case):
        if name.startswith("test_") and name not in names and name not in vars(case):
            setattr(case, name, None)
    return case


class Words(GrpcStreams):
    def test_responses_are_the_words_of_the_unary_answer(self):
        for compression in (None, "gzip"):
            asked = self.random_requests(40)
            expected = {str(i): self.words_at_once(*request) for i, request in enumerate(asked)}
            answers, client = self.queue.Queue(), self.open()
            client.start_stream(
                lambda result, error: answers.put((result, error)), compression_algorithm=compression
            )
            for i, (model, tokens) in enumerate(asked):
                self.send(client, model, tokens, request_id=str(i), enable_empty_final_response=True)
            words, finals = {key: [] for key in expected}, set()
            while len(finals) < len(asked):
                result, error = answers.get(timeout=60)
                self.assertIsNone(error)
                response = result.get_response()
                self.assertNotIn(response.id, finals)
                if response.parameters["triton_final_response"].bool_param:
                    self.assertEqual(len(response.outputs), 0)
                    finals.add(response.id)
                else:
                    array = result.as_numpy("word")
                    self.assertEqual(array.shape, (1, 1))
                    words[response.id].append(int(array[0, 0]))
            client.stop_stream()
            self.assertEqual(words, expected)

    def test_without_the_flag_there_are_only_words(self):
        words = self.words_at_once("seq2seq64", [5, 6, 7])
        answers, client = self.queue.Queue(), self.open()
        client.start_stream(lambda result, error: answers.put((result, error)))
        for _ in range(3):
            self.send(client, "seq2seq64", [5, 6, 7])
        got = self.read(answers, 3 * len(words))
        client.stop_stream()  # waits for what is to come
        self.assertTrue(answers.empty())
        self.assertTrue(all("triton_final_response" not in r.get_response().parameters for r, _ in got))

    def test_all_comes_though_the_client_has_nothing_more_to_send(self):
        """Of calls with one request each, whose clients end their half at once. What was emitted after a message was queued, and
        the final response, comes before the status."""
        import grpc
        from tritonclient.grpc import service_pb2, service_pb2_grpc

        channel = grpc.insecure_channel("127.0.0.1:%d" % self.grpc_port)
        self.addCleanup(channel.close)
        stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
        for number, (model, tokens) in enumerate(self.random_requests(40)):
            request = service_pb2.ModelInferRequest(model_name=model)
            request.inputs.add(name="tokens", datatype="INT64", shape=[1, len(tokens)])
            request.raw_input_contents.append(self.numpy.array(tokens, self.numpy.int64).tobytes())
            request.parameters["triton_enable_empty_final_response"].bool_param = True
            coding = (grpc.Compression.NoCompression, grpc.Compression.Gzip)[number % 2]
            answers = [answer.infer_response for answer in stub.ModelStreamInfer(iter([request]), compression=coding)]
            words = [int.from_bytes(b"".join(answer.raw_output_contents), "little") for answer in answers[:-1]]
            self.assertEqual(words, self.words_at_once(model, tokens))
            finals = [answer.parameters["triton_final_response"].bool_param for answer in answers]
            self.assertEqual(finals, [False] * len(words) + [True])

    def test_cancelling_ends_the_rest(self):
        before = self.metrics_of("endless")
        answers, client = self.queue.Queue(), self.open()
        client.start_stream(lambda result, error: answers.put((result, error)))
        self.send(client, "endless", [5])
        self.read(answers, 3)
        client.stop_stream(cancel_requests=True)
        after = self.wait_until("endless", lambda now: now["tutti_cell_slots_promised"] == 0)
        self.assertLess(after["tutti_words_total"] - before["tutti_words_total"], ENDLESS_WORDS)
        self.assertEqual(after["tutti_requests_cancelled_total"], before["tutti_requests_cancelled_total"] + 1)

    def test_a_client_that_does_not_read_is_cancelled(self):
        before = self.metrics_of("endless")
        # The library's own window grows to more than all words.
        fixed = [("grpc.http2.bdp_probe", 0), ("grpc.http2.lookahead_bytes", 65536)]
        answers, reads, client = self.queue.Queue(), threading.Event(), self.open(channel_args=fixed)

        def take(result, error):
            reads.wait(60)
            answers.put((result, error))

        client.start_stream(take)
        self.send(client, "endless", [5])
        self.wait_until(
            "endless",
            lambda now: now["tutti_requests_cancelled_total"] > before["tutti_requests_cancelled_total"]
            and now["tutti_cell_slots_promised"] == 0,
        )
        reads.set()
        error = None
        while error is None:
            result, error = answers.get(timeout=60)
        self.assertIn("reads the stream too slowly", str(error))
        # The stream goes on after an error of one request.
        words = self.words_at_once("seq2seq64", [5, 6, 7])
        self.send(client, "seq2seq64", [5, 6, 7])
        self.assertEqual([int(r.as_numpy("word")[0, 0]) for r, _ in self.read(answers, len(words))], words)
        client.stop_stream()


only(Words, set())
del GrpcStreams


@needing("h2")
class Http2Streams(Streams):
    """The same over HTTP/2, where many streams share a connection."""

    def client(self, **options):
        from http2_client import Http2Connection

        client = Http2Connection(self.server.address, **options)
        self.addCleanup(client.close)
        return client

    def test_streams_of_one_connection(self):
        client = self.client()
        asked = self.random_requests(20)
        started = [
            client.start("POST", "/v2/models/%s/generate_stream" % model, json.dumps({"tokens": tokens}))
            for model, tokens in asked
        ]
        for number, request in zip(started, asked):
            events = events_of(bytes(client.wait(number).body).splitlines())
            self.assertEqual([event["word"] for event in events], self.words_at_once(*request))

    def test_a_client_that_does_not_read_is_cancelled(self):
        before = self.metrics_of("endless")
        client = self.client(window=1000)
        number = client.start("POST", "/v2/models/endless/generate_stream", '{"tokens":[5]}')
        after = self.wait_until(
            "endless",
            lambda now: now["tutti_requests_cancelled_total"] > before["tutti_requests_cancelled_total"]
            and now["tutti_cell_slots_promised"] == 0,
        )
        client.http2.increment_flow_control_window(1 << 30, number)
        client.http2.increment_flow_control_window(1 << 30)
        client.flush()
        events = list(events_of(bytes(client.wait(number).body).splitlines()))
        self.assertIn("reads the stream too slowly; %d words wait" % STREAM_WORDS, events[-1]["error"])
        emitted = after["tutti_words_total"] - before["tutti_words_total"]
        self.assertEqual(len(events) - 1, emitted - 1)  # the word that found no room
        self.assertLess(emitted, ENDLESS_WORDS)


only(
    Http2Streams,
    {
        "test_events_are_the_words_of_the_unary_answer",
        "test_generate_answers_once",
        "test_a_model_that_emits_nothing_has_one_event",
        "test_what_is_wrong_before_the_first_event_has_its_status",
        "test_the_first_word_comes_before_the_last_exists_and_leaving_ends_the_rest",
        "test_metrics_count_words_and_first_words",
    },
)


class OverTls(unittest.TestCase):
    """Encrypted parts of a stream are written by other code; their clients are slow here, so that writes end in parts."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        models = make_models(folder.name)
        files = Certificates(folder.name)
        certificate, key = files.make("server")
        self.server = Server(models, "--grpc-port", 0, "--tls-cert", certificate, "--tls-key", key)
        self.context = ssl.create_default_context(cafile=files.path("ca.pem"))

    def connect(self):
        host, port = self.server.address.split("//")[-1].split(":")
        plain = socket.socket()
        plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        plain.connect((host, int(port)))
        return self.context.wrap_socket(plain, server_hostname="127.0.0.1")

    def ask(self, client, path, body):
        head = "POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % (path, len(body))
        client.sendall((head + body).encode())
        return http.client.HTTPResponse(client)

    def test_streams_are_the_words_of_the_unary_answer(self):
        tokens = json.dumps({"tokens": [5] * 500})
        with self.connect() as client:
            answer = self.ask(client, "/v2/models/seq2seq64/generate", tokens)
            answer.begin()
            words = json.loads(answer.read())["word"]
            for _ in range(3):
                answer = self.ask(client, "/v2/models/seq2seq64/generate_stream", tokens)
                answer.begin()
                self.assertEqual([event["word"] for event in events_of(answer)], words)
        with self.connect() as client:  # it goes in the middle
            answer = self.ask(client, "/v2/models/endless/generate_stream", '{"tokens": [5]}')
            answer.begin()
            self.assertIn("word", next(events_of(answer)))
        self.assertEqual(self.server.end(signal.SIGTERM), 0, self.server.said())

if __name__ == "__main__":
    unittest.main()
