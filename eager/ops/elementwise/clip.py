"""Limits tensors to a range."""

from __future__ import annotations

from typing import Any

from ...arguments import names_itself
from ...arrays import dtypes
from ...core.tensor import Tensor, as_tensor
from ..declare import alias
from .pointwise import greater_equal, less_equal, maximum, minimum, where

__all__ = ["clip"]


@names_itself
def clip(x: Tensor, /, min: Any = None, max: Any = None) -> Tensor:
    """`x` limited to the range from `min` to `max`.

    Args:
        min, max: numbers or tensors that broadcast with `x`. Default None: no limit.

    Raises:
        DTypeError: `x` is complex.

    Example:
        >>> import fusewire as fw
        >>> fw.tensor([-1.0, 0.5, 2.0]).clip(0, 1)
        tensor([0. , 0.5, 1. ])
    """
    if min is None and max is None:
        return alias(as_tensor("clip", x))
    out = x if min is None else _bound(maximum, greater_equal, x, min)
    return out if max is None else _bound(minimum, less_equal, out, max)


def _bound(extreme: Any, inside: Any, x: Any, bound: Any) -> Tensor:
    """The extreme of both, with all of the gradient for `x` where it is equal to the bound."""
    out: Tensor = extreme(x, bound)
    if isinstance(bound, Tensor) or out.dtype == dtypes.bfloat16:  # its scalars become tensors
        return where(inside(x, bound), x, out)
    return out
