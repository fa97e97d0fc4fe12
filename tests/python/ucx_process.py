"""UCX for tests of processes: of the system, or what scripts/setup.sh --ucx unpacked."""
import ctypes
import os
import pathlib

ROOT = pathlib.Path(__file__).resolve().parents[2]


def use_ucx():
    """True: processes that are started from now on find the library."""
    unpacked = sorted((ROOT / ".deps" / "ucx" / "usr" / "lib").glob("*/libucp.so.0"))
    if unpacked:
        others = [folder for folder in os.environ.get("LD_LIBRARY_PATH", "").split(":") if folder]
        os.environ["LD_LIBRARY_PATH"] = ":".join([str(unpacked[0].parent)] + others)
        return True
    try:
        ctypes.CDLL("libucp.so.0")
    except OSError:
        return False
    return True
