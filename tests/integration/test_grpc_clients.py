#!/usr/bin/env python3
"""perf_analyzer and grpcurl, unmodified, on a server: `scripts/setup.sh --clients` installs them."""
import base64
import json
import os
import pathlib
import re
import struct
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "python"))

from needs import skip  # noqa: E402
from plain_client import PROGRAM, get  # noqa: E402
from server_process import Server, free_port  # noqa: E402

CLIENTS = ROOT / ".deps" / "clients"
PERF_ANALYZER, GRPCURL = CLIENTS / "bin" / "perf_analyzer", CLIENTS / "bin" / "grpcurl"
if not PERF_ANALYZER.exists() or not GRPCURL.exists():
    skip("no perf_analyzer and grpcurl in .deps/clients; scripts/setup.sh --clients installs them")

CONFIG = """backend: "emulated"
max_batch_size: 8
input { name: "INPUT0" data_type: TYPE_FP32 dims: 16 }
output { name: "OUTPUT0" data_type: TYPE_FP32 dims: 16 }
"""
SERVICE = "inference.GRPCInferenceService"
COUNT = 50  # requests of a window


class Clients(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        model = pathlib.Path(folder.name, "floats")
        (model / "1").mkdir(parents=True)
        (model / "config.pbtxt").write_text(CONFIG)
        (model / "profile.pbtxt").write_text("linear { beta_ms: 0.01 }\n")
        for _ in range(5):  # another process may take the port that was free
            cls.grpc_port = free_port()
            command = [PROGRAM, "serve", "--model-repository", folder.name, "--http-port", 0, "--grpc-port", cls.grpc_port]
            cls.server = Server([str(word) for word in command])
            if cls.server.wait_ready(60):
                break
        assert cls.server.address, cls.server.said()

    @classmethod
    def tearDownClass(cls):
        assert cls.server.stop(60) == 0, cls.server.said()

    def answered(self):
        page = get(self.server.address, "/metrics")[2].decode()
        return int(re.search(r'nv_inference_request_success\{model="floats",version="1"\} (\d+)', page).group(1))

    def analyze(self, *flags, address=None):
        """Runs windows of COUNT requests, which need not be alike: this is no measurement."""
        before = self.answered()
        command = [PERF_ANALYZER, "-m", "floats", "-u", address or "127.0.0.1:%d" % self.grpc_port]
        command += ["--measurement-mode", "count_windows", "--measurement-request-count", COUNT, "-s", 100000, *flags]
        done = subprocess.run(
            [str(word) for word in command], capture_output=True, text=True, timeout=120,
            env={**os.environ, "LD_LIBRARY_PATH": str(CLIENTS / "lib")},
        )  # fmt: skip
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertRegex(done.stdout, r"Throughput: [1-9]\d*(\.\d+)? infer/sec")
        self.assertGreaterEqual(self.answered() - before, COUNT)
        return done.stdout

    def test_perf_analyzer_over_grpc(self):
        self.analyze("-i", "grpc", "--concurrency-range", "1:1")

    def test_perf_analyzer_with_many_in_flight(self):
        out = self.analyze("-i", "grpc", "-a", "--concurrency-range", "16:16", "-b", 4)
        self.assertIn("Avg request latency", out)  # which the server's statistics give it

    def test_perf_analyzer_on_a_stream(self):
        self.analyze("-i", "grpc", "-a", "--streaming", "--concurrency-range", "8:8")

    def test_perf_analyzer_with_shared_memory_that_is_not_allowed(self):
        command = [PERF_ANALYZER, "-m", "floats", "-i", "grpc", "-u", "127.0.0.1:%d" % self.grpc_port]
        done = subprocess.run(
            [str(word) for word in [*command, "--shared-memory", "system"]], capture_output=True, text=True, timeout=120,
            env={**os.environ, "LD_LIBRARY_PATH": str(CLIENTS / "lib")},
        )  # fmt: skip
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("shared memory", done.stderr + done.stdout)

    def test_perf_analyzer_over_http(self):
        self.analyze("-i", "http", "--concurrency-range", "4:4", address=self.server.address)

    def grpcurl(self, *words, body=None):
        command = [GRPCURL, "-plaintext", *(["-d", json.dumps(body)] if body is not None else [])]
        return subprocess.run([str(word) for word in [*command, *words]], capture_output=True, text=True, timeout=60)

    def call(self, method, body=None):
        done = self.grpcurl("127.0.0.1:%d" % self.grpc_port, method, body=body)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def test_grpcurl_finds_the_services_by_reflection(self):
        address = "127.0.0.1:%d" % self.grpc_port
        listed = self.grpcurl(address, "list")
        self.assertEqual(listed.returncode, 0, listed.stderr)
        self.assertLessEqual({SERVICE, "grpc.health.v1.Health"}, set(listed.stdout.split()))
        described = self.grpcurl(address, "describe", SERVICE + ".ModelInfer")
        self.assertIn("rpc ModelInfer", described.stdout)

    def test_grpcurl_calls(self):
        self.assertEqual(self.call("grpc.health.v1.Health/Check"), {"status": "SERVING"})
        self.assertEqual(self.call(SERVICE + "/ServerLive"), {"live": True})
        metadata = self.call(SERVICE + "/ModelMetadata", {"name": "floats"})
        self.assertEqual((metadata["name"], metadata["inputs"][0]["shape"]), ("floats", ["-1", "16"]))
        values = [float(i) for i in range(16)]
        tensor = {"name": "INPUT0", "datatype": "FP32", "shape": [1, 16], "contents": {"fp32_contents": values}}
        answer = self.call(SERVICE + "/ModelInfer", {"model_name": "floats", "id": "7", "inputs": [tensor]})
        self.assertEqual((answer["id"], answer["outputs"][0]["shape"]), ("7", ["1", "16"]))
        self.assertEqual(list(struct.unpack("<16f", base64.b64decode(answer["rawOutputContents"][0]))), values)

    def test_grpcurl_shows_errors(self):
        done = self.grpcurl("127.0.0.1:%d" % self.grpc_port, SERVICE + "/ModelMetadata", body={"name": "none"})
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("Code: NotFound", done.stderr)
        self.assertIn("'none'", done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=1)
