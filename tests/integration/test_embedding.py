#!/usr/bin/env python3
"""libtutti.so: the examples in C and Python, answers equal to the server's, errors, deadlines, cancellation, and what it exports."""
import array
import http.client
import json
import os
import pathlib
import queue
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "python"))
sys.path.insert(0, str(ROOT / "examples" / "embed"))

from needs import need, skip  # noqa: E402

need("numpy", "onnx")

LIBRARY = os.environ["TUTTI_LIBRARY"]
if not LIBRARY:
    skip("builds with sanitizers have no libtutti.so")

from embed import Server as Embedded  # noqa: E402
from embed import TuttiError  # noqa: E402
from plain_client import Server  # noqa: E402

CODES = dict(
    re.findall(r"TUTTI_(\w+) = (-?\d+)", (ROOT / "include" / "tutti" / "tutti.h").read_text())
)
EMULATED = """backend: "emulated"
max_batch_size: 8
input { name: "INPUT0" data_type: TYPE_FP32 dims: 4 }
output { name: "OUTPUT0" data_type: TYPE_FP32 dims: 4 }
"""
ROW = array.array("f", [0.5] * 16).tobytes()


def code(name):
    return int(CODES[name])


def make_models(folder):
    models = pathlib.Path(folder) / "models"
    maker = [sys.executable, ROOT / "scripts" / "make_models.py", "--out", models, "--only", "mlp", "seq2seq64"]
    subprocess.run(maker, check=True, capture_output=True)
    for name, profile in ("echo", "linear { beta_ms: 0.001 }"), ("long", "linear { beta_ms: 3000 }"):
        (models / name / "1").mkdir(parents=True)
        (models / name / "config.pbtxt").write_text(EMULATED)
        (models / name / "profile.pbtxt").write_text(profile + "\n")
    broken = models / "broken"
    (broken / "1").mkdir(parents=True)
    (broken / "1" / "model.onnx").write_text("this is no model")
    return models


if "libasan" in subprocess.run(["ldd", LIBRARY], capture_output=True, text=True).stdout:
    skip("a library with sanitizers needs a program that has them")


