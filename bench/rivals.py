#!/usr/bin/env python3
"""The table against rivals: goodput at 1 % bad on real models, beside Triton and mosec. One command:

    bench/rivals.py --triton COMMAND --mosec COMMAND --out DIR          # all of it: hours
    bench/rivals.py --only mlp --only-arrivals poisson --only-slo 6 --seconds 2 --rounds 1 --out DIR    # a part

Cells: models (mlp, lstm, cnn, minilm) x arrivals (poisson; gamma of shape 0.3) x executors (1, 2) x objectives (3, 6, 12 times
the run time of one request, measured first). Contenders: tutti with its default policy; Triton with queue delays of 0, SLO/8
and SLO/4 and rejection; mosec with a wait of SLO/4. Each is searched for the largest rate with at most 1 % of the requests late,
refused or failed, by `tutti load` over HTTP with binary tensors: from an overload downwards, so that a pause of the machine at
a low rate does not end the search. A probe has at least 300 requests, or four times --seconds; one that fails narrowly is run
again, and fails if both do. In each round the servers of a cell run at once, and their probes take turns (A B A B).

Commands of rivals, with these places: Triton {models} {port} {port2} {port3}; mosec {port} {script}. Left out, that rival is not
measured. Several Tritons run at once, so each needs ports of its own.
  --triton 'tritonserver --model-repository={models} --http-port={port} --grpc-port={port2} --metrics-port={port3}'
  --triton-backend NAME                                                                           (its ONNX backend)
  --mosec  'python3 {script} --address 127.0.0.1 --port {port}'           (a Python with mosec, onnxruntime and numpy)

Everything that was measured goes to DIR/rows.jsonl, a line at a time; the same command continues there. DIR/RIVALS.md is the
table, and --document FILE writes it elsewhere too. --neighbour: beside a process that uses half a core in bursts.
Needs a Python with numpy and onnx: scripts/test_python.sh bench/rivals.py ...
"""
import argparse
import datetime
import json
import os
import pathlib
import shlex
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request

import rivals_models
import rivals_table
from own_server import ROOT, Server, in_turn

ARRIVALS = {"poisson": ["--process", "poisson"], "gamma-0.3": ["--process", "gamma", "--gamma-shape", "0.3"]}
EXECUTORS = (1, 2)
FACTORS = (3, 6, 12)
TRITON_DELAYS = {"triton": 0, "triton slo/8": 1 / 8, "triton slo/4": 1 / 4}
MAX_PROBES = 24
REQUESTS = 300  # of a probe: 1 % is three
OVERLOAD = 8  # requests per run time of one: where the search begins
NARROWLY = 0.2  # a larger share of bad requests is no pause of the machine
BURST = "import time\nwhile True:\n  end = time.monotonic() + 0.05\n  while time.monotonic() < end: pass\n  time.sleep(0.05)\n"


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tutti", default=str(ROOT / "build" / "tutti"))
    parser.add_argument("--triton")
    parser.add_argument("--triton-backend", default="onnxruntime")
    parser.add_argument("--mosec")
    parser.add_argument("--out", required=True, type=pathlib.Path)
    parser.add_argument("--document", type=pathlib.Path)
    parser.add_argument("--only", action="append", choices=rivals_models.NAMES, help="these models; may be repeated")
    parser.add_argument("--only-arrivals", action="append", choices=tuple(ARRIVALS))
    parser.add_argument("--only-executors", action="append", type=int, choices=EXECUTORS)
    parser.add_argument("--only-slo", action="append", type=int, choices=FACTORS)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=6, help="of each load that is counted")
    parser.add_argument("--precision", type=float, default=0.05, help="of the goodput")
    parser.add_argument("--neighbour", action="store_true")
    parser.add_argument("--cache", default=str(ROOT / ".deps" / "models"), help="where minilm's download is kept")
    return parser.parse_args()


