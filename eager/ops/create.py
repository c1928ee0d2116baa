"""Ops that make tensors out of nothing but sizes and numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import dtypes
from ..dispatch import apply
from ..errors import ShapeError
from ..op import Op, define
from ..shapes import TensorType
from ..tensor import Tensor, check_device

_NO_INPUT = {"vjp": "has no inputs that could have a gradient"}

full_op = define(Op(
    "full", "create", lambda shape, value, dtype: TensorType(tuple(shape), dtype),
    lambda xp, shape, value, dtype: np.full(shape, value, dtype),
    lambda k, index, shape, value, dtype: k.const(value, dtype), why=_NO_INPUT))

iota_op = define(Op(
    "iota", "create", lambda shape, axis, dtype: TensorType(tuple(shape), dtype),
    lambda xp, shape, axis, dtype: _iota(shape, axis, dtype),
    lambda k, index, shape, axis, dtype: k.cast(index[axis], dtype), why=_NO_INPUT))


def _iota(shape: Any, axis: int, dtype: Any) -> Any:
    line = np.arange(shape[axis], dtype=dtype)
    return np.ascontiguousarray(
        np.broadcast_to(line.reshape([-1 if i == axis else 1 for i in range(len(shape))]), shape))


def _shape(shape: Any) -> tuple[Any, ...]:
    sizes = tuple(shape) if isinstance(shape, (tuple, list)) else (shape,)
    for n in sizes:
        if isinstance(n, float) or n < 0:
            raise ShapeError(f"a shape is made of whole numbers that are not negative, got {sizes}")
    return sizes


def full(shape: Any, value: Any, dtype: Any = None, device: Any = None) -> Tensor:
    """A tensor of `shape` with every element `value`."""
    check_device(device)
    chosen = dtypes.of_scalar(value) if dtype is None else dtypes.as_dtype(dtype)
    return apply(full_op, (), {"shape": _shape(shape), "value": chosen.type(value).item(),
                               "dtype": chosen})


def zeros(*shape: Any, dtype: Any = None, device: Any = None) -> Tensor:
    """A tensor of `shape` full of zeros, float32 unless `dtype` says otherwise."""
    return full(_one(shape), 0.0, dtype or dtypes.DEFAULT_FLOAT, device)


def ones(*shape: Any, dtype: Any = None, device: Any = None) -> Tensor:
    """A tensor of `shape` full of ones, float32 unless `dtype` says otherwise."""
    return full(_one(shape), 1.0, dtype or dtypes.DEFAULT_FLOAT, device)


def _one(shape: tuple[Any, ...]) -> Any:
    return shape[0] if len(shape) == 1 else shape


def full_like(x: Tensor, value: Any, dtype: Any = None) -> Tensor:
    """A tensor with the shape and dtype of `x` and every element `value`."""
    return full(x.shape, value, dtype or x.dtype)


def zeros_like(x: Tensor, dtype: Any = None) -> Tensor:
    """A tensor of zeros with the shape and dtype of `x`."""
    return full_like(x, 0, dtype)


def ones_like(x: Tensor, dtype: Any = None) -> Tensor:
    """A tensor of ones with the shape and dtype of `x`."""
    return full_like(x, 1, dtype)


def iota(shape: Any, axis: int, dtype: Any = dtypes.int64) -> Tensor:
    """A tensor of `shape` in which every element is its own index along `axis`."""
    return apply(iota_op, (), {"shape": _shape(shape), "axis": axis % len(shape),
                               "dtype": dtypes.as_dtype(dtype)})


def arange(start: Any, stop: Any = None, step: Any = 1, dtype: Any = None) -> Tensor:
    """start, start + step, ... up to but without `stop`; arange(n) counts from 0 to n - 1."""
    if stop is None:
        start, stop = 0, start
    whole = all(isinstance(v, int) for v in (start, stop, step))
    chosen = dtypes.as_dtype(dtype) if dtype is not None else (
        dtypes.DEFAULT_INT if whole else dtypes.DEFAULT_FLOAT)
    count = max(0, -((start - stop) // step)) if whole else max(0, int(np.ceil((stop - start) / step)))
    out = iota((count,), 0, chosen)
    out = out if step == 1 else out * step
    return out if start == 0 else out + start
