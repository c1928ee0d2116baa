"""Defines operators that read, change or create shapes, and arithmetic on shapes."""

from __future__ import annotations

import math
from functools import reduce
from itertools import accumulate
from typing import Any

import numpy as np

from .....eager.arrays.shapes import product
from .....eager.core.tensor import tensor
from .....eager.errors import ImportModelError, ShapeError
from .....eager.ops import create
from .....eager.ops.elementwise.pointwise import less, where
from .....eager.ops.shape import view
from .....eager.ops.shape.grid import eye
from .....eager.ops.shape.rearrange import broadcast_shapes, tile
from ..runtime.table import Number, Sizes, Tensor, of_sizes, operator
from ..runtime.values import (
    check_room,
    ints,
    is_plain,
    is_tensor,
    is_texts,
    np_dtype,
    tensor_of,
    value_of,
)

__all__: list[str] = []

_MAX_REPEATED_SIZES = 64  # more equal sizes become a tensor instead of a tuple


def shape_of(x: Any) -> tuple[Any, ...]:
    """The shape of a value."""
    if isinstance(x, tuple):
        return (len(x),)
    return () if is_plain(x) or isinstance(x, float) else tuple(x.shape)


@operator("Shape")
def _shape(x: Any, start: int = 0, end: int | None = None) -> Any:
    return shape_of(x)[start:end]


@operator("Size")
def _size(x: Any) -> Any:
    return product(shape_of(x))


@operator("Identity")
def _identity(x: Any) -> Any:
    return x


@operator("Reshape", since=5)
def _reshape(x: Any, shape: Sizes, allowzero: int = 0) -> Any:
    if is_plain(x) and tuple(shape) in ((-1,), (1,), ()):
        flat = x if isinstance(x, tuple) else (x,)
        if tuple(shape) == (-1,):
            return flat
        if len(flat) == 1:
            return flat if len(shape) else flat[0]
    x = x if is_texts(x) else tensor_of(x)
    if not allowzero:
        if any(type(n) is int and n == 0 and i >= x.ndim for i, n in enumerate(shape)):
            raise ShapeError(f"Reshape: a 0 in {shape} stands for a size that {x.shape} lacks")
        shape = tuple(x.shape[i] if type(n) is int and n == 0 else n for i, n in enumerate(shape))
    return x.reshape(tuple(shape))


@operator("Reshape", since=1)
def _reshape_to(x: Any, shape: Sizes) -> Any:
    return _reshape(x, shape)


@operator("Flatten")
def _flatten(x: Tensor, axis: int = 1) -> Tensor:
    axis = axis + x.ndim if axis < 0 else axis
    return view.reshape(x, (product(x.shape[:axis]), product(x.shape[axis:])))


@operator("Transpose")
def _transpose(x: Any, perm: Any = None) -> Any:
    axes = tuple(range(x.ndim))[::-1] if perm is None else perm
    return x.transpose(axes) if is_texts(x) else view.permute_dims(x, axes)


def axes_of(axes: Any, ndim: int) -> tuple[int, ...]:
    """Axes as nonnegative numbers. Raises ShapeError if one is out of range."""
    normalized = tuple(a + ndim if a < 0 else a for a in axes)
    if any(not 0 <= a < ndim for a in normalized):
        raise ShapeError(f"axes {tuple(axes)} are out of range for {ndim} axes")
    return normalized


@operator("Squeeze")
def _squeeze(x: Any, axes: Sizes = None) -> Any:
    if isinstance(x, tuple) and len(x) == 1:
        return x[0]
    x = tensor_of(x)
    return view.squeeze(x, tuple(i for i, n in enumerate(x.shape) if n == 1) if axes is None
                        else tuple(axes))


@operator("Unsqueeze")
def _unsqueeze(x: Any, axes: Sizes) -> Any:
    if is_plain(x) and not isinstance(x, tuple) and tuple(axes) in ((0,), (-1,)):
        return (x,)
    x = x if is_texts(x) else tensor_of(x)
    new = axes_of(axes, x.ndim + len(axes))
    old = iter(x.shape)
    shape = tuple(1 if i in new else next(old) for i in range(x.ndim + len(new)))
    return x.reshape(shape)


@operator("Expand")
def _expand(x: Tensor, shape: Sizes) -> Tensor:
    target = broadcast_shapes(x.shape, tuple(shape))
    check_room(target, x.dtype)
    return view.broadcast_to(x, target)


