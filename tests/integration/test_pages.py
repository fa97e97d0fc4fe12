#!/usr/bin/env python3
"""Report pages as a browser shows them: every kind, in light and dark, on a screen and on a phone."""
# plain build only: what is under test is the script of the pages
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "python"))

import browser  # noqa: E402
from needs import lacking, skip  # noqa: E402
from pages import PICTURE_PROBLEMS, PROBLEMS, data_of  # noqa: E402

if not browser.find():
    skip("there is no Chromium on this machine: scripts/setup.sh --browser installs it")

PROGRAM = os.environ["TUTTI_PROGRAM"]
KEEP = os.environ.get("TUTTI_KEEP_PAGES")  # a folder for the pages and their screenshots
TITLE = "</script><b>one</b> & \"two\" <!-- 'three'"
MODELS = """seed: 1
duration_s: 2
device { count: 2 }
model { name: "<i>tight</i>" slo_ms: 9 profile { linear { alpha_ms: 1 beta_ms: 5 } } }
model { name: "loose" slo_ms: 80 profile { linear { alpha_ms: 1 beta_ms: 5 } } }
model { name: "none" profile { linear { alpha_ms: 1 beta_ms: 2 } } }
"""
ONE = """seed: 1
duration_s: 3
device { count: 1 }
model { name: "M" slo_ms: 50 profile { linear { alpha_ms: 1 beta_ms: 5 } } }
load { rate: 10 }
"""
CONTENDERS = "".join(
    'contender { name: "window waiting up to %d ms at most" set: "policy=window" set: "option.max_delay=%dms" }\n' % (d, d)
    for d in range(0, 39, 3)
)
SWEEP = 'sweep { parameter: "rate" value: [ "50", "100", "150", "200", "400" ] }\n'


def tutti(verb, *arguments):
    done = subprocess.run([PROGRAM, verb, *map(str, arguments)], capture_output=True, text=True, timeout=300)
    if done.returncode:
        raise AssertionError("%s: %s" % (verb, done.stderr))
    return done


