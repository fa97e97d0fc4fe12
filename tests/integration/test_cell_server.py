#!/usr/bin/env python3
"""Models of cells over HTTP: all kinds at once, from several clients, beside what each request gets alone; what is
malformed is refused with its place; a client that goes away affects no other; metrics and trace show which requests joined and left."""
import collections
import http.client
import json
import os
import pathlib
import random
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "python"))

from needs import need  # noqa: E402
from plain_client import Server, get  # noqa: E402

EOS = 2
CLIENTS, EACH = 6, 25
PADDED = 'length { pad: true }\npolicy { name: "padded" option { key: "width" value: "0" } }\n'


def make_models(folder):
    models = pathlib.Path(folder) / "models"
    maker = [sys.executable, ROOT / "scripts" / "make_models.py", "--out", models, "--only"]
    subprocess.run(maker + ["chain64", "seq2seq64", "tree64", "decoder64_cached"], check=True, capture_output=True)
    # The same cells as whole sequences, padded to the longest of the batch.
    padded = models / "padded64"
    padded.mkdir()
    (padded / "1").symlink_to(models / "chain64" / "1")
    settings = (models / "chain64" / "tutti.pbtxt").read_text()
    window = 'policy { name: "window" option { key: "same_length" value: "off" } }\n'
    (padded / "tutti.pbtxt").write_text(settings + "\n" + window)
    # With a profile that says nothing of cells.
    plain = models / "plain64"
    plain.mkdir()
    (plain / "1").symlink_to(models / "chain64" / "1")
    (plain / "tutti.pbtxt").write_text(settings)
    (plain / "profile.pbtxt").write_text("linear { alpha_ms: 0.1 beta_ms: 0.05 }\n")
    # L6: and preempted, caught up with and merged, cell by cell.
    for name in "chain64", "seq2seq64":
        lazy = models / ("lazy_" + name)
        lazy.mkdir()
        (lazy / "1").symlink_to(models / name / "1")
        settings = (models / name / "tutti.pbtxt").read_text()
        (lazy / "tutti.pbtxt").write_text(settings + '\npolicy { name: "lazy" }\n')
    # States in place, by cells and by sequences.
    cached = models / "decoder64_cached"
    settings = (cached / "tutti.pbtxt").read_text()
    for name, policy in ("padded", PADDED), ("lazy", 'policy { name: "lazy" }\n'):
        model = models / (name + "_cached64")
        model.mkdir()
        (model / "1").symlink_to(cached / "1")
        (model / "tutti.pbtxt").write_text(settings + "\n" + policy)
    # L3: and whose decoder is stopped before it has an end of its own.
    brief = (models / "seq2seq64" / "tutti.pbtxt").read_text().replace("eos: 2", "eos: 2 max_output: 3")
    for name, policy in ("brief_seq2seq64", ""), ("brief_lazy64", 'policy { name: "lazy" }\n'):
        (models / name).mkdir()
        (models / name / "1").symlink_to(models / "seq2seq64" / "1")
        (models / name / "tutti.pbtxt").write_text(brief + "\n" + policy)
    return models


def body(tensors):
    return json.dumps(
        {
            "inputs": [
                {"name": name, "shape": [1, len(values)], "datatype": "INT64", "data": values}
                for name, values in tensors.items()
            ]
        }
    )


def random_tokens(draw):
    return {"tokens": [draw.randrange(3, 500) for _ in range(draw.choice([1, 2, 5, 9, 17, 40]))]}


def random_tree(draw):
    """Leaves in a row; two neighbours are joined until there is one node: any shape, the root last."""
    tokens = [draw.randrange(1000) for _ in range(draw.randrange(1, 12))]
    left, right = [-1] * len(tokens), [-1] * len(tokens)
    roots = list(range(len(tokens)))
    while len(roots) > 1:
        at = draw.randrange(len(roots) - 1)
        left.append(roots[at])
        right.append(roots[at + 1])
        tokens.append(0)
        roots[at : at + 2] = [len(tokens) - 1]
    return {"tokens": tokens, "left": left, "right": right}


