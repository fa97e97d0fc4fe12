#!/usr/bin/env python3
"""A user's first day, with the installed program in an empty folder: an own scikit-learn model is exported, checked,
given an objective, profiled, planned, served, loaded, watched, replaced by a new version, and stopped. The commands and
the code are those of docs/QUICKSTART.md."""
import concurrent.futures
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import warnings

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "python"))

from documents import FENCE, commands  # noqa: E402
from needs import lacking, need  # noqa: E402

need("numpy", "onnx")

from plain_client import PROGRAM, Server, get  # noqa: E402

BUILD = pathlib.Path(PROGRAM).resolve().parent
QUICKSTART = ROOT / "docs" / "QUICKSTART.md"
NO_SKLEARN = lacking(["sklearn", "skl2onnx"])
PATIENCE_S = 60


def said_by_document(begin):
    """The one command of the quickstart that begins so."""
    [found] = [command for command, _ in commands(QUICKSTART) if command.startswith(begin)]
    return found


class Trained:
    """A classifier of a user's own; `rows` are inputs, and `expected` what it answers to each."""

    def __init__(self, seed):
        from sklearn.datasets import load_iris
        from sklearn.linear_model import LogisticRegression

        data = load_iris()
        self.rows = data.data.astype("float32")
        self.model = LogisticRegression(max_iter=500, C=1 / seed).fit(self.rows, data.target)
        self.expected = self.model.predict_proba(self.rows)
        self.input, self.output = "X", "probabilities"

    def export(self):
        """By the code of the quickstart, in this folder."""
        [code] = [text for kind, text in FENCE.findall(QUICKSTART.read_text()) if "skl2onnx" in text]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            exec(code, {"model": self.model, "X": self.rows})  # it writes model.onnx


class Ready:
    """Where scikit-learn is not installed: a model of scripts/make_models.py. Both versions are equal."""

    def __init__(self, _seed):
        import numpy
        from onnx.reference import ReferenceEvaluator

        folder = pathlib.Path(tempfile.mkdtemp(dir="."))
        maker = [sys.executable, "-B", ROOT / "scripts" / "make_models.py", "--out", folder, "--only", "mlp"]
        subprocess.run(maker, check=True, capture_output=True, timeout=60)
        self.file = folder / "mlp" / "1" / "model.onnx"
        self.rows = numpy.random.default_rng(1).random((20, 16), "float32")
        self.expected = ReferenceEvaluator(str(self.file)).run(None, {"input": self.rows})[0]
        self.input, self.output = "input", "output"

    def export(self):
        shutil.copy(self.file, "model.onnx")


