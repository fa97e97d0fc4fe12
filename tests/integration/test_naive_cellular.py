#!/usr/bin/env python3
"""C1, C3-C5: the cellular policy runs the same tasks at the same nanoseconds as the paper's algorithm 1 in an independent
Python program (tests/python/naive_cellular.py), and requests end alike: chains, encoders and decoders, trees of any shape,
models that share cells, exits, deadlines, cancellations, costs of tasks, a network, every option; and figure 5 by hand."""
# plain build only: minutes of simulation, whose unit tests run under sanitizers
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
import drawn_cells  # noqa: E402
import drawn_worlds  # noqa: E402
import naive_cells  # noqa: E402
import naive_cellular as naive  # noqa: E402
import naive_world  # noqa: E402

SEED = int(os.environ.get("TUTTI_SEED", "20180423"))
CASES = int(os.environ.get("TUTTI_TEST_CASES", "150"))


def drawn_rules(prng, depth):
    return naive.Rules(
        max_tasks=prng.randrange(0, depth + 1),
        min_batch=prng.choice((1, 1, 2, 3, 6)),
        ahead=prng.choice((0, 0, prng.randrange(depth))),
        choose=prng.choice(("type", "slack", "pays", "pays")),
        drop=prng.choice(("none", "none", "deadline")),
    )


class NaiveCellular(unittest.TestCase):
    # C1, C3, C4, C5: whatever is ready where, which type goes, and where it may go.
    def test_drawn_worlds(self):
        count, ends, mixed = 0, set(), 0
        for seed in range(SEED, SEED + CASES):
            prng = random.Random(seed)
            models, around = drawn_cells.models(prng), drawn_cells.world(prng)
            asked, rules = drawn_cells.requests(prng, models), drawn_rules(prng, around["depth"])
            found = drawn_cells.run(models, asked, around, "cellular", **vars(rules))
            expected = naive.simulate(models, asked, rules, **around)
            for ours, theirs in zip(found, expected):
                drawn_worlds.compare(self, f"seed {seed}: {rules}, {around}", ours, theirs)
            count += len(found[0])
            ends |= {outcome for _, outcome in found[1]}
            mixed += sum(len({asked[number].model for number in row[5]}) > 1 for row in found[0])
        self.assertGreater(count, 10 * CASES)
        self.assertEqual(ends, {"ok", "late", "dropped", "cancelled"})
        self.assertGreater(mixed, CASES)
        print(f"{CASES} worlds, {count} steps alike, {mixed} of several models")

    def test_balanced_trees_by_their_size(self):
        """The left half takes the odd leaf; what the program draws itself is what is written down here."""
        steps = [naive_cells.Step("leaf", "static", (0, 70, 71, 72)), naive_cells.Step("inner", "static", (0, 100, 110, 120))]
        model, around = naive_cells.Model("m", steps, tree=True), {"executors": [0, 0], "depth": 5, "network": naive_world.Network()}
        asked = [naive_world.Request(i, 10 * i, model, 1 + i) for i in range(20)]
        for request in asked:
            request.tree = drawn_cells.balanced(request.length)
        expected = naive.simulate([model], asked, naive.Rules(), **around)
        self.assertEqual(drawn_cells.run([model], asked, around, "cellular", with_trees=False), expected)

    # C1: a cell of two steps, whose second is another model's cell, shares nothing with it.
    def test_a_step_within_a_cell_is_no_cell(self):
        first, last = (naive_cells.Step(name, "decoder", (0, 100)) for name in ("first", "last"))
        word = naive_cells.Step("word", "encoder", (0, 70))
        shared = {"outputs": (drawn_cells.USUAL_OUTPUT, drawn_cells.LONGEST_OUTPUT), "shared": True}
        models = [naive_cells.Model("m0", [last, word], **shared), naive_cells.Model("m1", [first, last], **shared)]
        around = {"executors": [0], "depth": 1, "network": naive_world.Network()}
        for order in models, models[::-1]:
            asked = [naive_world.Request(i, 0, models[0], 3, 1 + i) for i in range(3)]
            expected = naive.simulate(order, asked, naive.Rules(max_tasks=1), **around)
            self.assertEqual(drawn_cells.run(order, asked, around, "cellular", max_tasks=1), expected)
            # The later cell goes first: the words of a request before the other requests' outputs.
            self.assertEqual([row[4:] for row in expected[0][:5]], [(0, [0]), (1, [0]), (1, [0]), (1, [0]), (0, [1])])


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
            rows, _ = drawn_worlds.served(copy, *(word for one in sets for word in ("--set", one)))
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
