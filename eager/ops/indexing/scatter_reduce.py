"""Writes values at a tensor of indices: reduced for each index, or by row-major index."""

from __future__ import annotations

from typing import Any

from ...arguments import names_itself
from ...arrays import dtypes
from ...core.tensor import Tensor, as_tensor
from ...errors import ArgumentError
from ..create import full
from ..elementwise.pointwise import cast, floor_divide, maximum, where
from ..reduction import reduce as reductions
from ..shape.view import reshape
from .scatter import fitting, scatter, scatter_add

__all__ = ["put", "scatter_reduce"]

_SCATTERED = {"sum": "add", "mean": "add", "prod": "prod", "amax": "amax", "amin": "amin"}


@names_itself
def scatter_reduce(
    x: Tensor, axis: int, index: Tensor, src: Tensor, reduce: str, include_self: bool = True
) -> Tensor:
    """`x` with the values `src` for each `index` along `axis` reduced to one.

    Elements of `x` without an index stay.

    Args:
        index: integers; negative ones count from the end.
        src: a tensor of the shape of `index`, or a number.
        reduce: "sum", "prod", "mean", "amax" or "amin".
        include_self: True reduces the element of `x` together with the values. Default True.

    Raises:
        IndexingError: an index is out of range, or `index` does not hold integers.
        ShapeError: the shapes of `index`, `src` and `x` do not fit.
        DTypeError: `src` does not fit into the dtype of `x`.
        ArgumentError: `reduce` has another value.

    Example:
        >>> import fusewire as fw
        >>> index, values = fw.tensor([0, 0, 2]), fw.tensor([2.0, 4.0, 8.0])
        >>> fw.scatter_reduce(fw.ones(3), 0, index, values, "mean", include_self=False)
        tensor([3., 1., 8.])
    """
    if reduce not in _SCATTERED:
        raise ArgumentError(f"scatter_reduce: reduce={reduce!r} is not known",
                            'it is "sum", "prod", "mean", "amax" or "amin"')
    x, index = as_tensor("scatter_reduce", x), as_tensor("scatter_reduce", index)
    ones = full(index.shape, 1, dtypes.int64, x.device)
    count = scatter_add(full(x.shape, 0, dtypes.int64, x.device), axis, index, ones)
    start = x if include_self else where(count > 0, _identity(reduce, x.dtype), x)
    out = scatter(start, axis, index, src, _SCATTERED[reduce])
    if reduce != "mean":
        return out
    number = maximum(count + 1 if include_self else count, 1)
    if dtypes.kind(x.dtype) in "fc":
        return cast(out / cast(number, dtypes.real_of(x.dtype)), x.dtype)
    return cast(floor_divide(cast(out, dtypes.int64), number), x.dtype)


def _identity(reduce: str, dtype: Any) -> Any:
    """The number that changes no other one by the reduction."""
    if reduce in ("amax", "amin"):
        return (reductions.lowest if reduce == "amax" else reductions.highest)(dtype)
    return 1 if reduce == "prod" else 0


@names_itself
def put(x: Tensor, index: Tensor, source: Any, accumulate: bool = False) -> Tensor:
    """`x` with the values `source` at `index`, which counts elements in row-major order.

    Args:
        index: integers of any shape; negative ones count from the end.
        source: a tensor with as many elements as `index`, or a number.
        accumulate: True adds the values; False writes them, and the last one for an index stays.
            Default False.

    Raises:
        IndexingError: an index is out of range, or `index` does not hold integers.
        ShapeError: `source` has another number of elements.
        DTypeError: `source` does not fit into the dtype of `x`.

    Example:
        >>> import fusewire as fw
        >>> fw.put(fw.zeros(2, 2), fw.tensor([3, 0]), fw.tensor([5.0, 6.0]))
        tensor([[6., 0.],
                [0., 5.]])
    """
    x, index = as_tensor("put", x), reshape(as_tensor("put", index), (-1,))
    values = fitting("put", x, source)
    values = reshape(values, (-1,)) if values.ndim else values
    flat = scatter(reshape(x, (-1,)), 0, index, values, "add" if accumulate else None)
    return reshape(flat, x.shape)
