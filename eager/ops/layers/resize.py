"""Resizes axes by interpolation, with PyTorch's numerics.

Each axis is resized by itself: an element of the result is the weighted sum of a few elements of
`x`, its taps. For tensors of float32, positions and weights are computed in float32, as PyTorch
does. They are arrays, or tensors if a size is symbolic; NumPy's functions accept both.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np

from ...arrays import dtypes
from ...core.tensor import Tensor, tensor
from ..create import arange
from ..declare import cast
from ..products.contract import tensordot
from ..shape.take import take
from ..shape.view import broadcast_to, permute_dims, reshape, slice_axes

__all__: list[str] = []

Taps = list[tuple[Any, Any]]  # (indices in the axis, weights)
# The free coefficients of Keys's interpolation (1981) in PyTorch, without and with antialiasing.
_CUBIC, _SMOOTH = -0.75, -0.5


def resize_axis(x: Tensor, axis: int, size: int, mode: str, align_corners: bool,
                scale: float | None, antialias: bool = False) -> Tensor:
    """`x` with `size` elements along `axis`; scale: elements of x per element of the result."""
    n = x.shape[axis]
    if mode in ("nearest", "nearest-exact"):
        return _nearest(x, axis, size, scale, mode != "nearest")
    if mode == "area":
        return _average(x, axis, size)
    work = np.float64 if x.dtype == dtypes.float64 else np.float32
    if antialias:
        return _averaged(x, axis, _averages(n, size, mode, align_corners, scale, work))
    if mode == "linear" and scale is not None and size == n:
        scale = None  # an axis that keeps its size is unchanged, even by a scale of 1.1
    positions = _centres(n, size, align_corners, scale, work)
    taps = _cubic(positions, n) if mode == "cubic" else _linear(positions, n)
    return _weighted(x, axis, size, taps)


def _centres(n: int, size: int, align_corners: bool, scale: float | None, work: Any) -> Any:
    """The positions of the elements of the result in an axis of `n`."""
    at, step = numbered(size, work), _step(n, size, align_corners, scale, work)
    return at * step if align_corners else (at + work(0.5)) * step - work(0.5)


def _step(n: int, size: int, align_corners: bool, scale: float | None, work: Any) -> Any:
    """The distance of neighbouring elements of the result, in elements of `x`."""
    if scale is not None and not align_corners:
        return work(scale)
    before, after = wide(n), wide(size)
    return ((before - 1) / np.maximum(after - 1, 1) if align_corners else before / after
            ).astype(work)


def numbered(size: int, work: Any) -> Any:
    """0, 1, ..., size - 1: an array, or a tensor if the size is symbolic."""
    return np.arange(size).astype(work) if type(size) is int else arange(size).astype(work)


def wide(size: int) -> Any:
    """A size as an array of float64, or as a tensor if it is symbolic."""
    return np.float64(size) if type(size) is int else tensor(1.0, np.float64) * size


def varies(values: Any) -> bool:
    """True if positions or weights are a tensor, since sizes are symbolic."""
    return isinstance(values, Tensor)


def as_tensor(values: Any, like: Tensor) -> Tensor:
    """Positions or weights as a tensor on the device of `like`."""
    return values if varies(values) else tensor(values, device=like.device)


def _linear(positions: Any, n: int) -> Taps:
    positions = np.maximum(positions, 0)
    low = np.minimum(positions.astype(np.int64), n - 1)
    share = np.minimum(np.maximum(positions - low.astype(positions.dtype), 0), 1)
    return [(low, 1 - share), (np.minimum(low + 1, n - 1), share)]


def _cubic(positions: Any, n: int) -> Taps:
    low = np.floor(positions)
    t = positions - low
    return [(np.minimum(np.maximum(low.astype(np.int64) + offset, 0), n - 1), weight)
            for offset, weight in zip(range(-1, 3), cubic_weights(t))]


def cubic_weights(t: Any) -> list[Any]:
    """The weights of the elements at -1, 0, 1, 2 for 0 <= t < 1, an array or a tensor."""
    return [_outer(t + 1, _CUBIC), _inner(t, _CUBIC), _inner(1 - t, _CUBIC), _outer(2 - t, _CUBIC)]


def _inner(t: Any, a: float) -> Any:
    """Keys's weight of an element at a distance t up to 1."""
    return ((a + 2) * t - (a + 3)) * t * t + 1


def _outer(t: Any, a: float) -> Any:
    """The weight at a distance t from 1 to 2."""
    return ((a * t - 5 * a) * t + 8 * a) * t - 4 * a