def cells_of(given):
    """Keys MODEL/ARRIVALS/EXECUTORS/FACTOR, in the order of measuring."""
    return [
        "/".join((model, arrivals, str(executors), str(factor)))
        for model in given.only or rivals_models.NAMES
        for arrivals in given.only_arrivals or ARRIVALS
        for executors in given.only_executors or EXECUTORS
        for factor in given.only_slo or FACTORS
    ]


def contenders_of(given):
    names = ["tutti"]
    names += list(TRITON_DELAYS) if given.triton else []
    return names + (["mosec"] if given.mosec else [])


def read_rows(path):
    """What was measured before. The last line may be cut short."""
    rows = []
    for line in path.read_text().splitlines() if path.exists() else []:
        try:
            rows.append(json.loads(line))
        except json.JSONDecodeError:
            print("rivals: a line of %s is cut short; it is measured again" % path, file=sys.stderr)
    return rows


# ---- servers ----


class Rival:
    """A server of another program, at `address`."""

    def __init__(self, name, command, port, environment, log):
        self.name, self.address, self.log = name, "http://127.0.0.1:%d" % port, log
        with open(log, "w") as file:
            self.process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=file, stderr=file, env={**os.environ, **environment}, start_new_session=True
            )

    def wait(self, path):
        """Until the path is answered, with any status: mosec has no health page."""
        ends_at = time.monotonic() + 120
        while time.monotonic() < ends_at and self.process.poll() is None:
            try:
                with urllib.request.urlopen(self.address + path, timeout=5):
                    return self
            except urllib.error.HTTPError as error:
                if path == "/" or error.code == 200:
                    return self
            except OSError:
                pass
            time.sleep(0.2)
        self.stop()
        sys.exit("rivals: %s did not become ready; it said:\n%s" % (self.name, pathlib.Path(self.log).read_text()[-2000:]))

    def stop(self):
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGTERM)
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                os.killpg(self.process.pid, signal.SIGKILL)
                self.process.wait()


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def start(given, contender, model, executors, slo_ms):
    work, port = given.out / "work", free_port()
    if contender == "tutti":
        repository = work / "tutti" / model.name  # of this model alone
        served = repository / model.name
        served.mkdir(parents=True, exist_ok=True)
        for entry in ("1", "config.pbtxt", "profile.pbtxt"):
            if not (served / entry).exists():
                (served / entry).symlink_to((model / entry).resolve())
        (served / "tutti.pbtxt").write_text("slo_ms: %.6f\n" % slo_ms)
        return Server(given.tutti, repository, executors=executors)
    folder = work / contender.replace(" ", "-").replace("/", "-")
    log = folder.with_suffix(".log")
    if contender in TRITON_DELAYS:
        delay_ms = slo_ms * TRITON_DELAYS[contender]
        rivals_models.write_for_triton(model, folder / model.name, given.triton_backend, executors, slo_ms, delay_ms)
        ports = {"port": port, "port2": free_port(), "port3": free_port()}
        command = shlex.split(given.triton.format(models=folder / model.name, **ports))
        return Rival(contender, command, port, {}, log).wait("/v2/models/%s/ready" % model.name)
    script = pathlib.Path(__file__).with_name("rivals_mosec.py")
    environment = {
        "RIVAL_MODEL": model.name,
        "RIVAL_FILE": str(model / "1" / "model.onnx"),
        "RIVAL_EXECUTORS": str(executors),
        "RIVAL_BATCH": str(rivals_models.max_batch(model)),
        "RIVAL_WAIT_MS": str(max(1, round(slo_ms / 4))),
        "RIVAL_TIMEOUT_MS": "10000",
    }
    command = shlex.split(given.mosec.format(port=port, script=script))
    return Rival(contender, command, port, environment, log).wait("/")


# ---- measuring ----


