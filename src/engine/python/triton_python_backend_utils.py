"""The module that models of Triton's Python backend import as pb_utils: what models of batched tensors use of it.

What is not here raises TritonModelException with its name.
"""
import json
import struct
import sys

import numpy as np

_NUMPY_OF = {
    "BOOL": np.bool_,
    "UINT8": np.uint8,
    "UINT16": np.uint16,
    "UINT32": np.uint32,
    "UINT64": np.uint64,
    "INT8": np.int8,
    "INT16": np.int16,
    "INT32": np.int32,
    "INT64": np.int64,
    "FP16": np.float16,
    "FP32": np.float32,
    "FP64": np.float64,
    "BYTES": np.object_,
}


class TritonModelException(Exception):
    """What a model raises to reject its batch."""


def _refuse(name):
    raise TritonModelException("%s is not supported by Tutti's Python backend" % name)


def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(name)
    _refuse("triton_python_backend_utils." + name)


class TritonError:
    """The error of one request of a batch."""

    UNKNOWN, INTERNAL, NOT_FOUND, INVALID_ARG, UNAVAILABLE, UNSUPPORTED, ALREADY_EXISTS, CANCELLED = range(8)

    def __init__(self, message, code=INTERNAL):
        self._message, self._code = str(message), code

    def message(self):
        return self._message

    def code(self):
        return self._code


class Tensor:
    """A name and a numpy array. One of strings holds bytes or str; an input of strings holds bytes."""

    def __init__(self, name, numpy_array):
        if not isinstance(numpy_array, np.ndarray):
            raise TritonModelException("Tensor '%s' needs a numpy array, not %s" % (name, type(numpy_array).__name__))
        self._name, self._array = name, numpy_array

    def name(self):
        return self._name

    def as_numpy(self):
        return self._array

    def shape(self):
        return list(self._array.shape)

    def triton_dtype(self):
        return numpy_to_triton_type(self._array.dtype)

    def is_cpu(self):
        return True

    def to_dlpack(self):
        _refuse("Tensor.to_dlpack")

    @staticmethod
    def from_dlpack(name, tensor):
        _refuse("Tensor.from_dlpack")


class InferenceRequest:
    """One request of a batch. Its arrays are valid during `execute`; a model copies what it keeps."""

    def __init__(self, *arguments, **options):
        _refuse("InferenceRequest(): a model that calls models")

    @classmethod
    def _received(cls, tensors, request_id, output_names):
        self = cls.__new__(cls)
        self._tensors, self._id, self._output_names = tensors, request_id, output_names
        return self

    def inputs(self):
        return list(self._tensors)

    def request_id(self):
        return self._id

    def requested_output_names(self):
        return list(self._output_names)

    def is_cancelled(self):
        return False

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        _refuse("InferenceRequest." + name)


class InferenceResponse:
    """The outputs of one request, or its error."""

    def __init__(self, output_tensors=(), error=None):
        if error is not None and not isinstance(error, TritonError):
            raise TritonModelException("the error of an InferenceResponse is a TritonError")
        self._tensors, self._error = list(output_tensors or ()), error
        if error is None and not all(isinstance(tensor, Tensor) for tensor in self._tensors):
            raise TritonModelException("output_tensors of an InferenceResponse are pb_utils.Tensor")

    def output_tensors(self):
        return list(self._tensors)

    def has_error(self):
        return self._error is not None

    def error(self):
        return self._error


class Logger:
    """Lines for the server's log."""

    INFO, WARNING, ERROR, VERBOSE = "I", "W", "E", "V"

    @staticmethod
    def log(message, level=INFO):
        if level != Logger.VERBOSE:
            for line in str(message).splitlines():
                sys.stderr.write("\x01%s%s\n" % (level, line))

    @staticmethod
    def log_info(message):
        Logger.log(message, Logger.INFO)

    @staticmethod
    def log_warn(message):
        Logger.log(message, Logger.WARNING)

    @staticmethod
    def log_error(message):
        Logger.log(message, Logger.ERROR)

    @staticmethod
    def log_verbose(message):
        Logger.log(message, Logger.VERBOSE)


def _named(tensors, name):
    return next((tensor for tensor in tensors if tensor.name() == name), None)


def get_input_tensor_by_name(inference_request, name):
    return _named(inference_request.inputs(), name)


def get_output_tensor_by_name(inference_response, name):
    return _named(inference_response.output_tensors(), name)


def _config_of(model_config, kind, name):
    config = json.loads(model_config) if isinstance(model_config, str) else model_config
    return next((properties for properties in config.get(kind, []) if properties["name"] == name), None)


def get_input_config_by_name(model_config, name):
    return _config_of(model_config, "input", name)


def get_output_config_by_name(model_config, name):
    return _config_of(model_config, "output", name)


def using_decoupled_model_transaction_policy(model_config):
    return bool(model_config.get("model_transaction_policy", {}).get("decoupled", False))


def triton_to_numpy_type(data_type):
    """Of a number of Triton's enumeration, or a name: "FP32"."""
    if not isinstance(data_type, str):
        names = ["BOOL", "UINT8", "UINT16", "UINT32", "UINT64", "INT8", "INT16", "INT32", "INT64"]
        data_type = dict(enumerate(names + ["FP16", "FP32", "FP64", "BYTES"], 1)).get(int(data_type), "")
    if data_type not in _NUMPY_OF:
        _refuse("the data type %s" % (data_type or "INVALID"))
    return _NUMPY_OF[data_type]


def triton_string_to_numpy(triton_type_string):
    """Of a name as config.pbtxt has it: "TYPE_FP32"."""
    name = triton_type_string.removeprefix("TYPE_")
    return triton_to_numpy_type("BYTES" if name == "STRING" else name)


def numpy_to_triton_type(data_type):
    data_type = np.dtype(data_type)
    if data_type.kind in "SUO":
        return "BYTES"
    name = next((name for name, known in _NUMPY_OF.items() if np.dtype(known) == data_type), None)
    return name or _refuse("the data type %s" % data_type)


def serialize_byte_tensor(input_tensor):
    """A uint8 array: for each element, in order, 4 bytes of length and its bytes."""
    parts = []
    for item in input_tensor.ravel().tolist():
        data = item if isinstance(item, bytes) else item.encode() if isinstance(item, str) else None
        if data is None:
            raise TritonModelException("an element of a tensor of strings is bytes or str, not %s" % type(item).__name__)
        parts += (struct.pack("<I", len(data)), data)
    return np.frombuffer(b"".join(parts), np.uint8)


def deserialize_bytes_tensor(encoded_tensor):
    """The inverse: an array of bytes objects, of one dimension."""
    data, found, at = bytes(encoded_tensor), [], 0
    while at < len(data):
        (length,) = struct.unpack_from("<I", data, at)
        found.append(data[at + 4 : at + 4 + length])
        at += 4 + length
    return np.array(found + [None], np.object_)[:-1]
