"""`tutti replay` as tests run it, and the bytes of a recording (docs/FORMATS.md): where its blocks are, where the turns of
a scheduler's threads are, and how to alter one so that its checksums still match."""
import os
import struct
import subprocess
import zlib

PROGRAM = os.environ["TUTTI_PROGRAM"]
HEADER_BYTES = 40
BLOCK = struct.Struct("<4I")  # mark, stream, size of what follows, checksum of all but itself
END_STREAM = 0xFFFFFFFE
GAP, THREAD, TURN = 14, 15, 16  # kinds of events


def replay(*arguments):
    return subprocess.run(
        [PROGRAM, "replay", *map(str, arguments)], capture_output=True, text=True, timeout=120
    )


def blocks(content):
    """Of each block its stream, and where its payload is and how long."""
    at = HEADER_BYTES
    while at < len(content):
        _, stream, size, _ = BLOCK.unpack_from(content, at)
        yield stream, at + BLOCK.size, size
        at += BLOCK.size + size


def with_checksums(content):
    """A bytearray whose payloads were changed, its checksums put right in place."""
    for _, at, size in blocks(bytes(content)):
        crc = zlib.crc32(content[at : at + size], zlib.crc32(content[at - BLOCK.size : at - 4]))
        struct.pack_into("<I", content, at - 4, crc)
    return content


def varint(content, at):
    """The number there, and where it ends."""
    value = shift = 0
    while True:
        byte = content[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, at


def thread_streams(content):
    """Stream numbers by party: 0 the domain's part, 1 the rank thread, then the model threads."""
    found = {}
    for stream, at, size in blocks(content):
        if size and content[at] == THREAD and stream not in found.values():
            _, at = varint(content, at + 1)
            _, at = varint(content, at)
            found[varint(content, at)[0]] = stream
    return found


def turn_events(content, stream):
    """Of each turn of a thread's stream: where its event is, where its numbers are, and how many bytes these are."""
    first = True
    for of, at, size in blocks(content):
        end = at + size
        while of == stream and at < end:
            event, kind = at, content[at]
            _, at = varint(content, at + 1)
            if kind == THREAD:
                assert first
                for _ in range(3):
                    _, at = varint(content, at)
            else:
                assert kind == TURN, kind
                count, at = varint(content, at)
                yield event, at, count
                at += count
            first = False


def turns(content, stream):
    """Only the numbers: two bytes of a checksum come first."""
    return [(at, count) for _, at, count in turn_events(content, stream)]
