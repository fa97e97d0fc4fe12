"""What the tests that drive a running server share. The server's address is $TUTTI_HTTP."""
import os
import re
import threading
import unittest

import numpy as np
import tritonclient.http as http
from transport import triton_client
from tritonclient.utils import InferenceServerException


def address():
    found = os.environ.get("TUTTI_HTTP")
    if not found:
        raise RuntimeError(
            "TUTTI_HTTP is not set: it names the server to test, as 127.0.0.1:8000; "
            "tests/python/run_server_tests.py starts one and sets it"
        )
    return found


def rows_are_exact():
    """Whether batched rows are known to equal single rows bit for bit on this processor.

    It is a property of ONNX Runtime's kernels, established with AVX-512; elsewhere the rows are
    compared with a tolerance that still distinguishes the answers of two requests.
    """
    try:
        with open("/proc/cpuinfo", encoding="ascii", errors="replace") as info:
            return "avx512f" in info.read()
    except OSError:
        return False


EXACT = rows_are_exact()


def tensor(name, array, datatype=None, binary=True):
    array = np.asarray(array)
    datatype = datatype or http.np_to_triton_dtype(array.dtype)
    made = http.InferInput(name, list(array.shape), datatype)
    made.set_data_from_numpy(array, binary_data=binary)
    return made


def infer(client, model, arrays, **options):
    """Asks; again where the server gave the request up because it would have been late: a machine
    that is busy with other things is no fault of the server, and a refusal is not a wrong answer."""
    inputs = [tensor(name, a) for name, a in arrays.items()]
    for _ in range(200):
        try:
            return client.infer(model, inputs, **options)
        except InferenceServerException as error:
            if not re.search(r"dropped \((deadline|early)\)", str(error)):
                raise
    raise AssertionError("every one of 200 tries of model %s would have been late" % model)


class ServerCase(unittest.TestCase):
    def setUp(self):
        # One connection: what an error leaves behind is seen by the next request.
        self.client = triton_client(address(), concurrency=1, network_timeout=60)
        self.addCleanup(self.client.close)

    def assert_rows_equal(self, got, expected, what=""):
        self.assertEqual(got.shape, expected.shape, what)
        self.assertEqual(got.dtype, expected.dtype, what)
        if EXACT:
            np.testing.assert_array_equal(got, expected, err_msg=what)
        else:
            np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-6, err_msg=what)

    def in_threads(self, count, work):
        """Runs work(index, client) in `count` threads at once, each with a connection of its own.
        Fails with the first thread's exception, or when one does not come back."""
        errors = []
        start = threading.Barrier(count)

        def body(index):
            try:
                client = triton_client(address(), concurrency=1, network_timeout=60)
                try:
                    start.wait(30)
                    work(index, client)
                finally:
                    client.close()
            except BaseException as error:  # noqa: the test's thread raises it again
                errors.append(error)

        threads = [threading.Thread(target=body, args=(i,), daemon=True) for i in range(count)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(120)
            self.assertFalse(thread.is_alive(), "a request has had no answer for two minutes")
        if errors:
            raise errors[0]
