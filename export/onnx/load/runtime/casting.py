"""Casts between the dtypes of tensors, and to and from texts."""

from __future__ import annotations

from typing import Any

import numpy as np

from .....eager.arrays import dtypes
from .....eager.core.tensor import tensor
from .....eager.ops.elementwise import pointwise
from .....eager.ops.elementwise.clip import clip
from .values import is_plain, is_texts, np_dtype, tensor_of

__all__: list[str] = []

_SATURATED = (dtypes.float8_e4m3fn, dtypes.float8_e4m3fnuz, dtypes.float8_e5m2,
              dtypes.float8_e5m2fnuz)
_SMALLEST_NORMAL = 2.0 ** -126  # of float32; ONNX rounds smaller ones by their bits
_SMALLEST_POWER, _LARGEST_POWER = 2.0 ** -127, 2.0 ** 127  # of float8_e8m0fnu


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
    if is_texts(x):
        return x if name == "str" else tensor(_numbers(x, np_dtype(name)))
    x = tensor_of(x)
    return _texts(x.numpy()) if name == "str" else _cast(x, np_dtype(name), saturate, round_mode)


def _cast(x: Any, dtype: Any, saturate: bool, round_mode: str) -> Any:
    if dtype == dtypes.float8_e8m0fnu and x.dtype != dtype:
        return _power_of_two(x.astype(dtypes.float32), saturate, round_mode).astype(dtype)
    if dtype in _SATURATED and saturate and x.dtype != dtype:
        limit = dtypes.finfo(dtype).max
        x = clip(x.astype(dtypes.float32), -limit, limit)
    return x.astype(dtype)


def _power_of_two(x: Any, saturate: bool, mode: str) -> Any:
    """The powers of two to which ONNX rounds the sizes of float32, whose exponents have 8 bits."""
    size = pointwise.abs(x)
    inside = clip(size, _SMALLEST_POWER, _LARGEST_POWER)
    near = inside.astype(dtypes.float8_e8m0fnu).astype(dtypes.float32)
    overflows = pointwise.isinf(size)
    if mode == "up":
        power = pointwise.where(near < inside, near * 2, near)
        tiny = pointwise.where(size > 0, _SMALLEST_NORMAL, _SMALLEST_POWER)
        power = pointwise.where(size < _SMALLEST_NORMAL, tiny, power)
        beyond = size > _LARGEST_POWER
    elif mode == "down":
        power = pointwise.where(near > inside, near / 2, near)
        power = pointwise.where(size < _SMALLEST_NORMAL, _SMALLEST_POWER, power)
        beyond = overflows
    else:
        power, beyond = near, size >= 1.5 * _LARGEST_POWER
    return pointwise.where(overflows if saturate else overflows | beyond, float("nan"), power)


def _numbers(texts: Any, dtype: Any) -> Any:
    """The numbers that texts spell."""
    wide = np.int64 if dtypes.kind(dtype) in "iu" else np.float64
    with np.errstate(all="ignore"):
        return texts.astype(wide).astype(dtype)


def _texts(array: Any) -> Any:
    wide = array.astype(np.float32) if array.dtype.kind == "V" else array
    return wide.astype(np.str_).astype(object)
