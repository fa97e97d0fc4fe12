#!/usr/bin/env python3
# plain build only: a sanitizer must be the first library of a process
"""How often the bytes of an input are copied on their way from the socket to the slot of a batch (tests/faults/copy_count.c)."""
import os
import pathlib
import signal
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "python"))

from plain_client import PROGRAM, Server  # noqa: E402
from plain_grpc import FRAME_BYTES, PlainGrpc, message_head  # noqa: E402
from server_process import free_port  # noqa: E402

SHIM = pathlib.Path(PROGRAM).resolve().parent / "tests" / "faults" / "copy_count.so"
STATUS_OK = b"\x40\x88\x9a\xca\xc8\xb2\x12\x34\xda\x8f\x010"  # grpc-status: 0, its name packed
CONFIG = """backend: "emulated" max_batch_size: 4
input { name: "input" data_type: TYPE_UINT8 dims: %d }
output { name: "y" data_type: TYPE_UINT8 dims: 1 }
"""


def varint(number):
    found = b""
    while number >= 0x80:
        found, number = found + bytes([number & 0x7F | 0x80]), number >> 7
    return found + bytes([number])


def field(number, payload):
    return varint(number << 3 | 2) + varint(len(payload)) + payload


def message(input_bytes):
    """A ModelInferRequest with raw contents."""
    shape = field(3, varint(1) + varint(input_bytes))
    return field(1, b"m") + field(5, field(1, b"input") + field(2, b"UINT8") + shape) + field(7, b"\1" * input_bytes)


class CopiesCase(unittest.TestCase):
    def copied(self, input_bytes, requests):
        """The bytes that a server copies in large pieces which answers so many requests over gRPC."""
        with tempfile.TemporaryDirectory() as folder:
            model = pathlib.Path(folder) / "models" / "m"
            (model / "1").mkdir(parents=True)
            (model / "config.pbtxt").write_text(CONFIG % input_bytes)
            (model / "profile.pbtxt").write_text("linear { beta_ms: 0.01 }\n")
            count = pathlib.Path(folder) / "count"
            environment = dict(os.environ, LD_PRELOAD=str(SHIM), COPY_COUNT=str(count))
            port = free_port()
            server = Server(model.parent, "--grpc-port", port, start={"env": environment})
            for _ in range(requests):
                client, sent = PlainGrpc(port), message(input_bytes)
                sent = message_head(len(sent)) + sent
                client.headers("/inference.GRPCInferenceService/ModelInfer")
                for at in range(0, len(sent), FRAME_BYTES):
                    client.put(sent[at : at + FRAME_BYTES])
                client.frame(0, 1, 1, b"")
                while not client.ended:
                    client.read()
                self.assertTrue(client.received.endswith(STATUS_OK), client.received)
                client.close()
            self.assertEqual(server.end(signal.SIGTERM), 0)
            return int(count.read_text())

    def copies(self, input_bytes):
        """Of each byte of an input, but for small pieces and the rest of the message. What the server copies as it starts and
        ends does not count. The least of some tries: a part of a frame that came late is moved once more."""
        least = [min(self.copied(input_bytes, requests) for _ in range(3)) for requests in (4, 12)]
        return (least[1] - least[0]) / (8 * input_bytes)

    def test_a_message_in_one_frame(self):
        """From where it was received into the slot."""
        self.assertAlmostEqual(self.copies(12000), 1, delta=0.02)

    def test_a_message_in_many_frames(self):
        """It is gathered before."""
        self.assertAlmostEqual(self.copies(160000), 2, delta=0.02)


if __name__ == "__main__":
    unittest.main()
