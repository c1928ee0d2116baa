"""Dropout: parts of a tensor set to zero at random."""

from __future__ import annotations

from ...dispatch import replace
from ...ops import random
from ...ops.pointwise import astype, greater_equal
from ...tensor import Tensor
from ...utils.arguments import check_fraction

__all__ = ["dropout"]


def dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """`input` with elements set to 0 with probability p and the others divided by 1 - p.

    `input` itself where not `training` or p is 0.
    """
    if not training or check_fraction("dropout", "p", p) == 0:
        return input
    out = input * 0.0 if p == 1 else _dropped(input, p)
    return replace(input, out) if inplace else out


def _dropped(input: Tensor, p: float) -> Tensor:
    keep = greater_equal(random.rand(input.shape), p)
    return input * (astype(keep, input.dtype) * (1.0 / (1.0 - p)))
