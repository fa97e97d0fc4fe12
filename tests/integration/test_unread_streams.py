#!/usr/bin/env python3
"""A client that opens a thousand streamed answers and reads none: what waits for it is bounded, others are served, and each of its
requests ends."""
import pathlib
import signal
import struct
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "python"))

from needs import need  # noqa: E402

need("numpy", "onnx", "h2", "tritonclient")

from http2_client import Http2Connection  # noqa: E402
from plain_client import Server, is_sanitized  # noqa: E402
from server_process import free_port  # noqa: E402

import test_streams  # noqa: E402
from test_streams import ENDLESS_WORDS  # noqa: E402

STREAMS = 1000
STREAM_WORDS = 64
WORD_BYTES = 128  # an event, or a message
MIB = 1 << 20
GRPC_PATH = "/inference.GRPCInferenceService/ModelStreamInfer"


def resident(pid):
    status = pathlib.Path("/proc/%d/status" % pid).read_text()
    return int(status.split("VmRSS:")[1].split()[0]) * 1024


class UnreadStreams(test_streams.Streams):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.grpc_port = free_port()
        models = test_streams.make_models(cls.folder.name)
        cls.server = Server(models, "--grpc-port", cls.grpc_port, "--max-stream-words", STREAM_WORDS)

    def begin_events(self, client):
        client.start("POST", "/v2/models/endless/generate_stream", '{"tokens":[5]}')

    def begin_messages(self, client):
        from tritonclient.grpc import service_pb2

        request = service_pb2.ModelInferRequest(model_name="endless")
        tensor = request.inputs.add(name="tokens", datatype="INT64", shape=[1, 1])
        tensor.contents.int64_contents.append(5)
        message = request.SerializeToString()
        headers = {"te": "trailers", "content-type": "application/grpc"}
        client.start("POST", GRPC_PATH, b"\0" + struct.pack(">I", len(message)) + message, headers)

    def check(self, address, begin):
        words = self.words_at_once("seq2seq64", [5, 6, 7])
        before, held = self.metrics_of("endless"), resident(self.server.process.pid)
        client = Http2Connection(address, window=0)
        self.addCleanup(client.close)
        for _ in range(STREAMS):
            begin(client)
        for _ in range(20):
            self.assertEqual(self.words_at_once("seq2seq64", [5, 6, 7]), words)
        cancelled = "tutti_requests_cancelled_total"
        after = self.wait_until(
            "endless", lambda now: now[cancelled] == before[cancelled] + STREAMS and now["tutti_cell_slots_promised"] == 0
        )
        emitted = after["tutti_words_total"] - before["tutti_words_total"]
        self.assertGreater(emitted, STREAMS * STREAM_WORDS)
        self.assertLess(emitted, STREAMS * ENDLESS_WORDS / 2)
        if not is_sanitized():
            self.assertLess(resident(self.server.process.pid) - held, STREAMS * STREAM_WORDS * WORD_BYTES + 64 * MIB)
        client.close()
        self.assertEqual(self.words_at_once("seq2seq64", [5, 6, 7]), words)

    def test_events(self):
        self.check(self.server.address, self.begin_events)

    def test_messages(self):
        self.check("127.0.0.1:%d" % self.grpc_port, self.begin_messages)


test_streams.only(UnreadStreams, {"test_events", "test_messages"})
del test_streams.Streams

if __name__ == "__main__":
    unittest.main()
