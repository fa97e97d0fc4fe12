#!/usr/bin/env python3
"""Every verb as a person meets it: help, bad requests in one line with exit code 2, good ones with 0."""
import json
import os
import pathlib
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
VERBS = ("serve", "models", "profile", "slice", "policies", "experiment", "reproduce", "load", "top", "bench")
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
        self.assertIn("lazyy", refused.stderr)


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
        shown = run("serve", "--help").stdout
        for flag, entry in limits.items():
            self.assertIn(flag + " N", shown)
            self.assertLessEqual(entry["lowest"], entry["standard"])
            self.assertLessEqual(entry["standard"], entry["highest"])

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

    def test_slice(self):
        self.assert_refused("slice", "/tmp", says="where to cut?")
        self.assert_refused("slice", "/tmp", "--stages", "0", says="--stages")
        self.assert_refused("slice", "/tmp", "--per-node", "--by-batch", says="not several")
        self.assert_refused("slice", "/no/such/place", "--per-node", says="/no/such/place")

    def test_profile_of_nothing(self):
        self.assert_refused("profile", "/no/such/place", says="/no/such/place")
        self.assert_refused("profile", "/tmp", "--link-gb-per-s", "0", says="--link-gb-per-s wants")


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
