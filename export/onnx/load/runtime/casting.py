"""Casts between the dtypes of tensors, and to and from dtypes that are only stored."""

from __future__ import annotations

from typing import Any

import numpy as np

from .....eager.arrays import dtypes
from .....eager.core.tensor import tensor
from .values import is_plain, is_tensor, np_dtype, tensor_of

__all__: list[str] = []

_SATURATED = ("float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz")


def dtype_name(value: Any) -> str:
    """The name of a value's dtype."""
    if is_plain(value):
        return "bool" if isinstance(value, bool) else "int64"
    return "str" if value.dtype == object else str(value.dtype.name)


def cast_to(x: Any, name: str, saturate: bool = True, round_mode: str = "up") -> Any:
    """`x` cast to the type `name`; `saturate` clips to the largest float8 on overflow."""
    if isinstance(x, tuple) and name == "int64":
        return tuple(map(int, x)) if any(type(n) is bool for n in x) else x
    if is_plain(x) and name == dtype_name(x):
        return x
    x = tensor_of(x) if not isinstance(x, np.ndarray) else x
    if is_tensor(x) and name in dtypes.DTYPES:
        return x.astype(name)
    array = x.numpy() if is_tensor(x) else x
    cast = _converted(array, name, saturate, round_mode)
    return tensor(cast) if name in dtypes.DTYPES else cast


def _converted(array: Any, name: str, saturate: bool, round_mode: str) -> Any:
    """An array cast to or from a dtype that tensors do not support."""
    from onnx import numpy_helper

    dtype = np_dtype(name)
    with np.errstate(all="ignore"):
        if name == "str":
            return _texts(array)
        if array.dtype == object:
            return array.astype(np.float64).astype(dtype) if dtype.kind != "i" and \
                dtype.kind != "u" else array.astype(np.int64).astype(dtype)
        if name == "float8_e8m0fnu":
            return numpy_helper.to_float8e8m0(array.astype(np.float32), saturate,
                                              round_mode).astype(dtype)
        if name in _SATURATED and saturate:
            return numpy_helper.saturate_cast(array.astype(np.float32), dtype)
        if name in _SATURATED:
            array = array.astype(np.float32)
        return array.astype(dtype)


def _texts(array: Any) -> Any:
    wide = array.astype(np.float32) if array.dtype.kind == "V" else array
    return wide.astype(np.str_).astype(object)
