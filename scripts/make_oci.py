#!/usr/bin/env python3
"""Writes an OCI image layout of a built tree, without a daemon: plain files, blobs named by their SHA-256.

    make_oci.py --tree FOLDER --version 0.1.0 --out build/oci

FOLDER is the root of an installed tree (usr/bin/tutti, usr/lib/tutti). The image has two layers: the shared libraries
that its programs load, taken from this Debian system with their copyright files and their records in
var/lib/dpkg/status.d, so that scanners can name them; and the tree. It has no shell and no package manager. It runs
`tutti serve` as user 65532. The image belongs to the architecture of this machine.
"""
import argparse
import gzip
import hashlib
import io
import json
import os
import pathlib
import re
import subprocess
import sys
import tarfile
import time

USER = 65532  # what images without a shell use for "nonroot"
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
MEDIA = "application/vnd.oci.image."


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit("make_oci: %s: %s" % (" ".join(map(str, command)), done.stderr.strip()))
    return done.stdout


def is_elf(path):
    return path.is_file() and not path.is_symlink() and path.open("rb").read(4) == b"\x7fELF"


def libraries_of(tree):
    """{path as the loader asks for it: the file}, for all programs and libraries in the tree."""
    found = {}
    for path in sorted(tree.rglob("*")):
        if not is_elf(path):
            continue
        for line in run("ldd", path).splitlines():
            if "not found" in line:
                sys.exit("make_oci: %s needs %s" % (path, line.strip()))
            match = re.search(r"(?:=> )?(/\S+) \(0x", line)
            if match and not match[1].startswith(str(tree)):
                found[match[1]] = pathlib.Path(match[1]).resolve()
    return found


def package_of(file):
    """The Debian package that owns a library; its record may name the path before /usr was merged."""
    for path in (str(file), str(file).removeprefix("/usr")):
        done = subprocess.run(["dpkg-query", "-S", path], capture_output=True, text=True, check=False)
        if done.returncode == 0:
            return done.stdout.split(": ")[0].split(",")[0]
    sys.exit("make_oci: %s belongs to no package, so its licence is unknown" % file)


class Layer:
    """A tar archive whose bytes depend on its contents alone."""

    def __init__(self, epoch):
        self.epoch, self.bytes = epoch, io.BytesIO()
        self.tar = tarfile.open(fileobj=self.bytes, mode="w", format=tarfile.GNU_FORMAT)
        self.folders = set()

    def add(self, path, kind, mode, content=b"", link="", user=0):
        for parent in list(pathlib.PurePosixPath(path).parents)[-2::-1]:
            if str(parent) not in self.folders:
                self.add(str(parent), tarfile.DIRTYPE, 0o755)
        if path in self.folders:
            return
        if kind == tarfile.DIRTYPE:
            self.folders.add(path)
        entry = tarfile.TarInfo(path)
        entry.type, entry.mode, entry.size, entry.linkname = kind, mode, len(content), link
        entry.uid = entry.gid = user
        entry.mtime = self.epoch
        self.tar.addfile(entry, io.BytesIO(content))

    def file(self, path, content, mode=0o644):
        self.add(path, tarfile.REGTYPE, mode, content)

    def folder(self, path, mode=0o755, user=0):
        self.add(path, tarfile.DIRTYPE, mode, user=user)

    def link(self, path, target):
        self.add(path, tarfile.SYMTYPE, 0o777, link=target)

    def finish(self):
        self.tar.close()
        return self.bytes.getvalue()


def runtime_layer(tree, epoch):
    """The layer, and {package: version}."""
    layer, packages = Layer(epoch), {}
    for name in ("bin", "lib", "lib64"):  # as on Debian; the loader's own path begins with /lib64
        layer.folder("usr/" + name)
        layer.link(name, "usr/" + name)
    for asked, file in sorted(libraries_of(tree).items()):
        path = asked.lstrip("/")
        layer.file(path if path.startswith("usr/") else "usr/" + path, file.read_bytes(), 0o755)
        packages.setdefault(package_of(file), None)
    for package in sorted(packages):
        name = package.split(":")[0]
        packages[package] = run("dpkg-query", "-W", "-f=${Version}", package)
        copyright_file = pathlib.Path("/usr/share/doc", name, "copyright")
        layer.file("usr/share/doc/%s/copyright" % name, copyright_file.resolve().read_bytes())
        layer.file("var/lib/dpkg/status.d/" + name, run("dpkg-query", "-s", package).encode())
    layer.file("etc/os-release", pathlib.Path("/etc/os-release").resolve().read_bytes())
    layer.file("etc/passwd", b"root:x:0:0:root:/root:/sbin/nologin\n"
               b"nonroot:x:%d:%d:nonroot:/home/nonroot:/sbin/nologin\n" % (USER, USER))  # fmt: skip
    layer.file("etc/group", b"root:x:0:\nnonroot:x:%d:\n" % USER)
    layer.folder("tmp", 0o1777)
    layer.folder("models")
    layer.folder("home/nonroot", 0o700, USER)
    layer.folder("var/cache/tutti", 0o755, USER)
    return layer.finish(), {package.split(":")[0]: version for package, version in packages.items()}


