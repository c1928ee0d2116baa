"""Computes spread and mean together, and the element that occurs most often."""

from __future__ import annotations

from typing import Any

from ...arguments import names_itself
from ...arrays import dtypes
from ...arrays.shapes import axis_of
from ...core.tensor import Tensor
from ...errors import ShapeError
from ..create import full, iota
from ..elementwise.pointwise import (
    alias,
    equal,
    isnan,
    less_equal,
    logical_and,
    logical_or,
    not_equal,
)
from ..indexing.scatter import along, scatter_add, sorting
from ..indexing.search import argmax, ordered
from ..indexing.sort import Picked
from ..reduction import reduce
from ..shape.rearrange import moveaxis, shift
from ..shape.view import squeeze
from .cumulative import cumsum

__all__ = ["mode", "std_mean", "var_mean"]


@names_itself
def var_mean(x: Tensor, axis: Any = None, correction: float = 0.0, keepdims: bool = False
             ) -> tuple[Tensor, Tensor]:
    """The variance and the mean along `axis`, as a tuple. See `var` for parameters and errors.

    Example:
        >>> import fusewire as fw
        >>> fw.var_mean(fw.tensor([1.0, 3.0]), correction=1)
        (tensor(2.), tensor(2.))
    """
    x = reduce.floating("var_mean", x)
    return reduce.var(x, axis, correction, keepdims), reduce.mean(x, axis, keepdims)


@names_itself
def std_mean(x: Tensor, axis: Any = None, correction: float = 0.0, keepdims: bool = False
             ) -> tuple[Tensor, Tensor]:
    """The standard deviation and the mean along `axis`, as a tuple. See `var`.

    Example:
        >>> import fusewire as fw
        >>> fw.std_mean(fw.tensor([1.0, 3.0]))
        (tensor(1.), tensor(2.))
    """
    x = reduce.floating("std_mean", x)
    return reduce.std(x, axis, correction, keepdims), reduce.mean(x, axis, keepdims)


def mode(x: Tensor, axis: int = -1, keepdims: bool = False) -> Picked:
    """The element that occurs most often along `axis`, and the index of its last occurrence.

    Of several such elements the smallest one is returned. All nans count as equal.

    Args:
        axis: Default -1.
        keepdims: True keeps the axis with size 1. Default False.

    Raises:
        ShapeError: the axis is empty.
        DTypeError: the elements are complex.

    Example:
        >>> import fusewire as fw
        >>> fw.mode(fw.tensor([3, 1, 3, 2]))
        Picked(values=tensor(3), indices=tensor(2))
    """
    x = ordered("mode", x)
    at = axis_of("mode", axis, x.ndim or 1)
    if x.ndim == 0:
        return Picked(alias(x), full((), 0, device=x.device))
    if x.shape[at] == 0:
        raise ShapeError(f"mode: axis {at} of shape {x.shape} is empty and has no elements",
                         "find out where the empty axis comes from, or test x.size")
    rows = moveaxis(x, at, -1)
    index = moveaxis(_last_of_longest_run(rows.detach()), -1, at)
    values = along(x, index, at)
    return Picked(*[v if keepdims else squeeze(v, at) for v in (values, index)])


def _last_of_longest_run(x: Tensor) -> Tensor:
    """Where the most frequent element of each row of `x` (..., n) occurs last: (..., 1)."""
    last = x.ndim - 1
    order = sorting(x, last)  # stable: the last of a run occurs last
    row = along(x, order, last)
    number = iota(row.shape, last, device=x.device)
    before = shift(row, 1, 0)
    new = logical_or(equal(number, 0), not_equal(row, before))
    if dtypes.kind(x.dtype) == "f":
        new = logical_and(new, _no_pair_of_nans(row, before, number))
    run = cumsum(new, last) - 1
    lengths = scatter_add(run * 0, last, run, 1)
    longest = argmax(lengths, last, keepdims=True)  # the first one: the smallest element
    end = reduce.sum(less_equal(run, longest), last, keepdims=True) - 1
    return along(order, end, last)


def _no_pair_of_nans(row: Tensor, before: Tensor, number: Tensor) -> Tensor:
    pair = logical_and(isnan(row), isnan(before))
    return logical_or(equal(number, 0), equal(pair, False))
