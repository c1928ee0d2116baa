"""A tensor's elements as a set. Values are equal as `==` says: every nan is one of its own."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from .. import dtypes
from ..dispatch import apply
from ..interpreter import source
from ..tensor import Tensor, as_tensor
from . import reduce
from .create import full
from .declare import prepare
from .pointwise import equal, logical_not, minimum
from .search import searchsorted
from .sort import sort
from .view import expand_dims, reshape, take_op

__all__ = ["isin", "unique_all", "unique_counts", "unique_inverse", "unique_values"]


class UniqueAll(NamedTuple):
    """What `unique_all` returns."""

    values: Tensor
    indices: Tensor
    inverse_indices: Tensor
    counts: Tensor


class UniqueCounts(NamedTuple):
    """What `unique_counts` returns."""

    values: Tensor
    counts: Tensor


class UniqueInverse(NamedTuple):
    """What `unique_inverse` returns."""

    values: Tensor
    inverse_indices: Tensor


def unique_all(x: Tensor) -> UniqueAll:
    """The distinct elements of `x`, in order: values, the index of the first of each in row-major
    order, for each element of `x` the index of its value (the shape of x), and how many there are.

    >>> import fusewire as fw
    >>> found = fw.unique_all(fw.tensor([5, 3, 5]))
    >>> found.values, found.indices, found.inverse_indices, found.counts
    (tensor([3, 5]), tensor([1, 0]), tensor([1, 0, 1]), tensor([1, 2]))
    """
    x = as_tensor("unique_all", x)
    array = x.numpy().reshape(-1)
    array = array.astype(np.float32) if x.dtype == dtypes.bfloat16 else array
    _, *found = np.unique(array, return_index=True, return_inverse=True, return_counts=True,
                          equal_nan=False)
    indices, inverse, counts = (source(Tensor(i.astype(np.int64, copy=False))) for i in found)
    values = apply(take_op, (reshape(x, (-1,)), indices), {"axis": 0})
    return UniqueAll(values, indices, reshape(inverse, x.shape), counts)


def unique_counts(x: Tensor) -> UniqueCounts:
    """The distinct elements of `x`, in order, and how many there are of each."""
    found = unique_all(as_tensor("unique_counts", x))
    return UniqueCounts(found.values, found.counts)


def unique_inverse(x: Tensor) -> UniqueInverse:
    """The distinct elements of `x`, in order, and for each element of `x` the index of its value.

    >>> import fusewire as fw
    >>> found = fw.unique_inverse(fw.tensor([5, 3, 5]))
    >>> found.values[found.inverse_indices]
    tensor([5, 3, 5])
    """
    found = unique_all(as_tensor("unique_inverse", x))
    return UniqueInverse(found.values, found.inverse_indices)


def unique_values(x: Tensor) -> Tensor:
    """The distinct elements of `x`, in order, in one axis.

    >>> import fusewire as fw
    >>> fw.unique_values(fw.tensor([[5, 3], [3, 5]]))
    tensor([3, 5])
    """
    return unique_all(as_tensor("unique_values", x)).values


def isin(x1: Any, x2: Any, invert: bool = False) -> Tensor:
    """For each element of `x1` whether it is one of `x2` (with `invert`: none of them).

    >>> import fusewire as fw
    >>> fw.isin(fw.tensor([1, 2, 3]), fw.tensor([3, 1]))
    tensor([ True, False,  True])
    """
    given = prepare("isin", (x1, x2), "any")
    dtype = next(x.dtype for x in given if isinstance(x, Tensor))
    x, among = (v.detach() if isinstance(v, Tensor) else full((), v, dtype) for v in given)
    among = reshape(among, (-1,))
    hit = _is_one_of(x, among)
    return logical_not(hit) if invert else hit


def _is_one_of(x: Tensor, among: Tensor) -> Tensor:
    n = among.shape[0]
    if n == 0:
        return full(x.shape, False)
    if dtypes.kind(x.dtype) == "c":  # without an order: each with each
        return reduce.any(equal(expand_dims(x, -1), among), -1)
    inorder = sort(among)
    place = minimum(searchsorted(inorder, x), n - 1)
    return equal(apply(take_op, (inorder, place), {"axis": 0}), x)
