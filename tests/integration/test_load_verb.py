#!/usr/bin/env python3
"""`tutti load` against `tutti serve`, and against a server that misbehaves on purpose."""
import csv
import io
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import unittest
import urllib.request
import xml.etree.ElementTree as xml

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "python"))

from needs import needing  # noqa: E402

PROGRAM = os.environ["TUTTI_PROGRAM"]
OUTCOMES = ("ok", "late", "rejected", "failed", "timed_out", "broken", "cancelled", "unfinished")
METADATA = {
    "name": "echo",
    "versions": ["1"],
    "platform": "none",
    "inputs": [
        {"name": "x", "datatype": "FP32", "shape": [-1, 3]},
        {"name": "ids", "datatype": "INT64", "shape": [-1, -1]},
    ],
    "outputs": [{"name": "y", "datatype": "FP32", "shape": [-1, 3]}],
}
EXPERIMENT = """
title: "two models"
seed: 7
duration_s: 0.4
device { }
model { name: "a" slo_ms: 500 weight: 1 profile { linear { alpha_ms: 1 beta_ms: 1 } } }
model { name: "b" slo_ms: 700 weight: 3 profile { linear { alpha_ms: 1 beta_ms: 1 } } }
load { rate: 300 process: GAMMA shape: 0.5 popularity { given: true } }
"""


def run(*arguments, timeout=120):
    return subprocess.run(
        [PROGRAM, "load", *map(str, arguments)], capture_output=True, text=True, timeout=timeout
    )


