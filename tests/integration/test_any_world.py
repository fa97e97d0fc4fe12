#!/usr/bin/env python3
"""Any policy in any world: random models, executors, options and requests, and of each run what docs/FORMATS.md says that an
independent checker can verify of --tasks and --outcomes. It knows no policy's rule, so it holds for all of them: policies, their
traits and their options come from `tutti policies --json`, so a new policy is tested without an entry here. Worlds are
simulated, and a few of each policy are played on emulated devices, where nothing is asserted of how long anything takes."""
import csv
import json
import os
import pathlib
import random
import subprocess
import tempfile
import unittest
from collections import defaultdict

PROGRAM = os.environ["TUTTI_PROGRAM"]
SEED = int(os.environ.get("TUTTI_SEED", "20261121"))
CASES = int(os.environ.get("TUTTI_TEST_CASES", "30"))  # of each policy
EMULATED_CASES = int(os.environ.get("TUTTI_TEST_EMULATED_CASES", "3"))
US = 1000
LONGEST_OUTPUT = 6


def program_says(*arguments):
    return json.loads(subprocess.run([PROGRAM, *arguments], capture_output=True, text=True, check=True, timeout=60).stdout)


POLICIES = {policy["name"]: policy for policy in program_says("policies", "--json")}

# Values that are drawn for options that are not choices, where others than the default are worth a test. Choices are drawn
# from those that the program names. What is left out keeps its default.
VALUES = {
    "window": {"max_delay": ("0us", "300us", "5ms"), "max_batch": ("1", "3", "8")},
    "nexus": {"epoch": ("1ms", "10s"), "frontends": ("1", "2", "3")},
    "shepherd": {"threshold": ("1.5", "3"), "abort_cost": ("0us", "50us")},
    "adaptive": {"target": ("1", "4")},
    "deferred": {"target": ("1", "4")},
    "timeout": {"delay": ("0us", "400us", "5ms"), "share": ("0", "0.5")},
    "lazy": {"max_batch": ("1", "4", "64"), "dec_timesteps": ("0", "1", "4"), "patience": ("0", "0.5", "1")},
    "diversity": {
        "bs_max": ("1", "4", "16"),
        "pairs": ("1", "2", "3"),
        "window": ("0us", "400us"),
        "comp_wait": ("0us", "400us", "5ms"),
        "width": ("0", "2"),
    },
    "cellular": {"max_tasks": ("0", "1", "3"), "min_batch": ("1", "2", "4"), "ahead": ("0", "1"), "choose": ("type", "pays")},
    "merged": {"max_requests": ("1", "4", "64")},
    "padded": {"width": ("0", "1", "10"), "max_batch": ("0", "2")},
}
# Exceptions of single policies from a check below. No other code needs them, so they are no traits.
HOLDS_FOR_EVER = ("window",)  # static batches wait until they are full
SUBMITS_AHEAD = ("cellular",)  # cells behind the end of a chain, before that end is known
ABORTS = ("shepherd",)


def granularity(policy):
    return POLICIES[policy]["traits"]["granularity"]


def works_by_cells(policy):
    return granularity(policy) == "cell"


def workers_of(policy):
    """The option by which executors of one device are workers; None: they are devices of their own."""
    return POLICIES[policy]["serving"]["workers"]


def drawn_options(prng, policy):
    options = {}
    for option in POLICIES[policy]["options"]:
        values = option["choices"] if option["type"] == "choice" else VALUES.get(policy, {}).get(option["key"])
        if values and prng.random() < 0.5:
            options[option["key"]] = prng.choice(values)
    return options


