#!/usr/bin/env python3
"""`tutti top` on pages of metrics that are known."""
import fcntl
import http.server
import json
import os
import pty
import re
import select
import socket
import struct
import subprocess
import termios
import threading
import time
import unittest

PROGRAM = os.environ["TUTTI_PROGRAM"]
PAGE = """# HELP nv_inference_request_success x
# TYPE nv_inference_request_success counter
nv_inference_request_success{model="a",version="1"} %(success)d
nv_inference_request_success{model="odd \\"}{ name",version="2"} 5
nv_inference_request_failure{model="a",version="1",reason="REJECTED"} %(rejected)d
nv_inference_request_failure{model="a",version="1",reason="CANCELED"} 1000
nv_inference_count{model="a",version="1"} %(rows)d
nv_inference_exec_count{model="a",version="1"} %(batches)d
nv_inference_queue_duration_us{model="a",version="1"} %(queue)d
nv_inference_pending_request_count{model="a",version="1"} 3
tutti_requests_on_time_total{model="a",version="1"} %(on_time)d
tutti_requests_late_total{model="a",version="1"} %(late)d
tutti_request_duration_us_bucket{model="a",version="1",le="1000"} %(fast)d
tutti_request_duration_us_bucket{model="a",version="1",le="8000"} %(all)d
tutti_request_duration_us_bucket{model="a",version="1",le="+Inf"} %(all)d
process_cpu_seconds_total 1.5 1700000000000
this is no sample
"""
FIRST = dict(success=100, rejected=10, rows=400, batches=200, queue=5000, on_time=90, late=10,
             fast=50, all=100)  # fmt: skip
SECOND = dict(success=180, rejected=20, rows=800, batches=250, queue=85000, on_time=160, late=20,
              fast=110, all=180)  # fmt: skip
INDEX = [{"name": "a", "version": "1", "state": "READY"}, {"name": "gone", "state": "UNAVAILABLE"}]


class Server:
    """Answers /metrics with `pages`, the last again and again."""

    def __init__(self, pages, index=INDEX):
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def say(self, status, text):
                self.send_response(status)
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            def do_GET(self):
                page = outer.pages.pop(0) if len(outer.pages) > 1 else outer.pages[0]
                outer.asked.release()
                self.say(200, page.encode())

            def do_POST(self):
                self.rfile.read(int(self.headers["Content-Length"]))
                self.say(200 if index else 404, json.dumps(index).encode())

            def log_message(self, *_):
                pass

        self.pages, self.asked = list(pages), threading.Semaphore(0)
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = "127.0.0.1:%d" % self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()


def run(*arguments):
    return subprocess.run([PROGRAM, "top", *arguments], capture_output=True, text=True, timeout=60)


