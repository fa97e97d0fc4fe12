#!/usr/bin/env python3
"""A repository as users of Triton have it, moved over unchanged and asked by the unmodified tritonclient. Every row and
every list item of docs/MIGRATING.md is a promise; each has a test here, and a new row without one fails."""
import asyncio
import concurrent.futures
import json
import os
import queue
import re
import subprocess
import sys
import unittest
import pathlib

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "python"))

from needs import need  # noqa: E402

need("numpy", "onnx", "tritonclient", "aiohttp")

import numpy as np  # noqa: E402
import tritonclient.http as triton  # noqa: E402
import tritonclient.http.aio as triton_aio  # noqa: E402
from control_case import PROGRAM, ControlCase, Repository, slow  # noqa: E402
from server_process import Server, free_port  # noqa: E402
from tritonclient.utils import InferenceServerException  # noqa: E402

PAGE = ROOT / "docs" / "MIGRATING.md"
IO = """input [ { name: "x" data_type: TYPE_FP32 dims: [ 4 ] } ]
output [ { name: "y" data_type: TYPE_FP32 dims: [ 4 ] label_filename: "labels.txt" } ]
"""

SERVED = {
    "classify": """name: "classify"
platform: "onnxruntime_onnx"
max_batch_size: 8
%s
dynamic_batching { preferred_batch_size: [ 4, 8 ] max_queue_delay_microseconds: 100 }
instance_group [ { count: 2 kind: KIND_GPU gpus: [ 0 ] } ]
version_policy { specific { versions: [ 1, 3 ] } }
parameters { key: "owner" value { string_value: "shop" } }
model_warmup [ { name: "zeros" batch_size: 2
  inputs { key: "x" value { data_type: TYPE_FP32 dims: [ 4 ] zero_data: true } } } ]
optimization { execution_accelerators { gpu_execution_accelerator [ { name: "tensorrt" } ] } }
response_cache { enable: true }
""" % IO,
    "renamed": 'backend: "onnxruntime"\ndefault_model_filename: "net.onnx"\n',
    "patient": 'max_batch_size: 4\ndynamic_batching { preferred_batch_size: [ 4 ] max_queue_delay_microseconds: 600000000 }\n',
    "urgent": "max_batch_size: 4\n" + IO + """dynamic_batching {
  priority_levels: 3 default_priority_level: 2 preserve_ordering: true
  default_queue_policy { timeout_action: REJECT default_timeout_microseconds: 60000000 allow_timeout_override: true }
  priority_queue_policy { key: 1 value { timeout_action: DELAY default_timeout_microseconds: 60000000 } }
}
""",
    "bare": "",
    "limited": """instance_group [ { count: 1 kind: KIND_CPU rate_limiter { resources [ { name: "R" count: 1 } ] }
  secondary_devices [ { kind: KIND_NVDLA device_id: 0 } ] } ]
model_repository_agents { agents [ { name: "checksum" } ] }
runtime: "libtriton_x.so"
model_metrics { metric_control [ ] }
metric_tags { key: "team" value: "search" }
""",
    "preprocess": 'backend: "python"\nmax_batch_size: 4\n' + IO,
    "pipeline": """platform: "ensemble"
max_batch_size: 8
%sensemble_scheduling { step [ { model_name: "classify" model_version: -1
  input_map { key: "x" value: "x" } output_map { key: "y" value: "t" } },
  { model_name: "bare" model_version: 1
  input_map { key: "x" value: "t" } output_map { key: "y" value: "y" } } ] }
""" % IO,
}  # fmt: skip
PREPROCESS = """
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def execute(self, requests):
        tensors = [pb_utils.get_input_tensor_by_name(request, "x").as_numpy() for request in requests]
        return [pb_utils.InferenceResponse(output_tensors=[pb_utils.Tensor("y", x + x.dtype.type(5))]) for x in tensors]
"""
REFUSED = {  # the configuration, and a part of the sentence
    "saved": ('backend: "tensorflow"\n' + IO, "backend 'tensorflow' cannot be served; there are: onnxruntime"),
    "torch": ('platform: "pytorch_libtorch"\n' + IO, "platform 'pytorch_libtorch' cannot be served"),
    "chat": (IO + "sequence_batching { }\n", "sequence batching cannot be served"),
    "stream": (IO + "model_transaction_policy { decoupled: true }\n", "decoupled models (any number of responses"),
    "ragged": (IO.replace("[ 4 ] }", "[ 4 ] allow_ragged_batch: true }", 1), "ragged batches are not supported"),
    "counted": (IO + 'batch_input [ { kind: BATCH_ELEMENT_COUNT target_name: "n" }]\n', "batch_input is not supported"),
    "scattered": (
        IO + 'batch_output [ { target_name: "y" kind: BATCH_SCATTER_WITH_INPUT_SHAPE }]\n',
        "batch_output is not supported",
    ),
    "custom": (IO + 'model_operations { op_library_filename: "libops.so" }\n', "libraries of custom operators"),
    "capable": (IO + 'cc_model_filenames { key: "8.0" value: "a.onnx" }\n', "per compute capability"),
    "reshaped": (
        "max_batch_size: 4\n" + IO.replace("dims: [ 4 ]", "dims: [ 2, 2 ] reshape { shape: [ 4 ] }", 1),
        "has a reshape in config.pbtxt, which is not supported",
    ),
    "misspelt": ("\n  max_batch_sizes: 4\n", ":2:3: ModelConfig has no field 'max_batch_sizes'; did you mean 'max_batch_size'?"),
    "misnamed": ('name: "another"\n', "another"),
    "cold": (
        'model_warmup [ { batch_size: 1 inputs { key: "z" value { data_type: TYPE_FP32 dims: [ 4 ] zero_data: true } } } ]\n',
        "input 'x' is missing",
    ),
}  # fmt: skip

