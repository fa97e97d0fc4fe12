#!/usr/bin/env python3
"""packaging/monitoring: the alert rules and the dashboard, by promtool and beside a real Prometheus.

Every metric that they name is on the page of a running server, every expression is one that Prometheus evaluates, and
those of the dashboard give values while the server has load."""
# plain build only: what is under test are the rules of Prometheus
import json
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import urllib.parse

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "python"))

from needs import need, skip  # noqa: E402

need("onnx")
if not shutil.which("promtool"):
    skip("Prometheus is not installed (scripts/setup.sh --monitoring)")

from cluster_process import Cluster, await_true  # noqa: E402
from plain_client import Server, ask, get, make_two_models, vanish  # noqa: E402
from scaling_case import SOON, end_backends  # noqa: E402
from server_process import free_port  # noqa: E402

FOLDER = ROOT / "packaging" / "monitoring"
RULES = (FOLDER / "alerts.yml").read_text()
DASHBOARD = json.loads((FOLDER / "dashboard.json").read_text())
METRIC = re.compile(r"\b(?:tutti|nv|process)_[a-z0-9_]+")
VARIABLES = {"$job": ".*", "$instance": ".*", "$model": ".*", "$__rate_interval": "20s"}


def promtool(*words, cwd=FOLDER):
    done = subprocess.run(["promtool", *words], capture_output=True, text=True, timeout=120, cwd=cwd)
    return done.returncode, done.stdout + done.stderr


def expressions():
    """{title of a panel: [its expressions]}, with values for the variables."""
    found = {}
    for panel in DASHBOARD["panels"]:
        for target in panel.get("targets", ()):
            expression = target["expr"]
            for name, value in VARIABLES.items():
                expression = expression.replace(name, value)
            found.setdefault(panel["title"], []).append(expression)
    return found


class Files(unittest.TestCase):
    def test_promtool_accepts_them(self):
        code, said = promtool("check", "config", "prometheus.yml")
        self.assertEqual(code, 0, said)
        self.assertIn("13 rules found", said)
        code, said = promtool("test", "rules", "alerts_test.yml")
        self.assertEqual(code, 0, said)

    def test_every_alert_has_a_test_that_can_fail(self):
        """With a condition that cannot hold, the tests of each alert fail."""
        alerts = re.findall(r"- alert: (\w+)\n", RULES)
        self.assertGreater(len(alerts), 5)
        for alert in alerts:
            with self.subTest(alert=alert), tempfile.TemporaryDirectory() as folder:
                start = RULES.index("- alert: %s\n" % alert)
                before, expression, after = re.split(
                    r"( (?:==|>) [0-9.]+\n)", RULES[start:], maxsplit=1
                )
                self.assertNotIn("- alert:", before[5:])
                self.assertTrue(expression)
                pathlib.Path(folder, "alerts.yml").write_text(RULES[:start] + before + " > 1e18\n" + after)
                shutil.copy(FOLDER / "alerts_test.yml", folder)
                code, said = promtool("test", "rules", "alerts_test.yml", cwd=folder)
                self.assertEqual(code, 1, said)
                self.assertIn(alert, said)

    def test_the_dashboard_is_one(self):
        panels = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
        self.assertEqual(len({panel["id"] for panel in DASHBOARD["panels"]}), len(DASHBOARD["panels"]))
        taken = {}
        for panel in DASHBOARD["panels"]:
            place = panel["gridPos"]
            self.assertLessEqual(place["x"] + place["w"], 24, panel["title"])
            for x in range(place["x"], place["x"] + place["w"]):
                for y in range(place["y"], place["y"] + place["h"]):
                    self.assertNotIn((x, y), taken, "%s lies over %s" % (panel["title"], taken.get((x, y))))
                    taken[x, y] = panel["title"]
        for panel in panels:
            self.assertEqual(panel["datasource"]["uid"], "${datasource}")
            self.assertTrue(panel["fieldConfig"]["defaults"].get("unit") or panel["type"] == "heatmap")


