#!/usr/bin/env python3
"""What is installed beside the program: man pages, completion, the systemd unit, documents."""
# plain build only: what is under test is what is installed
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
BUILD = pathlib.Path(PROGRAM).resolve().parent
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
        self.assertEqual(self.complete("models", ""), ["check", "try"])
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
        worlds = ["simulated", "emulated", "real", "cluster"]
        self.assertEqual(self.complete("experiment", "--worlds", "real,"), ["real," + world for world in worlds])
        self.assertEqual(self.complete("serve", "--log-format", "=", "j"), ["json"])
        self.assertEqual(self.complete("bench", ""), ["scheduler"])
        self.assertEqual(self.complete("models", "check", "--default-max-batch", ""), [])
        self.assertEqual(self.complete("no-such-verb", ""), [])

    def test_zsh_reads_its_own(self):
        if not shutil.which("zsh"):
            self.skipTest("zsh is not installed")
        output_of("zsh", "-n", ROOT / "packaging" / "completion" / "_tutti")


LINK = re.compile(r"\]\(([^)#\s]+)")


class Installed(unittest.TestCase):
    """`cmake --install` under a prefix that the build was not configured for."""

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.prefix = pathlib.Path(folder.name, "prefix")
        output_of("cmake", "--install", BUILD, "--prefix", cls.prefix)
        cls.unit = cls.prefix / "lib" / "systemd" / "system" / "tutti.service"

    def analyze(self, *arguments):
        if not shutil.which("systemd-analyze"):
            self.skipTest("systemd-analyze is not installed")
        return subprocess.run(
            ["systemd-analyze", *arguments], capture_output=True, text=True, timeout=60
        )

    def settings(self):
        lines = [line.partition("=") for line in self.unit.read_text().splitlines()]
        return [(key, value) for key, equals, value in lines if equals and not key.startswith("#")]

    def test_the_unit_is_valid(self):
        answer = self.analyze("verify", "--man=no", self.unit)
        said = [line for line in answer.stderr.splitlines() if "tutti" in line]
        self.assertEqual(said, [])

    def test_the_unit_is_a_strict_one(self):
        """Exposure by systemd's own count, 0 .. 100; a service that says nothing has 96."""
        answer = self.analyze("security", "--offline=true", "--threshold=20", self.unit)
        if "unrecognized option" in answer.stderr:
            self.skipTest("this systemd-analyze judges running services only")
        self.assertEqual(answer.returncode, 0, answer.stdout[-1500:] + answer.stderr)

    def test_the_unit_runs_the_program_of_its_prefix(self):
        started = [v.split()[0] for k, v in self.settings() if k in ("ExecStart", "ExecStartPre")]
        self.assertEqual(started, [str(self.prefix / "bin" / "tutti")] * 2)
        for program in started:
            self.assertEqual(output_of(program, "--version"), output_of(PROGRAM, "--version"))
        self.assertNotRegex(self.unit.read_text(), r"@\w+@")

    def test_units_of_a_cluster(self):
        """A template per role; what differs is the role."""
        texts = set()
        for role in ("scheduler", "frontend", "backend"):
            unit = self.unit.with_name("tutti-%s@.service" % role)
            text = unit.read_text()
            self.assertIn("%s/bin/tutti serve --role %s --node %%i " % (self.prefix, role), text)
            self.assertNotRegex(text, r"@TUTTI_\w+@")
            instance = self.unit.with_name("tutti-%s@x1.service" % role)
            instance.write_text(text)
            self.addCleanup(instance.unlink)
            answer = self.analyze("verify", "--man=no", instance)
            self.assertEqual([line for line in answer.stderr.splitlines() if "tutti" in line], [])
            texts.add(text.replace(role, "ROLE"))
        self.assertEqual(len(texts), 1)

    def test_the_prefix_of_a_package(self):
        """With DESTDIR the files lie elsewhere; the unit names where they will be."""
        with tempfile.TemporaryDirectory() as folder:
            output_of(
                "cmake", "--install", BUILD, "--prefix", "/usr", env=dict(os.environ, DESTDIR=folder)
            )
            root = pathlib.Path(folder)
            unit = (root / "usr/lib/systemd/system/tutti.service").read_text()
            self.assertIn("ExecStart=/usr/bin/tutti serve", unit)
            self.assertTrue((root / "usr/bin/tutti").exists())

    def test_the_unit_has_a_place_for_stages(self):
        """The file system is read-only but for the directories of the unit; the cache of stages is one of them."""
        settings = dict(self.settings())
        self.assertEqual(settings["ProtectSystem"], "strict")
        cache = [v for k, v in self.settings() if k == "Environment" and "XDG_CACHE_HOME=" in v]
        self.assertEqual(cache, ["XDG_CACHE_HOME=/var/cache"])  # the program appends /tutti
        self.assertEqual(settings["CacheDirectory"], "tutti")
        self.assertEqual(settings["StateDirectory"], "tutti")

    def test_links_between_documents_hold(self):
        documents = self.prefix / "share" / "doc" / "tutti"
        count = 0
        for file in documents.rglob("*.md"):
            for link in LINK.findall(file.read_text()):
                if "://" not in link:
                    count += 1
                    self.assertTrue((file.parent / link).exists(), "%s: %s" % (file.name, link))
        self.assertGreater(count, 50)

    def test_paths_of_man_pages_exist(self):
        pages = [p.read_text() for p in (self.prefix / "share" / "man" / "man1").glob("*.1")]
        named = set(re.findall(r"^\.It Pa (share/\S+)", "\n".join(pages), re.M))
        self.assertGreater(len(named), 0)
        for path in named:
            self.assertTrue((self.prefix / path.replace("\\-", "-")).exists(), path)


class Program(unittest.TestCase):
    def test_the_target_builds_no_test(self):
        """`make serve` and `make install` compile what is installed only."""
        if not (BUILD / "build.ninja").exists() or not shutil.which("ninja"):
            self.skipTest("this tree is not built with ninja")
        inputs = output_of("ninja", "-C", BUILD, "-t", "inputs", "program").splitlines()
        self.assertGreater(len([path for path in inputs if path.endswith(".c")]), 100)
        self.assertEqual([path for path in inputs if "/tests/" in path or "cmocka" in path], [])


if __name__ == "__main__":
    unittest.main()
