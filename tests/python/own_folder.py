"""A folder of a test's own, which is removed at its end."""
import pathlib
import shutil
import tempfile


def make_folder(case):
    """`case`: a unittest.TestCase. What it starts afterwards and cleans up itself has ended when the folder goes."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="tutti-test-"))
    case.addCleanup(shutil.rmtree, folder, ignore_errors=True)
    return folder
