#!/usr/bin/env python3
"""Policy elastic on real models over HTTP: inputs in one ring, workers of several sizes, what is found of them offline."""
import concurrent.futures
import http.client
import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "python"))
sys.path.insert(0, str(ROOT / "scripts"))

from plain_client import PROGRAM, Server, get  # noqa: E402

from needs import need  # noqa: E402

need("onnx")

CLIENTS, EACH, SLOTS = 12, 25, 8
WORKERS = 'policy { name: "elastic" option { key: "workers" value: "1,1,2,4" } }\n'
ENHANCED = 'policy { name: "elastic" option { key: "variant" value: "enhanced" } }\n'


def run(*arguments, timeout=120):
    return subprocess.run(
        [PROGRAM, *map(str, arguments)], capture_output=True, text=True, timeout=timeout
    )


def write(models, name, settings):
    """The same graph under another name and other settings."""
    (models / name / "1").mkdir(parents=True)
    graph = (models / "mlp" / "1" / "model.onnx").read_bytes()
    (models / name / "1" / "model.onnx").write_bytes(graph)
    (models / name / "config.pbtxt").write_text("max_batch_size: 16\n")
    (models / name / "tutti.pbtxt").write_text(settings)


def body(seed, rows):
    numbers = random.Random(seed)
    data = [numbers.uniform(-1, 1) for _ in range(16 * rows)]
    return json.dumps(
        {"inputs": [{"name": "input", "shape": [rows, 16], "datatype": "FP32", "data": data}]}
    )


def infer(client, model, seed, rows):
    client.request("POST", "/v2/models/%s/infer" % model, body(seed, rows))
    answer = client.getresponse()
    content = json.loads(answer.read())
    return answer.status, content["outputs"][0]["data"] if answer.status == 200 else content


def ask_embed(address, index, rows):
    """One request of `rows` rows; of every fifth the last row is one that the model fails for."""
    number = 100 if index % 5 == 0 else index % 100
    data = [index % 100] * 4 * (rows - 1) + [number] * 4
    tensor = {"name": "ids", "shape": [rows, 4], "datatype": "INT64", "data": data}
    path = "/v2/models/embed/infer"
    status, _, content = get(address, path, "POST", json.dumps({"inputs": [tensor]}))
    content = json.loads(content)
    if status == 200:
        vectors = content["outputs"][0]["data"]  # row after row, number, number + 1/8 .. for each
        if [vectors[-32 * rows], vectors[-32]] != [data[0], number]:
            status = "wrong"
    return number, status, content


