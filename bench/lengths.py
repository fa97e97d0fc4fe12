"""Length-aware batching of real text: a sentence encoder (minilm) under three ways of batching, on real lengths.

  none      each request alone (policy `serial`)
  arrival   up to 8 as they came, padded to the longest (policy `window`)
  always    up to 8 whose lengths are of one class of WIDTH, padded inside it (policy `diversity`,
            input: on)
  lengths   the same, where the profile says that it pays (input: pays)

One server holds the same model four times. A backlog of 256 sentences comes at once; what counts is the processor time
that the server spends on all of them, which other work on the machine disturbs least: one over it is the throughput that
one core gives. The same for a backlog of queries of 4 to 8 tokens. Turns alternate, A B C D A B C D; ratios are medians.

With --simulate, the latencies under a Poisson load: the model's time by batch and length is measured the same way (in
processor time), and `tutti experiment` serves the same 20,000 arrivals by `none` and by `lengths` at each rate, --draws
times: latencies of the first draw, and by how much the 99th percentile differs from that of `none` in all.

    scripts/test_python.sh bench/lengths.py [--rounds N] [--simulate] [--only PART] [--cache DIR]
"""
import argparse
import csv
import json
import pathlib
import random
import shutil
import statistics
import subprocess
import sys
import tempfile

from own_server import ROOT, Server, make_model

# Tokens of 3,303 sentences of five papers on serving systems, [CLS] and [SEP] included; longer ones are cut at 96.
PERCENTILES = [(0, 5), (1, 7), (5, 9), (10, 12), (25, 18), (50, 26), (75, 37), (90, 47), (95, 56), (99, 85), (100, 96)]
BACKLOG, LARGEST = 256, 8
WAYS = {
    "none": 'policy { name: "serial" option { key: "drop" value: "none" } }',
    "arrival": 'policy { name: "window" option { key: "same_length" value: "off" } '
    'option { key: "drop" value: "none" } }',
}
for name, choice in (("always", "on"), ("lengths", "pays")):
    WAYS[name] = (
        'policy { name: "diversity" option { key: "input" value: "' + choice + '" } '
        'option { key: "width" value: "%(width)d" } option { key: "window" value: "0ms" } '
        'option { key: "bs_max" value: "8" } }'
    )


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tutti", default=str(ROOT / "build" / "tutti"), help="the program (build/tutti)")
    parser.add_argument("--cache", default=str(ROOT / ".deps" / "models"), help="where minilm's download is kept")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--width", type=int, default=2, help="lengths of a class (2)")
    parser.add_argument("--only", choices=["sentences", "queries", "simulate"], help="one part alone")
    parser.add_argument("--simulate", action="store_true", help="also latencies under load, in virtual time")
    parser.add_argument("--draws", type=int, default=1, help="with --simulate: loads at each rate (1)")
    parser.add_argument("--rates", default="10,15,20,25,30,40,50,60,70,80,90,100", help="requests per second")
    return parser.parse_args()


def draw_lengths(rng, count):
    found = []
    for _ in range(count):
        at = rng.uniform(0, 100)
        for (p0, l0), (p1, l1) in zip(PERCENTILES, PERCENTILES[1:]):
            if at <= p1:
                found.append(round(l0 + (l1 - l0) * (at - p0) / (p1 - p0)))
                break
    return found


def make_models(folder, options):
    models = folder / "models"
    make_model("minilm", models, "--cache", options.cache)
    for way, policy in WAYS.items():
        shutil.copytree(models / "minilm", models / way)
        config = (models / way / "config.pbtxt").read_text().replace('"minilm"', '"%s"' % way)
        (models / way / "config.pbtxt").write_text(config)
        settings = policy % {"width": options.width} + "\nlength { pad: true }\n"
        (models / way / "tutti.pbtxt").write_text(settings)
    shutil.rmtree(models / "minilm")
    (models / ".made-by-make_models.json").unlink()
    return models


def spend(options, server, folder, flags, arrivals):
    """Processor seconds that the server spends on the arrivals, [(model, rows is in flags, length)] at once."""
    path = folder / "arrivals.csv"
    with open(path, "w") as file:
        file.write("at_ns,model,input_length\n")
        for model, length in arrivals:
            file.write("0,%s,%d\n" % (model, length))
    names = sorted({model for model, _ in arrivals})
    command = [options.tutti, "load", server.address, "--arrivals", path, "--json", "--give-up-ms", "300000"]
    for name in names:
        command += ["--model", name]
    before = server.cpu_seconds()
    done = subprocess.run([str(word) for word in command + flags], capture_output=True, text=True)
    if done.returncode:
        sys.exit("tutti load: " + done.stderr)
    report = json.loads(done.stdout)
    spent = server.cpu_seconds() - before
    answered = report["total"]["ok"] + report["total"]["late"]
    if answered != len(arrivals):
        sys.exit("tutti load: %d of %d answered: %s" % (answered, len(arrivals), report["total"]))
    return spent


