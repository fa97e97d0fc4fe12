#!/usr/bin/env python3
"""What a server believes of a real model whose profile is wrong: it learns, unless the flag pins the profile; and what
it decided replays, with what it believed."""
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "python"))

from needs import need  # noqa: E402

need("onnx")

from plain_client import Server, ask, get, make_two_models  # noqa: E402

PROGRAM = os.environ.get("TUTTI_PROGRAM", str(ROOT / "build" / "tutti"))
PROFILE_S = 10.0  # of one row: hundreds of thousands of times what it takes
SAMPLE = re.compile(r'tutti_believed_run_seconds\{model="quick",version="1",rows="(\d+)",of="(\w+)"\} (\S+)')


def believed(address):
    """Of model quick: (rows, centre or tail) -> seconds; and the number of moves."""
    status, _, page = get(address, "/metrics")
    assert status == 200, status
    text = page.decode()
    moves = re.search(r'tutti_belief_moves_total\{model="quick",version="1"\} (\d+)', text)
    return {(int(rows), of): float(value) for rows, of, value in SAMPLE.findall(text)}, int(moves.group(1))


class Learning(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        cls.models = make_two_models(cls.folder)
        (cls.models / "quick" / "tutti.pbtxt").write_text('slo_ms: 60000\npolicy { name: "eager" }\n')
        (cls.models / "quick" / "profile.pbtxt").write_text(
            "point { batch: 1 latency_ns: 10000000000 } point { batch: 8 latency_ns: 20000000000 }\n"
        )

    def test_learns(self):
        recording = self.folder / "learning.rec"
        server = Server(self.models, "--record", recording)
        before, moves = believed(server.address)
        self.assertEqual(before[1, "centre"], PROFILE_S)
        self.assertEqual(before[1, "tail"], PROFILE_S)
        self.assertEqual(moves, 0)
        self.assertEqual(ask(server.address, "quick", 100), [200] * 100)
        after, moves = believed(server.address)
        self.assertGreater(moves, 0)
        self.assertEqual(after.keys(), before.keys())
        for (rows, of), value in after.items():
            self.assertLess(value, before[rows, of] / 2)
            self.assertGreater(value, 0)
            self.assertGreaterEqual(after[rows, "tail"], after[rows, "centre"])
        self.assertEqual(server.end(signal.SIGTERM), 0, server.said())
        answer = subprocess.run(
            [PROGRAM, "replay", recording, "--check"], capture_output=True, text=True, check=False
        )
        self.assertEqual(answer.returncode, 0, answer.stdout + answer.stderr)
        self.assertIn("all identical", answer.stdout)

    def test_pinned(self):
        server = Server(self.models, "--learn-percent", "0")
        self.assertEqual(ask(server.address, "quick", 100), [200] * 100)
        values, moves = believed(server.address)
        self.assertEqual(values[1, "centre"], PROFILE_S)
        self.assertEqual(values[1, "tail"], PROFILE_S)
        self.assertEqual(moves, 0)
        self.assertEqual(server.end(signal.SIGTERM), 0, server.said())


if __name__ == "__main__":
    unittest.main()
