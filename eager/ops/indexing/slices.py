"""Writes slices and elements at indices into a new tensor: copied, added or combined."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...arrays import dtypes
from ...arrays.shapes import broadcast, product
from ...core.tensor import Tensor, as_tensor
from ...errors import ArgumentError, IndexingError, ShapeError
from ..create import iota
from ..elementwise.pointwise import cast, divide, floor_divide, maximum, where
from ..reduction.reduce import highest, lowest
from ..shape.rearrange import moveaxis
from ..shape.take import add_at, from_front
from ..shape.view import expand_to, reshape
from . import index_put as put
from .scatter import fitting, scatter, slices

__all__ = ["index_copy", "index_put", "index_reduce"]


def index_copy(x: Tensor, axis: int, index: Tensor, src: Any) -> Tensor:
    """`x` with its slices index[i] along `axis` replaced by the slices i of `src`.

    Args:
        index: a vector of integers; negative ones count from the end. Of several slices for one
            index the last one stays.
        src: a tensor with a slice for each index, or a number.

    Raises:
        IndexingError: an index is out of range, or `index` does not hold integers.
        ShapeError: `index` is no vector, or `src` does not fit.
        DTypeError: `src` does not fit into the dtype of `x`.

    Example:
        >>> import fusewire as fw
        >>> fw.index_copy(fw.zeros(3), 0, fw.tensor([2, 0]), fw.tensor([1.0, 2.0]))
        tensor([2., 0., 1.])
    """
    x, at, index = slices("index_copy", x, axis, index)
    values = _values("index_copy", x, at, index, src)
    out = put.index_put(moveaxis(x, at, 0), moveaxis(values, at, 0), index)
    return moveaxis(out, 0, at)


def _values(name: str, x: Tensor, at: int, index: Tensor, src: Any) -> Tensor:
    """`src` as a slice of `x` for each index, in the dtype of `x`."""
    shape = (*x.shape[:at], index.shape[0], *x.shape[at + 1:])
    src = fitting(name, x, src)
    if src.ndim and src.shape != shape:
        raise ShapeError(f"{name}: values {src.shape} do not fit {index.shape[0]} slices of "
                         f"{x.shape} along axis {at}", f"they have the shape {shape}")
    return expand_to(src, shape)


def index_put(x: Tensor, indices: Sequence[Tensor], values: Any, accumulate: bool = False
              ) -> Tensor:
    """`x` with `values` written at x[indices], as by x[indices] = values on a copy.

    Args:
        indices: tensors of integers for the first axes of `x`; they broadcast, and negative ones
            count from the end.
        values: a tensor that broadcasts to the shape of x[indices], or a number.
        accumulate: True adds all values to the elements. Default False: of several values for one
            element the last one replaces it.

    Raises:
        IndexingError: there are no indices or too many, they do not hold integers, or one is out
            of range.
        ShapeError: the shapes do not broadcast.
        DTypeError: `values` do not fit into the dtype of `x`.

    Example:
        >>> import fusewire as fw
        >>> fw.index_put(fw.zeros(3), [fw.tensor([0, 2, 2])], 1.0, accumulate=True)
        tensor([1., 0., 2.])
    """
    x = as_tensor("index_put", x)
    count = 0 if isinstance(indices, Tensor) else len(indices)
    if not 1 <= count <= x.ndim:
        raise IndexingError(f"index_put: {count or 'no'} indices for the {x.ndim} axes of shape "
                            f"{x.shape}", "give a list of tensors, one for each of the first axes")
    flat = _flat(x, [as_tensor("index_put", i) for i in indices])
    rest = x.shape[count:]
    rows = reshape(x, (product(x.shape[:count]), *rest))
    source = expand_to(fitting("index_put", x, values), (*flat.shape, *rest))
    if not accumulate:
        return reshape(put.index_put(rows, source, flat), x.shape)
    return reshape(rows + cast(add_at(source, flat, rows.shape[0]), x.dtype), x.shape)


def _flat(x: Tensor, indices: Sequence[Tensor]) -> Tensor:
    """The positions in row-major order of the first axes of `x` for which `indices` stand."""
    shape = broadcast("index_put", *[i.shape for i in indices])
    flat: Any = 0
    for n, index in zip(x.shape, indices):
        if dtypes.kind(index.dtype) not in "iu":
            raise IndexingError(f"index_put: indices are integers, not {index.dtype.name}",
                                "for a mask of bool use fw.where or masked_fill")
        inside = from_front("index_put", expand_to(index, shape), n)
        flat = cast(inside, dtypes.int64) + flat * n
    return flat


# ---- combined slices
_IDENTITIES: dict[str, Any] = {"prod": lambda dtype: 1, "mean": lambda dtype: 0, "amax": lowest,
                               "amin": highest}


def index_reduce(x: Tensor, axis: int, index: Tensor, src: Any, reduce: str,
                 include_self: bool = True) -> Tensor:
    """`x` with its slices index[i] along `axis` combined with the slices i of `src`.

    Args:
        index: a vector of integers; negative ones count from the end.
        src: a tensor with a slice for each index, or a number.
        reduce: "prod", "mean", "amax" or "amin". A mean of integers is rounded down.
        include_self: False combines the slices of `src` only. Default True: with that of `x`, too.

    Raises:
        ArgumentError: `reduce` has another value.
        IndexingError: an index is out of range, or `index` does not hold integers.
        ShapeError: `index` is no vector, or `src` does not fit.
        DTypeError: `src` does not fit into the dtype of `x`, or complex numbers are to be ordered.

    Example:
        >>> import fusewire as fw
        >>> fw.index_reduce(fw.ones(3), 0, fw.tensor([2, 2]), fw.tensor([3.0, 5.0]), "mean")
        tensor([1., 1., 3.])
    """
    if reduce not in _IDENTITIES:
        raise ArgumentError(f"index_reduce: reduce={reduce!r} is not known",
                            f"it is {', '.join(map(repr, _IDENTITIES))}; fw.index_add adds")
    x, at, index = slices("index_reduce", x, axis, index)
    values = _values("index_reduce", x, at, index, src)
    n = x.shape[at]
    ones = iota(index.shape, 0, device=index.device) * 0 + 1
    along = (n, *(1,) * (x.ndim - at - 1))
    count = reshape(add_at(ones, index, n), along)
    start = x if include_self else where(count > 0, _IDENTITIES[reduce](x.dtype), x)
    every = expand_to(reshape(index, (-1, *along[1:])), values.shape)
    if reduce != "mean":
        return scatter(start, at, every, values, reduce)
    total = scatter(start, at, every, values, "add")
    parts = cast(maximum(count + int(include_self), 1), dtypes.real_of(x.dtype))
    return (divide if dtypes.is_float(x.dtype) else floor_divide)(total, parts)