class Embed(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        cls.models = make_models(cls.folder.name)

    def open(self, *options, models=None):
        server = Embedded(LIBRARY, str(models or self.models), *options)
        self.addCleanup(lambda: server.server and server.close())
        return server

    def ask(self, server, model, inputs, **options):
        answers = queue.Queue()
        server.submit(model, inputs, lambda *answer: answers.put(answer), **options)
        return answers.get(timeout=60)

    # --- the examples ---

    def run_example(self, *command):
        words = [*command, self.models, "mlp", "input", "16", "50"]
        done = subprocess.run([str(w) for w in words], capture_output=True, text=True, timeout=120)
        self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)
        said, statistics = done.stdout.splitlines()
        self.assertRegex(said, r"^50 of 50 answered, the last begins with ")
        counts = {m["name"]: m["inference_count"] for m in json.loads(statistics)["model_stats"]}
        self.assertEqual(counts["mlp"], 50)
        return said

    def test_the_examples_in_c_and_python_agree(self):
        compiler = shutil.which("cc")
        if not compiler:
            self.skipTest("no C compiler")
        program, libraries = pathlib.Path(self.folder.name, "embed"), pathlib.Path(LIBRARY).parent
        command = [compiler, "-Wall", "-Werror", "-I", ROOT / "include", "-o", program]
        command += [ROOT / "examples" / "embed" / "embed.c", "-L", libraries, "-ltutti", "-pthread"]
        subprocess.run([*command, "-Wl,-rpath," + str(libraries)], check=True)
        in_c = self.run_example(program)
        in_python = self.run_example(sys.executable, ROOT / "examples" / "embed" / "embed.py", LIBRARY)
        self.assertEqual(in_c, in_python)

    # --- beside the server ---

    def test_answers_are_those_of_the_server(self):
        server = Server(self.models)
        client = http.client.HTTPConnection(server.address, timeout=60)
        tensor = {"name": "input", "shape": [1, 16], "datatype": "FP32", "data": [0.5] * 16}
        client.request("POST", "/v2/models/mlp/infer", json.dumps({"inputs": [tensor]}))
        expected = json.loads(client.getresponse().read())["outputs"][0]
        client.close()
        self.assertEqual(server.end(signal.SIGTERM), 0)
        outputs, error = self.ask(self.open(), "mlp", {"input": ("FP32", [1, 16], ROW)})
        self.assertIsNone(error)
        datatype, shape, data = outputs["output"]
        self.assertEqual((datatype, shape), (expected["datatype"], expected["shape"]))
        self.assertEqual(array.array("f", data), array.array("f", expected["data"]))

    # --- word by word ---

    TOKENS = array.array("q", [5, 6, 7])

    def words_of(self, server, count=3, **options):
        """The words as they came, and the whole answer."""
        words, answers = [], queue.Queue()
        tokens = array.array("q", [5 + i for i in range(count)])
        server.submit(
            "seq2seq64", {"tokens": ("INT64", [1, count], tokens.tobytes())}, lambda *answer: answers.put(answer),
            word=lambda outputs: words.append(outputs), **options
        )  # fmt: skip
        return words, answers.get(timeout=60)

    def test_words_are_the_answers(self):
        server = self.open()
        for count in 1, 3, 9:
            tokens = array.array("q", [5 + i for i in range(count)])
            inputs = {"tokens": ("INT64", [1, count], tokens.tobytes())}
            whole, error = self.ask(server, "seq2seq64", inputs)
            self.assertIsNone(error)
            words, (outputs, error) = self.words_of(server, count)
            self.assertIsNone(error)
            self.assertEqual(outputs, whole)
            datatype, shape, data = whole["word"]
            self.assertEqual(shape, [1, len(words)])
            self.assertTrue(all(set(word) == {"word"} and word["word"][:2] == (datatype, [1, 1]) for word in words))
            self.assertEqual(b"".join(word["word"][2] for word in words), data)

    def test_a_word_may_cancel_its_request(self):
        server = self.open()
        answers, numbers, words = queue.Queue(), queue.Queue(), []

        def on_word(outputs):
            words.append(outputs)
            if len(words) == 1:
                server.cancel(numbers.get(timeout=60))

        tokens = ("INT64", [1, 3], self.TOKENS.tobytes())
        numbers.put(server.submit("seq2seq64", {"tokens": tokens}, lambda *answer: answers.put(answer), word=on_word))
        outputs, error = answers.get(timeout=60)
        self.assertTrue(outputs or error.code == code("CANCELLED"), error)
        self.assertTrue(words)

    def test_words_need_a_model_that_emits_them(self):
        with self.assertRaises(TuttiError) as raised:
            self.open().submit("echo", {"INPUT0": ("FP32", [1, 4], b"\0" * 16)}, self.fail, word=self.fail)
        self.assertEqual(raised.exception.code, code("UNSUPPORTED"))
        self.assertIn("model 'echo' emits nothing", str(raised.exception))

    def test_the_example_prints_words(self):
        compiler = shutil.which("cc")
        if not compiler:
            self.skipTest("no C compiler")
        program, libraries = pathlib.Path(self.folder.name, "words"), pathlib.Path(LIBRARY).parent
        command = [compiler, "-Wall", "-Werror", "-I", ROOT / "include", "-o", program]
        command += [ROOT / "examples" / "embed" / "words.c", "-L", libraries, "-ltutti", "-pthread"]
        subprocess.run([*command, "-Wl,-rpath," + str(libraries)], check=True)
        words, _ = self.words_of(self.open())
        expected = [array.array("q", word["word"][2])[0] for word in words]
        done = subprocess.run(
            [program, self.models, "seq2seq64", "tokens", *map(str, self.TOKENS)],
            capture_output=True, text=True, timeout=120,
        )  # fmt: skip
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(done.stdout.split("\n")[:-1], [*map(str, expected), "%d words" % len(expected)])
        refused = subprocess.run(
            [program, self.models, "mlp", "input", "1"], capture_output=True, text=True, timeout=120
        )
        self.assertEqual((refused.returncode, refused.stdout), (1, ""))
        self.assertIn("not submitted: ", refused.stderr)

    # --- errors ---

    def test_what_cannot_be_opened_is_explained(self):
        for repository, options, name, sentence in [
            ("/nothing/here", [], "NOT_FOUND", "/nothing/here"),
            (str(self.models), ["executors=none"], "INVALID", "'executors=none': an integer from 1"),
            (str(self.models), ["max-requests=0"], "INVALID", "'max-requests=0': an integer from 1"),
            (str(self.models), ["log"], "INVALID", "option 0, 'log': \"key=value\" is needed"),
            (str(self.models), ["colour=red"], "INVALID", "option 'colour' is unknown"),
            (str(self.models), ["log=loud"], "INVALID", "none or stderr"),
            (str(self.models), ["load-model=mlp"], "INVALID", "model-control-mode=explicit"),
            (str(self.models), ["exit-on-error=true"], "UNAVAILABLE", "1 model does not serve"),
        ]:
            with self.assertRaises(TuttiError) as raised:
                Embedded(LIBRARY, repository, *options)
            self.assertEqual(raised.exception.code, code(name), str(raised.exception))
            self.assertIn(sentence, str(raised.exception))

    def test_what_cannot_be_submitted_is_explained(self):
        server = self.open()
        four = ("FP32", [1, 4], b"\0" * 16)
        for model, inputs, options, name, sentence in [
            ("nothing", {}, {}, "NOT_FOUND", "'nothing' is not found"),
            ("x" * 300, {}, {}, "NOT_FOUND", "300 bytes"),
            ("broken", {}, {}, "UNAVAILABLE", "broken"),
            ("echo", {}, {}, "INVALID", "input 'INPUT0' is missing"),
            ("echo", {"INPUT1": four}, {}, "INVALID", "unexpected inference input 'INPUT1'"),
            ("echo", {"INPUT0": ("INT32", [1, 4], b"\0" * 16)}, {}, "INVALID", "INT32"),
            ("echo", {"INPUT0": ("FP32", [1, 4], b"\0" * 15)}, {}, "INVALID", "15 bytes"),
            ("echo", {"INPUT0": ("FP32", [1] * 9, b"\0" * 4)}, {}, "INVALID", "9 dimensions"),
            ("echo", {"INPUT0": ("FP32", [1, -4], b"")}, {}, "INVALID", "is negative"),
            ("echo", {"INPUT0": four}, {"timeout_us": -1}, "INVALID", "timeout_us is -1; 0 to 9223372036854775 are possible"),
            ("echo", {"INPUT0": four}, {"timeout_us": 2**63 - 1}, "INVALID", "0 to 9223372036854775 are possible"),
        ]:
            with self.assertRaises(TuttiError) as raised:
                server.submit(model, inputs, self.fail, **options)
            self.assertEqual(raised.exception.code, code(name), str(raised.exception))
            self.assertIn(sentence, str(raised.exception))
        self.assertEqual(self.ask(server, "echo", {"INPUT0": four})[0]["OUTPUT0"], ("FP32", [1, 4], b"\0" * 16))

    def test_a_deadline_that_cannot_be_met_is_refused(self):
        outputs, error = self.ask(
            self.open(), "long", {"INPUT0": ("FP32", [1, 4], b"\0" * 16)}, timeout_us=1000000
        )
        self.assertIsNone(outputs)
        self.assertEqual(error.code, code("TIMEOUT"))
        self.assertIn("would have missed its deadline of 1000.", str(error))

    # --- ends ---

    def test_cancelling_and_closing_end_what_is_in_flight(self):
        server = self.open("executors=1")
        answers, row = queue.Queue(), {"INPUT0": ("FP32", [1, 4], b"\0" * 16)}
        numbers = [server.submit("long", row, lambda *answer: answers.put(answer)) for _ in range(20)]
        self.assertEqual(len(set(numbers)), 20)
        self.assertTrue(server.cancel(numbers[-1]))  # it waits behind two batches
        outputs, error = answers.get(timeout=60)
        self.assertEqual((outputs, error.code), (None, code("CANCELLED")))
        self.assertFalse(server.cancel(numbers[-1]))
        self.assertFalse(server.cancel(12345 << 32))

    def test_an_answer_may_bring_the_next_request(self):
        server = self.open()
        answers, left = queue.Queue(), [100]
        row = {"INPUT0": ("FP32", [1, 4], b"\0" * 16)}

        def next_one(outputs, error):
            left[0] -= 1
            if error or left[0] == 0:
                answers.put(error)
            else:
                server.submit("echo", row, next_one)

        server.submit("echo", row, next_one)
        self.assertIsNone(answers.get(timeout=60))
        counts = {m["name"]: m["inference_count"] for m in server.statistics()["model_stats"]}
        self.assertEqual(counts["echo"], 100)

    # --- the library itself ---

    def test_only_the_api_is_exported(self):
        if not shutil.which("nm"):
            self.skipTest("nm is not installed")
        listed = subprocess.run(["nm", "-D", "--defined-only", LIBRARY], capture_output=True, text=True, check=True)
        exported = {re.sub("@.*", "", line.split()[-1]) for line in listed.stdout.splitlines()}
        header = (ROOT / "include" / "tutti" / "tutti.h").read_text()
        declared = set(re.findall(r"^TUTTI_API [\w ]+?\*?(tutti_\w+)\(", header, re.M))
        self.assertEqual(exported - {"TUTTI_0"}, declared)
        self.assertGreaterEqual(len(declared), 7)

    def test_its_name_has_the_number_of_the_api(self):
        header = (ROOT / "include" / "tutti" / "tutti.h").read_text()
        number = re.search(r"#define TUTTI_API_VERSION (\d+)", header).group(1)
        self.assertTrue(pathlib.Path(LIBRARY).with_name("libtutti.so." + number).exists())


if __name__ == "__main__":
    unittest.main()
