"""Reads tensors of a file as arrays; no array is larger than its data in the file."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .....eager.errors import ImportModelError
from .limits import Meter
from .values import np_dtype, type_name

_BITS = {"uint4": 4, "int4": 4, "float4_e2m1fn": 4, "uint2": 2, "int2": 2}
# The fields of numbers without raw bytes, by type; other types use int32_data.
_FIELDS = {"float32": "float_data", "complex64": "float_data", "float64": "double_data",
           "complex128": "double_data", "int64": "int64_data", "uint32": "uint64_data",
           "uint64": "uint64_data", "str": "string_data"}


def array_of_proto(proto: Any) -> Any:
    """The array of a TensorProto.

    Raises ImportModelError if its data do not fill its shape.
    """
    from onnx import numpy_helper

    name, shape = type_name(proto.data_type), _shape(proto)
    if proto.data_location == proto.EXTERNAL:  # it was not read with the model's file
        raise ImportModelError(f"the data of tensor {proto.name!r} are in another file",
                               "load the model by its path")
    _check_filled(proto, name, shape)
    if name == "str":
        texts = [s.decode("utf-8", "replace") for s in proto.string_data]
        return np.array([*texts, None], dtype=object)[:-1].reshape(shape)
    try:
        array = np.asarray(numpy_helper.to_array(proto))
    except Exception as error:  # it raises many types for a damaged file
        raise ImportModelError(f"tensor {proto.name!r} cannot be read: {error}") from error
    return array.astype(np_dtype(name), copy=False)


def _shape(proto: Any) -> tuple[int, ...]:
    shape = tuple(proto.dims)
    if any(n < 0 for n in shape):
        raise ImportModelError(f"tensor {proto.name!r} has a negative size in shape {shape}")
    return shape


def bytes_of(proto: Any) -> int:
    """The number of raw bytes of a tensor in a file, from its type and shape."""
    name = type_name(proto.data_type)
    bits = _BITS.get(name, 8 * np_dtype(name).itemsize)
    return (math.prod(_shape(proto)) * bits + 7) // 8


def _check_filled(proto: Any, name: str, shape: tuple[int, ...]) -> None:
    count = math.prod(shape)
    if proto.HasField("raw_data") and name != "str":  # strings have no raw form
        stored, needed, what = len(proto.raw_data), bytes_of(proto), "bytes"
    else:
        stored = len(getattr(proto, _FIELDS.get(name, "int32_data")))
        per = 2 if name.startswith("complex") else 1
        needed, what = (count * _BITS.get(name, 8) + 7) // 8 * per, "numbers"
    if stored != needed:
        raise ImportModelError(f"tensor {proto.name!r} of shape {shape} and type {name} has "
                               f"{stored} {what}, but needs {needed}",
                               "the file is damaged or truncated")


def dense(proto: Any, meter: Meter) -> Any:
    """The dense array of a SparseTensorProto."""
    values, indices = array_of_proto(proto.values), array_of_proto(proto.indices)
    shape = tuple(proto.dims)
    count = int(np.prod([float(n) for n in shape]))
    if any(n < 0 for n in shape) or count > 1024 * (values.size + 1024):
        raise ImportModelError(f"a sparse tensor of shape {shape} with {values.size} values is "
                               "too large to be made dense", "store it as a dense tensor")
    meter.room(count * values.dtype.itemsize, "a sparse tensor")
    out = np.zeros(shape, values.dtype)
    try:
        positions = indices if indices.ndim == 1 else np.ravel_multi_index(tuple(indices.T), shape)
        out.reshape(-1)[positions] = values
    except (IndexError, ValueError) as error:
        raise ImportModelError(f"a sparse tensor of shape {shape} has wrong indices: {error}"
                               ) from error
    return out