class Scripted:
    """An HTTP server that answers inference request k (from 0) with what `script(k)` says: bytes, sent as they are;
    then whether the connection stays."""

    def __init__(self, script, metadata=METADATA):
        self.script, self.metadata = script, metadata
        self.lock = threading.Lock()
        self.requests, self.connections = [], 0
        self.listening = socket.create_server(("127.0.0.1", 0), backlog=512)
        self.url = "127.0.0.1:%d" % self.listening.getsockname()[1]
        self.open = []
        threading.Thread(target=self.accept, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.listening.shutdown(socket.SHUT_RDWR)
        self.listening.close()
        for connection in self.open:
            connection.close()

    def accept(self):
        while True:
            try:
                connection, _ = self.listening.accept()
            except OSError:
                return
            self.open.append(connection)
            threading.Thread(target=self.serve, args=(connection,), daemon=True).start()

    def serve(self, connection):
        try:
            stream = connection.makefile("rb")
            first = True
            while True:
                line = stream.readline()
                if not line:
                    return
                headers = {}
                for header in iter(stream.readline, b"\r\n"):
                    name, value = header.decode().split(":", 1)
                    headers[name.lower()] = value.strip()
                body = stream.read(int(headers.get("content-length", 0)))
                if line.startswith(b"GET"):
                    connection.sendall(answer(200, json.dumps(self.metadata).encode()))
                    continue
                with self.lock:
                    number = len(self.requests)
                    self.requests.append((line.decode(), headers, body))
                    self.connections += first
                    first = False
                said, stays = self.script(number)
                connection.sendall(said)
                if not stays:
                    connection.shutdown(socket.SHUT_RDWR)
                    connection.close()
                    return
        except OSError:
            pass


def answer(status, body=b"{}", extra=""):
    head = "HTTP/1.1 %d X\r\n%sContent-Length: %d\r\n\r\n" % (status, extra, len(body))
    return head.encode() + body


class LoadCase(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def report(self, *arguments, code=0):
        answer = run(*arguments, "--json")
        self.assertEqual(answer.returncode, code, answer.stderr + answer.stdout)
        if code == 0:
            self.assertEqual(answer.stderr, "")  # no progress without a terminal
        report = json.loads(answer.stdout)
        for figures in [report["total"], *report["models"]]:
            self.assertEqual(figures["arrived"], sum(figures[o] for o in OUTCOMES))
        self.assertEqual(
            report["total"]["arrived"], sum(m["arrived"] for m in report["models"])
        )
        total = report["total"]
        bad = total["arrived"] - total["ok"] - total["cancelled"] - total["unfinished"]
        explained = sum(report["reasons"].values()) - total["unfinished"]
        self.assertEqual(bad, explained + total["late"])
        return report

    def rows(self, path):
        return list(csv.DictReader(io.StringIO(pathlib.Path(path).read_text())))

    def assert_refused(self, *arguments, says, code=2):
        answer = run(*arguments)
        self.assertEqual(answer.returncode, code, answer.stderr)
        self.assertEqual(answer.stdout, "")
        self.assertEqual(len(answer.stderr.strip().splitlines()), 1, answer.stderr)
        self.assertIn(says, answer.stderr)


class AgainstAScript(LoadCase):
    """What the client makes of answers, and what it sends."""

    def asked(self, server, *flags, **more):
        return self.report(server.url, "--model", "echo", "--length", 2, *flags, **more)

    def test_every_form_of_an_answer(self):
        chunked = (
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n"
        )
        interim = b"HTTP/1.1 100 Continue\r\n\r\n" + answer(200)
        until_the_end = b"HTTP/1.1 200 OK\r\n\r\n{}"
        forms = [(chunked, True), (interim, True), (answer(200), True), (until_the_end, False)]
        with Scripted(lambda k: forms[k % 4]) as server:
            report = self.asked(server, "--concurrency", 1, "--requests", 12)
        self.assertEqual(report["total"]["ok"], 12)
        self.assertEqual(server.connections, 3)  # one for each answer that ends its connection
        self.assertEqual(report["total"]["received_bytes"], 24)

    def test_what_is_no_answer(self):
        forms = [
            (b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{}", False),  # cut off
            (b"", False),
            (b"this is no HTTP\r\n\r\n", True),
            (answer(503, b'{"error":"dropped after 17 us"}'), True),
            (answer(503, b'{"error":"dropped after 4711 us"}'), True),
            (answer(400, b'{"error":"bad"}'), True),
            (answer(500, b"not even JSON"), True),
            (answer(200), True),
        ]
        with Scripted(lambda k: forms[k % 8]) as server:
            report = self.asked(server, "--concurrency", 1, "--requests", 16)
        total = report["total"]
        self.assertEqual((total["ok"], total["broken"]), (2, 6))
        self.assertEqual((total["rejected"], total["failed"]), (4, 4))
        self.assertEqual(
            report["reasons"],
            {
                "the server closed the connection": 4,
                "the answer is not HTTP": 2,
                "HTTP 503: dropped after # us": 4,
                "HTTP 400: bad": 2,
                "HTTP 500": 2,
            },
        )
        self.assertEqual(
            report["reason_examples"]["HTTP 503: dropped after # us"], "dropped after 17 us"
        )
        self.assertEqual(set(report["reason_examples"]), set(report["reasons"]))
        self.assertAlmostEqual(total["bad_rate"], 14 / 16)

    def test_the_table_shows_an_example_of_each_reason(self):
        forms = [(answer(503, b'{"error":"dropped after 17 us"}'), True), (answer(200), True)]
        with Scripted(lambda k: forms[k % 2]) as server:
            said = run(server.url, "--model", "echo", "--length", 2, "--concurrency", 1, "--requests", 4).stdout
        self.assertRegex(said, r"\n +2  HTTP 503: dropped after # us\n +such as: dropped after 17 us\n")

    def test_giving_up(self):
        hang = threading.Event()
        self.addCleanup(hang.set)

        def script(k):
            if k % 2:
                hang.wait(60)
            return answer(200), True

        with Scripted(script) as server:
            report = self.asked(
                server, "--concurrency", 1, "--requests", 4, "--give-up-ms", 300
            )
            hang.set()
        self.assertEqual(report["total"]["timed_out"], 2)
        self.assertEqual(report["reasons"], {"no answer in time": 2})

    def test_bytes_that_nobody_asked_for(self):
        with Scripted(lambda k: (answer(200) + b"HTTP/1.1 200 OK\r\n", True)) as server:
            report = self.asked(server, "--concurrency", 1, "--requests", 3)
        self.assertEqual((report["total"]["ok"], server.connections), (3, 3))

    def test_what_is_sent_as_json(self):
        with Scripted(lambda k: (answer(200), True)) as server:
            self.asked(
                server, "--requests", 2, "--rate", 1000, "--json-body", "--rows", 5,
                "--slo-ms", 250, "--priority", 3,
            )  # fmt: skip
        line, headers, body = server.requests[0]
        self.assertEqual(line, "POST /v2/models/echo/infer HTTP/1.1\r\n")
        self.assertEqual(headers["host"], server.url)
        message = json.loads(body)
        self.assertEqual(message["parameters"], {"timeout": 250000, "priority": 3})
        x, ids = message["inputs"]
        self.assertEqual((x["shape"], ids["shape"]), ([5, 3], [5, 2]))
        self.assertEqual((len(x["data"]), len(ids["data"])), (15, 10))
        self.assertTrue(all(0 <= v < 1 for v in x["data"]))
        self.assertTrue(all(v in range(8) for v in ids["data"]))

    def test_what_is_sent_as_binary(self):
        with Scripted(lambda k: (answer(200), True)) as server:
            self.asked(server, "--requests", 1, "--timeout-us", 0, "--slo-ms", 1000)
            self.asked(server, "--requests", 1, "--shape", "ids:9")
        _, headers, body = server.requests[0]
        length = int(headers["inference-header-content-length"])
        message = json.loads(body[:length])
        self.assertEqual(message["parameters"], {"binary_data_output": True})
        sizes = [i["parameters"]["binary_data_size"] for i in message["inputs"]]
        self.assertEqual(sizes, [12, 16])
        self.assertEqual(len(body), length + 28)
        _, headers, body = server.requests[1]
        message = json.loads(body[: int(headers["inference-header-content-length"])])
        self.assertEqual(message["inputs"][1]["shape"], [1, 9])

    def test_lengths(self):
        (self.folder / "lengths").write_text("4\n9\n")
        with Scripted(lambda k: (answer(200), True)) as server:
            for length in ("3-5", "@%s" % (self.folder / "lengths")):
                self.asked(
                    server, "--requests", 60, "--rate", 3000, "--json-body", "--length", length
                )
        seen = [json.loads(body)["inputs"][1]["shape"][1] for _, _, body in server.requests]
        self.assertEqual(set(seen[:60]), {3, 4, 5})
        self.assertEqual(set(seen[60:]), {4, 9})

    def test_input_file(self):
        def request(value):
            return {
                "id": "dropped",
                "inputs": [
                    {"name": "x", "datatype": "FP32", "shape": [1, 3], "data": [[value] * 3]},
                    {"name": "s", "datatype": "BYTES", "shape": [1], "data": ["né"]},
                ],
                "outputs": [{"name": "y"}],
            }

        path = self.folder / "requests"
        path.write_text("\n".join(json.dumps(request(v)) for v in (0.5, 2)) + "\n\n")
        with Scripted(lambda k: (answer(200), True)) as server:
            for form in ("--json-body", "--binary"):
                self.asked(server, "--concurrency", 1, "--requests", 3, "--input-file", path, form)
        bodies = [body for _, _, body in server.requests]
        values = [json.loads(b)["inputs"][0]["data"][0][0] for b in bodies[:3]]
        self.assertEqual(values, [0.5, 2, 0.5])
        self.assertEqual(json.loads(bodies[0])["outputs"], [{"name": "y"}])
        self.assertNotIn("id", json.loads(bodies[0]))
        self.assertTrue(bodies[3].endswith(b"\0\0\0\x3f" * 3 + b"\x03\0\0\0n\xc3\xa9"))
        path.write_text('{"inputs": [{"name": "x"}]}\n')
        self.assert_refused(
            "127.0.0.1:9", "--model", "echo", "--input-file", path, says="refused", code=1
        )
        with Scripted(lambda k: (answer(200), True)) as server:
            self.assert_refused(
                server.url, "--model", "echo", "--input-file", path, says="requests:1:"
            )

    def test_same_seed_same_bytes(self):
        flags = ("--requests", 40, "--concurrency", 1, "--json-body")
        seen = []
        for seed in (3, 3, 4):
            with Scripted(lambda k: (answer(200), True)) as server:
                self.asked(server, *flags, "--seed", seed, "--length", "1-9")
            seen.append([body for _, _, body in server.requests])
        self.assertEqual(seen[0], seen[1])
        self.assertNotEqual(seen[0], seen[2])

    def test_latency_counts_from_the_intended_instant(self):
        path = self.folder / "requests.csv"
        with Scripted(lambda k: (answer(200), True)) as server:
            report = self.asked(
                server, "--requests", 50, "--rate", 5000, "--connections", 1, "--csv", path
            )
        rows = self.rows(path)
        self.assertEqual(len(rows), 50)
        latencies = []
        for row in rows:
            intended, sent, ended = (int(row[c + "_ns"]) for c in ("intended", "sent", "ended"))
            self.assertTrue(intended <= sent <= ended, row)
            latencies.append(ended - intended)
        self.assertAlmostEqual(report["total"]["latency_ms"]["max"], max(latencies) / 1e6)
        mean = sum(latencies) / len(latencies) / 1e6
        self.assertAlmostEqual(report["total"]["latency_ms"]["mean"], mean, places=5)
        self.assertEqual(report["connections_opened"], 1)

    def test_interrupted(self):
        asked = threading.Event()
        hang = threading.Event()
        self.addCleanup(hang.set)

        def script(k):
            if k == 5:
                asked.set()
            if k >= 4:
                hang.wait(60)
            return answer(200), True

        with Scripted(script) as server:
            child = subprocess.Popen(
                [PROGRAM, "load", server.url, "--model", "echo", "--length", "1", "--json"]
                + ["--rate", "200", "--duration", "600"],
                stdout=subprocess.PIPE,
            )
            self.assertTrue(asked.wait(60))
            child.send_signal(signal.SIGINT)
            report = json.loads(child.communicate(timeout=60)[0])
            hang.set()
        self.assertEqual(child.returncode, 130)
        self.assertTrue(report["interrupted"])
        total = report["total"]
        self.assertEqual(total["ok"], 4)
        self.assertGreaterEqual(total["unfinished"], 2)
        self.assertEqual(total["arrived"], sum(total[o] for o in OUTCOMES))

    def test_exit_codes(self):
        with Scripted(lambda k: (answer(503 if k % 2 else 200), True)) as server:
            flags = ("--requests", 10, "--concurrency", 1)
            self.asked(server, *flags, "--fail-bad-rate", 0.5)
            self.asked(server, *flags, "--fail-bad-rate", 0.4, code=1)
        with Scripted(lambda k: (answer(503), True)) as server:
            answer_of_all = run(server.url, "--model", "echo", "--length", 1, "--requests", 3)
            self.assertEqual(answer_of_all.returncode, 1)
            self.assertIn("HTTP 503", answer_of_all.stderr)

    def test_models_by_weight(self):
        with Scripted(lambda k: (answer(200), True)) as server:
            report = self.report(
                server.url, "--model", "one:1", "--model", "nine:9", "--length", 1,
                "--requests", 400, "--concurrency", 4,
            )  # fmt: skip
        by_name = {m["name"]: m["ok"] for m in report["models"]}
        self.assertEqual(by_name["one"] + by_name["nine"], 400)
        self.assertGreater(by_name["nine"], by_name["one"])
        self.assertGreater(by_name["one"], 0)


class Instants(LoadCase):
    """The same requests as in an experiment."""

    def test_an_experiments_arrivals(self):
        experiment = self.folder / "e.pbtxt"
        experiment.write_text(EXPERIMENT)
        outcomes, sent = self.folder / "o.csv", self.folder / "s.csv"
        subprocess.run(
            [PROGRAM, "experiment", experiment, "--outcomes", outcomes],
            check=True,
            capture_output=True,
        )
        with Scripted(lambda k: (answer(200), True)) as server:
            report = self.report(
                server.url, "--load", experiment, "--map", "*=echo", "--length", 1, "--csv", sent
            )
        self.assertEqual(report["title"], "two models")
        simulated = [
            (r["model"], r["arrived_ns"], r["deadline_ns"]) for r in self.rows(outcomes)
        ]
        asked = sorted(self.rows(sent), key=lambda r: int(r["request"]))
        self.assertEqual(
            simulated, [(r["model"], r["intended_ns"], r["deadline_ns"]) for r in asked]
        )
        self.assertGreater(len(asked), 50)
        timeouts = {
            json.loads(b[: int(h["inference-header-content-length"])])["parameters"]["timeout"]
            for _, h, b in server.requests
        }
        self.assertEqual(timeouts, {500000, 700000})

    def test_arrivals_from_a_file(self):
        arrivals, sent = self.folder / "a.csv", self.folder / "s.csv"
        arrivals.write_text(
            "at_ns,model,rows,input_length,priority\n0,echo,2,3,\n1000000,echo,,4,6\n"
        )
        with Scripted(lambda k: (answer(200), True)) as server:
            self.report(
                server.url, "--model", "echo", "--arrivals", arrivals, "--csv", sent,
                "--json-body", "--connections", 1,
            )  # fmt: skip
        first, second = (json.loads(body) for _, _, body in server.requests)
        self.assertEqual([i["shape"] for i in first["inputs"]], [[2, 3], [2, 3]])
        self.assertEqual([i["shape"] for i in second["inputs"]], [[1, 3], [1, 4]])
        self.assertEqual(second["parameters"], {"priority": 6})
        self.assertEqual([r["intended_ns"] for r in self.rows(sent)], ["0", "1000000"])

    def test_clients_that_go_away(self):
        """Every second one does, before its answer; its connection ends, and the others do not notice."""
        arrivals, requests = self.folder / "a.csv", self.folder / "r"
        arrivals.write_text(
            "at_ns,model,cancel_at_ns\n"
            + "".join(
                "%d,echo,%s\n" % (k * 1000000, k * 1000000 + 5000000 if k % 2 else "")
                for k in range(20)
            )
        )
        requests.write_text(
            "".join(
                '{"inputs": [{"name": "x", "datatype": "INT8", "shape": [1], "data": [%d]}]}\n' % v
                for v in (0, 1)
            )
        )
        hang = threading.Event()
        self.addCleanup(hang.set)

        def script(k):  # answers none whose client goes away
            if json.loads(server.requests[k][2])["inputs"][0]["data"] == [1]:
                hang.wait(60)
            return answer(200), True

        with Scripted(script) as server:
            report = self.report(
                server.url, "--model", "echo", "--arrivals", arrivals, "--input-file", requests,
                "--json-body",
            )  # fmt: skip
            hang.set()
        self.assertEqual((report["total"]["ok"], report["total"]["cancelled"]), (10, 10))
        self.assertEqual(report["total"]["bad_rate"], 0)

    def test_even_arrivals(self):
        path = self.folder / "s.csv"
        with Scripted(lambda k: (answer(200), True)) as server:
            self.report(
                server.url, "--model", "echo", "--length", 1, "--process", "uniform",
                "--rate", 500, "--duration", 0.1, "--csv", path,
            )  # fmt: skip
        intended = sorted(int(r["intended_ns"]) for r in self.rows(path))
        self.assertEqual(intended, [k * 2000000 for k in range(50)])


class BadRequests(LoadCase):
    def test_one_line_each(self):
        with Scripted(lambda k: (answer(200), True)) as server:
            ask = (server.url, "--model", "echo")
            for arguments, says in (
                ((server.url,), "--model"),
                ((*ask, "--rate", "much"), "much"),
                ((*ask, "--rate", -1), "-1"),
                ((*ask, "--process", "pareto"), "pareto"),
                ((*ask, "--process", "gamma"), "--gamma-shape"),
                ((*ask, "--concurrency", 2, "--rate", 5), "--concurrency"),
                ((*ask, "--warm-up", 20), "--warm-up"),
                ((*ask,), "--length"),
                ((*ask, "--length", "5-4"), "5-4"),
                ((*ask, "--length", "@/no/such/file"), "/no/such/file"),
                ((*ask, "--length", 1, "--shape", "x:4"), "x:4"),
                ((*ask, "--length", 1, "--shape", "z:4"), "z:4"),
                ((*ask, "--length", 1, "--slo-ms", "other=5"), "other=5"),
                ((*ask, "--length", 1, "--map", "a=b"), "--map"),
                ((*ask, "--length", 1, "--csv", "/no/such/folder/x"), "/no/such/folder/x"),
                ((server.url, "--model", "a:0"), "a:0"),
                ((server.url, "--model", "a", "--model", "a:2"), "twice"),
                ((server.url, "--load", "/no/such/file"), "/no/such/file"),
                (("ftp://127.0.0.1", "--model", "echo"), "https"),
                (("http://127.0.0.1:99999", "--model", "echo"), "99999"),
                (("127.0.0.1:8000/v2", "--model", "echo"), "path"),
                ((*ask, "extra"), "extra"),
                ((*ask, "--nonsense"), "--nonsense"),
            ):
                with self.subTest(arguments=arguments[1:]):
                    self.assert_refused(*arguments, says=says)

    def test_other_machines_need_consent(self):
        self.assert_refused("192.0.2.1:8000", "--model", "echo", says="--yes-remote")

    def test_nobody_there(self):
        with socket.create_server(("127.0.0.1", 0)) as taken:
            url = "127.0.0.1:%d" % taken.getsockname()[1]
        self.assert_refused(url, "--model", "echo", says="refused", code=1)

    def test_metadata_of_a_file(self):
        """A server that has no page of metadata can be loaded; a file that is none is refused with its name."""
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder, "echo.json")
            file.write_text(json.dumps(METADATA))
            with Scripted(lambda k: (answer(200), True), {}) as server:
                done = run(server.url, "--model", "echo", "--metadata", file, "--length", 3, "--requests", 5, "--json")
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertEqual(json.loads(done.stdout)["total"]["ok"], 5)
                file.write_text("[1]")
                self.assert_refused(server.url, "--model", "echo", "--metadata", file, says=str(file))

    def test_metadata_that_is_none(self):
        for metadata in ({}, {"name": "echo", "inputs": [{"name": "x"}]}, [1]):
            with Scripted(lambda k: (answer(200), True), metadata) as server:
                self.assert_refused(server.url, "--model", "echo", says="metadata")


@needing("onnx")
class AgainstTutti(LoadCase):
    @classmethod
    def setUpClass(cls):
        cls.models = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.models.cleanup)
        subprocess.run(
            [sys.executable, ROOT / "scripts" / "make_models.py", "--out", cls.models.name]
            + ["--only", "mlp", "cnn"],
            check=True,
            capture_output=True,
        )
        cls.server = subprocess.Popen(
            [PROGRAM, "serve", "--model-repository", cls.models.name, "--http-port", "0"],
            stderr=subprocess.PIPE,
            text=True,
        )
        for line in cls.server.stderr:
            found = re.search(r"at (http://127\.0\.0\.1:\d+)", line)
            if found:
                cls.url = found.group(1)
                break
        threading.Thread(target=cls.server.stderr.read, daemon=True).start()

    @classmethod
    def tearDownClass(cls):
        cls.server.terminate()
        assert cls.server.wait(60) == 0
        cls.server.stderr.close()

    def succeeded(self):
        with urllib.request.urlopen(self.url + "/metrics", timeout=60) as answer:
            text = answer.read().decode()
        return {
            model: int(count)
            for model, count in re.findall(
                r'nv_inference_request_success\{model="(\w+)"[^}]*\} (\d+)', text
            )
        }

    def test_every_request_is_counted_on_both_sides(self):
        for form in ("--binary", "--json-body"):
            before = self.succeeded()
            report = self.report(
                self.url, "--model", "mlp:3", "--model", "cnn", "--requests", 150, "--rate", 600,
                "--rows", 2, form, "--timeout-us", 60000000,  # not the models' own: machines differ
            )  # fmt: skip
            after = self.succeeded()
            self.assertEqual(report["total"]["ok"], 150)
            for model in report["models"]:
                name = model["name"]
                self.assertEqual(after[name] - before[name], model["ok"], name)

    def test_deadlines_that_nobody_can_meet(self):
        report = self.report(
            self.url, "--model", "mlp", "--requests", 40, "--rate", 1000, "--slo-ms", 0.001
        , code=1)  # fmt: skip
        self.assertEqual(report["total"]["ok"], 0)
        self.assertEqual(report["total"]["arrived"], 40)
        self.assertEqual(report["total"]["bad_rate"], 1)

    def test_unknown_model(self):
        self.assert_refused(self.url, "--model", "nobody", says="nobody")

    def test_pictures_and_tables(self):
        svg, html = self.folder / "l.svg", self.folder / "l.html"
        answer = run(
            self.url, "--model", "mlp", "--concurrency", 4, "--requests", 100, "--svg", svg,
            "--html", html, "--timeout-us", 60000000,
        )  # fmt: skip
        self.assertEqual(answer.returncode, 0, answer.stderr)
        self.assertRegex(answer.stdout, r"(?m)^mlp +100 ")
        self.assertIn("closed loop of 4", answer.stdout)
        picture = xml.parse(svg).getroot()
        curves = picture.findall("{http://www.w3.org/2000/svg}polyline")
        self.assertEqual(len(curves), 2)
        self.assertIn("mlp", html.read_text())


if __name__ == "__main__":
    unittest.main()