class Model:
    """Steps (kind, times by rows from 1 on), each never faster for more rows."""

    def __init__(self, prng, name, policy):
        self.name = name
        shapes = ["whole", "stages", "recurrent"] + (["tree", "tree"] if works_by_cells(policy) else [])
        self.shape = prng.choice(shapes)
        kinds = {
            "whole": ["static"],
            "stages": ["static"] * prng.randrange(2, 5),
            "recurrent": prng.choice((["encoder"], ["encoder", "decoder"], ["static", "encoder", "decoder", "decoder"])),
            "tree": ["static", "static"],
        }[self.shape]
        self.largest = prng.choice((1, 2, 5, 8, 16))
        self.steps = [(kind, self.drawn_times(prng)) for kind in kinds]
        self.slo_ms = prng.choice((1, 5, 30))
        self.is_recurrent = self.shape == "recurrent"
        has_slots = self.shape == "stages" and not works_by_cells(policy)
        self.slots = prng.choice((0, 1, 2, self.largest, 2 * self.largest)) if has_slots else 0

    def drawn_times(self, prng):
        beta, alpha = prng.randrange(1, 600), prng.choice((0, prng.randrange(1, 150)))
        times = [1000 * (beta + alpha * rows) + prng.choice((0, 0, 1)) for rows in range(1, self.largest + 1)]
        return [max(times[: i + 1]) for i in range(self.largest)]

    def text(self, folder):
        rows = "step,kind,batch,latency_ns\n"
        for k, (kind, times) in enumerate(self.steps):
            rows += "".join(f"s{k},{kind},{b},{ns}\n" for b, ns in enumerate(times, 1))
        pathlib.Path(folder, f"{self.name}.csv").write_text(rows)
        more = ""
        if self.shape == "tree":
            more = "tree: BALANCED length: 1"
        elif self.is_recurrent:
            more = f"length: 1 output_length: {LONGEST_OUTPUT}"
        more += f" slots: {self.slots}" if self.slots else ""
        return f'model {{ name: "{self.name}" step_file: "{self.name}.csv" slo_ms: {self.slo_ms} {more} }}\n'

    def runs_of(self, request):
        """How often a request that ends regularly is in a row of each step."""
        if self.shape == "tree":
            return [request["length"], request["length"] - 1]
        often = {"static": 1, "encoder": request["length"], "decoder": max(1, request["output"])}
        runs = [often[kind] for kind, _ in self.steps]
        leaves = len(runs) if request["exit"] is None else request["exit"] + 1
        goes_on = request["goes_on"] or len(runs)
        return [often if k < leaves or k >= goes_on else 0 for k, often in enumerate(runs)]


class World:
    def __init__(self, prng, policy, folder, emulated):
        self.policy, self.folder, self.emulated = policy, folder, emulated
        self.models = [Model(prng, f"m{k}", policy) for k in range(prng.randrange(1, 4))]
        self.executors = prng.choice((1, 1, 2, 3))
        self.depth = prng.choice((1, 3)) if not works_by_cells(policy) else prng.randrange(3, 8)
        self.options = drawn_options(prng, policy)
        if workers_of(policy):
            self.one_device_of_workers(prng)
        self.draw_requests(prng)
        self.write()

    def one_device_of_workers(self, prng):
        sizes = [prng.choice((1, 2, 4)) for _ in range(self.executors)]
        self.options[workers_of(self.policy)["sizes"]] = ",".join(map(str, sizes))
        self.depth = 1

    def draw_requests(self, prng):
        at, pace, self.requests = 0, prng.choice((10, 100, 1000)), []
        for number in range(prng.randrange(1, 40 if self.emulated else 80)):
            at += prng.choice((0, prng.randrange(pace) * US + 1))
            model = prng.choice(self.models)
            rows = prng.choice((1, 1, 1, prng.randrange(1, model.largest + 1)))
            if self.emulated and (model.is_recurrent or works_by_cells(self.policy)):
                rows = 1  # of cells
            can_leave = not self.emulated and model.shape == "stages" and prng.random() < 0.3
            leaves = prng.randrange(len(model.steps)) if can_leave else None
            skips = can_leave and leaves + 2 < len(model.steps) and prng.random() < 0.5
            self.requests.append(
                {
                    "number": number,
                    "at": at,
                    "model": model,
                    "rows": rows,
                    "length": prng.randrange(1, 6) if model.is_recurrent or model.shape == "tree" else 0,
                    "output": prng.randrange(0, LONGEST_OUTPUT + 1) if model.is_recurrent else 0,
                    "deadline": at + prng.randrange(1, 20000) * US if prng.random() < 0.5 else None,
                    "priority": prng.choice((0, 0, 1, 2)),
                    "exit": leaves,
                    "goes_on": prng.randrange(leaves + 2, len(model.steps)) if skips else None,
                    "cancel": at + prng.randrange(6000) * US if prng.random() < 0.1 else None,
                }
            )

    def write(self):
        text = f'title: "any"\ndepth: {self.depth}\n' + self.devices()
        text += "world: EMULATED\n" if self.emulated else ""
        text += "".join(model.text(self.folder) for model in self.models)
        options = "".join(f'option {{ key: "{key}" value: "{value}" }} ' for key, value in self.options.items())
        text += f'load {{ file: "arrivals.csv" }}\npolicy {{ name: "{self.policy}" {options}}}\n'
        self.path = pathlib.Path(self.folder, "any.pbtxt")
        self.path.write_text(text)
        rows = "at_ns,model,input_length,output_length,rows,deadline_ns,priority,exit_step,exit_to,cancel_at_ns\n"
        for r in self.requests:
            given = (r["at"], r["model"].name, r["length"] or None, r["output"] if r["model"].is_recurrent else None, r["rows"])
            given += (r["deadline"], r["priority"], r["exit"], r["goes_on"], r["cancel"])
            rows += ",".join("" if value is None else str(value) for value in given) + "\n"
        pathlib.Path(self.folder, "arrivals.csv").write_text(rows)

    def devices(self):
        if workers_of(self.policy):
            slots = "pool_slots: 64" if POLICIES[self.policy]["traits"]["waits_for_inputs"] else ""
            return f"device {{ executors: {self.executors} {slots} }}\n"
        return "device { }\n" * self.executors

    def run(self):
        names = {name: pathlib.Path(self.folder, f"{name}.csv") for name in ("tasks", "outcomes")}
        command = [PROGRAM, "experiment", self.path, "--check", "--tasks", names["tasks"], "--outcomes", names["outcomes"]]
        done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=120)
        if done.returncode:
            raise AssertionError(f"exit {done.returncode}: {done.stderr}\n{self.path.read_text()}")
        answer = []
        for name in ("tasks", "outcomes"):
            with open(names[name], encoding="ascii", newline="") as file:
                answer.append(list(csv.DictReader(file)))
        return answer


