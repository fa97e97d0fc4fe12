"""One ONNX model behind mosec's batching, for bench/rivals.py: KServe v2's /v2/models/NAME/infer with binary or JSON tensors.

    rivals_mosec.py --port 18010          needs a Python with mosec, onnxruntime and numpy

mosec parses the command line itself; the rest is in the environment:
  RIVAL_MODEL      NAME, and RIVAL_FILE its ONNX file
  RIVAL_EXECUTORS  worker processes, of one thread each
  RIVAL_BATCH      largest batch; RIVAL_WAIT_MS how long a batch waits for more; RIVAL_TIMEOUT_MS mosec's limit per request
Requests of a batch whose shapes differ run one after the other: mosec does not know shapes.
"""
import json
import os

import numpy as np
import onnxruntime
from mosec import Server, ValidationError, Worker

TYPES = {"FP32": np.float32, "INT64": np.int64}
NAMES = {np.dtype(np.float32): "FP32", np.dtype(np.int64): "INT64"}


def read(body):
    """{input: array} of a request. The JSON head ends where its object does: mosec does not pass the header that says so."""
    head, end = json.JSONDecoder().raw_decode(body.decode("latin-1"))
    arrays = {}
    for tensor in head["inputs"]:
        kind = TYPES[tensor["datatype"]]
        size = tensor.get("parameters", {}).get("binary_data_size")
        if size is None:
            arrays[tensor["name"]] = np.array(tensor["data"], kind).reshape(tensor["shape"])
            continue
        arrays[tensor["name"]] = np.frombuffer(body, kind, size // np.dtype(kind).itemsize, end).reshape(tensor["shape"])
        end += size
    return arrays


class OnnxWorker(Worker):
    resp_mime_type = "application/json"

    def __init__(self):
        super().__init__()
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        self.session = onnxruntime.InferenceSession(os.environ["RIVAL_FILE"], options, providers=["CPUExecutionProvider"])
        self.outputs = [output.name for output in self.session.get_outputs()]

    def deserialize(self, data):
        try:
            return read(data)
        except (KeyError, ValueError) as error:
            raise ValidationError(str(error)) from error

    def serialize(self, data):
        outputs = [
            {"name": name, "datatype": NAMES[value.dtype], "shape": list(value.shape), "data": value.ravel().tolist()}
            for name, value in data.items()
        ]
        return json.dumps({"model_name": os.environ["RIVAL_MODEL"], "outputs": outputs}).encode()

    def run(self, requests):
        feed = {name: np.concatenate([request[name] for request in requests]) for name in requests[0]}
        made = self.session.run(self.outputs, feed)
        return [{name: made[o][i : i + 1] for o, name in enumerate(self.outputs)} for i in range(len(requests))]

    def forward(self, data):
        requests = data if isinstance(data, list) else [data]
        groups = {}
        for i, request in enumerate(requests):
            groups.setdefault(tuple((name, array.shape) for name, array in request.items()), []).append(i)
        answers = [None] * len(requests)
        for places in groups.values():
            for place, answer in zip(places, self.run([requests[i] for i in places])):
                answers[place] = answer
        return answers if isinstance(data, list) else answers[0]


if __name__ == "__main__":
    server = Server()
    server.append_worker(
        OnnxWorker,
        num=int(os.environ["RIVAL_EXECUTORS"]),
        max_batch_size=int(os.environ["RIVAL_BATCH"]),
        max_wait_time=int(os.environ["RIVAL_WAIT_MS"]),
        timeout=max(1, int(os.environ["RIVAL_TIMEOUT_MS"]) // 1000),
        route="/v2/models/%s/infer" % os.environ["RIVAL_MODEL"],
    )
    server.run()
