#!/usr/bin/env python3
"""Overload on devices that are not exact: what becomes of the offered requests under each policy.

    bench/overload.py                        # simulated and emulated, at 0.5, 1, 1.5 and 3 times the capacity
    bench/overload.py --worlds simulated     # seconds
    scripts/test_python.sh bench/overload.py --worlds real --models DIR     # needs numpy and onnx

Runs experiments/compare/overload-noisy.pbtxt with `tutti experiment` for each contender, and prints a row per
contender, world and load: shares of the offered requests in time, computed and late, refused early (on arrival
or later, so that others are in time) and dropped for their own deadline; and the goodput as a share of the
contender's best in that world. The emulated world takes as long as its load lasts and needs a calm machine.

The real world: the 67 MB MLP of bench/rivals_models.py, made and measured in DIR if it is not there, is served with an
objective of 60 ms on one executor, and loaded over HTTP in binary. Its capacity is what 64 clients in a closed loop get, which
have much more time.
There "late" is what the clients saw; behind it stands what the server itself counted as late, and the processor time of the server."""
import argparse
import json
import pathlib
import re
import subprocess
import sys
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[1]
FILE = ROOT / "experiments" / "compare" / "overload-noisy.pbtxt"
CAPACITY_PER_S = 1830  # as the file says


def run(tutti, contender, world, seconds):
    """The totals of all loads of the file, in its order."""
    command = [tutti, "experiment", FILE, "--json", "--workers", "1"]
    for setting in (
        "contender=" + contender,
        "world=" + world.upper(),
        "duration_s=%g" % (seconds + 2),
    ):
        command += ["--set", setting]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit("bench/overload.py: %s" % done.stderr.strip())
    return [point["total"] for point in json.loads(done.stdout)["points"]]


REAL = {  # contenders of the real world, and what their tutti.pbtxt adds
    "default": "",
    "eager": 'policy { name: "eager" }\n',
    "window 0": 'policy { name: "window" option { key: "max_delay" value: "0" } }\n',
}
SLO_MS, CLIENTS, WARM_UP_S = 60, 64, 2


def prepare(tutti, models):
    """The model's folder, with a profile."""
    import rivals_models

    model = models / "mlp"
    if not (model / "profile.pbtxt").exists():
        rivals_models.write("mlp", models, None)
        (model / "tutti.pbtxt").unlink(missing_ok=True)
        subprocess.run([tutti, "profile", model, "--executors", "1"], check=True, capture_output=True)
    return model


def load(tutti, server, *flags):
    command = [tutti, "load", server.address, "--model", "mlp", "--binary", "--json", *flags]
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if not done.stdout:
        sys.exit("bench/overload.py: tutti load: " + done.stderr.strip())
    return json.loads(done.stdout)["total"]


def late_so_far(server):
    with urllib.request.urlopen(server.address + "/metrics", timeout=30) as page:
        return sum(int(n) for n in re.findall(r"^tutti_requests_late_total\{.*\} (\d+)$", page.read().decode(), re.MULTILINE))


def real_points(tutti, server, seconds):
    """(load, total, late by the server's own count, its processor time in us per request) of each load."""
    slo = ("--slo-ms", SLO_MS, "--duration", seconds + WARM_UP_S, "--warm-up", WARM_UP_S)
    patient = ("--concurrency", CLIENTS, "--timeout-us", 60_000_000)
    capacity = load(tutti, server, *patient, "--duration", 5, "--warm-up", 1)["answered_per_s"]
    if not capacity:
        sys.exit("bench/overload.py: no request was answered in a closed loop; the server said:\n" + server.said())
    for times in (0.5, 1, 1.5, 3):
        late, cpu = late_so_far(server), server.cpu_seconds()
        rate = times * capacity
        # Twice as many as are in flight when each takes its whole time: no request waits for one.
        connections = max(256, int(2 * rate * SLO_MS / 1000))
        total = load(tutti, server, "--rate", "%g" % rate, "--connections", connections, *slo)
        if total["lag_ms"]["p99"] > SLO_MS / 4:
            print("the generator fell behind by %(p99).1f ms (p99): what follows is its own" % total["lag_ms"])
        offered = total["arrived"] * (seconds + WARM_UP_S) / seconds
        yield times, total, late_so_far(server) - late, 1e6 * (server.cpu_seconds() - cpu) / offered


def real(given):
    from own_server import Server

    model = prepare(given.tutti, given.models)
    print("real policy    load  offered/s  in time    late (counted)  refused  failed  of best  cpu us")
    for name, settings in REAL.items():
        (model / "tutti.pbtxt").write_text("slo_ms: %d\n" % SLO_MS + settings)
        server = Server(given.tutti, given.models)
        points = list(real_points(given.tutti, server, given.seconds))
        server.stop()
        best = max(total["good_per_s"] for _, total, _, _ in points) or 1
        for times, total, late, cpu_us in points:
            offered = total["arrived"]
            others = offered - total["ok"] - total["late"] - total["rejected"]
            print(
                "%-12s %6.2f %10.0f %7.2f%% %6.2f%% %8d %7.2f%% %6.2f%% %8.3f %7.0f"
                % (
                    name,
                    times,
                    total["offered_per_s"],
                    *(100 * total[kind] / offered for kind in ("ok", "late")),
                    late,
                    100 * total["rejected"] / offered,
                    100 * others / offered,
                    total["good_per_s"] / best,
                    cpu_us,
                ),
                flush=True,
            )


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tutti", default=str(ROOT / "build" / "tutti"))
    parser.add_argument("--worlds", default="simulated,emulated")
    parser.add_argument("--models", type=pathlib.Path, help="the folder of the real world's model")
    parser.add_argument("--seconds", type=float, default=10, help="that are counted, of each run")
    given = parser.parse_args()
    worlds = given.worlds.split(",")
    if "real" in worlds:
        if not given.models:
            parser.error("--worlds real needs --models")
        real(given)
        worlds.remove("real")
    if not worlds:
        return
    text = FILE.read_text()
    contenders = re.findall(r'^contender { name: "([^"]+)"', text, re.MULTILINE)
    print("world      contender   load  offered  in time    late  refused  dropped  of best")
    for world in worlds:
        for contender in contenders:
            totals = run(given.tutti, contender, world, given.seconds)
            best = max(total["good_per_s"] for total in totals)
            for total in totals:
                offered = total["arrived"]
                reasons = total["dropped_by_reason"]
                counts = (
                    total["ok"],
                    total["late"],
                    reasons["early"],
                    reasons["deadline"] + reasons["queue_full"],
                )
                print(
                    "%-10s %-10s %5.2f %8d %7.2f%% %6.2f%% %7.2f%% %7.2f%% %8.3f"
                    % (
                        world,
                        contender,
                        total["offered_per_s"] / CAPACITY_PER_S,
                        offered,
                        *(100 * count / offered for count in counts),
                        total["good_per_s"] / best,
                    ),
                    flush=True,
                )


if __name__ == "__main__":
    main()