class Walk(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name) / "a user's folder"
        self.folder.mkdir()
        self.prefix = pathlib.Path(folder.name) / "usr"
        subprocess.run(
            ["cmake", "--install", BUILD, "--prefix", self.prefix], check=True, capture_output=True, timeout=60
        )
        kept = {k: v for k, v in os.environ.items() if k.endswith("SAN_OPTIONS")}
        self.environment = dict(
            kept, PATH="%s:/usr/bin:/bin" % (self.prefix / "bin"), HOME=str(self.folder), LC_ALL="C.UTF-8"
        )
        before = os.getcwd()
        self.addCleanup(os.chdir, before)
        os.chdir(self.folder)

    def run_it(self, command, code=0):
        done = subprocess.run(
            ["bash", "-c", command], env=self.environment, capture_output=True, text=True, timeout=120
        )
        self.assertEqual(done.returncode, code, "%s\n%s%s" % (command, done.stdout, done.stderr))
        return done.stdout

    def by_document(self, begin):
        """Runs the quickstart's command against the server of this walk."""
        address = self.server.address if self.server else ""
        return self.run_it(said_by_document(begin).replace("127.0.0.1:8000", address))

    def put_version(self, trained, number):
        """Written beside, then moved: a user may do it while the server runs."""
        trained.export()
        pathlib.Path("models/shop").mkdir(parents=True, exist_ok=True)
        os.mkdir("fresh")
        os.rename("model.onnx", "fresh/model.onnx")
        os.rename("fresh", "models/shop/%d" % number)

    def infer(self, trained, row):
        """The status, the version, and whether the answer is that of the exported model."""
        body = {
            "inputs": [
                {
                    "name": trained.input,
                    "shape": [1, trained.rows.shape[1]],
                    "datatype": "FP32",
                    "data": trained.rows[row].tolist(),
                }
            ],
            "outputs": [{"name": trained.output}],
        }
        status, _, answer = get(self.server.address, "/v2/models/shop/infer", "POST", json.dumps(body))
        answer = json.loads(answer)
        if status != 200:
            return status, None, answer["error"]
        return status, answer["model_version"], answer["outputs"][0]["data"]

    def check_answer(self, trained, row, values):
        for got, expected in zip(values, trained.expected[row], strict=True):
            self.assertAlmostEqual(got, float(expected), places=4)

    def answered(self, trained, row=0):
        """An answer in time; a machine that is busy otherwise may refuse some."""
        until = time.monotonic() + PATIENCE_S
        while True:
            status, version, values = self.infer(trained, row)
            if status == 200:
                self.check_answer(trained, row, values)
                return version
            self.assertEqual(status, 503, values)
            self.assertIn("deadline", values)
            self.assertLess(time.monotonic(), until, values)

    def check_and_profile(self, trained):
        self.server = None
        self.put_version(trained, 1)
        shown = self.run_it("tutti models check models")
        self.assertRegex(shown, r"shop: ok, version 1, batches of up to \d+\n")
        self.assertRegex(shown, r"input +%s FP32 \[-1,%d\]" % (trained.input, trained.rows.shape[1]))
        written = said_by_document("cat > models/shop/tutti.pbtxt")
        self.run_it(written)
        self.assertIn("slo_ms: 20", pathlib.Path("models/shop/tutti.pbtxt").read_text())
        self.by_document("tutti models check models")
        self.run_it("tutti models check --load models")
        self.assertIn("rows/s", self.by_document("tutti profile models/shop"))
        self.assertTrue(pathlib.Path("models/shop/profile.pbtxt").exists())

    def plan(self):
        """`tutti plan` is part of the walk as soon as the program has it."""
        if "\n  plan " not in self.run_it("tutti --help"):
            print("the walk leaves out `tutti plan`: this program does not have it", file=sys.stderr)
            return
        # Without its check on a real server, which a busy machine may fail.
        planned = json.loads(self.run_it("tutti plan models --model shop --rate 50 --simulate-only --json"))
        for key in ("policy", "settings", "devices", "gain_over_simplest", "verdict"):
            self.assertIn(key, planned)
        self.assertGreaterEqual(planned["goodput_per_s"], 50)

    def serve(self):
        flags = ["--model-control-mode", "explicit", "--load-model", "*", "--drain-ms", "600000", "--grace-ms", "60000"]
        flags += ["--access-log", "access.log", "--dashboard", "0"]
        program = shutil.which("tutti", path=self.environment["PATH"])
        self.assertEqual(program, str(self.prefix / "bin" / "tutti"))
        self.server = Server("models", *flags, program=program, start={"env": self.environment})
        mapped = pathlib.Path("/proc/%d/maps" % self.server.process.pid).read_text()
        self.assertNotIn(str(ROOT), mapped)  # nothing of the build tree
        self.assertEqual(get(self.server.address, "/v2/health/ready")[0], 200)
        index = json.loads(self.by_document("curl -s -X POST http://127.0.0.1:8000/v2/repository/index"))
        self.assertEqual([(m["name"], m["state"], m["slo_ms"]) for m in index], [("shop", "READY", 20)])

    def load_and_watch(self):
        shown = self.by_document("tutti load http://127.0.0.1:8000")
        self.assertIn("bad %", shown)
        self.assertRegex(shown, r"(?m)^shop +\d+")
        self.assertRegex(self.by_document("tutti top http://127.0.0.1:8000 --once"), r"(?m)^shop:1 ")
        metrics = get(self.server.address, "/metrics")[2].decode()
        self.assertIn('tutti_slo_seconds{model="shop",version="1"} 0.02\n', metrics)
        accepted = re.search(r'tutti_requests_accepted_total\{model="shop",version="1"\} (\d+)', metrics)
        self.assertGreater(int(accepted.group(1)), 0)
        page = re.search(r"the live page is http://(\S+)/", self.server.said()).group(1)
        self.assertIn(b"<!doctype html>", get(page, "/")[2])
        [shown] = json.loads(get(page, "/state")[2])["models"]
        self.assertEqual((shown["name"], shown["state"]), ("shop", "READY"))

    def load_again(self):
        """The profile is of the old file: the server refuses, serves on, and says what to do."""
        status, _, answer = get(self.server.address, "/v2/repository/models/shop/load", "POST", "{}")
        if status == 400 and not NO_SKLEARN:
            self.assertIn("run `tutti profile models/shop`", answer.decode())
            self.assertEqual(self.index()["1"][0], "READY")
            self.assertIn("run `tutti profile models/shop`", self.index()["2"][1])
            self.by_document("tutti profile models/shop")
            status, _, answer = get(self.server.address, "/v2/repository/models/shop/load", "POST", "{}")
        self.assertEqual(status, 200, answer)
        self.assertEqual(self.index()["2"], ("READY", ""))

    def index(self):
        answer = get(self.server.address, "/v2/repository/index", "POST")[2]
        return {m["version"]: (m["state"], m["reason"]) for m in json.loads(answer)}

    def reload(self, old, new):
        """Clients ask all the time; each gets an answer of the one version or of the other."""
        ended = threading.Event()
        by_version = {"1": old, "2": new}

        def ask(number):
            versions = []
            while not ended.is_set() or len(versions) < 3:
                row = (number + len(versions)) % len(old.rows)
                status, version, values = self.infer(old, row)
                if status != 200:
                    self.assertEqual(status, 503, values)
                    self.assertIn("deadline", values)  # on a busy machine; it is an answer, too
                    continue
                self.check_answer(by_version[version], row, values)
                versions.append(version)
            return versions

        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            clients = [pool.submit(ask, number) for number in range(4)]
            try:
                self.put_version(new, 2)
                self.assertEqual(self.answered(old), "1")
                self.load_again()
                self.assertEqual(self.answered(new, 1), "2")
            finally:
                ended.set()
            for client in clients:
                versions = client.result(PATIENCE_S)
                self.assertEqual(versions, sorted(versions))  # never back to the old one

    def stop(self, trained):
        """Not ready first, while everything is served; a second signal ends the drain."""
        self.server.process.send_signal(signal.SIGTERM)
        until = time.monotonic() + PATIENCE_S
        while get(self.server.address, "/v2/health/ready")[0] == 200:
            self.assertLess(time.monotonic(), until)
            time.sleep(0.01)
        self.assertEqual(self.answered(trained), "2")
        self.assertEqual(self.server.end(signal.SIGTERM), 0, self.server.said())
        self.assertIn("stopped", self.server.said().splitlines()[-1])
        entries = [json.loads(line) for line in pathlib.Path("access.log").read_text().splitlines()]
        asked = [entry for entry in entries if entry["path"].endswith("/infer")]
        self.assertEqual({entry["status"] for entry in asked} - {200, 503}, set())
        self.assertGreater(len([entry for entry in asked if entry.get("batch")]), 100)

    def test_the_walk(self):
        if NO_SKLEARN:
            print("the walk takes a ready model: " + NO_SKLEARN, file=sys.stderr)
        make = Ready if NO_SKLEARN else Trained
        old, new = make(1), make(50)
        self.check_and_profile(old)
        self.plan()
        self.serve()
        self.answered(old, 3)
        self.load_and_watch()
        self.reload(old, new)
        self.stop(new)


if __name__ == "__main__":
    unittest.main()
