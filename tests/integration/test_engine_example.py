"""A new engine touches two files: examples/engine/echo.c and one line of the registry.

The test copies src/ to a temporary directory, adds the file and the line, compiles these two files
as the build would, links them with the objects of the build for all other files, and serves a
request. All other objects are those of the unchanged tree, so a third file that would need a change
makes the test fail.
"""
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import unittest
import urllib.error
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "python"))
from server_process import Server  # noqa: E402

PROGRAM = pathlib.Path(os.environ["TUTTI_PROGRAM"]).resolve()
BUILD = PROGRAM.parent
REGISTRY = "src/engine/engine_registry.c"
MARK = re.compile(r"^    X\(onnxruntime\) +\\\n", re.M)

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


def run(command, **options):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options)
    if done.returncode != 0:
        raise AssertionError("%s\nends with %d:\n%s" % (command, done.returncode, done.stdout))
    return done.stdout


def link_command():
    """The shell command that linked the program, to be run in the build directory."""
    text = BUILD.joinpath("CMakeFiles", "tutti.dir", "link.txt")
    if text.exists():
        return text.read_text()
    cache = BUILD.joinpath("CMakeCache.txt").read_text()
    ninja = re.search(r"^CMAKE_MAKE_PROGRAM:\w+=(.*)$", cache, re.M).group(1)
    return run([ninja, "-C", str(BUILD), "-t", "commands", "-s", PROGRAM.name]).splitlines()[-1]


class EngineExample(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="tutti-engine-"))
        self.addCleanup(shutil.rmtree, self.folder, True)
        self.models = self.folder / "models"
        self.models.joinpath("parrot", "1").mkdir(parents=True)
        self.models.joinpath("parrot", "config.pbtxt").write_text(CONFIG)

    def add_engine(self):
        """src/ with the engine; the two files that differ from ours."""
        shutil.copytree(ROOT / "src", self.folder / "src")
        engine = self.folder / "src/engine/echo.c"
        self.assertFalse(engine.exists())
        shutil.copy(ROOT / "examples/engine/echo.c", engine)
        registry = self.folder / REGISTRY
        before = registry.read_text()
        after = MARK.sub(lambda found: found.group() + "    X(echo) \\\n", before)
        self.assertEqual(len(after.splitlines()), len(before.splitlines()) + 1, "one line more")
        registry.write_text(after)
        return [engine, registry]

    def compile(self, source):
        """The object of a file of the copy, by the command that the build has for the registry."""
        database = json.loads(BUILD.joinpath("compile_commands.json").read_text())
        entry = next(e for e in database if e["file"] == str(ROOT / REGISTRY))
        words = entry.get("arguments") or shlex.split(entry["command"])
        made = self.folder / (source.stem + ".o")
        replaced = {str(ROOT / REGISTRY): str(source), "-I%s/src" % ROOT: "-I%s/src" % self.folder}
        command = [replaced.get(word, word) for word in words]
        command[command.index("-o") + 1] = str(made)
        run(command, cwd=entry["directory"])
        return made

    def build(self):
        objects = [str(self.compile(source)) for source in self.add_engine()]
        program = self.folder / "tutti"
        command, count = re.subn(
            r" -o %s " % re.escape(PROGRAM.name), " -o %s %s " % (program, " ".join(objects)), link_command(), count=1
        )
        self.assertEqual(count, 1, "the link command names its output")
        run(command, shell=True, cwd=BUILD)
        return program

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
        program = self.build()
        run([program, "models", "check", self.models])
        server = Server([str(program), "serve", "--model-repository", str(self.models), "--http-port", "0"])
        self.addCleanup(server.stop, 20)
        self.assertTrue(server.wait_ready(60), server.said())
        self.check_answer(server.address)
        self.assertEqual(server.stop(20), 0, server.said())


if __name__ == "__main__":
    unittest.main()
