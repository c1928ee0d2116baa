"""Loads an ONNX file as a Module."""

from __future__ import annotations

import keyword
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ....eager.arrays import dtypes
from ....eager.errors import ArgumentError, ImportModelError
from ....eager.tracebacks import hides_inner_frames
from .reading import check_texts, read
from .runtime.limits import Limits, Meter
from .runtime.module import Declared, Model, class_of, register
from .runtime.values import type_name
from .source.calls import check_calls
from .source.names import identifier
from .source.source import ModelSource


@hides_inner_frames
def load(model: str | os.PathLike[str] | bytes | Any, limits: Limits | None = None) -> Model:
    """Reads an ONNX model and returns a Module, which runs, trains, compiles and exports again.

    Parameters keep the names that they have in the file. Data in other files are read from the
    folder of the model only.

    Args:
        model: a path, the bytes of a file, or an onnx.ModelProto.
        limits: limits on time, memory and nodes, for loading and for each call. Default `Limits()`.

    Returns:
        A `Model`. Its inputs are those of the graph, in order; tensors or arrays.

    Raises:
        ImportModelError: the file is damaged or not supported.
        LimitError: loading exceeds `limits`.
        ArgumentError: `limits` is not a `Limits`.

    Example:
        >>> import tempfile
        >>> import fusewire as fw
        >>> layer = fw.nn.Linear(3, 2)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     report = fw.onnx.export(layer, (fw.ones((4, 3)),), f"{folder}/layer.onnx")
        ...     model = fw.onnx.load(report.path)
        >>> list(model.state_dict()), model(fw.ones((4, 3))).shape
        (['weight', 'bias'], (4, 2))
    """
    import onnx

    limits = Limits() if limits is None else limits
    if not isinstance(limits, Limits):
        raise ArgumentError(f"limits must be a fw.onnx.Limits, got {limits!r}",
                            "limits=fw.onnx.Limits(seconds=60)")
    meter = Meter(limits)
    if isinstance(model, onnx.ModelProto):
        meter.room(model.ByteSize(), "the model")
        check_texts(model, meter)
    proto = model if isinstance(model, onnx.ModelProto) else read(model, meter)
    check_calls(proto, meter)
    try:
        source = ModelSource(proto, meter)
    except RecursionError as error:
        raise ImportModelError("the model's graphs are nested too deeply",
                               "export it with fewer nested branches and loops") from error
    title = _title(model, proto)
    text = source.text(title)
    try:
        kind = class_of(text, title)
    except (SyntaxError, RecursionError, MemoryError, OverflowError) as error:
        raise ImportModelError(f"the model is too large or too deeply nested for Python: {error}",
                               "split it into several models") from error
    loaded = kind([_declared(v, *at) for v, at in zip(proto.graph.input, source.inputs)],
                  [v.name for v in proto.graph.output], text, limits)
    _fill(loaded, source)
    return loaded


def _title(model: Any, proto: Any) -> str:
    name = Path(model).stem if isinstance(model, (str, os.PathLike)) else proto.graph.name
    parts = identifier(name or "Loaded", {"Model": 1}).split("_")
    title = "".join(part[:1].upper() + part[1:] for part in parts if part) or "Loaded"
    return f"{title}Model" if keyword.iskeyword(title) else title


def _fill(model: Model, source: ModelSource) -> None:
    for text, (name, array, initial) in source.held.items():
        trained = initial and text not in source.not_trained and array.ndim > 0 and \
            array.dtype in dtypes.COMPUTED and dtypes.kind(array.dtype) == "f"
        register(model, name, array, trained, initial)


def _declared(v: Any, parameter: str, optional: bool) -> Declared:
    kind = v.type.WhichOneof("value")
    if kind != "tensor_type":
        kinds = {"sequence_type": "sequence", "optional_type": "optional"}
        if kind not in kinds:
            raise ImportModelError(f"input {v.name!r} is a {kind or 'value without a type'}",
                                   "tensors, sequences and optionals are supported")
        return Declared(v.name, kinds[kind], "", None, parameter, optional)
    t = v.type.tensor_type
    shape = list(_sizes(t.shape)) if t.HasField("shape") else None
    return Declared(v.name, "tensor", type_name(t.elem_type), shape, parameter, optional)


def _sizes(shape: Any) -> Iterator[Any]:
    for d in shape.dim:
        which = d.WhichOneof("value")
        yield None if which is None else getattr(d, which) or None
