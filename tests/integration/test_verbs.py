#!/usr/bin/env python3
"""Every verb on the command line: help, usage errors in one line with exit code 2, success with 0."""
import json
import os
import pathlib
import re
import socket
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "python"))

from needs import needing  # noqa: E402

PROGRAM = os.environ["TUTTI_PROGRAM"]
VERBS = (
    "plan", "place", "serve", "models", "profile", "slice", "policies", "experiment", "replay", "reproduce", "compare", "load", "token", "top", "bench", "cluster", "chaos", "autoscale",
)  # fmt: skip
MODELS = None


def run(*arguments, timeout=120):
    return subprocess.run(
        [PROGRAM, *map(str, arguments)], capture_output=True, text=True, timeout=timeout
    )


class Help(unittest.TestCase):
    def test_version(self):
        self.assertRegex(run("--version").stdout, r"^tutti \d+\.\d+\.\d+\n$")

    def test_every_verb_has_help(self):
        listing = run("--help")
        self.assertEqual(listing.returncode, 0)
        for verb in VERBS:
            self.assertIn(verb, listing.stdout)
            answer = run(verb, "--help")
            self.assertEqual(answer.returncode, 0, answer.stderr)
            self.assertIn("Usage: tutti " + verb, answer.stdout)


class Cluster(unittest.TestCase):
    def test_without_a_name(self):
        with tempfile.TemporaryDirectory() as empty:
            answer = subprocess.run([PROGRAM, "cluster", "status"], capture_output=True, text=True, timeout=60, cwd=empty)
        self.assertEqual((answer.returncode, answer.stdout), (2, ""))
        for words in "build/cluster/nodes", "make cluster", "static:FILE":
            self.assertIn(words, answer.stderr)