TESTED = {}


def promise(*rows):
    """This test is of rows (their first cell) or list items (their first words) of the page."""

    def add(test):
        for row in rows:
            assert row not in TESTED, row
            TESTED[row] = test.__name__
        return test

    return add


def promises():
    """First cells of all tables, and first words of the items of "What works unchanged"."""
    text = PAGE.read_text()
    rows = [row for row in re.findall(r"^\| ([^|]+?) \|", text, re.M) if row != "field"]
    items = re.findall(r"^- (.*)$", text.split("## What works unchanged", 1)[1].split("\n## ", 1)[0], re.M)
    return rows + [re.split(r"[:,] ", item)[0] for item in items]


class Moved(ControlCase):
    """One server for all tests of it."""

    flags = ["--python", sys.executable, "--grpc-port", str(free_port()), "--executors", "2", "--model-control-mode", "explicit", "--load-model", "*"]

    @classmethod
    def setUpClass(cls):
        cls.repository = Repository()
        cls.addClassCleanup(cls.repository.close)
        for name, config in SERVED.items():
            cls.repository.put(name, {1: 1.0, 2: 2.0, 3: 3.0} if name == "classify" else {1: 1.0}, config)
        file = cls.repository.path / "renamed" / "1" / "model.onnx"
        file.rename(file.with_name("net.onnx"))
        cls.repository.put("heavy", {1: slow(600)})
        (cls.repository.path / "preprocess" / "1" / "model.py").write_text(PREPROCESS)
        for name, (config, _) in REFUSED.items():
            cls.repository.put(name, {1: 1.0}, config)
        cls.checked = cls.check()
        command = [PROGRAM, "serve", "--model-repository", str(cls.repository.path), "--http-port", "0"]
        cls.server = Server(command + cls.flags)
        cls.addClassCleanup(lambda: cls.server.stop(60))
        assert cls.server.wait_ready(60), cls.server.said()

    @classmethod
    def check(cls):
        done = subprocess.run(
            [PROGRAM, "models", "check", cls.repository.path], capture_output=True, text=True, timeout=60
        )
        assert done.returncode == 1, done.stderr
        return dict(re.findall(r"^(\w+): ((?:.*\n(?:  .*\n)*))", done.stdout, re.M))

    def setUp(self):
        self.client = self.new_client()

    def rows_of(self, count):
        x = triton.InferInput("x", [count, 4], "FP32")
        x.set_data_from_numpy(np.zeros((count, 4), np.float32))
        return [x]

    def test_every_promise_has_a_test(self):
        self.assertEqual(sorted(TESTED), sorted(promises()))

    # ---- what works unchanged ----

    @promise("`tritonclient.http`")
    def test_the_client(self):
        for packed in (None, "gzip", "deflate"):
            value = self.infer(
                "classify", "1", request_compression_algorithm=packed, response_compression_algorithm=packed
            )
            self.assertEqual(value, (1.0, "1"))
        for binary in (False, True):
            x = triton.InferInput("x", [2, 4], "FP32")
            x.set_data_from_numpy(np.ones((2, 4), np.float32), binary_data=binary)
            y = triton.InferRequestedOutput("y", binary_data=binary)
            result = self.client.infer("classify", [x], outputs=[y], request_id="r 7")
            self.assertEqual(result.get_response()["id"], "r 7")
            self.assertEqual(result.as_numpy("y").tolist(), [[4.0] * 4] * 2)
        with triton.InferenceServerClient(self.server.address, concurrency=4) as client:
            running = [client.async_infer("bare", self.rows_of(1), request_id=str(i)) for i in range(40)]
            self.assertEqual([r.get_result().get_response()["id"] for r in running], [str(i) for i in range(40)])
        self.assertEqual(self.infer("urgent", priority=1, timeout=60_000_000), (1.0, "1"))

    @promise("`tritonclient.grpc` with streams")  # its other clients: test_grpc_clients.py; memory: test_client_memory.py
    def test_the_client_of_grpc(self):
        need("grpc")
        import tritonclient.grpc

        x = tritonclient.grpc.InferInput("x", [2, 4], "FP32")
        x.set_data_from_numpy(np.ones((2, 4), np.float32))
        port = self.flags[self.flags.index("--grpc-port") + 1]
        with tritonclient.grpc.InferenceServerClient("127.0.0.1:" + port) as client:
            for packed in (None, "gzip", "deflate"):
                result = client.infer("classify", [x], request_id="r 7", compression_algorithm=packed)
                self.assertEqual(result.get_response().id, "r 7")
                self.assertEqual(result.as_numpy("y").tolist(), [[4.0] * 4] * 2)
            answers = queue.Queue()
            client.start_stream(lambda result, error: answers.put((result, error)))
            for number in range(3):
                client.async_stream_infer("bare", [x], request_id=str(number))
            got = [answers.get(timeout=60) for _ in range(3)]
            client.stop_stream()
            self.assertEqual([error for _, error in got], [None] * 3)
            self.assertEqual({result.get_response().id for result, _ in got}, {"0", "1", "2"})

    @promise("`tritonclient.http.aio`")
    def test_the_client_of_asyncio(self):
        async def ask():
            async with triton_aio.InferenceServerClient(self.server.address) as client:
                metadata = await client.get_model_metadata("bare")
                index = await client.get_model_repository_index()
                result = await client.infer("bare", self.rows_of(60), response_compression_algorithm="gzip")
                return metadata, index, result.get_response(), result.as_numpy("y")

        metadata, index, answer, values = asyncio.run(ask())
        self.assertEqual((metadata["name"], answer["model_name"]), ("bare", "bare"))
        self.assertIn("classify", {entry["name"] for entry in index})
        self.assertTrue((values == 1.0).all())

    @promise("Health")
    def test_management(self):
        self.assertTrue(self.client.is_server_live())
        self.assertIn("model_repository", self.client.get_server_metadata()["extensions"])
        metadata = self.client.get_model_metadata("classify")
        self.assertEqual((sorted(metadata["versions"]), metadata["platform"]), (["1", "3"], "onnxruntime_onnx"))
        self.assertEqual(self.client.get_model_config("classify")["max_batch_size"], 8)
        (stats,) = self.client.get_inference_statistics("classify", "1")["model_stats"]
        self.assertEqual((stats["name"], stats["version"]), ("classify", "1"))
        entries = [e for e in self.client.get_model_repository_index() if e["name"] == "classify"]
        self.assertEqual({e["version"] for e in entries if e["state"] == "READY"}, {"1", "3"})
        self.client.unload_model("renamed")
        self.assertFalse(self.client.is_model_ready("renamed"))
        self.client.load_model("renamed")
        self.assertTrue(self.client.is_model_ready("renamed"))
        before = self.client.get_log_settings()
        self.assertEqual(self.client.update_log_settings({"log_verbose_level": 1})["log_verbose_level"], 1)
        self.assertEqual(self.client.update_log_settings({"log_verbose_level": 0}), before)

    @promise("The layout of the repository")
    def test_layout_and_versions(self):
        self.assertEqual(self.infer("classify"), (3.0, "3"))
        self.assertEqual(self.infer("classify", "1"), (1.0, "1"))
        self.refused(404, "classify", self.infer, "classify", "2")  # as version_policy says
        self.refused(503, REFUSED["cold"][1], self.infer, "cold")  # its warm-up cannot run
        for mode in ("none", "explicit", "poll"):
            self.assertIn(mode, self.flag("model-control-mode")["choices"])

    @promise("Metrics `nv_*`")
    def test_metrics_of_triton(self):
        for _ in range(3):
            self.infer("renamed")
        at = self.metrics()
        label = '{model="renamed",version="1"}'
        (stats,) = self.client.get_inference_statistics("renamed")["model_stats"]
        self.assertEqual(at["nv_inference_request_success" + label], stats["inference_stats"]["success"]["count"])
        self.assertEqual(at["nv_inference_count" + label], stats["inference_count"])
        self.assertEqual(at["nv_inference_exec_count" + label], stats["execution_count"])
        self.assertEqual(at["nv_inference_pending_request_count" + label], 0)

    # ---- config.pbtxt ----

    @promise(
        "`name`, `max_batch_size`, `input`, `output`, `version_policy`, `default_model_filename`, `model_warmup`"
    )
    def test_what_is_read(self):
        self.assertEqual(self.infer("renamed"), (1.0, "1"))
        self.assertIn("ok, versions 1 3, batches of up to 8", self.checked["classify"])
        self.client.infer("classify", self.rows_of(8))
        self.refused(400, "8", self.client.infer, "classify", self.rows_of(9))

    @promise("`max_batch_size` missing")
    def test_the_default_batch_size(self):
        self.assertEqual(self.client.get_model_config("bare")["max_batch_size"], 64)
        self.client.infer("bare", self.rows_of(64))
        self.refused(400, "64", self.client.infer, "bare", self.rows_of(65))

    @promise("`dynamic_batching` missing", "default batching")
    def test_waiting_requests_are_batched(self):
        """Those that come while both executors run are the next batch."""
        (before,) = self.client.get_inference_statistics("heavy")["model_stats"]
        with concurrent.futures.ThreadPoolExecutor(24) as pool:
            for found in pool.map(lambda _: self.infer("heavy", client=self.new_client()), range(24)):
                self.assertEqual(found, (0.0, "1"))
        (after,) = self.client.get_inference_statistics("heavy")["model_stats"]
        self.assertEqual(after["inference_count"] - before["inference_count"], 24)
        self.assertLess(after["execution_count"] - before["execution_count"], 24)

    @promise("`dynamic_batching`: preferred sizes, delay")
    def test_preferred_sizes(self):
        """The delay is ten minutes, so only the fourth request starts the batch."""
        with triton.InferenceServerClient(self.server.address, concurrency=4) as client:
            running = [client.async_infer("patient", self.rows_of(1)) for _ in range(4)]
            for each in running:
                each.get_result()
        (stats,) = self.client.get_inference_statistics("patient")["model_stats"]
        self.assertEqual((stats["inference_count"], stats["execution_count"]), (4, 1))
        self.assertEqual(self.client.get_model_config("patient")["dynamic_batching"]["preferred_batch_size"], [4])

    @promise("`dynamic_batching`: priorities, queue policies, `preserve_ordering`")
    def test_priorities(self):
        for priority in (0, 1, 2, 3, 4):  # one that does not exist is the default, as in Triton
            self.assertEqual(self.infer("urgent", priority=priority), (1.0, "1"))
        batching = self.client.get_model_config("urgent")["dynamic_batching"]
        self.assertTrue(batching["preserve_ordering"])
        self.assertEqual(batching["default_queue_policy"]["timeout_action"], "REJECT")
        self.assertEqual(batching["priority_queue_policy"]["1"]["timeout_action"], "DELAY")

    @promise("`instance_group`: `count`", "threads")
    def test_instances(self):
        at = self.metrics()
        executors = {
            re.search('model="(.*?)"', name).group(1): re.search('executors="(.*?)"', name).group(1)
            for name in at
            if name.startswith("tutti_model_info")
        }
        self.assertEqual({m: executors[m] for m in ("classify", "limited", "bare")}, {"classify": "2", "limited": "1", "bare": "2"})
        domains = sum(value for name, value in at.items() if name.startswith("tutti_domain_executors{"))
        tasks = pathlib.Path("/proc/%d/task" % self.server.process.pid).iterdir()
        names = [(task / "comm").read_text().strip() for task in tasks]
        computing = [name for name in names if name.startswith("tutti-exec")]
        self.assertEqual(len(computing), domains + 2)  # and those on which models of ONNX and of Python are tried
        self.assertEqual([name for name in names if not name.startswith("tutti")], [])  # no pools of ONNX Runtime's

    @promise("`instance_group`: `kind`, `gpus`")
    def test_no_gpu(self):
        self.assertIn("engine 'onnxruntime' uses no GPU: the group runs on the CPU", self.checked["classify"])
        self.assertIn("uses no GPU", "".join(self.server.lines))

    @promise("`parameters`, `label_filename`")
    def test_parameters(self):
        config = self.client.get_model_config("classify")
        self.assertEqual(config["parameters"]["owner"], {"string_value": "shop"})
        self.assertNotIn("label_filename has", self.checked["classify"])

    @promise(
        "`optimization`, `model_repository_agents`, `response_cache`, `runtime`, `model_metrics`, `metric_tags`, "
        "`rate_limiter`, `secondary_devices`"
    )
    def test_what_has_no_effect(self):
        for field in ("optimization", "response_cache"):
            self.assertIn("%s has no effect in Tutti" % field, self.checked["classify"])
        for field in ("model_repository_agents", "runtime", "model_metrics", "metric_tags", "rate_limiter"):
            self.assertIn("%s has no effect in Tutti" % field, self.checked["limited"])
        self.assertIn("secondary_devices have no effect in Tutti", self.checked["limited"])
        self.assertEqual(self.infer("limited"), (1.0, "1"))

    def is_refused(self, *names):
        """By the check, by the index, and in the answer to a request."""
        entries = {e["name"]: e for e in self.client.get_model_repository_index()}
        for name in names:
            sentence = REFUSED[name][1]
            self.assertIn("problem", self.checked[name], name)
            self.assertIn(sentence, self.checked[name])
            self.assertEqual(entries[name]["state"], "UNAVAILABLE", name)
            self.assertIn(sentence, entries[name]["reason"])
            self.refused(503, sentence, self.infer, name)

    @promise('`backend: "python"`')
    def test_python(self):
        self.assertEqual(self.infer("preprocess"), (5.0, "1"))

    @promise("another `backend` than these, `platform` other than `onnxruntime_onnx`")
    def test_other_backends(self):
        self.is_refused("saved", "torch")

    @promise("`sequence_batching`")
    def test_sequences(self):
        self.is_refused("chat")

    @promise("`ensemble_scheduling`", "`timeout` and `priority` of a request to an ensemble")
    def test_ensembles(self):
        self.assertIn("ok, version 1, batches of up to 8", self.checked["pipeline"])
        self.assertEqual(self.infer("pipeline"), (4.0, "1"))
        self.refused(503, "step 1 (model 'classify'): Request timeout", self.infer, "pipeline", timeout=1)

    @promise("`decoupled`")
    def test_decoupled(self):
        """One that emits words is served by test_streams.py."""
        self.is_refused("stream")

    @promise("`batch_input`, `batch_output`, ragged batches, custom operators, `cc_model_filenames`, `reshape`")
    def test_what_is_not_supported(self):
        self.is_refused("counted", "scattered", "ragged", "custom", "capable", "reshaped")

    @promise("an unknown field")
    def test_unknown_fields(self):
        self.is_refused("misspelt")

    # ---- what means something else ----

    @promise("`timeout`, `default_timeout_microseconds`", "a request that is too late", "`timeout` without a queue policy")
    def test_timeouts(self):
        """`heavy` takes milliseconds: of many requests at once that have one of them, those that wait are refused."""

        def ask(_):
            try:
                return self.infer("heavy", client=self.new_client(), timeout=1000)
            except InferenceServerException as error:
                return error.status(), error.message()

        with concurrent.futures.ThreadPoolExecutor(24) as pool:
            ends = list(pool.map(ask, range(24)))
        refused = [message for status, message in ends if status == "503"]
        self.assertGreater(len(refused), 0)
        self.assertEqual(len(refused) + ends.count((0.0, "1")), 24, ends)
        for message in refused:
            self.assertIn("dropped (deadline)", message)
        self.assertEqual(self.infer("heavy", timeout=60_000_000), (0.0, "1"))

    @promise("`grpc-timeout`")
    def test_grpc_timeouts(self):
        """As `timeout`: the server itself refuses what waits too long, before the client gives up."""
        need("grpc")
        import tritonclient.grpc

        port = self.flags[self.flags.index("--grpc-port") + 1]

        def ask(_):
            x = tritonclient.grpc.InferInput("x", [1, 4], "FP32")
            x.set_data_from_numpy(np.zeros((1, 4), np.float32))
            with tritonclient.grpc.InferenceServerClient("127.0.0.1:" + port) as client:
                try:
                    client.infer("heavy", [x], client_timeout=0.001)
                except InferenceServerException as error:
                    return error.status()

        with concurrent.futures.ThreadPoolExecutor(24) as pool:
            ends = list(pool.map(ask, range(24)))
        self.assertEqual(set(ends) - {None}, {"StatusCode.DEADLINE_EXCEEDED"}, ends)

    @promise("a model that fails to load")
    def test_it_is_not_ready(self):
        self.assertEqual(self.ask("GET", "/v2/health/ready")[0], 503)
        self.assertTrue(self.client.is_model_ready("classify"))
        self.assertEqual(self.flag("exit-on-error")["default"], "false")

    def flag(self, name):
        described = json.loads(
            subprocess.run([PROGRAM, "--describe"], capture_output=True, text=True, check=True, timeout=60).stdout
        )
        [serve] = [verb for verb in described if verb["name"] == "serve"]
        [row] = [row for row in serve["rows"] if row.get("name") == name]
        return row

    @promise("port")
    def test_ports(self):
        self.assertEqual(self.flag("http-host")["default"], "127.0.0.1")
        self.assertEqual(self.flag("http-port")["default"], "8000")
        self.assertEqual(self.flag("metrics-port")["default"], "0")
        self.assertIn("nv_inference_count", self.ask_text("/metrics"))

    def ask_text(self, path):
        done = subprocess.run(
            ["curl", "-s", "http://%s%s" % (self.server.address, path)], capture_output=True, text=True, timeout=60
        )
        return done.stdout

    @promise("trace settings over HTTP")
    def test_trace_settings(self):
        self.assertEqual(self.client.get_trace_settings()["trace_level"], ["OFF"])
        self.refused(
            400, "/v2/debug/trace", self.client.update_trace_settings, settings={"trace_level": ["TIMESTAMPS"]}
        )

    @promise("`log_file` over HTTP")
    def test_log_file(self):
        self.refused(400, "log_file", self.client.update_log_settings, {"log_file": "/tmp/x"})

    @promise("body of a management request")
    def test_large_management_requests(self):
        body = json.dumps({"ready": False, "padding": "x" * (1 << 20)})
        self.assertEqual(self.ask("POST", "/v2/repository/index", body)[0], 413)
        long = json.dumps({"parameters": {"config": json.dumps({"parameters": {"p": {"string_value": "x" * (1 << 20)}}})}})
        self.assertEqual(self.ask("POST", "/v2/repository/models/bare/load", long), (200, None))


