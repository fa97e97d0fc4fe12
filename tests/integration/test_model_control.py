#!/usr/bin/env python3
"""Models that come and go while the program serves: the modes, loading, versions, warm-up, statistics
and settings, by the unmodified tritonclient and by hand."""
import json
import os
import pathlib
import sys
import threading
import time
import unittest

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "python"))

from needs import need  # noqa: E402

need("numpy", "onnx", "tritonclient")

import tritonclient.http as triton  # noqa: E402
from control_case import ControlCase, Repository, adder, slow  # noqa: E402
from tritonclient.utils import InferenceServerException  # noqa: E402

class Explicit(ControlCase):
    flags = ["--model-control-mode", "explicit"]

    def fill(self):
        self.repository.put("one", {1: 1.0})
        self.repository.put("two", {1: 1.0, 2: 2.0, 3: 3.0})

    def test_load_and_unload(self):
        self.assertEqual(self.index(), {"one": {None: (None, None)}, "two": {None: (None, None)}})
        self.assertEqual(self.index(True), {})
        self.assertTrue(self.client.is_server_ready())
        self.assertFalse(self.client.is_model_ready("one"))
        self.refused(404, "'one' is not found", self.infer, "one")
        self.client.load_model("one")
        self.assertTrue(self.client.is_model_ready("one"))
        self.assertEqual(self.infer("one"), (1.0, "1"))
        self.client.load_model("one")  # again changes nothing
        self.assertEqual(self.index()["one"], {"1": ("READY", "")})
        self.client.unload_model("one", unload_dependents=True)
        self.wait_until(
            lambda: self.index()["one"] == {"1": ("UNAVAILABLE", "unloaded")}, "never unloaded"
        )
        self.assertFalse(self.client.is_model_ready("one"))
        self.refused(503, "unloaded", self.infer, "one")
        self.client.unload_model("one")
        self.client.load_model("one")
        self.assertEqual(self.infer("one"), (1.0, "1"))

    def test_unknown_names(self):
        self.refused(500, "failed to load 'none', failed to poll", self.client.load_model, "none")
        self.client.unload_model("none")
        for name in ("%2E%2E", "a%2Fb", ".hidden"):
            status, answer = self.ask("POST", "/v2/repository/models/%s/load" % name)
            self.assertEqual(status, 400, answer)
        self.assertEqual(self.ask("GET", "/v2/repository/models/one/load")[0], 405)
        self.assertEqual(self.ask("POST", "/v2/repository/models/one/reload")[0], 404)
        self.assertEqual(self.ask("POST", "/v2/repository/r/models/one/load")[0], 501)

    def test_bad_commands(self):
        for body in ("{", "[]", '{"parameters": 1}', '{"parameters": {"config": 1}}'):
            with self.subTest(body=body):
                status, answer = self.ask("POST", "/v2/repository/models/one/load", body)
                self.assertEqual(status, 400, answer)
        for parameters in (
            {"colour": "red"},
            {"config": "{"},
            {"config": '{"colour": 1}'},
            {"config": '{"max_batch_size": "many"}'},
            {"config": "{}", "file:1/model.onnx": "not base 64!"},
            {"config": "{}", "file:../1/model.onnx": "AAAA"},
            {"config": "{}", "file:1/../../model.onnx": "AAAA"},
            {"file:1/model.onnx": "AAAA"},
            {"unload_dependents": "yes"},
        ):
            with self.subTest(**parameters):
                status, answer = self.ask(
                    "POST",
                    "/v2/repository/models/one/load",
                    json.dumps({"parameters": parameters}),
                )
                self.assertEqual(status, 400, answer)
                self.assertGreater(len(answer["error"]), 8)
        self.client.load_model("one")
        self.assertEqual(self.infer("one"), (1.0, "1"))

    def test_config_override(self):
        self.client.load_model("one")
        config = self.client.get_model_config("one")
        self.assertEqual(config["max_batch_size"], 64)
        config["max_batch_size"] = 8
        config["dynamic_batching"] = {"max_queue_delay_microseconds": 250}
        self.client.load_model("one", config=json.dumps(config))
        changed = self.client.get_model_config("one")
        self.assertEqual(changed["max_batch_size"], 8)
        self.assertEqual(changed["dynamic_batching"]["max_queue_delay_microseconds"], 250)
        self.assertEqual(self.infer("one"), (1.0, "1"))
        self.client.load_model("one", config='{"maxBatchSize": 4}')
        self.assertEqual(self.client.get_model_config("one")["max_batch_size"], 4)
        self.client.load_model("one")  # the repository's again
        self.assertEqual(self.client.get_model_config("one")["max_batch_size"], 64)

    def test_file_override(self):
        self.client.load_model("one", config="{}", files={"file:7/model.onnx": adder(7.0)})
        self.assertEqual(self.infer("one"), (7.0, "7"))
        self.client.load_model("new", config="{}", files={"file:1/model.onnx": adder(9.0)})
        self.assertEqual(self.infer("new"), (9.0, "1"))
        self.client.load_model("one")
        self.assertEqual(self.infer("one"), (1.0, "1"))
        self.wait_until(
            lambda: self.index()["one"]["7"] == ("UNAVAILABLE", "unloaded"), "7 never went"
        )

    def test_a_failed_load_leaves_the_old_one(self):
        self.client.load_model("two")
        self.assertEqual(self.infer("two"), (3.0, "3"))
        self.repository.put("two", {3: 30.0, 4: b"this is no model"})
        self.refused(400, "load failed for model 'two'", self.client.load_model, "two")
        self.assertEqual(self.infer("two"), (3.0, "3"))
        index = self.index()["two"]
        self.assertEqual(index["3"], ("READY", ""))
        self.assertEqual(index["4"][0], "UNAVAILABLE")
        self.assertIn("not a readable ONNX file", index["4"][1])
        self.repository.put("two", {3: 30.0, 4: 40.0})
        self.client.load_model("two")
        self.assertEqual(self.infer("two"), (40.0, "4"))

    def test_the_index_says_why_a_reload_failed(self):
        self.client.load_model("one")
        before = "serves what was loaded before; the last load failed: "
        for files, config, why in (
            ({1: b"this is no model"}, "", "not a readable ONNX file"),
            ({1: 2.0}, "max_batch_sizes: 4", "max_batch_size"),
        ):
            self.repository.put("one", files, config)
            self.refused(400, "load failed for model 'one'", self.client.load_model, "one")
            state, reason = self.index()["one"]["1"]
            self.assertEqual(state, "READY")
            self.assertTrue(reason.startswith(before), reason)
            self.assertIn(why, reason)
            self.assertEqual(self.infer("one"), (1.0, "1"))
            continues = "what was loaded before continues to serve"
            self.wait_until(lambda: continues in self.server.said(), "no line says so")
        self.repository.put("one", {1: 3.0})
        self.client.load_model("one")
        self.assertEqual(self.index()["one"], {"1": ("READY", "")})
        self.assertEqual(self.infer("one"), (3.0, "1"))

    def test_versions(self):
        self.client.load_model("two")  # the latest
        self.assertEqual(self.infer("two"), (3.0, "3"))
        self.refused(404, "version 1", self.infer, "two", "1")
        self.client.load_model("two", config='{"version_policy": {"latest": {"num_versions": 2}}}')
        self.assertEqual(self.infer("two", "2"), (2.0, "2"))
        self.client.load_model("two", config='{"version_policy": {"all": {}}}')
        for version in (1, 2, 3):
            self.assertEqual(self.infer("two", str(version)), (float(version), str(version)))
            self.assertTrue(self.client.is_model_ready("two", str(version)))
            self.assertEqual(
                self.client.get_model_metadata("two", str(version))["versions"], ["3", "2", "1"]
            )
        self.client.load_model(
            "two", config='{"version_policy": {"specific": {"versions": ["1", 2]}}}'
        )
        self.assertEqual(self.infer("two"), (2.0, "2"))
        self.assertFalse(self.client.is_model_ready("two", "3"))
        self.refused(
            400,
            "9",
            self.client.load_model,
            "two",
            config='{"version_policy": {"specific": {"versions": [9]}}}',
        )
        self.assertEqual(self.infer("two"), (2.0, "2"))

    def test_reload_under_load(self):
        """Every request is answered, by the old or the new model, and never by an older one after
        a newer one was seen on the same connection."""
        self.client.load_model("one")
        stop = threading.Event()
        faults, answers = [], [0] * 4

        def ask(index):
            client = triton.InferenceServerClient(self.server.address, network_timeout=60)
            last = 0.0
            try:
                while not stop.is_set():
                    value, _ = self.infer("one", client=client)
                    if value < last:
                        faults.append("%s came after %s" % (value, last))
                    last = value
                    answers[index] += 1
            except Exception as error:
                faults.append(repr(error))
            finally:
                client.close()

        threads = [threading.Thread(target=ask, args=(i,), daemon=True) for i in range(4)]
        for thread in threads:
            thread.start()
        for step in range(2, 12):
            self.repository.put("one", {1: float(step)})
            self.client.load_model("one")
            self.assertEqual(self.infer("one")[0], float(step))
        stop.set()
        for thread in threads:
            thread.join(60)
            self.assertFalse(thread.is_alive())
        self.assertEqual(faults, [])
        self.assertTrue(all(answers), answers)
        self.check_conservation("one", sum(answers) + 10)

    def test_unload_under_load(self):
        """Each request is answered by the model or refused because it is gone, and all are counted."""
        answered = [0]
        lock = threading.Lock()
        faults = []
        stop = threading.Event()

        def ask():
            client = triton.InferenceServerClient(self.server.address, network_timeout=60)
            while not stop.is_set():
                try:
                    self.infer("one", client=client)
                    with lock:
                        answered[0] += 1
                except InferenceServerException as error:
                    if error.status() not in ("404", "503"):
                        faults.append(error.message())
                except Exception as error:
                    faults.append(repr(error))
            client.close()

        threads = [threading.Thread(target=ask, daemon=True) for _ in range(4)]
        for thread in threads:
            thread.start()
        for _ in range(8):
            self.client.load_model("one")
            self.assertTrue(self.client.is_model_ready("one"))
            before = answered[0]
            self.wait_until(lambda: answered[0] > before, "no request was answered")
            self.client.unload_model("one")
        stop.set()
        for thread in threads:
            thread.join(60)
            self.assertFalse(thread.is_alive())
        self.assertEqual(faults, [])
        self.check_conservation("one", answered[0])

    def executors(self):
        count = 0
        for task in pathlib.Path("/proc/%d/task" % self.server.process.pid).iterdir():
            try:
                count += (task / "comm").read_text().startswith("tutti-exec")
            except (FileNotFoundError, ProcessLookupError):
                pass  # it ended since it was listed
        return count

    def test_instances(self):
        """A model that says how many it wants has executors of its own, and gives them back."""
        self.client.load_model("one")
        # The processors', and the one on which models are tried; a thread names itself, a little
        # after it was made.
        alone = os.sysconf("SC_NPROCESSORS_ONLN") + 1
        self.wait_until(lambda: self.executors() == alone, "other executors than expected")
        self.client.load_model("two", config='{"instance_group": [{"count": 3, "kind": "KIND_CPU"}]}')
        self.wait_until(lambda: self.executors() == alone + 3, "no three instances")
        self.assertEqual(self.infer("two"), (3.0, "3"))
        self.client.unload_model("two")
        self.wait_until(lambda: self.executors() == alone, "the executors stayed")
        self.assertEqual(self.infer("one"), (1.0, "1"))

    def test_no_response_cache(self):
        self.client.load_model("one", config='{"response_cache": {"enable": true}}')
        self.wait_until(
            lambda: any("response_cache has no effect" in x for x in self.server.lines), "not said"
        )

    def flood(self, model, count, **options):
        """So many requests at once; their ends as (status, sentence), in the order of the ends."""
        ends, lock = [], threading.Lock()

        def ask():
            client = triton.InferenceServerClient(self.server.address, network_timeout=60)
            try:
                self.infer(model, client=client, **options)
                end = ("200", "")
            except InferenceServerException as error:
                end = (error.status(), error.message())
            with lock:
                ends.append(end)
            client.close()

        threads = [threading.Thread(target=ask, daemon=True) for _ in range(count)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
            self.assertFalse(thread.is_alive())
        return ends

    def slow_model(self, queue_policy):
        self.repository.put("slow", {1: slow(600)})
        config = {
            "max_batch_size": 1,
            "instance_group": [{"count": 1, "kind": "KIND_CPU"}],
            "dynamic_batching": queue_policy,
        }
        self.client.load_model("slow", config=json.dumps(config))

    def test_full_queue(self):
        self.slow_model({"default_queue_policy": {"max_queue_size": 1}})
        ends = self.flood("slow", 12)
        statuses = {status for status, _ in ends}
        self.assertEqual(statuses, {"200", "503"}, ends)
        for status, sentence in ends:
            if status == "503":
                self.assertIn("Exceeds maximum queue size", sentence)
        dropped = self.metrics()[
            'tutti_requests_dropped_total{model="slow",version="1",reason="queue_full"}'
        ]
        self.assertEqual(dropped, sum(status == "503" for status, _ in ends))

    def test_timeouts(self):
        policy = {"default_timeout_microseconds": 1000, "timeout_action": "REJECT"}
        self.slow_model({"default_queue_policy": policy})
        for timeout in (None, 60_000_000):  # it may not bring its own
            ends = self.flood("slow", 6, timeout=timeout)
            self.assertIn("503", {status for status, _ in ends})
            for status, sentence in ends:
                if status == "503":
                    self.assertIn("Request timeout expired", sentence)
        self.slow_model({"default_queue_policy": dict(policy, timeout_action="DELAY")})
        self.assertEqual({status for status, _ in self.flood("slow", 6)}, {"200"})
        self.slow_model({"default_queue_policy": {"allow_timeout_override": True}})
        ends = self.flood("slow", 6, timeout=1000)
        self.assertIn("503", {status for status, _ in ends})
        self.assertEqual({status for status, _ in self.flood("slow", 6)}, {"200"})

    def test_priorities(self):
        """Urgent requests overtake earlier ones."""
        self.slow_model({"priority_levels": 2, "default_priority_level": 2})
        order, lock = [], threading.Lock()

        def ask(priority):
            client = triton.InferenceServerClient(self.server.address, network_timeout=60)
            self.infer("slow", client=client, priority=priority)
            with lock:
                order.append(priority)
            client.close()

        def pending():
            name = 'nv_inference_pending_request_count{model="slow",version="1"}'
            return self.metrics()[name]

        threads = [threading.Thread(target=ask, args=(0,), daemon=True) for _ in range(16)]
        for thread in threads:
            thread.start()
        urgent = threading.Thread(target=ask, args=(1,), daemon=True)
        urgent.start()
        for thread in threads + [urgent]:
            thread.join(60)
            self.assertFalse(thread.is_alive())
        self.assertEqual(len(order), 17)
        self.assertEqual(pending(), 0)
        # Some were through before it came; hardly all but one, and never the last.
        self.assertLess(order.index(1), 16, order)

    def test_warm_up(self):
        sample = """model_warmup [ { name: "first" batch_size: 2 count: 3
          inputs { key: "x" value { data_type: TYPE_FP32 dims: [ %d ] %s } } } ]"""
        self.repository.put("warm", {1: 5.0}, sample % (4, "random_data: true"))
        self.client.load_model("warm")
        self.assertEqual(self.infer("warm"), (5.0, "1"))
        stats = self.client.get_inference_statistics("warm")["model_stats"][0]
        self.assertEqual(stats["inference_count"], 1)  # warm-up is not counted
        self.repository.put("cold", {1: 5.0}, sample % (5, "zero_data: true"))
        self.refused(400, "model_warmup 'first': input 'x' has shape", self.client.load_model, "cold")
        self.repository.put("filed", {1: 5.0}, sample % (4, 'input_data_file: "x.bin"'))
        self.refused(404, "x.bin", self.client.load_model, "filed")
        (self.repository.path / "filed" / "warmup").mkdir()
        (self.repository.path / "filed" / "warmup" / "x.bin").write_bytes(bytes(32))
        self.client.load_model("filed")
        self.assertEqual(self.infer("filed"), (5.0, "1"))

    def test_statistics(self):
        self.client.load_model("one")
        self.client.load_model("two")
        begin = time.time() * 1000 - 1
        for _ in range(5):
            self.infer("one")
        for all_of in (
            self.client.get_inference_statistics("one"),
            self.client.get_inference_statistics("one", "1"),
        ):
            (stats,) = all_of["model_stats"]
            self.assertEqual((stats["name"], stats["version"]), ("one", "1"))
            self.assertEqual((stats["inference_count"], stats["execution_count"]), (5, 5))
            self.assertGreaterEqual(stats["last_inference"], begin)
            by = stats["inference_stats"]
            for part in ("success", "queue", "compute_input", "compute_infer", "compute_output"):
                self.assertEqual(by[part]["count"], 5, part)
            self.assertEqual(by["fail"]["count"], 0)
            parts = [by[p]["ns"] for p in ("queue", "compute_input", "compute_infer")]
            self.assertTrue(all(p > 0 for p in parts), parts)
            total = sum(parts) + by["compute_output"]["ns"]
            self.assertEqual(by["success"]["ns"], total)
            (batch,) = stats["batch_stats"]
            self.assertEqual((batch["batch_size"], batch["compute_infer"]["count"]), (1, 5))
            self.assertEqual(batch["compute_infer"]["ns"], by["compute_infer"]["ns"])
        everyone = self.client.get_inference_statistics()["model_stats"]
        self.assertEqual([s["name"] for s in everyone], ["one", "two"])
        self.refused(404, "none", self.client.get_inference_statistics, "none")
        self.client.unload_model("one")
        self.wait_until(
            lambda: self.index()["one"] == {"1": ("UNAVAILABLE", "unloaded")}, "never unloaded"
        )
        self.client.load_model("one")  # counters never go back
        (stats,) = self.client.get_inference_statistics("one")["model_stats"]
        self.assertEqual(stats["inference_count"], 5)

    def test_trace_settings(self):
        begin = self.client.get_trace_settings()
        self.assertEqual(begin["trace_level"], ["OFF"])
        self.assertEqual(begin["trace_rate"], "1000")
        for wrong in ({"trace_level": ["TIMESTAMPS"], "trace_rate": "5"}, {"trace_count": "7"}):
            self.refused(
                400, "/v2/debug/trace", self.client.update_trace_settings, settings=wrong
            )
        self.refused(400, "colour", self.client.update_trace_settings, settings={"colour": "red"})
        self.client.load_model("one")
        self.refused(
            400, "trace_rate", self.client.update_trace_settings, "one", {"trace_rate": "7"}
        )
        # A null means the default, which is what each setting has.
        self.assertEqual(self.client.update_trace_settings("one", {"trace_rate": None}), begin)
        self.assertEqual(self.client.get_trace_settings("one"), begin)
        self.assertEqual(self.client.get_trace_settings(), begin)
        self.refused(404, "none", self.client.get_trace_settings, "none")

    def test_log_settings(self):
        begin = self.client.get_log_settings()
        self.assertEqual(begin["log_info"], True)
        changed = self.client.update_log_settings({"log_info": False, "log_verbose_level": 2})
        self.assertEqual((changed["log_info"], changed["log_verbose_level"]), (False, 2))
        self.assertEqual(self.client.get_log_settings(), changed)
        for wrong in ({"log_info": 1}, {"log_file": "/tmp/x"}, {"log_info": True, "x": 1}):
            self.refused(400, "", self.client.update_log_settings, wrong)
        self.assertEqual(self.client.get_log_settings(), changed)


class ExplicitAll(ControlCase):
    flags = ["--model-control-mode", "EXPLICIT", "--load-model", "*"]

    def fill(self):
        self.repository.put("one", {1: 1.0})
        self.repository.put("two", {1: 2.0})

    def test_both_are_there(self):
        self.assertEqual(sorted(self.index(True)), ["one", "two"])


class TwoRepositories(ControlCase):
    def fill(self):
        self.other = Repository()
        self.addCleanup(self.other.close)
        self.flags = ["--model-repository", str(self.other.path)]
        self.flags += ["--model-control-mode", "explicit", "--load-model", "*"]
        self.repository.put("one", {1: 1.0})
        self.other.put("two", {1: 2.0})
        for repository in (self.repository, self.other):
            repository.put("both", {1: 3.0})

    def test_they_are_one(self):
        self.assertEqual(self.infer("one"), (1.0, "1"))
        self.assertEqual(self.infer("two"), (2.0, "1"))
        self.assertEqual(sorted(self.index()), ["both", "one", "two"])
        state, reason = self.index()["both"]["1"]
        self.assertEqual(state, "UNAVAILABLE")
        self.assertIn("it is in two model repositories, ", reason)
        self.assertIn("serving 2 of 3 models", self.server.said())
        self.refused(400, "in two model repositories", self.client.load_model, "both")
        self.repository.remove("both")
        self.client.load_model("both")
        self.assertEqual(self.infer("both"), (3.0, "1"))
        self.other.put("two", {1: 4.0})
        self.client.load_model("two")
        self.assertEqual(self.infer("two"), (4.0, "1"))
        self.other.put("one", {1: 9.0})  # what serves goes on serving
        for _ in range(2):
            self.refused(400, "in two model repositories", self.client.load_model, "one")
        self.assertEqual(self.infer("one"), (1.0, "1"))
        state, reason = self.index()["one"]["1"]
        self.assertEqual(state, "READY")
        self.assertIn("serves what was loaded before; the last load failed: failed to load 'one'", reason)


class TwoRepositoriesPolled(ControlCase):
    def fill(self):
        TwoRepositories.fill(self)
        self.flags = self.flags[:2] + ["--model-control-mode", "poll", "--repository-poll-secs", "1"]

    def test_one_of_two_goes(self):
        self.assertEqual(self.index()["both"]["1"][0], "UNAVAILABLE")
        self.other.remove("both")
        self.wait_until(lambda: self.client.is_model_ready("both"), "both was not loaded")
        self.assertEqual(self.infer("both"), (3.0, "1"))
        self.assertEqual(self.index()["both"]["1"], ("READY", ""))


class Poll(ControlCase):
    flags = ["--model-control-mode", "poll", "--repository-poll-secs", "1"]

    def fill(self):
        self.repository.put("one", {1: 1.0})
        self.repository.put("two", {1: 2.0})

    def test_follows_the_disk(self):
        self.assertEqual(self.infer("one"), (1.0, "1"))
        self.refused(503, "not allowed if polling", self.client.load_model, "one")
        self.refused(503, "not allowed if polling", self.client.unload_model, "one")
        self.repository.put("one", {1: 10.0})
        self.repository.put("three", {1: 3.0})
        self.repository.remove("two")
        self.wait_until(lambda: self.infer("one") == (10.0, "1"), "the change was not seen")
        self.wait_until(lambda: self.client.is_model_ready("three"), "three was not seen")
        self.wait_until(lambda: not self.client.is_model_ready("two"), "two never went")
        self.assertEqual(self.infer("three"), (3.0, "1"))
        self.repository.put("one", {1: b"broken"})
        time.sleep(1.5)
        self.assertEqual(self.infer("one"), (10.0, "1"))


class NoControl(ControlCase):
    def fill(self):
        self.repository.put("one", {1: 1.0})

    def test_refuses(self):
        self.refused(503, "explicit model load / unload is not", self.client.load_model, "one")
        self.refused(503, "explicit model load / unload is not", self.client.unload_model, "one")
        self.assertEqual(self.infer("one"), (1.0, "1"))


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0]] + sys.argv[1:])