class Flags(unittest.TestCase):
    """What holds for every flag of every verb, by the table that feeds parser, help, man page and completion."""

    @classmethod
    def setUpClass(cls):
        cls.verbs = json.loads(run("--describe").stdout)
        cls.flags = [
            (verb["name"], row)
            for verb in cls.verbs
            for row in verb["rows"]
            if row["type"] != "heading" and not row["operand"]
        ]

    def refused(self, verb, *arguments, says):
        answer = run(verb, *arguments)
        self.assertEqual((answer.returncode, answer.stdout), (2, ""), arguments)
        self.assertEqual(len(answer.stderr.splitlines()), 1, answer.stderr)
        self.assertTrue(answer.stderr.startswith("tutti %s: " % verb), answer.stderr)
        for words in says:
            self.assertIn(words, answer.stderr)

    def accepted(self, verb, *arguments):
        """Flags are read in order, so that --help behind them is reached only if they are accepted."""
        answer = run(verb, *arguments, "--help")
        self.assertEqual((answer.returncode, answer.stderr), (0, ""), arguments)

    def test_verbs_and_tables(self):
        self.assertEqual({verb["name"] for verb in self.verbs}, set(VERBS))
        for verb in self.verbs:
            names = [row["name"] for row in verb["rows"] if row["type"] != "heading"]
            self.assertEqual(len(names), len(set(names)), verb["name"])
            self.assertEqual(names[-1], "help")

    def test_help_shows_every_row_and_its_default(self):
        for verb in self.verbs:
            text = run(verb["name"], "--help").stdout
            for line in text.splitlines():
                self.assertLessEqual(len(line), 100, line)
            joined = " ".join(text.split())
            for row in verb["rows"]:
                with self.subTest(verb=verb["name"], row=row["name"]):
                    if row["type"] == "heading":
                        self.assertIn("\n%s:\n" % row["name"], text)
                        continue
                    self.assertRegex(text, r"(?m)^  %s(  |$)" % re.escape(row["shown"]))
                    self.assertIn(" ".join((row["shown"] + " " + row["help"]).split()), joined)
                    if "default" in row:
                        self.assertIn(row["help"] + " (default " + row["default"], joined)

    def test_numbers_outside_their_ranges(self):
        for verb, row in self.flags:
            if row["type"] not in ("integer", "decimal"):
                continue
            with self.subTest(verb=verb, flag=row["name"]):
                flag, low, high = "--" + row["name"], row["minimum"], row["maximum"]
                self.accepted(verb, "%s=%s" % (flag, low), flag, high)
                below = 0 if 0 < low < 1e-300 else low - 1
                for number in (below, high + 1 if row["type"] == "integer" else high * 1.01, "x", "", "1x"):
                    self.refused(verb, flag, number, says=(flag, row["allowed"], "'%s'" % number))
                if "default" in row:
                    self.assertLessEqual(low, float(row["default"]))
                    self.assertLessEqual(float(row["default"]), high)

    def test_choices(self):
        for verb, row in self.flags:
            if row["type"] not in ("choice", "bool"):
                continue
            with self.subTest(verb=verb, flag=row["name"]):
                for word in row["choices"].split("|"):
                    self.accepted(verb, "--" + row["name"], word)
                    self.assertIn(word, row["allowed"])
                for word in ("", "nonsense", row["choices"]):
                    self.refused(verb, "--" + row["name"], word, says=("--" + row["name"] + " must be", row["allowed"]))

    def test_unknown_flags_and_missing_values(self):
        for verb, row in self.flags:
            with self.subTest(verb=verb, flag=row["name"]):
                flag = "--" + row["name"]
                wrong = flag[:-1] + "0" + flag[-1]
                self.refused(verb, wrong, says=("unknown flag " + wrong, "did you mean '%s'?" % flag))
                if " " in row["shown"]:
                    self.refused(verb, flag, says=("a value is missing after " + flag,))
                else:
                    self.refused(verb, flag + "=1", says=(flag + " takes no value",))
        self.refused("load", "--completely-different", says=("unknown flag --completely-different; see",))

    def test_flags_that_need_others(self):
        """Without those they would have no effect."""
        needy = [(verb, row) for verb, row in self.flags if "needs" in row]
        self.assertLessEqual({"trace-sample", "scale-hold-s", "scale-limits"}, {row["name"] for _, row in needy})
        for verb, row in needy:
            value = {"integer": [str(row.get("minimum"))], "decimal": [str(row.get("minimum"))], "text": ["x"], "list": ["x"]}
            given = ["--" + row["name"], *value.get(row["type"], [])]
            needed = row["needs"].split("|")
            with self.subTest(verb=verb, flag=row["name"]):
                names = " or ".join(filter(None, (", ".join("--" + name for name in needed[:-1]), "--" + needed[-1])))
                self.refused(verb, *given, says=("--%s needs %s;" % (row["name"], names),))
                for name in needed:
                    kind = next(other["type"] for _, other in self.flags if other["name"] == name)
                    done = run(verb, *given, "--" + name, *value.get(kind, []))
                    self.assertNotIn("--%s needs" % row["name"], done.stderr)

    def test_repeated_flags(self):
        for verb, row in self.flags:
            if row["type"] == "list":
                with self.subTest(verb=verb, flag=row["name"]):
                    many = ["--%s=x" % row["name"]] * 300
                    self.refused(verb, *many, says=("--%s can be given at most " % row["name"],))

    def test_forms(self):
        self.accepted("load", "--conc", "3", "--rate=5")  # a prefix that only one flag has
        self.refused("load", "--r", "3", says=("unknown flag --r",))
        self.refused("top", "--", "--once", "--json", says=("unexpected argument '--json'",))
        wrong = run("exprement")
        self.assertEqual(wrong.returncode, 2)
        self.assertIn("did you mean 'experiment'?", wrong.stderr)


