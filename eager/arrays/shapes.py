"""Checks and computes shapes for all ops. Sizes are ints, or symbolic sizes that behave as ints."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from ..arguments import whole
from ..errors import AxisError, ShapeError
from ..interpreter import as_size
from .dtypes import DType

Shape = tuple[Any, ...]  # of int or symbolic sizes


@dataclass(frozen=True)
class TensorType:
    """The shape and dtype of a tensor."""

    shape: Shape
    dtype: DType

    def __hash__(self) -> int:
        return hash((self.shape, self.dtype))

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> Any:
        return product(self.shape)

    def __str__(self) -> str:
        return f"{self.dtype.name}[{', '.join(map(str, self.shape))}]"


def product(sizes: Iterable[Any]) -> Any:
    """The number of elements of a tensor with these sizes; 1 for none."""
    total: Any = 1
    for size in sizes:
        total = total * size
    return total


def same(a: Sequence[Any], b: Sequence[Any]) -> bool:
    """True if two shapes are equal. Lengths come first: Python compares elements before them, and
    each comparison of symbolic sizes is a decision of the trace."""
    return len(a) == len(b) and a == b


def broadcast(name: str, *shapes: Shape) -> Shape:
    """The shape to which `shapes` broadcast, or a ShapeError that names the axis."""
    ndim = max(map(len, shapes), default=0)
    out: list[Any] = [1] * ndim
    for shape in shapes:
        for axis, size in enumerate(shape, ndim - len(shape)):
            common = out[axis]
            if common is size or is_one(size):
                continue
            if is_one(common):
                out[axis] = size
            elif common != size and common == 1:
                out[axis] = size
            elif common != size and size != 1:
                raise ShapeError(
                    f"{name}: shapes {' and '.join(map(str, shapes))} do not broadcast: "
                    f"axis {axis - ndim} is {out[axis]} on one side and {size} on the other",
                    _broadcast_hint(shapes, axis - ndim),
                )
    return tuple(out)


def is_one(size: Any) -> bool:
    """True for the int 1. A symbolic size is not compared, since the outcome would limit it."""
    return type(size) is int and size == 1


def _broadcast_hint(shapes: Sequence[Shape], axis: int) -> str:
    if len(shapes) == 2 and len(shapes[0]) == len(shapes[1]) == 2 and shapes[0] == shapes[1][::-1]:
        return "one of them looks transposed: try y.T"
    short, long = sorted(shapes[:2], key=len) if len(shapes) == 2 else ((), ())
    if 0 < len(short) < len(long) and all(n in (1, m) for n, m in zip(short, long)):
        index = ", ".join([":"] * len(short) + ["None"] * (len(long) - len(short)))
        name = "y" if short is shapes[1] else "x"
        return f"{short} fits the first axes of {long}; sizes match from the last: {name}[{index}]"
    return "sizes must be equal or 1; insert an axis with x[:, None] or change one with reshape"


def axis_of(name: str, number: Any, ndim: int) -> int:
    """The axis `number`, counted from the front. AxisError if there is no such axis."""
    axis = whole(number)
    if axis is None:
        raise ShapeError(f"{name}: an axis is an int, not {number!r}",
                         f"this tensor has {ndim} axes, counted from 0 or from -1 backwards")
    if not -ndim <= axis < ndim:
        raise AxisError(
            f"{name}: axis {axis} is out of range for a tensor with {ndim} axes",
            f"axes go from {-ndim} to {ndim - 1}" if ndim else "a 0-d tensor has no axes",
        )
    return int(axis % ndim)


def axes_of(name: str, axis: Any, ndim: int) -> tuple[int, ...]:
    """The axes meant by None (all), an int or a tuple, counted from the front, sorted.

    A 0-d tensor takes the axes 0 and -1, as in NumPy and PyTorch, though it has none: the result
    is then empty.
    """
    if axis is None:
        return tuple(range(ndim))
    axis_list = axis if isinstance(axis, (tuple, list)) else (axis,)
    axes = sorted([axis_or_scalar(name, a, ndim) for a in axis_list])
    if len(set(axes)) != len(axes):
        raise ShapeError(f"{name}: an axis is given twice in {axis!r}", "name each axis once")
    return tuple(axes) if ndim else ()


def axis_or_scalar(name: str, number: Any, ndim: int) -> int:
    """The axis `number`, counted from the front; 0 for the axes 0 and -1 of a 0-d tensor."""
    return 0 if ndim == 0 and whole(number) in (0, -1) else axis_of(name, number, ndim)


def listed(name: str, sizes: Any) -> tuple[Any, ...]:
    """`sizes`, one number or a sequence of them, as a tuple."""
    if isinstance(sizes, (tuple, list)):
        return tuple(sizes)
    if isinstance(sizes, Iterable):
        raise ShapeError(f"{name}: takes a tuple of ints, not {sizes!r:.80}", "as in (2, 3)")
    return (sizes,)


class ElementCount(int):
    """The number of elements of a tensor, which says what to write for a call of it."""

    __slots__ = ()

    def __call__(self, *axis: Any) -> NoReturn:
        raise TypeError("'int' object is not callable\n  help: x.size is the number of elements: "
                        "use x.shape, and x.shape[i] for one axis")


def sizes_of(name: str, shape: Any) -> Shape:
    """`shape`, one size or a sequence of them, as a tuple of whole numbers, or a ShapeError."""
    items = listed(name, shape)
    sizes = tuple([as_size(whole(n)) for n in items])
    if None in sizes:
        raise ShapeError(f"{name}: a shape is made of whole numbers, got {items}",
                         "use // for sizes that come from a division")
    return sizes


def slice_of_size(item: slice, n: Any) -> tuple[Any, int, Any]:
    """(start, step, number of elements) of a slice of an axis of `n`, by comparisons of sizes only.

    It is slice.indices for symbolic sizes.
    """
    step = 1 if item.step is None else item.step.__index__()
    low, high = (0, n) if step > 0 else (-1, n - 1)

    def limit(bound: Any, default: Any) -> Any:
        if bound is None:
            return default
        position = as_size(bound) if isinstance(bound, int) else bound.__index__()
        if position < 0:
            position = position + n
            return low if position < low else position
        # Of two equal limits the size is the better one: then a slice to the end has all elements.
        return high if position >= high else position

    first, last = (low, high) if step > 0 else (high, low)
    start, stop = limit(item.start, first), limit(item.stop, last)
    count = ((stop - start if step > 0 else start - stop) + abs(step) - 1) // abs(step)
    return start, step, count if count > 0 else 0


def reduced(shape: Shape, axes: tuple[int, ...], keepdims: bool) -> Shape:
    """`shape` without `axes`, or with size 1 there."""
    if keepdims:
        return tuple(1 if i in axes else n for i, n in enumerate(shape))
    return tuple(n for i, n in enumerate(shape) if i not in axes)


def resolve_reshape(shape: Shape, new: Sequence[Any]) -> Shape:
    """`new` with its one -1 replaced so that it holds as many elements as `shape`."""
    size, count = product(shape), product(n for n in new if n != -1)
    unknown = [i for i, n in enumerate(new) if n == -1]
    wrong = len(unknown) > 1 or any(n < -1 for n in new)
    if unknown and not wrong:
        wrong = count == 0 or size % count != 0
        out = tuple(new) if wrong else tuple(size // count if n == -1 else n for n in new)
    else:
        out = tuple(new)
        wrong = wrong or count != size
    if wrong:
        raise ShapeError(
            f"reshape: {size} elements of shape {shape} do not fit the shape {tuple(new)}",
            "the product of the sizes must stay the same; one size may be -1",
        )
    return out
