"""What early exit is worth: the digits classifier with four exits (scripts/models/digits.py), served by `tutti serve`.

One server holds the same network several times: whole; in stages without exits; with exits at several thresholds of
confidence, under `diversity`; and, to compare bits, with the chosen threshold under `serial`, which does not batch. Every
model is asked for each test picture, a request each, several in flight, in ROUNDS turns. Accuracy and depth are over the
test pictures, which neither training nor the choice of the threshold has seen. Processor time is the server's own per
request, all of HTTP included: the smallest of the turns.

    scripts/test_python.sh bench/early_exit.py [--cache DIR] [--rounds N]
"""
import argparse
import http.client
import json
import os
import pathlib
import sys
import tempfile
import threading

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
import numpy as np  # noqa: E402

from own_server import ROOT, Server  # noqa: E402

sys.path.insert(0, str(ROOT / "scripts"))
from models import digits, repository  # noqa: E402

IN_FLIGHT = 16
THRESHOLDS = [0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 0.999]


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tutti", default=str(ROOT / "build" / "tutti"), help="the program (build/tutti)")
    parser.add_argument("--cache", default=str(ROOT / ".deps" / "models"), help="where the download is kept")
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--passes", type=int, default=4, help="times that each picture is asked for in a turn")
    return parser.parse_args()


def make_models(out, cache, layers, chosen):
    """{model name: its threshold; None: no early exit}."""
    models = {"whole": None, "stages": None, "alone": chosen}
    entries = [
        digits.model(cache, chosen, [], "whole", "window", layers),
        digits.model(cache, chosen, [], "stages", "diversity", layers),
        digits.model(cache, chosen, range(1, digits.BLOCKS), "alone", "serial", layers),
    ]
    for threshold in THRESHOLDS:
        name = "exit_%g" % threshold
        models[name] = threshold
        entries.append(digits.model(cache, threshold, range(1, digits.BLOCKS), name, "diversity", layers))
    for entry in entries:
        repository.write(entry, out)
    (out / "whole" / "tutti.pbtxt").write_text('slo_ms: 20\npolicy { name: "window" }\n')
    return models


def ask_all(server, model, pixels, passes):
    """[(probabilities' bytes, depth)] by picture, of the last pass."""
    answers = [None] * len(pixels)
    todo = iter([i for _ in range(passes) for i in range(len(pixels))])
    lock = threading.Lock()

    def client():
        connection = http.client.HTTPConnection(server.address.split("//")[1])
        spec = {"name": "pixels", "shape": [1, digits.PIXELS], "datatype": "FP32"}
        spec["parameters"] = {"binary_data_size": 4 * digits.PIXELS}
        header = json.dumps({"inputs": [spec], "parameters": {"binary_data_output": True}}).encode()
        path = "/v2/models/%s/infer" % model
        while True:
            with lock:
                i = next(todo, None)
            if i is None:
                break
            connection.request(
                "POST", path, header + pixels[i].tobytes(), {"Inference-Header-Content-Length": str(len(header))}
            )
            answer = connection.getresponse()
            body = answer.read()
            if answer.status != 200:
                sys.exit("%s: %s" % (model, body.decode()))
            tensors = np.frombuffer(body[int(answer.getheader("Inference-Header-Content-Length")) :], "<f4")
            answers[i] = (tensors[: digits.CLASSES].tobytes(), int(tensors[digits.CLASSES]))
        connection.close()

    threads = [threading.Thread(target=client) for _ in range(IN_FLIGHT)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return answers


def work_of(depths, asks):
    """Multiplications, over those of the whole network; with `asks` each head on the way is computed."""
    blocks = [digits.PIXELS * digits.WIDTH] + [digits.WIDTH**2] * (digits.BLOCKS - 1)
    head = digits.WIDTH * digits.CLASSES
    spent = sum(sum(blocks[:d]) + (d if asks else 1) * head for d in depths)
    return spent / len(depths) / (sum(blocks) + head)


def main():
    options = arguments()
    train, choose, test = digits.read_digits(options.cache)
    layers = digits.train(*train)
    chosen = digits.choose_threshold(layers, *choose)
    pixels, classes = test
    with tempfile.TemporaryDirectory() as folder:
        models = make_models(pathlib.Path(folder), options.cache, layers, chosen)
        server = Server(options.tutti, folder)
        try:
            answers, spent = {}, {name: [] for name in models}
            for _ in range(options.rounds):
                for name in models:
                    before = 1e6 * server.cpu_seconds()
                    answers[name] = ask_all(server, name, pixels, options.passes)
                    spent[name].append((1e6 * server.cpu_seconds() - before) / len(pixels) / options.passes)
        finally:
            server.stop()
    print("%d test pictures; threshold chosen on %d others: %g" % (len(pixels), len(choose[0]), chosen))
    print("| model | accuracy | mean depth of %d | left at 1 2 3 4 | work | processor us |" % digits.BLOCKS)
    print("|---|---|---|---|---|---|")
    for name in models:
        read = np.array([np.frombuffer(p, "<f4").argmax() for p, _ in answers[name]])
        depths = np.array([d for _, d in answers[name]])
        counts = " ".join(str((depths == d).sum()) for d in range(1, digits.BLOCKS + 1))
        print(
            "| %s | %.2f %% | %.2f | %s | %.0f %% | %.0f |"
            % (name, 100 * (read == classes).mean(), depths.mean(), counts, 100 * work_of(depths, models[name]), min(spent[name]))
        )
    batched = "exit_%g" % chosen
    same = sum(a == b for a, b in zip(answers["alone"], answers.get(batched, answers["alone"])))
    print("%s answers as alone, bit for bit: %d of %d" % (batched, same, len(pixels)))


if __name__ == "__main__":
    main()
