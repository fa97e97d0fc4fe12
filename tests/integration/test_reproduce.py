#!/usr/bin/env python3
"""tutti reproduce: the quick form holds, its outputs agree, and bad requests are refused."""
import collections
import json
import os
import pathlib
import re
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

    def test_lazybatching_holds(self):
        chosen = ("figure-*", "sla-*", "latency-transformer*", "average-latency-resnet50")
        only = [word for name in chosen for word in ("--only", name)]
        answer = run("lazybatching", "--quick", "--json", *only)
        self.assertEqual(answer.returncode, 0, answer.stdout + answer.stderr)
        facts = {fact["id"]: fact for fact in json.loads(answer.stdout)["facts"]}
        self.assertEqual(facts["figure-8"]["ours"], 1, facts["figure-8"])
        self.assertEqual(facts["figure-10"]["ours"], 1, facts["figure-10"])
        self.assertEqual(facts["latency-transformer"]["note"].count(" / "), 7)

    def test_batchmaker_holds(self):
        answer = run("batchmaker", "--quick", "--json")
        self.assertEqual(answer.returncode, 0, answer.stdout + answer.stderr)
        facts = {fact["id"]: fact for fact in json.loads(answer.stdout)["facts"]}
        for name in ("figure-5", "figure-5-minimum", "figure-5-five-tasks", "figure-5-graphs"):
            self.assertEqual(facts[name]["ours"], 1, facts[name])
        for name in ("lstm-p90-half", "seq2seq-p90", "tree-p90"):
            self.assertEqual(facts[name]["status"], "holds", facts[name])
            self.assertLess(facts[name]["ours"], 1, facts[name])

    def test_what_is_claimed_of_one_gpu_holds(self):
        for system, only in (("e2bird", "*"), ("dvabatch", "mean-low-zero-*"), ("dvabatch", "pairs-1")):
            answer = run(system, "--quick", "--json", "--only", only)
            self.assertEqual(answer.returncode, 0, answer.stdout + answer.stderr)
            for fact in json.loads(answer.stdout)["facts"]:
                self.assertIn(fact["status"], ("holds", "reported"))
                self.assertIsNotNone(fact["ours"], fact)

    def test_a_fact_over_several_files_names_each(self):
        answer = run("dvabatch", "--quick", "--json", "--only", "mean-low-zero-profile")
        fact = json.loads(answer.stdout)["facts"][0]
        pairs = [pair.split(" / ") for pair in fact["note"].split(", ")]
        self.assertEqual(len(pairs), 6, fact)
        ratios = [float(ours) / float(theirs) for ours, theirs in pairs]
        self.assertAlmostEqual(sum(ratios) / 6, fact["ours"], 3)
        self.assertLess(max(ratios), 1.02)  # D7: to ask the profile never costs much

    def test_profiles_are_what_their_script_writes(self):
        answer = subprocess.run(
            [sys.executable, ROOT / "scripts" / "gpu_profiles.py", "--check"], capture_output=True, text=True
        )
        self.assertEqual(answer.returncode, 0, answer.stderr)

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

    def test_every_fact_is_in_the_document_once(self):
        """By its sentence, which is no other fact's."""
        document = (ROOT / "docs" / "results" / "REPRODUCTION.md").read_text()
        rows = collections.Counter(re.findall(r"^\| (.+?) \| ", document, re.M))
        for path in sorted((ROOT / "facts").glob("*.pbtxt")):
            listing = run(path.stem, "--list").stdout
            said = [line.split(None, 1)[1] for line in listing.splitlines()]
            self.assertGreater(len(said), 20, path)
            self.assertEqual([fact for fact in said if rows[fact] != 1], [], path)

    def test_sweeps_are_kept(self):
        """A fact over a sweep; what was searched is not searched again."""
        with tempfile.TemporaryDirectory() as folder:
            pathlib.Path(folder, "few.pbtxt").write_text(
                'duration_s: 2 requests: 1000 device { count: 2 } load { rate: 300 }\n'
                'model { name: "M" slo_ms: 20 profile { linear { alpha_ms: 1 beta_ms: 4 } } }\n'
                'policy { name: "eager" } goodput { precision: 0.05 from_bound: true }\n'
                'sweep { parameter: "slo_ms" value: ["15", "20"] }\n'
                'sweep { parameter: "policy" value: ["symphony", "eager"] }\n'
            )
            facts = pathlib.Path(folder, "facts.pbtxt")
            facts.write_text(
                'fact { id: "gain" what: "a gain" holds { at_least: 0.1 } ours { experiment: "few.pbtxt"\n'
                'measure: SWEEP_GAIN sweep { policy: "symphony" over: "eager" } } }\n'
            )
            without = run(facts)
            self.assertEqual(without.returncode, 0, without.stderr)
            self.assertIn("1 about sweeps left out", without.stderr)
            first = run(facts, "--json", "--sweeps", folder)
            self.assertEqual(first.returncode, 0, first.stderr)
            state = pathlib.Path(folder, "few.state")
            lines = state.read_text().splitlines()
            self.assertEqual(len(lines), 5)
            fact = json.loads(first.stdout)["facts"][0]
            self.assertIsNone(fact["published"])
            self.assertIsNone(fact["ratio"])
            self.assertEqual(fact["status"], "holds")
            # Another result for one search: it is believed, not searched again.
            changed = json.loads(lines[1])
            changed["result"]["goodput_per_s"] *= 1000
            other = [json.dumps(changed), *lines[2:]]
            state.write_text("\n".join([lines[0], *other]) + "\n")
            again = run(facts, "--json", "--sweeps", folder)
            self.assertNotEqual(json.loads(again.stdout)["facts"][0]["note"], fact["note"])
            self.assertEqual(state.read_text().splitlines()[1:], other)

    def test_bad_requests(self):
        for arguments, says in (
            ((), "SYSTEM is missing"),
            (("symfony",), "symphony"),
            (("symphony", "extra"), "unexpected argument 'extra'"),
            (("symphony", "--only", "nothing"), "nothing"),
            (("symphony", "--workers", "0"), "--workers"),
            (("symphony", "--only", "figure7-*"), "--sweeps FOLDER"),
            (("symphony", "--only", "figure7-*", "--sweeps", "/no/such"), "/no/such"),
            (("symphony", "--no-such-flag"), "--no-such-flag"),
        ):
            answer = run(*arguments)
            self.assertEqual(answer.returncode, 2, answer.stderr)
            self.assertEqual(answer.stdout, "")
            self.assertEqual(len(answer.stderr.strip().splitlines()), 1, answer.stderr)
            self.assertIn(says, answer.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=1)
