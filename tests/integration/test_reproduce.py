#!/usr/bin/env python3
"""tutti reproduce: the quick form holds, its outputs agree, and bad requests are refused."""
# plain build only: minutes of simulation, whose unit tests run under sanitizers
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


def rows(answer):
    """Both tables of one system, by id: (published, regression)."""
    content = json.loads(answer.stdout)
    return ({row["id"]: row for row in content[table]} for table in ("published", "regression"))


CLOSING = re.compile(
    r"published (\d+): (\d+) within 5 %, (\d+) within 10 %, (\d+) within 25 %, (\d+) better, (\d+) worse, "
    r"(\d+) not attempted\nregression (\d+): (\d+) hold, (\d+) fail\n\Z"
)


class Reproduce(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        """One run of a system, for the tests that only look at its output."""
        cls.folder = tempfile.TemporaryDirectory()
        cls.e2bird = run("e2bird", "--quick", "--json")
        cls.kept = pathlib.Path(cls.folder.name, "kept.json")
        cls.kept.write_text(cls.e2bird.stdout)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def assert_holds(self, answer):
        self.assertEqual(answer.returncode, 0, answer.stdout + answer.stderr)
        published, regression = rows(answer)
        for row in regression.values():
            self.assertIn(row["status"], ("holds", "not judged"), row)
        for row in published.values():
            self.assertTrue(row["class"] != "worse" or row["why"], row)
        return published, regression

    def test_symphony_holds(self):
        published, regression = self.assert_holds(run("symphony", "--quick", "--json"))
        for name in ("example-stagger", "example-missing", "example-eager"):
            self.assertEqual(published[name]["ours"], 1, published[name])
            self.assertEqual(published[name]["class"], "within 5 %")
        self.assertGreater(sum(row["status"] == "holds" for row in regression.values()), 60)

    def test_lazybatching_holds(self):
        chosen = ("figure-*", "sla-*", "latency-transformer*", "average-latency*")
        only = [word for name in chosen for word in ("--only", name)]
        published, _ = self.assert_holds(run("lazybatching", "--quick", "--json", *only))
        self.assertEqual(published["figure-8"]["ours"], 1, published["figure-8"])
        self.assertEqual(published["figure-10"]["ours"], 1, published["figure-10"])
        self.assertEqual(published["latency-transformer"]["note"].count(" / "), 7)
        self.assertEqual(published["average-latency"]["note"].count(","), 2)
        self.assertEqual(published["average-latency-ours"]["variant"], "ours")

    def test_batchmaker_holds(self):
        published, regression = self.assert_holds(run("batchmaker", "--quick", "--json"))
        for name in ("figure-5", "figure-5-minimum", "figure-5-five-tasks", "figure-5-graphs"):
            self.assertEqual(regression[name]["ours"], 1, regression[name])
        self.assertNotIn("figure-5-five-tasks", published)  # our own trace
        for name in ("lstm-p90-half", "seq2seq-p90", "tree-p90"):
            self.assertLess(published[name]["ours"], 1, published[name])

    def test_what_is_claimed_of_one_gpu_holds(self):
        dvabatch = run("dvabatch", "--quick", "--json", "--only", "mean-low-zero-*", "--only", "pairs-1")
        for answer in (self.e2bird, dvabatch):
            _, regression = self.assert_holds(answer)
            for row in regression.values():
                self.assertIsNotNone(row["ours"], row)

    def test_an_average_is_shown_for_both_variants(self):
        """Published averages: a row for the paper's rule, and one for ours."""
        listing = run("lazybatching", "--list").stdout
        for name in ("average-latency", "average-throughput", "satisfaction", "others", "others-throughput"):
            self.assertRegex(listing, rf"(?m)^{name} ")
            self.assertRegex(listing, rf"(?m)^{name}-ours ")
        listing = run("dvabatch", "--list").stdout
        for name in ("overall-latency", "peak-bertbase", "peak-bertlarge", "peak-others"):
            self.assertRegex(listing, rf"(?m)^{name} ")
            self.assertRegex(listing, rf"(?m)^{name}-ours ")

    def test_a_fact_over_several_files_names_each(self):
        published, _ = rows(run("dvabatch", "--quick", "--json", "--only", "mean-low-zero-profile"))
        fact = published["mean-low-zero-profile"]
        pairs = [pair.split(" / ") for pair in fact["note"].split(", ")]
        self.assertEqual(len(pairs), 6, fact)
        ratios = [float(ours) / float(theirs) for ours, theirs in pairs]
        self.assertAlmostEqual(sum(ratios) / 6, fact["ours"], 3)
        self.assertLess(max(ratios), 1.02)  # D7: to ask the profile never costs much

    def test_the_closing_lines_agree_with_the_rows(self):
        text = run("e2bird", "--quick", "--values", self.kept)
        counts = [int(number) for number in CLOSING.search(text.stdout).groups()]
        answer = json.loads(self.e2bird.stdout)
        classes = collections.Counter(row["class"] for row in answer["published"])
        names = ("within 5 %", "within 10 %", "within 25 %", "better", "worse", "not attempted")
        self.assertEqual(counts[:7], [len(answer["published"]), *(classes[name] for name in names)])
        statuses = collections.Counter(row["status"] for row in answer["regression"])
        self.assertEqual(counts[7:], [statuses["holds"] + statuses["FAILS"], statuses["holds"], statuses["FAILS"]])
        self.assertEqual(answer["counts"]["published"]["count"], counts[0])
        self.assertEqual(answer["counts"]["regression"]["hold"], counts[8])

    def test_a_row_prints_the_command_that_reruns_it(self):
        answer = json.loads(self.e2bird.stdout)
        row = next(row for row in answer["published"] if row["id"] == "figure12-turns")
        words = row["command"].split()
        self.assertEqual(words[:2], ["tutti", "reproduce"])
        again, _ = rows(run(*words[2:], "--json"))
        self.assertEqual(again["figure12-turns"]["ours"], row["ours"])
        for row in answer["published"]:
            self.assertTrue(row["command"] or row["class"] == "not attempted", row)

    def test_values_of_an_earlier_output(self):
        """--values runs nothing, and gives the same tables; a number that is missing is not attempted."""
        with tempfile.TemporaryDirectory() as folder:
            page = pathlib.Path(folder, "page.md")
            again = run("e2bird", "--quick", "--json", "--values", self.kept)
            before, after = json.loads(self.e2bird.stdout), json.loads(again.stdout)
            self.assertEqual(after["counts"], before["counts"])
            for table in ("published", "regression"):
                for old, new in zip(before[table], after[table], strict=True):
                    self.assertEqual(old["id"], new["id"])
                    self.assertEqual(old["ours"] is None, new["ours"] is None)
                    self.assertAlmostEqual(old["ours"] or 0, new["ours"] or 0, 4)
            answer = run("e2bird", "--quick", "--values", self.kept, "--output", page)
            self.assertEqual(answer.returncode, 0, answer.stderr)
            lines = CLOSING.search(answer.stdout)[0]
            self.assertIn(lines, page.read_text())
            other = run("dvabatch", "--quick", "--values", self.kept, "--only", "pairs-1")
            self.assertEqual(other.returncode, 1, other.stdout)  # its value is not there
            empty = pathlib.Path(folder, "empty.json")
            empty.write_text("{}")
            self.assertEqual(run("e2bird", "--values", empty).returncode, 2)

    def test_all_systems(self):
        """Without SYSTEM: one page for all, and the sums of their counts."""
        with tempfile.TemporaryDirectory() as folder:
            page = pathlib.Path(folder, "page.md")
            answer = run("--quick", "--values", self.kept, "--output", page)
            counts = [int(number) for number in CLOSING.search(answer.stdout).groups()]
            text = page.read_text()
            for path in sorted((ROOT / "facts").glob("*.pbtxt")):
                title = re.search(r'^title: "(.*)"', path.read_text(), re.M)[1]
                self.assertEqual(text.count(f"\n## {title}\n"), 1)
            published = sum(path.read_text().count("\n  published: ") for path in (ROOT / "facts").glob("*.pbtxt"))
            self.assertEqual(counts[0], published)

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

    def test_only_a_regression_fails(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "wrong.pbtxt")
            experiment = ROOT / "experiments" / "symphony" / "table2-resnet50.pbtxt"
            fact = (
                'fact { id: "%s" what: "a bound of %s" published: 5000 %s\n'
                'ours { experiment: "%s" measure: STAGGERED_BOUND } }\n'
            )
            path.write_text(fact % ("far", "far", "", experiment))
            answer = run(path)
            self.assertEqual(answer.returncode, 0, answer.stdout + answer.stderr)
            self.assertIn("1.168  within 25 %", answer.stdout)
            path.write_text(fact % ("wrong", "wrong", "holds { golden: 5000 }", experiment))
            answer = run(path)
            self.assertEqual(answer.returncode, 1, answer.stdout + answer.stderr)
            self.assertIn("FAILS", answer.stdout)
            self.assertIn("regression 1: 0 hold, 1 fail\n", answer.stdout)

    def test_a_reason_has_what_its_tests_gave(self):
        """In the unit of the test, and without a value if only the reason's row was asked for."""
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "facts.pbtxt")
            experiment = ROOT / "experiments" / "symphony" / "table2-resnet50.pbtxt"
            fact = 'fact { id: "%s" what: "%s" published: 5839 unit: "%s" %s ours { experiment: "%s" measure: STAGGERED_BOUND } }\n'
            reason = 'why: "A reason." tested_by: ["test"]'
            path.write_text(
                fact % ("reason", "one", "x", reason, experiment) + fact % ("test", "another", "rows", "", experiment)
            )
            self.assertRegex(run(path, "--markdown").stdout, r"\| A reason\. Tested by test: \d+ rows\. \|")
            self.assertIn("| A reason. Tested by test. |", run(path, "--markdown", "--only", "reason").stdout)

    def test_list_and_markdown(self):
        listing = run("symphony", "--list")
        self.assertEqual(listing.returncode, 0)
        self.assertIn("example-stagger", listing.stdout)
        table = run("symphony", "--markdown", "--only", "example-*")
        self.assertEqual(table.returncode, 0, table.stderr)
        count = listing.stdout.count("\nexample-") + listing.stdout.startswith("example-")
        self.assertEqual(len(re.findall(r"^\| 3\.3", table.stdout, re.M)), 2 * count)

    def test_every_fact_is_in_the_document(self):
        """By its sentence, which is no other fact's: once in each table that it belongs to."""
        document = (ROOT / "docs" / "results" / "REPRODUCTION.md").read_text()
        found = collections.Counter(re.findall(r"^\| (.+?) \| ", document, re.M))
        for path in sorted((ROOT / "facts").glob("*.pbtxt")):
            facts = re.split(r"(?m)^fact \{\n", path.read_text())[1:]
            self.assertGreater(len(facts), 20, path)
            for fact in facts:
                what = re.search(r'^  what: "(.*)"', fact, re.M)[1]
                self.assertEqual(
                    found[what], ("\n  published: " in fact) + ("\n  holds {" in fact), f"{path.name}: {what}"
                )

    def test_a_number_is_not_shown_for_ours_alone(self):
        """Each published number that ours is compared with is compared with the published rule, too."""
        alone = {"symphony": ["densenet-24-over-eager"]}  # which of its values has 24 devices is not in the text
        for path in sorted((ROOT / "facts").glob("*.pbtxt")):
            variants = collections.defaultdict(set)
            for fact in re.split(r"(?m)^fact \{\n", path.read_text())[1:]:
                published = re.search(r"^  published: (.*)", fact, re.M)
                source = re.search(r'^  source: "(.*?)(; our option)?"', fact, re.M)[1]
                name = re.search(r'^  id: "(.*)"', fact, re.M)[1]
                if published and name not in alone.get(path.stem, ()):
                    variants[source, float(published[1])].add("  variant: OURS\n" in fact)
            self.assertEqual([key for key, of in variants.items() if of == {True}], [], path.name)

    def test_the_readme_states_the_closing_counts(self):
        page = (ROOT / "docs" / "results" / "REPRODUCTION.md").read_text()
        lines = re.search(r"published \d+: .*\nregression \d+: .*\n", page)[0]
        self.assertIn(f"```\n{lines}```\n", page)
        self.assertIn(f"```\n{lines}```\n", (ROOT / "README.md").read_text())

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
            quick, unkept = run(facts, "--quick"), run(facts)
            self.assertIn("regression 0: 0 hold, 0 fail\n", quick.stdout)
            self.assertIn("regression 1: 1 hold, 0 fail\n", unkept.stdout)
            self.assertEqual(list(pathlib.Path(folder).glob("*.state")), [])
            first = run(facts, "--json", "--sweeps", folder)
            self.assertEqual(first.returncode, 0, first.stderr)
            state = pathlib.Path(folder, "few.state")
            lines = state.read_text().splitlines()
            self.assertEqual(len(lines), 5)
            content = json.loads(first.stdout)
            self.assertEqual(content["published"], [])
            fact = content["regression"][0]
            self.assertEqual(fact["status"], "holds")
            # Another result for one search: it is believed, not searched again.
            changed = json.loads(lines[1])
            changed["result"]["goodput_per_s"] *= 1000
            other = [json.dumps(changed), *lines[2:]]
            state.write_text("\n".join([lines[0], *other]) + "\n")
            again = run(facts, "--json", "--sweeps", folder)
            self.assertNotEqual(json.loads(again.stdout)["regression"][0]["note"], fact["note"])
            self.assertEqual(state.read_text().splitlines()[1:], other)

    def test_bad_requests(self):
        for arguments, says in (
            (("--only", "figure-8"), "--only needs SYSTEM"),
            (("--output", "--json"), "a name is missing"),
            (("symphony", "--values", "/no/such"), "--values /no/such"),
            (("symfony",), "symphony"),
            (("symphony", "extra"), "unexpected argument 'extra'"),
            (("symphony", "--only", "nothing"), "nothing"),
            (("symphony", "--workers", "0"), "--workers"),
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
