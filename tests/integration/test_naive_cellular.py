#!/usr/bin/env python3
"""C3, C4, C5: the cellular policy runs the same tasks at the same nanoseconds as the paper's algorithm 1 in an independent
Python program (tests/python/naive_cellular.py): chains, encoders and decoders, trees of any shape, several models,
several executors, cancellations, every option; and figure 5 by hand."""
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = os.environ["TUTTI_PROGRAM"]
sys.path.insert(0, str(ROOT / "tests" / "python"))
import drawn_worlds  # noqa: E402
import naive_cellular as naive  # noqa: E402

SEED = int(os.environ.get("TUTTI_SEED", "20180423"))
CASES = int(os.environ.get("TUTTI_TEST_CASES", "150"))
LONGEST_OUTPUT = 6


# ---- a drawn world ----


def drawn_times(prng, largest):
    """Times of a step at 0 .. largest rows, never less for more."""
    row, beta, alpha = [0], prng.randrange(1, 400), prng.choice((0, prng.randrange(1, 100)))
    for rows in range(1, largest + 1):
        row.append(1000 * (beta + alpha * rows) + prng.choice((0, 0, 1)))
    return [max(row[: i + 1]) for i in range(largest + 1)]


def drawn_model(prng, name):
    shape = prng.choice(("chain", "seq2seq", "tree", "mixed"))
    kinds = {
        "chain": [("encoder", 1)],
        "seq2seq": [("encoder", 1), ("decoder", 1)],
        "tree": [("static", 1), ("static", 1)],
        "mixed": [("static", 1), ("encoder", 2), ("static", 1), ("decoder", 2)],
    }[shape]
    types = []
    for kind, steps in kinds:
        largest = prng.choice((1, 2, 3, 4, 5, 8))
        types.append((kind, [drawn_times(prng, largest) for _ in range(steps)]))
    return naive.Model(name, types, tree=shape == "tree", longest_output=LONGEST_OUTPUT)


def drawn_tree(prng, leaves):
    if leaves == 1:
        return None
    left = prng.randrange(1, leaves)
    return drawn_tree(prng, left), drawn_tree(prng, leaves - left)


def written(tree):
    return "()" if tree is None else f"({written(tree[0])}{written(tree[1])})"


def drawn_requests(prng, models):
    requests, at, pace = [], 0, prng.choice((20, 200, 2000))
    for number in range(prng.randrange(1, 50)):
        at += prng.choice((0, prng.randrange(pace) * 1000 + 1))
        model = prng.choice(models)
        smallest = min(kind.largest for kind in model.types)
        request = naive.Request(number, at, model, prng.randrange(1, 9), prng.randrange(0, LONGEST_OUTPUT + 2))
        request.rows = prng.choice((1, 1, 1, prng.randrange(1, smallest + 1)))
        request.priority = prng.choice((0, 0, 0, 1, 2))
        request.deadline = at + prng.randrange(1, 10**7)
        if prng.random() < 0.1:
            request.cancel = at + prng.randrange(3 * 10**6)
        if model.tree:
            request.tree = drawn_tree(prng, prng.randrange(1, 12))
        requests.append(request)
    return requests


def drawn_rules(prng):
    depth = prng.randrange(1, 8)
    return naive.Rules(
        max_tasks=prng.randrange(1, depth + 1),
        min_batch=prng.choice((1, 1, 2, 3, 6)),
        ahead=prng.choice((0, 0, prng.randrange(depth))),
        choose=prng.choice(("type", "type", "slack")),
        depth=depth,
    )


# ---- the program's answer ----


def experiment(models, rules, executors, folder):
    parts = [f'title: "drawn"\ndepth: {rules.depth}\n' + "device { }\n" * executors]
    for model in models:
        rows = "step,kind,batch,latency_ns\n"
        for kind in model.types:
            for k, times in enumerate(kind.times):
                rows += "".join(f"s{kind.first + k},{kind.kind},{b},{ns}\n" for b, ns in enumerate(times) if b)
        pathlib.Path(folder, f"{model.name}.csv").write_text(rows)
        lengths = "tree: BALANCED length: 1" if model.tree else "length: 1"
        decodes = any(kind.kind == "decoder" for kind in model.types)
        lengths += f" output_length: {LONGEST_OUTPUT}" if decodes else ""
        parts.append(f'model {{ name: "{model.name}" step_file: "{model.name}.csv" {lengths} }}\n')
    options = "".join(
        f'option {{ key: "{key}" value: "{getattr(rules, key)}" }} ' for key in ("max_tasks", "min_batch", "ahead", "choose")
    )
    parts.append(f'load {{ file: "arrivals.csv" }}\npolicy {{ name: "cellular" {options}}}\n')
    path = pathlib.Path(folder, "drawn.pbtxt")
    path.write_text("".join(parts))
    return path


def arrivals(requests, folder):
    names = "at_ns,model,input_length,output_length,rows,deadline_ns,priority,cancel_at_ns,tree\n"
    for r in requests:
        cancel = r.cancel if r.cancel < naive.NEVER else ""
        tree = written(r.tree) if r.model.tree else ""
        names += f"{r.at},{r.model.name},{r.length},{r.output},{r.rows},{r.deadline},{r.priority},{cancel},{tree}\n"
    pathlib.Path(folder, "arrivals.csv").write_text(names)


def run(path, *words):
    return drawn_worlds.served(path, *words)[0]


