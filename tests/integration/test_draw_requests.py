#!/usr/bin/env python3
"""scripts/draw_requests.py: requests that models of cells can read."""
# plain build only: what is under test is a script
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]


def run(*arguments):
    script = str(ROOT / "scripts" / "draw_requests.py")
    return subprocess.run([sys.executable, script, *arguments], capture_output=True, text=True, timeout=60)


def requests(text):
    for line in text.splitlines():
        inputs = json.loads(line)["inputs"]
        for tensor in inputs:
            assert tensor["datatype"] == "INT64" and tensor["shape"] == [1, len(tensor["data"])], tensor
        yield {tensor["name"]: tensor["data"] for tensor in inputs}


class DrawRequestsTest(unittest.TestCase):
    def leaves_below(self, tree, node, seen):
        self.assertNotIn(node, seen)
        seen.add(node)
        children = [tree[side][node] for side in ("left", "right")]
        if children == [-1, -1]:
            self.assertTrue(3 <= tree["tokens"][node] < 20)
            return 1
        return sum(self.leaves_below(tree, child, seen) for child in children)

    def test_trees_are_trees(self):
        done = run("trees", "--vocabulary", "20", "--lengths", "1-12", "--count", "200")
        self.assertEqual(done.returncode, 0, done.stderr)
        counts = set()
        for tree in requests(done.stdout):
            seen = set()
            leaves = self.leaves_below(tree, 0, seen)
            self.assertEqual(len(seen), len(tree["tokens"]))
            self.assertEqual(len(seen), 2 * leaves - 1)
            counts.add(leaves)
        self.assertEqual(counts, set(range(1, 13)))

    def test_lengths_are_those_of_the_column(self):
        done = run("tokens", "--vocabulary", "500", "--lengths", "newstest2015_en", "--count", "2000")
        lengths = [len(request["tokens"]) for request in requests(done.stdout)]
        self.assertEqual(len(lengths), 2000)
        self.assertTrue(19 < sum(lengths) / len(lengths) < 22)
        self.assertTrue(1 <= min(lengths) and max(lengths) <= 83)

    def test_the_same_seed_gives_the_same_file(self):
        with tempfile.TemporaryDirectory() as folder:
            texts = []
            for name, seed in (("a", "7"), ("b", "7"), ("c", "8")):
                path = pathlib.Path(folder, name)
                run("trees", "--vocabulary", "20", "--count", "50", "--seed", seed, "--out", str(path))
                texts.append(path.read_text(encoding="utf-8"))
            self.assertEqual(texts[0], texts[1])
            self.assertNotEqual(texts[0], texts[2])

    def test_what_makes_no_sense(self):
        for arguments in (
            ["tokens", "--vocabulary", "20", "--lengths", "0"],
            ["tokens", "--vocabulary", "20", "--lengths", "5-2"],
            ["tokens", "--vocabulary", "20", "--lengths", "elsewhere"],
            ["tokens", "--vocabulary", "3"],
            ["trees", "--vocabulary", "20", "--lengths", "600", "--longest", "512"],
        ):
            self.assertEqual(run(*arguments).returncode, 2, arguments)


if __name__ == "__main__":
    unittest.main(verbosity=2)
