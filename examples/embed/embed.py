#!/usr/bin/env python3
"""Serves a model within a Python program, by ctypes: no package is needed.

    embed.py LIBRARY REPOSITORY MODEL INPUT COLUMNS [REQUESTS]

MODEL has the input INPUT, FP32 of shape [rows, COLUMNS]. The class Server is all that a program needs of the library."""
import array
import ctypes
import json
import queue
import sys


class Tensor(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_char_p),
        ("datatype", ctypes.c_char_p),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("rank", ctypes.c_int32),
        ("bytes", ctypes.c_void_p),
        ("size_bytes", ctypes.c_size_t),
    ]


class Request(ctypes.Structure):
    _fields_ = [
        ("model", ctypes.c_char_p),
        ("version", ctypes.c_char_p),
        ("inputs", ctypes.POINTER(Tensor)),
        ("input_count", ctypes.c_int32),
        ("timeout_us", ctypes.c_int64),
        ("priority", ctypes.c_int32),
    ]


class Answer(ctypes.Structure):
    _fields_ = [
        ("id", ctypes.c_uint64),
        ("code", ctypes.c_int),
        ("why", ctypes.c_char_p),
        ("outputs", ctypes.POINTER(Tensor)),
        ("output_count", ctypes.c_int32),
    ]


class Error(ctypes.Structure):
    _fields_ = [("text", ctypes.c_char * 1024)]


DONE = WORD = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.POINTER(Answer))


class TuttiError(Exception):
    def __init__(self, code, text):
        super().__init__(text)
        self.code = code


class Server:
    """A repository that is open. Answers are passed to callbacks, on a thread of the library."""

    def __init__(self, library, repository, *options):
        self.library = ctypes.CDLL(library)
        self.library.tutti_version.restype = ctypes.c_char_p
        self.library.tutti_free.argtypes = [ctypes.c_void_p]
        self.library.tutti_close.argtypes = [ctypes.c_void_p]
        self.library.tutti_cancel.argtypes = [ctypes.c_void_p, ctypes.c_uint64]
        self.callbacks = {}
        self.next_key = 1
        self.done = DONE(self.on_done)  # one for all; it must live as long as the server
        self.word = WORD(self.on_word)  # likewise
        self.server = ctypes.c_void_p()
        texts = (ctypes.c_char_p * len(options))(*[option.encode() for option in options])
        self.check(self.library.tutti_open, repository.encode(), texts, len(options), ctypes.byref(self.server))

    def check(self, function, *arguments):
        why = Error()
        code = function(*arguments, ctypes.byref(why))
        if code != 0:
            raise TuttiError(code, why.text.decode())

    def outputs(self, answer):
        outputs = {}
        for tensor in answer.outputs[: answer.output_count]:
            shape = tensor.shape[: tensor.rank]
            data = ctypes.string_at(tensor.bytes, tensor.size_bytes)
            outputs[tensor.name.decode()] = (tensor.datatype.decode(), shape, data)
        return outputs

    def on_word(self, key, answer):
        self.callbacks[key][1](self.outputs(answer.contents))

    def on_done(self, key, answer):
        callback = self.callbacks.pop(key)[0]
        answer = answer.contents
        if answer.code != 0:
            callback(None, TuttiError(answer.code, answer.why.decode()))
        else:
            callback(self.outputs(answer), None)

    def submit(self, model, inputs, callback, timeout_us=0, word=None):
        """`inputs`: {name: (datatype, shape, bytes)}. callback(outputs, error). `word`: of a model that emits words,
        word(outputs) with each. Returns the id for cancel()."""
        kept = []
        tensors = (Tensor * len(inputs))()
        for tensor, (name, (datatype, shape, data)) in zip(tensors, inputs.items()):
            kept.append((ctypes.c_int64 * len(shape))(*shape))
            kept.append(ctypes.create_string_buffer(data, len(data)))
            tensor.name, tensor.datatype = name.encode(), datatype.encode()
            tensor.shape, tensor.rank = kept[-2], len(shape)
            tensor.bytes, tensor.size_bytes = ctypes.cast(kept[-1], ctypes.c_void_p), len(data)
        request = Request(
            model=model.encode(), inputs=tensors, input_count=len(inputs), timeout_us=timeout_us
        )
        key, self.next_key = self.next_key, self.next_key + 1
        self.callbacks[key] = callback, word
        number = ctypes.c_uint64()
        try:
            self.check(
                self.library.tutti_stream if word else self.library.tutti_submit,
                self.server,
                ctypes.byref(request),
                *([self.word] if word else []),
                self.done,
                ctypes.c_void_p(key),
                ctypes.byref(number),
            )
        except TuttiError:
            del self.callbacks[key]
            raise
        return number.value

    def cancel(self, number):
        """False: the request has ended."""
        return self.library.tutti_cancel(self.server, number) == 0

    def statistics(self):
        text = ctypes.c_char_p()
        self.check(self.library.tutti_statistics, self.server, ctypes.byref(text))
        statistics = json.loads(text.value)
        self.library.tutti_free(text)
        return statistics

    def close(self):
        self.library.tutti_close(self.server)
        self.server = None


def main(library, repository, model, name, columns, requests="100"):
    server = Server(library, repository, "executors=2")
    row = array.array("f", [0.5] * int(columns)).tobytes()
    answers = queue.Queue()
    for _ in range(int(requests)):
        inputs = {name: ("FP32", [1, int(columns)], row)}
        server.submit(model, inputs, lambda *answer: answers.put(answer), timeout_us=10000000)
    answered, first = 0, None
    for _ in range(int(requests)):
        outputs, error = answers.get()
        if error:
            print(error, file=sys.stderr)
            continue
        answered += 1
        datatype, shape, data = next(iter(outputs.values()))
        first = array.array("f", data)[0]
    print("%d of %s answered, the last begins with %g" % (answered, requests, first))
    print(json.dumps(server.statistics()))
    server.close()


if __name__ == "__main__":
    if len(sys.argv) < 6:
        sys.exit(__doc__)
    main(*sys.argv[1:])
