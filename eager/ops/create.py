"""Ops that make tensors out of nothing but sizes and numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import dtypes
from ..dispatch import apply
from ..errors import DTypeError, ShapeError
from ..op import Op, define
from ..shapes import TensorType, axis_of, sizes_of
from ..tensor import Tensor, as_tensor, check_device

__all__ = ["arange", "full", "full_like", "ones", "ones_like", "zeros", "zeros_like"]

_NO_INPUT = {"vjp": "has no inputs that could have a gradient"}


def _full(xp: Any, shape: Any, value: Any, dtype: Any) -> Any:
    out = np.empty(shape, dtype)
    out.fill(value)
    return out


full_op = define(Op(
    "full", "create", lambda shape, value, dtype: TensorType(tuple(shape), dtype), _full,
    lambda k, index, shape, value, dtype: k.const(value, dtype), why=_NO_INPUT))

iota_op = define(Op(
    "iota", "create", lambda shape, axis, dtype: TensorType(tuple(shape), dtype),
    lambda xp, shape, axis, dtype: _iota(shape, axis, dtype),
    lambda k, index, shape, axis, dtype: k.cast(index[axis], dtype), why=_NO_INPUT))


def _iota(shape: Any, axis: int, dtype: Any) -> Any:
    out = np.empty(shape, dtype)
    out[...] = np.arange(shape[axis]).reshape((-1, *(1,) * (len(shape) - axis - 1)))
    return out


def _shape(shape: Any, name: str = "shape") -> tuple[Any, ...]:
    sizes = sizes_of(name, shape)
    if any(n < 0 for n in sizes):
        raise ShapeError(f"{name}: sizes are not negative, got {sizes}",
                         "only reshape takes -1, for the one size that it can work out")
    return sizes


def full(shape: Any, value: Any, dtype: Any = None, device: Any = None) -> Tensor:
    """A tensor of `shape` with every element `value`.

    >>> import fusewire as fw
    >>> fw.full((2, 2), 7)
    tensor([[7, 7],
            [7, 7]])
    """
    check_device(device)
    value = value.item() if isinstance(value, np.generic) else value
    default = dtypes.of_scalar(value)  # also refuses what is not a number
    chosen = default if dtype is None else dtypes.as_dtype(dtype)
    try:
        held = chosen.type(value).item()
    except (OverflowError, ValueError, TypeError) as error:
        raise DTypeError(f"full: {chosen.name} does not hold {value!r}: {error}",
                         "choose a dtype that does") from None
    return apply(full_op, (), {"shape": _shape(shape, "full"), "value": held, "dtype": chosen})


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
    x = as_tensor("full_like", x)
    return full(x.shape, value, dtype or x.dtype)


def zeros_like(x: Tensor, dtype: Any = None) -> Tensor:
    """A tensor of zeros with the shape and dtype of `x`."""
    return full_like(x, 0, dtype)


def ones_like(x: Tensor, dtype: Any = None) -> Tensor:
    """A tensor of ones with the shape and dtype of `x`."""
    return full_like(x, 1, dtype)


def iota(shape: Any, axis: int, dtype: Any = dtypes.int64) -> Tensor:
    """A tensor of `shape` in which every element is its own index along `axis`.

    >>> iota((2, 3), 1)
    tensor([[0, 1, 2],
            [0, 1, 2]])
    """
    sizes, chosen = _shape(shape, "iota"), dtypes.as_dtype(dtype)
    if chosen.kind == "b":
        raise DTypeError("iota: indices are numbers, not bool", "compare it: fw.iota(...) > 0")
    return apply(iota_op, (), {"shape": sizes, "axis": axis_of("iota", axis, len(sizes)),
                               "dtype": chosen})


def arange(start: Any, stop: Any = None, step: Any = 1, dtype: Any = None) -> Tensor:
    """start, start + step, ... up to but without `stop`; arange(n) counts from 0 to n - 1.

    >>> import fusewire as fw
    >>> fw.arange(3), fw.arange(0, 1, 0.25)
    (tensor([0, 1, 2]), tensor([0.  , 0.25, 0.5 , 0.75]))
    """
    start, stop = (0, start) if stop is None else (start, stop)
    start, stop, step = (v.item() if hasattr(v, "item") else v for v in (start, stop, step))
    whole = not any(isinstance(v, float) for v in (start, stop, step))
    default = dtypes.DEFAULT_INT if whole else dtypes.DEFAULT_FLOAT
    chosen = default if dtype is None else dtypes.as_dtype(dtype)
    if step == 0:
        raise ShapeError("arange: step is 0", "use fw.full for equal numbers")
    count = -((start - stop) // step) if whole else int(np.ceil((stop - start) / step))
    made = chosen if whole or dtypes.kind(chosen) == "f" else dtypes.float64
    out = iota((count if count > 0 else 0,), 0, made)
    out = out if step == 1 else out * step
    out = out if start == 0 else out + start
    return out if made == chosen else out.astype(chosen)  # type: ignore[attr-defined,no-any-return]
