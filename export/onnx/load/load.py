"""`load`: a file as a Module."""

from __future__ import annotations

import keyword
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ....eager.arrays import dtypes
from ....eager.errors import ArgumentError, ImportModelError
from .reading import check_texts, read
from .runtime.limits import Limits, Meter
from .runtime.module import Declared, Model, class_of, place
from .runtime.values import type_name
from .source.calls import check_calls
from .source.names import identifier
from .source.source import ModelSource


def load(model: str | os.PathLike[str] | bytes | Any, limits: Limits | None = None) -> Model:
    """The Module that an ONNX model is: it runs, is trained and compiled, and exports again.

    model: a path, the bytes of a file, or an onnx.ModelProto. Parameters keep the names that they
    have in the file. ImportModelError for a file that is damaged or asks for what is not
    supported, LimitError for one that takes more than `limits`, which its calls keep to as well.
    Data in other files are read from the folder of the model only.
    """
    import onnx

    limits = Limits() if limits is None else limits
    if not isinstance(limits, Limits):
        raise ArgumentError(f"limits is {limits!r}", "limits=fw.onnx.Limits(seconds=60)")
    meter = Meter(limits)
    if isinstance(model, onnx.ModelProto):
        meter.room(model.ByteSize(), "the model")
        check_texts(model, meter)
    proto = model if isinstance(model, onnx.ModelProto) else read(model, meter)
    check_calls(proto, meter)
    try:
        source = ModelSource(proto, meter)
    except RecursionError as error:
        raise ImportModelError("the model's graphs lie too deep inside of each other") from error
    title = _title(model, proto)
    text = source.text(title)
    try:
        kind = class_of(text, title)
    except (SyntaxError, RecursionError, MemoryError, OverflowError) as error:
        raise ImportModelError(f"the model is too large or too deep to become Python: {error}"
                               ) from error
    made = kind([_declared(v, *at) for v, at in zip(proto.graph.input, source.inputs)],
                [v.name for v in proto.graph.output], text, limits)
    _fill(made, source)
    return made


def _title(model: Any, proto: Any) -> str:
    name = Path(model).stem if isinstance(model, (str, os.PathLike)) else proto.graph.name
    words = identifier(name or "Loaded", {"Model": 1}).split("_")
    title = "".join(w[:1].upper() + w[1:] for w in words if w) or "Loaded"
    return f"{title}Model" if keyword.iskeyword(title) else title


def _fill(made: Model, source: ModelSource) -> None:
    for text, (name, array, initial) in source.held.items():
        trained = initial and text not in source.not_trained and array.ndim > 0 and \
            array.dtype in dtypes.OWN and dtypes.kind(array.dtype) == "f"
        place(made, name, array, trained, initial)


def _declared(v: Any, parameter: str, optional: bool) -> Declared:
    kind = v.type.WhichOneof("value")
    if kind != "tensor_type":
        words = {"sequence_type": "sequence", "optional_type": "optional"}
        if kind not in words:
            raise ImportModelError(f"input {v.name!r} is a {kind or 'value without a type'}",
                                   "tensors, sequences and optionals are supported")
        return Declared(v.name, words[kind], "", None, parameter, optional)
    t = v.type.tensor_type
    shape = list(_sizes(t.shape)) if t.HasField("shape") else None
    return Declared(v.name, "tensor", type_name(t.elem_type), shape, parameter, optional)


def _sizes(shape: Any) -> Iterator[Any]:
    for d in shape.dim:
        which = d.WhichOneof("value")
        yield None if which is None else getattr(d, which) or None
