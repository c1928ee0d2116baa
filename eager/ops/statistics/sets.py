"""Treats the elements of a tensor as a set, in which `==` decides: no nan equals another."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ...arrays import devices, dtypes
from ...arrays.shapes import axis_of, product
from ...core.dispatch import apply
from ...core.tensor import Tensor, as_tensor
from ...interpreter import note_constant
from ..create import full, iota, ones_like
from ..data_dependent import where_true
from ..declare import prepare
from ..elementwise.pointwise import (
    cast,
    equal,
    logical_not,
    logical_or,
    maximum,
    minimum,
    not_equal,
)
from ..indexing.search import searchsorted
from ..indexing.sort import argsort, sort
from ..reduction import reduce
from ..shape.take import add_at, take_op
from ..shape.view import expand_dims, reshape
from ..transfer import beside
from .cumulative import cumulative_sum

__all__ = [
    "isin", "unique_all", "unique_consecutive", "unique_counts", "unique_inverse", "unique_values",
]


class UniqueAll(NamedTuple):
    """The result of `unique_all`."""

    values: Tensor
    indices: Tensor
    inverse_indices: Tensor
    counts: Tensor


class UniqueCounts(NamedTuple):
    """The result of `unique_counts`."""

    values: Tensor
    counts: Tensor


class UniqueInverse(NamedTuple):
    """The result of `unique_inverse`."""

    values: Tensor
    inverse_indices: Tensor


def unique_all(x: Tensor) -> UniqueAll:
    """The distinct elements of `x`, with their positions and counts, as four tensors.

    `values` (k,) are the distinct elements in ascending order. `indices` (k,) are the positions of
    their first occurrences in row-major order. `inverse_indices`, of the shape of `x`, are the
    indices of its elements in `values`. `counts` (k,) are the numbers of occurrences.

    Example:
        >>> import fusewire as fw
        >>> unique = fw.unique_all(fw.tensor([5, 3, 5]))
        >>> unique.values, unique.indices, unique.inverse_indices, unique.counts
        (tensor([3, 5]), tensor([1, 0]), tensor([1, 0, 1]), tensor([1, 2]))
    """
    x = as_tensor("unique_all", x)
    flat = reshape(x, (product(x.shape),))
    sorting = _argsort(flat.detach())
    ordered = _at(flat.detach(), sorting)
    number = iota(sorting.shape, 0, device=sorting.device)
    new = logical_or(number == 0, not_equal(ordered, _at(ordered, maximum(number - 1, 0))))
    first = where_true(new)  # of each run of equal elements in order
    group = cumulative_sum(cast(new, dtypes.int64)) - 1
    inverse = add_at(group, sorting, sorting.shape[0])
    counts = add_at(ones_like(group), group, first.shape[0])
    indices = _at(sorting, first)
    return UniqueAll(_at(flat, indices), indices, reshape(inverse, x.shape), counts)


def _argsort(x: Tensor) -> Tensor:
    """The indices that sort a vector; equal elements keep their order."""
    if dtypes.kind(x.dtype) == "c":  # by real and then imaginary parts, as NumPy does
        array = devices.host(x._data) if devices.is_elsewhere(x._data) else x.numpy()
        indices = note_constant(Tensor(array.argsort(kind="stable").astype(np.int64, copy=False)))
        return beside(indices, x)
    return argsort(x)


def _at(x: Tensor, indices: Tensor) -> Tensor:
    """The elements of a vector at indices that are in range."""
    return apply(take_op, (x, indices), {"axis": 0})


def unique_counts(x: Tensor) -> UniqueCounts:
    """The distinct elements of `x` in ascending order, and their counts: (values, counts).

    Example:
        >>> import fusewire as fw
        >>> fw.unique_counts(fw.tensor([5, 3, 5]))
        UniqueCounts(values=tensor([3, 5]), counts=tensor([1, 2]))
    """
    unique = unique_all(as_tensor("unique_counts", x))
    return UniqueCounts(unique.values, unique.counts)


def unique_inverse(x: Tensor) -> UniqueInverse:
    """The distinct elements of `x` in ascending order, and the index of each element of `x`.

    Example:
        >>> import fusewire as fw
        >>> unique = fw.unique_inverse(fw.tensor([5, 3, 5]))
        >>> unique.values[unique.inverse_indices]
        tensor([5, 3, 5])
    """
    unique = unique_all(as_tensor("unique_inverse", x))
    return UniqueInverse(unique.values, unique.inverse_indices)


def unique_values(x: Tensor) -> Tensor:
    """The distinct elements of `x` in ascending order, as a vector.

    Example:
        >>> import fusewire as fw
        >>> fw.unique_values(fw.tensor([[5, 3], [3, 5]]))
        tensor([3, 5])
    """
    return unique_all(as_tensor("unique_values", x)).values


def unique_consecutive(
    x: Tensor, return_inverse: bool = False, return_counts: bool = False, axis: int | None = None
) -> Any:
    """The first element of each run of equal elements of `x`, in their order.

    Args:
        return_inverse: True also returns the number of the run of each element. Default False.
        return_counts: True also returns the lengths of the runs. Default False.
        axis: along which slices are compared. Default None: flattens `x` first.

    Returns:
        A tensor, or a tuple of it and those that the flags ask for.

    Example:
        >>> import fusewire as fw
        >>> fw.unique_consecutive(fw.tensor([3, 3, 1, 3]), return_counts=True)
        (tensor([3, 1, 3]), tensor([2, 1, 1]))
    """
    x = as_tensor("unique_consecutive", x)
    if axis is None:
        rows, at = reshape(x, (product(x.shape),)), 0
    else:
        at = axis_of("unique_consecutive", axis, x.ndim)
        rows = x
    number = iota((rows.shape[at],), 0, device=x.device)
    before = apply(take_op, (rows.detach(), maximum(number - 1, 0)), {"axis": at})
    rest = tuple(a for a in range(rows.ndim) if a != at)
    new = logical_or(equal(number, 0), reduce.any(not_equal(rows.detach(), before), rest))
    first = where_true(new)
    run = cumulative_sum(cast(new, dtypes.int64)) - 1
    out = [apply(take_op, (rows, first), {"axis": at})]
    if return_inverse:
        out.append(reshape(run, x.shape) if axis is None else run)
    if return_counts:
        out.append(add_at(ones_like(run), run, first.shape[0]))
    return tuple(out) if len(out) > 1 else out[0]


def isin(x1: Any, x2: Any, invert: bool = False) -> Tensor:
    """True where an element of `x1` is one of `x2`, of the shape of `x1`.

    Args:
        x1, x2: tensors or numbers.
        invert: True returns the negation. Default False.

    Example:
        >>> import fusewire as fw
        >>> fw.isin(fw.tensor([1, 2, 3]), fw.tensor([3, 1]))
        tensor([ True, False,  True])
    """
    operands = prepare("isin", (x1, x2), "any")
    one = next(x for x in operands if isinstance(x, Tensor))
    x, among = (v.detach() if isinstance(v, Tensor) else full((), v, one.dtype, one.device)
                for v in operands)
    among = reshape(among, (-1,))
    hit = _is_one_of(x, among)
    return logical_not(hit) if invert else hit


def _is_one_of(x: Tensor, among: Tensor) -> Tensor:
    n = among.shape[0]
    if n == 0:
        return full(x.shape, False, device=x.device)
    if dtypes.kind(x.dtype) == "c":  # without an order: each with each
        return reduce.any(equal(expand_dims(x, -1), among), -1)
    ordered = sort(among)
    index = minimum(searchsorted(ordered, x), n - 1)
    return equal(apply(take_op, (ordered, index), {"axis": 0}), x)