class Live(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        models = make_two_models(folder.name)
        (models / "broken" / "1").mkdir(parents=True)
        (models / "broken" / "1" / "model.onnx").write_bytes(b"not a model")
        cls.server = Server(models, "--record", cls.folder / "recording")
        cls.addClassCleanup(cls.server.end, signal.SIGTERM)
        cls.ends = threading.Event()
        cls.start_cluster()
        cls.loads = [threading.Thread(target=cls.load, args=(m,)) for m in ("mlp", "quick")]
        cls.loads.append(threading.Thread(target=cls.load_cluster))
        for thread in cls.loads:
            thread.start()
        cls.addClassCleanup(cls.stop_load)
        cls.start_prometheus()
        # The load is known after ten seconds.
        await_true(lambda: cls.query("tutti_cluster_pool_devices_wanted"), 120, cls.cluster.said)

    @classmethod
    def start_cluster(cls):
        """A scheduler that scales, and what it needs: the metrics of a cluster are on its page."""
        cls.cluster = Cluster(backends=2, devices=1)
        backends = cls.cluster.folder / "backends"
        cls.addClassCleanup(end_backends, backends)
        cls.addClassCleanup(cls.cluster.stop)  # before that, or it would start them again
        cls.cluster.start("s1", "--scale-emulated", str(backends), *SOON)
        cls.cluster.start("f1")
        for name in ("s1", "f1"):
            assert cls.cluster.processes[name].wait_ready(60), cls.cluster.said()
        cls.cluster.await_ready("f1")
        cls.scheduler = cls.cluster.processes["s1"].address

    @classmethod
    def load_cluster(cls):
        while not cls.ends.wait(0.05):
            cls.cluster.infer("f1", 1)

    @classmethod
    def load(cls, model):
        while not cls.ends.wait(0.02):
            ask(cls.server.address, model, 5, (None, 200000, 300))
            vanish(cls.server.address, model)

    @classmethod
    def stop_load(cls):
        cls.ends.set()
        for thread in cls.loads:
            thread.join()

    @classmethod
    def start_prometheus(cls):
        cls.prometheus = "127.0.0.1:%d" % free_port()
        configuration = (FOLDER / "prometheus.yml").read_text()
        for old, new in (
            ('"127.0.0.1:8000"', '"%s", "%s"' % (cls.server.address, cls.scheduler)),
            ("scrape_interval: 5s", "scrape_interval: 500ms"),
            ("evaluation_interval: 15s", "evaluation_interval: 1s"),
        ):
            assert old in configuration, old
            configuration = configuration.replace(old, new)
        (cls.folder / "prometheus.yml").write_text(configuration)
        shutil.copy(FOLDER / "alerts.yml", cls.folder)
        log = (cls.folder / "prometheus.log").open("w")
        process = subprocess.Popen(
            [
                "prometheus",
                "--config.file=%s" % (cls.folder / "prometheus.yml"),
                "--storage.tsdb.path=%s" % (cls.folder / "data"),
                "--web.listen-address=" + cls.prometheus,
            ],
            stdout=log, stderr=log,
        )  # fmt: skip
        cls.addClassCleanup(process.wait)
        cls.addClassCleanup(process.terminate)
        cls.addClassCleanup(log.close)
        ends_at = time.monotonic() + 120
        while True:  # until there are samples for rates
            try:  # it answers 503 while it starts
                ready = get(cls.prometheus, "/-/ready")[0] == 200
            except OSError:
                ready = False
            seen = cls.query("count_over_time(tutti_build_info[1m])") if ready else []
            if seen and float(seen[0]["value"][1]) >= 6:
                return
            assert process.poll() is None and time.monotonic() < ends_at, (
                cls.folder / "prometheus.log"
            ).read_text()
            time.sleep(0.2)

    @classmethod
    def query(cls, expression):
        path = "/api/v1/query?" + urllib.parse.urlencode({"query": expression})
        status, _, body = get(cls.prometheus, path)
        answer = json.loads(body)
        assert status == 200 and answer["status"] == "success", "%s: %s" % (expression, answer)
        return answer["data"]["result"]

    @classmethod
    def seen(cls, expression):
        """What the expression gives. On a busy machine a scrape may take longer than its limit, and then nothing is
        there until the next one."""
        until = time.monotonic() + 60
        while not (found := cls.query(expression)) and time.monotonic() < until:
            time.sleep(0.2)
        return found

    def test_every_metric_exists(self):
        page = "".join(get(address, "/metrics")[2].decode() for address in (self.server.address, self.scheduler))
        types = dict(re.findall(r"^# TYPE (\S+) (\S+)$", page, re.M))
        exported = set(types)
        for name, kind in types.items():
            if kind == "histogram":
                exported |= {name + suffix for suffix in ("_bucket", "_sum", "_count")}
        named = set(METRIC.findall(RULES)) | set(METRIC.findall(json.dumps(DASHBOARD)))
        self.assertGreater(len(named), 20)
        self.assertEqual(named - exported, set())
        tested = set(METRIC.findall((FOLDER / "alerts_test.yml").read_text()))
        self.assertEqual(tested - exported, set())

    def test_prometheus_takes_the_page_and_the_rules(self):
        await_true(lambda: len(self.query("up == 1")) == 2, 60, "both are up")
        instances = {job["metric"]["instance"] for job in self.query("up")}
        self.assertEqual(instances, {self.server.address, self.scheduler})
        groups = json.loads(get(self.prometheus, "/api/v1/rules")[2])["data"]["groups"]
        rules = [rule for group in groups for rule in group["rules"]]
        self.assertEqual(len(rules), RULES.count("- alert:"))
        for rule in rules:
            self.assertIn(rule["health"], ("ok", "unknown"), rule)  # unknown: not evaluated yet

    def test_every_panel_shows_something(self):
        for title, all_of in expressions().items():
            for expression in all_of:
                with self.subTest(panel=title, expression=expression):
                    self.assertGreater(len(self.seen(expression)), 0)

    def test_values_are_those_of_the_server(self):
        [up] = self.seen("(%s) == 2" % expressions()["Servers up"][0])
        self.assertEqual(up["value"][1], "2")
        own = '{instance="%s"}' % self.server.address
        ready = {r["metric"]["model"]: r["value"][1] for r in self.seen("tutti_model_ready" + own)}
        self.assertEqual(ready, {"mlp": "1", "quick": "1", "broken": "0"})
        started = float(self.seen("process_start_time_seconds" + own)[0]["value"][1])
        self.assertLess(abs(time.time() - started), 600)
        [version] = self.seen(expressions()["Version"][0])
        self.assertRegex(version["metric"]["version"], r"^\d+\.\d+\.\d+$")
        memory = float(self.seen("process_virtual_memory_bytes" + own)[0]["value"][1])
        resident = float(self.seen("process_resident_memory_bytes" + own)[0]["value"][1])
        self.assertGreater(memory, resident)

    def test_variables_of_the_dashboard(self):
        for label in ("job", "instance", "model"):
            [variable] = [v for v in DASHBOARD["templating"]["list"] if v["name"] == label]
            self.assertRegex(variable["definition"], r"^label_values\(.*, %s\)$" % label)
            expression = re.sub(r"^label_values\((.*), \w+\)$", r"\1", variable["definition"])
            for name, value in VARIABLES.items():
                expression = expression.replace(name, value)
            found = self.seen(expression)
            self.assertTrue(found and all(label in r["metric"] for r in found), expression)

    def test_linters_of_prometheus(self):
        """promtool complains of Triton's names only."""
        for address in (self.server.address, self.scheduler):
            page = get(address, "/metrics")[2]
            done = subprocess.run(
                ["promtool", "check", "metrics"], input=page, capture_output=True, timeout=60
            )
            said = (done.stdout + done.stderr).decode().splitlines()
            self.assertEqual([line for line in said if line and not line.startswith("nv_")], [])


if __name__ == "__main__":
    unittest.main(verbosity=1)
