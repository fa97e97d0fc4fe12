#!/usr/bin/env python3
"""S9: the measured load of a pool decides how many backends run. No test states a time."""
import pathlib
import re
import sys
import threading
import unittest

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "python"))

from cluster_process import await_true  # noqa: E402
from scaling_case import EmulatedCase  # noqa: E402


class LoadTest(EmulatedCase):
    def setUp(self):
        super().setUp()
        self.ended, self.statuses, self.threads = threading.Event(), [], []

    def ask(self, value):
        try:
            self.statuses.append(self.cluster.infer("f1", value)[0])
        except OSError:
            pass  # the frontend has ended

    def offer(self):
        """Some 25 requests a second, whether others were answered or not."""
        while not self.ended.wait(0.04):
            self.threads.append(threading.Thread(target=self.ask, args=(len(self.threads),)))
            self.threads[-1].start()

    def end(self):
        self.ended.set()
        self.source.join()
        self.cluster.stop()
        for thread in self.threads:
            thread.join(60)

    def test_a_pool_grows_with_its_load(self):
        """A device does ten a second."""
        self.begin_emulated("--scale-limits", "default=1:2", devices=1, slow=True, profile="linear { alpha_ms: 0 beta_ms: 100 }\n")
        self.assertIsNone(self.pool()["wanted"])
        self.source = threading.Thread(target=self.offer)
        self.addCleanup(self.end)
        self.source.start()
        seen = self.await_pool(ready=2, asked=2, stage="STEADY", mode="AUTO")
        self.assertGreaterEqual(seen["wanted"], 2)
        self.assertEqual((seen["least"], seen["most"]), (1, 2))
        self.assertEqual({name for name, state in self.states().items() if state == "SERVING"}, {"b1", "b2"})
        primary = self.cluster.primary()
        await_true(lambda: self.metrics(primary).get("tutti_cluster_pool_devices_wanted", {}).get("default", 0) >= 2, 60, "wanted")
        shown = re.compile(r"\npool +wanted +target +asked +ready +most +mode +stage +nodes\ndefault +\d+ +2 +2 +2 +2  AUTO")
        await_true(lambda: shown.search(self.cluster.command("status", self.cluster.spec, "--timeout", "30").stdout), 60,
                   "status shows the pool with both")  # fmt: skip
        self.assertGreater(self.statuses.count(200), 10)


if __name__ == "__main__":
    unittest.main(verbosity=2)
