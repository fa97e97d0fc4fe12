#!/usr/bin/env python3
"""`tutti serve --record` of models of cells (chain, sequence to sequence, tree), and `tutti replay`: to the same
decisions, under other policies, and of an altered file."""
import http.client
import json
import pathlib
import random
import re
import shutil
import signal
import sys
import tempfile
import threading
import unittest

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "python"))

from needs import need  # noqa: E402

need("onnx")

import test_cell_server as cells  # noqa: E402
from plain_client import Server, get, vanish  # noqa: E402
from recordings import replay, with_checksums  # noqa: E402

CLIENTS, EACH = 6, 30
KINDS = dict(cells.KINDS, whole_seq2seq64=cells.random_tokens)


def make_models(folder):
    """Also a sequence to sequence model of whole sequences, whose batches are larger than its decoder's."""
    models = cells.make_models(folder)
    whole = models / "whole_seq2seq64"
    whole.mkdir()
    (whole / "1").symlink_to(models / "seq2seq64" / "1")
    settings = (models / "seq2seq64" / "tutti.pbtxt").read_text()
    window = 'policy { name: "window" option { key: "same_length" value: "off" } }\n'
    (whole / "tutti.pbtxt").write_text(settings + "\n" + window)
    return models


def load(address, models, seed):
    """Requests to all of them from several clients, some of which do not wait. Returns how many were answered."""
    answered = []

    def run(index):
        draw = random.Random(seed + index)
        client = http.client.HTTPConnection(address, timeout=60)
        for _ in range(EACH):
            model = draw.choice(models)
            if draw.randrange(10) == 0:
                vanish(address, model, cells.body(KINDS[model](draw)))
            status, answer = cells.infer(client, model, KINDS[model](draw))
            assert status == 200, answer
            answered.append(model)
        client.close()

    threads = [threading.Thread(target=run, args=(i,)) for i in range(CLIENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return len(answered)


def serve(models, names, recording):
    """Records what a server does with a load; all of it was answered."""
    server = Server(models, "--record", recording)
    answered = load(server.address, names, 11)
    if server.end(signal.SIGTERM) != 0 or answered != CLIENTS * EACH:
        raise AssertionError("%d answers; the server said:\n%s" % (answered, server.said()))


class AllKinds(unittest.TestCase):
    """All three kinds in one domain, and whole sequences in two others."""

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        cls.recording = cls.folder / "cells.rec"
        cls.models = make_models(folder.name)
        serve(cls.models, sorted(KINDS), cls.recording)

    def assert_identical(self, *arguments):
        answer = replay(*arguments, "--json")
        self.assertEqual((answer.returncode, answer.stderr), (0, ""), answer.stderr)
        report = json.loads(answer.stdout)
        self.assertTrue(report["identical"] and report["complete"])
        return {domain["policy"]: domain for domain in report["domains"]}

    def test_identical_decisions(self):
        domains = self.assert_identical(self.recording)
        self.assertEqual(sorted(domains), ["cellular", "lazy", "padded", "window"])
        self.assertGreater(domains["cellular"]["decisions"], 500)
        totals = [domain["recorded"]["total"] for domain in domains.values()]
        served = sum(total["ok"] + total["late"] for total in totals)
        self.assertGreaterEqual(served, CLIENTS * EACH)
        answer = replay(self.recording, "--check")
        self.assertEqual(answer.returncode, 0, answer.stderr)
        self.assertEqual(answer.stdout.count("all identical"), 4)

    def domain(self, policy):
        """The number of the policy's domain: that of its first block."""
        return self.assert_identical(self.recording)[policy]["domain"]

    def simulated(self, domain, *arguments):
        answer = replay(self.recording, "--domain", domain, "--json", *arguments)
        self.assertEqual(answer.returncode, 0, answer.stderr)
        return json.loads(answer.stdout)["domains"][0]

    def test_other_policies_by_cells(self):
        options = ["--policy-option", "max_tasks=1"]
        for arguments in [["recorded"], ["cellular", *options], ["merged"]]:
            report = self.simulated(self.domain("cellular"), "--policy", *arguments)
            recorded, simulated = report["recorded"]["total"], report["simulated"]["total"]
            self.assertEqual(simulated["arrived"], recorded["arrived"])
            served = simulated["ok"] + simulated["late"]
            self.assertGreaterEqual(served, recorded["ok"] + recorded["late"])
            self.assertEqual(served + simulated["cancelled"], simulated["arrived"])

    def test_whole_sequences_by_cells(self):
        for policy in "lazy", "window":
            report = self.simulated(self.domain(policy), "--policy", "cellular")
            simulated, recorded = report["simulated"], report["recorded"]["total"]
            self.assertEqual(simulated["policy"], "cellular")
            self.assertEqual(simulated["total"]["arrived"], recorded["arrived"])
            # How long outputs became is known of all that were answered.
            self.assertLessEqual(report["unknown_ends"], recorded["cancelled"])

    def test_trees_are_for_cells(self):
        answer = replay(self.recording, "--domain", self.domain("cellular"), "--policy", "padded")
        self.assertEqual(answer.returncode, 2, answer.stderr)
        self.assertIn("'tree64' are trees", answer.stderr)

    def test_a_file_that_lies(self):
        """An option of the policy is another than it was: decisions differ, exit code 1."""
        folder = self.folder / "few"
        models = folder / "models"
        models.mkdir(parents=True)
        shutil.copytree(self.models / "chain64", models / "chain64")
        settings = models / "chain64" / "tutti.pbtxt"
        option = 'option { key: "max_tasks" value: "5" }'
        policy = 'policy { name: "cellular" %s }\n' % option
        settings.write_text(settings.read_text() + "\n" + policy)
        recording = folder / "few.rec"
        serve(models, ["chain64"], recording)
        self.assert_identical(recording)
        content = bytearray(recording.read_bytes())
        place = content.index(b"max_tasks") + len(b"max_tasks")
        value = content.index(b"5", place)
        self.assertLess(value - place, 4)
        content[value] = ord("1")
        lying = folder / "lying.rec"
        lying.write_bytes(with_checksums(content))
        answer = replay(lying)
        self.assertEqual(answer.returncode, 1, answer.stderr)
        self.assertIn("the next one differs", answer.stdout)
        self.assertIn("cell", answer.stderr)
        self.assertIn("(request/subgraph)", answer.stderr)


class Sequences(unittest.TestCase):
    """Chains and sequences to sequences, by cells: what padding, or lazy batching, would have done with them."""

    def test_policies_of_whole_sequences(self):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            models = make_models(name)
            for model in models.iterdir():
                if model.is_dir() and model.name not in ("chain64", "seq2seq64"):
                    shutil.rmtree(model)
            recording = folder / "rows.rec"
            server = Server(models, "--record", recording)
            load(server.address, ["chain64", "seq2seq64"], 5)
            page = get(server.address, "/metrics")[2].decode()
            self.assertEqual(server.end(signal.SIGTERM), 0, server.said())
            computed = sum(map(int, re.findall(r"^tutti_cells_total\{.*\} (\d+)$", page, re.M)))
            print("%.1f bytes per cell" % (recording.stat().st_size / computed), file=sys.stderr)
            for policy in "padded", "lazy", "window", "serial":
                answer = replay(recording, "--policy", policy, "--json")
                self.assertEqual(answer.returncode, 0, answer.stderr)
                report = json.loads(answer.stdout)
                self.assertTrue(report["identical"])
                domain = report["domains"][0]
                total = domain["simulated"]["total"]
                self.assertEqual(domain["simulated"]["policy"], policy)
                self.assertEqual(total["arrived"], domain["recorded"]["total"]["arrived"])
                self.assertGreaterEqual(total["ok"] + total["late"], CLIENTS * EACH)


if __name__ == "__main__":
    unittest.main(verbosity=1)
