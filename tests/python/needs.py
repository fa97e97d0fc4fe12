"""The packages that a test needs. A test that cannot run here prints the reason and counts as skipped."""
import importlib.util
import os
import pathlib
import shutil
import sys
import unittest

SKIPPED = 77  # ctest's SKIP_RETURN_CODE


def skip(why):
    """Ends the whole program."""
    print("skipped: " + why)
    sys.exit(SKIPPED)


def find_program(unpacked):
    """A program that scripts/setup.sh unpacked at .deps/`unpacked`, or else the installed one; None: neither is there."""
    path = pathlib.Path(__file__).resolve().parents[2] / ".deps" / unpacked
    return str(path) if os.access(path, os.X_OK) else shutil.which(path.name)


def lacking(modules):
    """What to say of those that are not here; empty where all are."""
    missing = [name for name in modules if importlib.util.find_spec(name) is None]
    return "this Python lacks " + ", ".join(missing) if missing else ""


def need(*modules):
    """Ends the whole program where one of them is missing."""
    why = lacking(modules)
    if why:
        skip(why)


def needing(*modules):
    """Decorates a class whose tests are skipped where one of them is missing."""
    why = lacking(modules)
    return unittest.skipIf(why, why)
