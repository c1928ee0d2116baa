"""Pads a tensor with a constant, or with its own elements mirrored, repeated or wrapped."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...arguments import check_whole, whole
from ...arrays.shapes import listed
from ...core.tensor import Tensor, as_tensor
from ...errors import ArgumentError, ShapeError
from ...interpreter import as_size
from ..elementwise.pointwise import alias
from .concat import concat_same_dtype
from .view import expand_to, slice_axes
from .view import pad as pad_constant

__all__ = ["pad"]


def _reflected(i: int, n: int) -> int:
    """The index mirrored at the middle of the last element, which is not repeated."""
    offset = i % (2 * n - 2) if n > 1 else 0
    return offset if offset < n else 2 * n - 2 - offset


def _symmetric(i: int, n: int) -> int:
    """The index mirrored at the edge, so that the last element is repeated once."""
    offset = i % (2 * n)
    return offset if offset < n else 2 * n - 1 - offset


_SOURCE_INDEX: dict[str, Callable[[int, int], int]] = {
    "reflect": _reflected, "symmetric": _symmetric,
    "edge": lambda i, n: min(max(i, 0), n - 1), "wrap": lambda i, n: i % n,
}
# Under PyTorch's names:
_SOURCE_INDEX |= {"replicate": _SOURCE_INDEX["edge"], "circular": _SOURCE_INDEX["wrap"]}


def pad(x: Tensor, pad_width: Any, mode: str = "constant", constant_values: Any = 0) -> Tensor:
    """`x` with elements added before and after each axis.

    Args:
        pad_width: (before, after) for each axis; or one pair, or one number, for all axes.
        mode: "constant" adds `constant_values`. "reflect" mirrors without the last element,
            "symmetric" with it. "edge" repeats the last element, "wrap" continues from the other
            side. "replicate" and "circular" are PyTorch's names of the last two. Default
            "constant".
        constant_values: of the added elements: one, or pairs as in `pad_width`. Default 0.

    Raises:
        ArgumentError: `mode` has another value.
        ShapeError: `pad_width` does not fit the axes, or an empty axis has no elements to repeat.

    Example:
        >>> import fusewire as fw
        >>> fw.pad(fw.tensor([1, 2, 3]), (2, 1), mode="reflect")
        tensor([3, 2, 1, 2, 3, 2])
    """
    x = as_tensor("pad", x)
    widths = _widths(x, pad_width)
    if mode == "constant":
        return _padded_by_constants(x, widths, constant_values)
    if mode not in _SOURCE_INDEX:
        raise ArgumentError(f"pad: mode {mode!r} is not known",
                            f"mode is one of {', '.join(map(repr, ('constant', *_SOURCE_INDEX)))}")
    out = alias(x)
    for axis, (before, after) in enumerate(widths):
        n = x.shape[axis]
        if n == 0 and before + after:
            raise ShapeError(f"pad: axis {axis} of shape {x.shape} has no elements to repeat",
                             'use mode="constant"')
        if before + after:
            out = picked(out, axis, [_SOURCE_INDEX[mode](i, n) for i in range(-before, n + after)])
    return out


def _widths(x: Tensor, width: Any) -> list[tuple[int, int]]:
    if whole(width) is not None:
        around = as_size(check_whole("pad", "width", width, 0))
        return [(around, around)] * x.ndim
    pairs = list(listed("pad", width))
    if pairs and all(whole(w) is not None for w in pairs):
        pairs = [pairs] * x.ndim
    if len(pairs) == 1:
        pairs = pairs * x.ndim
    bad = len(pairs) != x.ndim or any(len(w) != 2 or min(w) < 0 for w in map(_pair, pairs))
    if bad:
        raise ShapeError(f"pad: needs (before, after), not negative, for each of the {x.ndim} axes "
                         f"of shape {x.shape}, got {width!r}",
                         "as in pad(x, [(0, 0), (1, 1)]); slices take elements away")
    return [(a, b) for a, b in map(_pair, pairs)]


def _padded_by_constants(x: Tensor, widths: Sequence[tuple[int, int]], values: Any) -> Tensor:
    if not isinstance(values, (tuple, list, np.ndarray)):
        return pad_constant(x, widths, values)
    pairs = np.broadcast_to(np.asarray(values), (x.ndim, 2)).tolist()
    for axis, sides in enumerate(widths):
        for side, (count, value) in enumerate(zip(sides, pairs[axis])):
            around = [(0, 0)] * x.ndim
            around[axis] = (0, count) if side else (count, 0)
            x = pad_constant(x, around, value)
    return x


def _pair(width: Any) -> tuple[int, ...]:
    """The numbers of elements to add to an axis, as ints."""
    return tuple(as_size(check_whole("pad", "width", w)) for w in listed("pad", width))


def picked(x: Tensor, axis: int, indices: Sequence[int]) -> Tensor:
    """The elements of `x` at `indices`, a list of ints, along `axis`: slices joined together."""
    return concat_same_dtype([_run(x, axis, *run) for run in _runs(indices)], axis)


def _runs(indices: Sequence[int]) -> list[tuple[int, int, int]]:
    """`indices` as runs (first, step, count) with steps of -1, 0 or 1."""
    runs: list[list[int]] = []
    for index in indices:
        if runs:
            first, step, count = runs[-1]
            move = index - (first + step * (count - 1))
            if move in (-1, 0, 1) and (count == 1 or move == step):
                runs[-1][1:] = [move, count + 1]
                continue
        runs.append([index, 1, 1])
    return [(first, step, count) for first, step, count in runs]


def _run(x: Tensor, axis: int, first: int, step: int, count: int) -> Tensor:
    start = tuple(first if a == axis else 0 for a in range(x.ndim))
    size = tuple(count if a == axis else n for a, n in enumerate(x.shape))
    if step:
        steps = tuple(step if a == axis else 1 for a in range(x.ndim))
        return slice_axes(x, start, steps, size)
    one = tuple(1 if a == axis else n for a, n in enumerate(x.shape))
    return expand_to(slice_axes(x, start, (1,) * x.ndim, one), size)
