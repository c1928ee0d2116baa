"""Shape rules shared by all ops. Sizes are ints, or symbolic sizes that behave as ints."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from .dtypes import DType
from .errors import ShapeError

Shape = tuple[Any, ...]  # of int or symbolic sizes


@dataclass(frozen=True)
class TensorType:
    """What is known of a tensor without its values: shape and dtype."""

    shape: Shape
    dtype: DType

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


def broadcast(name: str, *shapes: Shape) -> Shape:
    """The common shape of `shapes` under NumPy's rules, or a ShapeError that marks the axis."""
    ndim = max(map(len, shapes), default=0)
    out: list[Any] = [1] * ndim
    for shape in shapes:
        for axis, size in enumerate(shape, ndim - len(shape)):
            if out[axis] == 1:
                out[axis] = size
            elif size != 1 and size != out[axis]:
                raise ShapeError(
                    f"{name}: shapes {' and '.join(map(str, shapes))} do not broadcast: "
                    f"axis {axis - ndim} is {out[axis]} on one side and {size} on the other",
                    _broadcast_hint(shapes, axis - ndim),
                )
    return tuple(out)


def _broadcast_hint(shapes: Sequence[Shape], axis: int) -> str:
    if len(shapes) == 2 and len(shapes[0]) == len(shapes[1]) == 2 and shapes[0] == shapes[1][::-1]:
        return "one of them looks transposed: try y.T"
    return "sizes must be equal or 1; insert an axis with x[:, None] or change one with reshape"


def axis_of(name: str, axis: Any, ndim: int) -> int:
    """`axis` counted from the front, or a ShapeError."""
    if not isinstance(axis, int):
        raise ShapeError(f"{name}: axis must be an int, not {axis!r}")
    if not -ndim <= axis < max(ndim, 0):
        raise ShapeError(
            f"{name}: axis {axis} is out of range for a tensor with {ndim} axes",
            f"axes go from {-ndim} to {ndim - 1}" if ndim else "a 0-d tensor has no axes",
        )
    return axis % ndim


def axes_of(name: str, axis: Any, ndim: int) -> tuple[int, ...]:
    """The axes meant by None (all), an int or a tuple, counted from the front, in order."""
    if axis is None:
        return tuple(range(ndim))
    given = axis if isinstance(axis, (tuple, list)) else (axis,)
    axes = sorted(axis_of(name, a, ndim) for a in given)
    if len(set(axes)) != len(axes):
        raise ShapeError(f"{name}: an axis is given twice in {axis!r}")
    return tuple(axes)


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
        out = tuple(size // known if i == unknown[0] else n for i, n in enumerate(new)) if not wrong else ()
    else:
        out = tuple(new)
        wrong = wrong or known != size
    if wrong:
        raise ShapeError(
            f"reshape: {size} elements of shape {shape} do not fit the shape {tuple(new)}",
            "the product of the sizes must stay the same; one size may be -1",
        )
    return out