def tree_layer(tree, epoch):
    layer = Layer(epoch)
    for path in sorted(tree.rglob("*")):
        name = str(path.relative_to(tree))
        if path.is_symlink():
            layer.link(name, os.readlink(path))
        elif path.is_dir():
            layer.folder(name)
        else:
            layer.file(name, path.read_bytes(), 0o755 if os.access(path, os.X_OK) else 0o644)
    return layer.finish()


class Layout:
    def __init__(self, folder):
        self.folder = folder
        (folder / "blobs" / "sha256").mkdir(parents=True)
        (folder / "oci-layout").write_text('{"imageLayoutVersion":"1.0.0"}\n')

    def blob(self, media, content):
        digest = hashlib.sha256(content).hexdigest()
        (self.folder / "blobs" / "sha256" / digest).write_bytes(content)
        return {"mediaType": MEDIA + media, "digest": "sha256:" + digest, "size": len(content)}

    def json(self, media, value):
        return self.blob(media, json.dumps(value, indent=1, sort_keys=True).encode())


def config_of(machine, version, created, packages, layers):
    return {
        "architecture": machine,
        "os": "linux",
        "created": created,
        "config": {
            "User": "%d:%d" % (USER, USER),
            "ExposedPorts": {"8000/tcp": {}, "8001/tcp": {}},
            "Env": [
                "PATH=/usr/bin",
                "HOME=/home/nonroot",
                "XDG_CACHE_HOME=/var/cache",
                "ORT_DISABLE_TELEMETRY=1",
                "TUTTI_ONNXRUNTIME=/usr/lib/tutti/libonnxruntime.so",
            ],
            "Entrypoint": ["/usr/bin/tutti", "serve"],
            # A container has a network of its own: the runtime decides which ports others reach.
            "Cmd": ["--model-repository", "/models", "--http-host", "0.0.0.0", "--insecure"],
            "WorkingDir": "/",
            "StopSignal": "SIGTERM",
            "Labels": {
                "org.opencontainers.image.title": "tutti",
                "org.opencontainers.image.version": version,
                "org.opencontainers.image.licenses": "Apache-2.0",
                "tutti.runtime-packages": " ".join("%s=%s" % item for item in sorted(packages.items())),
            },
        },
        "rootfs": {
            "type": "layers",
            "diff_ids": ["sha256:" + hashlib.sha256(layer).hexdigest() for layer in layers],
        },
        "history": [
            {"created": created, "created_by": "make_oci.py", "comment": comment}
            for comment in ("shared libraries", "tutti")
        ],
    }


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tree", required=True, type=pathlib.Path, metavar="FOLDER")
    parser.add_argument("--version", required=True)
    parser.add_argument("--out", required=True, type=pathlib.Path, metavar="FOLDER")
    options = parser.parse_args()
    machine = ARCHITECTURES.get(os.uname().machine, os.uname().machine)
    epoch = int(os.environ.get("SOURCE_DATE_EPOCH", time.time()))
    created = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(epoch))
    if not (options.tree / "usr/bin/tutti").exists():
        sys.exit("make_oci: %s: usr/bin/tutti is missing; install into it first" % options.tree)
    runtime, packages = runtime_layer(options.tree.resolve(), epoch)
    layers = [runtime, tree_layer(options.tree, epoch)]
    layout = Layout(options.out)
    manifest = {
        "schemaVersion": 2,
        "mediaType": MEDIA + "manifest.v1+json",
        "config": layout.json("config.v1+json", config_of(machine, options.version, created, packages, layers)),
        "layers": [layout.blob("layer.v1.tar+gzip", gzip.compress(layer, 6, mtime=0)) for layer in layers],
    }
    described = layout.json("manifest.v1+json", manifest)
    described["annotations"] = {"org.opencontainers.image.ref.name": options.version}
    described["platform"] = {"architecture": machine, "os": "linux"}
    index = {"schemaVersion": 2, "mediaType": MEDIA + "index.v1+json", "manifests": [described]}
    (options.out / "index.json").write_text(json.dumps(index, indent=1) + "\n")


main()
