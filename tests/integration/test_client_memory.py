#!/usr/bin/env python3
"""Triton's system shared memory by the unmodified tritonclient, over HTTP and gRPC: tensors in regions, bounds, regions that
vanish or shrink while they are registered, and a server that shares none."""
import json
import os
import pathlib
import signal
import socket
import sys
import tempfile
import unittest
import urllib.error
import urllib.request

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "python"))

from needs import need  # noqa: E402

need("numpy", "tritonclient", "grpc")

import numpy as np  # noqa: E402
import tritonclient.grpc  # noqa: E402
import tritonclient.http  # noqa: E402
import tritonclient.utils.shared_memory as shm  # noqa: E402
from plain_client import Server  # noqa: E402
from server_process import free_port  # noqa: E402
from tritonclient.utils import InferenceServerException  # noqa: E402

CONFIG = """backend: "emulated"
max_batch_size: 8
input { name: "INPUT0" data_type: TYPE_FP32 dims: -1 }
output { name: "OUTPUT0" data_type: TYPE_FP32 dims: -1 }
"""
COUNT = 1000
BYTES = 4 * COUNT


class Shared(unittest.TestCase):
    FLAGS = ["--shared-memory"]
    count = 0  # of regions of this process

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        model = pathlib.Path(cls.folder.name, "echo")
        (model / "1").mkdir(parents=True)
        (model / "config.pbtxt").write_text(CONFIG)
        (model / "profile.pbtxt").write_text("linear { beta_ms: 0.001 }\n")
        port = free_port()
        cls.server = Server(cls.folder.name, "--grpc-port", port, *cls.FLAGS)
        cls.clients = {
            tritonclient.http: tritonclient.http.InferenceServerClient(cls.server.address),
            tritonclient.grpc: tritonclient.grpc.InferenceServerClient("127.0.0.1:%d" % port),
        }

    @classmethod
    def tearDownClass(cls):
        for client in cls.clients.values():
            client.close()
        code = cls.server.end(signal.SIGTERM)
        cls.folder.cleanup()
        if code != 0:
            raise AssertionError("the server ended with %d:\n%s" % (code, cls.server.said()))

    def make(self, size, what="in"):
        """A region of this process, under a name of its own."""
        Shared.count += 1
        key = "/tutti-test-%d-%d" % (os.getpid(), Shared.count)
        region = shm.create_shared_memory_region(what, key, size)
        self.addCleanup(shm.destroy_shared_memory_region, region)
        return key, region

    def each(self):
        for library, client in self.clients.items():
            self.addCleanup(client.unregister_system_shared_memory)
            with self.subTest(library.__name__):
                yield library, client
                client.unregister_system_shared_memory()

    def refused(self, call, sentence):
        with self.assertRaises(InferenceServerException) as raised:
            call()
        self.assertIn(sentence, raised.exception.message())

    def infer(self, library, client, size=BYTES, offset=0, out_size=BYTES, count=COUNT):
        given = library.InferInput("INPUT0", [1, count], "FP32")
        given.set_shared_memory("in", size, offset)
        wanted = library.InferRequestedOutput("OUTPUT0")
        wanted.set_shared_memory("out", out_size)
        return client.infer("echo", [given], outputs=[wanted], request_id="7")


