#!/usr/bin/env python3
"""10,000 idle and 2000 slow clients beside good ones (bench/many_clients.py, which also measures): every good request is
answered, no idle client is sent away, and memory stays within the limits."""
import argparse
import pathlib
import resource
import select
import socket
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "python"))
sys.path.insert(0, str(ROOT / "bench"))

import many_clients  # noqa: E402
from plain_client import PROGRAM, get  # noqa: E402

MIB = 1 << 20
BODIES_MIB = INPUTS_MIB = 16  # their limits
MEMORY_MIB = BODIES_MIB + INPUTS_MIB + 64
IDLE, SLOW, GOOD = 10_000, 2000, 200


class ManyClients(unittest.TestCase):
    def test_good_ones_are_served(self):
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        needed = IDLE + SLOW + GOOD + many_clients.SPARE_FILES
        if hard != resource.RLIM_INFINITY and hard < needed:
            self.skipTest("%d descriptors are needed, and the hard limit is %d (ulimit -Hn)" % (needed, hard))
        options = argparse.Namespace(tutti=PROGRAM, idle=IDLE, slow=SLOW, good=GOOD, rate=100, seconds=4, every=2)
        with tempfile.TemporaryDirectory() as folder:
            flags = ["--max-receive-bytes", BODIES_MIB * MIB, "--max-queue-bytes", INPUTS_MIB * MIB]
            for limit in ("idle", "header", "body"):  # on a busy machine all of them take long to come
                flags += ["--%s-timeout-ms" % limit, 600_000]
            server = many_clients.start(PROGRAM, folder, options, *flags)
            program = pathlib.Path(PROGRAM).read_bytes()
            before = many_clients.resident_mib(server)
            host, port = server.address.split(":")
            idle = [socket.create_connection((host, int(port)), timeout=60) for _ in range(IDLE)]
            crowd = many_clients.Crowd((host, int(port)), 0, SLOW, options.every)
            try:
                total = many_clients.load(options, server)["total"]
                self.assertGreater(total["arrived"], 0)
                self.assertEqual(total["ok"], total["arrived"], total)
                self.assertEqual(get(server.address, "/v2/health/ready")[0], 200)
                page = get(server.address, "/metrics")[2].decode()
                count = int(page.split("\ntutti_http_connections ")[1].split("\n")[0])
                self.assertGreater(count, IDLE + SLOW)
                poll = select.poll()
                for client in idle:
                    poll.register(client, select.POLLIN | select.POLLHUP)
                self.assertEqual(poll.poll(0), [])  # none was closed, or has something to read
                if b"__asan_init" not in program and b"__tsan_init" not in program:
                    self.assertLess(many_clients.resident_mib(server), before + MEMORY_MIB)
            finally:
                crowd.end()
                for client in idle:
                    client.close()
            server.process.terminate()
            self.assertEqual(server.process.wait(60), 0, server.said())


if __name__ == "__main__":
    unittest.main()