class NaiveCellular(unittest.TestCase):
    def compare(self, models, requests, rules, executors, seed):
        with tempfile.TemporaryDirectory() as folder:
            arrivals(requests, folder)
            found = run(experiment(models, rules, executors, folder))
        expected = naive.simulate(models, requests, rules, executors)
        drawn_worlds.compare(self, f"seed {seed}: {rules}, {executors} executors", found, expected)
        return len(found)

    # C3, C4, C5: whatever is ready where, which type goes, and where it may go.
    def test_drawn_worlds(self):
        tasks = 0
        for seed in range(SEED, SEED + CASES):
            prng = random.Random(seed)
            models = [drawn_model(prng, f"m{i}") for i in range(prng.randrange(1, 4))]
            tasks += self.compare(models, drawn_requests(prng, models), drawn_rules(prng), prng.randrange(1, 4), seed)
        self.assertGreater(tasks, 10 * CASES)
        print(f"{CASES} worlds, {tasks} steps alike")

    def test_balanced_trees_by_their_size(self):
        """The left half takes the odd leaf; what the program draws itself is what is written down here."""

        def balanced(leaves):
            return None if leaves == 1 else (balanced(leaves - leaves // 2), balanced(leaves // 2))

        model = naive.Model("m", [("static", [[0, 70, 71, 72]]), ("static", [[0, 100, 110, 120]])], tree=True)
        requests = [naive.Request(i, 10 * i, model, 1 + i) for i in range(20)]
        for request in requests:
            request.tree = balanced(request.length)
        with tempfile.TemporaryDirectory() as folder:
            text = "".join(f"{r.at},m,{r.length}\n" for r in requests)
            path = experiment([model], naive.Rules(), 2, folder)
            pathlib.Path(folder, "arrivals.csv").write_text("at_ns,model,input_length\n" + text)
            found = run(path)
        self.assertEqual(found, naive.simulate([model], requests, naive.Rules(), 2))


class WhatIsRefused(unittest.TestCase):
    def refused(self, experiment, row, says):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "arrivals.csv")
            path.write_text("at_ns,model,input_length,tree\n" + row + "\n")
            command = [PROGRAM, "experiment", ROOT / "experiments" / "batchmaker" / experiment, "--arrivals", path]
            answer = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=60)
        self.assertEqual(answer.returncode, 2, answer.stderr)
        self.assertIn(f"arrivals.csv:2: {says}", answer.stderr)

    def test_trees_that_are_none(self):
        for tree, says in (
            ("(()", "tree: '(()' is not one tree; right is one node, such as '(()(()()))'"),
            ("()()", "tree: '()()' is not one tree"),
            ("(()))", "tree: the node that ends at character 4 has 1 children; none (a leaf) or two are right"),
            ("(()()()", "tree: '(()()()' is not one tree"),
            ("(a b c)", "tree: the node that ends at character 7 has 3 children"),
            ("(a b))", "tree: the ')' at character 6 closes nothing"),
        ):
            self.refused("tree.pbtxt", f"0,TreeLSTM,,{tree}", says)

    def test_a_tree_for_who_has_none(self):
        self.refused("figure5.pbtxt", "0,LSTM,2,(()())", "a tree for model 'LSTM', which has no tree cells; leave it empty")

    def test_more_cells_than_a_graph_can_have(self):
        self.refused("figure5.pbtxt", "0,LSTM,1048577,", "input_length 1048577 makes 1048577 cells of model 'LSTM'; at most 1048576")
        self.refused("tree.pbtxt", "0,TreeLSTM,600000,", "input_length 600000 makes 1199999 cells of model 'TreeLSTM'")
        self.refused("seq2seq.pbtxt", "0,Seq2Seq,2147483647,", "input_length 2147483647 makes ")


class Figure5(unittest.TestCase):
    """One unit is 1 ms; four at most in a batch. Members of each unit's batch, from 1 on as in the figure."""

    def units(self, *sets):
        path = ROOT / "experiments" / "batchmaker" / "figure5.pbtxt"
        with tempfile.TemporaryDirectory() as folder:
            copy = pathlib.Path(folder, "figure5.pbtxt")
            copy.write_text(path.read_text())
            pathlib.Path(folder, "figure5.csv").write_text((path.parent / "figure5.csv").read_text())
            rows = run(copy, *(word for one in sets for word in ("--set", one)))
        self.assertEqual([(row[0], row[1]) for row in rows], [(i * 10**6, (i + 1) * 10**6) for i in range(len(rows))])
        return ["".join(str(1 + number) for number in row[5]) for row in rows]

    # C4: so many tasks per visit, and none below the minimum batch.
    def test_one_task_per_visit(self):
        self.assertEqual(self.units(), ["1234", "1234", "2345", "4567", "4567", "5678", "56", "6", "6", "6"])

    def test_a_minimum_batch_of_four_does_the_same_until_there_are_fewer(self):
        found = self.units("option.max_tasks=5", "option.min_batch=4")
        self.assertEqual(found, ["1234", "1234", "2345", "4567", "4567", "5678", "56", "6", "6", "6"])

    def test_five_tasks_and_no_minimum_keep_newcomers_out(self):
        found = self.units("option.max_tasks=5")
        self.assertEqual(found[:5], ["1234", "1234", "234", "4", "4"])
        self.assertEqual(found[5], "5678")


if __name__ == "__main__":
    print(f"seed {SEED}")
    unittest.main()
