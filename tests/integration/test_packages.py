#!/usr/bin/env python3
"""The packages of scripts/make_packages.sh: each is taken apart, checked, and its program serves a request."""
# plain build only: what is under test is a package
import gzip
import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "python"))

from needs import need, skip  # noqa: E402

need("onnx")

from plain_client import Server, ask, make_two_models  # noqa: E402

BUILD = pathlib.Path(os.environ["TUTTI_PROGRAM"]).resolve().parent
CACHE = (BUILD / "CMakeCache.txt").read_text()
VERSION = re.search(r"^CMAKE_PROJECT_VERSION:STATIC=(.*)$", CACHE, re.M)[1]
if re.search(r"^(TUTTI_SANITIZE:STRING=.|TUTTI_COVERAGE:BOOL=ON)", CACHE, re.M):
    skip("an instrumented program is not packaged")
if not shutil.which("dpkg"):
    skip("packages are made on Debian")
ARCHITECTURE = subprocess.run(
    ["dpkg", "--print-architecture"], capture_output=True, text=True, check=True
).stdout.strip()


def output_of(*command, **options):
    done = subprocess.run(command, capture_output=True, text=True, timeout=280, **options)
    assert done.returncode == 0, "%s: %s%s" % (command, done.stdout[-2000:], done.stderr[-2000:])
    return done.stdout


class Package(unittest.TestCase):
    KIND = None

    @classmethod
    def setUpClass(cls):
        if cls.KIND == "deb" and not shutil.which("dh"):
            raise unittest.SkipTest("debhelper is not installed (scripts/setup.sh --package)")
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        said = output_of(
            ROOT / "scripts" / "make_packages.sh", "--build", BUILD, "--out", cls.folder, cls.KIND
        )
        cls.made = pathlib.Path(said.strip())
        cls.models = make_two_models(cls.folder)

    def serve(self, program, start=None):
        """The program answers a request, with the ONNX Runtime of its own package."""
        server = Server(self.models, program=program, start=start)
        try:
            self.assertEqual(ask(server.address, "mlp", 3), [200] * 3, server.said())
            mapped = pathlib.Path("/proc/%d/maps" % server.process.pid).read_text()
            self.assertNotIn(str(ROOT), mapped)  # nothing of the build tree
            return mapped
        finally:
            server.end(15)


class Deb(Package):
    KIND = "deb"

    def field(self, name):
        return output_of("dpkg-deb", "--field", self.made, name).strip()

    def test_fields(self):
        self.assertEqual(self.made.name, "tutti_%s_%s.deb" % (VERSION, ARCHITECTURE))
        self.assertEqual(self.field("Version"), VERSION)
        self.assertEqual(self.field("Architecture"), ARCHITECTURE)
        names = [entry.split()[0] for entry in self.field("Depends").split(", ")]
        # Computed from what the program and ONNX Runtime link; Debian 13 renamed some of them.
        for library in ("libc6", "libuv1", "libjansson4", "libprotobuf-c1", "libssl3", "zlib1g", "libstdc++6"):
            self.assertTrue({library, library + "t64"} & set(names), names)

    def test_lintian(self):
        if not shutil.which("lintian"):
            self.skipTest("lintian is not installed (scripts/setup.sh --package)")
        said = output_of("lintian", "--allow-root", "--fail-on", "error,warning", self.made)
        self.assertEqual(said, "")

    def test_contents(self):
        root = self.folder / "root"
        output_of("dpkg-deb", "-x", self.made, root)
        for path in (
            "lib/systemd/system/tutti.service",
            "lib/systemd/system/tutti-backend@.service",
            "usr/share/man/man1/tutti.1.gz",
            "usr/share/man/man1/tutti-serve.1.gz",
            "usr/share/bash-completion/completions/tutti",
            "usr/share/zsh/site-functions/_tutti",
            "usr/share/doc/tutti/README.md",
            "usr/share/doc/tutti/docs/OPERATING.md",
            "usr/share/doc/tutti/copyright",
            "usr/share/tutti/monitoring/alerts.yml",
            "usr/lib/tutti/libonnxruntime.so",
            "usr/lib/libtutti.so.0",
            "usr/include/tutti/tutti.h",
            "usr/share/doc/tutti/examples/embed/embed.c",
        ):
            self.assertTrue((root / path).is_file(), path)
        self.assertIn("ExecStart=/usr/bin/tutti ", (root / "lib/systemd/system/tutti.service").read_text())
        self.assertIn(str(root / "usr/lib/tutti/libonnxruntime.so"), self.serve(root / "usr/bin/tutti"))

    def test_the_unit_is_registered_and_not_started(self):
        control = self.folder / "control"
        output_of("dpkg-deb", "-e", self.made, control)
        script = (control / "postinst").read_text()
        self.assertIn("deb-systemd-helper", script)
        self.assertNotIn("deb-systemd-invoke start", script)


