#!/usr/bin/env python3
"""`tutti serve --record` with `--scheduler-threads`: under load with deadlines, replayed to the same decisions and under
other policies; and recordings of threads that were cut, ended at a limit, or altered."""
import json
import pathlib
import shutil
import signal
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "python"))

import recordings  # noqa: E402
from needs import need  # noqa: E402
from plain_client import Server, ask, get, load, make_two_models  # noqa: E402
from recordings import blocks, replay, thread_streams, turn_events, turns  # noqa: E402

need("onnx")


def make_models(folder):
    """mlp (window: on the server's thread), and quick and second in one domain of the deferred family."""
    models = make_two_models(folder)
    shutil.copytree(models / "quick", models / "second")
    return models


class Recorded:
    """A server with so many scheduler threads, under load with deadlines, is recorded."""

    threads = None

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        cls.models = make_models(cls.folder)
        cls.flags = ["--scheduler-threads", str(cls.threads), "--record"]
        cls.recording = cls.folder / "whole.rec"
        server = Server(cls.models, *cls.flags, cls.recording)
        cls.codes = load(server.address, ("quick", "second", "mlp"), 9, 80)
        cls.exit_code = server.end(signal.SIGTERM)
        cls.said = server.said()
        cls.content = cls.recording.read_bytes()

    def test_identical_decisions(self):
        self.assertEqual(self.exit_code, 0, self.said)
        self.assertGreater(self.codes.count(200), 100)
        self.assertGreater(len(set(self.codes)), 1)  # some were late
        answer = replay(self.recording)
        self.assertEqual((answer.returncode, answer.stderr), (0, ""))
        lines = answer.stdout.splitlines()
        self.assertEqual(len(lines), 2)
        for line in lines:
            self.assertIn("all identical", line)
        self.assertEqual(sum("turns of" in line for line in lines), 1)
        self.assertEqual(replay(self.recording, "--check").returncode, 0)

    def test_the_figures_are_what_clients_saw(self):
        report = json.loads(replay(self.recording, "--json").stdout)
        self.assertTrue(report["identical"] and report["complete"])
        threaded = [domain for domain in report["domains"] if domain["scheduler_threads"]]
        self.assertEqual([d["scheduler_threads"] for d in threaded], [self.threads])
        self.assertGreater(threaded[0]["turns"], 100)
        totals = [domain["recorded"]["total"] for domain in report["domains"]]
        served = sum(total["ok"] + total["late"] for total in totals)
        self.assertGreaterEqual(served, self.codes.count(200))
        self.assertGreaterEqual(sum(total["arrived"] for total in totals), len(self.codes))


class OneThread(Recorded, unittest.TestCase):
    """One thread for all parties: its turns follow each other, the recording is the same."""

    threads = 1


class ThreeThreads(Recorded, unittest.TestCase):
    """Two model threads, each with a model."""

    threads = 3


