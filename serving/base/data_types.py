"""Data types of the Open Inference Protocol, and arrays from and to JSON and raw bytes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np

from .failures import INVALID, RequestError

Array = np.ndarray[Any, Any]

DTYPES: dict[str, np.dtype[Any]] = {
    name: np.dtype(kind) for name, kind in {
        "BOOL": np.bool_, "UINT8": np.uint8, "UINT16": np.uint16, "UINT32": np.uint32,
        "UINT64": np.uint64, "INT8": np.int8, "INT16": np.int16, "INT32": np.int32,
        "INT64": np.int64, "FP16": np.float16, "BF16": ml_dtypes.bfloat16, "FP32": np.float32,
        "FP64": np.float64}.items()}
"""The protocol's data types. BYTES is missing: fusewire has no tensors of strings."""

NAMES = {dtype: name for name, dtype in DTYPES.items()}


def size_of(shape: Sequence[int]) -> int:
    """The number of elements of a shape. RequestError if it is no shape."""
    for n in shape:
        if type(n) is not int or not 0 <= n < 1 << 40:
            raise RequestError(INVALID, f"{list(shape)!r} is no shape: it has to be a list of "
                               "numbers from 0 on")
    return math.prod(shape)


def from_bytes(data: bytes | memoryview, dtype: np.dtype[Any], shape: Sequence[int], name: str
               ) -> Array:
    """The array (*shape) of raw bytes, little-endian, row by row. It shares their memory.

    RequestError if their number does not fit the shape.
    """
    wanted = size_of(shape) * dtype.itemsize
    if len(data) != wanted:
        raise RequestError(INVALID, f"input {name!r} has {len(data)} bytes, and {list(shape)} of "
                           f"{NAMES[dtype]} takes {wanted}")
    array = np.frombuffer(data, np.uint8)
    if dtype == np.bool_ and array.size and array.max() > 1:
        raise RequestError(INVALID, f"input {name!r} has the byte {array.max()}; BOOL is 0 or 1")
    return array.view(dtype).reshape(shape)


def from_values(values: Any, dtype: np.dtype[Any], shape: Sequence[int], name: str) -> Array:
    """The array (*shape) of a list of JSON, flat or nested.

    RequestError if it is no such list, or if a number is outside of the data type's range.
    """
    if not isinstance(values, list):
        raise RequestError(INVALID, f"input {name!r} has the data {values!r:.60}; it has to be a "
                           "list of numbers")
    try:
        array = np.array(values)
    except (ValueError, OverflowError, RecursionError):
        raise RequestError(INVALID, f"the rows of input {name!r} differ in length, or have "
                           "numbers above 64 bits") from None
    if array.size != size_of(shape) or (array.ndim != 1 and array.shape != tuple(shape)):
        raise RequestError(INVALID, f"input {name!r} has data of the shape {list(array.shape)}; "
                           f"its shape says {list(shape)}")
    return _cast(array, dtype, name).reshape(shape)


def _cast(array: Array, dtype: np.dtype[Any], name: str) -> Array:
    """The array in its data type. RequestError if that would change a value."""
    kinds = {"b": "b", "i": "iu", "u": "iu"}.get(dtype.kind, "iuf")
    if array.size and array.dtype.kind not in kinds:
        raise RequestError(INVALID, f"input {name!r} is {NAMES[dtype]}, and its data holds other "
                           "values")
    if dtype.kind in "iu" and array.size:
        limits = np.iinfo(dtype)
        if int(array.min()) < limits.min or int(array.max()) > limits.max:
            raise RequestError(INVALID, f"input {name!r} is {NAMES[dtype]}, and its data goes from "
                               f"{array.min()} to {array.max()}")
    with np.errstate(over="ignore"):  # to infinity, as a cast of the values
        return array.astype(dtype)


def to_bytes(array: Array) -> bytes:
    """The raw bytes of an array, little-endian, row by row."""
    return array.tobytes()


def to_values(array: Array) -> list[Any]:
    """The elements of an array as a flat list of JSON."""
    if array.dtype == DTYPES["BF16"]:
        array = array.astype(np.float32)
    return array.reshape(-1).tolist()
