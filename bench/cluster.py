#!/usr/bin/env python3
"""What a cluster costs and how fast a spare takes over, on this machine, over the loopback.

    bench/cluster.py [--program build/tutti] [--seconds 5] [--kills 20] [--out FILE.json]

Beside each other: one process, and 1 scheduler + 1 frontend + 1 backend, serving an emulated identity of 64 bytes:
requests/s of a closed loop of 64 clients, p50 of one client, processor time of each process per request. Then a primary is
killed again and again under load: from the kill until the spare says that it is primary, and what clients saw.

    bench/cluster.py --transports [--rounds 4] [--seconds 5]

Shared memory, TCP and, where it is installed, UCX (over shared memory) between frontend and backend, in turns, each in a
cluster of its own: the same figures for inputs and outputs of 64 bytes and of 150 KB.
"""
import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "python"))

MODEL = """
backend: "emulated" max_batch_size: 64
input { name: "x" data_type: TYPE_FP32 dims: 16 }
output { name: "y" data_type: TYPE_FP32 dims: 16 }
"""
IMAGE_DIMS = 38400  # 150 KB
PRIMARY = re.compile(r"^I\d{4} (\d\d):(\d\d):(\d\d\.\d+) .*this scheduler is primary")


def load(program, address, *arguments, model="identity"):
    done = subprocess.run(
        [program, "load", "http://" + address, "--model", model, "--json", *map(str, arguments)],
        capture_output=True, text=True, check=False)  # fmt: skip
    if done.returncode not in (0, 1):
        raise SystemExit(done.stderr)
    return json.loads(done.stdout)


def used_s(pid):
    """Processor time of the process so far."""
    fields = pathlib.Path("/proc/%d/stat" % pid).read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def seconds_of_day(instant):
    local = time.localtime(instant)
    return local.tm_hour * 3600 + local.tm_min * 60 + local.tm_sec + instant % 1


def measure(program, address, pids, seconds, model="identity"):
    before = {name: used_s(pid) for name, pid in pids.items()}
    many = load(program, address, "--concurrency", 64, "--duration", seconds, model=model)
    used = {name: used_s(pid) - before[name] for name, pid in pids.items()}
    one = load(program, address, "--concurrency", 1, "--duration", seconds, model=model)
    answered = many["total"]["ok"]
    return {
        "requests_per_s": answered / seconds,
        "p50_ms_of_one_client": one["total"]["latency_ms"]["p50"],
        "us_per_request": {name: 1e6 * used[name] / max(answered, 1) for name in pids},
    }


def model_in(folder, name="identity", dims=16):
    folder = folder / name
    folder.joinpath("1").mkdir(parents=True)
    folder.joinpath("config.pbtxt").write_text(MODEL.replace("dims: 16", "dims: %d" % dims))
    folder.joinpath("profile.pbtxt").write_text("linear { alpha_ms: 0.0001 beta_ms: 0.001 }\n")


def takeovers(cluster, program, kills):
    """Seconds from each kill to the new primary's claim, and what an open loop saw meanwhile."""
    clients = subprocess.Popen(
        [program, "load", "http://" + cluster.processes["f1"].address, "--model", "identity", "--rate", "500",
         "--duration", str(2 * kills), "--json"],
        stdout=subprocess.PIPE, text=True)  # fmt: skip
    found = []
    for _ in range(kills):
        time.sleep(1)
        primary = cluster.primary()
        spare = {"s1": "s2", "s2": "s1"}[primary]
        said = len(cluster.processes[spare].lines)
        at = time.time()
        cluster.kill(primary)
        while not any(PRIMARY.match(line) for line in cluster.processes[spare].lines[said:]):
            if time.time() > at + 10:
                raise SystemExit("the spare does not take over: " + cluster.said())
            time.sleep(0.001)
        line = next(filter(None, map(PRIMARY.match, cluster.processes[spare].lines[said:])))
        hours, minutes, seconds = line.groups()
        found.append((int(hours) * 3600 + int(minutes) * 60 + float(seconds) - seconds_of_day(at)) % 86400)
        cluster.processes[primary].process.wait()
        cluster.start(primary)
        cluster.processes[primary].wait_ready(30)
    seen = json.loads(clients.communicate()[0])["total"]
    return sorted(found), seen


def transports(program, cluster_of, rounds, seconds):
    """The figures of each round: memory, TCP and, where it is installed, UCX over shared memory in turns."""
    from ucx_process import use_ucx

    ways = {"required": ("--cluster-memory", "required"), "off": ("--cluster-memory", "off")}
    if use_ucx():
        os.environ["UCX_TLS"] = "posix,sysv,cma"
        ways["ucx"] = ("--cluster-memory", "required", "--cluster-ucx", "on")
    found = []
    for _ in range(rounds):
        for use, flags in ways.items():
            cluster = cluster_of(devices=2, times="")
            model_in(cluster.models)
            model_in(cluster.models, "image", IMAGE_DIMS)
            cluster.start_all(*flags)
            pids = {cluster.nodes[name]: server.process.pid for name, server in cluster.processes.items()}
            for model in ("identity", "image"):
                figures = measure(program, cluster.processes["f1"].address, pids, seconds, model)
                figures.update(memory=use, model=model, load_average=os.getloadavg()[0])
                found.append(figures)
                print(json.dumps(figures), file=sys.stderr)
            cluster.stop()
    return found


def cost_and_takeover(program, cluster_of, server_of, options):
    cluster = cluster_of(devices=2, times="")
    model_in(cluster.models)
    alone = server_of([program, "serve", "--model-repository", str(cluster.models), "--http-port", "0", "--grpc-port", "0"])
    alone.wait_ready(30)
    result = {"load_average": os.getloadavg()[0]}
    result["one_process"] = measure(program, alone.address, {"server": alone.process.pid}, options.seconds)
    alone.stop(30)
    cluster.start_all()
    pids = {cluster.nodes[name]: server.process.pid for name, server in cluster.processes.items()}
    result["cluster"] = measure(program, cluster.processes["f1"].address, pids, options.seconds)
    cluster.stop()
    pair = cluster_of(schedulers=2, backends=4, times="")
    model_in(pair.models)
    pair.start_all()
    times, seen = takeovers(pair, program, options.kills)
    pair.stop()
    result["takeover_ms"] = {
        "count": len(times), "p50": 1e3 * times[len(times) // 2], "max": 1e3 * times[-1], "all": [1e3 * t for t in times],
    }  # fmt: skip
    result["takeover_clients"] = seen
    return result


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--program", default=str(ROOT / "build" / "tutti"))
    parser.add_argument("--seconds", type=int, default=5)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--transports", action="store_true")
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--out")
    options = parser.parse_args()
    program = os.environ["TUTTI_PROGRAM"] = str(pathlib.Path(options.program).resolve())
    from cluster_process import Cluster
    from server_process import Server

    if options.transports:
        result = {"transports": transports(program, Cluster, options.rounds, options.seconds)}
    else:
        result = cost_and_takeover(program, Cluster, Server, options)
    text = json.dumps(result, indent=1)
    if options.out:
        pathlib.Path(options.out).write_text(text + "\n")
    print(text)


if __name__ == "__main__":
    main()
