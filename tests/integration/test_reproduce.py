#!/usr/bin/env python3
"""tutti reproduce: the quick form holds, its outputs agree, and bad requests are refused."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = os.environ["TUTTI_PROGRAM"]


def run(*arguments, timeout=240):
    return subprocess.run(
        [PROGRAM, "reproduce", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=timeout,
        cwd=ROOT,
    )


class Reproduce(unittest.TestCase):
    def test_symphony_holds(self):
        answer = run("symphony", "--quick", "--json")
        self.assertEqual(answer.returncode, 0, answer.stdout + answer.stderr)
        facts = {fact["id"]: fact for fact in json.loads(answer.stdout)["facts"]}
        for name in ("example-stagger", "example-missing", "example-eager"):
            self.assertEqual(facts[name]["ours"], 1, facts[name])
        for fact in facts.values():
            self.assertIn(fact["status"], ("holds", "reported"))
            self.assertTrue(fact["status"] == "holds" or fact["reason"], fact)

    def test_the_same_every_time(self):
        first = run("symphony", "--quick", "--json", "--only", "table2-resnet50-*", "--workers", 1)
        again = run("symphony", "--quick", "--json", "--only", "table2-resnet50-*", "--workers", 2)
        self.assertEqual(first.returncode, 0, first.stderr)
        self.assertEqual(first.stdout, again.stdout)

    def test_a_claim_that_does_not_hold_fails(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "wrong.pbtxt")
            experiment = ROOT / "experiments" / "symphony" / "table2-resnet50.pbtxt"
            path.write_text(
                'fact { id: "wrong" what: "a bound" published: 5000 holds { tolerance: 0.01 }\n'
                'ours { experiment: "%s" measure: STAGGERED_BOUND } }\n' % experiment
            )
            answer = run(path)
            self.assertEqual(answer.returncode, 1, answer.stdout + answer.stderr)
            self.assertIn("FAILS", answer.stdout)
            self.assertIn("1.168", answer.stdout)

    def test_list_and_markdown(self):
        listing = run("symphony", "--list")
        self.assertEqual(listing.returncode, 0)
        self.assertIn("example-stagger", listing.stdout)
        table = run("symphony", "--markdown", "--only", "bound-*")
        self.assertEqual(table.returncode, 0)
        self.assertEqual(len(table.stdout.splitlines()), 2 + listing.stdout.count("\nbound-"))

    def test_bad_requests(self):
        for arguments, says in (
            ((), "which system"),
            (("symfony",), "symphony"),
            (("symphony", "extra"), "one system"),
            (("symphony", "--only", "nothing"), "nothing"),
            (("symphony", "--workers", "0"), "--workers"),
            (("symphony", "--no-such-flag"), "--no-such-flag"),
        ):
            answer = run(*arguments)
            self.assertEqual(answer.returncode, 2, answer.stderr)
            self.assertEqual(answer.stdout, "")
            self.assertEqual(len(answer.stderr.strip().splitlines()), 1, answer.stderr)
            self.assertIn(says, answer.stderr)


if __name__ == "__main__":
    if "reproduce" not in subprocess.run([PROGRAM, "--help"], capture_output=True, text=True).stdout:
        sys.exit(77)
    unittest.main(verbosity=1)
