#!/usr/bin/env python3
"""S7: TLS between the nodes of a cluster: both sides show certificates, and a process without a right one is refused."""
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import unittest

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "python"))

from certificates import Certificates  # noqa: E402
from cluster_process import PROGRAM, Cluster, await_true  # noqa: E402


class ClusterTlsTest(unittest.TestCase):
    def setUp(self):
        self.cluster = Cluster()
        self.files = Certificates(self.cluster.folder)

    def tearDown(self):
        self.cluster.stop()

    def flags(self, name, ca="ca", trusts="ca"):
        certificate, key = self.files.make(name, ca)
        return ["--cluster-tls-cert", certificate, "--cluster-tls-key", key, "--cluster-tls-ca", self.files.path(trusts + ".pem")]

    def begin(self, *more):
        self.own = {name: self.flags(name) for name in self.cluster.nodes}
        for name in self.cluster.nodes:
            self.cluster.start(name, *self.own[name], *more)
        for name in self.cluster.nodes:
            self.assertTrue(self.cluster.processes[name].wait_ready(60), self.cluster.said())
        self.cluster.await_ready("f1")

    def status(self, *flags):
        return subprocess.run([PROGRAM, "cluster", "status", self.cluster.spec, *flags], capture_output=True, text=True, timeout=60)

    def test_a_cluster_over_tls(self):
        """Tensors over TCP, so that they are encrypted, too; large ones come in many records."""
        cluster = self.cluster
        cluster.add_model("large")
        config = cluster.models / "large" / "config.pbtxt"
        config.write_text(config.read_text().replace("dims: 4", "dims: 300000"))
        self.begin("--cluster-memory", "off")
        for value in range(10):
            status, answer = cluster.infer("f1", value)
            self.assertEqual(status, 200, answer)
            self.assertEqual(answer["outputs"][0]["data"], [value, 1, 2, 3])
        done = subprocess.run(
            [PROGRAM, "load", "http://" + cluster.processes["f1"].address, "--model", "large", "--requests", "20", "--concurrency", "4",
             "--give-up-ms", "60000"], capture_output=True, text=True, timeout=120)  # fmt: skip
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        seen = self.status(*self.flags("visitor"))
        self.assertEqual(seen.returncode, 0, seen.stderr)
        self.assertIn("PRIMARY", seen.stdout)

    def test_memory_is_shared_beside_it(self):
        self.begin("--cluster-memory", "required")
        for value in range(5):
            self.assertEqual(self.cluster.infer("f1", value)[0], 200)

    def test_who_is_refused(self):
        """Plain connections, another authority's certificates, and plain bytes; the cluster serves on."""
        self.begin()
        plain = self.status()
        self.assertEqual(plain.returncode, 1)
        self.assertIn("DOWN", plain.stdout)
        self.assertNotIn("PRIMARY", plain.stdout)
        other = self.status(*self.flags("stranger", ca="other"))
        self.assertNotIn("PRIMARY", other.stdout)
        distrusts = self.status(*self.flags("careful", trusts="other"))
        self.assertNotIn("PRIMARY", distrusts.stdout)
        with socket.create_connection(("127.0.0.1", self.cluster.ports["s1"]), timeout=60) as line:
            line.sendall(b"TTC1" + bytes(200))
            while line.recv(4096):
                pass
        await_true(lambda: "TLS: " in self.cluster.processes["s1"].said(), 60, "the log has the reason")
        cluster = self.cluster
        self.assertEqual(cluster.processes["b1"].stop(30), 0)
        cluster.start("b1")  # without TLS
        self.assertTrue(cluster.processes["b1"].wait_ready(60))
        await_true(lambda: cluster.get("f1", "/v2/health/ready")[0] == 503, 60, "the frontend has no backend")
        self.assertEqual(cluster.processes["b1"].stop(30), 0)
        cluster.start("b1", *self.own["b1"])
        self.assertTrue(cluster.processes["b1"].wait_ready(60))
        cluster.await_ready("f1")
        self.assertEqual(cluster.infer("f1", 7)[0], 200)

    def await_all_said(self, text):
        processes = self.cluster.processes
        await_true(lambda: all(text in process.said() for process in processes.values()), 60, "all say: " + text)

    def test_certificates_are_read_again(self):
        """Another authority's, under the same names: standing links stay, new ones need them. Broken files change nothing."""
        self.begin()
        cluster, before = self.cluster, self.flags("before")
        self.assertIn("PRIMARY", self.status(*before).stdout)
        for name in cluster.nodes:
            certificate, key = self.files.make(name + ".next", "other")
            os.replace(key, self.files.path(name + ".key"))
            os.replace(certificate, self.files.path(name + ".pem"))
        shutil.copy(self.files.path("ca.pem"), self.files.path("former.pem"))
        shutil.copy(self.files.path("other.pem"), self.files.path("ca.pem.new"))
        os.replace(self.files.path("ca.pem.new"), self.files.path("ca.pem"))
        self.await_all_said("cluster: certificate read again: ")
        self.assertEqual(cluster.infer("f1", 1)[0], 200)
        after = self.flags("after", ca="other", trusts="other")
        await_true(lambda: "PRIMARY" in self.status(*after).stdout, 60, "a visitor with a new certificate is let in")
        before[-1] = self.files.path("former.pem")
        self.assertNotIn("PRIMARY", self.status(*before).stdout)
        self.assertEqual(cluster.processes["b1"].stop(30), 0)
        cluster.start("b1", *self.own["b1"])
        self.assertTrue(cluster.processes["b1"].wait_ready(60))
        cluster.await_ready("f1")
        self.assertEqual(cluster.infer("f1", 2)[0], 200)
        pathlib.Path(self.files.path("s1.pem")).write_text("no certificate")
        await_true(lambda: "cluster: the former certificate stays in force: " in cluster.processes["s1"].said(), 60, "s1 says so")
        self.assertIn("PRIMARY", self.status(*after).stdout)

    def test_flags(self):
        certificate, key = self.files.make("node")
        role = ["--role", "backend", "--node", "b1", "--cluster", self.cluster.spec, "--http-port", "0", "--grpc-port", "0"]

        def refused(*flags):
            answer = subprocess.run(
                [PROGRAM, "serve", "--model-repository", str(self.cluster.models), *flags], capture_output=True, text=True, timeout=60
            )
            self.assertIn(answer.returncode, (1, 2), answer.stderr)
            return answer.stderr

        self.assertIn("go together", refused(*role, "--cluster-tls-cert", certificate))
        self.assertIn("need --role", refused("--cluster-tls-ca", self.files.path("ca.pem"), "--http-port", "0", "--grpc-port", "0"))
        all_but = [*role, "--cluster-tls-cert", certificate, "--cluster-tls-key", key, "--cluster-tls-ca"]
        self.assertIn("No such file", refused(*all_but, "/no/such/file"))
        self.assertIn("private key", refused(*role, "--cluster-tls-cert", certificate, "--cluster-tls-key", certificate,
                                             "--cluster-tls-ca", self.files.path("ca.pem")))  # fmt: skip


if __name__ == "__main__":
    unittest.main(verbosity=2)
