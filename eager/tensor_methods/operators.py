"""Makes the operators of Tensor from the functions of the ops."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..arrays import dtypes
from ..core.in_place import replace
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
        return replace(self, out)

    return method
