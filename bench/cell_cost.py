#!/usr/bin/env python3
"""What the server does for a batch of cells beside computing them: instructions and processor time per part, by width.

    ninja -C build tutti tutti_ort_clock
    bench/cell_cost.py MODEL            a folder that scripts/make_models.py made, of one kind of cell: chain256

For each width W a server with batches of at most W serves a closed loop of 3 W clients over HTTP, with policy
`cellular`: all batches are full, and requests of 1 to 47 cells join and leave (or up to --longest: fewer answers per
batch). Instructions are counted by callgrind
with an ONNX Runtime whose `Run` computes nothing (bench/ort_clock.c). The time is the processor time of the executor's
thread between one real Run and the next, and of the scheduler's thread: all but what connections' threads do, and but
the system calls that wake these where answers are due (given beside it, as a mean over all batches); the mean of 20
batches that a tenth of all twenties stays below, the least of some servers. The lines a + b * cells are fitted.

With --lines the data that callgrind's caches do not have is counted, in cache lines, where `Run` sweeps megabytes as a
cell's weights do; what is fetched ahead counts as missed.
"""
import argparse
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

import callgrind
from own_server import ROOT, Server

WIDTHS = (1, 4, 16, 57)

# Name, functions that belong to it, functions that are called from there and counted elsewhere.
PARTS = [
    ("decide: policy and mechanism", ("tt_domain_decide",), ("tt_cell_tasks_start",)),
    ("decide: slots, what each cell reads", ("tt_cell_tasks_start",), ()),
    ("run: values, gather, put down", ("ort_run",), ("run",)),
    ("back: what each cell made", ("tt_cell_tasks_finished",), ()),
    ("back: policy and mechanism", ("tt_domain_collect",), ("tt_cell_tasks_finished", "ended", "gone")),
    ("requests: arrival, answer", ("tt_domain_submit", "ended", "gone"), ()),
    ("turns", ("work",), ("tt_domain_decide", "tt_domain_collect", "tt_domain_submit")),
]


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--tutti", default=str(ROOT / "build" / "tutti"))
    parser.add_argument("--clock", default=str(ROOT / "build" / "libtutti_ort_clock.so"))
    parser.add_argument("--onnxruntime", default=str(ROOT / ".deps" / "lib" / "libonnxruntime.so"))
    parser.add_argument("--widths", type=lambda text: [int(w) for w in text.split(",")], default=WIDTHS)
    parser.add_argument("--longest", type=int, default=47, help="cells of a request")
    parser.add_argument("--seconds", type=float, default=2, help="of each load")
    parser.add_argument("--repeat", type=int, default=5, help="servers whose time is taken; 0: none")
    parser.add_argument("--lines", action="store_true", help="count cache lines, not instructions")
    return parser.parse_args()


def make_repository(options, folder, width):
    """The model with batches of at most `width`, and its profile."""
    source = pathlib.Path(options.model).resolve()
    model = folder / str(width) / source.name
    model.mkdir(parents=True)
    (model / "1").symlink_to(source / "1")
    settings = re.sub(r"max_batch: \d+", "max_batch: %d" % width, (source / "tutti.pbtxt").read_text())
    (model / "tutti.pbtxt").write_text(settings + '\npolicy { name: "cellular" }\n')
    subprocess.run([options.tutti, "profile", str(model), "--runs", "10"], check=True, capture_output=True)
    return model.parent


def serve(options, repository, under=(), **environment):
    """A server whose ONNX Runtime is the clock."""
    clock = {"TUTTI_ONNXRUNTIME": options.clock, "ORT_CLOCK_LIBRARY": options.onnxruntime}
    return Server(options.tutti, repository, under=under, environment={**clock, **environment})


def start_load(options, server, width, lengths):
    command = [options.tutti, "load", server.address, "--model", pathlib.Path(options.model).resolve().name]
    command += ["--length", "@%s" % lengths, "--concurrency", str(3 * width), "--connections", str(3 * width)]
    command += ["--give-up-ms", "60000", "--duration", str(options.seconds + 2), "--json"]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


# Level 1 and 2 of one core. A Run that sweeps three times the latter.
CACHES = ("--cache-sim=yes", "--D1=32768,8,64", "--LL=524288,8,64")
SWEEP_KIB = "1536"


