#!/usr/bin/env python3
"""The live page of a server (`tutti serve --dashboard`), as a browser shows it, and what other sites cannot do with it."""
# plain build only: what is under test is the script of the page
import http.client
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "python"))

import browser  # noqa: E402
from needs import lacking, skip  # noqa: E402
from pages import PROBLEMS  # noqa: E402

if lacking(["onnx"]):
    skip(lacking(["onnx"]))

from plain_client import PROGRAM, Server, ask, get, infer_body, make_two_models  # noqa: E402

KEEP = os.environ.get("TUTTI_KEEP_PAGES")  # a folder for screenshots
PAGE = re.compile(r"the live page is http://(\S+)/")
PATIENCE_S = 60

# An answer of a large server to `take`, as /state has them: 20 models, 256 executors, the most batches.
LARGE = r"""
const large = (k) => {
  const models = 20, executors = 256, names = Array.from({length: models}, (_, i) => 'model ' + i);
  const of = (i) => (k + 1) * (100 + 20 * i);
  const batches = Array.from({length: 4096}, (_, n) => [n % 2, (n >> 1) % 128, n % models, 1 + n % 32,
      -1e6 + Math.floor(1e6 * n / 4096), 40000, n % 13 ? 9000 : -2000, 0]);
  const setup = {server_version: 'x', admin: false, models: names.map((name) => ({name, version: '1', platform: 'p',
    policy: 'deferred', options: {closed_loop: 'on'}, domain: 0, executors: 128, slo_us: 50000, max_batch: 32,
    profile: {rows: [1, 8, 32], by_length: [{length: 0, us: [900, 2500, 9000]}], steps: [], step_count: 1}}))};
  return {at_ms: 0, now_us: 1e6 * (k + 1), generation: 1, models_left_out: 0, names, left_out: 9, lost: 0, cursor: '0', batches,
    domains: [0, 1].map((domain) => ({policy: 'deferred', domain, executors: executors / 2,
      busy_us: Array.from({length: executors / 2}, () => k * 8e5)})),
    recent: names.map((_, i) => [i, 100, 0, 8000 + 300 * i, 30000 + 700 * i, 45000, 2000]), setup: k ? undefined : setup,
    models: names.map((name, i) => ({name, version: '1', state: 'READY', reason: '', accepted: of(i), on_time: of(i) - i * k,
      late: i * k, failed: 0, rejected: 0, cancelled: 0, dropped: {deadline: 0}, in_flight: 3, queue: 4, oldest_us: 4000,
      rows: of(i), batches: of(i) / 4, sizes: [[4, of(i) / 4, of(i) * 500]]}))};
};
"""


def page_of(server):
    return PAGE.search(server.said()).group(1)