def keep_metadata(given, model, slo_ms):
    """What our server says of the model: mosec answers inferences only."""
    kept = given.out / "work" / (model.name + ".json")
    if not kept.exists():
        server = start(given, "tutti", model, 1, slo_ms)
        try:
            with urllib.request.urlopen("%s/v2/models/%s" % (server.address, model.name), timeout=20) as answer:
                kept.write_bytes(answer.read())
        finally:
            server.stop()
    return kept


def load(given, server, name, slo_ms, rate, arrivals, lengths):
    seconds = min(max(given.seconds, REQUESTS / rate), 4 * given.seconds)
    command = [given.tutti, "load", server.address, "--model", name, "--rate", "%g" % rate, "--binary", "--json"]
    command += ["--duration", "%g" % (seconds + 1), "--warm-up", "1", "--slo-ms", "%.6f" % slo_ms]
    command += ["--give-up-ms", "%d" % max(1000, round(20 * slo_ms)), *ARRIVALS[arrivals]]
    command += ["--length", "@%s" % lengths] if name == "minilm" else []
    command += ["--metadata", given.out / "work" / (name + ".json")]
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)
    if not done.stdout:
        sys.exit("rivals: tutti load: " + done.stderr.strip())
    return rivals_table.bad_rate(json.loads(done.stdout)["total"])


class Searching:
    """One contender's search in one round of a cell, a probe at a time."""

    def __init__(self, given, contender, cell, model, slo_ms, start_per_s, lengths):
        self.given, self.contender, self.slo_ms, self.lengths = given, contender, slo_ms, lengths
        self.name, self.arrivals, executors, _ = cell.split("/")
        self.found = rivals_table.Search(start_per_s, start_per_s / 1024, given.precision)
        self.probes, self.seconds = [], 0.0
        self.server = start(given, contender, model, int(executors), slo_ms)
        try:
            self.load(start_per_s / 64)  # warm-up
        except BaseException:
            self.server.stop()
            raise

    def load(self, rate):
        return load(self.given, self.server, self.name, self.slo_ms, rate, self.arrivals, self.lengths)

    def probe(self):
        """False: the goodput is known."""
        rate = self.found.next() if len(self.probes) < MAX_PROBES else None
        if rate is None:
            return False
        began = time.monotonic()
        bad = self.load(rate)
        if rivals_table.BAD < bad <= NARROWLY:
            bad = min(bad, self.load(rate))
        self.found.note(rate, bad)
        self.probes.append([round(rate, 3), round(bad, 5)])
        self.seconds += time.monotonic() - began
        return True


def measure_one_request(given, model, length):
    """l(1) in ms, and profile.pbtxt beside the model."""
    command = [given.tutti, "profile", model, "--executors", max(EXECUTORS), "--json"]  # with what executors take from each other
    command += ["--max-batch", rivals_models.max_batch(model)]
    if length:
        command += ["--lengths", ",".join(str(at) for at in sorted({1, 8, 16, 32, 64, rivals_models.LONGEST, length}))]
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit("rivals: tutti profile: " + done.stderr.strip())
    points = json.loads(done.stdout)["points"]
    return next(p["p50_ms"] for p in points if p["batch"] == 1 and p["length"] == (length or None))


def prepare(given, name, lengths, median):
    """The model's folder, and l(1). Both are kept for the runs that continue."""
    models = given.out / "models"
    model, kept = models / name, models / (name + ".ms")
    if not model.exists():
        rivals_models.write(name, models, given.cache)
        if not model.exists():
            return None, None
    (model / "tutti.pbtxt").unlink(missing_ok=True)
    if not kept.exists():
        kept.write_text("%.6f\n" % measure_one_request(given, model, median if name == "minilm" else 0))
    return model, float(kept.read_text())