def count(options, repository, width, folder):
    """Callgrind's profile of some seconds of full batches."""
    output = folder / ("callgrind.%d" % width)
    tool = ["valgrind", "-q", "--tool=callgrind", "--instr-atstart=no", "--callgrind-out-file=%s" % output]
    if options.lines:
        server = serve(options, repository, [*tool, *CACHES], ORT_CLOCK_SKIP="5000", ORT_CLOCK_SWEEP=SWEEP_KIB)
    else:
        server = serve(options, repository, tool, ORT_CLOCK_SKIP="5000")
    load = start_load(options, server, width, folder / "lengths")
    for wait_s, state in ((1, "on"), (options.seconds, "off")):
        time.sleep(wait_s)
        subprocess.run(
            ["callgrind_control", "-i", state, str(server.process.pid)], check=True, capture_output=True
        )
    load.wait()
    server.stop()
    return callgrind.Profile(output, ("DLmr", "DLmw") if options.lines else ("Ir",))


def scheduler_ns(process):
    """Processor time of the scheduler's own thread so far."""
    for thread in pathlib.Path("/proc/%d/task" % process.pid).iterdir():
        if (thread / "comm").read_text().strip() == "tutti-sched":
            return int((thread / "schedstat").read_text().split()[0])
    return 0


def clock(options, repository, width, folder):
    """The least ns per batch outside of Run of some servers, and then in Run, how many batches, ns of waking."""
    best = None
    for _ in range(options.repeat):
        output = folder / "clock"
        server = serve(options, repository, ORT_CLOCK_OUTPUT=str(output), LD_PRELOAD=os.path.abspath(options.clock))
        start_load(options, server, width, folder / "lengths").wait()
        scheduler = scheduler_ns(server.process)
        server.stop()
        rows = [tuple(map(int, line.split())) for line in output.read_text().splitlines()]
        batches = sum(row[1] for row in rows)
        _, calls, run_ns, _, calm_ns, waking_ns = next(row for row in rows if row[0] == width)
        found = (calm_ns + scheduler // batches, run_ns, calls / batches, waking_ns)
        best = min(best or found, found)
    return best


def fit(points):
    """a, b of the line a + b * x with the least squares of relative errors."""
    if len(points) < 2:
        return points[0][1], 0
    w = [(1 / y**2, x, y) for x, y in points]
    s, sx, sy = sum(k for k, _, _ in w), sum(k * x for k, x, _ in w), sum(k * y for k, _, y in w)
    sxx, sxy = sum(k * x * x for k, x, _ in w), sum(k * x * y for k, x, y in w)
    b = (s * sxy - sx * sy) / (s * sxx - sx * sx)
    return (sy - b * sx) / s, b


def main():
    options = parse_arguments()
    instructions = {name: [] for name, _, _ in PARTS}
    totals, times = [], []
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "lengths").write_text("".join("%d\n" % length for length in range(1, options.longest + 1)))
        for width in options.widths:
            repository = make_repository(options, folder, width)
            profile = count(options, repository, width, folder)
            batches = profile.calls["tt_cell_step_run"]
            cells = profile.calls["tt_mechanism_run_add_cell"] / batches
            for part, functions, without in PARTS:
                cost = profile.cost(*functions) - profile.cost(*without)
                instructions[part].append((cells, cost / batches))
            totals.append((cells, sum(points[-1][1] for points in instructions.values())))
            print("%d batches of %.1f cells" % (batches, cells), file=sys.stderr, flush=True)
            if options.repeat:
                beside_ns, run_ns, full, waking_ns = clock(options, repository, width, folder)
                times.append((width, beside_ns))
                print(
                    "  %d ns beside %d ns in Run and %d in waking connections' threads; %.0f %% of all batches are full"
                    % (beside_ns, run_ns, waking_ns, 100 * full),
                    file=sys.stderr,
                    flush=True,
                )
    print(
        "| %s per batch of | %s | line |"
        % ("lines" if options.lines else "instructions", " | ".join("%.1f" % cells for cells, _ in totals))
    )
    print("|%s" % ("---|" * (len(totals) + 2)))
    for part, points in [*instructions.items(), ("all", totals), ("ns of processor time", times)]:
        if points:
            row = " | ".join("%d" % cost for _, cost in points)
            print("| %s | %s | %.0f + %.1f per cell |" % (part, row, *fit(points)))


if __name__ == "__main__":
    main()
