"""Writes formulas of pointwise ops as ONNX nodes, with a builder `k` of tensor-valued numbers."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from .graph_writer import OnnxValue, Writer

BOOL = np.dtype(bool)
_LOGIC = {"Add": "Or", "Mul": "And", "Max": "Or", "Min": "And"}  # their meaning for booleans
_BITS = {"And": "BitwiseAnd", "Or": "BitwiseOr", "Xor": "BitwiseXor"}


class Number:
    """A tensor of the model with Python's operators. Python numbers take its dtype."""

    __hash__ = None  # type: ignore[assignment]

    def __init__(self, k: Builder, value: OnnxValue) -> None:
        self.k, self.value = k, value

    @property
    def dtype(self) -> Any:
        return self.value.dtype

    def __add__(self, y: Any) -> Number:
        return self.k.two("Add", self, y)

    def __radd__(self, y: Any) -> Number:
        return self.k.two("Add", y, self)

    def __sub__(self, y: Any) -> Number:
        return self.k.two("Sub", self, y)

    def __rsub__(self, y: Any) -> Number:
        return self.k.two("Sub", y, self)

    def __mul__(self, y: Any) -> Number:
        return self.k.two("Mul", self, y)

    def __rmul__(self, y: Any) -> Number:
        return self.k.two("Mul", y, self)

    def __truediv__(self, y: Any) -> Number:
        return self.k.two("Div", self, y)

    def __rtruediv__(self, y: Any) -> Number:
        return self.k.two("Div", y, self)

    def __floordiv__(self, y: Any) -> Number:
        return self.k.floor_divide(self, y)

    def __mod__(self, y: Any) -> Number:
        return self.k.remainder(self, y)

    def __neg__(self) -> Number:
        return self.k.one("Neg", self)

    def __and__(self, y: Any) -> Number:
        return self.k.bits("And", self, y)

    def __or__(self, y: Any) -> Number:
        return self.k.bits("Or", self, y)

    def __xor__(self, y: Any) -> Number:
        return self.k.bits("Xor", self, y)

    def __invert__(self) -> Number:
        return self.k.one("Not", self) if self.dtype == BOOL else -self - 1

    def __lshift__(self, y: Any) -> Number:
        return self.k.shift("LEFT", self, y)

    def __rshift__(self, y: Any) -> Number:
        return self.k.shift("RIGHT", self, y)

    def __lt__(self, y: Any) -> Number:
        return self.k.two("Less", self, y, BOOL)

    def __le__(self, y: Any) -> Number:
        return self.k.two("LessOrEqual", self, y, BOOL)

    def __gt__(self, y: Any) -> Number:
        return self.k.two("Greater", self, y, BOOL)

    def __ge__(self, y: Any) -> Number:
        return self.k.two("GreaterOrEqual", self, y, BOOL)

    def __eq__(self, y: Any) -> Number:  # type: ignore[override]
        return self.k.two("Equal", self, y, BOOL)

    def __ne__(self, y: Any) -> Number:  # type: ignore[override]
        return ~(self == y)


