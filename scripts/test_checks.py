#!/usr/bin/env python3
"""Proves that every rule of check_language.py, check_layers.py, check_requirements.py and fuzz_coverage.py can fail, and that good
code passes."""
import contextlib
import io
import pathlib
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import check_language  # noqa: E402
import check_layers  # noqa: E402
import check_requirements  # noqa: E402
import fuzz_coverage  # noqa: E402


class Tree:
    """A tree of a few files in a temporary folder."""

    def __init__(self, files):
        self.folder = tempfile.TemporaryDirectory()
        self.root = pathlib.Path(self.folder.name)
        (self.root / "src").mkdir()
        for name, text in files.items():
            path = self.root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")

    def run(self, main, *options):
        out = io.StringIO()
        with self.folder, contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()):
            code = main([*options, str(self.root)])
        return code, out.getvalue()


class Layers(unittest.TestCase):
    def breaks(self, files, place, words):
        code, out = Tree(files).run(check_layers.main)
        self.assertEqual(code, 1, out)
        matching = [line for line in out.splitlines() if line.startswith(place + ":") and words in line]
        self.assertEqual(len(matching), 1, f"wanted one line {place}: ... {words} in:\n{out}")
        self.assertEqual(len(out.splitlines()), 1, f"one broken rule, one line:\n{out}")

    def keeps(self, files):
        code, out = Tree(files).run(check_layers.main)
        self.assertEqual(code, 0, out)

    def test_lower_floor_and_own_floor_are_fine(self):
        self.keeps({
            "src/policy/serial.c": '#include "policy/policy.h"\n#include "core/action.h"\n#include "base/err.h"\n',
            "src/engine/emulated/emulated.c": '#include "model/config/config.h"\n#include "core/device.h"\n#include <time.h>\n',
            "src/model/config/config.c": '#include "model_config.pb-c.h"\n',
            "src/cmd/main.c": '#include "net/http/listener.h"\n',
        })  # fmt: skip

    def test_higher_floor(self):
        self.breaks({"src/core/a.c": '\n#include "engine/engine.h"\n'}, "src/core/a.c:2", "only core itself and base")

    def test_neighbour_on_the_same_height(self):
        self.breaks({"src/policy/a.c": '#include "model/config/config.h"\n'}, "src/policy/a.c:1", "must not include")
        self.breaks({"src/net/http/a.c": '#include "lab/report/report.h"\n'}, "src/net/http/a.c:1", "must not include")
        self.breaks({"src/sim/a.c": '#include "engine/engine.h"\n'}, "src/sim/a.c:1", "must not include")

    def test_the_ground_includes_nothing(self):
        self.breaks({"src/base/a.c": '#include "core/tensor.h"\n'}, "src/base/a.c:1", "only base itself")

    def test_policies_are_known_by_their_traits(self):
        registry = {"src/policy/registry.c": "#define KINDS(X) \\\n    X(lazy) \\\n    X(serial)\n"}
        compares = 'static int a(const char *policy) { return strcmp(policy, "lazy"); }\n'
        self.breaks({**registry, "src/control/a.c": compares}, "src/control/a.c:1", 'policy "lazy" is recognised')
        self.keeps({**registry, "src/policy/a.c": compares})
        self.keeps({**registry, "src/control/a.c": compares.replace("lazy", "other")})
        self.keeps({**registry, "src/control/a.c": compares.replace("policy", "key")})
        asks = "static bool a(const struct tt_mechanism *m) { return m->ops->released; }\n"
        self.breaks({"src/sim/a.c": asks}, "src/sim/a.c:1", "ops->released: only core")
        self.keeps({"src/core/a.c": asks})

    def test_include_without_floor(self):
        self.breaks({"src/core/a.c": '#include "tensor.h"\n'}, "src/core/a.c:1", "names no folder")
        self.breaks({"src/core/a.c": '#include "../base/err.h"\n'}, "src/core/a.c:1", "names no folder")

    def test_schema_below_model(self):
        self.breaks({"src/policy/a.c": '#include "profile.pb-c.h"\n'}, "src/policy/a.c:1", "schema")
        self.breaks({"src/core/a.c": '#include "profile.pb-c.h"\n'}, "src/core/a.c:1", "schema")

    def test_unknown_floor(self):
        self.breaks({"src/util/a.c": "int a;\n"}, "src/util/a.c:1", "stands in no layer")

    def test_impure_headers(self):
        for header in ("time.h", "unistd.h", "sys/socket.h", "uv.h", "fcntl.h"):
            self.breaks({"src/core/a.c": f"#include <{header}>\n"}, "src/core/a.c:1", "is pure")
            self.keeps({"src/engine/a.c": f"#include <{header}>\n"})
        self.breaks({"src/policy/a.c": "#include <pthread.h>\n"}, "src/policy/a.c:1", "is pure")

    def test_impure_calls(self):
        self.breaks({"src/core/a.c": 'void f(void) {\n    printf("x");\n}\n'}, "src/core/a.c:2", "printf()")
        self.breaks({"src/policy/a.c": "int f(void) { return rand(); }\n"}, "src/policy/a.c:1", "rand()")
        self.keeps({"src/core/a.c": 'void f(char *o) { snprintf(o, 2, "printf()"); /* printf() */ }\n'})

    def test_floats(self):
        self.breaks({"src/core/a.c": "int a;\ndouble b;\n"}, "src/core/a.c:2", "double in core")
        self.breaks({"src/policy/a.c": "static float b;\n"}, "src/policy/a.c:1", "float in policy")
        self.keeps({"src/core/a.c": "/* floats: a summary for people, never decides */\ndouble b;\n"})
        self.keeps({"src/core/a.c": '/* a double-ended queue of float */\nconst char *a = "float";\n'})
        self.keeps({"src/lab/run/a.c": "double b;\n"})

    def test_floats_need_a_reason(self):
        self.breaks({"src/core/a.c": "/* floats: */\ndouble b;\n"}, "src/core/a.c:2", "double in core")

    def test_memory(self):
        bad = "static void *tt_x_push(int n)\n{\n    return malloc(n);\n}\n"
        self.breaks({"src/core/a.c": bad}, "src/core/a.c:3", "malloc in tt_x_push")
        self.breaks({"src/policy/a.c": bad.replace("malloc", "strdup")}, "src/policy/a.c:3", "strdup in tt_x_push")
        for verb in ("new", "init", "create", "reserve", "open", "new_points"):
            self.keeps({"src/core/a.c": bad.replace("push", verb)})
        self.breaks({"src/core/a.c": bad.replace("push", "newest")}, "src/core/a.c:3", "malloc in tt_x_newest")
        self.keeps({"src/sim/a.c": bad})

    def test_memory_knows_where_functions_end(self):
        text = "struct s { int a; };\nint t[] = {1, 2};\nvoid *x_new(int n) { return malloc(n); }\n"
        self.keeps({"src/core/a.c": text})
        self.breaks({"src/core/a.c": text + "void *y(int n) { return malloc(n); }\n"}, "src/core/a.c:4", "malloc in y")

    def test_atomics(self):
        self.breaks({"src/serve/a.c": "#include <stdatomic.h>\n"}, "src/serve/a.c:1", "only in src/base")
        self.breaks({"src/serve/a.c": "int f(int *a) { return __atomic_load_n(a, 0); }\n"}, "src/serve/a.c:1", "__atomic_load_n")
        self.breaks({"src/net/http/a.c": "static pthread_mutex_t lock;\n"}, "src/net/http/a.c:1", "pthread_mutex_t")
        self.breaks({"src/engine/a.h": "struct s {\n    _Atomic int a;\n};\n"}, "src/engine/a.h:2", "_Atomic")
        self.keeps({"src/base/a.c": "#include <stdatomic.h>\nstatic pthread_mutex_t lock;\n"})

    def test_unique_names(self):
        self.breaks({"src/core/queue.c": "", "src/net/http/queue.h": ""}, "src/net/http/queue.h:1", "src/core/queue.c")
        self.keeps({"src/core/queue.c": "", "src/core/queue.h": ""})

    def test_long_file(self):
        self.breaks({"src/net/http/a.c": "int a;\n" * 1001}, "src/net/http/a.c:1001", "1001 lines")
        self.keeps({"src/net/http/a.c": "int a;\n" * 1000})

    def test_long_function(self):
        def function(lines, comment=""):
            return comment + "int tt_f(int (*g)(int), int n) {\n" + "    n++;\n" * (lines - 2) + "}\n"

        self.keeps({"src/net/http/a.c": "int a;\n" + function(70)})
        self.breaks({"src/net/http/a.c": "int a;\n" + function(71)}, "src/net/http/a.c:2", "tt_f has 71 lines")
        self.keeps({"src/net/http/a.c": "int a;\n" + function(71, "/* long: one case per state */\n")})
        # A comment above another function does not count.
        self.breaks({"src/net/http/a.c": "/* long: not me */\nint g(void) {\n}\n" + function(71)}, "src/net/http/a.c:4", "tt_f has 71")

    def test_long_line(self):
        self.breaks({"src/net/http/a.c": "/*" + "x" * 97 + "*/\n"}, "src/net/http/a.c:1", "101 columns")
        self.breaks({"tests/unit/net/test_a.c": "/*" + "x" * 97 + "*/\n"}, "tests/unit/net/test_a.c:1", "101 columns")
        self.keeps({"src/net/http/a.c": "/*" + "x" * 96 + "*/\n"})

    def test_no_tree(self):
        with contextlib.redirect_stderr(io.StringIO()):
            self.assertEqual(check_layers.main(["/nonexistent"]), 2)