def _averages(n: int, size: int, mode: str, align_corners: bool, scale: float | None, work: Any
              ) -> Any:
    """A matrix (size, n) of the weights of a mode, wider if the axis becomes shorter."""
    step = _step(n, size, align_corners, scale, work)
    broad = np.maximum(step, work(1))
    centre = (step * (numbered(size, work) + work(0.5)))[:, None]
    reach, at = broad * (2 if mode == "cubic" else 1), numbered(n, work)
    first, last = (np.trunc(centre + end + work(0.5)) for end in (-reach, reach))
    away = abs((at - centre + work(0.5)) / broad)
    weights = np.maximum(1 - away, 0) if mode == "linear" else np.where(
        away < 1, _inner(away, _SMOOTH), np.where(away < 2, _outer(away, _SMOOTH), 0))
    weights = np.where((at >= first) & (at < last), weights, 0)
    return weights / weights.sum(1, keepdims=True)


def _averaged(x: Tensor, axis: int, weights: Any) -> Tensor:
    """`x` multiplied along an axis by the matrix of weights."""
    wide = cast(x, dtypes.float32) if x.dtype.itemsize == 2 else x
    out = tensordot(wide, as_tensor(weights.astype(wide.dtype), x), ((axis,), (1,)))
    rest = range(axis, x.ndim - 1)
    return cast(permute_dims(out, (*range(axis), x.ndim - 1, *rest)), x.dtype)


def _weighted(x: Tensor, axis: int, size: int, taps: Taps) -> Tensor:
    """The sum of the taps; 16-bit floats are summed in float32."""
    small = x.dtype.itemsize == 2
    source = cast(x, dtypes.float32) if small else x
    wide = tuple(size if a == axis else 1 for a in range(x.ndim))
    total: Any = None
    for indices, weights in taps:
        part = take(source, as_tensor(indices, x), axis) * as_tensor(
            weights.reshape(wide).astype(source.dtype), x)
        total = part if total is None else total + part
    return cast(total, x.dtype)


def scaled(n: int, factor: float) -> int:
    """The size of an axis of `n` scaled by `factor`; symbolic sizes allow simple fractions."""
    over = Fraction(factor)
    simple = over.denominator <= 1024  # a product without rounding
    return n * over.numerator // over.denominator if simple else math.floor(n * factor)


def repeated(x: Tensor, axis: int, times: int) -> Tensor:
    """`x` with each element of an axis repeated `times` times, next to each other."""
    before, n, after = x.shape[:axis], x.shape[axis], x.shape[axis + 1:]
    apart = broadcast_to(reshape(x, (*before, n, 1, *after)), (*before, n, times, *after))
    return reshape(apart, (*before, n * times, *after))


def _nearest(x: Tensor, axis: int, size: int, scale: float | None, exact: bool) -> Tensor:
    n = x.shape[axis]
    if is_zero(size % n) and scale in (None, 1 / (size // n)):  # repetition needs no gather
        return repeated(x, axis, size // n)
    if is_zero(n % size) and scale in (None, n // size):
        start = tuple(n // size // 2 if exact and a == axis else 0 for a in range(x.ndim))
        step = tuple(n // size if a == axis else 1 for a in range(x.ndim))
        shape = (*x.shape[:axis], size, *x.shape[axis + 1:])
        return slice_axes(x, start, step, shape)
    at = numbered(size, np.float32) + np.float32(0.5 if exact else 0.0)
    apart = _step(n, size, False, scale, np.float32)
    indices = np.minimum(np.floor(at * apart).astype(np.int64), n - 1)
    return take(x, as_tensor(indices, x), axis)


def is_zero(rest: Any) -> bool:
    """True if an expression of sizes is 0 for all values of symbols."""
    return type(rest) is int and rest == 0


def _average(x: Tensor, axis: int, size: int) -> Tensor:
    """The means of `size` stretches of the axis, which overlap if the sizes do not divide."""
    n = x.shape[axis]
    if is_zero(n % size):
        apart = reshape(x, (*x.shape[:axis], size, n // size, *x.shape[axis + 1:]))
        return apart.mean(axis=axis + 1)  # type: ignore[attr-defined,no-any-return]
    if is_zero(size % n):
        return repeated(x, axis, size // n)
    plain = type(n) is int and type(size) is int
    at = np.arange(size) if plain else arange(size)
    first, last = at * n // size, -(-(at + 1) * n // size)
    if plain:
        return _weighted(x, axis, size, [
            (np.minimum(first + j, n - 1), (first + j < last) / (last - first))
            for j in range(int((last - first).max()))])
    index, first, last = arange(n), first[:, None], last[:, None]
    inside = (index >= first) & (index < last)
    return _averaged(x, axis, inside.astype(np.float64) / (last - first))
