#!/usr/bin/env python3
"""S7, S9: a primary asks and drains backends over TLS with a key, and those that it starts have both. No test states a time."""
import pathlib
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "python"))

from certificates import Certificates  # noqa: E402
from scaling_case import EmulatedCase  # noqa: E402


class TlsTest(EmulatedCase):
    def test_a_pool_grows_and_shrinks(self):
        folder = tempfile.TemporaryDirectory(prefix="tutti-scaling-")
        self.addCleanup(folder.cleanup)
        files = Certificates(folder.name)
        certificate, private = files.make("node")
        key = pathlib.Path(folder.name) / "key"
        key.write_text("a key of sixteen bytes or more\n")
        key.chmod(0o600)
        self.shared = ("--cluster-tls-cert", certificate, "--cluster-tls-key", private,
                       "--cluster-tls-ca", files.path("ca.pem"), "--cluster-key", str(key))  # fmt: skip
        self.begin_emulated()
        self.pin(4)
        self.await_pool(ready=4, asked=4, stage="STEADY")
        self.pin(2)
        self.await_pool(ready=2, asked=2, stage="STEADY")
        self.assertEqual(self.states(), {"b1": "SERVING", "b2": "ABSENT", "b3": "ABSENT"})
        self.assertEqual(self.cluster.infer("f1", 5)[0], 200)


if __name__ == "__main__":
    unittest.main(verbosity=2)