class Elastic(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        cls.models = cls.folder / "models"
        maker = ROOT / "scripts" / "make_models.py"
        command = [sys.executable, maker, "--out", cls.models, "--only", "mlp"]
        subprocess.run(command, check=True, capture_output=True)
        (cls.models / "mlp" / "tutti.pbtxt").write_text('policy { name: "serial" }\n')
        write(cls.models, "ring", WORKERS + "input_slots: %d\n" % SLOTS)
        write(cls.models, "arenas", WORKERS + "stages { count: 1 own_arenas: true }\n")
        write(cls.models, "nobody-waits", 'policy { name: "window" }\ninput_slots: 8\n')

    def embed(self, folder):
        """A repository with a model whose run fails for the number 100."""
        from models.small import build_embed

        models = self.folder / folder
        models.mkdir()
        write(self.models, "embed", WORKERS + "input_slots: %d\n" % SLOTS)
        os.rename(self.models / "embed", models / "embed")
        (models / "embed" / "1" / "model.onnx").write_bytes(build_embed())
        return models

    def metric(self, address, name, model):
        page = get(address, "/metrics")[2].decode()
        line = next(l for l in page.splitlines() if l.startswith('%s{model="%s"' % (name, model)))
        return int(line.split()[-1])

    def storm(self, address, model, expected):
        """Every client asks with batches of 1 to 4 rows; the answers are those of the rows alone."""
        wrong = []

        def ask(index):
            client = http.client.HTTPConnection(address, timeout=60)
            for i in range(EACH):
                seed, rows = (index * EACH + i) % 40, 1 + (index + i) % 4
                status, data = infer(client, model, seed, rows)
                good = status == 200 and all(
                    abs(a - b) < 1e-4 for a, b in zip(data, expected[seed, rows], strict=True)
                )
                if not good:
                    wrong.append((status, data))
            client.close()

        threads = [threading.Thread(target=ask, args=(i,)) for i in range(CLIENTS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])

    # E1, E2, E3: answers are right whichever requests share a batch, nothing is copied or left behind, and the same decisions
    # follow from the recording, slots and all.
    def test_served_and_replayed(self):
        recording = self.folder / "elastic.rec"
        server = Server(self.models, "--record", recording)
        try:
            client = http.client.HTTPConnection(server.address, timeout=60)
            expected = {}
            for seed in range(40):
                for rows in range(1, 5):
                    expected[seed, rows] = infer(client, "mlp", seed, rows)[1]
            client.close()
            for model in ("ring", "arenas"):
                self.storm(server.address, model, expected)
                served = self.metric(server.address, "nv_inference_request_success", model)
                self.assertEqual(served, CLIENTS * EACH)
                self.assertEqual(self.metric(server.address, "tutti_gathered_bytes_total", model), 0)
                self.assertEqual(self.metric(server.address, "tutti_input_slots_used", model), 0)
            self.assertEqual(self.metric(server.address, "tutti_input_slots", "ring"), SLOTS)
            self.assertGreater(self.metric(server.address, "tutti_input_held_back_total", "ring"), 0)
            self.assertEqual(self.metric(server.address, "tutti_input_slots", "mlp"), 0)
            too_many = get(server.address, "/v2/models/ring/infer", "POST", body(1, 9))
            self.assertEqual(too_many[0], 400)
            self.assertIn(b"has 9 rows, but model 'ring' has room for the inputs of 8", too_many[2])
            refused = get(server.address, "/v2/models/nobody-waits/infer", "POST", body(1, 1))
            self.assertIn(b"policy window does not wait for inputs", refused[2])
        finally:
            code = server.end(signal.SIGTERM)
        self.assertEqual(code, 0, server.said())
        answer = run("replay", recording)
        self.assertEqual(answer.returncode, 0, answer.stderr)
        for line in answer.stdout.splitlines():
            self.assertIn("all identical", line)

    # E5: the search writes what the server takes up, and what is of another model it refuses.
    def test_found_offline_and_followed(self):
        models = self.folder / "searched"
        models.mkdir()
        os.symlink(self.models / "mlp", models / "mlp")
        write(models, "best", ENHANCED)
        answer = run("profile", models / "best", "--workers", "4,8", "--runs", 1)
        self.assertEqual(answer.returncode, 0, answer.stderr)
        found = models / "best" / "workers.pbtxt"
        self.assertEqual(found.read_text().count("mix {"), 4 + 10)
        self.assertFalse((models / "best" / "workers.pbtxt.part").exists())
        self.assertIn('configurations "', answer.stderr)
        server = Server(models)
        try:
            status, _, content = get(server.address, "/v2/models/best/infer", "POST", body(1, 2))
            self.assertEqual(status, 200, content)
        finally:
            self.assertEqual(server.end(signal.SIGTERM), 0, server.said())
        found.write_text(found.read_text().replace('model_sha256: "', 'model_sha256: "0'))
        server = Server(models)
        try:
            content = get(server.address, "/v2/models/best/infer", "POST", body(1, 1))[2]
            self.assertIn(b"another model file", content)
        finally:
            server.end(signal.SIGTERM)
        server = Server(models, "--measure-stale")
        try:
            content = get(server.address, "/v2/models/best/infer", "POST", body(1, 1))
            self.assertEqual(content[0], 200, content[2])
        finally:
            server.end(signal.SIGTERM)

    # E1: the batch of a worker fails: the offender gets the error, the others their answers, the ring moves on.
    def test_a_worker_that_fails(self):
        server = Server(self.embed("failing"))

        def ask(index):
            return ask_embed(server.address, index, 1)

        try:
            with concurrent.futures.ThreadPoolExecutor(CLIENTS) as clients:
                for number, status, content in clients.map(ask, range(200)):
                    if number == 100:
                        self.assertEqual(status, 400, content)
                    else:
                        self.assertEqual(status, 200, content)
                        self.assertEqual(content["outputs"][0]["data"][0], number)
            self.assertEqual(self.metric(server.address, "tutti_input_slots_used", "embed"), 0)
        finally:
            self.assertEqual(server.end(signal.SIGTERM), 0, server.said())

    # E1, E2: workers come and go while they are asked: other sizes, another number of them, another ring, no ring at all.
    # No answer is lost although some workers' batches fail throughout, and every ring is empty at the end.
    def test_workers_change_while_they_are_asked(self):
        models = self.embed("changing")
        flags = ["--model-control-mode", "explicit", "--load-model", "embed"]
        server = Server(models, *flags)
        states = [
            'policy { name: "elastic" option { key: "workers" value: "%s" } }\ninput_slots: %d\n' % state
            for state in [("4,8", 16), ("1", 4), ("1,1,2,4,8,16", 8), ("2,2,2", 5)]
        ]
        states.insert(2, 'policy { name: "serial" }\n')
        states.append(ENHANCED)
        done = threading.Event()
        answers = []

        def client(index):
            i = index
            while not done.is_set():
                answers.append(ask_embed(server.address, i, 1 + i % 4))
                i += CLIENTS

        threads = [threading.Thread(target=client, args=(i,)) for i in range(CLIENTS)]
        try:
            for thread in threads:
                thread.start()
            for state in states * 3:
                (models / "embed" / "tutti.pbtxt").write_text(state)
                answered = len(answers)
                loaded = get(server.address, "/v2/repository/models/embed/load", "POST", "{}")
                self.assertEqual(loaded[0], 200, loaded[2])
                while len(answers) < answered + 2 * CLIENTS:  # each serves for a while
                    done.wait(0.001)
            done.set()
            for thread in threads:
                thread.join()
            self.assertEqual(self.metric(server.address, "tutti_input_slots_used", "embed"), 0)
            # The sum of both versions, until the last user of the earlier one has let go of it.
            ends_at = time.monotonic() + 60
            while self.metric(server.address, "tutti_input_slots", "embed") != 64:
                self.assertLess(time.monotonic(), ends_at, "the slots of an earlier version stay")
                time.sleep(0.05)
            for number, status, content in answers:
                self.assertEqual(status, 400 if number == 100 else 200, content)
            self.assertEqual(
                self.metric(server.address, "nv_inference_request_success", "embed"),
                sum(status == 200 for _, status, _ in answers),
            )
        finally:
            done.set()
            self.assertEqual(server.end(signal.SIGTERM), 0, server.said())

    # A model that goes while its ring is full: admitted requests are answered, the others are refused.
    def test_unloaded_while_it_is_asked(self):
        models = self.embed("leaving")
        server = Server(models, "--model-control-mode", "explicit", "--load-model", "embed")
        try:
            with concurrent.futures.ThreadPoolExecutor(CLIENTS) as clients:
                asked = [clients.submit(ask_embed, server.address, i, 1 + i % 8) for i in range(400)]
                while sum(a.done() for a in asked) < 100:
                    threading.Event().wait(0.001)
                gone = get(server.address, "/v2/repository/models/embed/unload", "POST", "{}")
                self.assertEqual(gone[0], 200, gone[2])
                answers = [a.result() for a in asked]
            for number, status, content in answers:
                if status == 503:
                    self.assertRegex(content["error"], "is not at ready state: (UNLOADING|unloaded)$")
                else:
                    self.assertEqual(status, 400 if number == 100 else 200, content)
            self.assertGreater(sum(status == 503 for _, status, _ in answers), 0)
            self.assertEqual(self.metric(server.address, "tutti_input_slots_used", "embed"), 0)
            for _ in range(1000):  # until the last port that used the model has released it
                if self.metric(server.address, "tutti_input_slots", "embed") == 0:
                    break
                threading.Event().wait(0.02)
            self.assertEqual(self.metric(server.address, "tutti_input_slots", "embed"), 0)
        finally:
            self.assertEqual(server.end(signal.SIGTERM), 0, server.said())

    def test_searches_that_make_no_sense(self):
        for totals in ("", "3", "4,4", "8,4", "128", "4,8,12"):
            answer = run("profile", self.models / "ring", "--workers", totals)
            self.assertEqual(answer.returncode, 2, answer.stderr)
            self.assertIn("--workers must be ascending numbers among 4, 8, 16, 32 and 64", answer.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=1)
