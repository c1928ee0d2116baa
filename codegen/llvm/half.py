"""Converts float16 and bfloat16: 16 bits in memory, and in registers a float that the 16 bits can
hold exactly.

Operations compute in float32, and their results are `rounded` to the nearest representable number,
ties to even. Nan stays nan.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...eager.arrays.dtypes import bfloat16
from .ir_builder import LlvmBuilder, Value

DType = np.dtype[Any]

_SIGN = 1 << 15
_QUIET = 1 << 22  # the bit of a nan that is no error
_INFINITY_BITS = 0x7F800000  # the bits of an infinite float
_DROPPED_FRACTION_BITS = 13  # bits of a float's fraction that a float16 has not
_MIN_NORMAL = 2.0**-14  # smaller numbers of float16 are all 2**-24 apart
_RAISED = 0.5  # floats from here to 1 are 2**-24 apart, too


def rounded(k: LlvmBuilder, x: Value, to: DType) -> Value:
    """The float nearest to `x` that fits into the 16 bits of `to`; x is a float or a double."""
    if x.type == "double":
        x = k.cast("fptrunc", x, "float") if to == bfloat16 else _to_odd(k, x)
    if to == bfloat16:
        return _dropped(k, x, 16)
    if k.module.target.float16:
        return k.cast("fpext", k.cast("fptrunc", x, "half"), "float")
    usual = _dropped(k, x, _DROPPED_FRACTION_BITS)
    size = k.intrinsic("fabs", usual)
    usual = k.select(k.compare("oge", size, 2.0**16), _signed(k, float("inf"), x), usual)
    size = k.intrinsic("fabs", x)
    small = k.binary("fsub", k.binary("fadd", size, _RAISED), _RAISED)
    return k.select(k.compare("olt", size, _MIN_NORMAL), _signed(k, small, x), usual)


def from_memory(k: LlvmBuilder, x: Value, dtype: DType) -> Value:
    """The float that 16 bits encode."""
    if dtype == bfloat16:
        return _number(k, k.binary("shl", k.integer(x, "i32", False), 16))
    if k.module.target.float16:
        return k.cast("fpext", k.cast("bitcast", x, "half"), "float")
    bits = k.binary("shl", k.integer(x, "i32", True), _DROPPED_FRACTION_BITS)
    number = k.binary("fmul", _number(k, k.binary("and", bits, 0x8FFFE000)), 2.0**112)
    endless = k.binary("or", _bits(k, number), _INFINITY_BITS)
    special = k.compare("oge", k.intrinsic("fabs", number), 2.0**16)
    return k.select(special, _number(k, endless), number)


def to_memory(k: LlvmBuilder, x: Value, dtype: DType) -> Value:
    """The 16 bits of a float that is `rounded` to `dtype`."""
    if dtype == bfloat16:
        return k.integer(k.binary("lshr", _bits(k, x), 16), "i16")
    if k.module.target.float16:
        return k.cast("bitcast", k.cast("fptrunc", x, "half"), "i16")
    bits, size = _bits(k, x), k.intrinsic("fabs", x)
    usual = k.binary("sub", k.binary("lshr", _bits(k, size), _DROPPED_FRACTION_BITS), 112 << 10)
    small = k.binary("and", _bits(k, k.binary("fadd", size, _RAISED)), 0x3FF)
    fraction = k.binary("and", k.binary("lshr", bits, _DROPPED_FRACTION_BITS), 0x3FF)
    usual = k.select(k.compare("olt", size, float("inf")), usual, k.binary("or", fraction, 0x7C00))
    usual = k.select(k.compare("olt", size, _MIN_NORMAL), small, usual)
    sign = k.binary("and", k.binary("lshr", bits, 16), _SIGN)
    return k.integer(k.binary("or", usual, sign), "i16")


def following(k: LlvmBuilder, dtype: DType, x: Value, y: Value) -> Value:
    """The number of `dtype` next to x on the way to y."""
    bits = to_memory(k, x, dtype)
    grows = k.compare("eq", k.compare("ogt", y, x), k.compare("ogt", x, 0))
    step = k.select(grows, k.binary("add", bits, 1), k.binary("sub", bits, 1))
    least = k.binary("or", k.binary("and", to_memory(k, y, dtype), _SIGN), 1)
    moved = from_memory(k, k.select(k.compare("oeq", x, 0), least, step), dtype)
    moved = k.select(k.compare("oeq", x, y), y, moved)
    return k.select(k.compare("uno", x, y), k.binary("fadd", x, y), moved)


def _bits(k: LlvmBuilder, x: Value) -> Value:
    return k.cast("bitcast", x, "i32")


def _number(k: LlvmBuilder, bits: Value) -> Value:
    return k.cast("bitcast", bits, "float")


def _signed(k: LlvmBuilder, size: Value | float, like: Value) -> Value:
    return k.intrinsic("copysign", *k.match(size, like))


def _dropped(k: LlvmBuilder, x: Value, count: int) -> Value:
    """A float rounded to where its last `count` bits are 0."""
    bits = _bits(k, x)
    last = k.binary("and", k.binary("lshr", bits, count), 1)
    up = k.binary("add", k.binary("add", bits, last), (1 << (count - 1)) - 1)
    nearest = k.select(k.compare("uno", x, x), k.binary("or", bits, _QUIET), up)
    return _number(k, k.binary("and", nearest, -(1 << count)))


def _to_odd(k: LlvmBuilder, x: Value) -> Value:
    """Rounds a double to float by round-to-odd, so that rounding the result once more gives the
    correctly rounded number."""
    near = k.cast("fptrunc", x, "float")
    back = k.cast("fpext", near, "double")
    bits = _bits(k, near)
    beyond = k.compare("ogt", k.intrinsic("fabs", back), k.intrinsic("fabs", x))
    other = k.select(beyond, k.binary("sub", bits, 1), k.binary("add", bits, 1))
    even = k.compare("eq", k.binary("and", bits, 1), 0)
    wrong = k.binary("and", even, k.compare("one", back, x))
    return _number(k, k.select(wrong, other, bits))
