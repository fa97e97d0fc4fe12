#!/usr/bin/env python3
"""What a cluster costs, and how fast it goes on after a failure, on this machine, over the loopback.

    bench/cluster.py [--program build/tutti] [--parts cost,kill,...] [--rounds 2] [--seconds 5] [--events 20] [--out FILE.json]

Parts (default: all, in this order); an emulated identity of 64 bytes:

cost        one process, and 1 scheduler + 1 frontend + 1 backend over shared memory, over TCP, and with a scheduler thread, in turns
            (A B C D A B C D): requests/s of a closed loop of 64 clients, p50 of one client, and processor time per request of each
            process, from its clock of processor time (also while one client is served). Where the machine has two processors,
            also one process and the three over shared memory with the servers on the first and the clients on the others.
kill        a primary is killed (-9), again and again, under 500 requests/s with an objective of 50 ms: from the kill until the spare
            says that it is primary, and what clients saw.
freeze      the same with a primary that is stopped (SIGSTOP), and goes on afterwards.
promote     a spare is promoted by a command, objective 25 ms.
backend     one of four backends is killed, or stopped for 200 ms, in turns, objective 50 ms.
transports  shared memory, TCP and, where it is installed, UCX (over shared memory) in turns: the figures of cost for inputs and
            outputs of 64 bytes and of 150 KB. Not part of the default; --transports is short for it.
"""
import argparse
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import time

from own_server import ROOT, cpu_seconds

sys.path.insert(0, str(ROOT / "tests" / "python"))

MODEL = """
backend: "emulated" max_batch_size: 64
input { name: "x" data_type: TYPE_FP32 dims: 16 }
output { name: "y" data_type: TYPE_FP32 dims: 16 }
"""
IMAGE_DIMS = 38400  # 150 KB
PRIMARY = re.compile(r"^I\d{4} (\d\d):(\d\d):(\d\d\.\d+) .*this scheduler is primary")
DEFAULT_PARTS = "cost,kill,freeze,promote,backend"
RATE, LOAD_S, EVENT_S = 500, 1.2, 0.5  # an event comes within the load
COUNTS = ("arrived", "ok", "late", "rejected", "failed", "timed_out", "broken", "unfinished")


def load_command(program, address, *arguments, model="identity"):
    return [program, "load", "http://" + address, "--model", model, "--json", *map(str, arguments)]


def load(program, address, *arguments, model="identity"):
    done = subprocess.run(
        load_command(program, address, *arguments, model=model), capture_output=True, text=True, check=False
    )
    if done.returncode not in (0, 1):
        raise SystemExit(done.stderr)
    return json.loads(done.stdout)


def seconds_of_day(instant):
    local = time.localtime(instant)
    return local.tm_hour * 3600 + local.tm_min * 60 + local.tm_sec + instant % 1


def measure(program, address, pids, seconds, model="identity"):
    """Many clients, then one; what each costs."""
    result = {}
    for name, clients in (("many", 64), ("one", 1)):
        before = {node: cpu_seconds(pid) for node, pid in pids.items()}
        seen = load(program, address, "--concurrency", clients, "--duration", seconds, model=model)
        used = {node: cpu_seconds(pid) - before[node] for node, pid in pids.items()}
        answered = max(seen["total"]["ok"], 1)
        result[name] = {
            "requests_per_s": answered / seconds,
            "p50_ms": seen["total"]["latency_ms"]["p50"],
            "us_per_request": {node: 1e6 * used[node] / answered for node in pids},
        }
    result["load_average"] = os.getloadavg()[0]
    return result


def model_in(folder, name="identity", dims=16):
    folder = folder / name
    folder.joinpath("1").mkdir(parents=True)
    folder.joinpath("config.pbtxt").write_text(MODEL.replace("dims: 16", "dims: %d" % dims))
    folder.joinpath("profile.pbtxt").write_text("linear { alpha_ms: 0.0001 beta_ms: 0.001 }\n")


def note(part, figures, found):
    figures = {"part": part, **figures}
    found.append(figures)
    print(json.dumps(figures), file=sys.stderr)


# ---- cost ----


def measure_placed(program, address, pids, *arguments):
    """As `measure`, with all servers on the first processor and the clients on the others."""
    every = os.sched_getaffinity(0)
    for pid in pids.values():
        for task in pathlib.Path("/proc/%d/task" % pid).iterdir():
            os.sched_setaffinity(int(task.name), {min(every)})
    os.sched_setaffinity(0, every - {min(every)})  # the clients inherit it
    try:
        return measure(program, address, pids, *arguments)
    finally:
        os.sched_setaffinity(0, every)


