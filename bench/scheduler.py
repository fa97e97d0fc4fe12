"""What the multicore scheduler costs per request, and how many requests a second it schedules in time.

Scaling: the same batch sizes and the same load per device for 1 .. 1000 models on 10 .. 10,000 devices, every request
looked at alone (no rest), in virtual time, so that a noisy neighbour cannot shift it: instructions by valgrind, and
processor time (best of some runs, where caches show). Only where each model gets enough requests for such batches.

Threads: the two presets in real time, with one thread for all and with 1, 2, ... model threads beside the rank thread:
the best of some short runs.
"""

import argparse
import json
import re
import subprocess
import sys

import svg

PROFILE = ["--profile", "1.082,5.204", "--slo-ms", "100", "--max-batch", "16"]
PER_DEVICE = 426  # requests a second: 60 % of what batches of 16 allow
PER_MODEL = 4000  # requests a second that a model needs to fill its batches


def bench(options, *flags, prefix=(), may_fail=False):
    command = [*prefix, options.tutti, "bench", "scheduler", "--json", *map(str, flags)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode > (1 if may_fail else 0):
        sys.exit(f"scheduler: {' '.join(command)}: {done.stderr.strip()}")
    return json.loads(done.stdout), done.stderr


def first(options):
    return ("chrt", "-f", "1") if options.first else ()


def scaling_flags(models, devices, requests):
    rate = PER_DEVICE * devices
    return [
        *("--clock", "virtual", "--rest-us", 0, "--models", models, "--devices", devices, *PROFILE),
        *("--rate", rate, "--warm-up", 0, "--seconds", max(requests / rate, 0.15)),
    ]


def instructions(options, models, devices):
    tool = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", "--toggle-collect=tt_multicore_step"]
    report, messages = bench(options, *scaling_flags(models, devices, options.requests), prefix=tool)
    refs = re.search(r"refs:\s+([\d,]+)", messages)
    return int(refs.group(1).replace(",", "")) / report["offered"], report["batch_rows"]["mean"]


def scaling(options):
    series = {}
    print(f"{'models':>7} {'devices':>8} {'batch':>6} {'instructions':>13} {'cpu ns':>8}   per request, virtual time")
    for models in (1, 10, 100, 1000):
        for devices in (10, 100, 1000, 10000):
            if models > 1 and PER_DEVICE * devices / models < PER_MODEL:
                continue
            cost, batch = instructions(options, models, devices)
            flags = scaling_flags(models, devices, 5 * options.requests)
            time = min(bench(options, *flags, prefix=first(options))[0]["cpu_ns_per_request"] for _ in range(options.repeat))
            print(f"{models:7} {devices:8} {batch:6} {cost:13.0f} {time:8.0f}", flush=True)
            name = f"{models:,} model{'s' if models > 1 else ''}"
            series.setdefault(f"{name}: ns", []).append((devices, time))
            series.setdefault(f"{name}: instructions", []).append((devices, cost))
    svg.lines(options.svg, "Scheduler's cost per request", "devices, count", "per request, ns and instructions", series)
    print(f"picture: {options.svg}")


def threads(options):
    print(f"\n{'preset':>9} {'threads':>8} {'offered/s':>10} {'useful/s':>9} {'bad %':>6} {'cpu ns':>7} {'model':>6} {'rank':>6}")
    for preset in ("light", "symphony"):
        for count in range(options.model_threads + 1):
            flags = ["--preset", preset, "--model-threads", count, "--seconds", 1, "--warm-up", 0.5]
            runs = [bench(options, *flags, prefix=first(options), may_fail=True)[0] for _ in range(options.repeat)]
            best = min(runs, key=lambda r: (r["bad_rate"] > 0.01, r["cpu_ns_per_request"]))
            print(
                f"{preset:>9} {'1 + 1' if count == 1 else f'{count} + 1' if count else 'one':>8}"
                f" {best['offered_per_second']:10.0f} {best['useful_per_second']:9.0f} {100 * best['bad_rate']:6.2f}"
                f" {best['cpu_ns_per_request']:7.0f} {best['model_thread_cpu_ns_per_request']:6.0f}"
                f" {best['rank_thread_cpu_ns_per_request']:6.0f}",
                flush=True,
            )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tutti", default="build/tutti")
    parser.add_argument("--requests", type=int, default=100000, help="of a counted run")
    parser.add_argument("--repeat", type=int, default=5, help="timed runs, of which the best counts")
    parser.add_argument("--model-threads", type=int, default=2, help="the most")
    parser.add_argument("--svg", default="build/scheduler.svg")
    parser.add_argument("--first", action="store_true", help="timed runs go before all other work (chrt -f 1)")
    parser.add_argument("--only", choices=["scaling", "threads"])
    options = parser.parse_args()
    if options.only != "threads":
        scaling(options)
    if options.only != "scaling":
        threads(options)


main()
