"""A small ONNX graph builder: nodes in order, named tensors, weights as initializers.

Every method that adds a node returns the name of its (first) output, so that a model reads as a
sequence of assignments. The same calls give the same bytes: names are counted, nothing is random.
"""
import numpy as np
from onnx import TensorProto, helper, numpy_helper

IR_VERSION = 8

# KServe's name of a type -> ONNX's. config.pbtxt says TYPE_<name>, and TYPE_STRING for BYTES.
ONNX_TYPES = {
    "BOOL": TensorProto.BOOL,
    "UINT8": TensorProto.UINT8,
    "UINT16": TensorProto.UINT16,
    "UINT32": TensorProto.UINT32,
    "UINT64": TensorProto.UINT64,
    "INT8": TensorProto.INT8,
    "INT16": TensorProto.INT16,
    "INT32": TensorProto.INT32,
    "INT64": TensorProto.INT64,
    "FP16": TensorProto.FLOAT16,
    "BF16": TensorProto.BFLOAT16,
    "FP32": TensorProto.FLOAT,
    "FP64": TensorProto.DOUBLE,
    "BYTES": TensorProto.STRING,
}


class Graph:
    def __init__(self, name, opset=17):
        self.name = name
        self.opset = opset
        self.nodes = []
        self.weights = []
        self.inputs = []
        self.outputs = []
        self._known = {}

    def input(self, name, datatype, shape):
        self.inputs.append(helper.make_tensor_value_info(name, ONNX_TYPES[datatype], shape))
        return name

    def output(self, name, datatype, shape):
        self.outputs.append(helper.make_tensor_value_info(name, ONNX_TYPES[datatype], shape))

    def weight(self, name, array):
        # np.array and not ascontiguousarray: the latter makes a 0-d constant 1-d.
        self.weights.append(numpy_helper.from_array(np.array(array, order="C"), name))
        return name

    def constant(self, value, dtype):
        """A shared small constant; equal values of equal type are stored once."""
        array = np.array(value, dtype=dtype)
        key = (array.dtype.str, array.shape, array.tobytes())
        if key not in self._known:
            self._known[key] = self.weight("const.%d" % len(self._known), array)
        return self._known[key]

    def op(self, kind, *inputs, out=None, outs=None, **attributes):
        outputs = outs or [out or "%s.%d" % (kind.lower(), len(self.nodes))]
        name = "%s/%d" % (kind, len(self.nodes))
        self.nodes.append(helper.make_node(kind, list(inputs), outputs, name=name, **attributes))
        return outputs[0]

    def to_graph(self):
        """As the body of a Loop; it may read what the graph around it has made."""
        return helper.make_graph(
            self.nodes, self.name, self.inputs, self.outputs, initializer=self.weights
        )

    def to_bytes(self):
        domains = sorted({node.domain for node in self.nodes} - {""})
        model = helper.make_model(
            self.to_graph(),
            opset_imports=[helper.make_opsetid("", self.opset)]
            + [helper.make_opsetid(domain, 1) for domain in domains],
            ir_version=IR_VERSION,
            producer_name="tutti",
        )
        return model.SerializeToString(deterministic=True)
