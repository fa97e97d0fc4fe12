"""What one simulated event costs as models and devices grow.

For M models on G devices it counts instructions per arrival or completion (by valgrind, as the difference between a
long run and a short one, so that setting up is not in it) and processor time (best of some runs, where caches show).
Every device is offered the same load, every model has the same profile and promise.
"""

import argparse
import json
import re
import resource
import subprocess
import sys
import tempfile

import svg

EXPERIMENT = """\
title: "{models} models on {devices} devices"
seed: 1
duration_s: 100000
requests: {requests}
device {{ count: {devices} }}
model {{ name: "M" copies: {models} slo_ms: 25 profile {{ linear {{ alpha_ms: 1.053 beta_ms: 5.072 }} }} }}
load {{ rate: {rate} }}
policy {{ name: "deferred" }}
"""
PER_DEVICE = 150  # requests per second: what a device carries even one by one (1 / l(1) = 163)


def run(options, models, devices, requests, prefix=()):
    """Runs it; its report, its messages, the user seconds it took."""
    with tempfile.NamedTemporaryFile("w", suffix=".pbtxt") as file:
        file.write(
            EXPERIMENT.format(models=models, devices=devices, requests=requests, rate=PER_DEVICE * devices)
        )
        file.flush()
        before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
        done = subprocess.run(
            [*prefix, options.tutti, "experiment", file.name, "--json"], capture_output=True, text=True, check=False
        )
        seconds = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before
    if done.returncode:
        sys.exit(f"scaling: {models} models, {devices} devices: {done.stderr.strip()}")
    return json.loads(done.stdout), done.stderr, seconds


def instructions(options, models, devices):
    counted = []
    for requests in (options.requests, 2 * options.requests):
        tool = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null"]
        report, messages, _ = run(options, models, devices, requests, tool)
        refs = re.search(r"refs:\s+([\d,]+)", messages)
        counted.append((int(refs.group(1).replace(",", "")), report["events"]))
    return (counted[1][0] - counted[0][0]) / (counted[1][1] - counted[0][1])


def nanoseconds(options, models, devices):
    best = []
    for requests in (options.requests, 11 * options.requests):
        runs = [run(options, models, devices, requests) for _ in range(options.repeat)]
        best.append((min(seconds for _, _, seconds in runs), runs[0][0]["events"]))
    return 1e9 * (best[1][0] - best[0][0]) / (best[1][1] - best[0][1])


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tutti", default="build/tutti")
    parser.add_argument("--sizes", default="10,100,1000,10000", help="numbers of models and of devices")
    parser.add_argument("--requests", type=int, default=150000, help="of the short run")
    parser.add_argument("--repeat", type=int, default=3, help="timed runs, of which the best counts")
    parser.add_argument("--svg", default="build/scaling.svg")
    options = parser.parse_args()
    sizes = [int(size) for size in options.sizes.split(",")]
    series = {}
    print(f"{'models':>7} {'devices':>8} {'instructions':>13} {'cpu ns':>8}   per event")
    for models in sizes:
        for devices in sizes:
            cost, time = instructions(options, models, devices), nanoseconds(options, models, devices)
            print(f"{models:7} {devices:8} {cost:13.0f} {time:8.0f}", flush=True)
            series.setdefault(f"{models:,} models", []).append((devices, cost))
    svg.lines(options.svg, "Instructions per simulated event", "devices, count", "instructions per event", series)
    print(f"picture: {options.svg}")


main()
