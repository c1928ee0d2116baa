"""Writes Python numbers of a model: formulas over tensor elements, sizes and loop-carried numbers.

An int is a 0-d int64 tensor and a float a 0-d float64 tensor. The arithmetic is Python's, except
for ints beyond 64 bits.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ....capture.graph.graph import Node
from ....capture.scalars.scalar_expr import ScalarExpr
from ....eager.errors import ExportError
from .graph_writer import OnnxValue
from .pointwise_formulas import BOOL, Builder, Number
from .size_expressions import SizeWriter

INT64, FLOAT64 = np.dtype(np.int64), np.dtype(np.float64)
_OF_TYPE = {bool: BOOL, int: INT64, float: FLOAT64}
_OF_KIND = {"b": BOOL, "i": INT64, "u": INT64, "f": FLOAT64}


class NumberWriter:
    """Writes each formula once. `value_of` returns the tensor of a node whose element is read."""

    def __init__(self, k: Builder, sizes: SizeWriter, value_of: Callable[[Node], OnnxValue],
                 phis: Mapping[Any, OnnxValue]) -> None:
        self.k, self.sizes, self.value_of, self.phis = k, sizes, value_of, phis
        self.numbers: ChainMap[ScalarExpr, Number] = ChainMap()

    def __call__(self, formula: ScalarExpr) -> OnnxValue:
        """The number as a 0-d tensor."""
        for part in formula.parts:
            if part not in self.numbers:
                self.numbers[part] = self._number(part)
        return self.numbers[formula].value

    def is_computable(self, formula: ScalarExpr) -> bool:
        """True if all loops whose carried numbers it reads have begun."""
        return all(part.args[0] in self.phis for part in formula.parts if part.op == "phi")

    def _number(self, part: ScalarExpr) -> Number:
        if part.op in _ORIGINS:
            return self.k.wrap(_ORIGINS[part.op](self, part.args[0]))
        if part.op not in _OPERATORS:
            raise ExportError(f"the Python operator `{part.op}` of a number read from a tensor "
                              "has no counterpart in ONNX", "compute with tensors here")
        return _OPERATORS[part.op](self.k, *[self.numbers[a] for a in part.args])

    def _element(self, node: Node) -> OnnxValue:
        value = self.value_of(node)
        scalar = self.k.writer.reshape(value, ()) if node.type.shape else value
        return self.k.writer.cast(scalar, _OF_KIND[value.dtype.kind])

    def _constant(self, constant: Any) -> OnnxValue:
        return self.k.writer.const(np.array(constant.value, _OF_TYPE[type(constant.value)]))

    def _size(self, expr: Any) -> OnnxValue:
        return self.sizes.number_of(expr)

    def _phi(self, token: Any) -> OnnxValue:
        if token not in self.phis:
            raise ExportError("a loop-carried number is read outside of its loop, which cannot be "
                              "exported", "return the number's tensor from the loop, or split the "
                              "loops into functions with fewer branches")
        return self.phis[token]


_ORIGINS: dict[str, Callable[[NumberWriter, Any], OnnxValue]] = {
    "element": NumberWriter._element, "constant": NumberWriter._constant,
    "size": NumberWriter._size, "phi": NumberWriter._phi,
}


def _arithmetic(fn: Callable[[Any, Any], Number], exact: bool = False
                ) -> Callable[[Builder, Number, Number], Number]:
    """An operator on two numbers in their common dtype; with `exact`, always in float64."""
    def apply(k: Builder, x: Number, y: Number) -> Number:
        dtype = FLOAT64 if exact or FLOAT64 in (x.dtype, y.dtype) else INT64
        return fn(k.cast(x, dtype), k.cast(y, dtype))

    return apply


def _bits(fn: Callable[[Any, Any], Number]) -> Callable[[Builder, Number, Number], Number]:
    """A bitwise operator; of two booleans the result is a boolean."""
    def apply(k: Builder, x: Number, y: Number) -> Number:
        return fn(x, y) if x.dtype == y.dtype else fn(k.cast(x, INT64), k.cast(y, INT64))

    return apply


def _whole(name: str) -> Callable[[Builder, Number], Number]:
    """A rounding of a float to an int by the method `name` of the builder."""
    def apply(k: Builder, x: Number) -> Number:
        return k.cast(getattr(k, name)(x) if x.dtype == FLOAT64 else x, INT64)

    return apply


def _counted(k: Builder, x: Number) -> Number:
    """A boolean as an int; other numbers unchanged."""
    return k.cast(x, INT64) if x.dtype == BOOL else x


def _power(k: Builder, x: Number, y: Number) -> Number:
    if FLOAT64 not in (x.dtype, y.dtype):
        raise ExportError("a power of ints is an int or a float depending on their values, which "
                          "cannot be exported", "make one of them a float: x ** 2.0")
    return k.pow(k.cast(x, FLOAT64), k.cast(y, FLOAT64))


def _rounded(k: Builder, x: Number, *digits: Number) -> Number:
    if digits:
        raise ExportError("a number is rounded to digits, for which ONNX has no operator",
                          "round without digits: round(x * 100) / 100")
    return _whole("round")(k, x)


_OPERATORS: dict[str, Callable[..., Number]] = {
    "add": _arithmetic(lambda x, y: x + y), "sub": _arithmetic(lambda x, y: x - y),
    "mul": _arithmetic(lambda x, y: x * y), "mod": _arithmetic(lambda x, y: x % y),
    "floordiv": _arithmetic(lambda x, y: x // y),
    "truediv": _arithmetic(lambda x, y: x / y, exact=True), "pow": _power,
    "lt": _arithmetic(lambda x, y: x < y), "le": _arithmetic(lambda x, y: x <= y),
    "gt": _arithmetic(lambda x, y: x > y), "ge": _arithmetic(lambda x, y: x >= y),
    "eq": _arithmetic(lambda x, y: x == y), "ne": _arithmetic(lambda x, y: x != y),
    "and": _bits(lambda x, y: x & y), "or": _bits(lambda x, y: x | y),
    "xor": _bits(lambda x, y: x ^ y),
    "neg": lambda k, x: -_counted(k, x), "pos": _counted,
    "abs": lambda k, x: k.abs(_counted(k, x)),
    "round": _rounded,
    "invert": lambda k, x: ~_counted(k, x), "cos": lambda k, x: k.cos(k.cast(x, FLOAT64)),
    "trunc": _whole("trunc"), "floor": _whole("floor"),
    "ceil": _whole("ceil"),
}
