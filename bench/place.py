#!/usr/bin/env python3
"""tutti place beside HiGHS: 800 models on 20 sub-clusters, by seed, once without and once with a bound on the moves.

    TUTTI_PROGRAM=build/tutti bench/place.py [--seeds 1-11] [--solve 1,2] [--solver-seconds 60]
    TUTTI_PROGRAM=build/tutti bench/place.py --large [--seeds 1]

Each seed's rates are placed without a previous placement; then the next seed's rates, where 1 % of the models may move
away from that placement. HiGHS, from PyPI (highspy), gets the same program (--write-lp), for the seeds of --solve. One
line of JSON for each case. Seed 1 is the shipped instance, experiments/place/. With --large: 8000 models on 200, without a
bound on the moves.
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
PROGRAM = os.environ.get("TUTTI_PROGRAM", str(ROOT / "build" / "tutti"))


def numbers(text):
    found = []
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        found += range(int(first), int(last or first) + 1)
    return found


def generate(path, seed, *more, size=("800", "20")):
    words = ["--models", size[0], "--sub-clusters", size[1], "--seed", str(seed), *more, "--out", str(path)]
    subprocess.run([sys.executable, "-B", str(ROOT / "scripts" / "make_placement.py"), *words], check=True)


def place(seconds, *words):
    command = [PROGRAM, "place", "--seconds", str(seconds), "--json", *map(str, words)]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def solve(program, seconds):
    import highspy

    solver = highspy.Highs()
    for key, value in (("output_flag", False), ("time_limit", float(seconds)), ("threads", 2)):
        solver.setOptionValue(key, value)
    if solver.readModel(str(program)) != highspy.HighsStatus.kOk:
        sys.exit("HiGHS does not read the program")
    solver.run()
    info = solver.getInfo()
    return {"solver_objective": info.objective_function_value, "solver_bound": info.mip_dual_bound,
            "solver_status": solver.modelStatusToString(solver.getModelStatus())}  # fmt: skip


def say(seed, name, answer, **more):
    line = {"seed": seed, "case": name}
    line |= {key: answer[key] for key in ("objective", "lower_bound", "moves", "seconds")}
    print(json.dumps(line | more), flush=True)


def place_large(seeds, seconds):
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "large")
        for seed in seeds:
            generate(path, seed, size=("8000", "200"))
            say(seed, "8000 x 200", place(seconds, path))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=numbers, help="default: 1-11; with --large 1")
    parser.add_argument("--solve", type=numbers, default=[], help="seeds that HiGHS gets, too")
    parser.add_argument("--large", action="store_true")
    parser.add_argument("--seconds", type=float, help="of our search (default: 1; with --large 10)")
    parser.add_argument("--solver-seconds", type=float, default=60)
    arguments = parser.parse_args()
    if arguments.large:
        place_large(arguments.seeds or [1], arguments.seconds or 10)
        return
    with tempfile.TemporaryDirectory() as folder:
        first, second, placement, program = (pathlib.Path(folder, name) for name in ("1", "2", "placement", "p.lp"))
        for seed in arguments.seeds or numbers("1-11"):
            generate(first, seed)
            generate(second, seed + 1, "--move", "0.01")
            for name, words in (
                ("free", (first, "--out", placement)),
                ("1 %", (second, "--previous", placement)),
            ):
                answer = place(arguments.seconds or 1, *words, "--write-lp", program)
                solved = solve(program, arguments.solver_seconds) if seed in arguments.solve else {}
                say(seed, name, answer, **solved)


if __name__ == "__main__":
    main()