def short_prompt(draw):
    return {"tokens": [draw.randrange(3, 500) for _ in range(draw.choice([1, 2, 5, 9, 17, 32]))]}


KINDS = {
    "chain64": random_tokens,
    "seq2seq64": random_tokens,
    "tree64": random_tree,
    "padded64": random_tokens,
    "lazy_chain64": random_tokens,
    "lazy_seq2seq64": random_tokens,
    "decoder64_cached": short_prompt,
    "padded_cached64": short_prompt,
    "lazy_cached64": short_prompt,
}


def infer(client, model, tensors):
    client.request("POST", "/v2/models/%s/infer" % model, body(tensors))
    answer = client.getresponse()
    return answer.status, json.loads(answer.read())


class Cells(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.server = Server(make_models(cls.folder.name))

    @classmethod
    def tearDownClass(cls):
        code = cls.server.end(signal.SIGTERM)
        said = cls.server.said()
        cls.folder.cleanup()
        if code != 0:
            raise AssertionError("the server ended with %d:\n%s" % (code, said))

    def client(self):
        client = http.client.HTTPConnection(self.server.address, timeout=60)
        self.addCleanup(client.close)
        return client

    def test_all_kinds_at_once_are_what_they_are_alone(self):
        seed = int(os.environ.get("TUTTI_SEED") or random.randrange(1 << 30))
        print("seed: TUTTI_SEED=%d" % seed, file=sys.stderr)
        draw = random.Random(seed)
        asked = [(model, KINDS[model](draw)) for model in sorted(KINDS) for _ in range(EACH)]
        alone = []
        client = self.client()
        for model, tensors in asked:
            status, answer = infer(client, model, tensors)
            self.assertEqual(status, 200, answer)
            alone.append(answer["outputs"])
        for (model, tensors), outputs in zip(asked, alone):
            if model.endswith("seq2seq64"):
                words = outputs[0]["data"]
                self.assertNotIn(EOS, words[:-1])
                self.assertTrue(words[-1] == EOS or len(words) == len(tensors["tokens"]) + 10)
        wrong = []

        def run(index):
            order = random.Random(seed + index)
            mine = list(range(len(asked)))
            order.shuffle(mine)
            own = http.client.HTTPConnection(self.server.address, timeout=60)
            for i in mine:
                model, tensors = asked[i]
                if order.randrange(10) == 0:
                    self.vanish(model, tensors)
                status, answer = infer(own, model, tensors)
                if status != 200 or answer["outputs"] != alone[i]:
                    wrong.append((model, tensors, status, answer))
            own.close()

        threads = [threading.Thread(target=run, args=(i,)) for i in range(CLIENTS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])
        trace = json.loads(get(self.server.address, "/v2/debug/trace")[2])
        batches = [e for e in trace["traceEvents"] if e["ph"] == "X" and e.get("cat") == "batch"]
        lazy = [e["args"] for e in batches if e["name"].startswith("lazy_")]
        outcomes = collections.Counter(batch["outcome"] for batch in lazy)
        self.assertGreater(outcomes["preempted"], 0, outcomes)
        self.assertGreater(outcomes["parted"], 0, outcomes)
        self.assertTrue(any(batch["rows"] > 1 for batch in lazy))

    def vanish(self, model, tensors):
        """A client that goes without its answer."""
        host, port = self.server.address.split(":")
        content = body(tensors).encode()
        head = "POST /v2/models/%s/infer HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n"
        with socket.create_connection((host, int(port))) as client:
            client.sendall((head % (model, len(content))).encode() + content)

    def test_what_is_malformed_is_refused_with_its_place(self):
        client = self.client()
        for model, tensors, place in [
            ("chain64", {"tokens": []}, "'tokens' is empty"),
            ("chain64", {"tokens": [1, 2000]}, "element 1 of input 'tokens' is 2000"),
            ("chain64", {"tokens": [1] * 600}, "at most 512"),
            ("tree64", {"tokens": [1, 2], "left": [-1, 0], "right": [-1, 0]}, "one parent"),
            ("tree64", {"tokens": [1, 2], "left": [-1, 1], "right": [-1, 0]}, "node"),
            ("tree64", {"tokens": [1, 2, 3], "left": [-1, -1, 0], "right": [-1, -1, -1]}, "-1"),
            ("tree64", {"tokens": [1, 2, 3], "left": [-1, -1, 0], "right": [-1, -1, 7]}, "is 7"),
        ]:
            status, answer = infer(client, model, tensors)
            self.assertEqual(status, 400, (tensors, answer))
            self.assertIn(place, answer["error"])

    def output_lengths(self, model):
        page = get(self.server.address, "/metrics")[2].decode()
        labels = r'\{model="%s",version="1"(?:,le="(\S+)")?\} (\d+)$' % model
        found = re.findall(r"^tutti_output_length_(\w+)" + labels, page, re.M)
        buckets = {bound: int(value) for kind, bound, value in found if kind == "bucket"}
        return buckets, {kind: int(value) for kind, bound, value in found if not bound}

    def test_metrics_show_how_long_outputs_are(self):
        draw, client = random.Random(9), self.client()
        for model in "seq2seq64", "lazy_seq2seq64":
            buckets_before, before = self.output_lengths(model)
            lengths = []
            for _ in range(5):
                answer = infer(client, model, random_tokens(draw))[1]
                lengths.append(answer["outputs"][0]["shape"][1])
            buckets, after = self.output_lengths(model)
            self.assertEqual(after["count"] - before["count"], 5)
            self.assertEqual(after["sum"] - before["sum"], sum(lengths))
            for bound in ("4", "8", "12", "40", "4096"):
                expected = sum(length <= int(bound) for length in lengths)
                self.assertEqual(buckets[bound] - buckets_before[bound], expected, bound)
        self.assertEqual(self.output_lengths("chain64"), ({}, {}))

    def test_a_profile_without_cells(self):
        """They are measured; what the file says is freed (a sanitizer sees it)."""
        page = get(self.server.address, "/metrics")[2].decode()
        self.assertRegex(page, r'tutti_model_info\{model="plain64",[^}]*profile="measured"')
        tokens, client = random_tokens(random.Random(11)), self.client()
        self.assertEqual(infer(client, "plain64", tokens)[1]["outputs"], infer(client, "chain64", tokens)[1]["outputs"])

    def test_metrics_count_outputs_that_were_stopped(self):
        draw, client = random.Random(10), self.client()
        for model in "brief_seq2seq64", "brief_lazy64":
            before, lengths = self.metrics_of(model)["tutti_output_at_limit_total"], []
            for _ in range(5):
                answer = infer(client, model, random_tokens(draw))[1]
                lengths.append(answer["outputs"][0]["shape"][1])
            counted = self.metrics_of(model)["tutti_output_at_limit_total"] - before
            self.assertEqual(max(lengths), 3)
            self.assertEqual(counted, lengths.count(3))

    def metrics_of(self, model):
        page = get(self.server.address, "/metrics")[2].decode()
        found = re.findall(r'^(\w+)\{model="%s",version="1"[^}]*\} (\d+)$' % model, page, re.M)
        return collections.Counter({name: int(value) for name, value in found})

    def wait_until(self, model, holds):
        """The metrics of the moment when that was so."""
        give_up_at = time.monotonic() + 60
        while not holds(metrics := self.metrics_of(model)):
            self.assertLess(time.monotonic(), give_up_at, metrics)
        return metrics

    def test_who_goes_away_midway_leaves_no_slot_behind(self):
        many, long = 40, 500
        for model in "chain64", "lazy_chain64":
            for _ in range(100):  # until some have begun and not come to their end
                before = self.metrics_of(model)
                for _ in range(many):
                    self.vanish(model, {"tokens": [5] * long})
                all_came = before["tutti_requests_accepted_total"] + many
                after = self.wait_until(
                    model,
                    lambda now: now["tutti_requests_accepted_total"] == all_came
                    and now["nv_inference_pending_request_count"] == 0,
                )
                gone = after["tutti_requests_cancelled_total"] - before["tutti_requests_cancelled_total"]
                cells = after["tutti_cells_total"] - before["tutti_cells_total"]
                if gone > 0 and cells % long != 0:
                    break
            self.assertGreater(gone, 0)
            self.assertLess(cells, many * long)
            self.assertGreater(after["tutti_cell_slots"], 0)
            # What had been submitted still runs.
            self.wait_until(model, lambda now: now["tutti_cell_slots_promised"] == 0)

    def test_who_goes_away_midway_leaves_no_cache_behind(self):
        for model in "decoder64_cached", "padded_cached64", "lazy_cached64":
            draw = random.Random(11)
            asked = short_prompt(draw)
            expected = infer(self.client(), model, asked)
            self.assertEqual(expected[0], 200, expected)
            for _ in range(60):
                self.vanish(model, {"tokens": [5] * draw.choice([3, 32])})
            after = self.wait_until(model, lambda now: now["tutti_cell_caches_promised"] == 0)
            self.assertGreater(after["tutti_cell_caches"], 0)
            self.assertEqual(infer(self.client(), model, asked)[1]["outputs"], expected[1]["outputs"])

    def test_metrics_and_trace_show_the_cells(self):
        draw = random.Random(7)
        clients = [self.client() for _ in range(8)]

        def run(client):
            for _ in range(10):
                infer(client, "chain64", {"tokens": [5] * draw.choice([3, 40])})

        threads = [threading.Thread(target=run, args=(client,)) for client in clients]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        page = get(self.server.address, "/metrics")[2].decode()
        found = dict(re.findall(r'^(tutti_cell\w+){model="chain64",version="1",cell="lstm"} (\d+)$', page, re.M))
        self.assertGreaterEqual(int(found["tutti_cells_total"]), 8 * 10 * 3)
        self.assertGreater(int(found["tutti_cell_tasks_total"]), 0)
        self.assertLess(int(found["tutti_cell_tasks_total"]), int(found["tutti_cells_total"]))
        self.assertGreater(int(found["tutti_cell_spared_bytes_total"]), 0)
        self.assertEqual(int(found["tutti_cell_batch_size_count"]), int(found["tutti_cell_tasks_total"]))
        trace = json.loads(get(self.server.address, "/v2/debug/trace")[2])
        flows = collections.defaultdict(set)
        for event in trace["traceEvents"]:
            if event["ph"] == "s":
                flows[event["name"]].add(event["id"])
        self.assertGreater(len(flows["joins"]), 0)
        # The batch that the oldest joined may have left the trace, the one that they left has not.
        self.assertLessEqual({joined + 1 for joined in flows["joins"]}, flows["leaves"])
        runs = {
            e["args"]["run"]: e for e in trace["traceEvents"] if e["ph"] == "X" and e["cat"] == "batch"
        }
        joined = [
            e["args"] for e in trace["traceEvents"] if e["ph"] == "X" and "joined_run" in e.get("args", {})
        ]
        overlaps = 0  # some request joined while another one was on its way, and left before or after it
        for one in joined:
            self.assertLess(one["joined_run"], one["run"])
            overlaps += any(o["joined_run"] < one["joined_run"] < o["run"] for o in joined)
        self.assertGreater(overlaps, 0)
        self.assertTrue(any(batch["args"]["rows"] > 1 for batch in runs.values()))


if __name__ == "__main__":
    need("numpy", "onnx")
    unittest.main()
