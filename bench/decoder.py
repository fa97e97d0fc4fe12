#!/usr/bin/env python3
"""Continuous batching of a small decoder with attention (C6) beside static batching, with the same cells on the real engine.

    bench/decoder.py                        4 layers, h = 256, a cache of 256 places: 2 MB a request
    bench/decoder.py --size 64 --seconds 2  2 layers, h = 64, 64 places: 64 KB
    bench/decoder.py --svg decoder.svg      draws the latencies per word

The decoder reads a prompt in chunks of 16 words, then writes word by word until <eos>. Keys and values are the request's
cache, which each cell updates in place. Weights are generated, and the same in all ways of serving. The prompt decides the
length of the answer: each of its words is worth 0.5 to 1.3 words.

  continuous    policy `cellular`: requests join and leave at every word
  word by word  the same, but prompts are read word by word
  copied        word by word; keys and values are in the request's slot, and each cell writes them anew
  static        policy `padded`, one bucket: up to 16 that wait run until the longest of them has said <eos>
  alone         policy `serial`: each request alone

A server per policy, all alive, one executor each; turns alternate, A B C A B C. First the peak of a closed loop of 32
clients, then Poisson loads. Latencies are of all rounds together, ratios the
medians of those within each round. Words are those of answers. The mean time to the first word is the server's own. Needs a
Python with numpy and onnx.
"""
import argparse
import json
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile

import svg
from cell_load import Load, body, fetch, percentile, ratio
from own_server import ROOT, Server, folder_of, in_turn, make_model, make_ways

sys.path.insert(0, str(ROOT / "scripts"))
from models.cells import FIRST_WORD, PROMPT_CHUNK, Attention  # noqa: E402

CACHE_PLACES = {64: 64, 256: 256}
CACHE_BYTES = {64: 2 * 2 * 64 * 64 * 4, 256: 2 * 4 * 256 * 256 * 4}  # keys and values, layers, places, size, fp32
CELLULAR = (
    'policy { name: "cellular" option { key: "ahead" value: "1" } '
    'option { key: "max_tasks" value: "%(max_tasks)d" } }\n'
)
PADDED = 'length { pad: true }\npolicy { name: "padded" option { key: "width" value: "0" } }\n'
SERIAL = 'policy { name: "serial" option { key: "drop" value: "none" } }\n'
WAYS = {  # the model's kind (scripts/models/cells.py), and the policy
    "continuous": ("_chunked", CELLULAR),
    "word by word": ("_cached", CELLULAR),
    "copied": ("", CELLULAR),
    "static": ("_chunked", PADDED),
    "alone": ("_chunked", SERIAL),
}
CLIENTS = 32  # twice the largest batch: static finds as many waiting as it can take


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tutti", default=str(ROOT / "build" / "tutti"))
    parser.add_argument("--size", type=int, default=256, choices=sorted(CACHE_PLACES))
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--rates", help="requests per second (4,8,12,16,20; with 64 places 100,200,400,600,800); empty: the peak alone")
    parser.add_argument("--prompts", type=int, default=192, help="different requests")
    parser.add_argument("--mean", type=float, help="words of a prompt (24; with 64 places 10)")
    parser.add_argument("--max-tasks", type=int, default=2, help="of cellular: tasks at a visit (2)")
    parser.add_argument("--svg", help="draw what a word of the answer takes, by load")
    parser.add_argument("--output", help="everything that was measured, as JSON")
    return parser.parse_args()


# ---- models and requests ----


def make_models(folder, options):
    """A repository per way, with a model of one name."""
    name = "decoder%d" % options.size
    for kind in sorted({kind for kind, _ in WAYS.values()}):
        made = make_model(name + kind, folder / ("made" + kind))
        (made.parent / "named").mkdir()
        made = made.rename(made.parent / "named" / name)
        subprocess.run([options.tutti, "profile", made, "--runs", "20"], check=True, capture_output=True)
        given = {"max_tasks": options.max_tasks}
        mine = {way: policy % given if "%" in policy else policy for way, (of, policy) in WAYS.items() if of == kind}
        make_ways(made, folder, mine)
    return name