def figures_of_cluster(program, cluster, models, flags, scheduler_flags, seconds, measure=measure):
    for name, dims in models.items():
        model_in(cluster.models, name, dims)
    for name, role in cluster.nodes.items():
        cluster.start(name, *(flags if role != "scheduler" else scheduler_flags))
    for name in cluster.nodes:
        if not cluster.processes[name].wait_ready(60):
            raise SystemExit(cluster.said())
    cluster.await_ready("f1")
    pids = {cluster.nodes[name]: server.process.pid for name, server in cluster.processes.items()}
    address = cluster.processes["f1"].address
    figures = {model: measure(program, address, pids, seconds, model) for model in models}
    cluster.stop()
    return figures


def cost(options, found):
    from cluster_process import Cluster
    from server_process import Server

    memory = ("--cluster-memory", "required")
    # name: its measure, flags of the frontend and the backend, those of the scheduler; None: one process
    ways = {
        "one process": (measure, None, ()),
        "memory": (measure, memory, ()),
        "tcp": (measure, ("--cluster-memory", "off"), ()),
        "memory, a scheduler thread": (measure, memory, ("--scheduler-threads", "1")),
    }
    if len(os.sched_getaffinity(0)) > 1:
        ways["one process, placed"] = (measure_placed, None, ())
        ways["memory, placed"] = (measure_placed, memory, ())

    def one_process(way):
        folder = Cluster(times="")
        model_in(folder.models)
        alone = Server([options.program, "serve", "--model-repository", str(folder.models), "--http-port", "0", "--grpc-port", "0"])  # fmt: skip
        alone.wait_ready(30)
        figures = way(options.program, alone.address, {"server": alone.process.pid}, options.seconds)
        alone.stop(30)
        return figures

    for _ in range(options.rounds):
        for name, (way, flags, scheduler_flags) in ways.items():
            figures = one_process(way) if flags is None else figures_of_cluster(
                options.program, Cluster(times=""), {"identity": 16}, flags, scheduler_flags, options.seconds, way)["identity"]  # fmt: skip
            note("cost", {"way": name, **figures}, found)


def transports(options, found):
    """Memory, TCP and, where it is installed, UCX over shared memory."""
    from cluster_process import Cluster
    from ucx_process import use_ucx

    ways = {"required": ("--cluster-memory", "required"), "off": ("--cluster-memory", "off")}
    if use_ucx():
        os.environ["UCX_TLS"] = "posix,sysv,cma"
        ways["ucx"] = ("--cluster-memory", "required", "--cluster-ucx", "on")
    for _ in range(options.rounds):
        for use, flags in ways.items():
            models = {"identity": 16, "image": IMAGE_DIMS}
            figures = figures_of_cluster(options.program, Cluster(times=""), models, flags, (), options.seconds)
            for model in models:
                note("transports", {"memory": use, "model": model, **figures[model]}, found)


# ---- events under load ----


