"""Counts elements in the bins of histograms, of numbers and of points."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ... import interpreter
from ...arguments import names_itself, whole
from ...arrays import dtypes
from ...core.tensor import Tensor, as_tensor, tensor
from ...errors import ArgumentError, ShapeError
from ..create import full
from ..elementwise.pointwise import cast, equal, greater_equal, less, logical_and, where
from ..indexing.search import ordered, searchsorted
from ..reduction import reduce
from ..shape.join import unstack
from ..shape.take import add_at
from ..shape.view import flatten, reshape

__all__ = ["histogram", "histogramdd"]


class Histogram(NamedTuple):
    """The result of `histogram`: bins + 1 edges, and the counts between each two of them."""

    hist: Tensor
    bin_edges: Tensor


@names_itself
def histogram(x: Tensor, bins: Any = 10, range: tuple[float, float] | None = None,
              weights: Tensor | None = None, density: bool = False) -> Histogram:
    """The numbers of elements in each bin, and the edges of bins: (hist, bin_edges).

    Args:
        bins: the number of bins of equal width, or their edges. Default 10. An element on an edge
            belongs to the bin above; on the last edge, to the one below.
        range: (low, high), the outer edges. Default None: smallest and largest element.
        weights: of the elements, summed instead of counted. Default None.
        density: True divides so that the area is 1. Default False.

    Raises:
        DTypeError: the elements are complex.
        ArgumentError: there is no bin, or the limits are not finite and ascending.
        ShapeError: the edges are malformed, or the numbers of weights and elements differ.

    Example:
        >>> import fusewire as fw
        >>> fw.histogram(fw.tensor([1.0, 2.0, 1.0]), bins=2).hist
        tensor([2, 1])
    """
    x = flatten(ordered("histogram", x))
    x = x if dtypes.is_float(x.dtype) else cast(x, dtypes.DEFAULT_FLOAT)
    edges = _edges(x.detach(), bins, range)
    count = edges.shape[0] - 1
    index, inside = _bins(x, edges)
    counted = full(x.shape, 1, device=x.device) if weights is None else \
        flatten(as_tensor("histogram", weights))
    if counted.shape != x.shape:
        raise ShapeError(f"histogram: {counted.size} weights for {x.size} elements",
                         "give one weight for each")
    sums = add_at(where(inside, counted, 0), where(inside, index, 0), count)
    if density:
        width = edges[1:] - edges[:-1]  # type: ignore[index]
        sums = sums / (width * reduce.sum(sums))
    return Histogram(sums, edges)


def _bins(x: Tensor, edges: Tensor) -> tuple[Tensor, Tensor]:
    """The number of the bin of each element, and True where it lies in one."""
    count = edges.shape[0] - 1
    index = searchsorted(edges, x, side="right") - 1
    index = where(equal(x, edges[-1]), count - 1, index)  # type: ignore[index]
    return index, logical_and(greater_equal(index, 0), index < count)


class HistogramDD(NamedTuple):
    """The result of `histogramdd`: counts with an axis for each coordinate, and their edges."""

    hist: Tensor
    bin_edges: tuple[Tensor, ...]


@names_itself
def histogramdd(x: Tensor, bins: Any = 10, range: Sequence[Any] | None = None,
                weights: Tensor | None = None, density: bool = False) -> HistogramDD:
    """The numbers of points in each cell of a grid, and the edges: (hist, bin_edges).

    Args:
        x: points (n, d).
        bins: the number of bins of each coordinate; or a list with a number or the edges for each.
            Default 10.
        range: for each coordinate (low, high) or None, the outer edges. Default None: smallest and
            largest coordinate.
        weights: (n,), summed instead of counted. Default None.
        density: True divides so that the volume is 1. Default False.

    Raises:
        DTypeError: the coordinates are complex.
        ArgumentError: there is no bin, or the limits are not finite and ascending.
        ShapeError: `x` is no matrix, or bins, ranges or weights do not fit it.

    Example:
        >>> import fusewire as fw
        >>> fw.histogramdd(fw.tensor([[0.0, 0.0], [1.0, 1.0], [0.9, 0.8]]), bins=2).hist
        tensor([[1, 0],
                [0, 2]])
    """
    x = ordered("histogramdd", x)
    if x.ndim != 2:
        raise ShapeError(f"histogramdd: takes points (n, d), got shape {x.shape}",
                         "a vector of numbers is x[:, None]")
    x = x if dtypes.is_float(x.dtype) else cast(x, dtypes.DEFAULT_FLOAT)
    columns = unstack(x, 1)
    if whole(bins) is None and (isinstance(bins, str) or not isinstance(bins, Iterable)):
        raise ArgumentError(f"histogramdd: bins={bins!r:.80}",
                            "it is a whole number, or a list of numbers and edges")
    each = [bins] * len(columns) if whole(bins) is not None else list(bins)
    limits = [None] * len(columns) if range is None else list(range)
    if len(each) != len(columns) or len(limits) != len(columns):
        raise ShapeError(f"histogramdd: {len(each)} bins and {len(limits)} ranges for "
                         f"{len(columns)} coordinates", "give one for each")
    edges = tuple(_edges(c.detach(), b, r) for c, b, r in zip(columns, each, limits))
    hist = _counts(columns, edges, weights)
    return HistogramDD(_density(hist, edges) if density else hist, edges)


def _counts(columns: Sequence[Tensor], edges: Sequence[Tensor], weights: Any) -> Tensor:
    """The sums of the weights of the points in each cell."""
    like = columns[0]
    counted = full(like.shape, 1, device=like.device) if weights is None else \
        as_tensor("histogramdd", weights)
    if counted.shape != like.shape:
        raise ShapeError(f"histogramdd: weights {counted.shape} for {like.shape[0]} points",
                         "give one weight for each")
    shape = tuple(e.shape[0] - 1 for e in edges)
    cell, inside, size = full(like.shape, 0, device=like.device), None, 1
    for column, edge, count in zip(columns, edges, shape):
        index, there = _bins(column, edge)
        cell, size = cell * count + index, size * count
        inside = there if inside is None else logical_and(inside, there)
    sums = add_at(where(inside, counted, 0), where(inside, cell, 0), size)
    return reshape(sums, shape)


def _density(hist: Tensor, edges: Sequence[Tensor]) -> Tensor:
    total = reduce.sum(hist)
    for axis, edge in enumerate(edges):
        width = edge[1:] - edge[:-1]  # type: ignore[index]
        hist = hist / reshape(width, (-1, *(1,) * (len(edges) - axis - 1)))
    return hist / total


def _edges(x: Tensor, bins: Any, limits: Any) -> Tensor:
    count = None if isinstance(bins, Tensor) and bins.ndim else whole(bins)
    if count is None:
        edges = bins if isinstance(bins, Tensor) else tensor(bins, x.dtype, x.device)
        edges = cast(edges, dtypes.promote(edges.dtype, x.dtype))
        if edges.ndim != 1 or edges.shape[0] < 2 \
                or (interpreter.can_read_values() and _falls(bins)):
            raise ShapeError("histogram: edges are two numbers or more in one axis, in order",
                             "sort them, or give the number of bins")
        return edges
    if count < 1:
        raise ArgumentError(f"histogram: {count} bins", "ask for one bin or more")
    if limits is not None:
        low, high = limits
    elif x.size:
        low, high = reduce.min(x).item(), reduce.max(x).item()
    else:
        low, high = 0.0, 1.0
    if not np.isfinite(high - low) or high < low:
        raise ArgumentError(f"histogram: no bins can be made from {low} to {high}",
                            "pass range=(low, high), finite and in order")
    if low == high:
        low, high = low - 0.5, high + 0.5
    return tensor(np.linspace(low, high, count + 1).astype(x.dtype), device=x.device)


def _falls(edges: Any) -> bool:
    """True if an edge is less than the one before it."""
    if isinstance(edges, Tensor):
        return bool(reduce.any(less(edges[1:], edges[:-1])))  # type: ignore[index]
    return any(high < low for low, high in itertools.pairwise(edges))
