#!/usr/bin/env python3
"""Which systems scripts/setup.sh serves: decided by scripts/debian_release.sh from an os-release file."""
import pathlib
import subprocess
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).with_name("debian_release.sh")
BOOKWORM = 'PRETTY_NAME="Debian GNU/Linux 12 (bookworm)"\nID=debian\nVERSION_ID="12"\nVERSION_CODENAME=bookworm\n'
NOBLE = 'PRETTY_NAME="Ubuntu 24.04.1 LTS"\nID=ubuntu\nID_LIKE=debian\nVERSION_ID="24.04"\nVERSION_CODENAME=noble\n'


def decide(text):
    """(exit code, standard output, standard error); text None: there is no file."""
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder, "os-release")
        if text is not None:
            file.write_text(text)
        done = subprocess.run([SCRIPT, file], capture_output=True, text=True, timeout=60)
        return done.returncode, done.stdout.strip(), done.stderr


class Release(unittest.TestCase):
    def test_debian(self):
        self.assertEqual(decide(BOOKWORM), (0, "older", ""))
        self.assertEqual(decide(BOOKWORM.replace("12", "13")), (0, "newer", ""))
        self.assertEqual(decide(BOOKWORM.replace('"12"', "13.2")), (0, "newer", ""))
        self.assertEqual(decide("ID=debian\nVERSION_CODENAME=forky\n"), (0, "newer", ""))

    def test_refused(self):
        for text, says in (
            (NOBLE, "Ubuntu 24.04.1 LTS (like debian), not Debian"),
            (NOBLE.replace("24.04", "12"), "not Debian"),
            (BOOKWORM.replace("12", "11"), "too old"),
            (BOOKWORM.replace('"12"', '"9"'), "too old"),
            ("ID=fedora\nVERSION_ID=42\n", "this is fedora, not Debian"),
            ("ID=debian\nVERSION_ID=sid\n", "VERSION_ID is 'sid'"),
            ("", "unknown, not Debian"),
            (None, "cannot be read"),
        ):
            with self.subTest(text=text):
                code, out, err = decide(text)
                self.assertEqual((code, out), (1, ""), err)
                self.assertIn(says, err)
                self.assertIn("-DONNXRUNTIME_ROOT=", err)

    def test_nothing_of_the_caller_leaks_in(self):
        """A variable of the environment must not stand for a line that the file lacks."""
        done = subprocess.run(
            ["env", "VERSION_ID=11", "ID=ubuntu", SCRIPT, "/dev/stdin"],
            input="ID=debian\n", capture_output=True, text=True, timeout=60,
        )  # fmt: skip
        self.assertEqual((done.returncode, done.stdout), (0, "newer\n"), done.stderr)


if __name__ == "__main__":
    unittest.main()
