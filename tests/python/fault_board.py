"""The table that a preloaded tests/faults/fault_points.c shares with a test: which calls of the system there are, and which
fails next."""
import ctypes
import mmap
import os
import pathlib

SHIM = pathlib.Path(os.environ["TUTTI_PROGRAM"]).parent / "tests" / "faults" / "fault_points.so"
KINDS = "malloc calloc realloc aligned mmap read write writev recvmsg sendmsg accept thread".split()
MAX_POINTS = 4096


class Point(ctypes.Structure):
    _fields_ = [("kind", ctypes.c_uint32), ("hits", ctypes.c_uint32), ("offset", ctypes.c_uint64),
                ("object", ctypes.c_char * 40)]  # fmt: skip


class Board(ctypes.Structure):
    _fields_ = [("armed", ctypes.c_int32), ("count", ctypes.c_int32), ("blocks", ctypes.c_int64),
                ("failures", ctypes.c_uint32), ("skip", ctypes.c_uint32), ("freed_bytes", ctypes.c_uint64), ("points", Point * MAX_POINTS)]  # fmt: skip


def open_board(path):
    """A table in a new file, with no call armed, and what the environment of a program needs to fill it."""
    path.write_bytes(bytes(ctypes.sizeof(Board)))
    with open(path, "r+b") as file:
        board = Board.from_buffer(mmap.mmap(file.fileno(), 0))
    board.armed = -1
    return board, {"LD_PRELOAD": str(SHIM), "FAULT_BOARD": str(path)}
