"""Certificates of a test's own, made by the command openssl."""
import pathlib
import shutil
import subprocess

from needs import skip


class Certificates:
    """A folder with ca.pem; `make` adds NAME.pem and NAME.key."""

    def __init__(self, folder):
        if not shutil.which("openssl"):
            skip("there is no command openssl")
        self.folder = pathlib.Path(folder)
        self.serial = 1
        for name in ("ca", "other"):
            self.run("req", "-x509", *self.new_key(name), "-days", 30, "-subj", "/CN=" + name, "-out", self.path(name + ".pem"))

    def path(self, name):
        return str(self.folder / name)

    def run(self, *words):
        subprocess.run(["openssl", *map(str, words)], check=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)

    def new_key(self, name):
        return ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", self.path(name + ".key"))

    def make(self, name, ca="ca", expired=False):
        """For localhost and 127.0.0.1, signed by `ca`; returns both paths."""
        self.serial += 1
        request, certificate, extensions = self.path("request"), self.path(name + ".pem"), self.path("extensions")
        self.run("req", "-new", *self.new_key(name), "-subj", "/CN=" + name, "-out", request)
        pathlib.Path(extensions).write_text("subjectAltName=DNS:localhost,IP:127.0.0.1\n")
        days = 0 if expired else 30
        self.run(
            "x509", "-req", "-in", request, "-CA", self.path(ca + ".pem"), "-CAkey", self.path(ca + ".key"),
            "-set_serial", self.serial, "-days", days, "-extfile", extensions, "-out", certificate,
        )  # fmt: skip
        return certificate, self.path(name + ".key")
