#!/usr/bin/env python3
"""What each kind of hostile client costs the good ones: `tutti load` at a fixed rate, calm, while one kind talks to another server
of this machine, and beside it, in turns.

usage: hostile_kinds.py [--tutti PROGRAM] [--seconds S] [--rounds N] [--rate R] [--slo-ms MS] [--kinds KIND,...] [--out FILE]

The kinds are those of tests/soak/hostile.py, without the faults of the system; `all`, a client of each of them at once; and
`idle_burner`, which computes and sends nothing: what its processor time costs, no server can save. Of each, N rounds of S seconds calm, S
seconds while one such client talks to another server here, and S seconds beside it; a round compares them, and the medians over
the rounds are shown. The hostile client runs only where no other thread wants a processor (SCHED_IDLE), because a real one has
processors of its own; but its packets and memory take the same machine, which is what the other server shows: no limit of a
server helps against that. Prints a Markdown table; with --out it is written to the file, too, with date, processors, load and
commit."""

import argparse
import datetime
import json
import os
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile
import threading
import time

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "soak"))

KINDS = ["slow_loris", "promise", "bomb", "answers", "smuggle", "reset", "flood", "reload", "h2_reset", "h2_deaf", "h2_endless", "h2_promise",
         "messages", "pages"]  # fmt: skip
WORDS = KINDS + ["all", "idle_burner"]


def arguments():
    parser = argparse.ArgumentParser(usage=__doc__.split("\n\n")[1].removeprefix("usage: "))
    parser.add_argument("--tutti", default=str(ROOT / "build" / "tutti"))
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--rate", type=float, default=200)
    parser.add_argument("--slo-ms", type=float, default=50)
    parser.add_argument("--kinds", default=",".join(WORDS))
    parser.add_argument("--out")
    return parser.parse_args()


def measure(options, address):
    """The good clients' report."""
    command = [options.tutti, "load", "http://%s:%d" % address, "--model", "good", "--rate", options.rate, "--duration", options.seconds]
    command += ["--slo-ms", options.slo_ms, "--json"]
    done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False)
    total = json.loads(done.stdout)["total"]
    return {"p50": total["latency_ms"]["p50"], "p99": total["latency_ms"]["p99"], "good": 1 - total["bad_rate"]}


def burn(_draw):
    """A millisecond or so of computing."""
    sum(range(50000))


class Hostile:
    """One client of a kind, or one of each, on a thread of its own, from begin to end."""

    def __init__(self, soak, kind):
        self.is_over, self.counts = False, {}
        kinds = KINDS if kind == "all" else [kind]
        works = [burn if one == "idle_burner" else getattr(soak, one) for one in kinds]
        self.threads = [threading.Thread(target=self.run, args=pair, daemon=True) for pair in zip(kinds, works)]
        for thread in self.threads:
            thread.start()

    def run(self, kind, work):
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))  # of this thread
        draw = random.Random(kind)
        while not self.is_over:
            try:
                work(draw)
            except OSError:
                time.sleep(0.01)
            self.counts[kind] = self.counts.get(kind, 0) + 1

    def end(self):
        self.is_over = True
        for thread in self.threads:
            thread.join(60)
        return sum(self.counts.values())


def row(options, soak, other, kind):
    """`other`: the soak whose server is attacked for comparison."""
    calm, elsewhere, beside, actions = [], [], [], 0
    for _ in range(options.rounds):
        calm.append(measure(options, soak.address))
        for attacked, reports in ((other, elsewhere), (soak, beside)):
            hostile = Hostile(attacked, kind)
            reports.append(measure(options, soak.address))
            count = hostile.end()
        actions += count

    def median(of, first=calm):
        return statistics.median(of(a, b) for a, b in zip(first, beside))

    return {
        "kind": kind,
        "actions_per_s": round(actions / options.rounds / options.seconds, 1),
        "p99_calm_ms": round(statistics.median(a["p99"] for a in calm), 2),
        "p99_elsewhere_ms": round(statistics.median(a["p99"] for a in elsewhere), 2),
        "p99_beside_ms": round(statistics.median(b["p99"] for b in beside), 2),
        "p99_rise_ms": round(median(lambda a, b: b["p99"] - a["p99"]), 2),
        "p99_ratio": round(median(lambda a, b: b["p99"] / a["p99"]), 2),
        "p99_to_elsewhere": round(median(lambda a, b: b["p99"] / a["p99"], elsewhere), 2),
        "p50_ratio": round(median(lambda a, b: b["p50"] / a["p50"]), 2),
        "in_time_points": round(median(lambda a, b: 100 * (b["good"] - a["good"])), 2),
    }


def main():
    options = arguments()
    options.tutti = str(pathlib.Path(options.tutti).resolve())
    os.environ["TUTTI_PROGRAM"] = options.tutti  # the server of the soak
    from hostile import Soak

    kinds = options.kinds.split(",")
    for kind in kinds:
        if kind not in WORDS:
            sys.exit("hostile_kinds: --kinds %s: the kinds are %s" % (kind, ", ".join(WORDS)))
    before = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as other_folder:
        soak, other = (Soak(name, has_faults=False) for name in (folder, other_folder))
        measure(options, soak.address)  # warm
        rows = [row(options, soak, other, kind) for kind in kinds]
        for one in soak, other:
            one.server.process.terminate()
            code = one.server.process.wait(60)
            if code != 0 or one.findings:
                sys.exit("hostile_kinds: the server ended with %d; %s" % (code, one.findings))
    lines = ["| %s |" % " | ".join(rows[0]), "|%s" % ("---|" * len(rows[0]))]
    lines += ["| %s |" % " | ".join(map(str, entry.values())) for entry in rows]
    print("\n".join(lines))
    if options.out:
        commit = subprocess.run(["git", "-C", ROOT, "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
        head = "%s, commit %s, %d processors, load %.1f before and %.1f after; %g requests/s for %g s, %d rounds, deadline %g ms" % (
            datetime.date.today(), commit.stdout.strip() or "unknown", os.cpu_count(), before, os.getloadavg()[0], options.rate,
            options.seconds, options.rounds, options.slo_ms)  # fmt: skip
        pathlib.Path(options.out).write_text("# Good clients beside hostile ones\n\n%s.\n\n%s\n" % (head, "\n".join(lines)))


if __name__ == "__main__":
    main()