class Top(unittest.TestCase):
    def once(self, *pages, index=INDEX, more=()):
        with Server(pages, index) as server:
            answer = run(server.url, "--once", "--json", "--interval", "0.05", *more)
        self.assertEqual(answer.returncode, 0, answer.stderr)
        return json.loads(answer.stdout)

    def test_what_happened_in_between(self):
        report = self.once(PAGE % FIRST, PAGE % SECOND)
        self.assertGreater(report["interval_s"], 0)
        models = {m["name"]: m for m in report["models"]}
        self.assertEqual(list(models), ["a", "gone", 'odd "}{ name'])
        a = models["a"]
        self.assertEqual((a["state"], a["version"]), ("READY", "1"))
        self.assertAlmostEqual(a["requests_per_s"] * report["interval_s"], 80)
        self.assertAlmostEqual(a["good_per_s"] * report["interval_s"], 70)
        self.assertAlmostEqual(a["bad_rate"], (10 + 10) / (10 + 10 + 70))
        self.assertEqual(a["batch_rows"], 8)
        self.assertEqual(a["wait_ms"], 1)
        self.assertEqual((a["in_flight"], a["queued"], a["requests_total"]), (3, None, 180))
        self.assertEqual((a["p50_ms"], a["p99_ms"]), (1, 8))
        self.assertIsNone(a["latency_ms"])  # the page does not say
        self.assertEqual(models["gone"]["state"], "UNAVAILABLE")
        self.assertIsNone(models["gone"]["requests_per_s"])

    def test_a_server_that_began_anew(self):
        report = self.once(PAGE % SECOND, PAGE % FIRST)
        a = report["models"][0]
        self.assertAlmostEqual(a["requests_per_s"] * report["interval_s"], 100)

    def test_without_states(self):
        report = self.once(PAGE % FIRST, PAGE % SECOND, index=None)
        self.assertEqual([m["state"] for m in report["models"]], ["", ""])

    def test_order(self):
        report = self.once(PAGE % FIRST, PAGE % SECOND, more=("--sort", "rate"))
        self.assertEqual([m["name"] for m in report["models"]], ["a", 'odd "}{ name', "gone"])

    def test_table(self):
        with Server([PAGE % FIRST, PAGE % SECOND]) as server:
            answer = run(server.url, "--once", "--interval", "0.05")
        lines = answer.stdout.splitlines()
        self.assertEqual(len(lines), 4)
        self.assertRegex(lines[0], r"^model +state +req/s +good/s +bad %")
        self.assertRegex(lines[1], r"^a:1 +READY .* 22\.22 +3 +- +8\.00 +1\.000 +- +- +1\.000")

    def test_the_worst_comes_first(self):
        """By default, and by the key b; models without bad requests follow by name."""
        page = PAGE + 'tutti_requests_on_time_total{model="z",version="1"} %(z_good)d\n'
        page += 'tutti_requests_late_total{model="z",version="1"} %(z_late)d\n'
        pages = (page % dict(FIRST, z_good=0, z_late=0), page % dict(SECOND, z_good=10, z_late=90))
        names = lambda *more: [m["name"] for m in self.once(*pages, more=more)["models"]]  # noqa: E731
        self.assertEqual(names(), ["z", "a", "gone", 'odd "}{ name'])
        self.assertEqual(names("--sort", "bad"), names())
        self.assertEqual(names("--sort", "name")[0], "a")

    def test_objective_and_policy(self):
        page = PAGE + 'tutti_slo_seconds{model="a",version="1"} 0.0205\n'
        page += 'tutti_model_info{model="a",version="1",policy="lazy",max_batch="8",executors="2",profile="x"} 1\n'
        report = self.once(page % FIRST, page % SECOND)
        a, gone = report["models"][:2]
        self.assertEqual((a["slo_ms"], a["policy"]), (20.5, "lazy"))
        self.assertEqual((gone["slo_ms"], gone["policy"]), (None, None))
        with Server([page % FIRST, page % SECOND]) as server:
            lines = run(server.url, "--once", "--interval", "0.05").stdout.splitlines()
        self.assertRegex(lines[0], r"p99<=ms +SLO ms +total policy$")
        self.assertRegex(lines[1], r" 20\.5 +180 lazy *$")

    def screen(self, columns, page):
        """What `tutti top` draws first on a terminal of this width, without the control sequences."""
        with Server([page % FIRST, page % SECOND]) as server:
            child, terminal = pty.fork()
            if child == 0:
                time.sleep(0.2)  # until the size is set
                os.execv(PROGRAM, [PROGRAM, "top", server.url, "--interval", "0.05"])
            fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
            seen = self.read_until(terminal, b" 22.22 ")
            seen += self.read_until(terminal, b"\033[J")
            os.write(terminal, b"q")
            self.read_until(terminal, b"\033[?1049l")
            self.assertEqual(os.waitpid(child, 0)[1], 0)
            os.close(terminal)
        frame = next(part for part in seen.decode().split("\033[H") if " 22.22 " in part)
        self.assertIn("\033[31m", frame)  # the row with bad requests
        return [re.sub(r"\033\[[0-9;?]*[a-zA-Z]|\r", "", line) for line in frame.split("\n")]

    def test_eighty_columns(self):
        page = PAGE + 'tutti_slo_seconds{model="a",version="1"} 0.0205\n'
        page += 'tutti_model_info{model="a",version="1",policy="cellular",max_batch="8"} 1\n'
        page += 'nv_inference_count{model="a_model_with_quite_a_long_name",version="12"} 7\n'
        lines = [line for line in self.screen(80, page) if line.strip()]
        self.assertEqual([line for line in lines if len(line) > 80], [])
        heads = lines[1].split()
        for head in ("model", "req/s", "bad", "queued", "batch", "p99<=ms", "SLO", "policy"):
            self.assertIn(head, heads)
        self.assertNotIn("wait", heads)
        [a] = [line for line in lines if line.startswith("a:1")]
        self.assertRegex(a, r"22\.22.* 8\.000 +20\.5 cellular *$")
        [gone] = [line for line in lines if line.startswith("gone")]
        self.assertTrue(gone.rstrip().endswith(" UNAVAILABLE"), gone)
        wide = [line for line in self.screen(200, page) if line.strip()]
        self.assertIn("wait", wide[1].split())

    def test_other_metrics_url(self):
        with Server([PAGE % FIRST, PAGE % SECOND]) as metrics, Server(["x 1\n"]) as states:
            answer = run(
                states.url, "--metrics-url", metrics.url, "--once", "--interval", "0.05", "--json"
            )
        self.assertEqual(json.loads(answer.stdout)["models"][0]["requests_total"], 180)

    def test_refusals(self):
        with socket.create_server(("127.0.0.1", 0)) as taken:
            nobody = "127.0.0.1:%d" % taken.getsockname()[1]
        with Server(["x 1\n"], index=None) as other:
            for arguments, code, says in (
                ((nobody, "--once"), 1, "refused"),
                ((other.url, "--once"), 1, "no metrics"),
                (("--interval", "0"), 2, "--interval"),
                (("--sort", "size"), 2, "size"),
                (("ftp://x",), 2, "ftp"),
                (("a", "b"), 2, "b"),
                (("--nonsense",), 2, "--nonsense"),
            ):
                with self.subTest(arguments=arguments):
                    answer = run(*arguments)
                    self.assertEqual(answer.returncode, code, answer.stderr)
                    self.assertEqual(len(answer.stderr.strip().splitlines()), 1)
                    self.assertIn(says, answer.stderr)
                    self.assertEqual(answer.stdout, "")

    def test_on_a_terminal(self):
        """It survives the server's end, and a key ends it, with the terminal as it was."""
        with Server([PAGE % FIRST, PAGE % SECOND]) as server:
            child, terminal = pty.fork()
            if child == 0:
                os.execv(PROGRAM, [PROGRAM, "top", server.url, "--interval", "0.05"])
            seen = self.read_until(terminal, b"a:1")
        seen += self.read_until(terminal, b"trying again")
        os.write(terminal, b"q")
        seen += self.read_until(terminal, b"\033[?1049l")
        self.assertTrue(seen.index(b"\033[?1049h") < seen.index(b"a:1"))
        self.assertEqual(os.waitpid(child, 0)[1], 0)
        os.close(terminal)

    def read_until(self, terminal, wanted):
        seen, ends_at = b"", time.monotonic() + 60
        while wanted not in seen:
            if not select.select([terminal], [], [], max(0, ends_at - time.monotonic()))[0]:
                self.fail("%r never came; this did: %r" % (wanted, seen))
            try:
                seen += os.read(terminal, 65536)
            except OSError:
                self.fail("%r never came before the end: %r" % (wanted, seen))
        return seen


if __name__ == "__main__":
    unittest.main()
