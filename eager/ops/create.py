"""Creates tensors from sizes and numbers: full, zeros, ones, arange and their relatives."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .. import interpreter
from ..arguments import check_number, names_itself
from ..arrays import devices, dtypes
from ..arrays.devices import resolve_device
from ..arrays.shapes import TensorType, axis_of, sizes_of
from ..core.dispatch import create
from ..core.op import Op, define
from ..core.tensor import Tensor, as_tensor, from_numpy, tensor
from ..errors import ArgumentError, DTypeError, ShapeError
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


def check_sizes(shape: Any, name: str = "shape") -> tuple[Any, ...]:
    sizes = sizes_of(name, shape)
    if any(n < 0 for n in sizes):
        raise ShapeError(f"{name}: sizes are not negative, got {sizes}",
                         "only reshape takes -1, for one size that follows from the others")
    return sizes


@names_itself
def full(shape: Any, fill_value: Any, dtype: Any = None, device: Any = None, *,
         requires_grad: bool = False) -> Tensor:
    """A tensor of `shape` with every element `fill_value`.

    Args:
        shape: sizes of the axes, or one size.
        fill_value: a number, a bool or a 0-d tensor.
        dtype: of the result. Default: bool, int64, float32 or complex64, as `fill_value` is.
        device: of the result. Default: the current device.
        requires_grad: True makes the result a leaf whose gradient `backward` computes.

    Raises:
        ShapeError: a size is negative or not a whole number.
        DTypeError: `fill_value` is not a number, or `dtype` does not hold it.

    Example:
        >>> import fusewire as fw
        >>> fw.full((2, 2), 7)
        tensor([[7, 7],
                [7, 7]])
    """
    device_name = resolve_device(device)
    if isinstance(fill_value, interpreter.Symbol):
        one = fill_value.__tensor__(dtype)
        if one is not None:  # adding -0.0 changes no number
            return full(shape, -0.0 if one.dtype.kind == "f" else 0, one.dtype, device_name) + one
    value = fill_value.item() if hasattr(fill_value, "item") else fill_value
    default = dtypes.of_scalar(value)  # raises DTypeError for other types than numbers
    chosen = default if dtype is None else dtypes.as_dtype(dtype)
    try:
        with np.errstate(over="ignore"):  # 1e300 becomes inf in float32
            held = chosen.type(value).item()
        dtypes.require_in_range(chosen, value)
    except (OverflowError, ValueError, TypeError) as error:
        raise DTypeError(f"full: {chosen.name} does not hold {value!r}: {error}",
                         "choose a wider dtype") from None
    params = {"shape": check_sizes(shape, "full"), "value": held, "dtype": chosen}
    out = create(full_op, params, device_name)
    return out.requires_grad_() if requires_grad else out


@names_itself
def zeros(shape: Any = (), *more: int, dtype: Any = None, device: Any = None,
          requires_grad: bool = False) -> Tensor:
    """A tensor of `shape` filled with zeros.

    Args:
        shape, more: sizes of the axes, as a tuple or as several arguments. Default (): a 0-d
            tensor.
        dtype: of the result. Default float32.
        device: of the result. Default: the current device.
        requires_grad: True makes the result a leaf whose gradient `backward` computes.

    Raises:
        ShapeError: a size is negative or not a whole number.

    Example:
        >>> import fusewire as fw
        >>> fw.zeros((2, 3)).shape, fw.zeros(2, 3).shape, fw.zeros(2).shape
        ((2, 3), (2, 3), (2,))
    """
    return full((shape, *more) if more else shape, 0.0, dtype, device,
                requires_grad=requires_grad)


@names_itself
def ones(shape: Any = (), *more: int, dtype: Any = None, device: Any = None,
         requires_grad: bool = False) -> Tensor:
    """A tensor of `shape` filled with ones; the parameters are those of `zeros`.

    Example:
        >>> import fusewire as fw
        >>> fw.ones(2, dtype=fw.int64)
        tensor([1, 1])
    """
    return full((shape, *more) if more else shape, 1.0, dtype, device,
                requires_grad=requires_grad)


@names_itself
def empty(shape: Any = (), *more: int, dtype: Any = None, device: Any = None,
          requires_grad: bool = False) -> Tensor:
    """A tensor of `shape` for values to be written later; the parameters are those of `zeros`.

    The elements are 0.

    Example:
        >>> import fusewire as fw
        >>> fw.empty(2, 3).shape
        (2, 3)
    """
    return zeros(shape, *more, dtype=dtype, device=device, requires_grad=requires_grad)


@names_itself
def full_like(
    x: Tensor, /, fill_value: Any, *, dtype: Any = None, device: Any = None,
    requires_grad: bool = False
) -> Tensor:
    """A tensor of the shape of `x` with every element `fill_value`.

    Args:
        x: gives the shape.
        fill_value: a number, a bool or a 0-d tensor.
        dtype: of the result. Default: that of `x`.
        device: of the result. Default: that of `x`.
        requires_grad: True makes the result a leaf whose gradient `backward` computes.

    Example:
        >>> import fusewire as fw
        >>> fw.full_like(fw.zeros(2), 3)
        tensor([3., 3.])
    """
    x = as_tensor("full_like", x)
    return full(x.shape, fill_value, dtype=x.dtype if dtype is None else dtype,
                device=x.device if device is None else device, requires_grad=requires_grad)


def zeros_like(x: Tensor, /, *, dtype: Any = None, device: Any = None,
               requires_grad: bool = False) -> Tensor:
    """A tensor of zeros of the shape of `x`; `dtype` and `device` are those of `x` by default.

    Example:
        >>> import fusewire as fw
        >>> fw.zeros_like(fw.tensor([1, 2]))
        tensor([0, 0])
    """
    return full_like(x, 0, dtype=dtype, device=device, requires_grad=requires_grad)


def ones_like(x: Tensor, /, *, dtype: Any = None, device: Any = None,
              requires_grad: bool = False) -> Tensor:
    """A tensor of ones of the shape of `x`; `dtype` and `device` are those of `x` by default.

    Example:
        >>> import fusewire as fw
        >>> fw.ones_like(fw.tensor([1.5, 2.5]))
        tensor([1., 1.])
    """
    return full_like(x, 1, dtype=dtype, device=device, requires_grad=requires_grad)


def empty_like(x: Tensor, /, *, dtype: Any = None, device: Any = None,
               requires_grad: bool = False) -> Tensor:
    """A tensor of the shape of `x` for values to be written later; its elements are 0.

    `dtype` and `device` are those of `x` by default.

    Example:
        >>> import fusewire as fw
        >>> fw.empty_like(fw.ones(2, 3)).shape
        (2, 3)
    """
    return full_like(x, 0, dtype=dtype, device=device, requires_grad=requires_grad)


def iota(shape: Any, axis: int, dtype: Any = dtypes.int64, device: Any = None) -> Tensor:
    """A tensor of `shape` in which each element is its own index along `axis`.

    Example:
        >>> iota((2, 3), 1)
        tensor([[0, 1, 2],
                [0, 1, 2]])
    """
    sizes, chosen = check_sizes(shape, "iota"), dtypes.as_dtype(dtype)
    if chosen.kind == "b":
        raise DTypeError("iota: indices are numbers, not bool", "compare it: fw.iota(...) > 0")
    params = {"shape": sizes, "axis": axis_of("iota", axis, len(sizes)), "dtype": chosen}
    return create(iota_op, params, resolve_device(device))


def arange(
    start: Any, /, stop: Any = None, step: Any = 1, *, dtype: Any = None, device: Any = None,
    requires_grad: bool = False
) -> Tensor:
    """The numbers start, start + step, ... up to, but without, `stop`, as a vector.

    With one argument, arange(n) counts from 0 to n - 1.

    Args:
        start: the first number.
        stop: the end, which is not part of the result. Default None: from 0 to `start`.
        step: difference of neighbours, which may be negative. Default 1.
        dtype: of the result. Default: int64 for integers, float32 where one argument is a float.
        device: of the result. Default: the current device.
        requires_grad: True makes the result a leaf whose gradient `backward` computes.

    Raises:
        ShapeError: `step` is 0.

    Example:
        >>> import fusewire as fw
        >>> fw.arange(3), fw.arange(0, 1, 0.25)
        (tensor([0, 1, 2]), tensor([0.  , 0.25, 0.5 , 0.75]))
    """
    device_name = resolve_device(device)
    start, stop = (0, start) if stop is None else (start, stop)
    for name, value in (("start", start), ("stop", stop), ("step", step)):
        if isinstance(check_number("arange", name, value), float) and not math.isfinite(value):
            raise ArgumentError(f"arange: {name} must be finite, got {value}")
    start, stop, step = (v.item() if hasattr(v, "item") else v for v in (start, stop, step))
    whole = not any(isinstance(v, float) for v in (start, stop, step))
    default = dtypes.DEFAULT_INT if whole else dtypes.DEFAULT_FLOAT
    chosen = default if dtype is None else dtypes.as_dtype(dtype)
    if step == 0:
        raise ShapeError("arange: step is 0", "use fw.full for equal numbers")
    count = -((start - stop) // step) if whole else math.ceil((stop - start) / step)
    out = counted(count if count >= 0 else 0, start, step, whole, chosen, device_name)
    return out.requires_grad_() if requires_grad else out


def counted(
    count: Any, start: Any, step: Any, whole: bool, dtype: Any, device: Any = None
) -> Tensor:
    """The numbers start + i * step for i from 0 to count - 1, rounded once to `dtype`."""
    exact = whole and type(start) is int and type(step) is int
    if exact and dtypes.kind(dtype) not in "iu":  # exact up to 2**63, then in float64
        last = start + (count - 1) * step if type(count) is int else start
        whole = max(abs(start), abs(last), abs(step)) < 2 ** 63
    elif exact:  # modulo 2**64, so that large uint64 are exact
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
    """`obj` as a tensor.

    Args:
        obj: a number, a nested list, a tensor, an array or any object with a buffer.
        dtype: of the result. Default: that of `obj`; for Python numbers as for `tensor`.
        device: of the result. Default: that of a tensor, else the CPU.
        copy: True copies. None copies arrays, since their owner may write to them; gradients flow
            through a tensor. False returns a tensor itself, and shares the memory of an array,
            whose owner must not write to it afterwards. Default None.

    Raises:
        ShapeError: copy=False, but `obj` needs a copy.

    Example:
        >>> import fusewire as fw
        >>> fw.asarray([1, 2.5]), fw.asarray(bytearray(b"ab"))
        (tensor([1. , 2.5]), tensor([97, 98], dtype=uint8))
    """
    chosen = None if dtype is None else dtypes.as_dtype(dtype)
    if not isinstance(obj, (Tensor, np.ndarray)):
        obj = _buffer(obj)
    source = obj.device if isinstance(obj, Tensor) else devices.CPU
    target = source if device is None else resolve_device(device)
    shared = isinstance(obj, (Tensor, np.ndarray)) and chosen in (None, obj.dtype) \
        and target == source
    if copy is False and not shared:
        raise ShapeError(f"asarray: {type(obj).__name__} cannot become a tensor without a copy",
                         "omit copy=False")
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