def compare(options, server, folder, title, lengths):
    spent = {way: [] for way in WAYS}
    for _ in range(options.rounds):
        for way in WAYS:
            spent[way].append(spend(options, server, folder, [], [(way, length) for length in lengths]))
    print("%s: processor time of %d, turns of the same minutes" % (title, len(lengths)))
    for way in WAYS:
        ratios = [none / mine for none, mine in zip(spent["none"], spent[way])]
        print(
            "  %-8s best %.2f s; throughput over none: %s; median %.2f"
            % (way, min(spent[way]), " ".join("%.2f" % r for r in ratios), statistics.median(ratios))
        )
    ratios = [arrival / mine for arrival, mine in zip(spent["arrival"], spent["lengths"])]
    print("  lengths over arrival: %s; median %.2f" % (" ".join("%.2f" % r for r in ratios), statistics.median(ratios)))


# ---- under load, in virtual time ----


def measure_profile(options, server, folder, path):
    """Milliseconds of processor time by length and batch, the least of three turns of 6 requests of so many rows."""
    sizes, lengths = [1, 2, 4, 8], [4, 8, 16, 24, 32, 48, 64, 96]
    table = {}
    for length in lengths:
        for rows in sizes:
            turns = [
                spend(options, server, folder, ["--rows", str(rows)], [("none", length)] * 6) / 6 for _ in range(3)
            ]
            table[length, rows] = min(turns)
        print("  length %3d: %s ms" % (length, " ".join("%.2f" % (1e3 * table[length, r]) for r in sizes)))
    with open(path, "w") as file:
        for length in range(4, 97, 2):
            above = next(i for i, known in enumerate(lengths) if known >= length)
            l0, l1 = lengths[max(above - 1, 0)], lengths[above]
            share = (length - l0) / (l1 - l0) if l1 > l0 else 0
            for rows in sizes:
                seconds = table[l0, rows] * (1 - share) + table[l1, rows] * share
                file.write("point { batch: %d latency_ns: %d length: %d }\n" % (rows, seconds * 1e9, length))


def percentile(latencies, share):
    return sorted(latencies)[int(len(latencies) * share)]


def play(options, folder, way):
    """Latencies in ms of the arrivals in virtual time."""
    (folder / "e.pbtxt").write_text(
        'title: "lengths" duration_s: 100000 warm_up_s: 0 device { count: 1 } load { rate: 1 }\n'
        'model { name: "m" slo_ms: 100000 max_batch: 8 profile_file: "profile.pbtxt" }\n'
        + WAYS[way] % {"width": options.width}
    )
    command = [options.tutti, "experiment", folder / "e.pbtxt", "--arrivals", folder / "poisson.csv"]
    command += ["--outcomes", folder / "outcomes.csv"]
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if done.returncode:
        sys.exit("tutti experiment: " + done.stderr)
    with open(folder / "outcomes.csv") as file:
        return [(int(o["finished_ns"]) - int(o["arrived_ns"])) / 1e6 for o in csv.DictReader(file)]


def simulate(options, folder, title, draw, rates):
    print("%s, Poisson, 20,000 requests at each rate: p50 / p99 in ms" % title)
    print("  | rate | none | lengths | p99 less that of none: mean and worst of %d |" % options.draws)
    for rate in rates:
        cells, more = [], []
        for number in range(options.draws):
            rng = random.Random(rate + 1000 * number)
            at = 0.0
            with open(folder / "poisson.csv", "w") as file:
                file.write("at_ns,model,input_length\n")
                for length in draw(rng, 20000):
                    at += rng.expovariate(rate)
                    file.write("%d,m,%d\n" % (at * 1e9, length))
            waits = [play(options, folder, way) for way in ("none", "lengths")]
            more.append(percentile(waits[1], 0.99) - percentile(waits[0], 0.99))
            if number == 0:
                cells = ["%.1f / %.1f" % (percentile(w, 0.5), percentile(w, 0.99)) for w in waits]
        print("  | %d | %s | %s | %+.3f, %+.3f |" % (rate, *cells, statistics.mean(more), max(more)))


def main():
    options = arguments()
    simulates = options.simulate or options.only == "simulate"
    rng = random.Random(11)
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        server = Server(options.tutti, make_models(folder, options))
        try:
            sentences, queries = draw_lengths(rng, BACKLOG), [rng.randint(4, 8) for _ in range(BACKLOG)]
            if options.only in (None, "sentences"):
                compare(options, server, folder, "sentences", sentences)
            if options.only in (None, "queries"):
                compare(options, server, folder, "queries of 4 to 8 tokens", queries)
            if simulates:
                measure_profile(options, server, folder, folder / "profile.pbtxt")
        finally:
            server.stop()
        if simulates:
            rates = [int(rate) for rate in options.rates.split(",")]
            simulate(options, folder, "sentences", draw_lengths, rates)
            simulate(
                options,
                folder,
                "queries of 4 to 8 tokens",
                lambda r, n: [r.randint(4, 8) for _ in range(n)],
                [3 * rate for rate in rates],
            )


if __name__ == "__main__":
    main()
