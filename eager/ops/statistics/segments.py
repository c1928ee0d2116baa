"""Reduces consecutive slices of a tensor, each a segment of its own length."""

from __future__ import annotations

from typing import Any

from ...arrays import dtypes
from ...arrays.shapes import axis_of
from ...core.tensor import Tensor
from ...errors import ArgumentError, DTypeError, ShapeError
from ..create import full, iota
from ..elementwise.pointwise import cast
from ..indexing.scatter import scatter
from ..indexing.search import searchsorted
from ..range_checks import check_index
from ..reduction import reduce as reductions
from ..shape.view import broadcast_to, reshape
from .cumulative import cumsum, diff

__all__ = ["segment_reduce"]

_SCATTERED = {"sum": "add", "mean": "add", "prod": "prod", "max": "amax", "min": "amin"}


def segment_reduce(
    x: Tensor, reduce: str, *, lengths: Tensor | None = None, offsets: Tensor | None = None,
    axis: int = 0,
) -> Tensor:
    """The reduction of each segment of `x` along `axis`: (..., n, ...) -> (..., segments, ...).

    An empty segment has the sum 0, the product 1, the maximum -inf, the minimum inf and the
    mean nan.

    Args:
        reduce: "sum", "mean", "prod", "max" or "min".
        lengths: a vector of integers, the lengths of the segments; their sum is n.
        offsets: instead of `lengths`, a vector of integers: where each segment starts, and n.
        axis: Default 0.

    Raises:
        ArgumentError: `reduce` has another value, or not one of `lengths` and `offsets` is set.
        ShapeError: the lengths are no vector.
        IndexingError: a length is negative, or the sum of the lengths is not n.
        DTypeError: `x` does not hold real floats, or the lengths are not integers.

    Example:
        >>> import fusewire as fw
        >>> x = fw.tensor([1.0, 2.0, 3.0])
        >>> fw.segment_reduce(x, "max", lengths=fw.tensor([2, 1]))
        tensor([2., 3.])
    """
    x = reductions.floating("segment_reduce", x, "f")
    if reduce not in _SCATTERED:
        raise ArgumentError(f"segment_reduce: reduce={reduce!r} is not known",
                            'it is "sum", "mean", "prod", "max" or "min"')
    at = axis_of("segment_reduce", axis, x.ndim)
    sizes = _lengths(lengths, offsets, x.shape[at])
    number = reshape(_numbers(sizes, x.shape[at]), (-1, *(1,) * (x.ndim - at - 1)))
    index = broadcast_to(number, x.shape)
    shape = (*x.shape[:at], sizes.shape[0], *x.shape[at + 1:])
    start = full(shape, _identity(reduce, x.dtype), x.dtype, x.device)
    out = scatter(start, at, index, x, _SCATTERED[reduce])
    if reduce != "mean":
        return out
    return out / cast(reshape(sizes, (-1, *(1,) * (x.ndim - at - 1))), x.dtype)


def _numbers(sizes: Tensor, n: Any) -> Tensor:
    """The number of the segment of each of the `n` elements; IndexingError for other lengths.

    The checks are ops, so that compiled code has them too.
    """
    ends = check_index(cumsum(sizes, 0), n + 1, "segment_reduce: end of a segment")
    numbers = searchsorted(ends, iota((n,), 0, device=sizes.device), side="right")
    return check_index(numbers, sizes.shape[0], "segment_reduce: number of the segment of an "
                       "element, by lengths that add up to less than the axis:")


def _lengths(lengths: Any, offsets: Any, n: Any) -> Tensor:
    """The lengths of the segments."""
    if (lengths is None) == (offsets is None):
        raise ArgumentError("segment_reduce: takes either lengths or offsets",
                            "lengths=fw.tensor([2, 1]) and offsets=fw.tensor([0, 2, 3]) are equal")
    sizes: Tensor = diff(offsets) if lengths is None else lengths
    if sizes.dtype.kind not in "iu":
        raise DTypeError(f"segment_reduce: lengths are integers, not {sizes.dtype.name}",
                         "cast them: lengths.astype(fw.int64)")
    if sizes.ndim != 1:
        raise ShapeError(f"segment_reduce: the lengths have shape {sizes.shape}, not one axis",
                         "all slices along the other axes have the same segments")
    return check_index(cast(sizes, dtypes.int64), n + 1, "segment_reduce: length")


def _identity(reduce: str, dtype: Any) -> Any:
    """The number that changes no other one by the reduction."""
    if reduce in ("max", "min"):
        return (reductions.lowest if reduce == "max" else reductions.highest)(dtype)
    return 1 if reduce == "prod" else 0
