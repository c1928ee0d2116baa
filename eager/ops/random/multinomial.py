"""Draws classes by weight: independent ones, or each class at most once."""

from __future__ import annotations

import math

from ...arguments import check_whole
from ...arrays import dtypes
from ...core.tensor import Tensor, as_tensor
from ...errors import ShapeError
from ..declare import cast
from ..elementwise.pointwise import log1p, logical_not
from ..indexing.search import argmin, searchsorted
from ..indexing.sort import argsort
from ..range_checks import check_none
from ..reduction.reduce import min as least
from ..reduction.reduce import sum as total
from ..statistics.cumulative import cumulative_sum
from .generator import Generator, rand, rand_like

__all__ = ["multinomial"]


def multinomial(probs: Tensor, num_samples: int, replacement: bool = False, *,
                generator: Generator | None = None) -> Tensor:
    """Indices of classes drawn by weight: (classes,) or (n, classes) -> (..., num_samples), int64.

    Args:
        probs: weights of the classes, finite and not negative; they need not add up to 1.
        num_samples: how many to draw from each row.
        replacement: True may draw a class several times. Default False.
        generator: the source of random numbers. Default None: the default generator.

    Raises:
        ShapeError: the weights are malformed, or too few classes have a weight above 0.

    Example:
        >>> import fusewire as fw
        >>> fw.multinomial(fw.tensor([0.0, 1.0, 0.0]), 2, replacement=True)
        tensor([1, 1])
    """
    check_whole("multinomial", "num_samples", num_samples)
    probs = cast(as_tensor("multinomial", probs), dtypes.float64).detach()
    checked = _check_weights(probs, num_samples, replacement)
    drawn = _by_cumulated(probs, num_samples, generator) if replacement else \
        _by_race(probs, num_samples, generator)
    return drawn + checked  # type: ignore[no-any-return]


def _by_race(probs: Tensor, count: int, generator: Generator | None) -> Tensor:
    """The classes with the smallest exponential numbers of these rates: infinite ones for a rate
    of 0, since a numerator is never 0."""
    race = (2.0 ** -60 - log1p(-rand_like(probs, dtypes.float64, generator))) / probs
    if count == 1:
        return argmin(race, axis=-1, keepdims=True)
    return argsort(race, axis=-1)[..., :count]  # type: ignore[no-any-return]


def _by_cumulated(probs: Tensor, count: int, generator: Generator | None) -> Tensor:
    upper = cumulative_sum(probs, axis=-1)
    upper = upper / upper[..., -1:]  # the last limit is exactly 1, above all draws
    draws = rand((*probs.shape[:-1], count), dtype=dtypes.float64, generator=generator,
                 device=probs.device)
    if probs.ndim == 1:
        return searchsorted(upper, draws, side="right")
    return total(cast(upper[..., None, :] <= draws[..., None], dtypes.int64), axis=-1)


def _check_weights(probs: Tensor, count: int, replacement: bool) -> Tensor:
    """Zeros (..., 1). ShapeError unless `count` classes can be drawn from each row."""
    if probs.ndim not in (1, 2) or probs.shape[-1] == 0:
        raise ShapeError(f"multinomial: takes weights (classes,) or (n, classes), not "
                         f"{probs.shape}", "reshape them to a matrix")
    if count < 1 or (not replacement and count > probs.shape[-1]):
        raise ShapeError(f"multinomial: cannot draw {count} of {probs.shape[-1]} classes"
                         f"{'' if replacement else ' without replacement'}",
                         "draw at least 1 class, and at most all of them")
    row = total(probs, axis=-1, keepdims=True)  # nan if a weight is
    valid = (least(probs, axis=-1, keepdims=True) >= 0) & (row > 0) & (row < math.inf)
    checked = check_none(cast(logical_not(valid), dtypes.int64),
                         "multinomial: the weights must be finite, not negative, and one of each "
                         "row above 0", "take the softmax of scores first")
    if replacement or count == 1:
        return checked
    possible = total(cast(probs > 0, dtypes.int64), axis=-1, keepdims=True)
    return checked + check_none(
        cast(possible < count, dtypes.int64),
        f"multinomial: cannot draw {count} classes without replacement, as fewer in a row have a "
        "weight above 0", "use replacement=True, or draw fewer")