def draw_requests(options):
    """Prompts: lognormal lengths. Some words make for long answers; each request draws how talkative its words are."""
    layers, heads, words = {64: (2, 4, 500), 256: (4, 4, 10000)}[options.size]
    places = CACHE_PLACES[options.size]
    ratios = Attention(options.size, words, layers, heads, places).ratios
    by_worth = sorted(range(FIRST_WORD, words), key=lambda word: ratios[word])
    mean = options.mean or (24 if places > 64 else 10)
    rng, near = random.Random(7), len(by_worth) // 20
    prompts = []
    for _ in range(options.prompts):
        length = max(1, min(places // 2, round(mean * rng.lognormvariate(-0.245, 0.7))))
        at = rng.randrange(len(by_worth) - near)
        prompts.append([by_worth[at + rng.randrange(near)] for _ in range(length)])
    return prompts


def answer_lengths(server, name, prompts):
    """Words that each is answered with, asked one by one."""
    url = "%s/v2/models/%s/infer" % (server.address, name)
    return [len(json.loads(fetch(url, body({"tokens": prompt})))["outputs"][0]["data"]) for prompt in prompts]


# ---- measuring ----


def figures(way, load, work, size):
    """`work`: of each request the words that are read and written."""
    done = [work[number % len(work)] for number in load.numbers]
    chunk = PROMPT_CHUNK if WAYS[way][0] == "_chunked" else 1
    words, read = sum(word for _, word in done), sum(-(-word // chunk) for word, _ in done)
    return {
        "words_per_s": words / load.lasted_s,
        "words_per_cpu_s": words / load.cpu_s,
        "latencies_ms": load.latencies_ms,
        "word_ms": [took / word for took, (_, word) in zip(load.latencies_ms, done)],
        "first_ms": load.first_word_ms(),
        "rows": load.rows_of_runs("write" if WAYS[way][1] == CELLULAR else None),
        "used": (words + read) / max(1, load.sum("cells")),
        "copied_per_cell": load.sum("cell_gathered_bytes") / CACHE_BYTES[size] / max(1, load.sum("cells")),
        "refused": load.refused,
    }


def measure_round(options, servers, name, folder, work, rates, seed):
    one = {"peaks": {}, "loads": {rate: {} for rate in rates}}
    for way, server in servers.items():
        flags = ["--concurrency", str(CLIENTS), "--connections", str(CLIENTS)]
        load = Load(options.tutti, server, name, folder / "requests", options.seconds, flags)
        one["peaks"][way] = figures(way, load, work, options.size)
    for rate in rates:
        for way, server in servers.items():
            flags = ["--rate", str(rate), "--process", "poisson", "--seed", str(seed)]
            load = Load(options.tutti, server, name, folder / "requests", options.seconds, flags)
            one["loads"][rate][way] = figures(way, load, work, options.size)
    return one


# ---- telling ----


def print_peaks(rounds):
    print("peak, closed loop of %d clients: words per second, of the server's processor time, x static's" % CLIENTS)
    for way in WAYS:
        mine = [one["peaks"][way] for one in rounds]
        print(
            "  %-12s %6.0f /s %6.0f /cpu s  %.2f x %.2f x /cpu   rows in a run: %.1f; used %.0f %% of the cells; caches copied per cell %.3f"
            % (
                way,
                statistics.median(m["words_per_s"] for m in mine),
                statistics.median(m["words_per_cpu_s"] for m in mine),
                ratio(rounds, lambda one: one["peaks"][way]["words_per_s"] / one["peaks"]["static"]["words_per_s"]),
                ratio(rounds, lambda one: one["peaks"][way]["words_per_cpu_s"] / one["peaks"]["static"]["words_per_cpu_s"]),
                statistics.median(m["rows"] for m in mine),
                100 * statistics.median(m["used"] for m in mine),
                statistics.median(m["copied_per_cell"] for m in mine),
            )
        )


def print_loads(rounds, rates):
    print("| rate | policy | words/s | p50 | p90 | p99 ms | p90, x static's | ms a word p50 | p90 | first word after | rows in a run | used |")
    for rate in rates:
        for way in WAYS:
            mine = [one["loads"][rate][way] for one in rounds]
            all_ms, word_ms = (sum((m[key] for m in mine), []) for key in ("latencies_ms", "word_ms"))
            beside = ratio(
                rounds,
                lambda one: percentile(one["loads"][rate][way]["latencies_ms"], 0.9)
                / percentile(one["loads"][rate]["static"]["latencies_ms"], 0.9),
            )
            row = [percentile(all_ms, p) for p in (0.5, 0.9, 0.99)]
            refused = sum(m["refused"] for m in mine)
            print(
                "| %d/s | %s | %.0f | %.0f | %.0f | %.0f | %.2f | %.1f | %.1f | %.0f ms | %.1f | %.0f %% |%s"
                % (
                    rate,
                    way,
                    statistics.median(m["words_per_s"] for m in mine),
                    *row,
                    beside,
                    percentile(word_ms, 0.5),
                    percentile(word_ms, 0.9),
                    statistics.median(m["first_ms"] for m in mine),
                    statistics.median(m["rows"] for m in mine),
                    100 * statistics.median(m["used"] for m in mine),
                    " %d refused" % refused if refused else "",
                ),
                flush=True,
            )


def draw(path, options, rounds, rates):
    series = {}
    for way in WAYS:
        for share, name in ((0.5, "p50"), (0.9, "p90")):
            points = []
            for rate in rates:
                mine = [one["loads"][rate][way] for one in rounds]
                points.append((rate, percentile(sum((m["word_ms"] for m in mine), []), share)))
            series["%s, %s" % (way, name)] = points
    title = "A decoder of %d: a request's time per word of its answer" % options.size
    svg.lines(path, title, "rate, r/s", "time per word of the answer, ms", series)


def tell_work(options, work):
    reads, words = ([pair[k] for pair in work] for k in (0, 1))
    print(
        "decoder%d: %d requests; prompts of %d to %d words, mean %.1f; answers %d to %d, mean %.1f; %d rounds of %g s"
        % (options.size, len(work), min(reads), max(reads), statistics.mean(reads), min(words), max(words),
           statistics.mean(words), options.rounds, options.seconds)
    )
    size, used = CACHE_BYTES[options.size], statistics.mean(sum(pair) for pair in work) / CACHE_PLACES[options.size]
    print(
        "cache of a request: %d KiB, of which it comes to use %.0f %%; copied: %d of them promised to each"
        % (size / 1024, 100 * used, options.max_tasks + 2),
        flush=True,
    )


def main():
    options = parse_arguments()
    standard = {64: "100,200,400,600,800", 256: "4,8,12,16,20"}[options.size]
    rates = [int(word) for word in (standard if options.rates is None else options.rates).split(",") if word]
    rounds, servers = [], {}
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        name = make_models(folder, options)
        prompts = draw_requests(options)
        try:
            for way in WAYS:
                servers[way] = Server(options.tutti, folder_of(folder, way))
            work = [(len(p), n) for p, n in zip(prompts, answer_lengths(servers["alone"], name, prompts))]
            tell_work(options, work)
            for number in range(options.rounds):
                prompts_now, work_now = (in_turn(entries, number, options.rounds) for entries in (prompts, work))
                (folder / "requests").write_text("".join(body({"tokens": p}) + "\n" for p in prompts_now))
                rounds.append(measure_round(options, servers, name, folder, work_now, rates, number + 1))
                print("round %d" % (number + 1), file=sys.stderr, flush=True)
        finally:
            for server in servers.values():
                server.stop()
    print_peaks(rounds)
    print_loads(rounds, rates)
    if options.svg and rates:
        draw(options.svg, options, rounds, rates)
    if options.output:
        pathlib.Path(options.output).write_text(json.dumps(rounds, indent=1))


if __name__ == "__main__":
    main()
