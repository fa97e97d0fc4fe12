"""What one model of the repository consists of, and how it is written.

    NAME/config.pbtxt   the name, the batch limit and the tensors, as Triton reads them
    NAME/1/model.onnx   the graph
    NAME/tutti.pbtxt    what Triton has no word for: the deadline of a request, cells

A model of cells has a file per type of cell in the place of model.onnx. Tokenizers and ensembles have an empty folder 1.

Files are written beside their place and renamed into it, so that an interrupted run leaves no
half model under its final name.
"""
import dataclasses
import os
import pathlib
import typing


@dataclasses.dataclass
class Tensor:
    name: str
    datatype: str  # KServe's name: FP32, INT64, BYTES, ...
    dims: list  # without the batch dimension when max_batch_size > 0; -1 is any length


@dataclasses.dataclass
class Model:
    name: str
    inputs: list
    outputs: list
    # () -> the bytes of model.onnx, or {file name: bytes} of several; may raise Unavailable
    build: typing.Callable
    max_batch_size: int = 64  # 0: the model has no batch dimension
    slo_ms: int = 0  # 0: none
    settings: str = ""  # what else tutti.pbtxt says
    batching: str = "dynamic_batching { }"
    has_config: bool = True  # False: the server has to derive it from the graph
    kind: str = 'backend: "onnxruntime"'  # what runs it, as config.pbtxt has it
    steps: str = ""  # of an ensemble: the rest of config.pbtxt
    extra_files: typing.Callable = dict  # () -> {file name: bytes}, beside config.pbtxt


class Unavailable(Exception):
    """The material for a model cannot be had here; the message says why."""


def _tensor_text(kind, tensors):
    entries = []
    for tensor in tensors:
        datatype = "STRING" if tensor.datatype == "BYTES" else tensor.datatype
        dims = ", ".join(str(d) for d in tensor.dims)
        entries.append(
            '  {\n    name: "%s"\n    data_type: TYPE_%s\n    dims: [ %s ]\n  }'
            % (tensor.name, datatype, dims)
        )
    return "%s [\n%s\n]\n" % (kind, ",\n".join(entries))


def config_text(model):
    text = 'name: "%s"\n%s\nmax_batch_size: %d\n' % (model.name, model.kind, model.max_batch_size)
    text += _tensor_text("input", model.inputs) + _tensor_text("output", model.outputs)
    if model.batching and model.max_batch_size > 0:
        text += model.batching + "\n"
    return text + model.steps


def files_of(model):
    """{path below the model's folder: bytes}, all made before the first is written."""
    built = model.build()
    graphs = built if isinstance(built, dict) else {"model.onnx": built}
    files = {"1/" + name: content for name, content in graphs.items()}
    if model.has_config:
        files["config.pbtxt"] = config_text(model).encode()
    slo = "slo_ms: %g\n" % model.slo_ms if model.slo_ms else ""
    if slo or model.settings:
        files["tutti.pbtxt"] = (slo + model.settings).encode()
    files.update(model.extra_files())
    return files


def write(model, out_dir):
    folder = pathlib.Path(out_dir, model.name)
    files = files_of(model)
    (folder / "1").mkdir(parents=True, exist_ok=True)
    for relative, content in files.items():
        path = folder / relative
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_name("." + path.name + ".part")
        part.write_bytes(content)
        os.replace(part, path)
