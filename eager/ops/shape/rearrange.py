"""Moves and repeats elements by composing views: roll, rot90, repeat, tile, moveaxis, unflatten."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...arguments import names_itself, whole
from ...arrays import shapes
from ...arrays.shapes import axis_of
from ...core.dispatch import apply
from ...core.tensor import Tensor, as_tensor
from ...errors import ArgumentError, DTypeError, ShapeError
from ...interpreter import as_size
from ..create import iota
from ..data_dependent import repeated
from ..elementwise.pointwise import alias, remainder
from .concat import concat_same_dtype
from .join import split
from .take import take_op
from .view import (
    broadcast_to,
    expand_dims,
    flip,
    permute_dims,
    reshape,
    slice_axes,
    transpose,
    unslice,
)

__all__ = [
    "broadcast_arrays", "broadcast_shapes", "moveaxis", "repeat", "roll", "rot90", "tile",
    "unflatten",
]


def broadcast_shapes(*shapes: Sequence[int]) -> tuple[Any, ...]:
    """The common shape of `shapes` after broadcasting.

    Raises:
        ShapeError: the shapes do not broadcast.

    Example:
        >>> import fusewire as fw
        >>> fw.broadcast_shapes((3, 1), (5,))
        (3, 5)
    """
    return _common("broadcast_shapes", *[_sizes("broadcast_shapes", s) for s in shapes])


_common, _sizes = shapes.broadcast, shapes.sizes_of


def broadcast_arrays(*arrays: Tensor) -> tuple[Tensor, ...]:
    """The tensors, each repeated to their common shape after broadcasting, as a tuple.

    Raises:
        ShapeError: the shapes do not broadcast.

    Example:
        >>> import fusewire as fw
        >>> [x.shape for x in fw.broadcast_arrays(fw.ones(3, 1), fw.ones(2))]
        [(3, 2), (3, 2)]
    """
    tensors = [as_tensor("broadcast_arrays", x) for x in arrays]
    shape = _common("broadcast_arrays", *[x.shape for x in tensors])
    return tuple(broadcast_to(x, shape) for x in tensors)


def moveaxis(x: Tensor, source: Any, destination: Any) -> Tensor:
    """`x` with the axes `source` moved to `destination`; the other axes keep their order.

    Args:
        source: one axis or several of `x`.
        destination: as many axes of the result.

    Raises:
        ShapeError: the numbers of axes differ, or one is named twice.

    Example:
        >>> import fusewire as fw
        >>> fw.moveaxis(fw.zeros(2, 3, 4), 0, -1).shape
        (3, 4, 2)
    """
    x = as_tensor("moveaxis", x)
    sources, targets = ([axis_of("moveaxis", a, x.ndim) for a in shapes.listed("moveaxis", axes)]
                        for axes in (source, destination))
    for axes in (sources, targets):
        if len(set(axes)) != len(sources) or len(axes) != len(sources):
            raise ShapeError(f"moveaxis: the axes {source!r} cannot go to {destination!r}",
                             "name as many destinations as axes, each once")
    rest = iter(a for a in range(x.ndim) if a not in sources)
    source_at = dict(zip(targets, sources))
    return permute_dims(x, [source_at[i] if i in source_at else next(rest) for i in range(x.ndim)])


def roll(x: Tensor, shift: Any, axis: Any = None) -> Tensor:
    """`x` with its elements moved by `shift` along `axis`; the last ones wrap round to the front.

    Args:
        shift: number of elements, negative to move backwards; one for each axis, or one for all.
        axis: one axis or several. Default None: the row-major order of all elements.

    Raises:
        ShapeError: the shifts are not whole numbers, or there are not as many as axes.

    Example:
        >>> import fusewire as fw
        >>> fw.roll(fw.arange(5), 2)
        tensor([3, 4, 0, 1, 2])
    """
    x = as_tensor("roll", x)
    if axis is None:
        return reshape(roll(reshape(x, (-1,)), shift, 0), x.shape)
    axes = [axis_of("roll", a, x.ndim) for a in shapes.listed("roll", axis)]
    shifts = [as_size(whole(s)) for s in shapes.listed("roll", shift)]
    shifts = shifts * len(axes) if len(shifts) == 1 else shifts
    if None in shifts or len(shifts) != len(axes):
        raise ShapeError(f"roll: shifts {shift!r} do not fit the axes {axis!r}",
                         "give a whole number for each axis, or one for all")
    out = alias(x)
    for a, by in zip(axes, shifts):
        out = _rolled(out, by, a)
    return out


def _rolled(x: Tensor, by: int, axis: int) -> Tensor:
    n = x.shape[axis]
    if type(n) is not int:  # `by` may wrap round more than once
        indices = remainder(iota((n,), 0, device=x.device) - by, n)
        return apply(take_op, (x, indices), {"axis": axis})
    last = by % n if n else 0
    if last == 0:
        return x
    front, back = split(x, (n - last, last), axis)
    return concat_same_dtype([back, front], axis)


def shift(x: Tensor, by: int, fill: Any) -> Tensor:
    """`x` moved by `by` elements along the last axis; `fill` replaces the missing ones."""
    n = x.shape[-1]
    size = (*x.shape[:-1], n - abs(by) if n > abs(by) else 0)
    origin = (0,) * (x.ndim - 1)
    part = slice_axes(x, (*origin, max(-by, 0)), (1,) * x.ndim, size)
    return unslice(part, x.shape, (*origin, max(by, 0)), (1,) * x.ndim, fill)


def repeat(x: Tensor, repeats: Any, *more: Any, axis: int | None = None) -> Tensor:
    """`x` with each element repeated `repeats` times, next to each other.

    Args:
        repeats: a number, or a tensor of integers with one for each element along the axis.
        axis: along which elements are repeated. Default None: flattens `x` first.

    Raises:
        ArgumentError: several numbers are passed as arguments.
        ShapeError: `repeats` is negative or does not fit the axis.
        DTypeError: `repeats` is a tensor of another kind than integers.

    Example:
        >>> import fusewire as fw
        >>> fw.repeat(fw.tensor([1, 2]), 2), fw.repeat(fw.tensor([1, 2]), fw.tensor([3, 1]))
        (tensor([1, 1, 2, 2]), tensor([1, 1, 1, 2]))
    """
    if more:  # other libraries read these as the axis, or as repetitions of the whole tensor
        raise ArgumentError(f"repeat: takes one number of repeats, not {(repeats, *more)}",
                            "x.tile((2, 1)) lays copies of x side by side, x.repeat(2, axis=1) "
                            "those of each element")
    x = as_tensor("repeat", x)
    if axis is None:
        x, axis = reshape(x, (-1,)), 0
    at = axis_of("repeat", axis, x.ndim)
    times = whole(repeats) if not isinstance(repeats, (Tensor, np.ndarray)) else None
    if times is None:
        return apply(take_op, (x, _repeated(repeats, x.shape[at])), {"axis": at})
    if times < 0:
        raise ShapeError(f"repeat: {times} repeats", "elements are repeated 0 times or more")
    shape = list(x.shape)
    wide = broadcast_to(expand_dims(x, at + 1), (*shape[:at + 1], times, *shape[at + 1:]))
    return reshape(wide, (*shape[:at], shape[at] * times, *shape[at + 1:]))


def _repeated(repeats: Any, n: int) -> Tensor:
    """The indices 0 to n - 1, each repeated as `repeats` says."""
    times = as_tensor("repeat", repeats)
    if times.dtype.kind not in "iu":
        raise DTypeError(f"repeat: repeats are integers, not {times.dtype.name}",
                         "cast them: repeats.astype(fw.int64)")
    if times.shape not in ((), (1,), (n,)):
        raise ShapeError(f"repeat: repeats of shape {times.shape} for {n} elements",
                         "give one number for each element along the axis")
    return repeated(broadcast_to(times, (n,)))


def tile(x: Tensor, repetitions: Sequence[int]) -> Tensor:
    """Copies of `x` side by side: `repetitions` of them along each axis, counted from the last.

    Raises:
        ShapeError: a number of repetitions is negative.

    Example:
        >>> import fusewire as fw
        >>> fw.tile(fw.tensor([1, 2]), (2, 2))
        tensor([[1, 2, 1, 2],
                [1, 2, 1, 2]])
    """
    x, times = as_tensor("tile", x), shapes.sizes_of("tile", repetitions)
    if any(t < 0 for t in times):
        raise ShapeError(f"tile: repetitions {times}", "they are 0 or more")
    times = (*(1,) * (x.ndim - len(times)), *times)
    sizes = (*(1,) * (len(times) - x.ndim), *x.shape)
    pairs = [n for t, m in zip(times, sizes) for n in (t, m)]
    apart = reshape(x, tuple(n for m in sizes for n in (1, m)))
    return reshape(broadcast_to(apart, pairs), tuple(t * n for t, n in zip(times, sizes)))


@names_itself
def unflatten(x: Tensor, axis: int, sizes: Sequence[int]) -> Tensor:
    """`x` with `axis` split into axes of `sizes`; `flatten` is the inverse.

    Args:
        axis: the axis that is split.
        sizes: the new sizes; one of them may be -1 and follows from the others.

    Raises:
        ShapeError: the product of `sizes` is not the size of the axis.

    Example:
        >>> import fusewire as fw
        >>> fw.unflatten(fw.zeros(2, 6), 1, (3, -1)).shape
        (2, 3, 2)
    """
    x = as_tensor("unflatten", x)
    at = axis_of("unflatten", axis, x.ndim)
    inner = shapes.resolve_reshape((x.shape[at],), shapes.sizes_of("unflatten", sizes))
    return reshape(x, (*x.shape[:at], *inner, *x.shape[at + 1:]))


def rot90(x: Tensor, k: int = 1, axes: Sequence[int] = (0, 1)) -> Tensor:
    """`x` turned `k` times by 90 degrees, from the first of `axes` towards the second.

    Args:
        k: a whole number; negative to turn the other way. Default 1.
        axes: two different axes. Default (0, 1).

    Raises:
        ShapeError: `axes` are not two different axes, or `k` is not a whole number.

    Example:
        >>> import fusewire as fw
        >>> fw.rot90(fw.tensor([[1, 2], [3, 4]]))
        tensor([[2, 4],
                [1, 3]])
    """
    x = as_tensor("rot90", x)
    pair, turns = [axis_of("rot90", a, x.ndim) for a in shapes.listed("rot90", axes)], whole(k)
    if turns is None or len(pair) != 2 or pair[0] == pair[1]:
        raise ShapeError(f"rot90: axes {axes!r} and k={k!r}",
                         "name two different axes, and a whole number of turns")
    first, second = pair
    if turns % 4 == 0:
        return alias(x)
    if turns % 4 == 2:
        return flip(x, pair)
    if turns % 4 == 1:
        return transpose(flip(x, second), first, second)
    return flip(transpose(x, first, second), second)
