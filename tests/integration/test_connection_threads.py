#!/usr/bin/env python3
"""--connection-threads: many clients over HTTP and gRPC on 1, 2 and 4 threads, with one scheduler thread and with several.
Answers are the client's own, every request is counted once, recordings replay, reloading and stopping lose nothing."""
import http.client
import json
import os
import pathlib
import re
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
import unittest
import urllib.request

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "python"))

from needs import need  # noqa: E402

need("numpy", "tritonclient", "grpc")

import numpy as np  # noqa: E402
import tritonclient.grpc  # noqa: E402
from certificates import Certificates  # noqa: E402
from own_folder import make_folder  # noqa: E402
from recordings import PROGRAM, replay  # noqa: E402
from server_process import Server, free_port  # noqa: E402

MODEL = """backend: "emulated"
max_batch_size: 8
input { name: "x" data_type: TYPE_FP32 dims: 4 }
output { name: "y" data_type: TYPE_FP32 dims: 4 }
"""
# Neither policy drops a request for its time: these tests ask for right answers on a busy machine.
SETTINGS = 'slo_ms: 600000 policy { name: "%s" }\n'


def make_models(folder, policy):
    for name in ("a", "b"):
        model = pathlib.Path(folder, name)
        (model / "1").mkdir(parents=True)
        (model / "config.pbtxt").write_text(MODEL)
        (model / "profile.pbtxt").write_text("linear { alpha_ms: 0.01 beta_ms: 0.2 }\n")
        (model / "tutti.pbtxt").write_text(SETTINGS % policy)


