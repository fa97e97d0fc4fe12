#!/usr/bin/env python3
"""The processor time that the server takes per HTTP request on kept connections: plain, with TLS, with TLS and tokens.

usage: tls_cost.py [--tutti PROGRAM] [--clients N] [--requests N] [--rounds N] [--values N] [--rate R]

An emulated model of N floats, whose batches take 1 us; `tutti load` keeps the clients in a closed loop, or sends R requests per second,
so that a client that TLS slows down too does not send less, which costs the server more wake-ups for each request. The servers run one
after the other in turns; a round gives each its user and system time per request. A short load with as many clients is subtracted,
so handshakes do not count. The ratio is the median over the rounds of TLS / plain of the same round. Needs the command openssl;
prints a Markdown table."""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import tempfile

from own_server import ROOT, Server, rounds_of

MODEL = """backend: "emulated"
max_batch_size: 64
input { name: "INPUT0" data_type: TYPE_FP32 dims: %d }
output { name: "OUTPUT0" data_type: TYPE_FP32 dims: %d }
"""


def make_files(folder, program, values):
    model = pathlib.Path(folder, "models", "identity")
    (model / "1").mkdir(parents=True)
    (model / "config.pbtxt").write_text(MODEL % (values, values))
    (model / "profile.pbtxt").write_text("linear { beta_ms: 0.001 }\n")
    command = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=localhost"
    command += " -addext subjectAltName=DNS:localhost,IP:127.0.0.1 -keyout %s/key.pem -out %s/cert.pem" % (folder, folder)
    subprocess.run(command.split(), check=True, capture_output=True)
    made = json.loads(subprocess.check_output([program, "token", "bench", "infer", "--json"]))
    others = [
        json.loads(subprocess.check_output([program, "token", "user%d" % i, "infer", "--json"]))["line"] for i in range(63)
    ]
    pathlib.Path(folder, "tokens").write_text("\n".join(others + [made["line"]]) + "\n")
    pathlib.Path(folder, "token").write_text(made["token"] + "\n")


def microseconds(given, folder, way):
    tls = ["--tls-cert", folder + "/cert.pem", "--tls-key", folder + "/key.pem"] if "TLS" in way else []
    tokens = ["--tokens", folder + "/tokens"] if "tokens" in way else []
    server = Server(given.tutti, folder + "/models", "--grpc-port", 0, *tls, *tokens, executors=None)
    load = [given.tutti, "load", server.address, "--model", "identity", "--binary", "--json"]
    load += ["--rate", given.rate, "--connections", given.clients] if given.rate else ["--concurrency", given.clients]
    load += ["--tls-ca", folder + "/cert.pem"] if tls else []
    load += ["--token-file", folder + "/token"] if tokens else []
    found = server.microseconds(load, given.requests)
    server.stop()
    return found


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--tutti", default=os.path.join(ROOT, "build", "tutti"))
    arguments.add_argument("--clients", type=int, default=16)
    arguments.add_argument("--requests", type=int, default=40000)
    arguments.add_argument("--rounds", type=int, default=5)
    arguments.add_argument("--values", type=int, default=16)
    arguments.add_argument("--rate", type=float)
    given = arguments.parse_args()
    ways = ("plain", "TLS", "TLS and 64 tokens")
    with tempfile.TemporaryDirectory() as folder:
        make_files(folder, given.tutti, given.values)
        found = rounds_of(ways, given.rounds, lambda way: microseconds(given, folder, way))
    print("| us of processor time per request |" + " round |" * given.rounds + " / plain, median |")
    print("|---|" + "---|" * (given.rounds + 1))
    for way in ways:
        ratio = statistics.median(mine / plain for mine, plain in zip(found[way], found["plain"]))
        print("| %s |" % way + "".join(" %.1f |" % figure for figure in found[way]) + " %.2f |" % ratio)


if __name__ == "__main__":
    main()
