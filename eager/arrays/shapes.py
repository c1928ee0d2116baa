"""Shape rules shared by all ops. Sizes are ints, or symbolic sizes that behave as ints."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from ..errors import AxisError, ShapeError
from .dtypes import DType

Shape = tuple[Any, ...]  # of int or symbolic sizes


@dataclass(frozen=True)
class TensorType:
    """What is known of a tensor without its values: shape and dtype."""

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
    """Whether two shapes are equal. Python asks whether sizes are before it looks at the number of
    them, and where sizes are symbols each question is a condition."""
    return len(a) == len(b) and a == b


def broadcast(name: str, *shapes: Shape) -> Shape:
    """The common shape of `shapes` under NumPy's rules, or a ShapeError that marks the axis."""
    ndim = max(map(len, shapes), default=0)
    out: list[Any] = [1] * ndim
    for shape in shapes:
        for axis, size in enumerate(shape, ndim - len(shape)):
            known = out[axis]
            if known is size or is_one(size):
                continue
            if is_one(known):
                out[axis] = size
            elif known != size and known == 1:
                out[axis] = size
            elif known != size and size != 1:
                raise ShapeError(
                    f"{name}: shapes {' and '.join(map(str, shapes))} do not broadcast: "
                    f"axis {axis - ndim} is {out[axis]} on one side and {size} on the other",
                    _broadcast_hint(shapes, axis - ndim),
                )
    return tuple(out)


def is_one(size: Any) -> bool:
    """Whether a size is a plain 1. A symbolic size is not asked: the answer would limit it."""
    return type(size) is int and size == 1


def _broadcast_hint(shapes: Sequence[Shape], axis: int) -> str:
    if len(shapes) == 2 and len(shapes[0]) == len(shapes[1]) == 2 and shapes[0] == shapes[1][::-1]:
        return "one of them looks transposed: try y.T"
    short, long = sorted(shapes[:2], key=len) if len(shapes) == 2 else ((), ())
    if 0 < len(short) < len(long) and all(n in (1, m) for n, m in zip(short, long)):
        places = ", ".join([":"] * len(short) + ["None"] * (len(long) - len(short)))
        name = "y" if short is shapes[1] else "x"
        return f"{short} fits the first axes of {long}; sizes match from the last: {name}[{places}]"
    return "sizes must be equal or 1; insert an axis with x[:, None] or change one with reshape"


def whole(number: Any) -> Any:
    """`number` where it is a whole number, Python's for one of NumPy's; else None."""
    if type(number) is int:
        return number
    if isinstance(number, (bool, float)) or not hasattr(number, "__index__"):
        return None
    try:
        return number.__index__() if hasattr(number, "dtype") else number
    except TypeError:
        return None


def axis_of(name: str, given: Any, ndim: int) -> int:
    """The axis `given`, counted from the front, or an AxisError."""
    axis = whole(given)
    if axis is None:
        raise ShapeError(f"{name}: an axis is an int, not {given!r}",
                         f"this tensor has {ndim} axes, counted from 0 or from -1 backwards")
    if not -ndim <= axis < ndim:
        raise AxisError(
            f"{name}: axis {axis} is out of range for a tensor with {ndim} axes",
            f"axes go from {-ndim} to {ndim - 1}" if ndim else "a 0-d tensor has no axes",
        )
    return int(axis % ndim)


def axes_of(name: str, axis: Any, ndim: int) -> tuple[int, ...]:
    """The axes meant by None (all), an int or a tuple, counted from the front, in order."""
    if axis is None:
        return tuple(range(ndim))
    given = axis if isinstance(axis, (tuple, list)) else (axis,)
    axes = sorted([axis_of(name, a, ndim) for a in given])
    if len(set(axes)) != len(axes):
        raise ShapeError(f"{name}: an axis is given twice in {axis!r}", "name each axis once")
    return tuple(axes)


def listed(name: str, sizes: Any) -> tuple[Any, ...]:
    """`sizes`, one number or a sequence of them, as a tuple."""
    if isinstance(sizes, (tuple, list)):
        return tuple(sizes)
    if isinstance(sizes, Iterable):
        raise ShapeError(f"{name}: takes a tuple of ints, not {sizes!r:.80}", "as in (2, 3)")
    return (sizes,)


def sizes_of(name: str, shape: Any) -> Shape:
    """`shape`, one size or a sequence of them, as a tuple of whole numbers, or a ShapeError."""
    given = listed(name, shape)
    sizes = tuple(map(whole, given))
    if None in sizes:
        raise ShapeError(f"{name}: a shape is made of whole numbers, got {given}",
                         "use // for sizes that come from a division")
    return sizes


def slice_of_size(item: slice, n: Any) -> tuple[Any, int, Any]:
    """(start, step, number of elements) of a slice of an axis of `n`, by comparisons of sizes only.

    What slice.indices does, for sizes that are symbolic.
    """
    step = 1 if item.step is None else item.step.__index__()
    low, high = (0, n) if step > 0 else (-1, n - 1)

    def limit(given: Any, default: Any) -> Any:
        if given is None:
            return default
        place = given if isinstance(given, int) else given.__index__()
        if place < 0:
            place = place + n
            return low if place < low else place
        return high if place > high else place

    first, last = (low, high) if step > 0 else (high, low)
    start, stop = limit(item.start, first), limit(item.stop, last)
    count = ((stop - start if step > 0 else start - stop) + abs(step) - 1) // abs(step)
    return start, step, count if count > 0 else 0


def reduced(shape: Shape, axes: tuple[int, ...], keepdims: bool) -> Shape:
    """`shape` with `axes` taken out, or kept with size 1."""
    if keepdims:
        return tuple(1 if i in axes else n for i, n in enumerate(shape))
    return tuple(n for i, n in enumerate(shape) if i not in axes)


def resolve_reshape(shape: Shape, new: Sequence[Any]) -> Shape:
    """`new` with its one -1 replaced so that it holds as many elements as `shape`."""
    size, known = product(shape), product(n for n in new if n != -1)
    unknown = [i for i, n in enumerate(new) if n == -1]
    wrong = len(unknown) > 1 or any(n < -1 for n in new)
    if unknown and not wrong:
        wrong = known == 0 or size % known != 0
        out = tuple(new) if wrong else tuple(size // known if n == -1 else n for n in new)
    else:
        out = tuple(new)
        wrong = wrong or known != size
    if wrong:
        raise ShapeError(
            f"reshape: {size} elements of shape {shape} do not fit the shape {tuple(new)}",
            "the product of the sizes must stay the same; one size may be -1",
        )
    return out