class Policies(unittest.TestCase):
    def test_every_policy_and_its_options(self):
        listed = [line.split()[0] for line in run("policies").stdout.splitlines()]
        self.assertLessEqual({"deferred", "lazy", "cellular", "elastic", "diversity"}, set(listed))
        answer = run("policies", *listed)
        self.assertEqual(answer.returncode, 0, answer.stderr)
        self.assertIn("  foreign: shorter|slack|never|turns (shorter)\n", answer.stdout)
        self.assertIn("  coverage: 0 .. 1 (0.9)\n", answer.stdout)
        self.assertRegex(answer.stdout, r"(?m)^  max_delay: 0 \.\. 3600s$")
        refused = run("policies", "lazyy")
        self.assertEqual((refused.returncode, refused.stdout), (2, ""))
        self.assertIn("unknown policy 'lazyy' (did you mean 'lazy'?)", refused.stderr)
        self.assertIn("(did you mean 'auto'?)", run("policies", "aut").stderr)

    def test_json_says_what_a_policy_is(self):
        listed = [line.split()[0] for line in run("policies").stdout.splitlines()]
        policies = {policy["name"]: policy for policy in json.loads(run("policies", "--json").stdout)}
        self.assertEqual(list(policies), listed)
        self.assertEqual(json.loads(run("policies", "window", "--json").stdout), [policies["window"]])
        window, elastic = policies["window"], policies["elastic"]["serving"]["workers"]
        self.assertEqual(window["serving"]["defaults"], {"same_length": "on", "drop": "deadline"})
        self.assertEqual(window["serving"]["same_shape"], {"same_length": "on"})
        self.assertEqual(elastic, {"sizes": "workers", "plans": "configurations", "measured": {"variant": "enhanced"}})
        for policy in policies.values():
            self.assertIn(policy["traits"]["granularity"], ("graph", "stage", "node", "cell"))
            options = {option["key"]: option for option in policy["options"]}
            self.assertLessEqual(set(policy["serving"]["defaults"]), set(options))
            for option in options.values():
                if option["type"] == "choice":
                    self.assertIn(option["default"], option["choices"])
                else:
                    self.assertLessEqual(option["minimum"], option["maximum"])
        delay = next(option for option in window["options"] if option["key"] == "max_delay")
        self.assertEqual((delay["type"], delay["default"], delay["maximum"]), ("duration_ns", None, 3600 * 10**9))


