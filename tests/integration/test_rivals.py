#!/usr/bin/env python3
"""bench/rivals.py: the search for the goodput, its arithmetic, its table, and what it reads again. No server is needed."""

import argparse
import json
import math
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))

import rivals_table  # noqa: E402


def find(capacity, start, lowest=0.001, precision=0.05):
    """The search on a server that serves up to `capacity`; the rates that it asked for."""
    search, asked = rivals_table.Search(start, lowest, precision), []
    while (rate := search.next()) is not None:
        asked.append(rate)
        search.note(rate, 0.0 if rate <= capacity else 0.5)
        assert len(asked) < 100
    return search.best, asked


def row(cell, contender, goodput, number=0):
    return {"cell": cell, "contender": contender, "round": number, "goodput_per_s": goodput, "slo_ms": 6.0}


class Search(unittest.TestCase):
    def test_finds_the_capacity_from_below_and_from_above(self):
        for capacity in (0.3, 1, 7, 99.9, 1000, 54321):
            for start in (1, 50, 100000):
                best, asked = find(capacity, start)
                self.assertLessEqual(best, capacity)
                self.assertGreaterEqual(best * 1.05, capacity * 0.999)
                self.assertEqual(len(asked), len(set(asked)))

    def test_one_percent_is_good_and_more_is_not(self):
        search = rivals_table.Search(10, 1)
        search.note(10, 0.01)
        self.assertEqual((search.best, search.next()), (10, 20))
        search.note(20, 0.0101)
        self.assertAlmostEqual(search.next(), math.sqrt(200))

    def test_a_server_that_serves_nothing(self):
        best, asked = find(0, 64, lowest=1)
        self.assertEqual(best, 0)
        self.assertEqual(asked[-1], 1)

    def test_a_failure_below_what_held_is_searched_again(self):
        search = rivals_table.Search(8, 1)
        search.note(8, 0)
        search.note(4, 0.5)
        self.assertEqual(search.best, 0)
        self.assertEqual(search.next(), 2)

    def test_bad_rate(self):
        self.assertAlmostEqual(rivals_table.bad_rate({"arrived": 200, "ok": 198}), 0.01)
        with self.assertRaises(ValueError):
            rivals_table.bad_rate({"arrived": 0, "ok": 0})


class Table(unittest.TestCase):
    def test_medians_of_rounds_and_the_best_rival(self):
        rows = [row("mlp/poisson/1/3", "tutti", value, i) for i, value in enumerate((90, 120, 100))]
        rows += [row("mlp/poisson/1/3", "triton", 40), row("mlp/poisson/1/3", "triton slo/4", 80), row("mlp/poisson/1/3", "mosec", 9)]
        (cell, goodput, best, over), = rivals_table.compare(rows)
        self.assertEqual((cell, best, over), ("mlp/poisson/1/3", "triton slo/4", 1.25))
        self.assertEqual(goodput["tutti"], 100)

    def test_what_is_missing_is_no_ratio(self):
        self.assertIsNone(rivals_table.compare([row("a/b/1/3", "tutti", 1)])[0][3])
        self.assertIsNone(rivals_table.compare([row("a/b/1/3", "mosec", 1)])[0][3])
        self.assertEqual(rivals_table.ratio(5, 0), math.inf)
        self.assertEqual(rivals_table.ratio(0, 0), 1)
        self.assertEqual(rivals_table.ratio(0, 5), 0)

    def test_geometric_mean(self):
        self.assertAlmostEqual(rivals_table.geometric_mean([0.5, 2, 8]), 2)
        self.assertEqual(rivals_table.geometric_mean([0, 8]), 0)
        with self.assertRaises(ValueError):
            rivals_table.geometric_mean([])

    def test_document(self):
        rows = [row("mlp/poisson/1/3", "tutti", 200), row("mlp/poisson/1/3", "triton", 100)]
        rows += [row("cnn/gamma-0.3/2/12", "tutti", 50), row("cnn/gamma-0.3/2/12", "triton", 100)]
        rows += [row("lstm/poisson/1/6", "tutti", 7.25)]
        text = rivals_table.markdown(rows, "# Title\n\nwhen, where, how")
        self.assertIn("| mlp | poisson | 1 | 3 | 6 | 200 | **100** | 2.00 |\n", text)
        self.assertIn("| cnn | gamma-0.3 | 2 | 12 | 6 | 50.0 | **100** | 0.50 |\n", text)
        self.assertIn("| lstm | poisson | 1 | 6 | 6 | 7.2 | - | - |\n", text)
        self.assertIn("Geometric mean over 2 cells: **1.00**; lowest 0.50, highest 2.00.", text)
        widths = {line.count("|") for line in text.splitlines() if line.startswith("|")}
        self.assertEqual(len(widths), 1)


class Continuing(unittest.TestCase):
    """What the program keeps and reads. It is run where numpy is missing, too: only then these tests are skipped."""

    def setUp(self):
        try:
            import numpy  # noqa: F401
            import onnx  # noqa: F401
        except ImportError as error:
            self.skipTest(str(error))
        import rivals

        self.rivals = rivals

    def test_a_line_that_is_cut_short_is_measured_again(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "rows.jsonl")
            self.assertEqual(self.rivals.read_rows(path), [])
            path.write_text(json.dumps(row("a/b/1/3", "tutti", 1)) + '\n{"cell": "a/b')
            self.assertEqual([r["goodput_per_s"] for r in self.rivals.read_rows(path)], [1])

    def test_the_command_shows_no_paths(self):
        given = argparse.Namespace(
            seconds=2.5, rounds=3, precision=0.05, only=["mlp", "cnn"], only_arrivals=None, only_executors=[2], only_slo=None,
            triton="/secret/place", mosec=None, neighbour=True,
        )
        self.assertEqual(
            " ".join(self.rivals.command_of(given)),
            "bench/rivals.py --seconds 2.5 --rounds 3 --precision 0.05 --only mlp --only cnn --only-executors 2 "
            "--triton COMMAND --neighbour --out DIR",
        )

    def test_parts(self):
        command = [sys.executable, "-B", str(ROOT / "bench" / "rivals.py"), "--out", "x", "--only", "no-such-model"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 2)
        self.assertIn("no-such-model", done.stderr)

    def test_triton_configuration(self):
        import rivals_models

        with tempfile.TemporaryDirectory() as folder:
            model = pathlib.Path(folder, "made", "m")
            (model / "1").mkdir(parents=True)
            (model / "config.pbtxt").write_text('name: "m"\nbackend: "onnxruntime"\nmax_batch_size: 64\ndynamic_batching { }\n')
            rivals_models.write_for_triton(model, folder, "peer", 2, 10, 2.5)
            text = pathlib.Path(folder, "m", "config.pbtxt").read_text()
            self.assertTrue(pathlib.Path(folder, "m", "1").is_dir())
        self.assertIn('backend: "peer"\nname: "m"\nmax_batch_size: 64\n', text)
        self.assertIn("max_queue_delay_microseconds: 2500\n", text)
        self.assertIn("default_timeout_microseconds: 10000\n", text)
        self.assertIn("timeout_action: REJECT", text)
        self.assertIn("count: 2", text)
        self.assertEqual(text.count("dynamic_batching"), 1)
        self.assertEqual(text.count("backend"), 1)


if __name__ == "__main__":
    unittest.main(verbosity=1)