class Events:
    """A cluster under load, and what happens to it: a load of its own for each event."""

    def __init__(self, options, **shape):
        from cluster_process import Cluster

        self.options = options
        self.cluster = Cluster(times="", **shape)
        model_in(self.cluster.models)
        self.cluster.start_all(*(["--cluster-memory", "required"]))
        self.times, self.seen, self.worst_ms, self.spoilt, self.unasked = [], dict.fromkeys(COUNTS, 0), 0, 0, 0
        self.reasons = {}

    def during_load(self, slo_ms, event):
        """Calls it amid a load of its own."""
        clients = subprocess.Popen(
            load_command(self.options.program, self.cluster.processes["f1"].address, "--rate", RATE, "--duration", LOAD_S,
                         "--slo-ms", slo_ms),
            stdout=subprocess.PIPE, text=True)  # fmt: skip
        time.sleep(EVENT_S)
        result = event()
        report = json.loads(clients.communicate()[0])
        total = report["total"]
        for reason, count in report["reasons"].items():
            self.reasons[reason] = self.reasons.get(reason, 0) + count
        for name in COUNTS:
            self.seen[name] += total[name]
        self.spoilt += total["arrived"] != total["ok"]
        self.worst_ms = max(self.worst_ms, total["latency_ms"]["max"])
        return result

    def until_primary(self, do):
        """From `do` to the primary until the spare's line in its log; returns the former primary."""
        former = self.cluster.primary()
        lines = self.cluster.processes[OTHER[former]].lines
        said, at = len(lines), time.time()
        do(former)
        while not any(PRIMARY.match(line) for line in lines[said:]):
            if time.time() > at + 3:  # on a busy machine it was primary already, without an event
                self.unasked += 1
                return former
            time.sleep(0.001)
        line = next(filter(None, map(PRIMARY.match, lines[said:])))
        hours, minutes, seconds = line.groups()
        passed = (int(hours) * 3600 + int(minutes) * 60 + float(seconds) - seconds_of_day(at)) % 86400
        if passed < 3:
            self.times.append(passed)
        else:  # a moment before the event, likewise
            self.unasked += 1
        return former

    def again(self, name):
        self.cluster.processes[name].process.wait()
        self.cluster.start(name, *(["--cluster-memory", "required"] if self.cluster.nodes[name] != "scheduler" else []))
        self.cluster.processes[name].wait_ready(30)

    def end(self, part, slo_ms, found):
        self.cluster.stop()
        figures = {"slo_ms": slo_ms, "rate": RATE, "clients": self.seen, "reasons": self.reasons, "loads_with_a_bad_request": self.spoilt,
                   "worst_ms": self.worst_ms, "takeovers_unasked": self.unasked, "load_average": os.getloadavg()[0]}  # fmt: skip
        if self.times:
            times = sorted(1e3 * t for t in self.times)
            figures["ready_ms"] = {"count": len(times), "p50": times[len(times) // 2],
                                   "p99": times[-(-len(times) * 99 // 100) - 1], "max": times[-1], "all": times}  # fmt: skip
        note(part, figures, found)


OTHER = {"s1": "s2", "s2": "s1"}


def kill(options, found):
    events = Events(options, schedulers=2, backends=4)
    for _ in range(options.events):
        events.again(events.during_load(50, lambda: events.until_primary(events.cluster.kill)))
    events.end("kill", 50, found)


def freeze(options, found):
    events = Events(options, schedulers=2, backends=4)
    for _ in range(options.events):
        frozen = events.during_load(
            50, lambda: events.until_primary(lambda name: events.cluster.kill(name, signal.SIGSTOP))
        )
        events.cluster.kill(frozen, signal.SIGCONT)
        time.sleep(0.3)
    events.end("freeze", 50, found)


def promote(options, found):
    events = Events(options, schedulers=2, backends=4)
    for _ in range(options.events):
        events.during_load(
            25, lambda: events.until_primary(lambda _: events.cluster.command("promote", events.cluster.spec))
        )
    events.times.clear()  # they hold the start of the command's process
    events.end("promote", 25, found)


def backend(options, found):
    for kind in ("killed", "stopped"):
        events = Events(options, schedulers=1, backends=4)
        for number in range(options.events // 2):
            name = "b%d" % (number % 4 + 1)

            def stop_for_a_while():
                events.cluster.kill(name, signal.SIGSTOP)
                time.sleep(0.2)
                events.cluster.kill(name, signal.SIGCONT)

            events.during_load(50, stop_for_a_while if kind == "stopped" else lambda: events.cluster.kill(name))
            if kind == "killed":
                events.again(name)
        events.end("backend " + kind, 50, found)


PARTS = {"cost": cost, "kill": kill, "freeze": freeze, "promote": promote, "backend": backend, "transports": transports}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--program", default=str(ROOT / "build" / "tutti"))
    parser.add_argument("--parts", default=DEFAULT_PARTS)
    parser.add_argument("--transports", action="store_true")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--seconds", type=int, default=5)
    parser.add_argument("--events", type=int, default=20)
    parser.add_argument("--out")
    options = parser.parse_args()
    options.program = os.environ["TUTTI_PROGRAM"] = str(pathlib.Path(options.program).resolve())
    parts = ["transports"] if options.transports else options.parts.split(",")
    unknown = [part for part in parts if part not in PARTS]
    if unknown:
        parser.error("no part is called %s; there are %s" % (unknown[0], ", ".join(PARTS)))
    found = []
    for part in parts:
        PARTS[part](options, found)
    text = json.dumps(found, indent=1)
    if options.out:
        pathlib.Path(options.out).write_text(text + "\n")
    print(text)


if __name__ == "__main__":
    main()
