#!/usr/bin/env python3
"""A cluster that etcd describes over TLS: etcds://, certificates on both sides, and which clients are refused."""
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "python"))

from certificates import Certificates  # noqa: E402
from cluster_process import PROGRAM, Cluster, await_true  # noqa: E402
from etcd_process import Etcd, find_etcd  # noqa: E402


@unittest.skipUnless(find_etcd(), "etcd is not there; scripts/setup.sh --etcd unpacks it")
class EtcdTlsTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="tutti-etcd-tls-")
        self.certificates = Certificates(self.folder.name)
        self.etcd, self.cluster = Etcd(self.certificates), None

    def tearDown(self):
        if self.cluster:
            self.cluster.stop()
        self.etcd.stop()
        self.folder.cleanup()

    def flags(self, name="node", authority="ca"):
        certificate, key = self.certificates.make(name, authority)
        return ["--etcd-ca", self.certificates.path("ca.pem"), "--etcd-cert", certificate, "--etcd-key", key]

    def test_a_cluster_over_tls(self):
        """The description, members, the record and the watch go over TLS, with a certificate of the client."""
        cluster = self.cluster = Cluster(schedulers=2)
        cluster.spec = "etcds://localhost:%d/test" % self.etcd.port
        self.etcd.put("tutti/test/nodes", cluster.file.read_text())
        cluster.start_all(*self.flags())
        status, answer = cluster.infer("f1", 5)
        self.assertEqual(status, 200, answer)
        await_true(lambda: set(self.etcd.keys("tutti/test/members/")) == set(cluster.nodes), 60, "all are members")
        await_true(lambda: all(node["member"] for node in cluster.status().values()), 60, "all know that they are")
        cluster.kill(cluster.primary())
        epoch = lambda: max(node.get("epoch", 0) for node in cluster.status().values())  # noqa: E731
        await_true(lambda: epoch() > 0 and self.etcd.keys("tutti/test/").get("primary") == str(epoch()), 60, "it is recorded")
        seen = cluster.command("status", cluster.spec, *self.flags("visitor"))
        self.assertEqual(seen.returncode, 0, seen.stderr)
        self.assertIn("PRIMARY", seen.stdout)

    def test_certificates_that_change(self):
        """All certificates are replaced by those of another authority: the nodes, which run on, reach etcd again."""
        cluster = self.cluster = Cluster(schedulers=2)
        cluster.spec = "etcds://localhost:%d/test" % self.etcd.port
        self.etcd.put("tutti/test/nodes", cluster.file.read_text())
        cluster.start_all(*self.flags())
        members = lambda: set(self.etcd.keys("tutti/test/members/"))  # noqa: E731
        await_true(lambda: members() == set(cluster.nodes), 60, "all are members")
        key = pathlib.Path(self.certificates.path("node.key"))
        key.write_text("broken")
        await_true(lambda: "the former certificate for etcd stays in force" in cluster.processes["b1"].said(), 60, "it is refused")
        self.certificates.make("node", "other")
        pathlib.Path(self.certificates.path("ca.pem")).write_bytes(pathlib.Path(self.certificates.path("other.pem")).read_bytes())
        await_true(lambda: "certificate for etcd read again" in cluster.processes["b1"].said(), 60, "it is read again")
        self.etcd.stop()
        self.etcd.use(self.certificates, "other")
        self.etcd.start()
        for node in cluster.nodes:
            await_true(lambda node=node: "certificate for etcd read again" in cluster.processes[node].said(), 60, "all have read it")
        cluster.kill(cluster.primary())
        epoch = lambda: max(node.get("epoch", 0) for node in cluster.status().values())  # noqa: E731
        await_true(lambda: epoch() > 0 and self.etcd.keys("tutti/test/").get("primary") == str(epoch()), 60, "it is recorded")

    def test_who_is_refused(self):
        """A client without a certificate, one of another authority, another server, and files without TLS."""
        spec = "etcds://127.0.0.1:%d/test" % self.etcd.port
        self.etcd.put("tutti/test/nodes", "scheduler s1 127.0.0.1:1\n")
        for flags in ([], self.flags()[:2], self.flags("stranger", "other"),
                      ["--etcd-ca", self.certificates.path("other.pem")]):  # fmt: skip
            refused = subprocess.run([PROGRAM, "cluster", "status", spec, *flags], capture_output=True, text=True, timeout=60)
            self.assertNotEqual(refused.returncode, 0, refused.stdout)
            self.assertNotIn("DOWN", refused.stdout)  # it never got the description
        mixed = subprocess.run(
            [PROGRAM, "cluster", "status", "etcd" + spec[5:], *self.flags()], capture_output=True, text=True, timeout=60
        )
        self.assertEqual(mixed.returncode, 2)
        self.assertIn("--etcd-ca, --etcd-cert and --etcd-key need etcds://HOST:PORT/NAME", mixed.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
