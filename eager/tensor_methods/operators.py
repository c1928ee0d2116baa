"""Makes the operators of Tensor from the functions of the ops."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from ..arrays import dtypes
from ..core.dispatch import replace
from ..core.tensor import Tensor
from ..errors import DTypeError, ShapeError
from ..ops import declare
from ..ops.declare import OPERANDS
from ..ops.elementwise import pointwise

Unary = Callable[[Any], Tensor]
Binary = Callable[[Any, Any], Tensor]


def operator(fn: Callable[..., Tensor]) -> Binary:
    """`fn` as the method of an operator: NotImplemented for an operand of an unknown type."""
    if hasattr(fn, "takes"):
        return declare.operator_of(fn)
    return lambda self, other: fn(self, other) if _fits(fn, other) else NotImplemented


def reflected(fn: Callable[..., Tensor]) -> Binary:
    """`fn` as the method of an operator whose tensor stands on the right."""
    return lambda self, other: fn(other, self) if _fits(fn, other) else NotImplemented


def _fits(fn: Callable[..., Tensor], other: Any) -> bool:
    """True for an operand beside a tensor; DTypeError for a list, which a user has to convert."""
    if type(other) in (list, tuple):
        raise declare.no_operand(fn.__name__, other)
    return isinstance(other, OPERANDS)


def in_place(fn: Callable[..., Tensor], name: str) -> Binary:
    """`fn` as a method that writes its result into its tensor: `add_`, or `add=` for `+=`."""
    refs_of_item = REFERENCES_TO_ITEM if name.endswith("=") else -1

    def method(self: Tensor, other: Any) -> Tensor:
        out = fn(self, other)
        if out._data.shape != self._data.shape:
            raise ShapeError(f"{name}: the result has shape {out.shape}, which does not fit back "
                             f"into {self.shape}", "write x = x + y to make a new tensor")
        if out._data.dtype != self._data.dtype:
            if not dtypes.holds(self.dtype, out.dtype):
                raise DTypeError(f"{name}: the result is {out.dtype.name}, which does not fit back "
                                 f"into {self.dtype.name}",
                                 "write x = x + y to make a new tensor")
            out = pointwise.cast(out, self.dtype)
        if self._base is not None and sys.getrefcount(self) == refs_of_item:
            return out  # Python completes x[0] += 1 by x[0] = out
        return replace(self, out)

    return method


class _InPlaceProbe:
    """An operand of `+=` that appends the number of references to itself to a list."""

    def __iadd__(self, counts: list[int]) -> _InPlaceProbe:
        counts.append(sys.getrefcount(self))
        return self


class _NewItems(dict[int, Any]):
    """A dict that returns a new object for every key."""

    def __getitem__(self, key: int) -> _InPlaceProbe:
        return _InPlaceProbe()


def _references_to_item() -> int:
    """The reference count that `x[i] += y` shows to its item, which no variable holds.

    -1 for a Python in which an item in a variable has the same count.
    """
    counts: list[int] = []
    variable = _InPlaceProbe()
    variable += counts
    items: dict[int, Any] = _NewItems()
    items[0] += counts
    return counts[1] if counts[1] < counts[0] else -1


REFERENCES_TO_ITEM = _references_to_item()
