#!/usr/bin/env python3
"""S10: tutti chaos accounts for every request of a cluster, and sees what it must see; make cluster's script."""
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "python"))

from cluster_process import Cluster, await_true  # noqa: E402
from etcd_process import find_etcd  # noqa: E402
from haproxy_process import find_haproxy  # noqa: E402
from server_process import free_port  # noqa: E402

PROGRAM = os.environ["TUTTI_PROGRAM"]
SEED = os.environ.get("TUTTI_SEED", "1")


class Chaos(unittest.TestCase):
    def setUp(self):
        self.cluster = Cluster(schedulers=2, frontends=2, backends=3)
        self.addCleanup(self.end)
        self.cluster.start_all()
        self.assertTrue(self.cluster.primary())

    def end(self):
        """Also the processes that chaos started."""
        for node in self.cluster.status().values():
            if node["pid"]:
                os.kill(node["pid"], signal.SIGKILL)
        self.cluster.stop()

    def test_every_request_is_accounted_for(self):
        print("TUTTI_SEED=%s" % SEED, flush=True)
        answer = subprocess.run(
            [PROGRAM, "chaos", self.cluster.spec, "--seconds", "2", "--seed", SEED, "--clients", "6", "--json"],
            capture_output=True, text=True, timeout=120)  # fmt: skip
        self.assertEqual(answer.returncode, 0, answer.stdout + answer.stderr + self.cluster.said())
        account = json.loads(answer.stdout)
        self.assertTrue(account["holds"])
        self.assertGreater(account["answered"], 0)
        self.assertGreater(account["kills"] + account["freezes"], 0)
        self.assertEqual(account["accepted"], account["answered"] + account["refused"] + account["gone"], account)
        self.assertEqual(account["lost"] + account["wrong"], 0)

    def test_a_request_that_is_lost_is_seen(self):
        """A frontend ends that chaos did not kill: its requests are lost, and chaos says so."""
        running = subprocess.Popen(
            [PROGRAM, "chaos", self.cluster.spec, "--seconds", "1", "--clients", "16", "--seed", SEED, "--kills-only"],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)  # fmt: skip
        await_true(lambda: self.cluster.status()["f1"]["accepted"] > 5, 60, "clients are served")
        self.cluster.kill("f1")
        said, errors = running.communicate(timeout=120)
        self.assertEqual(running.returncode, 1, said + errors)
        self.assertRegex(said + errors, r"is not answered|f1")

    def test_a_dead_node_is_named(self):
        """Chaos does without nodes that are dead from the start, and says which."""
        self.cluster.kill("b2")
        self.cluster.processes["b2"].process.wait()
        self.cluster.kill("s1" if self.cluster.primary() == "s2" else "s2", signal.SIGSTOP)
        answer = subprocess.run(
            [PROGRAM, "chaos", self.cluster.spec, "--seconds", "1", "--seed", SEED, "--kills-only", "--json"],
            capture_output=True, text=True, timeout=120)  # fmt: skip
        self.assertEqual(answer.returncode, 0, answer.stdout + answer.stderr + self.cluster.said())
        self.assertIn("tutti chaos: b2 is dead: ", answer.stderr)
        account = json.loads(answer.stdout)
        self.assertEqual((account["dead"], account["holds"]), (2, True), answer.stderr)
        self.assertGreater(account["answered"], 0)

    def test_usage(self):
        for arguments in ((), ("etcd",), ("static:/nonexistent",)):
            answer = subprocess.run([PROGRAM, "chaos", *arguments], capture_output=True, text=True, timeout=60)
            self.assertEqual(answer.returncode, 2, answer.stderr)


class Script(unittest.TestCase):
    """scripts/cluster.sh, which is `make cluster`."""

    def test_it_starts_and_ends_everything(self):
        self.start_and_end({}, find_etcd(), find_haproxy())

    def test_alone(self):
        """Without etcd and HAProxy it goes on, and says that HAProxy is not there."""
        self.start_and_end({"ETCD": "", "HAPROXY": ""}, None, None)

    def start_and_end(self, more, etcd, haproxy):
        with tempfile.TemporaryDirectory() as folder:
            ports = free_port()
            while not 1024 < ports < 32000:  # 20 in a row, below those that the system gives out
                ports = ports % 30000 + 1500
            environment = dict(os.environ, PROGRAM=PROGRAM, FOLDER=folder, PORT=str(ports), TIMES="silence-ms 400", **more)
            running = subprocess.Popen(
                [str(ROOT / "scripts" / "cluster.sh")], env=environment, text=True, start_new_session=True,
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT)  # fmt: skip
            self.addCleanup(running.stdout.close)
            self.addCleanup(running.kill)
            lines = []
            for line in running.stdout:
                lines.append(line)
                if line.startswith("Ctrl-C ends everything"):
                    break
            said = "".join(lines)
            self.assertIn("Send a request:", said)
            curl = re.search(r"^Send a request: +(curl .*)$", said, re.M).group(1)
            answer = subprocess.run(curl + " -s", shell=True, capture_output=True, text=True, timeout=60)
            self.assertIn('"data":[1.0,2.0,3.0,4.0]', answer.stdout)
            self.assertEqual(("etcd://127.0.0.1:%d/cluster" % (ports + 15)) in said, etcd is not None, said)
            self.assertEqual("http://127.0.0.1:%d/" % (ports + 19) in curl, haproxy is not None, said)
            self.assertEqual("HAProxy is not there (scripts/setup.sh --haproxy)" in said, haproxy is None, said)
            spec = "static:%s/nodes" % folder
            status = subprocess.run([PROGRAM, "cluster", "status", spec, "--json"], capture_output=True, text=True, timeout=60)
            pids = [node["pid"] for node in json.loads(status.stdout)["nodes"]]
            self.assertEqual(len(pids), 8)
            os.kill(running.pid, signal.SIGTERM)
            running.wait(60)

            def has_ended(pid):
                try:
                    return pathlib.Path("/proc/%d/stat" % pid).read_text().split()[2] == "Z"
                except OSError:
                    return True

            await_true(lambda: all(has_ended(pid) for pid in pids), 60, "all processes have ended")
            for number, name in ((15, "etcd"), (19, "HAProxy")):
                with socket.socket() as probe:
                    self.assertNotEqual(probe.connect_ex(("127.0.0.1", ports + number)), 0, name + " still runs")


if __name__ == "__main__":
    unittest.main(verbosity=2)
