#!/usr/bin/env python3
"""What is installed beside the program: man pages, completion, the systemd unit."""
import json
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = os.environ["TUTTI_PROGRAM"]
FLAG = re.compile(r"(?<![\w-])--[a-z][a-z0-9-]*")


def output_of(*command, **options):
    return subprocess.run(
        command, capture_output=True, text=True, check=True, timeout=60, **options
    ).stdout


def verbs():
    listing = output_of(PROGRAM, "--help").split("Verbs:", 1)[1].split("\n\n", 1)[0]
    return re.findall(r"^  (\S+) ", listing, re.M)


def tables():
    """{verb: its flags and operands}, from the one table that the program has of each."""
    described = json.loads(output_of(PROGRAM, "--describe"))
    return {v["name"]: [row for row in v["rows"] if row["type"] != "heading"] for v in described}


class ManPages(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        output_of(
            "python3", ROOT / "scripts" / "make_man.py", "--tutti", PROGRAM, "--out", cls.folder.name
        )

    def rendered(self, name):
        page = pathlib.Path(self.folder.name, name)
        if not shutil.which("groff"):
            self.skipTest("groff is not installed")
        made = subprocess.run(
            ["groff", "-mandoc", "-Tascii", "-ww", "-P-c", "-P-b", "-P-u", "-P-o", "-rLL=400n", page],
            capture_output=True,
            text=True,
            timeout=60,
        )
        self.assertEqual((made.returncode, made.stderr), (0, ""), name)
        return made.stdout

    def test_a_page_for_every_verb(self):
        pages = {path.name for path in pathlib.Path(self.folder.name).iterdir()}
        self.assertEqual(pages, {"tutti.1"} | {"tutti-%s.1" % verb for verb in verbs()})

    def test_flags_are_those_of_the_help(self):
        for verb in verbs():
            with self.subTest(verb=verb):
                said = set(FLAG.findall(output_of(PROGRAM, verb, "--help")))
                page = self.rendered("tutti-%s.1" % verb)
                self.assertEqual(set(FLAG.findall(page)) | {"--help"}, said | {"--help"})

    def test_every_row_of_the_table_is_in_the_page(self):
        for verb, rows in tables().items():
            page = " ".join(self.rendered("tutti-%s.1" % verb).split())
            for row in rows:
                with self.subTest(verb=verb, row=row["name"]):
                    default = " (default " + row["default"] if "default" in row else ""
                    self.assertIn(" ".join((row["shown"], row["help"])) + default, page)

    def test_the_program_takes_what_the_page_says(self):
        """A flag without a value is unknown, lacks its value, or works: never the first."""
        for verb in verbs():
            page = self.rendered("tutti-%s.1" % verb)
            for flag in sorted(set(FLAG.findall(page)) - {"--help"}):
                with self.subTest(verb=verb, flag=flag):
                    answer = subprocess.run(
                        [PROGRAM, verb, flag, "--help"],
                        capture_output=True,
                        text=True,
                        timeout=60,
                        stdin=subprocess.DEVNULL,
                    )
                    self.assertNotIn("unknown flag", answer.stderr)
                    self.assertNotIn("unrecognized option", answer.stderr)

    def test_overview(self):
        page = self.rendered("tutti.1")
        for verb in verbs():
            self.assertIn("tutti-%s(1)" % verb, page)


class Completion(unittest.TestCase):
    def complete(self, *words, cwd=None):
        """What bash suggests for the last of `words`."""
        quoted = " ".join("'%s'" % word for word in (PROGRAM, *words))
        script = (
            ". '%s'\nCOMP_WORDS=(%s)\nCOMP_CWORD=%d\n_tutti\nprintf '%%s\\n' \"${COMPREPLY[@]}\""
            % (ROOT / "packaging" / "completion" / "tutti.bash", quoted, len(words))
        )
        return output_of("bash", "--norc", "-c", script, cwd=cwd).split()

    def test_verbs(self):
        self.assertEqual(set(self.complete("")), set(verbs()) | {"--help", "--version"})
        self.assertIn("serve", self.complete("se"))
        self.assertNotIn("load", self.complete("se"))

    def test_flags(self):
        for verb in verbs():
            said = set(FLAG.findall(output_of(PROGRAM, verb, "--help")))
            self.assertEqual(set(self.complete(verb, "--")), said, verb)
        for verb, rows in tables().items():
            flags = {"--" + row["name"] for row in rows if not row["operand"]}
            self.assertEqual(set(self.complete(verb, "--")), flags, verb)
        self.assertEqual(self.complete("load", "--conc"), ["--concurrency"])

    def test_values(self):
        self.assertEqual(self.complete("load", "--process", ""), ["poisson", "gamma", "uniform"])
        self.assertEqual(self.complete("load", "--rate", ""), [])
        self.assertEqual(self.complete("models", ""), ["check"])
        with tempfile.TemporaryDirectory() as folder:
            pathlib.Path(folder, "folder").mkdir()
            pathlib.Path(folder, "file.csv").touch()
            self.assertEqual(self.complete("load", "--csv", "fi", cwd=folder), ["file.csv"])
            self.assertEqual(
                self.complete("serve", "--model-repository", "", cwd=folder), ["folder"]
            )
            self.assertEqual(
                sorted(self.complete("experiment", "", cwd=folder)), ["file.csv", "folder"]
            )

    def test_values_of_every_choice(self):
        for verb, rows in tables().items():
            for row in rows:
                if "choices" in row and not row["operand"] and "," not in row["shown"]:
                    with self.subTest(verb=verb, flag=row["name"]):
                        words = row["choices"].split("|")
                        self.assertEqual(self.complete(verb, "--" + row["name"], ""), words)
                        self.assertEqual(self.complete(verb, "--" + row["name"], "=", words[0]), words[:1])

    def test_values_that_the_program_knows(self):
        policies = [line.split()[0] for line in output_of(PROGRAM, "policies").splitlines()]
        self.assertEqual(self.complete("policies", ""), policies)
        self.assertEqual(self.complete("policies", "lazy", "sym"), ["symphony"])
        self.assertEqual(self.complete("experiment", "file", "--policy", ""), policies)
        self.assertEqual(self.complete("replay", "--policy", ""), ["recorded", *policies])
        systems = {path.stem for path in (ROOT / "facts").glob("*.pbtxt")}
        self.assertEqual(set(self.complete("reproduce", "", cwd=ROOT)), systems)
        self.assertEqual(self.complete("experiment", "--world", "s"), ["simulated"])
        self.assertEqual(
            self.complete("experiment", "--worlds", "real,"), ["real,simulated", "real,emulated", "real,real"]
        )
        self.assertEqual(self.complete("serve", "--log-format", "=", "j"), ["json"])
        self.assertEqual(self.complete("bench", ""), ["scheduler"])
        self.assertEqual(self.complete("models", "check", "--default-max-batch", ""), [])
        self.assertEqual(self.complete("no-such-verb", ""), [])

    def test_zsh_reads_its_own(self):
        if not shutil.which("zsh"):
            self.skipTest("zsh is not installed")
        output_of("zsh", "-n", ROOT / "packaging" / "completion" / "_tutti")


class Unit(unittest.TestCase):
    def setUp(self):
        if not shutil.which("systemd-analyze"):
            self.skipTest("systemd-analyze is not installed")
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        text = (ROOT / "packaging" / "tutti.service.in").read_text()
        self.unit = pathlib.Path(folder.name, "tutti.service")
        self.unit.write_text(text.replace("@CMAKE_INSTALL_FULL_BINDIR@/tutti", PROGRAM))

    def analyze(self, *arguments):
        return subprocess.run(
            ["systemd-analyze", *arguments], capture_output=True, text=True, timeout=60
        )

    def test_it_is_a_unit(self):
        answer = self.analyze("verify", "--man=no", self.unit)
        said = [line for line in answer.stderr.splitlines() if "tutti" in line]
        self.assertEqual(said, [])

    def test_it_is_a_strict_one(self):
        """Exposure by systemd's own count, 0 .. 100; a service that says nothing has 96."""
        answer = self.analyze("security", "--offline=true", "--threshold=20", self.unit)
        if "unrecognized option" in answer.stderr:
            self.skipTest("this systemd-analyze judges running services only")
        self.assertEqual(answer.returncode, 0, answer.stdout[-1500:] + answer.stderr)


if __name__ == "__main__":
    unittest.main()