def table(changes=()):
    rows = {name: f"| {name} | what it asks | planned |" for name in check_requirements.IDS}
    rows.update(changes)
    return "| ID | requirement | status |\n|---|---|---|\n" + "\n".join(rows.values()) + "\n"


S2_BUILT = {"S2": "| S2 | windows | built |"}


class Requirements(unittest.TestCase):
    def check(self, files, code, words):
        got, out = Tree(files).run(check_requirements.main, "--check")
        self.assertEqual(got, code, out)
        self.assertIn(words, out)

    def test_all_planned_is_fine(self):
        self.assertEqual(len(check_requirements.IDS), 11 + 7 + 6 + 9 + 7)
        self.check({"REQUIREMENTS.md": table()}, 0, "40 requirements, 0 built, 0 partial, 40 planned, 0 problems")

    def test_built_needs_both(self):
        code, test = {"src/core/a.c": "/* S2: the window */\n"}, {"tests/unit/core/test_a.c": "/* S1, S2: both */\n"}
        good = {"REQUIREMENTS.md": table(S2_BUILT)}
        self.check({**good, **code, **test}, 0, "1 built, 0 partial, 39 planned, 0 problems")
        self.check({**good, **code}, 1, "nothing cites it as a test")
        self.check({**good, **test}, 1, "nothing cites it as an implementation")

    def test_partial_says_what_is_missing_and_needs_both(self):
        code, test = {"src/core/a.c": "/* S2: the window */\n"}, {"tests/unit/core/test_a.c": "/* S2: both */\n"}
        partial = {"REQUIREMENTS.md": table({"S2": "| S2 | windows | partial: no network |"})}
        self.check({**partial, **code, **test}, 0, "0 built, 1 partial, 39 planned, 0 problems")
        self.check({**partial, **code}, 1, "S2 is marked partial but nothing cites it as a test")
        silent = {"REQUIREMENTS.md": table({"S2": "| S2 | windows | partial |"})}
        self.check({**silent, **code, **test}, 1, "what is missing stands behind the colon of partial")
        told = {"REQUIREMENTS.md": table({"S2": "| S2 | windows | built: no network |"})}
        self.check({**told, **code, **test}, 1, "what is missing stands behind the colon of partial")

    def test_forms_of_citation(self):
        good = {"REQUIREMENTS.md": table(S2_BUILT), "src/core/a.c": "/* The queue.\n *\n * S2: a window. */\n"}
        self.check({**good, "tests/integration/test_a.py": "x = 1  # S2: seen from outside\n"}, 0, "0 problems")
        self.check({**good, "tests/unit/test_a.c": "/* as in S2 */ int S2;\n"}, 1, "nothing cites it as a test")
        self.check({**good, "tests/unit/test_a.c": 'char *a = "S2: no comment";\n'}, 1, "nothing cites it as a test")

    def test_unknown_citation(self):
        self.check({"REQUIREMENTS.md": table(), "src/core/a.c": "int a;\n/* S12: what? */\n"}, 1, "src/core/a.c:2: cites S12")

    def test_table(self):
        self.check({"REQUIREMENTS.md": table({"L3": ""})}, 1, "L3 is missing")
        self.check({"REQUIREMENTS.md": table({"L3": "| L3 | times | done |"})}, 1, 'the status of L3 is "done"')
        self.check({"REQUIREMENTS.md": table({"L3": "| L3 |  | planned |"})}, 1, "L3 says nothing")
        self.check({"REQUIREMENTS.md": table({"X": "| L3 | again | planned |"})}, 1, "L3 stands there twice")
        self.check({"REQUIREMENTS.md": table({"X": "| E8 | more | planned |"})}, 1, "E8 is no requirement")

    def test_report(self):
        files = {"REQUIREMENTS.md": table(S2_BUILT), "src/core/a.c": "/* S2: x */\n/* S2: y */\n"}
        code, out = Tree(files).run(check_requirements.main)
        self.assertEqual(code, 0)
        self.assertRegex(out, r"(?m)^S2 +built +implemented in src/core/a\.c; tested in -$")