class Tarball(Package):
    KIND = "tar"

    def test_it_runs_from_any_folder(self):
        self.assertEqual(self.made.name, "tutti-%s-linux-%s.tar.gz" % (VERSION, ARCHITECTURE))
        first, second = self.folder / "first", self.folder / "moved here"
        first.mkdir()
        output_of("tar", "-C", first, "-xf", self.made)
        first.rename(second)
        [top] = second.iterdir()
        program = top / "bin" / "tutti"
        self.assertIn(VERSION, output_of(program, "--version", env={}))
        mapped = self.serve(program)
        for library in ("libonnxruntime.so", "libuv.so.1", "libjansson.so.4", "libcrypto.so.3"):
            self.assertIn(str(top / "lib" / "tutti" / library), mapped)
        self.assertFalse((top / "lib" / "systemd").exists())

    def test_equal_inputs_make_equal_files(self):
        with tempfile.TemporaryDirectory() as again:
            output_of(ROOT / "scripts" / "make_packages.sh", "--build", BUILD, "--out", again, "tar")
            self.assertEqual(
                hashlib.sha256(self.made.read_bytes()).digest(),
                hashlib.sha256(pathlib.Path(again, self.made.name).read_bytes()).digest(),
            )


class Image(Package):
    KIND = "oci"

    def blob(self, descriptor):
        kind, digest = descriptor["digest"].split(":")
        content = (self.made / "blobs" / kind / digest).read_bytes()
        self.assertEqual(hashlib.new(kind, content).hexdigest(), digest)
        self.assertEqual(len(content), descriptor["size"])
        return content

    def read(self):
        """The configuration and the layers, uncompressed, after checking every digest and size."""
        self.assertEqual(json.loads((self.made / "oci-layout").read_text()), {"imageLayoutVersion": "1.0.0"})
        [described] = json.loads((self.made / "index.json").read_text())["manifests"]
        manifest = json.loads(self.blob(described))
        layers = [gzip.decompress(self.blob(layer)) for layer in manifest["layers"]]
        config = json.loads(self.blob(manifest["config"]))
        self.assertEqual(
            config["rootfs"]["diff_ids"],
            ["sha256:" + hashlib.sha256(layer).hexdigest() for layer in layers],
        )
        blobs = {path.name for path in (self.made / "blobs" / "sha256").iterdir()}
        used = [described, manifest["config"], *manifest["layers"]]
        self.assertEqual(blobs, {entry["digest"].split(":")[1] for entry in used})
        return config, layers

    def unpack(self, layers):
        root = self.folder / "image"
        for index, layer in enumerate(layers):
            file = self.folder / ("layer%d.tar" % index)
            file.write_bytes(layer)
            root.mkdir(exist_ok=True)
            output_of("tar", "-C", root, "--numeric-owner", "-xpf", file)
        return root

    def test_configuration(self):
        config, _ = self.read()
        settings = config["config"]
        self.assertEqual(config["architecture"], ARCHITECTURE)
        self.assertEqual(settings["Entrypoint"], ["/usr/bin/tutti", "serve"])
        self.assertEqual(set(settings["ExposedPorts"]), {"8000/tcp", "8001/tcp"})
        self.assertNotEqual(settings["User"].split(":")[0], "0")
        self.assertEqual(settings["Labels"]["org.opencontainers.image.version"], VERSION)
        # Every runtime library is named with its version, as this machine has it.
        named = dict(entry.split("=", 1) for entry in settings["Labels"]["tutti.runtime-packages"].split())
        for package in ("libc6", "zlib1g", "libstdc++6", "libgcc-s1"):
            self.assertEqual(named[package], output_of("dpkg-query", "-W", "-f=${Version}", package + ":" + ARCHITECTURE))

    def test_skopeo_reads_it(self):
        if not shutil.which("skopeo"):
            self.skipTest("skopeo is not installed (scripts/setup.sh --package)")
        shown = json.loads(output_of("skopeo", "inspect", "oci:%s:%s" % (self.made, VERSION)))
        self.assertEqual((shown["Os"], shown["Architecture"]), ("linux", ARCHITECTURE))
        self.assertEqual(len(shown["Layers"]), 2)
        copied = self.folder / "copied"
        output_of("skopeo", "--insecure-policy", "copy", "oci:%s:%s" % (self.made, VERSION), "dir:%s" % copied)
        self.assertTrue((copied / "manifest.json").exists())

    def test_it_serves_as_its_user(self):
        """In a root that holds the image and nothing of this machine."""
        config, layers = self.read()
        root = self.unpack(layers)
        for folder, mode in (("tmp", 0o1777), ("models", 0o755)):
            self.assertEqual((root / folder).stat().st_mode & 0o7777, mode)
        self.assertFalse((root / "bin" / "sh").exists())
        if os.getuid() != 0:
            self.skipTest("only root can change the root directory")
        shutil.copytree(self.models, root / "models", dirs_exist_ok=True)
        user, group = (int(word) for word in config["config"]["User"].split(":"))
        environment = dict(entry.split("=", 1) for entry in config["config"]["Env"])
        self.folder.chmod(0o755)

        def enter():
            os.chroot(root)
            os.chdir("/")
            os.setgroups([])
            os.setgid(group)
            os.setuid(user)

        self.models_here, self.models = self.models, "/models"
        try:
            self.serve(config["config"]["Entrypoint"][0], start={"preexec_fn": enter, "env": environment})
        finally:
            self.models = self.models_here
        self.assertEqual((root / "var/cache/tutti").stat().st_uid, user)


del Package  # its subclasses are the tests

if __name__ == "__main__":
    unittest.main()
