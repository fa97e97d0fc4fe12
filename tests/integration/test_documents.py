#!/usr/bin/env python3
"""The documents: their commands run, their links, files, flags and fields exist, and they stay short.

A fence ```console holds a session. Lines that start with "$ " are commands; a here-document belongs to its command. The
other lines are the expected output: a line "..." stands for any lines, "..." within a line for any text, and a number for
any number. All sessions of one document run in order, in one temporary folder that looks like the clone, with the program
on PATH. A command that ends with "&" stays in the background; the session goes on when its output has come. Port 8000 is
replaced by a free one. Fences of other kinds are not run.
"""
# plain build only: what is under test are the documents
import functools
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "python"))
sys.path.insert(0, str(ROOT / "scripts"))
import check_layers  # noqa: E402
import documents  # noqa: E402
import needs  # noqa: E402
from documents import FENCE  # noqa: E402
from server_process import free_port  # noqa: E402

PROGRAM = pathlib.Path(os.environ["TUTTI_PROGRAM"]).resolve()
MAX_WORDS = 27000
DOCUMENTS = sorted(ROOT.glob("*.md")) + sorted((ROOT / "docs").rglob("*.md")) + [ROOT / "examples" / "README.md"]
FLAG = re.compile(r"(?<![\w-])--[a-z][a-z0-9-]*")
# Folders whose files documents name in code spans.
NAMED = "bench|cmake|data|docs|examples|experiments|facts|include|packaging|proto|scripts|src|tests"


def without_fences(text):
    return FENCE.sub("", text)


def slug(heading):
    """The anchor that a heading has on a page of Markdown."""
    text = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).strip().lower()
    return re.sub(r"[^\w\- ]", "", text).replace(" ", "-")


@functools.lru_cache(None)
def anchors(path):
    found = {}
    for heading in re.findall(r"^#+ (.*)$", without_fences(path.read_text()), re.M):
        name = slug(heading)
        found[name] = found.get(name, -1) + 1
    return {name if n == 0 else f"{name}-{n}" for name, last in found.items() for n in range(last + 1)}


@functools.lru_cache(None)
def help_of(*verb):
    done = subprocess.run([PROGRAM, *verb, "--help"], capture_output=True, text=True, timeout=20)
    return done.stdout + done.stderr


@functools.lru_cache(None)
def literals():
    """The string literals of src, adjacent ones joined."""
    found = []
    for path in sorted((ROOT / "src").rglob("*.[ch]")):
        for text in re.findall(r'"(?:\\.|[^"\\\n])*"(?:\s*"(?:\\.|[^"\\\n])*")*', path.read_text()):
            found.append(re.sub(r'"\s*"', "", text)[1:-1])
    return found


def verbs():
    listing = help_of().split("Verbs:", 1)[1].split("\n\n", 1)[0]
    return re.findall(r"^  ([a-z]+) ", listing, re.M)


# ---- sessions ----


def line_pattern(line):
    parts = [re.escape(re.sub(r"\s+", " ", part.strip(" "))) for part in line.split("...")]
    return ".*".join(re.sub(r"\\?-?\d[\d\\.]*(?:e\\?[-+]?\d+)?", lambda _: r"-?[\d.]+(?:e[-+]?\d+)?", p) for p in parts)


def agrees(output, expected):
    """Whether the output has the expected lines, in their order, with nothing between but where "..." stands."""
    pattern = ""
    for line in expected:
        pattern += r"(?:.*\n)*?" if line == "..." else r" ?" + line_pattern(line) + r" ?\n"
    output = "".join(re.sub(r"[ \t]+", " ", line) + "\n" for line in output.rstrip("\n").split("\n"))
    return re.fullmatch(pattern, output) is not None or (not expected and output == "\n")


