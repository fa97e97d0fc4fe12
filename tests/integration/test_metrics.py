#!/usr/bin/env python3
"""GET /metrics: well formed as Prometheus reads it, and the numbers are what clients saw."""
import collections
import importlib.util
import math
import pathlib
import re
import signal
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "python"))

from needs import need  # noqa: E402

need("onnx")

from plain_client import Server, ask, get, load, make_two_models  # noqa: E402
from server_process import free_port  # noqa: E402

NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
SAMPLE = re.compile(r"(%s)(?:\{(.*)\})? (\S+)$" % NAME)
LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\["\\n])*)"(?:,|$)')
TYPES = ("counter", "gauge", "histogram", "summary", "untyped")


class Page:
    """A page of the text format 0.0.4, checked line by line."""

    def __init__(self, test, text):
        self.types = {}
        self.samples = {}  # (name, labels) -> value
        test.assertTrue(text.endswith("\n"))
        family, closed = None, set()
        for line in text.split("\n")[:-1]:
            if line.startswith("# HELP "):
                name = line.split(" ")[2]
                test.assertNotIn(name, self.types, "a family stands together")
                test.assertGreater(len(line.split(" ", 3)[3]), 5)
                closed.add(family)
                family = name
            elif line.startswith("# TYPE "):
                _, _, name, kind = line.split(" ")
                test.assertEqual(name, family)
                test.assertIn(kind, TYPES)
                self.types[name] = kind
            else:
                self.sample(test, line, family)
        self.check_histograms(test)

    def sample(self, test, line, family):
        match = SAMPLE.match(line)
        test.assertTrue(match, line)
        name, labels, value = match.groups()
        base = name
        if self.types[family] == "histogram":
            base = re.sub(r"_(bucket|sum|count)$", "", name)
        test.assertEqual(base, family, line)
        pairs = LABEL.findall(labels or "")
        test.assertEqual("".join('%s="%s",' % pair for pair in pairs).rstrip(","), labels or "")
        test.assertEqual(len({key for key, _ in pairs}), len(pairs))
        key = (name, tuple(sorted(pairs)))
        test.assertNotIn(key, self.samples)
        self.samples[key] = float(value)
        if self.types[family] == "counter":
            test.assertGreaterEqual(float(value), 0, line)

    def check_histograms(self, test):
        series = collections.defaultdict(list)
        for (name, labels), value in self.samples.items():
            if name.endswith("_bucket"):
                rest = tuple(pair for pair in labels if pair[0] != "le")
                bound = float(dict(labels)["le"].replace("+Inf", "inf"))
                series[name[: -len("_bucket")], rest].append((bound, value))
        for (name, labels), buckets in series.items():
            bounds = [bound for bound, _ in buckets]
            counts = [count for _, count in buckets]
            test.assertEqual(bounds, sorted(set(bounds)))
            test.assertEqual(bounds[-1], math.inf)
            test.assertEqual(counts, sorted(counts))
            test.assertEqual(counts[-1], self.samples[name + "_count", labels])
            test.assertIn((name + "_sum", labels), self.samples)

    def sum(self, name, **labels):
        return sum(
            value
            for (found, pairs), value in self.samples.items()
            if found == name and labels.items() <= dict(pairs).items()
        )


class Metrics(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        with tempfile.TemporaryDirectory() as folder:
            port = free_port()
            flags = ["--record", pathlib.Path(folder) / "r", "--metrics-port", port]
            server = Server(make_two_models(folder), *flags)
            cls.own = {
                path: get("127.0.0.1:%d" % port, path)
                for path in ("/metrics", "/metrics/", "/v2", "/v2/models/mlp", "/")
            }
            cls.own_post = get("127.0.0.1:%d" % port, "/metrics", "POST", "{}")
            cls.own_infer = get("127.0.0.1:%d" % port, "/v2/models/mlp/infer", "POST", "{}")
            cls.before = get(server.address, "/metrics")
            cls.codes = load(server.address, ("mlp", "quick"), 8, 40, vanishing=2)
            ask(server.address, "quick", 1)  # behind the requests whose clients vanished
            cls.answer = get(server.address, "/metrics")
            cls.exit_code = server.end(signal.SIGTERM)

    def test_it_is_well_formed(self):
        self.assertEqual(self.exit_code, 0)
        status, headers, body = self.answer
        self.assertEqual(status, 200)
        self.assertIn("text/plain; version=0.0.4", headers["Content-Type"])
        Page(self, body.decode())
        Page(self, self.before[2].decode())
        if importlib.util.find_spec("prometheus_client"):
            from prometheus_client.parser import text_string_to_metric_families

            families = list(text_string_to_metric_families(body.decode()))
            self.assertGreater(len(families), 20)

    def test_a_port_of_its_own(self):
        for path, (status, _, body) in self.own.items():
            if path.startswith("/metrics"):
                self.assertEqual(status, 200)
                Page(self, body.decode())
            else:
                self.assertEqual(status, 404, path)
        self.assertEqual(self.own_post[0], 405)
        self.assertEqual(self.own_infer[0], 404)

    def test_counters_never_go_back(self):
        before, after = (Page(self, a[2].decode()) for a in (self.before, self.answer))
        for (name, labels), value in before.samples.items():
            family = re.sub(r"_(bucket|sum|count)$", "", name)
            kind = after.types.get(name, after.types.get(family))
            if kind == "counter":
                self.assertGreaterEqual(after.samples[name, labels], value)

    def test_the_numbers_are_what_clients_saw(self):
        page = Page(self, self.answer[2].decode())
        good = self.codes.count(200) + 1
        succeeded = page.sum("nv_inference_request_success")
        # Requests whose clients vanished may have been answered in vain.
        self.assertTrue(good <= succeeded <= good + 16, (good, succeeded))
        accepted = page.sum("tutti_requests_accepted_total")
        failed = page.sum("nv_inference_request_failure")
        pending = page.sum("nv_inference_pending_request_count")
        self.assertEqual(accepted, succeeded + failed + pending)
        self.assertEqual(
            page.sum("tutti_requests_on_time_total") + page.sum("tutti_requests_late_total"), succeeded
        )
        dropped = page.sum("tutti_requests_dropped_total")
        self.assertEqual(
            page.sum("tutti_requests_bad_total"),
            page.sum("tutti_requests_late_total") + dropped
            + page.sum("nv_inference_request_failure", reason="BACKEND"),
        )
        self.assertEqual(page.sum("tutti_request_duration_seconds_count"), succeeded)
        self.assertEqual(
            page.sum("nv_inference_first_response_histogram_ms_count"), succeeded
        )
        self.assertGreaterEqual(page.sum("tutti_queue_duration_seconds_count"), succeeded)
        # mlp has no objective, but three of four requests bring a time limit.
        slack = page.sum("tutti_slack_at_start_seconds_count", model="quick")
        self.assertEqual(slack, page.sum("tutti_queue_duration_seconds_count", model="quick"))
        self.assertEqual(page.sum("tutti_batch_size_count"), page.sum("nv_inference_exec_count"))
        self.assertEqual(page.sum("tutti_batch_size_sum"), page.sum("nv_inference_count"))

    def test_of_the_server(self):
        page = Page(self, self.answer[2].decode())
        self.assertGreater(page.sum("tutti_scheduler_turns_total"), 10)
        self.assertGreater(page.sum("tutti_scheduler_busy_seconds_total"), 0)
        self.assertEqual(page.sum("tutti_domain_executors"), 4)
        # Far more than 1 % of the requests were bad in each domain that refused some; none has spare executors then.
        for (name, labels), add in page.samples.items():
            if name == "tutti_domain_executors_to_add":
                release = page.samples["tutti_domain_executors_to_release", labels]
                self.assertTrue(add == 0 or release == 0, labels)
                self.assertTrue(0 <= release <= 3 and add >= 0, labels)
        self.assertGreater(page.sum("tutti_domain_executors_to_add"), 0)
        # At least one is wanted, and without counts the advice is not believed.
        wanted = {labels: n for (name, labels), n in page.samples.items() if name == "tutti_devices_wanted"}
        for labels, count in wanted.items():
            self.assertGreaterEqual(count, 1)
            self.assertTrue(0 <= page.samples["tutti_devices_wanted_confidence", labels] <= 1, labels)
        self.assertEqual(len(wanted), sum(name == "tutti_domain_executors" for name, _ in page.samples))
        self.assertGreater(page.sum("tutti_executor_busy_seconds_total", policy="window"), 0)
        self.assertGreater(page.sum("tutti_recording_bytes_total"), 0)
        self.assertEqual(page.sum("tutti_recording_lost_events_total"), 0)
        self.assertGreater(page.sum("process_resident_memory_bytes"), 1 << 20)
        self.assertGreater(page.sum("process_open_fds"), 3)
        self.assertEqual(page.sum("tutti_queue_requests"), 0)
        self.assertEqual(page.sum("tutti_queue_oldest_age_seconds"), 0)


if __name__ == "__main__":
    unittest.main(verbosity=1)