class Language(unittest.TestCase):
    def run_on(self, files):
        return Tree(files).run(check_language.main)

    def finds(self, name, text, line, words):
        """Exactly one finding, at that line of the file."""
        code, out = self.run_on({name: text})
        self.assertEqual(code, 1, out)
        self.assertEqual(len(out.splitlines()), 1, f"one planted phrase, one line:\n{out}")
        self.assertRegex(out, rf"/{name}:{line}: ")
        self.assertIn(words, out)

    def passes(self, files):
        code, out = self.run_on(files)
        self.assertEqual((code, out), (0, ""))

    def test_every_phrase_is_found(self):
        for words in ("who", "Whoever", "nobody", "the baton", "a nap", "batch mates", "the floor", "ski renter", "is told",
                      "so-called", "tells of", "of late", "whereupon", "come to be", "wants to know"):  # fmt: skip
            with self.subTest(words):
                self.finds("src/a.c", f"int a;\n/* A request, {words} x. */\n", 2, "'")

    def test_a_phrase_over_two_lines(self):
        self.finds("src/a.h", "/* The scheduler is\n * told. */\n", 1, "wording")

    def test_every_kind_of_file(self):
        self.finds("src/a.c", 'int a;\nchar *b = "a message for nobody here";\n', 2, "'nobody'")
        self.finds("src/a.js", "let a = 'a label for nobody here'\n", 1, "'nobody'")
        self.finds("proto/a.proto", "message A {\n  // Nobody sets it.\n}\n", 2, "'Nobody'")
        self.finds("bench/a.py", '"""Runs a test\n\nfor nobody."""\n', 3, "'nobody'")
        self.finds("bench/a.py", 'a = "#"  # for nobody\n', 1, "'nobody'")
        self.finds("scripts/a.sh", 'a=1\n# for nobody\necho "x y z"\n', 2, "'nobody'")
        self.finds("scripts/a.sh", 'echo "this is for nobody" >&2\n', 1, "'nobody'")
        self.finds("Makefile", "a:\n\t@echo \"make a: for nobody\"\n", 2, "'nobody'")
        self.finds("docs/a.md", "# A\n\nFor nobody.\n", 3, "'nobody'")
        self.finds("docs/man/a.mdoc", ".Sh A\nFor nobody.\n", 2, "'nobody'")

    def test_long_sentences(self):
        word = "word "
        self.finds("src/a.c", f"/* One. {word * check_language.MAX_WORDS}more. */\n", 1, "long")
        self.finds("bench/a.py", f"# {word * 20}\n# {word * 21}\n", 1, "long")
        self.passes({"src/a.c": f"/* {word * (check_language.MAX_WORDS - 1)}more. {word}more. */\n"})
        table = "".join(f" *  module_{i}     what it is for\n" for i in range(20))
        self.passes({"src/a.h": f"/* Modules:\n{table} */\n"})

    def test_good_text_passes(self):
        self.passes({
            "src/a.c": "/* Users who wait. It returns floor(x), rounded down. */\nint nobody, whoever;\n",
            "src/b.c": 'char *name = "nobody";\n',
            "docs/a.md": "Run `nobody` or\n\n    nobody --whoever\n\n```\nwhoever\n```\n",
            "scripts/a.sh": 'nobody=${1#a} # a comment\necho "$nobody"\n',
            "tests/a.csv": "who,nobody\n",
        })  # fmt: skip

    def test_unknown_paths(self):
        with contextlib.redirect_stderr(io.StringIO()) as err:
            self.assertEqual(check_language.main(["/nonexistent"]), 2)
        self.assertIn("/nonexistent", err.getvalue())

    def test_the_whole_tree_is_read(self):
        read = {path.relative_to(check_language.ROOT).as_posix() for path in check_language.all_files()}
        for path in ("src/engine/engine.h", "include/tutti/unfold.h", "proto/experiment.proto", "Makefile", "scripts/lint.sh", ".ci/run",
                     "docs/ARCHITECTURE.md", "README.md", "tests/unit/seed.h", "bench/serving.py"):  # fmt: skip
            self.assertIn(path, read)