@operator("Tile", since=6)
def _tile(x: Tensor, repeats: Sizes) -> Tensor:
    check_room([n * r for n, r in zip(x.shape, repeats)], x.dtype)
    return tile(x, repeats)


@operator("ConstantOfShape")
def _constant_of_shape(shape: Sizes, value: Any = None) -> Any:
    if value is None:
        value = tensor([0.0])
    if is_texts(value):
        check_room(shape, value.dtype)
        return np.broadcast_to(value.reshape(()), shape)
    one = tensor_of(value).reshape(())
    if one.dtype == np.int64 and len(shape) == 1 and type(shape[0]) is int \
            and shape[0] <= _MAX_REPEATED_SIZES:
        return (one.item(),) * shape[0]
    check_room(shape, one.dtype)
    return view.broadcast_to(one, tuple(shape))


@operator("Range")
def _range(start: Any, limit: Any, delta: Any) -> Any:
    values = [start, limit, delta]
    if all(map(is_plain, values)) or all(isinstance(v, float) for v in values):
        start, limit, delta = (ints(v)[0] if is_plain(v) else v for v in values)
        dtype = np.dtype("float32" if isinstance(start, float) else "int64")
    else:
        tensors = [tensor_of(v) for v in values]
        dtype = tensors[0].dtype
        start, limit, delta = (t.reshape(()).item() for t in tensors)
    if dtype.kind not in "iu":
        return _counted(start, limit, delta, dtype)
    if type(start) is type(limit) is type(delta) is int:
        check_room([max((limit - start) // delta, 0)] if delta else [0], dtype)
    return create.arange(start, limit, delta, dtype=dtype)


def _counted(start: float, limit: float, delta: float, dtype: Any) -> Tensor:
    """start + i * delta, computed in `dtype`."""
    count = max(math.ceil((limit - start) / delta), 0) if delta else 0
    check_room([count], dtype)
    return create.arange(count).astype(dtype) * delta + start


@operator("EyeLike")
def _eye_like(x: Any, dtype: str | None = None, k: int = 0) -> Tensor:
    rows, columns = shape_of(x)
    target = np_dtype(dtype) if dtype else tensor_of(x).dtype
    check_room((rows, columns), target)
    return eye(rows, columns, k=k).astype(target)


@operator("Trilu")
def _trilu(x: Tensor, k: Number = 0, upper: int = 1) -> Tensor:
    rows = create.iota(x.shape[-2:], 0)
    columns = create.iota(x.shape[-2:], 1)
    below = less(columns, rows + int(k or 0))
    zero = create.full((), 0, x.dtype)
    return where(below, zero, x) if upper else where(
        less(columns, rows + int(k or 0) + 1), x, zero)


@operator("BitCast")
def _bit_cast(x: Any, to: str) -> Any:
    array = x.numpy() if is_tensor(x) else x
    target = np_dtype(to)
    cast = array.reshape(-1).view(target).reshape(array.shape) \
        if target.itemsize == array.dtype.itemsize else None
    if cast is None:
        raise ImportModelError(f"BitCast: {array.dtype.name} and {to} differ in size")
    return value_of(cast)


def along(x: Tensor, axis: int, index: Any) -> Tensor:
    """`x` indexed along one axis."""
    index = (slice(None),) * (axis % x.ndim) + (index,)
    return x[index]


# ---- functions on sizes and shapes
def _each(function: Any) -> Any:
    """A function of numbers, applied to sizes and shapes with broadcasting."""
    def computed(a: Any, b: Any) -> Any:
        if not isinstance(a, tuple) and not isinstance(b, tuple):
            return function(a, b)
        xs = a if isinstance(a, tuple) else (a,) * len(b)
        ys = b if isinstance(b, tuple) else (b,) * len(xs)
        if len(xs) != len(ys):
            if 1 not in (len(xs), len(ys)):
                raise ShapeError(f"shapes {a} and {b} do not broadcast")
            most = max(len(xs), len(ys)) if min(len(xs), len(ys)) else 0
            xs, ys = (v * most if len(v) == 1 else v for v in (xs, ys))
        return tuple(map(function, xs, ys))

    return computed


def _quotient(a: Any, b: Any) -> Any:
    """a / b, rounded towards zero."""
    if type(a) is int and type(b) is int:
        return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
    return a // b


for _name, _function in {
    "Add": lambda a, b: a + b, "Sub": lambda a, b: a - b, "Mul": lambda a, b: a * b,
    "Div": _quotient, "Equal": lambda a, b: a == b,
    "Less": lambda a, b: a < b, "Greater": lambda a, b: a > b,
    "LessOrEqual": lambda a, b: a <= b, "GreaterOrEqual": lambda a, b: a >= b,
    "And": lambda a, b: a and b, "Or": lambda a, b: a or b,
}.items():
    of_sizes(_name)(_each(_function))


@of_sizes("Max")
def _largest(*operands: Any) -> Any:
    return reduce(_each(lambda a, b: a if a >= b else b), operands)


@of_sizes("Min")
def _smallest(*operands: Any) -> Any:
    return reduce(_each(lambda a, b: a if a <= b else b), operands)


@of_sizes("Split")
def _parts(x: Any, split: Any = None, axis: int = 0, num_outputs: Any = None, outputs: int = 1
           ) -> Any:
    if not isinstance(x, tuple) or split is None or sum(split) != len(x):
        return NotImplemented
    ends = list(accumulate(split))
    return tuple(x[end - n:end] for n, end in zip(split, ends))


@of_sizes("Mod")
def _mod_of_sizes(a: Any, b: Any, fmod: int = 0) -> Any:
    return NotImplemented if fmod else _each(lambda x, y: x % y)(a, b)


@of_sizes("Neg")
def _negative(a: Any) -> Any:
    return tuple(-n for n in a) if isinstance(a, tuple) else -a


@of_sizes("Not")
def _not(a: Any) -> Any:
    return tuple(not n for n in a) if isinstance(a, tuple) else not a


@of_sizes("Abs")
def _absolute(a: Any) -> Any:
    return tuple(map(abs, a)) if isinstance(a, tuple) else abs(a)


@of_sizes("Where")
def _chosen(condition: Any, a: Any, b: Any) -> Any:
    if not isinstance(condition, tuple):
        if isinstance(a, tuple) is isinstance(b, tuple) and len(ints(a)) == len(ints(b)):
            return a if condition else b
        return NotImplemented
    xs, ys = (v if isinstance(v, tuple) else (v,) * len(condition) for v in (a, b))
    xs, ys = (v * len(condition) if len(v) == 1 else v for v in (xs, ys))
    if not len(xs) == len(ys) == len(condition):
        return NotImplemented
    return tuple(x if c else y for c, x, y in zip(condition, xs, ys))


@of_sizes("Concat")
def _joined(*parts: Any, axis: int = 1) -> Any:
    if not all(isinstance(part, tuple) for part in parts):
        raise ShapeError("Concat: scalars have no axis to join")
    return tuple(n for part in parts for n in part)


@of_sizes("Gather")
def _picked(x: Any, indices: Any, axis: int = 0) -> Any:
    if not isinstance(x, tuple):
        return NotImplemented
    return tuple(x[i] for i in indices) if isinstance(indices, tuple) else x[indices]


@of_sizes("Slice")
def _part(x: Any, starts: Any, ends: Any, axes: Any = (0,), steps: Any = (1,)) -> Any:
    if not isinstance(x, tuple):
        return NotImplemented
    return x[starts[0]:None if ends[0] < -len(x) and steps[0] < 0 else ends[0]:steps[0]]


@of_sizes("Expand")
def _repeated(x: Any, shape: Any) -> Any:
    if len(shape) != 1 or (isinstance(x, tuple) and len(x) != 1) or type(shape[0]) is not int \
            or shape[0] > _MAX_REPEATED_SIZES:
        return NotImplemented
    return (ints(x)[0],) * shape[0]


@of_sizes("ReduceProd")
def _total_product(x: Any, axes: Any = None, keepdims: int = 1, noop_with_empty_axes: int = 0
                   ) -> Any:
    return NotImplemented if not isinstance(x, tuple) or axes == () else \
        (product(x),) if keepdims else product(x)


@of_sizes("ReduceSum")
def _total(x: Any, axes: Any = None, keepdims: int = 1, noop_with_empty_axes: int = 0) -> Any:
    return NotImplemented if not isinstance(x, tuple) or axes == () else \
        (sum(x),) if keepdims else sum(x)