class Builder:
    """`k` of a pointwise formula: functions that ONNX has as operators, and their compositions."""

    def __init__(self, writer: Writer) -> None:
        self.writer = writer

    def wrap(self, value: OnnxValue) -> Number:
        return Number(self, value)

    def one(self, kind: str, x: Any, dtype: Any = None) -> Number:
        """An operator of one tensor."""
        return Number(self, self.writer.apply(kind, [x.value], dtype))

    def two(self, kind: str, x: Any, y: Any, dtype: Any = None) -> Number:
        """An operator of two tensors, one of which may be a Python number."""
        like = x.dtype if isinstance(x, Number) else y.dtype
        kind = _LOGIC.get(kind, kind) if like == BOOL else kind
        return Number(self, self.writer.apply(kind, [self._value(x, like), self._value(y, like)],
                                              dtype))

    def _value(self, x: Any, dtype: Any) -> OnnxValue:
        return x.value if isinstance(x, Number) else self.writer.const(np.array(x, dtype))

    def const(self, value: Any, dtype: Any) -> Number:
        return Number(self, self.writer.const(np.array(value, dtype)))

    def cast(self, x: Any, dtype: Any) -> Number:
        return Number(self, self.writer.cast(x.value, dtype))

    def where(self, c: Any, x: Any, y: Any) -> Number:
        dtype = x.dtype if isinstance(x, Number) else y.dtype
        inputs = [c.value, self._value(x, dtype), self._value(y, dtype)]
        return Number(self, self.writer.op("Where", inputs, dtype))

    # ---- integers
    def bits(self, kind: str, x: Any, y: Any) -> Number:
        """And, Or or Xor: of booleans, or bitwise."""
        return self.two(kind if x.dtype == BOOL else _BITS[kind], x, y)

    def shift(self, direction: str, x: Any, y: Any) -> Number:
        """An arithmetic shift by nonnegative amounts; ONNX shifts unsigned integers only."""
        if x.dtype.kind == "u":
            return self._shift(direction, x, y)
        unsigned = np.dtype(np.uint64)
        by = self.cast(self.wrap(self._value(y, x.dtype)), unsigned)
        down = direction == "RIGHT"
        magnitude = self.where(x < 0, ~x if down else -x, x)
        out = self.cast(self._shift(direction, self.cast(magnitude, unsigned), by), x.dtype)
        return self.where(x < 0, ~out if down else -out, out)

    def _shift(self, direction: str, x: Any, y: Any) -> Number:
        inputs = [x.value, self._value(y, x.dtype)]
        return Number(self, self.writer.op("BitShift", inputs, x.dtype, direction=direction))

    def remainder(self, x: Any, y: Any) -> Number:
        """The remainder with the sign of the divisor, as in Python."""
        if x.dtype.kind != "f":
            return self.two("Mod", x, y)
        y = self.wrap(self._value(y, x.dtype))
        rest = Number(self, self.writer.op("Mod", [x.value, y.value], x.dtype, fmod=1))
        other_sign = (rest != 0) & ((rest < 0) ^ (y < 0))
        return self.where(other_sign, rest + y, rest)

    def floor_divide(self, x: Any, y: Any) -> Number:
        if x.dtype.kind == "f":
            y = self.wrap(self._value(y, x.dtype))
            return self.where(y == 0, x / y, self.round((x - self.remainder(x, y)) / y))
        return (x - self.remainder(x, y)) / y if x.dtype.kind == "i" else x / y

    def pow(self, x: Any, y: Any) -> Number:
        like = x if isinstance(x, Number) else y
        x, y = (self.wrap(self._value(v, like.dtype)) for v in (x, y))
        if like.dtype.kind != "i":
            return self.two("Pow", x, y)
        # An integer to a negative power is 0, except for the bases 1 and -1.
        power = self.two("Pow", x, self.maximum(y, 0))
        odd = self.where((y % 2) != 0, x, 1)
        one = (x == 1) | (x == -1)
        return self.where(y < 0, self.where(one, odd, 0), power)

    # ---- parts of numbers
    def maximum(self, x: Any, y: Any) -> Number:
        return self.two("Max", x, y)

    def minimum(self, x: Any, y: Any) -> Number:
        return self.two("Min", x, y)

    def isfinite(self, x: Any) -> Number:
        return ~(self.isnan(x) | self.isinf(x))

    def isnan(self, x: Any) -> Number:
        return self.one("IsNaN", x, BOOL)

    def isinf(self, x: Any) -> Number:
        return self.one("IsInf", x, BOOL)

    def signbit(self, x: Any) -> Number:
        """True for negative numbers and -0.0, which 1 / x tells from 0; nan counts as positive."""
        return (x < 0) | ((x == 0) & (self.one("Reciprocal", x) < 0))

    def copysign(self, x: Any, y: Any) -> Number:
        return self.where(self.signbit(y), -self.abs(x), self.abs(x))

    def trunc(self, x: Any) -> Number:
        return self.where(x < 0, self.ceil(x), self.floor(x))

    # ---- exact near 0, and without overflow
    def exp2(self, x: Any) -> Number:
        return self.two("Pow", 2.0, x)

    def expm1(self, x: Any) -> Number:
        """tanh(x / 2) (exp(x) + 1), which is exact near 0."""
        return self.tanh(x * 0.5) * (self.exp(x) + 1)

    def log1p(self, x: Any) -> Number:
        """2 atanh(x / (x + 2)) for small x, which is exact near 0."""
        return self.where(self.abs(x) < 0.5, self.atanh(x / (x + 2)) * 2, self.log(x + 1))

    def log2(self, x: Any) -> Number:
        return self.log(x) / math.log(2.0)

    def log10(self, x: Any) -> Number:
        return self.log(x) / math.log(10.0)

    def hypot(self, x: Any, y: Any) -> Number:
        a, b = self.abs(x), self.abs(y)
        large, small = self.maximum(a, b), self.minimum(a, b)
        ratio = small / self.where(large == 0, 1, large)
        endless = self.isinf(x) | self.isinf(y)
        return self.where(endless, math.inf, large * self.sqrt(ratio * ratio + 1))

    def atan2(self, y: Any, x: Any) -> Number:
        """The angle of the point (x, y), derived from the angle in the first octant."""
        a, b = self.abs(x), self.abs(y)
        large, small = self.maximum(a, b), self.minimum(a, b)
        ratio = small / self.where(large == 0, 1, large)
        angle = self.atan(self.where(self.isinf(a) & self.isinf(b), 1, ratio))
        angle = self.where(b > a, math.pi / 2 - angle, angle)
        angle = self.where(self.signbit(x), math.pi - angle, angle)
        return self.where(self.signbit(y), -angle, angle)

    def __getattr__(self, name: str) -> Callable[[Any], Number]:
        if name not in NAMES:
            raise AttributeError(name)
        return lambda x: self.one(NAMES[name], x)


NAMES = {name: name.capitalize() for name in (
    "abs acos acosh asin asinh atan atanh ceil cos cosh erf exp floor log round sign sin sinh sqrt "
    "tan tanh").split()}