class Pages(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(KEEP or folder.name)
        cls.browser = browser.Browser()
        cls.addClassCleanup(cls.browser.close)

    def experiment(self, text, title="a title"):
        path = self.folder / "experiment.pbtxt"
        path.write_text("title: %s\n" % json.dumps(title) + text)
        return path

    def look(self, page, before=None):
        """Every theme and width; the page stays open, on a phone, in the dark."""
        for width, dark in ((1280, False), (1280, True), (390, False), (390, True)):
            with self.subTest(page=page.name, width=width, dark=dark):
                self.browser.open(page, width, 844 if width < 600 else 900, dark)
                self.assertEqual(self.browser.errors, [])
                self.assertEqual(self.browser.value(PROBLEMS), [])
                self.assertEqual(self.value("document.documentElement.dataset.theme"), "dark" if dark else "light")
                if KEEP:
                    self.browser.screenshot("%s-%d-%s.png" % (page, width, "dark" if dark else "light"))

    def value(self, expression):
        return self.browser.value(expression)

    def count(self, selector):
        return self.value("document.querySelectorAll(%s).length" % json.dumps(selector))

    def text(self, selector):
        return self.value("document.querySelector(%s).textContent" % json.dumps(selector))

    def look_at_picture(self, picture):
        for width in (1280, 390):
            with self.subTest(picture=picture.name, width=width):
                self.browser.open(picture, width, 844 if width < 600 else 900, False)
                self.assertEqual(self.browser.errors, [])
                self.assertEqual(self.browser.value(PICTURE_PROBLEMS), [])
                if KEEP:
                    self.browser.screenshot("%s-%d.png" % (self.folder / picture.name, width))

    def test_pictures_of_documents(self):
        pictures = sorted((ROOT / "docs").glob("*.svg"))
        self.assertGreater(len(pictures), 5)
        for picture in pictures:
            self.look_at_picture(picture)

    @unittest.skipIf(lacking(["onnx"]), lacking(["onnx"]))
    def test_pictures_of_verbs(self):
        """The timeline of a run, a model's stages, and the latencies of a load."""
        from plain_client import Server, make_two_models

        picture = self.folder / "run.svg"
        tutti("experiment", self.experiment(MODELS + "load { rate: 500 }\n", TITLE), "--svg", picture, "--draw", "0,300")
        self.look_at_picture(picture)
        served = tempfile.TemporaryDirectory()
        self.addCleanup(served.cleanup)
        models, picture = make_two_models(served.name), self.folder / "slice.svg"
        maker = [sys.executable, ROOT / "scripts" / "make_models.py", "--out", models, "--only", "cnn"]
        subprocess.run(maker, check=True, capture_output=True, timeout=60)
        for stages in (2, 8):
            tutti("slice", models / "cnn", "--stages", stages, "--out", pathlib.Path(served.name, "cut%d" % stages), "--svg", picture)
            self.look_at_picture(picture)
        server = Server(models)
        picture = self.folder / "load.svg"
        tutti("load", server.address, "--model", "mlp", "--rate", 200, "--requests", 200, "--svg", picture)
        server.end(signal.SIGTERM)
        self.look_at_picture(picture)

    def test_a_run(self):
        page = self.folder / "run.html"
        path = self.experiment(MODELS + 'load { rate: 500 }\npolicy { name: "window" }\n', TITLE)
        tutti("experiment", path, "--html", page)
        self.assertNotIn("</script><b>", page.read_text())
        self.look(page)
        self.assertEqual(self.text("h1"), TITLE)
        self.assertEqual(self.value("document.title"), TITLE)
        self.assertEqual(self.count("b, main i.x, main h3 i"), 0)  # no name became an element
        self.assertRegex(self.text(".verdict"), r"\d % of [\d,]+ requests? were answered in time")
        self.assertIn("<i>tight</i>", self.text(".verdict"))
        self.assertGreater(self.count(".task"), 20)
        self.assertGreater(self.count("line.late"), 0)
        self.assertGreater(self.count("line.slo"), 1)
        self.assertGreater(self.count(".point"), 2)  # p99 on the curves
        self.assertIn("experiment.pbtxt --html", self.text("footer"))
        self.assertIn("seed1", self.text("footer"))
        self.assertIn("SLO ms", self.text("thead"))

    def test_many_models_and_steps(self):
        page = self.folder / "zoo.html"
        tutti("experiment", ROOT / "experiments" / "symphony" / "zoo-1080ti.pbtxt", "--set", "duration_s=0.4",
              "--set", "warm_up_s=0", "--html", page)  # fmt: skip
        self.look(page)
        fills = self.value("[...document.querySelectorAll('.model-key')].map(k => k.getAttribute('fill'))")
        self.assertGreater(len(fills), 24)
        self.assertEqual(len(set(fills)), len(fills))
        self.assertEqual(self.count(".charts.many figure"), 12)
        page = self.folder / "steps.html"
        tutti("experiment", ROOT / "experiments" / "lazybatching" / "figure10.pbtxt", "--html", page)
        self.look(page)
        self.assertEqual(self.count(".task"), 11)
        self.assertEqual(self.count(".plot line.wait"), 2)

    def test_a_timeline_can_be_moved(self):
        page = self.folder / "moved.html"
        tutti("experiment", self.experiment(MODELS + "load { rate: 900 }\n"), "--html", page, "--draw", "200,900")
        self.browser.open(page)
        shown = "[...document.querySelectorAll('.lanes .tick')].map(t => t.textContent).join(' ')"
        first = self.value(shown)
        self.value("document.querySelector('button[aria-label=\"Zoom in\"]').click()")
        self.assertNotEqual(self.value(shown), first)
        self.value("document.querySelector('button[aria-label=\"Show all\"]').click()")
        self.assertGreater(len(self.value(shown)), 20)
        starts = [bar[4] for bar in data_of(page)["body"]["runs"][0]["timeline"]["bars"]]
        self.assertTrue(200 <= min(starts) and max(starts) <= 900, (min(starts), max(starts)))
        self.assertEqual(self.browser.errors, [])

    def test_a_comparison(self):
        page = self.folder / "compare.html"
        tutti("compare", self.experiment(ONE + SWEEP + CONTENDERS), "--html", page)
        self.look(page)
        self.assertEqual(self.count("figure:first-child .series"), 13)
        self.assertRegex(self.text(".verdict p"), r"best at .* of 5 rates by answers in time|By answers in time")
        self.assertEqual(self.count(".plot line.slo"), 2)  # on both charts of latencies
        self.browser.open(page, 1280)
        ticks = self.value("[...document.querySelectorAll('figure')[0].querySelectorAll('.tick')].map(t => t.textContent)")
        self.assertTrue({"50", "100", "150", "200", "400"} <= set(ticks), ticks)
        names = self.value("[...document.querySelectorAll('figure')[1].querySelectorAll('.name title')].map(t => t.textContent)")
        points = data_of(page)["body"]["report"]["points"]
        last = {p["point"]["contender"]: p["total"]["latency_ms"]["p99"] for p in points if p["point"]["rate"] == "400"}
        self.assertEqual([last[n] for n in names], sorted(last.values(), reverse=True))

    def test_hover_and_sorting(self):
        page = self.folder / "hover.html"
        tutti("compare", self.experiment(ONE + SWEEP + CONTENDERS), "--html", page)
        self.browser.open(page)
        self.value("""(() => { const s = document.querySelector('.plot svg'), r = s.getBoundingClientRect();
          s.dispatchEvent(new PointerEvent('pointermove', {clientX: r.left + r.width / 3, clientY: r.top + 60})); })()""")
        self.assertEqual(self.count("figure:first-child .tip div"), 14)  # all series, and the offered rate
        self.assertRegex(self.text(".tip b"), r"rate \d+ r/s")
        self.value("document.querySelectorAll('thead button')[8].click()")
        self.assertEqual(self.count("thead th[aria-sort=descending]"), 1)
        column = "[...document.querySelectorAll('tbody tr')].map(r => +r.children[8].textContent.replace(/,/g, ''))"
        values = self.value(column)
        self.assertEqual(values, sorted(values, reverse=True))
        self.value("document.getElementById('theme').click()")
        self.assertEqual(self.value("document.documentElement.dataset.theme"), "dark")
        self.assertEqual(self.browser.errors, [])

    def test_doubtful_points(self):
        page = self.folder / "doubtful.html"
        tutti("compare", self.experiment(ONE + SWEEP + CONTENDERS), "--html", page)
        data = data_of(page)
        for point in data["body"]["report"]["points"]:
            point["live"] = {"doubtful": point["point"]["rate"] == "400", "peak_memory_mib": 40}
        text = page.read_text()
        start = text.index('id="data">') + len('id="data">')
        page.write_text(text[:start] + json.dumps(data).replace("<", "\\u003c") + text[text.index("</script>", start) :])
        self.look(page)
        self.assertEqual(self.count("svg .doubt"), 6)  # one above the rate on every chart
        self.assertIn("Doubtful at 400 r/s", self.text(".verdict"))

    def test_goodput(self):
        page = self.folder / "goodput.html"
        text = ONE + 'goodput { seeds: 2 precision: 0.05 }\nsweep { parameter: "policy" value: [ "deferred", "window", "serial" ] }\n'
        tutti("experiment", self.experiment(text), "--goodput", "--html", page)
        self.look(page)
        self.assertEqual(self.count(".bar-value"), 3)
        self.assertGreater(self.count(".whisker"), 0)
        self.assertIn("The highest goodput is", self.text(".verdict"))
        page = self.folder / "goodput-along.html"
        text += 'sweep { parameter: "devices" value: [ "1", "2", "4", "8" ] }\n'
        tutti("experiment", self.experiment(text), "--goodput", "--html", page)
        self.look(page)
        self.assertEqual(self.count(".series"), 3)
        self.assertEqual(self.count(".bar-value"), 12)

    def test_worlds(self):
        page = self.folder / "worlds.html"
        path = self.experiment(ONE.replace("duration_s: 3", "duration_s: 1").replace("rate: 10", "rate: 200"))
        tutti("experiment", path, "--worlds", "simulated,emulated", "--html", page)
        self.look(page)
        self.assertEqual(self.count("svg.lanes"), 2)
        self.assertRegex(self.text(".verdict"), r"p99 latency: simulated [\d.]+ ms, emulated [\d.]+ ms")

    def test_a_placement(self):
        problem = ROOT / "experiments" / "place" / "800x20-next.pbtxt"
        previous = self.folder / "previous.pbtxt"
        tutti("place", problem.with_name("800x20.pbtxt"), "--seconds", 0.05, "--out", previous)
        page = self.folder / "placement.html"
        tutti("place", problem, "--seconds", 0.05, "--previous", previous, "--html", page)
        self.look(page)
        moved = data_of(page)["body"]["moves"]
        names = "[...document.querySelectorAll('table')].at(-1).querySelectorAll('tbody tr').length"
        self.assertEqual(self.value(names), moved)

    def test_a_fleet(self):
        page = self.folder / "fleet.html"
        fleet = self.experiment(ONE.replace("count: 1", "count: 12"))
        tutti("autoscale", fleet, "--hours", 1, "--search-hours", 0.5, "--servers", "--html", page)
        self.look(page)
        self.assertEqual(self.count(".series"), 15)
        self.assertEqual(len(data_of(page)["body"]["points"]["hour"]), 60)
        tutti("autoscale", fleet, "--hours", 1, "--search-hours", 0.5, "--html", page)
        self.look(page)
        self.assertEqual(self.count(".series"), 12)  # without the servers

    def test_a_fleet_plan(self):
        page = self.folder / "plan-fleet.html"
        tutti("plan", "--fleet", ROOT / "experiments" / "fleet" / "two-types.pbtxt", "--html", page)
        self.look(page)
        self.assertEqual(self.count(".series"), 2)
        self.assertEqual(self.count(".bar-value"), 1 + len(data_of(page)["body"]["what_if"]))

    def test_a_plan(self):
        model = self.folder / "models" / "batched"
        (model / "1").mkdir(parents=True)
        (model / "config.pbtxt").write_text(
            'backend: "emulated" max_batch_size: 16 input { name: "x" data_type: TYPE_FP32 dims: 4 } '
            'output { name: "y" data_type: TYPE_FP32 dims: 4 } '
        )
        (model / "profile.pbtxt").write_text("linear { alpha_ms: 0.1 beta_ms: 19.9 }")
        (model / "tutti.pbtxt").write_text("slo_ms: 2000")
        for flags, marks in (((), 0), (("--rate", 100), 1)):
            page = self.folder / ("plan%d.html" % marks)
            tutti("plan", model.parent, "--simulate-only", "--devices", 1, "--html", page, *flags)
            self.look(page)
            body = data_of(page)["body"]
            self.assertEqual(self.count(".bar-value"), sum(row["ran"] for row in body["candidates"]))
            self.assertIn("Policy " + body["policy"], self.text(".verdict"))
            self.assertIn("slo_ms: 2000", self.text("pre"))
            self.assertEqual(self.count("g.row line") > 0, marks > 0)

    @unittest.skipIf(lacking(["onnx"]), lacking(["onnx"]))
    def test_a_server_loaded_and_replayed(self):
        from plain_client import Server, make_two_models

        served = tempfile.TemporaryDirectory()
        self.addCleanup(served.cleanup)
        models, recording = make_two_models(served.name), self.folder / "recording"
        server = Server(models, "--record", recording)
        page = self.folder / "load.html"
        tutti("load", server.address, "--model", "mlp", "--model", "quick", "--rate", 200, "--requests", 200,
              "--slo-ms", 500, "--html", page)  # fmt: skip
        server.end(signal.SIGTERM)
        self.look(page)
        self.assertGreater(self.count("line.slo"), 0)
        self.assertIn("open loop", self.text("#subtitle"))
        series = data_of(page)["body"]["series"]
        self.assertGreater(sum(series["good_per_s"]) * series["slice_s"], 100)
        self.assertEqual(self.count(".plot .series"), 4 * 2 + 2)
        page = self.folder / "replay.html"
        tutti("replay", recording, "--domain", 0, "--policy", "serial", "--html", page)
        self.look(page)
        self.assertEqual(self.count("svg.lanes"), 2)
        self.assertIn("recorded and simulated", self.text("#subtitle"))


if __name__ == "__main__":
    unittest.main()