class Sessions(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        why = needs.lacking(("numpy", "onnx"))
        if why:
            raise unittest.SkipTest(why)
        made = tempfile.TemporaryDirectory()
        cls.addClassCleanup(made.cleanup)
        cls.demo = pathlib.Path(made.name)
        maker = [sys.executable, "-B", ROOT / "scripts" / "make_models.py", "--out", cls.demo]
        subprocess.run([*maker, "--only", "mlp", "cnn"], check=True, capture_output=True, timeout=60)

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        for name in ("scripts", "examples", "experiments", "facts", "data", "docs", ".deps"):
            (self.folder / name).symlink_to(ROOT / name)
        (self.folder / "demo").mkdir()
        (self.folder / "demo" / "models").symlink_to(self.demo)
        (self.folder / "bin").mkdir()
        self.port = free_port()
        program = self.folder / "bin" / "tutti"
        program.write_text(
            '#!/bin/sh\ncase "$1" in serve) shift; set -- serve --http-port %d --grpc-port 0 "$@";; esac\nexec "%s" "$@"\n'
            % (self.port, PROGRAM)
        )
        program.chmod(0o755)
        self.environment = dict(os.environ, PATH=f"{self.folder / 'bin'}:{os.environ['PATH']}", LC_ALL="C.UTF-8")
        self.running = []
        self.addCleanup(self.stop)

    def stop(self):
        for process in self.running:
            os.killpg(process.pid, signal.SIGTERM)
            process.wait(20)

    def run_one(self, command, expected):
        background = command.rstrip().endswith("&")
        with tempfile.TemporaryFile("w+") as log:
            process = subprocess.Popen(
                ["bash", "-c", command.rstrip().rstrip("&") if background else command],
                cwd=self.folder,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            if background:
                self.running.append(process)
            until = time.monotonic() + 40
            while time.monotonic() < until:
                ended = process.poll() is not None
                log.seek(0)
                output = log.read().replace(str(self.port), "8000")
                if ended or (background and agrees(output, expected)):
                    break
                time.sleep(0.02)
            if not ended and not background:
                os.killpg(process.pid, signal.SIGKILL)
        if not background:
            self.assertEqual(process.poll(), 0, f"{command}\n{output}")
        self.assertTrue(agrees(output, expected), f"$ {command}\ngave\n{output}\nnot\n" + "\n".join(expected))

    def run_document(self, path):
        commands = documents.commands(path)
        self.assertGreater(len(commands), 1, path)
        for command, expected in commands:
            self.run_one(command.replace("127.0.0.1:8000", f"127.0.0.1:{self.port}"), expected)

    def test_readme(self):
        self.run_document(ROOT / "README.md")

    def test_quickstart(self):
        self.run_document(ROOT / "docs" / "QUICKSTART.md")
        # The server of the last session still runs: every metric that it has is explained.
        page = subprocess.run(
            ["curl", "-s", f"http://127.0.0.1:{self.port}/metrics"], capture_output=True, text=True, timeout=20
        ).stdout
        told = (ROOT / "docs" / "OPERATING.md").read_text()
        names = set(re.findall(r"^# TYPE (\w+)", page, re.M))
        self.assertGreater(len(names), 40)
        self.assertEqual([name for name in sorted(names) if name not in told], [])

    def test_no_other_document_has_a_session_that_is_not_run(self):
        for path in DOCUMENTS:
            if path not in (ROOT / "README.md", ROOT / "docs" / "QUICKSTART.md"):
                self.assertNotIn("```console", path.read_text(), path)


# ---- what documents refer to ----


class References(unittest.TestCase):
    def test_links(self):
        """Every relative link leads to a file, and to a heading of it."""
        for path in DOCUMENTS:
            for target in re.findall(r"\]\(([^)\s]+)\)", without_fences(path.read_text())):
                if re.match(r"[a-z]+:", target):
                    continue
                name, _, anchor = target.partition("#")
                file = (path.parent / name).resolve() if name else path
                with self.subTest(document=path.name, link=target):
                    self.assertTrue(file.exists())
                    if anchor:
                        self.assertIn(anchor, anchors(file))

    def test_files(self):
        """Paths exist, or begin the name of an existing file; NAME and <name> are placeholders."""
        for path in DOCUMENTS:
            if path.parent.name == "results" or path.name == "CHANGELOG.md":
                continue
            for name in set(re.findall(rf"(?<![\w/.-])(?:{NAMED})/[\w./*-]+\w", path.read_text())):
                if re.search(r"[A-Z]{3,}", name.rsplit(".md", 1)[0]) and not name.endswith(".md"):
                    continue
                with self.subTest(document=path.name, file=name):
                    self.assertTrue((ROOT / name).exists() or list(ROOT.glob(name + "*")))

    def test_verbs_and_flags(self):
        """What stands behind `tutti VERB` is in that verb's help; other flags are of a verb or a script."""
        known = set(FLAG.findall("".join(help_of(verb) for verb in verbs())))
        for pattern in ("scripts/*", "bench/*", "examples/*.py", "Makefile", ".ci/run"):
            for script in ROOT.glob(pattern):
                if script.is_file():
                    known |= set(FLAG.findall(script.read_text(errors="replace")))
                    known |= set(re.findall(r'"(--[a-z][a-z0-9-]*)"', script.read_text(errors="replace")))
        foreign = {"--build", "--preset", "--tool", "--toggle-collect", "--exit-on-error", "--strict-readiness", "--max-warnings"}
        for path in DOCUMENTS:
            if path.parent.name == "results" or path.name in ("CHANGELOG.md", "LICENSE"):
                continue
            text = path.read_text()
            for verb, rest in re.findall(r"\btutti ([a-z]+)((?:[^`\n|;]|\\\n)*)", text):
                spans = verb in verbs()
                with self.subTest(document=path.name, command=f"tutti {verb}{rest}"):
                    if "--" in rest:
                        self.assertTrue(spans, "no such verb")
                        said = set(FLAG.findall(help_of(verb))) | {"--help"}
                        self.assertEqual(set(FLAG.findall(rest.split(" -- ")[0])) - said, set())
            self.assertEqual(set(FLAG.findall(text)) - known - foreign, set(), path)

    def test_verbs_are_in_the_readme(self):
        readme = (ROOT / "README.md").read_text()
        self.assertEqual([verb for verb in verbs() if f"`tutti {verb}" not in readme], [])

    def test_fields_of_tutti_pbtxt(self):
        """SERVING explains every field that a model's tutti.pbtxt may have."""
        schema = re.sub(r"//.*", "", (ROOT / "proto" / "tutti_model.proto").read_text())
        fields = set(re.findall(r"^\s+(?:repeated\s+)?[\w.]+\s+(\w+)\s*=\s*\d+;", schema, re.M)) - {"key", "value"}
        told = (ROOT / "docs" / "SERVING.md").read_text()
        self.assertGreater(len(fields), 40)
        self.assertEqual([name for name in sorted(fields) if not re.search(rf"\b{name}\b", told)], [])

    def test_sweep_parameters(self):
        """The schema of experiments lists what --set and sweeps take."""
        file = ROOT / "experiments" / "symphony" / "densenet121-8-devices.pbtxt"
        done = subprocess.run([PROGRAM, "experiment", file, "--set", "none=1"], capture_output=True, text=True, timeout=20)
        known = re.search(r"there are: (.*)", done.stderr)[1].split(", ")
        listed = (ROOT / "proto" / "experiment.proto").read_text().split("message ExperimentSweep {", 1)[1].split("Several", 1)[0]
        self.assertGreater(len(known), 30)
        self.assertEqual([name for name in known if not re.search(rf"\b{name}\b", listed)], [])

    def test_policies(self):
        """CHOOSING names every policy, and only their options."""
        listing = subprocess.run([PROGRAM, "policies"], capture_output=True, text=True, check=True, timeout=20).stdout
        told = (ROOT / "docs" / "CHOOSING.md").read_text()
        names = re.findall(r"^([a-z]+) ", listing, re.M)
        self.assertGreaterEqual(len(names), 15)
        self.assertEqual([name for name in names if f"`{name}`" not in told], [])

    def test_folders(self):
        """ARCHITECTURE has the layers and folders of src as check_layers.py has them."""
        told = (ROOT / "docs" / "ARCHITECTURE.md").read_text()
        rows = re.findall(r"^\| (\d+) \| ([^|]*) \|", told, re.M)
        found = sorted((int(layer), name) for layer, names in rows for name in re.findall(r"`([^`]+)`", names))
        self.assertEqual(found, sorted((at, name) for at, layer in enumerate(check_layers.LAYERS, 1) for name in layer))


class Sources(unittest.TestCase):
    """What documents say about src."""

    def test_messages(self):
        """Every message in OPERATING's table is in src. "..." stands for any text, a number for a conversion."""
        table = (ROOT / "docs" / "OPERATING.md").read_text().split("## Troubleshooting", 1)[1].split("\n## ", 1)[0]
        cells = re.findall(r"^\| (`.*?`)[^|`]*\|", table, re.M)
        self.assertGreater(len(cells), 20)
        known = literals() + [os.strerror(number).lower() for number in range(1, 134)]
        for message in re.findall(r"`([^`]+)`", " ".join(cells)):
            # A message may consist of several strings: a path, a sentence, the system's reason.
            for part in message.split(": "):
                part = re.sub(r"^\.\.\.[\w/]*/", "", part)
                pattern = ".*".join(re.escape(piece.strip()) for piece in part.split("..."))
                pattern = re.sub(r"\d+", lambda _: r"(?:\d+|%\w+)", pattern)
                with self.subTest(message=message, part=part):
                    self.assertTrue(any(re.search(pattern, text, re.I) for text in known))

    def test_modules(self):
        """ARCHITECTURE and GLOSSARY name existing modules, as `folder/module` or `folder/module.h`."""
        folders = sorted((name for layer in check_layers.LAYERS for name in layer), key=len, reverse=True)
        module = re.compile(rf"`((?:{'|'.join(folders)})/\w+)(?:\.h)?`")
        for name in ("ARCHITECTURE.md", "GLOSSARY.md"):
            for path in set(module.findall((ROOT / "docs" / name).read_text())):
                with self.subTest(document=name, module=path):
                    self.assertTrue((ROOT / "src" / path).is_dir() or list(ROOT.glob(f"src/{path}.[ch]")))

    def test_structs(self):
        """The structs of a request in ARCHITECTURE are defined where it says."""
        text = (ROOT / "docs" / "ARCHITECTURE.md").read_text().split("## Structs of a request", 1)[1].split("\n## ", 1)[0]
        rows = re.findall(r"^\| (`tt_[^|]*) \| `([^`]+)` \|", text, re.M)
        self.assertGreater(len(rows), 8)
        for names, path in rows:
            source = (ROOT / "src" / path).read_text()
            for name in re.findall(r"`(\w+)`", names):
                with self.subTest(struct=name, file=path):
                    self.assertRegex(source, rf"\bstruct {name} {{")


    def test_versions_of_recordings(self):
        header = (ROOT / "src" / "record" / "recording.h").read_text()
        newest, oldest = (re.search(rf"\bTT_RECORDING_{name} = (\d+)", header)[1] for name in ("VERSION", "OLDEST_VERSION"))
        told = (ROOT / "docs" / "OPERATING.md").read_text(), (ROOT / "docs" / "FORMATS.md").read_text()
        self.assertEqual(re.findall(r"writes version (\d+) and reads (\d+) to (\d+)\.", told[0]), [(newest, oldest, newest)])
        self.assertEqual(re.findall(r"u32 version \((\d+); (\d+) to", told[1]), [(newest, oldest)])

    def test_arguments_of_a_container(self):
        """Those that OPERATING gives replace the image's own, behind its entry point."""
        maker = (ROOT / "scripts" / "make_oci.py").read_text()
        entry, usual = (json.loads(re.search(rf'"{name}": (\[.*\]),', maker)[1]) for name in ("Entrypoint", "Cmd"))
        given = re.search(r"^args: \[(.*)\]", (ROOT / "docs" / "OPERATING.md").read_text(), re.M)[1].split(", ")
        self.assertLessEqual({word for word in usual if word.startswith("--")}, {word.split("=")[0] for word in given})
        command = [PROGRAM, *entry[1:], *given, "--show-limits"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=20)
        self.assertEqual((done.returncode, done.stderr), (0, ""), command)


class Size(unittest.TestCase):
    def test_words(self):
        words = {path.name: len(path.read_text().split()) for path in (ROOT / "docs").glob("*.md")}
        self.assertLessEqual(sum(words.values()), MAX_WORDS, words)


if __name__ == "__main__":
    unittest.main()
