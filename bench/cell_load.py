"""What the benchmarks of cells share: a load on a running server, and what it did there (bench/decoder.py, bench/trees.py)."""
import csv
import json
import pathlib
import re
import statistics
import subprocess
import urllib.request


def fetch(url, content=None):
    with urllib.request.urlopen(url, content and content.encode(), timeout=60) as answer:
        return answer.read().decode()


def body(tensors):
    """An infer request: {name: [integer, ...]}, one row."""
    inputs = [
        {"name": name, "shape": [1, len(values)], "datatype": "INT64", "data": values}
        for name, values in tensors.items()
    ]
    return json.dumps({"inputs": inputs})


def counters(server):
    """By type cells, tasks, runs and bytes copied to make batches; first words of answers, and how long they took."""
    page = fetch(server.address + "/metrics")
    found = {}
    for kind, cell, value in re.findall(r'^tutti_(cells|cell_tasks|cell_runs|cell_gathered_bytes)_total\{.*cell="(\w+)"\} (\d+)', page, re.M):
        found["%s %s" % (kind, cell)] = int(value)
    for part, value in re.findall(r"^tutti_first_word_seconds_(sum|count)\{[^}]*\} (\S+)$", page, re.M):
        found["first_word_" + part] = float(value)
    return found


def percentile(values, share):
    values = sorted(values)
    return values[min(len(values) - 1, int(len(values) * share))]


def ratio(rounds, pick):
    return statistics.median(pick(one) for one in rounds)


class Load:
    """The requests of a file (infer requests, one a line, in turn) on a server, and what came of it."""

    def __init__(self, program, server, model, requests, seconds, flags):
        path = pathlib.Path(str(requests) + ".csv")
        command = [program, "load", server.address, "--model", model, "--input-file", requests, "--csv", path]
        command += ["--json", "--give-up-ms", "60000", "--duration", seconds, *flags]
        before, cpu = counters(server), server.cpu_seconds()
        done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
        if not done.stdout:
            raise RuntimeError("tutti load: " + done.stderr)
        self.cpu_s = server.cpu_seconds() - cpu
        after = counters(server)
        self.counters = {key: after[key] - before.get(key, 0) for key in after}
        self.refused = json.loads(done.stdout)["total"]["rejected"]
        with open(path) as file:
            answered = [row for row in csv.DictReader(file) if row["outcome"] == "ok"]
        # Which of the requests each was is its number modulo theirs.
        self.numbers = [int(row["request"]) for row in answered]
        self.latencies_ms = [(int(row["ended_ns"]) - int(row["intended_ns"])) / 1e6 for row in answered]
        self.lasted_s = max(int(row["ended_ns"]) for row in answered) / 1e9

    def width(self, cell):
        """Cells of the type per task of it."""
        return self.counters["cells " + cell] / max(1, self.counters["cell_tasks " + cell])

    def rows_of_runs(self, cell=None):
        """Cells of the type per run of it. Tasks of whole sequences count at their first type: of all types."""
        if cell:
            return self.counters["cells " + cell] / max(1, self.counters["cell_runs " + cell])
        return self.sum("cells") / max(1, self.sum("cell_runs"))

    def sum(self, kind):
        """Of all types: `cells`, `cell_tasks`, `cell_runs`, `cell_gathered_bytes`."""
        return sum(value for key, value in self.counters.items() if key.startswith(kind + " "))

    def first_word_ms(self):
        """Mean, of models that emit words."""
        return 1000 * self.counters["first_word_sum"] / max(1, self.counters["first_word_count"])
