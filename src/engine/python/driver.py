"""Runs one instance of a Python model for the server that started this process.

    driver.py PARENT LABEL      PARENT is the server's process id, LABEL is for people

Descriptor 3 is the socket to the server, 4 this file, 5 the module triton_python_backend_utils. Messages are as
python_process.c has them, batches in shared memory as python_batch.h has them. The process ends when the server does.
"""
import array
import os
import signal
import socket
import struct
import sys
import traceback

MESSAGE = struct.Struct("=IIiiq")  # kind, fresh, slot, count, bytes
MODEL, RUN, END = 1, 2, 3
READY, FAILED, DONE = 1, 2, 3
FRESH_IN, FRESH_OUT = 1, 2
MAX_TEXT = 900
TENSOR_WORDS = 3 + 8  # offset, bytes, rank, dimensions
ALIGNMENT = 64
# enum tt_err of the codes of TritonError
ERRORS = {2: -2, 3: -1, 4: -5, 5: -7}
INTERNAL = -10


class Refusal(Exception):
    """An error whose message goes to the server as it is."""


def end_with(parent):
    """The kernel kills this process when the thread that started it ends."""
    import ctypes

    ctypes.CDLL(None).prctl(1, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


def last_lines(error):
    """The end of its traceback, in one line, and all of it on standard error."""
    if isinstance(error, Refusal):
        return str(error)
    text = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    sys.stderr.write(text)
    lines = [line.strip() for line in text.splitlines()]
    lines = [line for line in lines if line.strip("^~ ") and "/proc/self/fd/" not in line]
    return " | ".join(lines[-3:])


class Memory:
    """A file shared with the server. It can grow and never gets shorter."""

    def __init__(self, fd):
        import mmap

        self.fd = fd
        self.make_map = lambda: mmap.mmap(fd, os.fstat(fd).st_size)
        self.map = self.make_map()

    def cover(self, size):
        if size > len(self.map):
            os.ftruncate(self.fd, max(size, 2 * len(self.map)))
            self.map = self.make_map()  # arrays keep the old one as long as they need it

    def close(self):
        os.close(self.fd)


class Instance:
    def __init__(self, connection):
        self.connection = connection
        self.requests = None  # Memory
        self.slots = {}
        self.model = None

    # ---- messages ----

    def receive(self):
        data, files, _, _ = socket.recv_fds(self.connection, MESSAGE.size, 2)
        if len(data) < MESSAGE.size:
            os._exit(0)  # the server has gone
        kind, fresh, slot, count, size = MESSAGE.unpack(data)
        if fresh & FRESH_IN:
            if self.requests:
                self.requests.close()
            self.requests = Memory(files.pop(0))
        if fresh & FRESH_OUT:
            if slot in self.slots:
                self.slots[slot].close()
            self.slots[slot] = Memory(files.pop(0))
        return kind, slot, count, size

    def answer(self, kind, size=0, text=""):
        self.connection.send(MESSAGE.pack(kind, 0, 0, 0, size) + text.encode(errors="replace")[:MAX_TEXT])

    # ---- the model ----

    def load(self, size):
        import importlib.util
        import json

        about = json.loads(self.requests.map[:size])
        self.inputs = [(name, kind, self.utils.triton_to_numpy_type(kind)) for name, kind in about["inputs"]]
        self.outputs = [(name, kind, self.utils.triton_to_numpy_type(kind)) for name, kind in about["outputs"]]
        path = about["path"]
        version = os.path.dirname(path)
        sys.path.insert(0, version)
        found = importlib.util.spec_from_file_location("model", path)
        if found is None:
            raise Refusal("%s is not a Python file" % path)
        module = importlib.util.module_from_spec(found)
        sys.modules["model"] = module
        found.loader.exec_module(module)
        made = getattr(module, "TritonPythonModel", None)
        if not callable(getattr(made, "execute", None)):
            raise Refusal("%s has no class TritonPythonModel with a method execute" % path)
        self.model = made()
        if hasattr(self.model, "initialize"):
            self.model.initialize(
                {
                    "model_config": about["config"],
                    "model_instance_kind": "CPU",
                    "model_instance_name": "%s_%d" % (about["name"], about["instance"]),
                    "model_instance_device_id": "0",
                    "model_repository": os.path.dirname(version),
                    "model_version": os.path.basename(version),
                    "model_name": about["name"],
                }
            )

    # ---- requests ----

    def strings(self, at, shape):
        count, data, found = self.np.prod(shape, dtype=int), self.requests.map, []
        for _ in range(count):
            (length,) = struct.unpack_from("<I", data, at)
            found.append(data[at + 4 : at + 4 + length])
            at += 4 + length
        made = self.np.empty(count, self.np.object_)
        made[:] = found
        return made.reshape(shape)

    def read_requests(self, count):
        np, utils, data = self.np, self.utils, self.requests.map
        each = 2 + len(self.inputs) * TENSOR_WORDS
        words = array.array("q", data[: 8 * each * count])
        names = [name for name, _, _ in self.outputs]
        found = []
        for at in range(0, each * count, each):
            tensors = []
            for i, (name, kind, dtype) in enumerate(self.inputs):
                here = at + 2 + i * TENSOR_WORDS
                offset, shape = words[here], tuple(words[here + 3 : here + 3 + words[here + 2]])
                value = self.strings(offset, shape) if kind == "BYTES" else np.ndarray(shape, dtype, data, offset)
                tensors.append(utils.Tensor(name, value))
            request_id = data[words[at] : words[at] + words[at + 1]].decode(errors="replace")
            found.append(utils.InferenceRequest._received(tensors, request_id, names))
        return found

    # ---- responses ----

    def outputs_of(self, response):
        """An array per output, in the model's order; strings as uint8 with the shape that they have."""
        if not isinstance(response, self.utils.InferenceResponse):
            found = type(response).__name__
            raise Refusal("execute returned a list with a %s in it, not pb_utils.InferenceResponse" % found)
        given = {tensor.name(): tensor.as_numpy() for tensor in response.output_tensors()}
        found = []
        for name, kind, dtype in self.outputs:
            value = given.pop(name, None)
            if value is None:
                raise Refusal("the response of the Python model has no output '%s'" % name)
            shape = value.shape
            if kind == "BYTES":
                if value.dtype.kind not in "SUO":
                    raise Refusal(
                        "output '%s' of the Python model is %s; a tensor of strings holds bytes or str" % (name, value.dtype)
                    )
                value = self.utils.serialize_byte_tensor(value)
            elif value.dtype != dtype:
                raise Refusal(
                    "output '%s' of the Python model is %s; config.pbtxt says TYPE_%s, which is %s"
                    % (name, value.dtype, kind, self.np.dtype(dtype))
                )
            if len(shape) > 8:
                raise Refusal("output '%s' of the Python model has %d dimensions; 8 are the maximum" % (name, len(shape)))
            found.append((shape, value))
        if given:
            raise Refusal("the response of the Python model has an output '%s', and config.pbtxt has not" % next(iter(given)))
        return found

    def judge(self, response):
        """(status, message, outputs)"""
        try:
            if isinstance(response, self.utils.InferenceResponse) and response.has_error():
                error = response.error()
                return ERRORS.get(error.code(), INTERNAL), error.message().encode(errors="replace")[:MAX_TEXT], []
            return 0, b"", self.outputs_of(response)
        except (Refusal, self.utils.TritonModelException) as error:
            return INTERNAL, str(error).encode(errors="replace")[:MAX_TEXT], []

    def write_responses(self, memory, responses):
        """The number of bytes written."""
        np, judged = self.np, [self.judge(response) for response in responses]
        each = 3 + len(self.outputs) * TENSOR_WORDS
        words = array.array("q", bytes(8 * each * len(judged)))
        at, parts = 8 * len(words), []
        for r, (status, text, _) in enumerate(judged):
            words[r * each : r * each + 3] = array.array("q", (status, at, len(text)))
            parts.append((at, np.frombuffer(text, np.uint8)))
            at += len(text)
        for o in range(len(self.outputs)):
            at = -(-at // ALIGNMENT) * ALIGNMENT
            for r, (status, _, outputs) in enumerate(judged):
                if status:
                    continue
                shape, value = outputs[o]
                here = r * each + 3 + o * TENSOR_WORDS
                numbers = (at, value.nbytes, len(shape), *shape)
                words[here : here + len(numbers)] = array.array("q", numbers)
                parts.append((at, value))
                at += value.nbytes
        memory.cover(at)
        for offset, value in parts:
            if value.nbytes:
                np.ndarray(value.shape, value.dtype, memory.map, offset)[...] = value
        memory.map[: 8 * len(words)] = words.tobytes()
        return at

    def run(self, slot, count):
        memory = self.slots[slot]
        try:
            responses = self.model.execute(self.read_requests(count))
            if not isinstance(responses, list) or len(responses) != count:
                what = "%d" % len(responses) if isinstance(responses, list) else "a %s and no" % type(responses).__name__
                raise Refusal("execute returned %s responses for %d requests" % (what, count))
            size = self.write_responses(memory, responses)
        except Exception as error:
            self.answer(FAILED, text="the Python model failed: " + last_lines(error))
        else:
            self.answer(DONE, size)
        if slot < 0:
            self.slots.pop(slot).close()

    # ---- life ----

    def prepare(self):
        """What needs more than the standard library."""
        import importlib.machinery
        import importlib.util

        try:
            import numpy
        except ImportError as error:
            raise Refusal(
                "%s has no numpy (%s): install it there, or name another interpreter (--python)" % (sys.executable, error)
            )
        self.np = numpy
        name = "triton_python_backend_utils"
        loader = importlib.machinery.SourceFileLoader(name, "/proc/self/fd/5")
        self.utils = importlib.util.module_from_spec(importlib.util.spec_from_loader(name, loader))
        sys.modules[name] = self.utils
        loader.exec_module(self.utils)

    def start(self):
        """False: the model cannot be loaded, and the server knows why."""
        try:
            if not hasattr(socket, "recv_fds"):
                self.connection.recv(MESSAGE.size)
                raise Refusal("%s is Python %s; 3.9 or later is needed" % (sys.executable, sys.version.split()[0]))
            _, _, _, size = self.receive()  # before an answer: what is left unread would undo that
            self.prepare()
            self.load(size)
        except BaseException as error:
            self.answer(FAILED, text=last_lines(error))
            return False
        self.answer(READY)
        return True

    def serve(self):
        while True:
            kind, slot, count, _ = self.receive()
            if kind == END:
                break
            self.run(slot, count)
        if hasattr(self.model, "finalize"):
            self.model.finalize()


def main():
    end_with(int(sys.argv[1]))
    connection = socket.socket(fileno=3)
    connection.set_inheritable(False)
    if not getattr(sys.flags, "safe_path", False):
        del sys.path[0]  # the driver's folder
    instance = Instance(connection)
    code = 1
    try:
        os.set_inheritable(4, False)
        if instance.start():
            instance.serve()
            code = 0
    except BaseException as error:
        traceback.print_exc()
        if isinstance(error, SystemExit):
            code = error.code if isinstance(error.code, int) else int(error.code is not None)
    sys.stdout.flush()
    sys.stderr.flush()
    # Threads that the model left behind do not hold it. A larger code would raise OverflowError.
    os._exit(code & 0xFF)


main()