class WithServer(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.models = make_two_models(folder.name)
        (cls.models / "mlp" / "tutti.pbtxt").write_text('slo_ms: 50\npolicy { name: "window" }\n')
        cls.keep = pathlib.Path(KEEP or folder.name)

    def serve(self, *flags):
        server = Server(self.models, "--dashboard", "0", "--model-control-mode", "explicit", "--load-model", "*", *flags)
        self.addCleanup(lambda: server.process.poll() is None and server.end(signal.SIGTERM))
        return server


class Access(WithServer):
    """What the port answers, and which requests it rejects."""

    def request(self, page, path, method="GET", body=None, **headers):
        client = http.client.HTTPConnection(page, timeout=60)
        client.request(method, path, body, headers={k.replace("_", "-"): v for k, v in headers.items()})
        answer = client.getresponse()
        result = answer.status, dict(answer.headers), answer.read()
        client.close()
        return result

    def test_it_only_shows(self):
        server = self.serve()
        page = page_of(server)
        self.assertTrue(page.startswith("127.0.0.1:"))
        status, headers, body = self.request(page, "/")
        self.assertEqual(status, 200)
        self.assertIn(b"<!doctype html>", body)
        policy = headers["Content-Security-Policy"]
        self.assertIn("default-src 'none'", policy)
        self.assertNotIn("unsafe", policy)
        for path in ("/v2/repository/models/mlp/unload", "/v2/repository/models/mlp/load", "/v2/logging"):
            self.assertEqual(self.request(page, path, "POST", "{}")[0], 403)
        self.assertEqual(self.request(page, "/v2/models/mlp/infer", "POST", infer_body())[0], 200)
        self.assertEqual(ask(server.address, "mlp", 1), [200])
        self.assertEqual(server.end(signal.SIGTERM), 0)

    def test_other_sites_cannot_use_it(self):
        server = self.serve("--dashboard-admin")
        page = page_of(server)
        unload = "/v2/repository/models/mlp/unload"
        evil = {"Origin": "http://evil.example"}
        self.assertEqual(self.request(page, unload, "POST", "{}", **evil)[0], 403)
        self.assertEqual(self.request(page, unload, "POST", "{}", Origin="null")[0], 403)
        self.assertEqual(self.request(page, unload, "POST", "{}", Host="evil.example", Origin="http://evil.example")[0], 403)
        self.assertEqual(self.request(page, "/state", Host="evil.example")[0], 403)
        self.assertEqual(ask(server.address, "mlp", 1), [200])
        self.assertEqual(self.request(page, unload, "POST", "{}", Origin="http://" + page)[0], 200)
        self.assertEqual(ask(server.address, "mlp", 1), [503])

    def test_wrong_flags(self):
        for flags, said in (
            (["--dashboard-admin"], "--dashboard-admin needs --dashboard"),
            (["--dashboard", "localhost"], "it must be PORT, HOST:PORT or [IPv6]:PORT"),
            (["--dashboard", ":1"], "it must be PORT, HOST:PORT or [IPv6]:PORT"),
            (["--dashboard", "65536"], "it must be PORT, HOST:PORT or [IPv6]:PORT"),
            (["--dashboard", "::1:80"], "it must be PORT, HOST:PORT or [IPv6]:PORT"),
            (["--dashboard", "no.such.host.invalid:0"], "cannot listen on"),
        ):
            done = subprocess.run(
                [PROGRAM, "serve", "--model-repository", self.models, "--http-port", "0", *flags],
                capture_output=True, text=True, timeout=60,
            )  # fmt: skip
            self.assertEqual(done.returncode, 2, flags)
            self.assertIn(said, done.stderr)

    def test_figures_are_those_of_metrics(self):
        server = self.serve()
        page = page_of(server)
        ask(server.address, "mlp", 20, (None, 300))
        ask(server.address, "quick", 10)
        state = json.loads(self.request(page, "/state")[2])
        metrics = get(server.address, "/metrics")[2].decode()
        for model in state["models"]:
            values = {
                name: int(re.search(r'tutti_requests_%s_total\{model="%s",version="1"\} (\d+)' % (name, model["name"]), metrics).group(1))
                for name in ("accepted", "on_time", "late", "bad")
            }
            bad = model["late"] + model["failed"] + model["rejected"] + sum(model["dropped"].values())
            self.assertEqual((model["accepted"], model["on_time"], model["late"], bad), tuple(values.values()))
        self.assertEqual([m["accepted"] for m in state["models"]], [20, 10])
        again = json.loads(self.request(page, "/state?generation=%d&after=%s" % (state["generation"], state["cursor"]))[2])
        self.assertNotIn("setup", again)
        self.assertEqual(self.request(page, "/state?after=x")[0], 400)


@unittest.skipUnless(browser.find(), "there is no Chromium on this machine: scripts/setup.sh --browser installs it")
class Page(WithServer):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.browser = browser.Browser()
        cls.addClassCleanup(cls.browser.close)

    def value(self, expression):
        return self.browser.value(expression)

    def wait(self, expression):
        """Until it is true in the page."""
        until = time.monotonic() + PATIENCE_S
        while not self.value(expression):
            self.assertLess(time.monotonic(), until, expression)
            time.sleep(0.1)

    def load(self, server, *requests):
        """Requests of these (model, timeouts) without end, until the test is over."""
        ended = threading.Event()

        def run(model, timeouts):
            while not ended.is_set():
                ask(server.address, model, 20, timeouts)

        threads = [threading.Thread(target=run, args=each) for each in requests]
        for thread in threads:
            thread.start()

        def end():
            ended.set()
            for thread in threads:
                thread.join()

        self.addCleanup(end)
        return end

    def show(self, server):
        # Before the server ends: a page without its server has errors, which the next test would get.
        self.addCleanup(self.browser.call, "Page.navigate", url="about:blank")
        self.browser.open("http://%s/" % page_of(server), 1280, 4000)
        self.wait("live.models.some((m) => m.samples.length > 2)")

    def problems(self):
        """Those of every page; what this one loads comes from its own server."""
        found = [p for p in self.value(PROBLEMS) if p != "it loads something"]
        return found + self.value(
            "[...document.querySelectorAll('[src], link[rel=stylesheet]')].map(n => n.src || n.href).filter(u => !u.startsWith(location.origin))"
        )

    def look(self, name):
        for width, dark in ((1280, False), (1280, True), (390, False), (390, True)):
            with self.subTest(page=name, width=width, dark=dark):
                self.browser.resize(width, 6000, dark)
                self.wait("document.documentElement.clientWidth === %d" % width)
                self.value("new Promise(done => setTimeout(done, 300))")
                self.browser.frames()
                self.assertEqual(self.browser.errors, [])
                self.assertEqual(self.problems(), [])
                self.assertEqual(self.value("document.documentElement.dataset.theme"), "dark" if dark else "light")
                if KEEP:
                    self.browser.screenshot(self.keep / ("%s-%d-%s.png" % (name, width, "dark" if dark else "light")))

    def test_while_it_serves(self):
        server = self.serve()
        self.load(server, ("mlp", (None, 1)), ("quick", (None,)))  # no batch takes 1 us only
        self.show(server)
        self.wait("live.bars.length > 20 && summary(live.models[0].samples, 60).bad > 3")
        self.value("choose('mlp/1')")
        self.look("live")
        self.browser.resize(1280, 6000)
        self.assertIn("were answered in time", self.value("document.querySelector('.verdict').textContent"))
        self.assertRegex(self.value("document.querySelector('.verdict').textContent"), r"mlp: [\d.]+ % bad \((dropped: deadline|late) \d")
        self.assertEqual(self.value("document.querySelectorAll('tbody tr').length"), 2)
        self.assertGreater(self.value("document.querySelectorAll('line.slo').length"), 0)
        self.assertIn("50 ms", self.value("document.querySelector('.facts').textContent"))
        self.assertTrue(self.value("live.bars.some((b) => b.slack !== null)"))
        # Something is drawn on the canvas, in a model's colour.
        self.assertTrue(self.value("""(() => { const pen = canvas.getContext('2d'), d = pen.getImageData(0, 0, canvas.width, canvas.height).data;
          const ink = colour(0).match(/\\w\\w/g).map((h) => parseInt(h, 16));
          for (let i = 0; i < d.length; i += 4) if (ink.every((v, k) => Math.abs(d[i + k] - v) < 3)) return true;
          return false; })()"""))
        # Hover shows a batch, and the values of a chart, also after the next answer.
        self.value("(() => { const b = live.bars.at(-1); showBar({x: lanesBox.xOf(b.end - lanesView.end), y: lanesBox.top + live.lanes.get(b.at) * lanesBox.lane + 5}); })()")
        self.assertIn("rows", self.value("lanesTip.textContent"))
        self.value("""(() => { const s = allFigure.querySelector('.plot svg'), r = s.getBoundingClientRect();
          s.dispatchEvent(new PointerEvent('pointermove', {clientX: r.left + r.width * 0.7, clientY: r.top + 60})); })()""")
        self.assertEqual(self.value("allFigure.querySelectorAll('.tip div').length"), 2)
        self.value("step()")
        self.wait("allFigure.querySelectorAll('.tip:not([hidden]) div').length === 2")
        # The table keeps the focus, and a click that an answer interrupts.
        self.value("(() => { const b = modelTable.querySelector('tbody button'); b.focus(); b.dispatchEvent(new PointerEvent('pointerdown', {bubbles: true})); window.pressed0 = b; })()")
        self.value("showAll()")
        self.assertTrue(self.value("pressed0.isConnected"))
        self.value("(() => { dispatchEvent(new PointerEvent('pointerup')); showAll(); })()")
        self.assertFalse(self.value("pressed0.isConnected"))
        self.assertEqual(self.value("document.activeElement.textContent"), self.value("pressed0.textContent"))
        lines = self.value("linesOf(allSpec).map((line) => line.length)")
        self.assertGreater(len(lines), 3)
        self.assertEqual(set(lines), {3})

    def test_pause_and_no_server(self):
        server = self.serve()
        self.show(server)
        self.value("document.getElementById('pause').click()")
        self.wait("!asking")
        asked = "performance.getEntriesByType('resource').filter((e) => e.name.includes('/state')).length"
        before = self.value(asked)
        time.sleep(3)
        self.assertEqual(self.value(asked), before)
        self.value("document.getElementById('pause').click()")
        self.wait(asked + " > %d" % before)
        self.assertEqual(server.end(signal.SIGTERM), 0)
        self.wait("document.querySelector('.verdict').textContent.includes('does not answer')")
        self.assertEqual(self.value("document.getElementById('title').dataset.state"), "lost")

    def test_try_a_model(self):
        server = self.serve()
        self.show(server)
        self.value("choose('mlp/1')")
        self.wait("document.querySelector('fieldset legend') && document.querySelector('fieldset legend').textContent.startsWith('input, FP32')")
        self.value("document.querySelector('fieldset input').value = 3; document.querySelector('form button').click()")
        self.wait("/Answered after/.test(tryBox.querySelector('pre').textContent)")
        self.assertRegex(self.value("tryBox.querySelector('pre').textContent"), r"FP32 \[3, \d+\]: -?\d")
        self.value("""(() => { const fill = document.querySelector('fieldset select'); fill.value = 'written';
          fill.dispatchEvent(new Event('change')); document.querySelector('fieldset textarea').value = '[1]';
          document.querySelector('form button').click(); })()""")
        self.wait("tryBox.querySelector('pre.error') !== null")
        self.assertIn("input", self.value("tryBox.querySelector('pre.error').textContent"))
        self.assertEqual([e for e in self.browser.errors if "400" not in e], [])
        self.browser.errors.clear()  # of the wrong values
        self.look("try")
        self.assertEqual(self.value("adminBox.querySelectorAll('button').length"), 0)

    def test_load_and_unload(self):
        server = self.serve("--dashboard-admin")
        self.show(server)
        self.value("choose('quick/1')")
        click = "[...adminBox.querySelectorAll('button')].find((b) => b.textContent.startsWith('%s')).click()"
        self.value(click % "Unload")
        self.wait("adminBox.textContent.includes('click again')")
        self.assertEqual(ask(server.address, "quick", 1), [200])
        self.value(click % "Unload")
        self.wait("live.models.some((m) => m.name === 'quick' && m.state === 'UNAVAILABLE')")
        self.assertEqual(ask(server.address, "quick", 1), [503])
        self.look("unloaded")
        self.value(click % "Load")
        self.wait("live.models.some((m) => m.name === 'quick' && m.state === 'READY')")
        self.assertEqual(ask(server.address, "quick", 1), [200])

    def test_many_models_and_executors(self):
        server = self.serve()
        self.show(server)
        self.value("document.getElementById('pause').click()")
        self.wait("!asking")
        self.value("""(() => { %s
          live.state = null; live.bars = []; live.samples.clear(); trial.key = 'none';
          for (let k = 0; k < 400; k++) take(large(k));
          trial.key = 'model 19/1'; trial.generation = 1; /* there is no such model to try */
          choose('model 19/1'); lanesView.span = 100; })()""" % LARGE)
        self.assertLessEqual(self.value("live.bars.length"), self.value("KEPT_BARS"))
        self.assertEqual(self.value("live.models[0].samples.length"), self.value("KEPT"))
        self.look("large")
        self.browser.resize(1280, 6000)
        self.assertEqual(self.value("live.lanes.size"), 256)
        self.assertEqual(self.value("allFigure.querySelectorAll('.series').length"), 20)
        fills = self.value("[...lanesLegend.querySelectorAll('.model-key')].map((k) => k.getAttribute('fill'))")
        self.assertEqual(len(set(fills)), 20)
        self.assertIn("9 batches", self.value("lanesNote.textContent"))
        self.assertIn("model 19", self.value("document.querySelector('.verdict').textContent"))
        # Of charts that are not on the screen nothing is drawn until they come there.
        self.browser.resize(1280, 600)
        self.wait("seen.get(lanesPlace) === false")
        self.value("showAll()")
        self.assertTrue(self.value("stale.has(lanesPlace)"))
        self.value("lanesPlace.scrollIntoView()")
        self.wait("!stale.has(lanesPlace)")


if __name__ == "__main__":
    unittest.main()
