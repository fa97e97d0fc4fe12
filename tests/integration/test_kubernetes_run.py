#!/usr/bin/env python3
"""S7, S10: the pods of packaging/kubernetes as processes of this machine, with the manifests' own arguments and names.

Kubernetes is not here: the test gives each pod a loopback address and puts its name into /etc/hosts. No test states a time.
"""
import json
import os
import pathlib
import signal
import subprocess
import sys
import unittest
import urllib.request

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "python"))

import needs  # noqa: E402

needs.need("yaml")
import manifests  # noqa: E402
from cluster_process import PROGRAM, TIMES, Clients, Cluster, await_true  # noqa: E402
from manifests import ROLES, container_of  # noqa: E402
from own_hosts import Hosts, enter  # noqa: E402
from server_process import Server  # noqa: E402


class PodsTest(unittest.TestCase):
    def setUp(self):
        # Of the cluster only the models, the clients and the folder are used.
        self.cluster = Cluster()
        self.addCleanup(self.cluster.stop)
        folder = self.cluster.folder
        self.hosts = Hosts(folder / "hosts", self)
        self.mounts = {"/etc/tutti/nodes": str(folder), "/etc/tutti/key": str(folder), "/models": str(self.cluster.models)}
        (folder / "key").write_text("a key of sixteen bytes or more\n")
        (folder / "key").chmod(0o600)
        # As in the manifest, but for times: on a busy machine nodes are late.
        (folder / "nodes").write_text((manifests.FOLDER / "base" / "nodes").read_text() + TIMES)
        self.sets = manifests.stateful_sets()
        self.host_of = {name: host for _, name, host, _, _ in manifests.nodes()}
        self.started = 0

    def start(self, pod):
        """With an address that no pod had before."""
        self.started += 1
        address = "127.%d.%d.%d" % (64 + os.getpid() % 128, os.getpid() // 128 % 256, self.started)
        self.hosts.put(self.host_of[pod], address)
        command = [PROGRAM, "serve"]
        for argument in container_of(self.sets[self.role_of(pod)])["args"]:
            argument = argument.replace("$(POD_NAME)", pod).replace("=0.0.0.0", "=" + address)
            for inside, here in self.mounts.items():
                argument = argument.replace("=" + inside, "=" + here).replace(":" + inside, ":" + here)
            command.append(argument)
        server = self.cluster.processes[pod] = Server(command)
        server.address = address + ":8000"

    def role_of(self, pod):
        return pod.split("-")[1]

    def probe(self, pod, name):
        """What Kubernetes would find."""
        probe = container_of(self.sets[self.role_of(pod)])[name]
        self.assertIsNone(self.cluster.processes[pod].process.poll(), self.cluster.processes[pod].said())
        try:
            return self.cluster.get(pod, probe["httpGet"]["path"])[0] == 200
        except OSError:
            return False

    def await_ready(self, pod):
        for name in ("startupProbe", "readinessProbe", "livenessProbe"):
            await_true(lambda name=name: self.probe(pod, name), 120, lambda name=name: "%s of %s: %s" % (name, pod, self.cluster.said()))

    def status(self):
        """The spare's address may be known to no one yet: nodes that are not there are left out."""
        folder = self.cluster.folder
        done = subprocess.run(
            [PROGRAM, "cluster", "status", "static:%s" % (folder / "nodes"), "--cluster-key", str(folder / "key"), "--json"],
            capture_output=True, text=True, timeout=120)  # fmt: skip
        return {node["name"]: node for node in json.loads(done.stdout)["nodes"]}

    def await_state(self, pod, *states):
        await_true(lambda: self.status()[pod]["state"] in states, 120, lambda: "%s is %s: %s" % (pod, states, self.cluster.said()))

    def replace(self, pod, *states):
        """As a rolling update does: SIGTERM, the drain, and a pod of the same name elsewhere."""
        process = self.cluster.processes[pod].process
        process.send_signal(signal.SIGTERM)
        if states:
            self.await_state(pod, *states)
        else:
            self.cluster.await_ready(pod, 503)
        process.send_signal(signal.SIGTERM)  # the drain need not last
        self.assertEqual(process.wait(120), 0, self.cluster.processes[pod].said())
        self.start(pod)
        self.await_ready(pod)

    def test_pods_come_go_and_scale(self):
        cluster = self.cluster
        pods = ["tutti-%s-%d" % (role, i) for role in ROLES for i in range(self.sets[role]["spec"]["replicas"])]
        self.assertEqual(len(pods), 8)
        for pod in pods:
            self.start(pod)
        for pod in pods:
            self.await_ready(pod)
        status = self.status()
        self.assertEqual({name for name, node in status.items() if node["state"] != "DOWN"}, set(pods), status)
        self.assertEqual(sum(bool(node["primary"]) for node in status.values()), 1)
        clients = Clients(cluster, ["tutti-frontend-1"])
        self.addCleanup(clients.stop)
        clients.await_more()
        self.replace("tutti-backend-3", "DRAINED")
        (primary,) = [name for name, node in status.items() if node["primary"]]
        self.replace(primary, "SPARE")
        self.replace("tutti-frontend-0")
        clients.await_more(40)
        self.start("tutti-backend-4")  # KEDA does that
        self.await_state("tutti-backend-4", "READY")
        for pod in ("tutti-backend-3", primary):
            self.await_state(pod, "READY", "SPARE", "PRIMARY")
        clients.await_more()
        clients.stop()
        self.assertEqual(clients.failures, [], cluster.said())
        self.assertEqual(cluster.infer("tutti-frontend-0", 7)[0], 200)
        page = urllib.request.urlopen("http://%s/metrics" % cluster.processes[primary].address, timeout=60).read().decode()
        self.assertIn("\ntutti_cluster_primary ", page)


if __name__ == "__main__":
    enter()
    unittest.main(verbosity=2)