class FuzzCoverage(unittest.TestCase):
    """The lines of a parser that a fuzzer reaches."""

    REPORT = """File '../src/net/aa.c'
Lines executed:10.00% of 10

File '/t/src/net/a.c'
Lines executed:66.67% of 30
Creating 'a.c.gcov'

File '/usr/include/net/a.h'
Lines executed:50.00% of 2
"""

    def shown(self, lines):
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            fuzz_coverage.show("fuzz_a", 7, lines)
        return out.getvalue()

    def test_figures(self):
        self.assertEqual(fuzz_coverage.covered_files("/* A. */\n/* covers: net/a.c\n * b.c */\nint x;\n"), ["net/a.c", "b.c"])
        self.assertEqual(fuzz_coverage.lines_of(self.REPORT, "net/a.c"), (20, 30))
        self.assertEqual(fuzz_coverage.lines_of(self.REPORT, "net/aa.c"), (1, 10))
        self.assertIsNone(fuzz_coverage.lines_of(self.REPORT, "a.c"))
        said = self.shown({"net/a.c": (20, 30), "b.c": (10, 10)})
        self.assertIn("fuzz_a: 30 of 40 lines (75.0 %), 7 inputs\n", said)

    def test_a_file_without_lines(self):
        with self.assertRaisesRegex(SystemExit, "fuzz_a: no line of b.c"):
            self.shown({"net/a.c": (20, 30), "b.c": None})
        with self.assertRaisesRegex(SystemExit, "fuzz_a: no line of b.c"):
            self.shown({"net/a.c": (20, 30), "b.c": (0, 7)})

    def test_an_unknown_fuzzer(self):
        with self.assertRaisesRegex(SystemExit, "there is no fuzzer fuzz_gone"):
            fuzz_coverage.main(["fuzz_gone"])

    def test_every_fuzzer_names_files_that_are_there(self):
        root = pathlib.Path(__file__).resolve().parents[1]
        for source in sorted((root / "tests" / "fuzz").glob("fuzz_*.c")):
            files = fuzz_coverage.covered_files(source.read_text(encoding="utf-8"))
            self.assertTrue(files, source)
            for name in files:
                self.assertTrue((root / "src" / name).is_file(), "%s names %s" % (source.name, name))


if __name__ == "__main__":
    unittest.main()