class AnyWorld(unittest.TestCase):
    def check_outcomes(self, world, outcomes):
        self.assertEqual([int(o["request"]) for o in outcomes], list(range(len(world.requests))))
        for request, outcome in zip(world.requests, outcomes):
            deadline = request["deadline"] or request["at"] + request["model"].slo_ms * 10**6
            finished = int(outcome["finished_ns"])
            self.assertEqual(outcome["model"], request["model"].name)
            self.assertEqual(int(outcome["arrived_ns"]), request["at"])
            self.assertEqual(int(outcome["deadline_ns"]), deadline)
            self.assertGreaterEqual(finished, request["at"])
            self.assertIn(outcome["outcome"], ("ok", "late", "dropped", "cancelled"))
            if outcome["outcome"] in ("ok", "late"):
                self.assertEqual(outcome["outcome"], "ok" if finished <= deadline else "late", request)
            if outcome["outcome"] == "cancelled":
                held = world.policy in HOLDS_FOR_EVER
                self.assertTrue(held or request["cancel"] is not None, f"request {request['number']} was left over")
                if not held and not world.emulated:  # there the turn that takes it in may have begun before
                    self.assertGreaterEqual(finished, request["cancel"])

    def check_rows(self, world, tasks):
        """Of each executor one after the other, no batch too large, each as long as its profile says."""
        by_name = {model.name: model for model in world.models}
        free_at = defaultdict(int)
        in_rows = defaultdict(list)
        last_start = 0
        for task in tasks:
            start, end, executor, step = (int(task[key]) for key in ("start_ns", "end_ns", "executor", "step"))
            model = by_name[task["model"]]
            members = list(map(int, task["requests"].split()))
            self.assertGreaterEqual(start, last_start)
            self.assertGreaterEqual(start, free_at[executor], "an executor runs two at once")
            self.assertTrue(0 <= executor < world.executors)
            self.assertTrue(members)
            last_start, free_at[executor] = start, end
            rows = sum(world.requests[m]["rows"] for m in members)
            self.assertLessEqual(rows, model.largest)
            for m in members:
                request = world.requests[m]
                self.assertIs(request["model"], model)
                self.assertGreaterEqual(start, request["at"], "it ran before it came")
                in_rows[m].append((start, end, step))
            if step < 0:
                continue
            if not workers_of(world.policy) and not world.emulated:  # workers share a device
                self.check_time(world, model, step, rows, end - start)
        return in_rows

    def check_time(self, world, model, step, rows, ns):
        padded = world.options.get("static") == "padded"
        most = len(model.steps[step][1]) if padded else rows
        allowed = {model.steps[step][1][b - 1] for b in range(rows, most + 1)}
        self.assertIn(ns, allowed, f"step {step} with {rows} rows")

    def check_requests(self, world, outcomes, in_rows):
        for request, outcome in zip(world.requests, outcomes):
            rows = sorted(in_rows.get(request["number"], []))  # one that was aborted at once comes first
            what = f"request {request['number']} of {request['model'].shape}: {rows}"
            if outcome["outcome"] in ("ok", "late"):
                finished = int(outcome["finished_ns"])
                vain = [row for row in rows if row[1] > finished]
                rows = [row for row in rows if row[1] <= finished]
                if vain:  # cells that were submitted before its end was known
                    self.assertIn(world.policy, SUBMITS_AHEAD, what)
                    self.assertEqual({request["model"].steps[step][0] for _, _, step in vain}, {"decoder"}, what)
                self.assertTrue(rows, what)
                last = max(end for _, end, _ in rows)
                self.assertTrue(last == finished or (world.emulated and last < finished), what)
                self.check_course(world, request, rows, what)
            elif outcome["outcome"] == "dropped":
                self.assertLessEqual(max((end for _, end, _ in rows), default=0), int(outcome["finished_ns"]), what)
            if request["model"].shape != "tree":
                for before, after in zip(rows, rows[1:]):
                    self.assertGreaterEqual(after[0], before[1], what)

    def check_slots(self, world, in_rows):
        """Requests wait for their next step with no more rows than the model has slots for, or alone."""
        changes = defaultdict(list)  # of each model: when, how many requests and rows more
        for request in world.requests:
            rows = sorted(in_rows.get(request["number"], []))
            waits = [(a[1], b[0]) for a, b in zip(rows, rows[1:]) if b[0] > a[1] and b[2] > 0]  # at 0 it begins anew
            if request["model"].slots and waits:
                changes[request["model"]] += [(waits[0][0], 1, request["rows"]), (waits[-1][1], -1, -request["rows"])]
        for model, those in changes.items():
            there, rows = 0, 0
            for at, more, more_rows in sorted(those):
                there, rows = there + more, rows + more_rows
                self.assertTrue(there <= 1 or rows <= model.slots, f"{rows} rows in {model.slots} slots at {at}")

    def is_exact(self, policy):
        """A request is in no row that only others need: members leave between steps, or there is only one."""
        return granularity(policy) == "node" or POLICIES[policy]["traits"]["runs_alone"]

    def check_course(self, world, request, rows, what):
        model = request["model"]
        steps = [step for _, _, step in rows]
        if -1 in steps:  # what an abort stopped is done again from its beginning
            self.assertIn(world.policy, ABORTS, what)
            steps = steps[len(steps) - steps[::-1].index(-1) :]
        runs = [steps.count(k) for k in range(len(model.steps))]
        expected = model.runs_of(request)
        if request["rows"] > 1 and model.shape == "tree":
            expected = runs  # how many rows name it is the policy's affair
        if works_by_cells(world.policy) or (request["exit"] is None and self.is_exact(world.policy)):
            self.assertEqual(runs, expected, what)
        else:  # a request that is done may wait for the end of a task
            for k, (have, least) in enumerate(zip(runs, expected)):
                self.assertGreaterEqual(have, least, f"step {k}: {what}")
        if model.shape == "stages":
            self.assertEqual(steps, sorted(steps), what)

    def one(self, policy, seed, emulated=False):
        prng = random.Random(seed)
        with tempfile.TemporaryDirectory() as folder:
            world = World(prng, policy, folder, emulated)
            tasks, outcomes = world.run()
            try:
                self.check_outcomes(world, outcomes)
                in_rows = self.check_rows(world, tasks)
                self.check_requests(world, outcomes, in_rows)
                if not emulated:  # slots are taken and given when tasks are decided, not when they run
                    self.check_slots(world, in_rows)
            except AssertionError as error:
                keep = os.environ.get("TUTTI_KEEP")
                if keep:
                    subprocess.run(["cp", "-r", folder, keep], check=False)
                raise AssertionError(f"{error}\npolicy {policy}, options {world.options}, seed {seed}") from None


def add(policy):
    def test(self):
        for case in range(CASES):
            self.one(policy, f"{SEED}-{policy}-{case}")
        for case in range(EMULATED_CASES):
            self.one(policy, f"{SEED}-{policy}-emulated-{case}", emulated=True)

    setattr(AnyWorld, f"test_{policy}", test)


for each in POLICIES:
    add(each)

if __name__ == "__main__":
    print(f"seed {SEED}")
    unittest.main()
