#!/usr/bin/env python3
"""tutti reproduce --world: runs in real time, by processes, that are kept and not repeated."""
import json
import os
import pathlib
import signal
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = os.environ["TUTTI_PROGRAM"]
WAIT_S = 240  # a limit for machines with much else to do

# Requests every 20 ms, each alone for 20 ms on one device, answered within 0.2 s: 50 per second can be done.
EXPERIMENT = """
duration_s: 60 requests: 30 device { count: 1 }
model { name: "M" slo_ms: %d max_batch: 1 profile { linear { beta_ms: 20 } } }
load { rate: 100 process: UNIFORM } policy { name: "eager" } goodput { bad_rate: 0.1 precision: 0.6 }
"""
FACT = 'fact { id: "%s" what: "the value %s" %s unit: "r/s" ours { experiment: "e.pbtxt" set: "rate=%d" %s } }\n'


def command(*arguments):
    return [PROGRAM, "reproduce", *map(str, arguments)]


def run(*arguments):
    return subprocess.run(command(*arguments), capture_output=True, text=True, timeout=WAIT_S, cwd=ROOT)


class Worlds(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)
        self.facts = self.folder / "facts.pbtxt"
        self.kept = self.folder / "kept"

    def write(self, *facts, slo_ms=200):
        (self.folder / "e.pbtxt").write_text(EXPERIMENT % slo_ms)
        self.facts.write_text('title: "T" world: "emulated"\n' + "".join(facts))

    def measure(self, *arguments):
        return run(self.facts, "--world", "emulated", "--json", *arguments)

    def test_a_server_and_a_generator(self):
        """A served run and a search: the rows name their world, and state what else the machine did."""
        self.write(
            FACT % ("share", 1, "published: 1", 20, "measure: GOOD_SHARE served: true"),
            FACT % ("mean", 2, "", 20, "measure: LATENCY_MEAN_MS served: true"),
            slo_ms=60000,
        )
        answer = self.measure("--resume", self.kept)
        self.assertEqual(answer.returncode, 0, answer.stderr)
        content = json.loads(answer.stdout)
        self.assertEqual(content["world"], "emulated")
        [share], [mean] = content["published"], content["measured"]
        self.assertEqual(share["ours"], 1, share)
        self.assertEqual(share["class"], "within 5 %")
        self.assertGreaterEqual(mean["ours"], 20, mean)
        for row in (share, mean):
            self.assertEqual(row["world"], "emulated, by processes")
            self.assertRegex(row["note"], r"\d{4}-\d\d-\d\d, \d+ cores, load average before it at most [\d.]+, others used")
            self.assertIn("--world emulated --only", row["command"])
        self.assertEqual(content["regression"], [])
        # Both are one run, which was kept with what the processes used.
        [head, line] = (self.kept / "facts-emulated.state").read_text().splitlines()
        self.assertEqual(json.loads(head)["kind"], "emulated")
        self.assertGreater(json.loads(line)["result"]["processors"], 0)
        self.assertIn("1 of 1: share, policy eager (rate=20), seed", answer.stderr)

    def test_streams_of_a_device(self):
        """E1, E7: workers with inputs copied one by one, and a baseline with whole batches, on the device of a server."""
        self.write(
            FACT % ("workers", 1, "", 20, 'set: "policy=elastic" set: "executors=2" set: "pool_slots=8" measure: GOOD_SHARE served: true'),
            FACT % ("baseline", 2, "", 20, 'set: "policy=window" measure: GOOD_SHARE served: true'),
            slo_ms=60000,
        )
        experiment = self.folder / "e.pbtxt"
        copies = "copy_in { fixed_us: 100 gb_per_s: 1 } copy_out { fixed_us: 100 gb_per_s: 1 }"
        text = experiment.read_text().replace("device { count: 1 }", "device { %s }" % copies)
        experiment.write_text(text.replace("max_batch: 1", "max_batch: 4 input_bytes: 100000 output_bytes: 1000"))
        answer = self.measure()
        self.assertEqual(answer.returncode, 0, answer.stderr)
        self.assertEqual([row["ours"] for row in json.loads(answer.stdout)["measured"]], [1, 1])

    def test_a_search(self):
        self.write(FACT % ("peak", 1, "", 100, "measure: GOODPUT served: true"))
        answer = self.measure("--resume", self.kept)
        self.assertEqual(answer.returncode, 0, answer.stderr)
        result = json.loads((self.kept / "facts-emulated.state").read_text().splitlines()[1])["result"]
        self.assertEqual(json.loads(answer.stdout)["measured"][0]["ours"], result["goodput_per_s"])
        self.assertGreater(result["goodput_per_s"], 0)
        self.assertLess(result["goodput_per_s"], 100)  # 30 requests at 100 per second end too late
        self.assertLessEqual(result["worst_bad_rate"], 0.1)
        self.assertNotIn("median_batch", result)  # a client does not see it
        # A result that is kept is believed.
        state = self.kept / "facts-emulated.state"
        state.write_text(state.read_text().replace('"goodput_per_s":', '"goodput_per_s":1234.0,"before":'))
        again = self.measure("--resume", self.kept)
        self.assertEqual(json.loads(again.stdout)["measured"][0]["ours"], 1234)
        self.assertNotIn("policy eager", again.stderr)

    def test_an_interrupted_call_goes_on(self):
        """SIGINT in the second of three runs, which lasts half a minute; the first is not repeated, the third is made."""
        rates = {"a": 20, "b": 1, "c": 30}
        self.write(*(FACT % (name, rate, "", rate, "measure: GOOD_SHARE") for name, rate in rates.items()), slo_ms=60000)
        arguments = command(self.facts, "--world", "emulated", "--json", "--resume", self.kept)
        with subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT) as process:
            try:
                said = [process.stderr.readline() for _ in range(3)]  # a began, a ended, b began
                self.assertRegex("".join(said), r"1 of 3: a,.*\n1 of 3: a,.* s\n2 of 3: b,")
                process.send_signal(signal.SIGINT)
                out, errors = process.communicate(timeout=WAIT_S)
            except BaseException:
                process.kill()
                raise
        self.assertEqual(process.returncode, 130, errors)
        rows = {row["id"]: row["ours"] for row in json.loads(out)["measured"]}
        self.assertEqual(rows, {"a": 1, "b": None, "c": None})
        answer = self.measure("--resume", self.kept, "--only", "a", "--only", "c")
        self.assertEqual(answer.returncode, 0, answer.stderr)
        self.assertIn("1 of 1: c,", answer.stderr)
        self.assertNotIn(": a,", answer.stderr)
        self.assertEqual([row["ours"] for row in json.loads(answer.stdout)["measured"]], [1, 1])

    def test_values_of_a_world_stay_in_it(self):
        """An output of another world gives no values; one of this world gives them."""
        self.write(FACT % ("share", 1, "published: 1", 20, "measure: GOOD_SHARE"), slo_ms=60000)
        output = self.folder / "output.json"
        output.write_text(self.measure().stdout)
        page = self.folder / "page.md"
        answer = self.measure("--values", output, "--output", page)
        self.assertEqual(json.loads(answer.stdout)["published"][0]["ours"], 1)
        self.assertIn("# Reproduction in real time: the tables\n\n`tutti reproduce --world emulated` writes", page.read_text())
        other = json.loads(output.read_text())
        del other["world"]
        output.write_text(json.dumps(other))
        answer = self.measure("--values", output)
        self.assertIsNone(json.loads(answer.stdout)["published"][0]["ours"])

    def test_shipped_facts_are_of_their_world(self):
        for world in ("emulated", "real"):
            together = 0
            for path in sorted((ROOT / "facts" / world).glob("*.pbtxt")):
                self.assertIn(f'\nworld: "{world}"\n', path.read_text())
                listing = run(path.stem, "--world", world, "--list")
                self.assertEqual(listing.returncode, 0, listing.stderr)
                self.assertEqual(len(listing.stdout.splitlines()), path.read_text().count("\nfact {\n"))
                together += path.read_text().count("\nfact {\n")
            self.assertEqual(len(run("--world", world, "--list").stdout.splitlines()), together)

    def test_bad_requests(self):
        self.write(FACT % ("share", 1, "", 20, "measure: GOOD_SHARE"))
        for arguments, words in (
            (["symphony", "--world", "moon"], "--world must be simulated, emulated or real"),
            (["moon", "--world", "emulated"], "no facts about 'moon' in the world emulated; known systems:"),
            (["symphony", "--resume", self.kept], "--resume keeps runs of --world emulated and --world real"),
            ([self.facts], "these facts are of the world emulated; give --world emulated"),
            ([self.facts, "--world", "real"], "these facts are of the world emulated; give --world emulated"),
        ):
            answer = run(*arguments)
            self.assertEqual(answer.returncode, 2, answer.stderr)
            self.assertIn(words, answer.stderr)
        self.assertFalse(self.kept.exists())
        if not (ROOT / "demo" / "experiment-models").exists():
            answer = run("batchmaker", "--world", "real", "--quick")
            self.assertEqual(answer.returncode, 2, answer.stderr)
            self.assertIn("scripts/experiment_models.sh", answer.stderr)


if __name__ == "__main__":
    unittest.main()
