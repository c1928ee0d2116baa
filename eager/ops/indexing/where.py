"""Selects elements by a condition, or the places where it holds."""

from __future__ import annotations

from typing import Any

from ...core.tensor import as_tensor
from ...errors import ArgumentError
from ..elementwise import pointwise
from .search import nonzero

__all__ = ["where"]


def where(condition: Any, x: Any = None, y: Any = None, /) -> Any:
    """The elements of `x` where `condition` is true, else those of `y`; shapes broadcast.

    Args:
        condition: a tensor; numbers count as true unless they are 0.
        x, y: tensors or numbers; the result has the dtype to which they promote. Without both, the
            result is `nonzero(condition)`.

    Raises:
        ArgumentError: one of `x` and `y` is missing.

    Example:
        >>> import fusewire as fw
        >>> fw.where(fw.tensor([True, False]), fw.tensor([1.0, 2.0]), 0)
        tensor([1., 0.])
    """
    if x is not None and y is not None:
        return pointwise.where(condition, x, y)
    if x is None and y is None:
        return nonzero(as_tensor("where", condition))
    raise ArgumentError("where: takes both or none of x and y", "as in fw.where(condition, x, y)")
