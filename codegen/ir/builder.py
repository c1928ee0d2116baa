"""Builds expressions of the loop IR from scalar formulas; `ExprBuilder` is the `k` of formulas."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from . import loop_ir
from .loop_ir import BOOL, Const, Expr
from .scalar_ops import PREDICATES, SCALAR
from .sizes import is_dynamic


class ExprValue:
    """An expression with operators. Python numbers beside it take its dtype."""

    __slots__ = ("expr",)
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, expr: Expr) -> None:
        self.expr = expr

    @property
    def dtype(self) -> Any:
        return self.expr.dtype

    @property
    def number(self) -> Any:
        """The value of a constant; None for other expressions."""
        return self.expr.value if isinstance(self.expr, Const) else None

    if TYPE_CHECKING:  # bound below
        def _binary(self, other: Any) -> ExprValue: ...
        __add__ = __sub__ = __mul__ = __truediv__ = __and__ = __or__ = __xor__ = _binary
        __lshift__ = __rshift__ = __lt__ = __le__ = __gt__ = __ge__ = _binary

    def __neg__(self) -> ExprValue:
        return ExprValue(loop_ir.call("neg", (self.expr,), self.dtype))

    def __invert__(self) -> ExprValue:
        return ExprValue(loop_ir.call("not", (self.expr,), self.dtype))

    def __bool__(self) -> bool:
        raise TypeError("a scalar of a formula has no truth value; use k.where")


def _bind(method: str, op: str) -> None:
    def forward(self: ExprValue, other: Any) -> Any:
        return call(op, self, other)

    def backward(self: ExprValue, other: Any) -> Any:
        return call(op, other, self)

    setattr(ExprValue, f"__{method}__", forward)
    if op not in PREDICATES:
        setattr(ExprValue, f"__r{method}__", backward)


for _method, _op in {
    "add": "add", "sub": "sub", "mul": "mul", "truediv": "div", "and": "and", "or": "or",
    "xor": "xor", "lshift": "shl", "rshift": "shr", "lt": "lt", "le": "le", "gt": "gt", "ge": "ge",
    "eq": "eq", "ne": "ne",
}.items():
    _bind(_method, _op)


def call(op: str, *args: Any) -> Any:
    """The scalar operation `op` of values and numbers. Known conditions fold away."""
    if op in ("and", "or") and any(isinstance(a, (bool, np.bool_)) for a in args):
        return _fold_logic(op, *args)
    if op == "where" and isinstance(args[0], (bool, np.bool_)):
        return args[1] if args[0] else args[2]
    dtype = next((a.dtype for a in reversed(args) if isinstance(a, ExprValue)), None)
    if dtype is None or (op == "where" and not any(isinstance(a, ExprValue) for a in args[1:])):
        raise TypeError(f"{op} of numbers alone has no dtype")
    exprs = tuple(_operand(a, dtype) for a in args)
    return ExprValue(loop_ir.call(op, exprs, BOOL if op in PREDICATES else dtype))


def _fold_logic(op: str, a: Any, b: Any) -> Any:
    constant, other = (a, b) if isinstance(a, (bool, np.bool_)) else (b, a)
    return other if bool(constant) == (op == "and") else constant


def _operand(a: Any, dtype: Any) -> Expr:
    if isinstance(a, ExprValue):
        return a.expr
    if not is_dynamic(a) and hasattr(a, "value") and callable(a.value):  # an index
        return cast(a, dtype).expr
    return loop_ir.const(a, dtype)


def cast(x: Any, dtype: Any) -> ExprValue:
    """`x` as `dtype`; `x` is a value, an index or a number."""
    if isinstance(x, (bool, int, float, complex)):
        return ExprValue(loop_ir.const(x, dtype))
    value = x if isinstance(x, ExprValue) else x.value()
    if value.dtype == dtype:
        return value
    if isinstance(value.expr, Const):
        with np.errstate(all="ignore"):
            return ExprValue(loop_ir.const(np.asarray(value.expr.value).astype(dtype).item(),
                                           dtype))
    return ExprValue(loop_ir.call("cast", (value.expr,), dtype))


class ExprBuilder:
    """The builder `k` of formulas: every scalar operation by its name, and constants."""

    cast = staticmethod(cast)

    @staticmethod
    def bits(x: Any) -> ExprValue:
        """The bits of a float as an unsigned integer."""
        return ExprValue(loop_ir.call("bits", (x.expr,), f"u{x.dtype.itemsize}"))

    @staticmethod
    def from_bits(x: Any) -> ExprValue:
        """The float32 with these bits, a uint32."""
        return ExprValue(loop_ir.call("from_bits", (x.expr,), "float32"))

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name not in SCALAR:
            raise AttributeError(f"the loop IR has no scalar op {name!r}")

        def run(*args: Any) -> Any:
            return call(name, *args)

        setattr(self, name, run)
        return run

    @staticmethod
    def const(value: Any, dtype: Any) -> ExprValue:
        return ExprValue(loop_ir.const(value, dtype))


BUILDER = ExprBuilder()
