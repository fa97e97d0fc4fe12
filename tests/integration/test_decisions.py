#!/usr/bin/env python3
"""S1, S4, S5, E5: every batch and every outcome of small cases that were worked out from the papers by hand.

Each folder of tests/decisions has an experiment with its arrivals, and the expected tasks and outcomes as CSV."""
import csv
import os
import pathlib
import subprocess
import tempfile
import unittest

CASES = pathlib.Path(__file__).resolve().parents[1] / "decisions"
PROGRAM = os.environ["TUTTI_PROGRAM"]


def rows(path):
    """The rows as a set of dictionaries; tasks of one instant are in no order."""
    with open(path, newline="") as file:
        return sorted(csv.DictReader(file), key=lambda row: sorted(row.items()))


def run(case, folder, *arguments):
    """Runs the case; returns its tasks and outcomes."""
    tasks, outcomes = pathlib.Path(folder, "tasks.csv"), pathlib.Path(folder, "outcomes.csv")
    subprocess.run(
        [PROGRAM, "experiment", case / "experiment.pbtxt", "--check", "--tasks", tasks, "--outcomes", outcomes, *arguments],
        check=True,
        capture_output=True,
        timeout=60,
    )
    return rows(tasks), rows(outcomes)


class Decisions(unittest.TestCase):
    def test_each_case(self):
        cases = sorted(path.parent for path in CASES.glob("*/experiment.pbtxt"))
        self.assertGreaterEqual(len(cases), 6)
        for case in cases:
            with self.subTest(case.name), tempfile.TemporaryDirectory() as folder:
                tasks, outcomes = run(case, folder)
                self.assertEqual(tasks, rows(case / "tasks.csv"))
                self.assertEqual(outcomes, rows(case / "outcomes.csv"))

    def test_a_timeout_is_the_same_if_batches_are_formed_anew_at_latest(self):
        case = CASES / "timeout-beyond-latest"
        with tempfile.TemporaryDirectory() as folder:
            tasks, _ = run(case, folder, "--set", "option.reform_at_latest=on")
            self.assertEqual(tasks, rows(case / "tasks.csv"))

    def test_the_staggered_batch_holds_early_and_late(self):
        """The same arrivals a second later, when rates have been measured: the same decisions."""
        case = CASES / "symphony-floor-first-100ms"
        with tempfile.TemporaryDirectory() as folder:
            later = pathlib.Path(folder, "later.csv")
            lines = (case / "arrivals.csv").read_text().splitlines()
            moved = [f"{int(line.split(',')[0]) + 10**9},m" for line in lines[1:]]
            later.write_text("\n".join([lines[0], "0,m", *moved]) + "\n")
            tasks, _ = run(case, folder, "--arrivals", later)
            expected = [
                {
                    **row,
                    "start_ns": str(int(row["start_ns"]) + 10**9),
                    "end_ns": str(int(row["end_ns"]) + 10**9),
                    "requests": " ".join(str(int(number) + 1) for number in row["requests"].split()),
                }
                for row in rows(case / "tasks.csv")
            ]
            self.assertEqual([row for row in tasks if int(row["start_ns"]) >= 10**9], expected)


if __name__ == "__main__":
    unittest.main(verbosity=1)
