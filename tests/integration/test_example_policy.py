#!/usr/bin/env python3
"""A new policy is one file, one registry line and its tests: examples/policy/shortest.c is built out of tree in just this way,
into the program and the policies' unit tests, and works in all worlds. Nothing else is compiled again, so a policy that needed
a change elsewhere would fail here."""
import http.client
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

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "python"))

from needs import skip  # noqa: E402
from server_process import Server  # noqa: E402

PROGRAM = pathlib.Path(os.environ["TUTTI_PROGRAM"]).resolve()
BUILD = PROGRAM.parent
EXAMPLES = ROOT / "examples" / "policy"
NAME = "shortest"
CONFIG = """backend: "emulated" max_batch_size: 8
input { name: "x" data_type: TYPE_FP32 dims: 4 }
output { name: "y" data_type: TYPE_FP32 dims: 4 } """


def compile_command():
    """How the build compiles the registry, as a list of words."""
    commands = BUILD / "compile_commands.json"
    if not commands.exists():
        skip("the build has no compile_commands.json")
    registry = ROOT / "src" / "policy" / "registry.c"
    for entry in json.loads(commands.read_text()):
        if pathlib.Path(entry["file"]) == registry:
            words = shlex.split(entry["command"])
            return words[: words.index("-o")]
    raise AssertionError("the build does not compile registry.c")


def link_command(target):
    """How the build links the target: a shell command, to be run in the build's folder."""
    script = BUILD / "CMakeFiles" / (target + ".dir") / "link.txt"  # of Makefiles
    if script.exists():
        return script.read_text().strip()
    if not shutil.which("ninja"):
        skip("no ninja to ask how %s is linked" % target)
    said = subprocess.run(["ninja", "-C", BUILD, "-t", "commands", target], capture_output=True, text=True, check=True)
    return said.stdout.strip().splitlines()[-1]


def run(*command, **more):
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=120, **more)
    if done.returncode:
        raise AssertionError(f"{command}: exit {done.returncode}\n{done.stdout[-4000:]}{done.stderr[-4000:]}")
    return done.stdout


class ExamplePolicy(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.holder = tempfile.TemporaryDirectory()
        cls.folder = pathlib.Path(cls.holder.name)
        policies = cls.folder / "src" / "policy"
        shutil.copytree(ROOT / "src" / "policy", policies)
        shutil.copy(EXAMPLES / (NAME + ".c"), policies)  # one file
        registry = policies / "registry.c"
        before = registry.read_text().splitlines()
        at = next(i for i, line in enumerate(before) if "X(symphony)" in line)
        line = "    X(%s) \\" % NAME  # one line
        registry.write_text("\n".join(before[:at] + [line] + before[at:]) + "\n")
        cls.objects = [cls.compiled(registry), cls.compiled(policies / (NAME + ".c"))]
        cls.program = cls.linked("tutti", cls.objects)

    @classmethod
    def tearDownClass(cls):
        cls.holder.cleanup()

    @classmethod
    def compiled(cls, source, *flags):
        made = cls.folder / (source.stem + ".o")
        words = compile_command()
        first_flag = next(i for i, word in enumerate(words) if word.startswith("-"))
        words[first_flag:first_flag] = ["-I", cls.folder / "src"]  # the copy goes before the tree
        run(*words, *flags, "-c", source, "-o", made)
        return made

    @classmethod
    def linked(cls, target, objects, instead_of_own=False):
        """The target with these objects before its libraries; for a test program, instead of its own object."""
        command, made = link_command(target), cls.folder / target
        command, count = re.subn(r" -o \S*\b%s " % target, lambda _: " %s -o %s " % (" ".join(map(str, objects)), made), command)
        assert count == 1, command
        if instead_of_own:
            command, count = re.subn(r" CMakeFiles/%s\.dir/\S+\.o " % target, " ", command, count=1)
            assert count == 1, command
        run("sh", "-c", command, cwd=BUILD)
        return made

    def test_registered_with_traits(self):
        policy = json.loads(run(self.program, "policies", "--json", NAME))[0]
        self.assertEqual(policy["traits"]["granularity"], "graph")
        self.assertEqual(policy["serving"]["defaults"], {"drop": "deadline"})
        listed = [line.split()[0] for line in run(self.program, "policies").splitlines()]
        self.assertEqual(listed, sorted(listed))
        self.assertIn(NAME, listed)

    def test_kind_keeps_its_promises(self):
        said = run(self.linked("test_policy_kinds", self.objects), cwd=ROOT)
        self.assertIn(NAME, said)

    def test_its_own_unit_test(self):
        own = self.compiled(EXAMPLES / ("test_%s.c" % NAME), "-I", str(ROOT / "tests"))
        run(self.linked("test_serial", [own, *self.objects], instead_of_own=True), cwd=ROOT)

    def test_any_world(self):
        environment = dict(os.environ, TUTTI_PROGRAM=str(self.program))
        run(sys.executable, "-B", ROOT / "tests/integration/test_any_world.py", "AnyWorld.test_" + NAME, env=environment)

    def test_server(self):
        repository = self.folder / "models"
        (repository / "one" / "1").mkdir(parents=True)
        (repository / "one" / "config.pbtxt").write_text(CONFIG)
        (repository / "one" / "profile.pbtxt").write_text("linear { beta_ms: 1 }")
        (repository / "one" / "tutti.pbtxt").write_text('policy { name: "%s" option { key: "max_batch" value: "4" } }' % NAME)
        server = Server([str(self.program), "serve", "--model-repository", str(repository), "--http-port", "0"])
        self.addCleanup(server.stop, 20)
        self.assertTrue(server.wait_ready(60), server.said())
        self.assertIn("policy %s" % NAME, server.said())
        body = {"inputs": [{"name": "x", "shape": [1, 4], "datatype": "FP32", "data": [1, 2, 3, 4]}]}
        connection = http.client.HTTPConnection(server.address, timeout=30)
        self.addCleanup(connection.close)
        connection.request("POST", "/v2/models/one/infer", json.dumps(body))
        answer = connection.getresponse()
        self.assertEqual(answer.status, 200)
        self.assertEqual(json.loads(answer.read())["outputs"][0]["data"], [1, 2, 3, 4])


if __name__ == "__main__":
    unittest.main(verbosity=1)