class BadRequests(unittest.TestCase):
    def assert_refused(self, *arguments, says):
        answer = run(*arguments)
        self.assertEqual(answer.returncode, 2, answer.stderr)
        self.assertEqual(answer.stdout, "")
        self.assertEqual(len(answer.stderr.strip().splitlines()), 1, answer.stderr)
        self.assertIn(says, answer.stderr)

    def test_unknown_verb(self):
        self.assert_refused("sevre", says="sevre")

    def test_unknown_flags(self):
        for verb in ("serve", "profile"):
            self.assert_refused(verb, "--no-such-flag", says="--no-such-flag")

    def test_serve_needs_a_repository(self):
        self.assert_refused("serve", says="--model-repository")

    def test_serve_bad_model_control(self):
        repository = ("serve", "--model-repository", "/tmp")
        self.assert_refused(*repository, "--model-control-mode", "often", says="often")
        self.assert_refused(*repository, "--load-model", "a", says="explicit")
        with tempfile.TemporaryDirectory() as empty:
            self.assert_refused(
                "serve", "--model-repository", empty, "--model-control-mode", "explicit",
                "--load-model", "nobody", says="nobody"
            )

    def test_serve_limits(self):
        self.assert_refused("serve", "--max-body-bytes", "0", says="from 1 to")
        self.assert_refused("serve", "--json", says="--show-limits")
        answer = run("serve", "--max-json-depth", "7", "--show-limits")
        self.assertEqual(answer.returncode, 0, answer.stderr)
        self.assertRegex(answer.stdout, r"--max-json-depth +7 ")
        answer = run("serve", "--idle-timeout-ms", "1234", "--show-limits", "--json")
        limits = {entry["flag"]: entry for entry in json.loads(answer.stdout)}
        self.assertEqual(limits["--idle-timeout-ms"]["value"], 1234)
        self.assertEqual(limits["--executors"]["value"], len(os.sched_getaffinity(0)))
        given = run("serve", "--executors", "7", "--connection-threads", "2", "--show-limits", "--json")
        threads = {entry["flag"]: entry["value"] for entry in json.loads(given.stdout)}
        self.assertEqual((threads["--executors"], threads["--connection-threads"]), (7, 2))
        shown = run("serve", "--help").stdout
        for flag, entry in limits.items():
            self.assertRegex(shown, r"%s (N|MS)\b" % flag)
            self.assertTrue(entry["meaning"])
            self.assertLessEqual(entry["lowest"], entry["default"])
            self.assertLessEqual(entry["default"], entry["highest"])
        bounds = re.findall(r"^ *(--(?:max-\S+|limit-\S+|\S+-(?:max-bytes|ms))) (?:N|MS)\b", shown, re.M)
        self.assertGreater(len(bounds), 20)
        self.assertLessEqual(set(bounds), set(limits))  # each is explained

    def test_serve_bad_port(self):
        self.assert_refused(
            "serve", "--model-repository", "/tmp", "--http-port", "70000", says="70000"
        )

    def test_serve_repository_that_is_not_there(self):
        self.assert_refused("serve", "--model-repository", "/no/such/place", says="/no/such/place")

    def test_serve_port_in_use(self):
        with socket.socket() as taken, tempfile.TemporaryDirectory() as empty:
            taken.bind(("127.0.0.1", 0))
            taken.listen(1)
            port = str(taken.getsockname()[1])
            self.assert_refused(
                "serve", "--model-repository", empty, "--http-port", port, says=port
            )

    def test_serve_ports_of_two_listeners(self):
        """Said before models are loaded: the repository that is not there would be an error, too."""
        flags = {
            "http-port": ("%d", "--http-host", "127.0.0.1"),
            "metrics-port": ("%d",),
            "grpc-port": ("%d",),
            "dashboard": ("localhost:%d",),
            "admin": ("127.0.0.1:%d",),
        }
        pairs = [(a, b) for a in flags for b in flags if a < b]
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        serve = ("serve", "--model-repository", "/no/such/place")
        other = ("--http-port", "0")
        for a, b in pairs:
            with self.subTest(a=a, b=b):
                given = ["--%s" % a, flags[a][0] % port, *flags[a][1:], "--%s" % b, flags[b][0] % port, *flags[b][1:]]
                more = () if "http-port" in (a, b) else other
                done = run(*serve, *more, *given)
                self.assertEqual(done.returncode, 2)
                for text in ("--%s" % a, "--%s" % b, "both ask for port %d" % port):
                    self.assertIn(text, done.stderr)
        for host, place, meets in (
            ("0.0.0.0", "127.0.0.2", True),
            ("::", "127.0.0.1", True),
            ("0.0.0.0", "[::1]", False),
            ("127.0.0.1", "127.0.0.2", False),
        ):
            with self.subTest(host=host, place=place):
                done = run(*serve, "--insecure", "--http-host", host, "--http-port", str(port), "--grpc-port", "0",
                           "--dashboard", "%s:%d" % (place, port))  # fmt: skip
                self.assertEqual("both ask for port" in done.stderr, meets, done.stderr)
        done = run(*serve, "--http-port", "8001")
        if "in use" not in done.stderr:
            self.assertIn("no gRPC: another flag has its port, 8001", done.stderr)
            self.assertIn("/no/such/place", done.stderr)

    def test_experiment_parameters(self):
        """Flags that set what a sweep can set are checked with the experiment."""
        file = ROOT / "experiments" / "symphony" / "densenet121-8-devices.pbtxt"
        for flag, value in (("--seed", "-1"), ("--seed", "1.5"), ("--rate", "-1"), ("--world", "dreamt")):
            self.assert_refused("experiment", file, flag, value, says="'%s'" % value)
        self.assert_refused("experiment", file, "--policy", "lazyy", says="lazyy")
        self.assert_refused("experiment", file, "--set", "rate", says="--set must be KEY=VALUE, not 'rate'")
        self.assert_refused("experiment", file, "--draw", "5,4", says="--draw must be FROM,UNTIL")
        self.assert_refused("experiment", file, "--draw", "4,5", says="--draw needs a chart: --svg or --html")
        with tempfile.TemporaryDirectory() as folder:
            negative = pathlib.Path(folder, "negative.pbtxt")
            negative.write_text(re.sub(r"(?m)^seed:.*\n", "", file.read_text()) + "seed: -1\n")
            self.assert_refused("experiment", negative, says="seed is -1; it must be >= 0")

    def test_slice(self):
        self.assert_refused("slice", "/tmp", says="no cut is given")
        self.assert_refused("slice", "/tmp", "--stages", "0", says="--stages")
        self.assert_refused("slice", "/tmp", "--per-node", "--by-batch", says="exclude each other")
        self.assert_refused("slice", "/no/such/place", "--per-node", says="/no/such/place")

    def test_profile_of_nothing(self):
        self.assert_refused("profile", "/no/such/place", says="/no/such/place")
        self.assert_refused("profile", "/tmp", "--link-gb-per-s", "0", says="--link-gb-per-s G must be a number above 0")


