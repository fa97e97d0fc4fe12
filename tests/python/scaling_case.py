"""What tests of a cluster that scales have in common."""
import atexit
import json
import os
import pathlib
import re
import signal
import unittest

from cluster_process import Cluster, await_true

SOON = ("--scale-hold-s", "1", "--scale-deliver-s", "60", "--scale-retry-s", "0.5")


def end_backends(folder):
    """Backends that a scheduler started in this folder; they do not end with it."""
    for lock in folder.glob("*.lock"):
        number = int(lock.read_text().strip() or 0)
        try:
            words = pathlib.Path("/proc/%d/cmdline" % number).read_bytes().split(b"\0")
        except OSError:
            continue
        if number > 1 and lock.stem.encode() in words:
            os.kill(number, signal.SIGKILL)


class ScalingCase(unittest.TestCase):
    shared = ()  # flags of nodes and of tutti cluster

    def start(self, *flags):
        """Schedulers, with these flags, and frontends."""
        cluster = self.cluster
        for name, role in cluster.nodes.items():
            if role != "backend":
                cluster.start(name, *self.shared, *(flags if role == "scheduler" else ()))
        for name in cluster.processes:
            self.assertTrue(cluster.processes[name].wait_ready(60), cluster.said())

    def scale(self, *words):
        """The scaling, or the error."""
        result = self.cluster.command("scale", *words, *self.shared, "--json", "--timeout", "30")
        return json.loads(result.stdout) if result.returncode == 0 else result.stderr

    def pool(self):
        answer = self.scale("show", self.cluster.spec)
        self.assertIsInstance(answer, dict, answer)
        return answer["pools"][0]

    def pin(self, devices):
        answer = self.scale("pin", self.cluster.spec, "--pool", "default", "--devices", str(devices))
        self.assertIsInstance(answer, dict, answer)

    def await_pool(self, **wanted):
        def look():
            answer = self.scale("show", self.cluster.spec)
            if not isinstance(answer, dict):
                return False  # no primary just now
            self.seen = answer["pools"][0]
            return all(self.seen[key] == value for key, value in wanted.items())

        self.seen = None
        await_true(look, 60, lambda: "%s; %s; %s" % (wanted, self.seen, self.cluster.said()))
        return self.seen

    def await_last(self, pattern):
        def look():
            self.seen = self.pool()["last"]
            return re.search(pattern, self.seen)

        await_true(look, 60, lambda: "%s; %s; %s" % (pattern, self.seen, self.cluster.said()))

    def states(self):
        return {node["name"]: node["state"] for node in self.pool()["nodes"]}

    def metrics(self, name):
        """{family: {value of the label, or None: value}}"""
        found = {}
        page = self.cluster.get(name, "/metrics")[1].decode()
        for family, label, value in re.findall(r'^(tutti_cluster_\w+)(?:\{\w+="([^"]*)"[^}]*\})? (\S+)$', page, re.M):
            found.setdefault(family, {})[label or None] = float(value)
        return found


class EmulatedCase(ScalingCase):
    """The provider is the one of emulated backends."""

    def setUp(self):
        super().setUp()
        self.folder = None

    def begin_emulated(self, *flags, devices=2, profile=None, **shape):
        self.cluster = Cluster(backends=3, devices=devices, **shape)
        if profile:
            (self.cluster.models / "echo" / "profile.pbtxt").write_text(profile)
        self.folder = self.cluster.folder / "backends"
        self.addCleanup(end_backends, self.folder)
        atexit.register(end_backends, self.folder)
        self.addCleanup(self.cluster.stop)  # before that, or it would start them again
        self.start("--scale-emulated", str(self.folder), *SOON, *flags)
        self.await_pool(ready=devices)
        self.cluster.await_ready("f1")
