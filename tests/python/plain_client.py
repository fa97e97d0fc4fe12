"""A server and load on it without any client library: models whose one input is "input", FP32 [1,16]."""
import atexit
import http.client
import json
import os
import pathlib
import socket
import subprocess
import sys
import threading

from server_process import READY

PROGRAM = os.environ["TUTTI_PROGRAM"]


def is_sanitized():
    """The program was built with AddressSanitizer or ThreadSanitizer, which replace functions of the C library."""
    linked = subprocess.run(["ldd", PROGRAM], capture_output=True, text=True, check=False).stdout
    return "libasan" in linked or "libtsan" in linked


def make_two_models(folder):
    """A repository with mlp (policy window) and quick (the same graph, policy deferred, half a second); needs onnx."""
    models = pathlib.Path(folder) / "models"
    maker = pathlib.Path(__file__).resolve().parents[2] / "scripts" / "make_models.py"
    subprocess.run(
        [sys.executable, maker, "--out", models, "--only", "mlp"], check=True, capture_output=True
    )
    quick = models / "quick"
    (quick / "1").mkdir(parents=True)
    model = (models / "mlp" / "1" / "model.onnx").read_bytes()
    (quick / "1" / "model.onnx").write_bytes(model)
    (quick / "tutti.pbtxt").write_text('slo_ms: 500\npolicy { name: "deferred" }\n')
    (models / "mlp" / "tutti.pbtxt").write_text('policy { name: "window" }\n')
    (quick / "profile.pbtxt").write_text(
        "point { batch: 1 latency_ns: 200000 } point { batch: 8 latency_ns: 300000 }\n"
    )
    return models


class Server:
    """`tutti serve` on any free port; `limits` runs in it before it starts. `start`: more options of Popen."""

    def __init__(self, models, *flags, limits=None, program=PROGRAM, start=None):
        self.lines = []
        command = [program, "serve", "--model-repository", models, "--http-port", "0", "--grpc-port", "0"]
        self.process = subprocess.Popen(
            [str(word) for word in command + ["--executors", "2", *flags]],
            stderr=subprocess.PIPE,
            text=True,
            **{"preexec_fn": limits, **(start or {})},
        )
        atexit.register(self.process.kill)  # of a test that failed; what has ended is not touched
        self.address = None
        while self.address is None:
            line = self.process.stderr.readline()
            if not line:
                raise RuntimeError("the server did not come:\n" + "".join(self.lines))
            self.lines.append(line)
            found = READY.search(line)
            self.address = found.group(1) if found else None
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self):
        for line in self.process.stderr:
            self.lines.append(line)

    def end(self, number):
        """Sends the signal; the exit code."""
        self.process.send_signal(number)
        code = self.process.wait(60)
        self.reader.join()
        self.process.stderr.close()
        return code

    def said(self):
        return "".join(self.lines)


def infer_body(timeout_us=None):
    body = {
        "inputs": [{"name": "input", "shape": [1, 16], "datatype": "FP32", "data": [0.5] * 16}],
    }
    if timeout_us is not None:
        body["parameters"] = {"timeout": timeout_us}
    return json.dumps(body)


def get(address, path, method="GET", body=None):
    """The status, the headers and the body of one answer."""
    client = http.client.HTTPConnection(address, timeout=60)
    client.request(method, path, body)
    answer = client.getresponse()
    result = answer.status, answer.headers, answer.read()
    client.close()
    return result


def ask(address, model, count, timeouts=(None,)):
    """The status codes of `count` requests on one connection."""
    client = http.client.HTTPConnection(address, timeout=60)
    codes = []
    for i in range(count):
        client.request("POST", "/v2/models/%s/infer" % model, infer_body(timeouts[i % len(timeouts)]))
        answer = client.getresponse()
        answer.read()
        codes.append(answer.status)
    client.close()
    return codes


def vanish(address, model, body=None):
    """A client that sends a request and goes without its answer."""
    host, port = address.split(":")
    body = (body or infer_body()).encode()
    head = "POST /v2/models/%s/infer HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n"
    with socket.create_connection((host, int(port))) as client:
        client.sendall((head % (model, len(body))).encode() + body)


def load(address, models, clients, count, vanishing=5):
    """Requests to the models from several clients at once, some with little time, some that do not wait for their
    answers; the status codes of the others."""
    codes = []
    timeouts = (None, 200000, 2000, 300)

    def run(index):
        codes.extend(ask(address, models[index % len(models)], count, timeouts))
        for _ in range(vanishing):
            vanish(address, models[-1])

    threads = [threading.Thread(target=run, args=(i,)) for i in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return codes