class Case(unittest.TestCase):
    def start(self, threads, *flags, policy="window"):
        self.folder = make_folder(self)
        make_models(self.folder / "models", policy)
        self.grpc_port = free_port()
        self.server = Server(
            [PROGRAM, "serve", "--model-repository", self.folder / "models", "--http-port", "0", "--executors", "2"]
            + ["--grpc-port", str(self.grpc_port), "--connection-threads", str(threads), *flags]
        )
        self.addCleanup(self.server.process.kill)
        end, found = time.monotonic() + 60, None
        while not found:
            self.assertLess(time.monotonic(), end, self.server.said())
            time.sleep(0.01)
            found = re.search(r"serving 2 of 2 models at https?://(\S+)", "".join(self.server.lines))
        self.address = found.group(1)

    def stop(self):
        self.assertEqual(self.server.stop(60), 0, self.server.said())

    def metrics(self):
        with urllib.request.urlopen(f"http://{self.address}/metrics", timeout=60) as answer:
            page = answer.read().decode()
        return {name: float(value) for name, value in re.findall(r"^(\w+(?:\{[^}]*\})?) (\S+)$", page, re.M)}

    def settled(self):
        """The metrics when each client's answer is counted, which happens after it was sent."""
        end = time.monotonic() + 60
        at = self.metrics()
        while at["tutti_http_in_flight"] != 1 or at["tutti_grpc_in_flight"] != 0:  # its own request is in flight
            self.assertLess(time.monotonic(), end, at)
            at = self.metrics()
        return at

    def sum_of(self, at, family):
        return sum(value for name, value in at.items() if name.split("{")[0] == family)

    def in_threads(self, count, work):
        """Runs work(index) on so many threads; fails with the first exception."""
        errors = []

        def body(index):
            try:
                work(index)
            except BaseException as error:  # noqa: raised again below
                errors.append(error)

        threads = [threading.Thread(target=body, args=(i,), daemon=True) for i in range(count)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
            self.assertFalse(thread.is_alive(), "a client still waits for its answer")
        if errors:
            raise errors[0]

    def connect(self):
        connection = http.client.HTTPConnection(self.address, timeout=60)
        self.addCleanup(connection.close)
        return connection

    def ask(self, connection, model, value):
        """One inference; the answer must be the question's."""
        row = [float(value)] * 4
        body = {"inputs": [{"name": "x", "shape": [1, 4], "datatype": "FP32", "data": row}]}
        connection.request("POST", f"/v2/models/{model}/infer", json.dumps(body))
        answer = connection.getresponse()
        content = answer.read()
        self.assertEqual(answer.status, 200, content)
        self.assertEqual(json.loads(content)["outputs"][0]["data"], row)


CLIENTS, REQUESTS = 8, 30


class ManyClients(Case):
    def check(self, threads, *flags, policy="window"):
        self.start(threads, *flags, policy=policy)
        everyone_is_there = threading.Barrier(CLIENTS)

        def over_http(index):
            connection = self.connect()
            self.ask(connection, "a", index)
            everyone_is_there.wait(60)
            for i in range(1, REQUESTS):
                self.ask(connection, "ab"[i % 2], 1000 * index + i)

        def over_grpc(index):
            own = [("grpc.use_local_subchannel_pool", 1)]  # else channels share a connection
            client = tritonclient.grpc.InferenceServerClient(f"127.0.0.1:{self.grpc_port}", channel_args=own)
            everyone_is_there.wait(60)
            for i in range(REQUESTS):
                x = tritonclient.grpc.InferInput("x", [1, 4], "FP32")
                x.set_data_from_numpy(np.full((1, 4), 1000 * index + i, np.float32))
                y = client.infer("ab"[i % 2], [x]).as_numpy("y")
                self.assertEqual(y.tolist(), [[1000 * index + i] * 4])
            client.close()

        half = CLIENTS // 2
        self.in_threads(CLIENTS, lambda index: (over_http if index < half else over_grpc)(index))
        at = self.settled()
        readings = at["tutti_http_requests_total"] - half * REQUESTS
        self.assertEqual(at["tutti_http_answered_total"], half * REQUESTS + readings - 1)
        self.assertIn(readings, range(1, REQUESTS))
        self.assertEqual(
            at["tutti_http_requests_total"],
            at["tutti_http_answered_total"] + at["tutti_http_gone_total"] + at["tutti_http_in_flight"],
        )
        self.assertEqual(self.sum_of(at, "tutti_http_responses_total"), at["tutti_http_answered_total"])
        self.assertEqual(self.sum_of(at, "tutti_http_thread_requests_total"), at["tutti_http_requests_total"])
        self.assertEqual(at["tutti_grpc_answered_total"], half * REQUESTS)
        self.assertEqual(at["tutti_grpc_connections_accepted_total"], half)
        self.assertEqual(self.sum_of(at, "nv_inference_request_success"), CLIENTS * REQUESTS)
        self.assertEqual(self.sum_of(at, "nv_inference_request_failure"), 0)
        shares = [at['tutti_http_thread_requests_total{thread="%d"}' % i] for i in range(threads)]
        # Each thread has its share of the clients, and a part of the readings.
        self.assertEqual([share // REQUESTS for share in shares], [half // threads] * threads)
        self.stop()

    def test_one_thread(self):
        self.check(1)

    def test_two_threads(self):
        self.check(2)

    def test_four_threads(self):
        self.check(4)

    def test_scheduler_threads(self):
        self.check(2, "--scheduler-threads", "2", policy="eager")


class Replay(Case):
    def check(self, *flags, policy):
        record = make_folder(self) / "recording"
        self.start(4, "--record", str(record), *flags, policy=policy)
        self.in_threads(CLIENTS, lambda index: [self.ask(self.connect(), "ab"[i % 2], i) for i in range(10)])
        self.stop()
        done = replay(record)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("identical", done.stdout)

    def test_recording(self):
        self.check(policy="deferred")

    def test_recording_with_scheduler_threads(self):
        self.check("--scheduler-threads", "2", policy="deferred")


class Operations(Case):
    def test_reload_under_load(self):
        """Loads and unloads, asked for on any thread, lose no request to the other model, and none to the reloaded one."""
        self.start(4, "--model-control-mode", "explicit", "--load-model", "*")
        over = threading.Event()
        answered = []

        def client(index):
            connection, count = self.connect(), 0
            while not over.is_set() or count == 0:
                self.ask(connection, "ab"[count % 2], 100 * index + count)
                count += 1
            answered.append(count)

        def operator():
            for _ in range(6):
                connection = self.connect()  # each on another thread
                connection.request("POST", "/v2/repository/models/a/load", "")
                self.assertEqual(connection.getresponse().read(), b"")
                connection.request("POST", "/v2/repository/index", "")
                index = json.loads(connection.getresponse().read())
                self.assertEqual([entry["state"] for entry in index], ["READY", "READY"])
            over.set()

        self.in_threads(6, lambda index: operator() if index == 5 else client(index))
        at = self.settled()
        self.assertEqual(self.sum_of(at, "nv_inference_request_success"), sum(answered))
        self.assertEqual(self.sum_of(at, "nv_inference_request_failure"), 0)
        self.assertEqual(at["tutti_http_gone_total"], 0)
        self.stop()

    def test_log_settings_and_access_log(self):
        """What one thread sets, all see; each request has one line, whichever thread answered it."""
        log = make_folder(self) / "access"
        self.start(4, "--access-log", str(log))
        connections = [self.connect() for _ in range(4)]
        for connection in connections:
            connection.connect()
        connections[0].request("POST", "/v2/logging", json.dumps({"log_verbose_level": 1}))
        connections[0].getresponse().read()
        for index, connection in enumerate(connections):
            connection.request("GET", "/v2/logging")
            self.assertEqual(json.loads(connection.getresponse().read())["log_verbose_level"], 1)
            for i in range(20):
                self.ask(connection, "a", 100 * index + i)
        at = self.metrics()
        self.assertEqual(len([n for n in at if n.startswith("tutti_http_thread_connections")]), 4)
        self.assertEqual(at["tutti_access_log_dropped_total"], 0)
        self.stop()
        lines = [json.loads(line) for line in log.read_text().splitlines()]
        self.assertEqual(len(lines), 4 * 21 + 2)
        self.assertEqual(len([line for line in lines if line["path"] == "/v2/models/a/infer"]), 80)

    def test_connection_limit(self):
        """--max-connections holds for all threads and both protocols together."""
        self.start(4, "--max-connections", "3")
        kept = [self.connect() for _ in range(2)]
        for index, connection in enumerate(kept):
            self.ask(connection, "a", index)
        client = tritonclient.grpc.InferenceServerClient(f"127.0.0.1:{self.grpc_port}")
        self.assertTrue(client.is_server_live())
        over = self.connect()
        over.request("GET", "/v2/health/live")
        self.assertEqual(over.getresponse().status, 503)
        client.close()
        end = time.monotonic() + 60
        status = 503
        while status != 200:  # until the server has seen that the client left
            self.assertLess(time.monotonic(), end)
            over = self.connect()
            over.request("GET", "/v2/health/live")
            status = over.getresponse().status
            over.close()
        self.stop()

    def test_stop_under_load(self):
        """After SIGTERM each client gets answers, a refusal, or the end of its connection; what was begun is answered."""
        log = make_folder(self) / "access"
        self.start(4, "--access-log", str(log), "--scheduler-threads", "2", policy="eager")
        answered, cut = [0] * CLIENTS, []
        asked = threading.Barrier(CLIENTS + 1)

        def client(index):
            connection = self.connect()
            self.ask(connection, "a", index)
            answered[index] += 1
            asked.wait(60)
            while True:
                try:
                    self.ask(connection, "a", 100 * index + answered[index])
                except (ConnectionError, http.client.HTTPException):
                    # Python opens a connection again after an answer with "Connection: close".
                    cut.append(index)
                    return
                answered[index] += 1

        def stopper():
            asked.wait(60)
            self.server.process.send_signal(signal.SIGTERM)

        self.in_threads(CLIENTS + 1, lambda index: stopper() if index == CLIENTS else client(index))
        self.stop()
        self.assertEqual(sorted(cut), list(range(CLIENTS)))
        statuses = [json.loads(line)["status"] for line in log.read_text().splitlines()]
        self.assertEqual(statuses, [200] * sum(answered))


class Secure(Case):
    def test_tls_and_tokens(self):
        """TLS sessions and tokens work on each thread; new tokens reach all of them."""
        folder = make_folder(self)
        files = Certificates(folder)
        certificate, key = files.make("server")
        words, lines = zip(*(self.make_token(name) for name in ("first", "second")))
        tokens = folder / "tokens"
        tokens.write_text(lines[0])
        self.start(4, "--tls-cert", certificate, "--tls-key", key, "--tokens", str(tokens))
        trusted = ssl.create_default_context(cafile=files.path("ca.pem"))
        clients = [http.client.HTTPSConnection(self.address, timeout=60, context=trusted) for _ in range(CLIENTS)]

        def status(client, word):
            row = {"name": "x", "shape": [1, 4], "datatype": "FP32", "data": [1.0, 2.0, 3.0, 4.0]}
            client.request(
                "POST", "/v2/models/a/infer", json.dumps({"inputs": [row]}), {"Authorization": "Bearer " + word}
            )
            answer = client.getresponse()
            answer.read()
            return answer.status

        self.in_threads(CLIENTS, lambda i: [self.assertEqual(status(clients[i], words[0]), 200) for _ in range(10)])
        self.assertEqual({status(client, words[1]) for client in clients}, {401})
        (folder / "new").write_text(lines[1])
        os.replace(folder / "new", tokens)
        self.server.process.send_signal(signal.SIGHUP)
        end = time.monotonic() + 60
        while {status(client, words[1]) for client in clients} != {200}:
            self.assertLess(time.monotonic(), end)
            time.sleep(0.02)
        self.assertEqual({status(client, words[0]) for client in clients}, {401})
        for client in clients:
            client.close()
        self.stop()

    def make_token(self, name):
        out = subprocess.run([PROGRAM, "token", name, "infer", "--json"], check=True, stdout=subprocess.PIPE).stdout
        made = json.loads(out)
        return made["token"], made["line"] + "\n"


class BusyPolling(Case):
    """--busy-poll-us: between short waits a thread watches its connections, and does not sleep."""

    REQUESTS = 200
    ROUNDS, QUICK_ROUNDS = 100, 40

    def sleeps(self):
        status = pathlib.Path(f"/proc/{self.server.process.pid}/status").read_text()
        return int(re.search(r"^voluntary_ctxt_switches:\s+(\d+)", status, re.M).group(1))

    def sleeps_for_requests(self, microseconds):
        self.start(1, "--busy-poll-us", str(microseconds))
        connection = self.connect()
        self.ask(connection, "a", 0)
        before = self.sleeps()
        for i in range(self.REQUESTS):
            self.ask(connection, "a", i)
        sleeps = self.sleeps() - before
        other = self.connect()  # is noticed by a thread that watches
        self.ask(other, "b", 1)
        self.stop()
        return sleeps

    def test_a_thread_that_watches_does_not_sleep(self):
        self.assertGreaterEqual(self.sleeps_for_requests(0), self.REQUESTS)
        self.assertLess(self.sleeps_for_requests(1000000), self.REQUESTS // 2)

    def sleeps_of_a_quick_client(self, client):
        """For requests that ask for nothing; the client does as little as it can between them."""
        request = b"GET /v2/health/live HTTP/1.1\r\nHost: x\r\n\r\n"
        before = self.sleeps()
        for _ in range(self.REQUESTS):
            client.sendall(request)
            self.assertEqual(client.recv(65536)[:12], b"HTTP/1.1 200")
        return self.sleeps() - before

    def test_by_default_it_watches_for_a_quick_client(self):
        """Only where the machine lets the client be quick: where a thread that watches for 50 us after each short wait finds
        nearly all requests, one that decides by itself to watch finds most of them, too."""
        if len(os.sched_getaffinity(0)) < 2:
            self.skipTest("one processor: nothing is watched")
        servers = []
        for flags in ((), ("--busy-poll-us", "50")):
            self.start(1, *flags)
            host, port = self.address.rsplit(":", 1)
            client = socket.create_connection((host, int(port)), 60)
            self.addCleanup(client.close)
            servers.append((self.server, client))
        quick_rounds, watches = 0, False
        for _ in range(self.ROUNDS):
            found = []
            for self.server, client in servers:
                found.append(self.sleeps_of_a_quick_client(client))
            quick_rounds += found[1] < self.REQUESTS // 20
            watches = found[0] < self.REQUESTS // 2
            if watches or quick_rounds == self.QUICK_ROUNDS:
                break
        for self.server, client in servers:
            client.close()
            self.stop()
        print("sleeps for %d requests: %d by default, %d with 50 us" % (self.REQUESTS, *found))
        self.assertTrue(watches or quick_rounds < self.QUICK_ROUNDS)


if __name__ == "__main__":
    unittest.main(verbosity=1)