class SharedMemory(Shared):
    def test_tensors_in_regions(self):
        for library, client in self.each():
            key_in, region_in = self.make(2 * BYTES, "in")
            key_out, region_out = self.make(BYTES, "out")
            client.register_system_shared_memory("in", key_in, 2 * BYTES)
            client.register_system_shared_memory("out", key_out, BYTES)
            for shift in 0, BYTES:
                values = np.random.default_rng(shift).random((1, COUNT), np.float32)
                shm.set_shared_memory_region(region_in, [values], offset=shift)
                result = self.infer(library, client, offset=shift)
                answer = shm.get_contents_as_numpy(region_out, np.float32, [1, COUNT])
                self.assertTrue((answer == values).all())
                output = result.get_output("OUTPUT0")
                if library is tritonclient.http:
                    self.assertEqual(output["parameters"], {"shared_memory_region": "out", "shared_memory_byte_size": BYTES})
                else:
                    self.assertEqual(output.parameters["shared_memory_region"].string_param, "out")
                    self.assertEqual(output.parameters["shared_memory_byte_size"].int64_param, BYTES)

    def test_a_tensor_in_memory_beside_one_in_the_body(self):
        for library, client in self.each():
            key, region = self.make(BYTES, "in")
            client.register_system_shared_memory("in", key, BYTES)
            values = np.arange(COUNT, dtype=np.float32)[None]
            shm.set_shared_memory_region(region, [values])
            given = library.InferInput("INPUT0", [1, COUNT], "FP32")
            given.set_shared_memory("in", BYTES)
            self.assertTrue((client.infer("echo", [given]).as_numpy("OUTPUT0") == values).all())
            # Into memory, from the body.
            key, region = self.make(BYTES, "out")
            client.register_system_shared_memory("out", key, BYTES)
            given = library.InferInput("INPUT0", [1, COUNT], "FP32")
            given.set_data_from_numpy(values + 1)
            wanted = library.InferRequestedOutput("OUTPUT0")
            wanted.set_shared_memory("out", BYTES)
            client.infer("echo", [given], outputs=[wanted])
            self.assertTrue((shm.get_contents_as_numpy(region, np.float32, [1, COUNT]) == values + 1).all())

    def test_status(self):
        names = lambda status: sorted(  # noqa: E731
            [r["name"] for r in status] if isinstance(status, list) else list(status.regions)
        )
        for library, client in self.each():
            key, _ = self.make(BYTES, "in")
            client.register_system_shared_memory("a", key, 100)
            client.register_system_shared_memory("b", key, 200, offset=50)
            self.assertEqual(names(client.get_system_shared_memory_status()), ["a", "b"])
            status = client.get_system_shared_memory_status("b")
            region = status[0] if isinstance(status, list) else status.regions["b"]
            found = region if isinstance(region, dict) else {
                f: getattr(region, f) for f in ("name", "key", "offset", "byte_size")
            }
            self.assertEqual(found, {"name": "b", "key": key, "offset": 50, "byte_size": 200})
            client.unregister_system_shared_memory("b")
            client.unregister_system_shared_memory("nothing")
            self.assertEqual(names(client.get_system_shared_memory_status()), ["a"])
            self.refused(lambda: client.get_system_shared_memory_status("b"), "Unable to find system shared memory region: 'b'")
            client.unregister_system_shared_memory()
            self.assertEqual(names(client.get_system_shared_memory_status()), [])
            metadata = client.get_server_metadata()
            extensions = metadata["extensions"] if isinstance(metadata, dict) else metadata.extensions
            self.assertIn("system_shared_memory", list(extensions))

    def test_what_cannot_be_registered(self):
        for library, client in self.each():
            key, _ = self.make(BYTES, "in")
            register = client.register_system_shared_memory
            register("in", key, BYTES)
            for name, bad_key, size, offset, sentence in [
                ("in", key, BYTES, 0, "shared memory region 'in' already in manager"),
                ("x", "/no-such-object-of-anybody", 8, 0, "Unable to open shared memory region"),
                ("x", key, BYTES + 1, 0, "are outside"),
                ("x", key, BYTES, 1, "are outside"),
                ("x", key, 8, 1 << 62, "are outside"),
                ("x", "/../etc/passwd", 8, 0, "is no key of shared memory"),
                ("x", "/a/b", 8, 0, "is no key of shared memory"),
                ("x", "/..", 8, 0, "is no key of shared memory"),
                ("x", "/", 8, 0, "is no key of shared memory"),
                ("x" * 300, key, 8, 0, "a region's name has 1 to 255 bytes"),
            ]:
                self.refused(lambda: register(name, bad_key, size, offset), sentence)

    def test_bounds_of_requests(self):
        for library, client in self.each():
            key_in, region_in = self.make(BYTES, "in")
            key_out, _ = self.make(BYTES, "out")
            client.register_system_shared_memory("in", key_in, BYTES)
            self.refused(lambda: self.infer(library, client), "Unable to find shared memory region: 'out'")
            client.register_system_shared_memory("out", key_out, BYTES)
            for wrong, sentence in [
                ({"offset": 4}, "Invalid offset + byte size for shared memory region: 'in'"),
                ({"size": BYTES + 4}, "Invalid offset + byte size for shared memory region: 'in'"),
                ({"size": BYTES - 4}, "are not its shape's"),
                ({"count": COUNT - 1}, "are not its shape's"),
                ({"out_size": BYTES + 1}, "Invalid offset + byte size for shared memory region: 'out'"),
                ({"out_size": BYTES - 1}, "should be at least %d bytes" % BYTES),
            ]:
                self.refused(lambda: self.infer(library, client, **wrong), sentence)
            self.infer(library, client)

    def test_a_region_that_shrinks_or_vanishes(self):
        for library, client in self.each():
            key_in, region_in = self.make(BYTES, "in")
            key_out, region_out = self.make(BYTES, "out")
            client.register_system_shared_memory("in", key_in, BYTES)
            client.register_system_shared_memory("out", key_out, BYTES)
            values = np.arange(COUNT, dtype=np.float32)[None]
            shm.set_shared_memory_region(region_in, [values])
            os.truncate("/dev/shm" + key_out, 8)
            self.refused(lambda: self.infer(library, client), "has become shorter")
            self.assertEqual(os.stat("/dev/shm" + key_out).st_size, 8)
            os.truncate("/dev/shm" + key_out, BYTES)
            os.truncate("/dev/shm" + key_in, 0)
            self.refused(lambda: self.infer(library, client), "has become shorter")
            os.truncate("/dev/shm" + key_in, BYTES)
            os.unlink("/dev/shm" + key_in)  # it stays open
            self.infer(library, client)
            self.assertTrue((shm.get_contents_as_numpy(region_out, np.float32, [1, COUNT]) == 0).all())
            pathlib.Path("/dev/shm" + key_in).write_bytes(b"")  # the client removes it at the end

    def read_and_written(self):
        """Bytes that threads of the server read and wrote: of the pool that works beside the connections' threads, and of others."""
        sums = {True: 0, False: 0}
        for task in pathlib.Path("/proc", str(self.server.process.pid), "task").iterdir():
            counts = dict(line.split(": ") for line in (task / "io").read_text().splitlines())
            sums[(task / "comm").read_text().strip() == "tutti-bodies"] += int(counts["rchar"]) + int(counts["wchar"])
        return sums

    def test_much_is_copied_beside_the_connections(self):
        count, rounds = 1 << 20, 3
        size = 4 * count
        for library, client in self.each():
            key_in, region_in = self.make(size, "in")
            key_out, region_out = self.make(size, "out")
            client.register_system_shared_memory("in", key_in, size)
            client.register_system_shared_memory("out", key_out, size)
            before = self.read_and_written()
            for seed in range(rounds):
                values = np.random.default_rng(seed).random((1, count), np.float32)
                shm.set_shared_memory_region(region_in, [values])
                self.infer(library, client, size, 0, size, count)
                self.assertTrue((shm.get_contents_as_numpy(region_out, np.float32, [1, count]) == values).all())
            after = self.read_and_written()
            self.assertGreaterEqual(after[True] - before[True], 2 * rounds * size)
            self.assertLess(after[False] - before[False], size)

    def test_much_that_shrinks(self):
        count = 1 << 20
        size = 4 * count
        for library, client in self.each():
            key_in, region_in = self.make(size, "in")
            key_out, region_out = self.make(size, "out")
            client.register_system_shared_memory("in", key_in, size)
            client.register_system_shared_memory("out", key_out, size)
            for key in key_out, key_in:
                os.truncate("/dev/shm" + key, size - 8)
                self.refused(lambda: self.infer(library, client, size, 0, size, count), "has become shorter")
                os.truncate("/dev/shm" + key, size)
            self.infer(library, client, size, 0, size, count)

    def test_clients_that_leave_while_much_is_copied(self):
        count = 1 << 22
        size = 4 * count
        key, _ = self.make(size, "in")
        for library, client in self.each():
            client.register_system_shared_memory("in", key, size)
            given = library.InferInput("INPUT0", [1, count], "FP32")
            given.set_shared_memory("in", size)
            if library is tritonclient.grpc:
                calls = [client.async_infer("echo", [given], callback=lambda result, error: None) for _ in range(8)]
                for call in calls:
                    call.cancel()
            else:
                body, _ = library.InferenceServerClient.generate_request_body([given])
                host, port = self.server.address.split(":")
                for _ in range(8):
                    with socket.create_connection((host, int(port)), timeout=60) as one:
                        one.sendall(b"POST /v2/models/echo/infer HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n" % len(body) + body)
            result = client.infer("echo", [given])  # the server is well, and nothing is mixed up
            self.assertEqual(result.as_numpy("OUTPUT0").shape, (1, count))

    def test_keys_that_are_no_memory(self):
        folder, link, place = ("/tutti-test-%d-%s" % (os.getpid(), kind) for kind in ("folder", "link", "socket"))
        os.mkdir("/dev/shm" + folder)
        self.addCleanup(os.rmdir, "/dev/shm" + folder)
        os.symlink("/dev/null", "/dev/shm" + link)
        self.addCleanup(os.unlink, "/dev/shm" + link)
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind("/dev/shm" + place)
        self.addCleanup(os.unlink, "/dev/shm" + place)
        for _, client in self.each():
            for key in folder, link, place:
                self.refused(lambda: client.register_system_shared_memory("x", key, 8), "'%s' is no shared memory" % key)
            self.refused(lambda: client.register_system_shared_memory("x", folder, 0), '"byte_size" must be greater than 0')

    def test_malformed_bodies(self):
        for path, body, sentence in [
            ("region/x/register", "{}", '"key" is missing'),
            ("region/x/register", '{"key": "/a"}', '"byte_size" is missing'),
            ("region/x/register", '{"key": "", "byte_size": 8}', '"key" is empty'),
            ("region/x/register", '{"key": "/a", "byte_size": 0}', '"byte_size" must be greater than 0'),
            ("region/x/register", '{"key": 5, "byte_size": 8}', "JSON, byte"),
            ("region/x/register", '{"key": "/a", "byte_size": -8}', "byte_size"),
            ("region/x/register", "", "JSON, byte 0"),
        ]:
            url = "http://%s/v2/systemsharedmemory/%s" % (self.server.address, path)
            with self.assertRaises(urllib.error.HTTPError) as raised:
                urllib.request.urlopen(url, body.encode(), timeout=60)
            self.assertEqual(raised.exception.code, 400)
            self.assertIn(sentence, json.loads(raised.exception.read())["error"])
            raised.exception.close()


class Without(Shared):
    FLAGS = []

    def test_nothing_is_shared_unless_asked_for(self):
        for library, client in self.clients.items():
            key, _ = self.make(BYTES, "in")
            self.refused(lambda: client.register_system_shared_memory("in", key, BYTES), "shared memory is not supported")
            self.refused(client.get_system_shared_memory_status, "start it with --shared-memory")
            self.refused(lambda: self.infer(library, client), "start it with --shared-memory")
            metadata = client.get_server_metadata()
            extensions = metadata["extensions"] if isinstance(metadata, dict) else metadata.extensions
            self.assertNotIn("system_shared_memory", list(extensions))


if __name__ == "__main__":
    unittest.main()
