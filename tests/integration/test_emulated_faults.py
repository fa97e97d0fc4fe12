#!/usr/bin/env python3
"""Emulated devices over HTTP that are reached over a network (S4), or that run at another speed than their profile says. Batches
never end before their time, however busy the machine is, so times are lower bounds."""
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
import unittest

sys.dont_write_bytecode = True
import test_emulated_server as emulated  # noqa: E402

PROFILE = "point { batch: 1 latency_ns: 2000000 } point { batch: 4 latency_ns: 5000000 }"
NETWORK = "emulation { network { control_us: 20000 data_us_per_row: 1000 } }"


class EmulatedFaults(unittest.TestCase):
    start = emulated.EmulatedServer.start
    stop = emulated.EmulatedServer.stop
    request = emulated.EmulatedServer.request
    ask = emulated.EmulatedServer.ask
    ask_many = emulated.EmulatedServer.ask_many
    batches = emulated.EmulatedServer.batches

    def delay(self, family):
        """The one sample of the family, in seconds."""
        _, content = self.request("GET", "/metrics")
        return float(re.search(r"^%s\{.*\} (\S+)$" % family, content.decode(), re.M)[1])

    def learns(self, policy, *flags):
        recording = emulated.make_folder(self) / "r"
        settings = 'slo_ms: 600000 policy { name: "%s" } ' % policy
        self.start({"m": (PROFILE, settings + NETWORK)}, "--record", recording, *flags, executors=1)
        self.assertEqual(self.delay("tutti_believed_control_delay_seconds"), 0)
        for i in range(40):
            self.ask("m", i)
        # Batches of one row: what a row adds is not known, so all of it is the batch's.
        control, data = (self.delay(f"tutti_believed_{kind}_delay_seconds") for kind in ("control", "data"))
        self.assertEqual((control, data), (0.021, 0))
        self.stop()
        done = subprocess.run(
            [emulated.PROGRAM, "replay", recording, "--json"], capture_output=True, text=True, timeout=60, check=False
        )
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertTrue(json.loads(done.stdout)["identical"])

    def test_learnt(self):
        """The delay of the network is learnt from batches, shown, and replayed."""
        self.learns("eager")

    def test_learnt_on_scheduler_threads(self):
        """So it is where the scheduler runs on threads of its own."""
        self.learns("eager", "--scheduler-threads", "2")

    def test_given(self):
        """Without learning the given delays stay."""
        settings = 'slo_ms: 600000 policy { name: "eager" } '
        flags = ("--learn-percent", "0", "--control-delay-us", "7000", "--data-delay-us", "30")
        self.start({"m": (PROFILE, settings + NETWORK)}, *flags, executors=1)
        self.ask_many("m", 20)
        self.assertEqual(self.delay("tutti_believed_control_delay_seconds"), 0.007)
        self.assertEqual(self.delay("tutti_believed_data_delay_seconds"), 0.00003)
        self.stop()

    def test_wrong_profile(self):
        """A profile that is wrong by three: batches take three times as long, every request is answered once."""
        settings = 'slo_ms: 600000 policy { name: "eager" } emulation { perturb { speed: 0.333 } }'
        self.start({"m": (PROFILE, settings)}, executors=1)
        self.ask_many("m", 20)
        batches = self.batches()
        self.assertEqual(sum(b["args"]["rows"] for b in batches), 20)
        self.assertTrue(all(b["dur"] >= 3 * 2000 for b in batches))
        _, content = self.request("GET", "/metrics")
        self.assertIn('nv_inference_request_success{model="m",version="1"} 20\n', content.decode())
        self.stop()

    def test_jump_of_the_clock(self):
        """The whole process stands still for longer than the SLO, as on a machine that was suspended: for it the clock jumps.
        Each request has one answer, and requests are in time again."""
        self.start({"m": (PROFILE, "slo_ms: 1000")}, executors=1)
        statuses, ends = [], threading.Event()

        def client():
            body = {"inputs": [{"name": "x", "shape": [1, 4], "datatype": "FP32", "data": [1.0] * 4}]}
            while not ends.is_set():
                statuses.append(self.request("POST", "/v2/models/m/infer", json.dumps(body))[0])

        clients = [threading.Thread(target=client) for _ in range(4)]
        for thread in clients:
            thread.start()
        while len(statuses) < 40:
            time.sleep(0.01)
        os.kill(self.server.process.pid, signal.SIGSTOP)
        time.sleep(1.5)
        os.kill(self.server.process.pid, signal.SIGCONT)
        # Those that were under way may be too late; those that follow are not.
        after = len(statuses) + 2 * len(clients)
        while statuses[after:].count(200) < 40:
            time.sleep(0.01)
        ends.set()
        for thread in clients:
            thread.join()
        self.assertLessEqual(set(statuses), {200, 503})
        _, content = self.request("GET", "/metrics")
        self.assertIn('nv_inference_request_success{model="m",version="1"} %d\n' % statuses.count(200), content.decode())
        self.stop()

    def test_refusals(self):
        """What has no effect, or cannot be, makes the model unavailable, with the reason."""
        span = "perturb { from_s: %s until_s: %s speed: %s }"
        wrong = {
            "near": ("network { }", "a network without control_us and data_us_per_row has no effect"),
            "far": ("network { control_us: 2e6 }", "a network has control_us from 0 to 1e6"),
            "same": (span % (0, 1, 1), "speed is 1; it is from 0.001 to 1000"),
            "dead": ("perturb { from_s: 3 }", "speed is 0; it is from 0.001 to 1000, or 0 in a span that ends"),
            "back": (span % (2, 3, 2) + span % (1, 4, 2), "it begins at 3 or later"),
            "none": (span % (2, 2, 2), "ends after its beginning"),
        }
        self.start({name: (PROFILE, "emulation { %s }" % text) for name, (text, _) in wrong.items()} | {"m": (PROFILE, "")})
        _, content = self.request("POST", "/v2/repository/index")
        reasons = {entry["name"]: entry["reason"] for entry in json.loads(content)}
        for name, (_, reason) in wrong.items():
            self.assertIn(reason, reasons[name])
        self.assertEqual(reasons["m"], "")
        self.stop()


if __name__ == "__main__":
    unittest.main(verbosity=1)