class TwoThreads(Recorded, unittest.TestCase):
    """And what else can be done with a recording, and to it."""

    threads = 2

    def test_other_policies(self):
        for policy in ("eager", "window", "recorded"):
            answer = replay(self.recording, "--policy", policy, "--json")
            self.assertEqual(answer.returncode, 0, answer.stderr)
            for domain in json.loads(answer.stdout)["domains"]:
                simulated, recorded = domain["simulated"], domain["recorded"]
                self.assertEqual(simulated["total"]["arrived"], recorded["total"]["arrived"])
                self.assertGreater(simulated["total"]["ok"], 0)

    def altered(self, name, change):
        """A replay of the recording with bytes changed, and its checksums put right."""
        content = bytearray(self.content)
        change(content)
        path = self.folder / name
        path.write_bytes(recordings.with_checksums(content))
        return replay(path)

    def assert_differs(self, answer, *says):
        self.assertEqual(answer.returncode, 1, answer.stdout + answer.stderr)
        self.assertIn("the next one differs", answer.stdout)
        for words in says:
            self.assertIn(words, answer.stderr)

    def test_another_decision_is_noticed(self):
        """The checksum of a turn in the middle of each thread's story."""
        names = {1: "the rank thread", 2: "model thread 0"}
        streams = thread_streams(self.content)
        for party, name in names.items():
            middle = [at for at, count in turns(self.content, streams[party]) if count > 2]
            at = middle[len(middle) // 2]

            def change(content):
                content[at] ^= 1

            self.assert_differs(self.altered("decision.rec", change), name, "what it decided")

    def test_another_order_is_noticed(self):
        """A turn of a model thread that found no request any more where it had found one."""
        stream = thread_streams(self.content)[2]
        # No news of the fleet, so many grants and ends, so many requests.
        all_turns = turns(self.content, stream)
        found = [at + 4 for at, n in all_turns if self.content[at + 2 : at + n] == b"\0\0\1"]
        self.assertGreater(len(found), 20)

        def change(content):
            content[found[len(found) // 2]] = 0

        self.assert_differs(self.altered("order.rec", change), "model thread 0 differs")

    def test_another_taking_is_noticed(self):
        """The domain took a batch in a later decision than it did."""
        stream = thread_streams(self.content)[0]
        all_turns = turns(self.content, stream)
        taken = [at + 3 for at, n in all_turns if self.content[at : at + n] == b"\0\0\0\1"]
        self.assertGreater(len(taken), 20)

        def change(content):
            content[taken[len(taken) // 2]] = 0

        self.assert_differs(self.altered("taking.rec", change))

    def test_a_gap_ends_it(self):
        """In the place of a turn, the last one, too: so many were lost. What was decided up to there is compared, and
        no more."""
        for party, stream in thread_streams(self.content).items():
            found = [event for event, _, count in turn_events(self.content, stream) if count > 0]
            for at in (found[len(found) // 2], found[-1]):

                def change(content):
                    content[at] = recordings.GAP

                answer = self.altered("gap.rec", change)
                self.assertEqual(answer.returncode, 0, (party, answer.stderr))
                self.assertRegex(answer.stderr, "domain [01]: [0-9]+ events are missing")
                self.assertRegex(answer.stderr, "it and the [0-9]+ events behind")

    def test_what_cannot_be(self):
        """Threads that are not there, or twice, or whose numbers are out of range: one line, and no more."""
        streams = thread_streams(self.content)
        first = {}
        for stream, at, size in blocks(self.content):
            first.setdefault(stream, at)

        def renumber(content):
            content[first[streams[2]] + 3] = 1  # a second rank thread

        def unknown(content):
            content[first[streams[2]] + 3] = 9

        def gone(content):
            content[first[streams[2]] + 2] = 77  # of another domain

        for change in (renumber, unknown, gone):
            answer = self.altered("impossible.rec", change)
            self.assertEqual(answer.returncode, 2, answer.stdout + answer.stderr)
            self.assertRegex(answer.stderr, "offset [0-9]+: a thread that")
        at = [at for at, count in turns(self.content, streams[1]) if count > 2][20]

        def many(content):
            content[at + 2] = 0x7F  # changes of executors

        self.assert_differs(self.altered("many.rec", many), "others took of it")

    def test_cut_anywhere(self):
        head = recordings.HEADER_BYTES
        for part in range(1, 16):
            path = self.folder / "cut.rec"
            path.write_bytes(self.content[: head + (len(self.content) - head) * part // 16])
            answer = replay(path, "--check")
            self.assertEqual(answer.returncode, 0, answer.stderr)
            self.assertIn("the file was cut", answer.stderr)

    def test_a_limit(self):
        path = self.folder / "limit.rec"
        server = Server(self.models, *self.flags, path, "--record-max-bytes", "12000")
        load(server.address, ("quick", "second"), 4, 100)
        self.assertEqual(server.end(signal.SIGTERM), 0)
        self.assertIn("it ends here", server.said())
        answer = replay(path, "--check")
        self.assertEqual((answer.returncode, answer.stderr), (0, ""))
        stream, _, size = list(blocks(path.read_bytes()))[-1]
        self.assertEqual((stream, size), (recordings.END_STREAM, 0))

    def test_models_that_come_and_go(self):
        path = self.folder / "control.rec"
        modes = ["--model-control-mode", "explicit", "--load-model", "quick"]
        server = Server(self.models, *self.flags, path, *modes)
        post = "/v2/repository/models/second/"
        for _ in range(3):
            self.assertEqual(get(server.address, post + "load", "POST")[0], 200)
            codes = ask(server.address, "second", 5)  # within 50 ms, or not, on a busy machine
            self.assertLessEqual(set(codes), {200, 503})
            self.assertEqual(get(server.address, post + "unload", "POST")[0], 200)
            self.assertLessEqual(set(ask(server.address, "quick", 5)), {200, 503})
        self.assertEqual(server.end(signal.SIGTERM), 0, server.said())
        answer = replay(path, "--check", "--json")
        self.assertEqual((answer.returncode, answer.stderr), (0, ""))
        self.assertEqual(sum(d["requests"] for d in json.loads(answer.stdout)["domains"]), 30)


if __name__ == "__main__":
    unittest.main(verbosity=1)
