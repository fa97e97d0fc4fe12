#!/usr/bin/env python3
"""Policy `cellular` against `padded` with several widths, on the real engine (C6, C7): the same cells and requests.

    bench/cells.py                      h = 256, at 50, 70 and 90 % of what bucketing can do
    bench/cells.py --size 1024 --seconds 8

One server per policy with one executor, one after the other, in several rounds, so that other work on the machine affects
all of them. Prints ratios within a round, and their medians over the rounds. Peaks are also given per second of the
server's processor time, which a busy machine does not change. Lengths are drawn with
the paper's statistics (mean 24, 99 % below 100, longest 330). Needs a Python with numpy and onnx.
"""
import argparse
import json
import math
import pathlib
import statistics
import subprocess
import tempfile

from own_server import ROOT, Server, folder_of, make_model, make_ways

LONGEST = 330
WIDTHS = {"padded": 0, "width 10": 10, "width 20": 20, "width 40": 40}


def parse_arguments():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tutti", default=str(ROOT / "build" / "tutti"))
    parser.add_argument("--size", type=int, default=256, choices=(256, 1024))
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--loads", default="50,70,90", help="percent of width 10's peak")
    parser.add_argument("--clients", type=int, default=192, help="of the closed loop")
    parser.add_argument("--output", help="everything that was measured, as JSON")
    return parser.parse_args()


def write_lengths(path):
    """Lognormal: mean 24, 99th percentile 96, cut at the longest."""
    sigma = 0.7
    mu = math.log(24) - sigma * sigma / 2
    normal = statistics.NormalDist()
    lengths = [math.exp(mu + sigma * normal.inv_cdf((i + 0.5) / 2000)) for i in range(2000)]
    lengths = [max(1, min(LONGEST, round(length))) for length in lengths]
    lengths[-1] = LONGEST
    path.write_text("".join("%d\n" % length for length in lengths))
    return statistics.mean(lengths)


def added_settings(variant):
    """The policy that the variant adds to the model's cells."""
    if variant == "cellular":
        return 'policy { name: "cellular" }\n'
    option = 'option { key: "width" value: "%d" }' % WIDTHS[variant]
    return 'length { pad: true }\npolicy { name: "padded" %s }\n' % option


def load(arguments, server, lengths, flags):
    command = [arguments.tutti, "load", server.address, "--model", "chain%d" % arguments.size]
    command += ["--length", "@%s" % lengths, "--json", "--give-up-ms", "60000", *flags]
    done = subprocess.run(command, capture_output=True, text=True)
    if not done.stdout:
        raise RuntimeError("tutti load: " + done.stderr)
    return json.loads(done.stdout)


def peak(arguments, variant, models, lengths):
    """Answered per second of a closed loop, and per second of the server's processor time."""
    server = Server(arguments.tutti, folder_of(models, variant))
    try:
        load(arguments, server, lengths, ["--concurrency", "16", "--duration", "0.5"])
        before = server.cpu_seconds()
        clients = str(arguments.clients)
        flags = ["--concurrency", clients, "--connections", clients]
        report = load(arguments, server, lengths, flags + ["--duration", str(arguments.seconds)])
        answered = report["total"]["ok"]
        cpu = server.cpu_seconds() - before
        return {"per_s": answered / arguments.seconds, "per_cpu_s": answered / cpu, "cpu_s": cpu}
    finally:
        server.stop()


def latencies(arguments, variant, models, lengths, rates):
    """{percent: {"p50", "p90", "p99"} in ms} at each rate."""
    server = Server(arguments.tutti, folder_of(models, variant))
    try:
        load(arguments, server, lengths, ["--concurrency", "16", "--duration", "0.5"])
        found = {}
        for percent, rate in rates.items():
            flags = ["--rate", "%.2f" % rate, "--duration", str(arguments.seconds), "--warm-up", "0.5"]
            total = load(arguments, server, lengths, flags)["total"]
            found[percent] = {name: total["latency_ms"][name] for name in ("p50", "p90", "p99")}
        return found
    finally:
        server.stop()


def make_models(folder, arguments):
    """A repository per variant."""
    made = make_model("chain%d" % arguments.size, folder / "made")
    subprocess.run([arguments.tutti, "profile", made, "--runs", "50"], check=True, capture_output=True)
    make_ways(made, folder, {variant: added_settings(variant) for variant in ["cellular", *WIDTHS]})


def median_of(rounds, figure):
    return statistics.median(figure(one) for one in rounds)


def print_peaks(rounds):
    print("peak, requests per second of processor time, and of the clock; ratio to width 10")
    for variant in ["cellular", *WIDTHS]:
        cpu = median_of(rounds, lambda one: one["peaks"][variant]["per_cpu_s"])
        wall = median_of(rounds, lambda one: one["peaks"][variant]["per_s"])
        ratio = median_of(
            rounds,
            lambda one: one["peaks"][variant]["per_cpu_s"] / one["peaks"]["width 10"]["per_cpu_s"],
        )
        print("  %-10s %8.0f /cpu s %8.0f /s   %.2f x" % (variant, cpu, wall, ratio))


def print_latencies(rounds, percents):
    print("p90 in ms, and what cellular saves of it (median of the rounds)")
    for percent in percents:
        for variant in ["cellular", *WIDTHS]:
            own = median_of(rounds, lambda one: one["latency"][variant][percent]["p90"])
            saved = median_of(
                rounds,
                lambda one: 1
                - one["latency"]["cellular"][percent]["p90"] / one["latency"][variant][percent]["p90"],
            )
            tail = "" if variant == "cellular" else "   cellular: -%.1f %%" % (100 * saved)
            print("  %3d %% %-10s %9.1f%s" % (percent, variant, own, tail))


def main():
    arguments = parse_arguments()
    percents = [int(word) for word in arguments.loads.split(",")]
    variants = ["cellular", *WIDTHS]
    rounds = []
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        lengths = folder / "lengths"
        mean = write_lengths(lengths)
        make_models(folder, arguments)
        print("h = %d, lengths of mean %.1f, %d rounds of %g s" % (
            arguments.size, mean, arguments.rounds, arguments.seconds), flush=True)
        for number in range(arguments.rounds):
            one = {"peaks": {}, "latency": {}}
            for variant in variants:
                one["peaks"][variant] = peak(arguments, variant, folder, lengths)
            base = one["peaks"]["width 10"]["per_s"]
            rates = {percent: base * percent / 100 for percent in percents}
            for variant in variants:
                one["latency"][variant] = latencies(arguments, variant, folder, lengths, rates)
            rounds.append(one)
            print("round %d: width 10 answers %.0f /s" % (number + 1, base), flush=True)
    print_peaks(rounds)
    print_latencies(rounds, percents)
    if arguments.output:
        pathlib.Path(arguments.output).write_text(json.dumps(rounds, indent=1))


if __name__ == "__main__":
    main()