@needing("onnx")
class Models(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.models = pathlib.Path(cls.folder.name)
        subprocess.run(
            [sys.executable, ROOT / "scripts" / "make_models.py", "--out", cls.models]
            + ["--only", "mlp", "cnn"],
            check=True,
            capture_output=True,
        )

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def test_check(self):
        answer = run("models", "check", self.models)
        self.assertEqual(answer.returncode, 0, answer.stdout + answer.stderr)
        self.assertIn("mlp", answer.stdout)

    def test_check_explains(self):
        with tempfile.TemporaryDirectory() as folder:
            model = pathlib.Path(folder, "m")
            (model / "1").mkdir(parents=True)
            (model / "1" / "model.onnx").write_bytes(
                (self.models / "mlp" / "1" / "model.onnx").read_bytes()
            )
            (model / "config.pbtxt").write_text('name: "m"\nmax_batch_sise: 4\n')
            answer = run("models", "check", folder)
            self.assertEqual(answer.returncode, 1)
            self.assertIn("config.pbtxt:2:", answer.stdout + answer.stderr)
            self.assertIn("max_batch_size", answer.stdout + answer.stderr)

    # D1: the cut, what is said of it, and its picture; stages that are there are not overwritten.
    def test_slice(self):
        with tempfile.TemporaryDirectory() as folder:
            out = pathlib.Path(folder, "stages")
            picture = pathlib.Path(folder, "cut.svg")
            answer = run(
                "slice", self.models / "cnn", "--stages", 3, "--out", out, "--explain",
                "--svg", picture,
            )  # fmt: skip
            self.assertEqual(answer.returncode, 0, answer.stderr)
            self.assertIn("cnn, stages 3: 3 stages; times: measured", answer.stdout)
            self.assertEqual(answer.stdout.count("  cut after "), 2)
            self.assertIn("per row", answer.stdout)
            self.assertIn("</svg>", picture.read_text())
            self.assertEqual(
                sorted(p.name for p in out.iterdir()),
                ["slices.pbtxt"] + ["stage-%04d.onnx" % s for s in range(3)] + ["weights.bin"],
            )
            again = run("slice", self.models / "cnn", "--stages", 3, "--out", out)
            self.assertEqual(again.returncode, 2)
            self.assertIn("is there already", again.stderr)
            more = run("slice", self.models / "cnn", "--stages", 400)
            self.assertEqual(more.returncode, 2)
            self.assertIn("at most", more.stderr)
            onnx = self.models / "cnn" / "1" / "model.onnx"
            self.assertEqual(run("slice", onnx, "--per-node").returncode, 0)

    def test_profile_writes_what_check_accepts(self):
        answer = run("profile", self.models / "mlp", "--max-batch", 4, "--runs", 3)
        self.assertEqual(answer.returncode, 0, answer.stderr)
        text = (self.models / "mlp" / "profile.pbtxt").read_text()
        for batch in (1, 2, 4):
            self.assertIn("batch: %d " % batch, text)
        self.assertEqual(run("models", "check", self.models).returncode, 0)
        # The weights are the file's, but for its text; a plan of a cluster reads them.
        static = re.search(r"^static_mib: ([\d.]+)$", text, re.M)
        weights = (self.models / "mlp" / "1" / "model.onnx").stat().st_size / 1048576
        self.assertTrue(0.9 * weights <= float(static[1]) < weights + 64, (static, weights))
        self.assertRegex(answer.stderr, r"memory: [\d.]+ MiB static, [\d.]+ for a run of the largest batch")
        # The same as a table: a row per batch, one of them is the best.
        rows = re.findall(r"^ +(\d+) +([\d.]+) +([\d.]+) - +([\d.]+) +(\d+)(  best)?$", answer.stdout, re.M)
        self.assertEqual([int(row[0]) for row in rows], [1, 2, 4])
        self.assertEqual(len([row for row in rows if row[5]]), 1)
        best = max(rows, key=lambda row: int(row[4]))
        self.assertTrue(best[5])

    def test_profile_as_json(self):
        flags = ("--max-batch", 4, "--runs", 3, "--executors", 1, "--json", "--slo-ms")
        answer = run("profile", self.models / "mlp", *flags, 60000)
        self.assertEqual(answer.returncode, 0, answer.stderr)
        table = json.loads(answer.stdout)
        self.assertEqual((table["model"], table["slo_ms"]), ("mlp", 60000))
        points = table["points"]
        self.assertEqual([(p["batch"], p["length"], p["cell"]) for p in points], [(b, None, None) for b in (1, 2, 4)])
        for point in points:
            self.assertLessEqual(point["p10_ms"], point["p50_ms"])
            self.assertLessEqual(point["p50_ms"], point["p90_ms"])
            self.assertAlmostEqual(point["rows_per_s"] * point["p50_ms"], point["batch"] * 1e3)
            self.assertEqual(point["best"], point["rows_per_s"] == max(p["rows_per_s"] for p in points))
            self.assertEqual((point["busy"], point["demand"]), ([], None))  # one executor: nothing runs beside
        # In a minute every batch runs in time, also behind another; in a microsecond none does.
        self.assertEqual(table["within_slo"], [{"length": None, "batch": 4, "batch_behind_another": 4}])
        answer = run("profile", self.models / "mlp", *flags, 0.001)
        self.assertEqual(json.loads(answer.stdout)["within_slo"][0]["batch"], 0)
        answer = run("profile", self.models / "mlp", "--json", "--output", "-")
        self.assertEqual((answer.returncode, answer.stdout), (2, ""))
        self.assertIn("leave --workers and --output - out", answer.stderr)

    def test_profile_measures_demand(self):
        """D7: run times beside others and the demand, in the file and in the table; also for models check."""
        answer = run("profile", self.models / "cnn", "--max-batch", 4, "--runs", 3, "--executors", 3, "--json")
        self.assertEqual(answer.returncode, 0, answer.stderr)
        path = self.models / "cnn" / "profile.pbtxt"
        text = path.read_text()
        self.assertRegex(text, r"\nprocessors: \d+\nexecutors: 3\n")
        measured = 0
        for point in json.loads(answer.stdout)["points"]:
            for busy in point["busy"]:
                self.assertIn(busy["executors"], (2, 3))
                self.assertLessEqual(busy["p10_ms"], busy["p50_ms"])
            if point["demand"]:  # a machine that others use may measure none
                measured += 1
                shares = [point["demand"][key] for key in ("p10", "p50", "p90")]
                self.assertEqual(shares, sorted(shares))
                self.assertGreaterEqual(shares[0], 0.333333)
                self.assertLessEqual(shares[2], 1)
                self.assertIn(" demand: %.6f " % shares[1], text)
        self.assertEqual(len(re.findall(r" demand: ", text)), measured)
        self.assertEqual(run("models", "check", self.models).returncode, 0)
        table = run("profile", self.models / "cnn", "--max-batch", 1, "--runs", 3, "--executors", 2).stdout
        self.assertRegex(table, r"batch +executors +p50 ms +slowdown +demand")

    def test_profile_says_what_overlapping_gains(self):
        """E6: equation 1, for copies from memory to memory, or over the link that one names."""
        answer = run("profile", self.models / "mlp", "--max-batch", 4, "--runs", 3)
        self.assertIn("overlap at batch 1: 80 bytes take", answer.stderr)  # 16 floats in, 4 out
        self.assertIn("overlap at batch 4: 320 bytes take", answer.stderr)
        self.assertIn("from memory to memory", answer.stderr)
        # 80 bytes at 80 bytes a second take a second: all of the computation is hidden, and nearly no time is saved.
        slow = run("profile", self.models / "mlp", "--max-batch", 1, "--runs", 3, "--link-gb-per-s", "8e-8")
        self.assertIn("80 bytes take 1000000.0 us over the link", slow.stderr)
        self.assertRegex(slow.stderr, r"adds 0\.[0-9] % of throughput")


if __name__ == "__main__":
    unittest.main(verbosity=1)
