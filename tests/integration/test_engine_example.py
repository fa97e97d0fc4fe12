"""A new engine touches two files: examples/engine/echo.c and one line of the registry.

The test copies src/ to a temporary directory, adds the file and the line, compiles these two files
as the build would, links them with the objects of the build for all other files, and serves a
request. All other objects are those of the unchanged tree, so a third file that would need a change
makes the test fail.
"""
import json
import pathlib
import subprocess
import sys
import unittest
import urllib.error
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "python"))
from added_engine import PROGRAM, build, run  # noqa: E402
from own_folder import make_folder  # noqa: E402
from server_process import Server  # noqa: E402

CONFIG = """
backend: "echo" max_batch_size: 4
input { name: "x" data_type: TYPE_FP32 dims: 3 }
input { name: "s" data_type: TYPE_STRING dims: 1 }
output { name: "y" data_type: TYPE_FP32 dims: 3 }
output { name: "t" data_type: TYPE_STRING dims: 1 }
"""
REQUEST = {
    "inputs": [
        {"name": "x", "datatype": "FP32", "shape": [2, 3], "data": [1, 2, 3, 4, 5, 6]},
        {"name": "s", "datatype": "BYTES", "shape": [2, 1], "data": ["tutti", ""]},
    ]
}


class EngineExample(unittest.TestCase):
    def setUp(self):
        self.folder = make_folder(self)
        self.models = self.folder / "models"
        self.models.joinpath("parrot", "1").mkdir(parents=True)
        self.models.joinpath("parrot", "config.pbtxt").write_text(CONFIG)

    def ask(self, address, path, body=None):
        data = json.dumps(body).encode() if body else None
        try:
            with urllib.request.urlopen("http://" + address + path, data, timeout=30) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            self.fail("%s: %s" % (path, error.read().decode()))

    def check_answer(self, address):
        metadata = self.ask(address, "/v2/models/parrot")
        self.assertEqual(metadata["platform"], "echo")
        answer = self.ask(address, "/v2/models/parrot/infer", REQUEST)
        outputs = {output["name"]: output for output in answer["outputs"]}
        self.assertEqual(outputs["y"]["shape"], [2, 3])
        self.assertEqual(outputs["y"]["data"], [1, 2, 3, 4, 5, 6])
        self.assertEqual(outputs["t"]["data"], ["tutti", ""])

    def test_two_files_make_an_engine(self):
        before = subprocess.run(
            [PROGRAM, "models", "check", self.models], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        self.assertEqual(before.returncode, 1)
        self.assertIn("1 with problems", before.stdout)  # without the engine
        program = build(self.folder, "echo", (ROOT / "examples/engine/echo.c").read_text())
        run([program, "models", "check", self.models])
        server = Server([str(program), "serve", "--model-repository", str(self.models), "--http-port", "0"])
        self.addCleanup(server.stop, 20)
        self.assertTrue(server.wait_ready(60), server.said())
        self.check_answer(server.address)
        self.assertEqual(server.stop(20), 0, server.said())


if __name__ == "__main__":
    unittest.main()