class Steps(ControlCase):
    """The first steps of the migration: what is refused is removed, then the server is ready."""

    def fill(self):
        self.repository.put("bare", {1: 1.0})
        self.repository.put("chat", {1: 1.0}, REFUSED["chat"][0])

    def check(self):
        return subprocess.run([PROGRAM, "models", "check", self.repository.path], capture_output=True, timeout=60)

    def test_steps(self):
        self.assertEqual(self.check().returncode, 1)
        self.assertEqual(self.ask("GET", "/v2/health/ready")[0], 503)
        self.repository.remove("chat")
        self.assertEqual(self.check().returncode, 0)
        again = Server([PROGRAM, "serve", "--model-repository", str(self.repository.path), "--http-port", "0"])
        self.addCleanup(again.stop, 60)
        self.assertTrue(again.wait_ready(60), again.said())
        loaded = subprocess.run(
            [PROGRAM, "load", "http://" + again.address, "--model", "bare", "--rate", "50", "--requests", "50"],
            capture_output=True, text=True, timeout=120,
        )  # fmt: skip
        self.assertEqual(loaded.returncode, 0, loaded.stderr)
        client = triton.InferenceServerClient(again.address)
        self.addCleanup(client.close)
        self.assertTrue(client.is_server_ready())
        self.assertEqual(self.infer("bare", client=client), (1.0, "1"))


if __name__ == "__main__":
    unittest.main()