def command_of(given):
    """The command without paths of this machine."""
    words = ["bench/rivals.py", "--seconds %g" % given.seconds, "--rounds %d" % given.rounds]
    words += ["--precision %g" % given.precision]
    for flag in ("only", "only_arrivals", "only_executors", "only_slo"):
        words += ["--%s %s" % (flag.replace("_", "-"), value) for value in getattr(given, flag) or ()]
    words += ["--%s COMMAND" % rival for rival in ("triton", "mosec") if getattr(given, rival)]
    return words + (["--neighbour"] if given.neighbour else []) + ["--out DIR"]


def head_of(given):
    processor = next(
        (line.split(":", 1)[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), "unknown"
    )
    words = command_of(given)
    load_1 = os.getloadavg()[0]
    return (
        "# Goodput beside other servers\n\n%s; %s, %d processors; load average %.1f at the end.%s\n\n    %s\n\n"
        "Requests per second with at most 1 %% late, refused or failed; median of the rounds; the best rival is bold."
        % (
            datetime.date.today().isoformat(),
            processor,
            len(os.sched_getaffinity(0)),
            load_1,
            " Beside a process that uses half a core in bursts." if given.neighbour else "",
            " ".join(words),
        )
    )


def write_document(given, rows):
    if not rows:
        return
    text = rivals_table.markdown(rows, head_of(given))
    for path in filter(None, (given.out / "RIVALS.md", given.document)):
        path.write_text(text)


def measure_cell(given, cell, rows, keep, model, one_ms, lengths):
    """In each round all servers run, and their searches take turns probe by probe: the machine's state is the same for all."""
    _, _, executors, factor = cell.split("/")
    slo_ms = one_ms * int(factor)
    start_per_s = OVERLOAD * int(executors) * 1000 / one_ms
    done = {(row["round"], row["contender"]) for row in rows if row["cell"] == cell}
    keep_metadata(given, model, slo_ms)
    for round_number in range(given.rounds):
        searches = []
        try:
            for contender in in_turn(contenders_of(given), round_number, given.rounds):
                if (round_number, contender) not in done:
                    searches.append(Searching(given, contender, cell, model, slo_ms, start_per_s, lengths))
            going = list(searches)
            while going:
                going = [search for search in going if search.probe()]
        finally:
            for search in searches:
                search.server.stop()
        for search in searches:
            keep(
                {
                    "cell": cell,
                    "contender": search.contender,
                    "round": round_number,
                    "goodput_per_s": search.found.best,
                    "slo_ms": slo_ms,
                    "probes": search.probes,
                    "seconds": round(search.seconds, 1),
                    "load_average": os.getloadavg()[0],
                }
            )


def main():
    given = parse_arguments()
    (given.out / "work").mkdir(parents=True, exist_ok=True)
    lengths = given.out / "lengths.txt"
    median = rivals_models.write_lengths(lengths)
    path = given.out / "rows.jsonl"
    rows = read_rows(path)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    cells = cells_of(given)
    neighbour = subprocess.Popen([sys.executable, "-c", BURST]) if given.neighbour else None
    left_out = set()

    def keep(row):
        rows.append(row)
        with open(path, "a") as file:
            file.write(json.dumps(row) + "\n")
        print(
            "%d/%d  %-24s %-13s round %d: %8.1f/s (%d probes, %.0f s)"
            % (
                cells.index(row["cell"]) + 1,
                len(cells),
                row["cell"],
                row["contender"],
                row["round"] + 1,
                row["goodput_per_s"],
                len(row["probes"]),
                row["seconds"],
            ),
            flush=True,
        )
        write_document(given, rows)

    try:
        for cell in cells:
            name = cell.split("/")[0]
            model, one_ms = prepare(given, name, lengths, median) if name not in left_out else (None, None)
            if model is None:
                left_out.add(name)
                print("rivals: %s cannot be made here; left out" % name, file=sys.stderr)
                continue
            measure_cell(given, cell, rows, keep, model, one_ms, lengths)
    finally:
        if neighbour:
            neighbour.kill()
            neighbour.wait()
    write_document(given, rows)


if __name__ == "__main__":
    main()
