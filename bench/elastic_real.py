"""E2bird's systems on a real model and this machine's processors, beside each other: what `tutti reproduce e2bird` says of
a GPU has no claim here, nor has this there.

  bench/elastic_real.py MODEL_DIRECTORY [--rounds 5] [--seconds 4] [--load 0.2,0.7] [--workers 1,1,2,4,8] [--tutti PROGRAM]

The model (of a repository, its batch at least the largest worker) is served under each policy in turns, A B C ... A B C,
and asked by `tutti load` (open loop, Poisson) at these shares of the rate that
NO_Wait answers in closed loop. Printed: the median over the rounds of mean and p99 latency, and of the mean's ratio to
OPT_Wait of the same round.

  NO_Wait, OPT_Wait   batches strictly one after the other, on one executor, without and with a wait of 5 ms
  Static              the same wait, filled up to the largest batch
  N-Ebird, E-Ebird    policy elastic, each worker a thread: naive, and enhanced with what `tutti profile --workers` finds
                      first
"""
import argparse
import json
import pathlib
import re
import shutil
import statistics
import subprocess
import tempfile

WAIT = "5ms"


def settings(workers):
    def policy(name, **options):
        given = " ".join('option { key: "%s" value: "%s" }' % item for item in options.items())
        return 'policy { name: "%s" %s }\n' % (name, given)

    return {
        "NO_Wait": (policy("window", max_delay="0"), "1"),
        "OPT_Wait": (policy("window", max_delay=WAIT), "1"),
        "Static": (policy("window", max_delay=WAIT, static="padded"), "1"),
        "N-Ebird": (policy("elastic", workers=workers), "2"),
        "E-Ebird": (policy("elastic", variant="enhanced", workers=workers), "2"),
    }


class Server:
    def __init__(self, tutti, models, executors):
        command = [tutti, "serve", "--model-repository", str(models), "--http-port", "0", "--executors", executors]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        for line in self.process.stderr:
            at = re.search(r"serving 1 of 1 .* at (http://\S+)", line)
            if at:
                self.url = at[1]
                return
        raise SystemExit("the server did not start")

    def close(self):
        self.process.terminate()
        self.process.communicate()


def load(tutti, url, name, *flags):
    command = [tutti, "load", url, "--model", name, "--warm-up", "0.5", "--json", *map(str, flags)]
    report = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    return report["total"] if "total" in report else report["models"][0]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--load", default="0.2,0.7")
    parser.add_argument("--workers", default="1,1,2,4,8")
    parser.add_argument("--tutti", default=str(pathlib.Path(__file__).resolve().parents[1] / "build" / "tutti"))
    args = parser.parse_args()
    name = args.model.resolve().name
    systems = settings(args.workers)
    with tempfile.TemporaryDirectory() as scratch:
        models = pathlib.Path(scratch)
        shutil.copytree(args.model, models / name)
        subprocess.run([args.tutti, "profile", models / name, "--workers", "4,8,16", "--runs", "5"], check=True)
        (models / name / "tutti.pbtxt").write_text(systems["NO_Wait"][0])
        server = Server(args.tutti, models, "1")
        rate = load(args.tutti, server.url, name, "--concurrency", 32, "--duration", args.seconds)["good_per_s"]
        server.close()
        print("NO_Wait in closed loop, 32 clients: %.0f r/s" % rate)
        for share in map(float, args.load.split(",")):
            means, tails, ratios = {s: [] for s in systems}, {s: [] for s in systems}, {s: [] for s in systems}
            for seed in range(args.rounds):
                for system, (text, executors) in systems.items():
                    (models / name / "tutti.pbtxt").write_text(text)
                    server = Server(args.tutti, models, executors)
                    report = load(args.tutti, server.url, name, "--rate", rate * share, "--duration", args.seconds,
                                  "--seed", seed + 1)
                    server.close()
                    means[system].append(report["latency_ms"]["mean"])
                    tails[system].append(report["latency_ms"]["p99"])
                for system in systems:
                    ratios[system].append(means[system][-1] / means["OPT_Wait"][-1])
            for system in systems:
                print("| %.0f %% | %s | %.2f | %.2f | %.2f (%.2f .. %.2f) |" % (
                    100 * share, system, statistics.median(means[system]), statistics.median(tails[system]),
                    statistics.median(ratios[system]), min(ratios[system]), max(ratios[system])), flush=True)


if __name__ == "__main__":
    main()
