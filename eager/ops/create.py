"""Ops that make tensors out of nothing but sizes and numbers."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .. import interpreter
from ..arrays import devices, dtypes
from ..arrays.devices import placed
from ..arrays.shapes import TensorType, axis_of, sizes_of
from ..core.dispatch import create
from ..core.op import Op, define
from ..core.tensor import Tensor, as_tensor, from_numpy, tensor
from ..errors import DTypeError, ShapeError
from .declare import cast

__all__ = [
    "arange", "asarray", "empty", "empty_like", "full", "full_like", "ones", "ones_like", "zeros",
    "zeros_like",
]

_NO_INPUT = {"vjp": "has no inputs that could have a gradient"}


def _full(xp: Any, shape: Any, value: Any, dtype: Any) -> Any:
    out = xp.empty(shape, dtype)
    out.fill(value)
    return out


full_op = define(Op(
    "full", "create", lambda shape, value, dtype: TensorType(tuple(shape), dtype), _full,
    lambda k, index, shape, value, dtype: k.const(value, dtype), why=_NO_INPUT))

iota_op = define(Op(
    "iota", "create", lambda shape, axis, dtype: TensorType(tuple(shape), dtype),
    lambda xp, shape, axis, dtype: _iota(xp, shape, axis, dtype),
    lambda k, index, shape, axis, dtype: k.cast(index[axis], dtype), why=_NO_INPUT))


def _iota(xp: Any, shape: Any, axis: int, dtype: Any) -> Any:
    out = xp.empty(shape, dtype)
    out[...] = xp.arange(shape[axis]).reshape((-1, *(1,) * (len(shape) - axis - 1)))
    return out


def _shape(shape: Any, name: str = "shape") -> tuple[Any, ...]:
    sizes = sizes_of(name, shape)
    if any(n < 0 for n in sizes):
        raise ShapeError(f"{name}: sizes are not negative, got {sizes}",
                         "only reshape takes -1, for the one size that it can work out")
    return sizes


def full(shape: Any, fill_value: Any, dtype: Any = None, device: Any = None) -> Tensor:
    """A tensor of `shape` with every element `fill_value`.

    >>> import fusewire as fw
    >>> fw.full((2, 2), 7)
    tensor([[7, 7],
            [7, 7]])
    """
    device_name = placed(device)
    if isinstance(fill_value, interpreter.Symbol):
        one = fill_value.__tensor__(dtype)
        if one is not None:  # -0.0 is what changes nothing when it is added
            return full(shape, -0.0 if one.dtype.kind == "f" else 0, one.dtype, device_name) + one
    value = fill_value.item() if hasattr(fill_value, "item") else fill_value
    default = dtypes.of_scalar(value)  # also refuses what is not a number
    chosen = default if dtype is None else dtypes.as_dtype(dtype)
    try:
        with np.errstate(over="ignore"):  # 1e300 is endless as a float32
            held = chosen.type(value).item()
    except (OverflowError, ValueError, TypeError) as error:
        raise DTypeError(f"full: {chosen.name} does not hold {value!r}: {error}",
                         "choose a dtype that does") from None
    params = {"shape": _shape(shape, "full"), "value": held, "dtype": chosen}
    return create(full_op, params, device_name)


def zeros(shape: Any = (), *more: int, dtype: Any = None, device: Any = None) -> Tensor:
    """A tensor of `shape` full of zeros, float32 unless `dtype` says otherwise.

    >>> import fusewire as fw
    >>> fw.zeros((2, 3)).shape, fw.zeros(2, 3).shape, fw.zeros(2).shape
    ((2, 3), (2, 3), (2,))
    """
    return full((shape, *more) if more else shape, 0.0, dtype=dtype, device=device)


def ones(shape: Any = (), *more: int, dtype: Any = None, device: Any = None) -> Tensor:
    """A tensor of `shape` full of ones, float32 unless `dtype` says otherwise."""
    return full((shape, *more) if more else shape, 1.0, dtype=dtype, device=device)


def empty(shape: Any = (), *more: int, dtype: Any = None, device: Any = None) -> Tensor:
    """A tensor of `shape` for values yet to come; until then they are 0."""
    return zeros(shape, *more, dtype=dtype, device=device)


def full_like(
    x: Tensor, /, fill_value: Any, *, dtype: Any = None, device: Any = None
) -> Tensor:
    """A tensor with the shape, dtype and device of `x` and every element `fill_value`."""
    x = as_tensor("full_like", x)
    return full(x.shape, fill_value, dtype=x.dtype if dtype is None else dtype,
                device=x.device if device is None else device)


def zeros_like(x: Tensor, /, *, dtype: Any = None, device: Any = None) -> Tensor:
    """A tensor of zeros with the shape and dtype of `x`."""
    return full_like(x, 0, dtype=dtype, device=device)


def ones_like(x: Tensor, /, *, dtype: Any = None, device: Any = None) -> Tensor:
    """A tensor of ones with the shape and dtype of `x`."""
    return full_like(x, 1, dtype=dtype, device=device)


def empty_like(x: Tensor, /, *, dtype: Any = None, device: Any = None) -> Tensor:
    """A tensor with the shape and dtype of `x` for values yet to come; until then they are 0."""
    return full_like(x, 0, dtype=dtype, device=device)


def iota(shape: Any, axis: int, dtype: Any = dtypes.int64, device: Any = None) -> Tensor:
    """A tensor of `shape` in which every element is its own index along `axis`.

    >>> iota((2, 3), 1)
    tensor([[0, 1, 2],
            [0, 1, 2]])
    """
    sizes, chosen = _shape(shape, "iota"), dtypes.as_dtype(dtype)
    if chosen.kind == "b":
        raise DTypeError("iota: indices are numbers, not bool", "compare it: fw.iota(...) > 0")
    params = {"shape": sizes, "axis": axis_of("iota", axis, len(sizes)), "dtype": chosen}
    return create(iota_op, params, placed(device))


def arange(
    start: Any, /, stop: Any = None, step: Any = 1, *, dtype: Any = None, device: Any = None
) -> Tensor:
    """start, start + step, ... up to but without `stop`; arange(n) counts from 0 to n - 1.

    >>> import fusewire as fw
    >>> fw.arange(3), fw.arange(0, 1, 0.25)
    (tensor([0, 1, 2]), tensor([0.  , 0.25, 0.5 , 0.75]))
    """
    device_name = placed(device)
    start, stop = (0, start) if stop is None else (start, stop)
    start, stop, step = (v.item() if hasattr(v, "item") else v for v in (start, stop, step))
    whole = not any(isinstance(v, float) for v in (start, stop, step))
    default = dtypes.DEFAULT_INT if whole else dtypes.DEFAULT_FLOAT
    chosen = default if dtype is None else dtypes.as_dtype(dtype)
    if step == 0:
        raise ShapeError("arange: step is 0", "use fw.full for equal numbers")
    count = -((start - stop) // step) if whole else math.ceil((stop - start) / step)
    return counted(count if count >= 0 else 0, start, step, whole, chosen, device_name)


def counted(
    count: Any, start: Any, step: Any, whole: bool, dtype: Any, device: Any = None
) -> Tensor:
    """start + i * step for i from 0 to count - 1, rounded once, to `dtype`."""
    exact = whole and type(start) is int and type(step) is int
    if exact and dtypes.kind(dtype) not in "iu":  # exact up to 2**63, then in float64
        last = start + (count - 1) * step if type(count) is int else start
        whole = max(abs(start), abs(last), abs(step)) < 2 ** 63
    elif exact:  # modulo 2**64, as large uint64 are; what is outside of the dtype is not asked for
        start, step = _wrapped(start), _wrapped(step)
    out = iota((count,), 0, dtypes.int64 if whole else dtypes.float64, device)
    out = out if step == 1 else out * step
    out = out if start == 0 else out + start
    return out if out.dtype == dtype else cast(out, dtype)


def _wrapped(number: int) -> int:
    """The int64 with the bits of `number`."""
    return (number + 2 ** 63) % 2 ** 64 - 2 ** 63


def asarray(
    obj: Any, /, *, dtype: Any = None, device: Any = None, copy: bool | None = None
) -> Tensor:
    """`obj` as a tensor: numbers, nested lists, a tensor, an array or anything with a buffer.

    copy=None copies only what it has to: arrays, which their owner may write to; a tensor's
    gradients flow on. With copy=False a tensor comes back itself, an array is shared with its
    owner, who must not write to it afterwards, and where a copy is needed ShapeError, a
    ValueError, is raised.

    >>> import fusewire as fw
    >>> fw.asarray([1, 2.5]), fw.asarray(bytearray(b"ab"))
    (tensor([1. , 2.5]), tensor([97, 98], dtype=uint8))
    """
    chosen = None if dtype is None else dtypes.as_dtype(dtype)
    if not isinstance(obj, (Tensor, np.ndarray)):
        obj = _buffer(obj)
    source = obj.device if isinstance(obj, Tensor) else devices.CPU
    target = source if device is None else placed(device)
    shared = isinstance(obj, (Tensor, np.ndarray)) and chosen in (None, obj.dtype) \
        and target == source
    if copy is False and not shared:
        raise ShapeError(f"asarray: {type(obj).__name__} cannot become a tensor without a copy",
                         "leave copy=False out")
    if isinstance(obj, Tensor):
        return obj if copy is False else obj.astype(chosen or obj.dtype, device=target)
    return from_numpy(obj) if copy is False else tensor(obj, chosen, target)


def _buffer(obj: Any) -> Any:
    """An array over the memory of `obj` where it has a buffer, else `obj`."""
    if isinstance(obj, np.generic):
        return obj
    try:
        return np.asarray(memoryview(obj))
    except TypeError:
        return obj
