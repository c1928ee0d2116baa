"""Defines the scalar operations of the loop IR, one row each, by NumPy functions.

The interpreter runs this table. The emitters map the same names to code of their targets, and a
test checks that each emitter has a row for every name here. The dtype in which a row computes, and
its result dtype, are defined only here.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ...eager.arrays.dtypes import bfloat16, is_small, summed_in

_erf = np.vectorize(math.erf, otypes=[np.float64])


def _bits(x: Any) -> Any:
    return np.asarray(x).view(f"u{x.dtype.itemsize}")


def _multiply_high(x: Any, y: Any) -> Any:
    """The upper 32 bits of the product of two uint32."""
    return ((np.uint64(x) * np.uint64(y)) >> np.uint64(32)).astype(np.uint32)

def _pair(x: Any, y: Any) -> Any:
    """The bits of two bfloat16 as a uint32, the first in the low half."""
    low, high = (np.asarray(v, bfloat16).view(np.uint16).astype(np.uint32) for v in (x, y))
    return low | high << np.uint32(16)


def _dot2(x: Any, y: Any) -> Any:
    """The dot product of two pairs of bfloat16, as a float32."""
    (a, c), (b, d) = ((v << np.uint32(16), v & np.uint32(0xFFFF0000)) for v in (x, y))
    a, b, c, d = (np.asarray(v).view(np.float32) for v in (a, b, c, d))
    return a * b + c * d


def _pair16(x: Any, y: Any) -> Any:
    """The lower 16 bits of two integers as a uint32, the first in the low half."""
    low, high = (np.asarray(v).astype(np.uint32) & np.uint32(0xFFFF) for v in (x, y))
    return low | high << np.uint32(16)


def _dot16(x: Any, y: Any) -> Any:
    """The dot product of two pairs of signed 16-bit integers, as an int32 that wraps."""
    (a, c), (b, d) = ((np.asarray(v << np.uint32(16)).view(np.int32) >> 16,
                       np.asarray(v).view(np.int32) >> 16) for v in (x, y))
    return a * b + c * d


def _quad8(*integers: Any) -> Any:
    """The lower 8 bits of four integers as a uint32, the first in the lowest byte."""
    a, b, c, d = (np.asarray(v).astype(np.uint32) & np.uint32(0xFF) for v in integers)
    return a | b << np.uint32(8) | c << np.uint32(16) | d << np.uint32(24)


def _dot8(x: Any, y: Any) -> Any:
    """The dot product of four unsigned and four signed 8-bit integers, as an int32."""
    x, y = np.asarray(x), np.asarray(y)
    terms = [((x >> np.uint32(8 * n)) & np.uint32(0xFF)).astype(np.int32)
             * ((y << np.uint32(24 - 8 * n)).view(np.int32) >> 24) for n in range(4)]
    return sum(terms[1:], terms[0])


SCALAR: dict[str, Callable[..., Any]] = {
    # arithmetic; integers wrap, x / 0 follows IEEE, an integer divided by zero is 0
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.true_divide,
    "neg": np.negative, "abs": np.abs, "sign": np.sign,
    "floor_divide": np.floor_divide, "remainder": np.remainder, "fmod": np.fmod, "pow": np.power,
    "idiv": np.floor_divide, "imod": np.remainder,  # of indices: not negative, positive divisor
    "maximum": np.maximum, "minimum": np.minimum,  # nan wins
    "floor": np.floor, "ceil": np.ceil, "trunc": np.trunc, "round": np.rint,
    "sqrt": np.sqrt, "hypot": np.hypot, "copysign": np.copysign, "nextafter": np.nextafter,
    # transcendental
    "exp": np.exp, "exp2": np.exp2, "expm1": np.expm1,
    "log": np.log, "log2": np.log2, "log10": np.log10, "log1p": np.log1p,
    "sin": np.sin, "cos": np.cos, "tan": np.tan,
    "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan, "atan2": np.arctan2,
    "sinh": np.sinh, "cosh": np.cosh, "tanh": np.tanh,
    "asinh": np.arcsinh, "acosh": np.arccosh, "atanh": np.arctanh, "erf": _erf,
    # comparisons give bool
    "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
    "eq": np.equal, "ne": np.not_equal,
    "isnan": np.isnan, "isinf": np.isinf, "isfinite": np.isfinite, "signbit": np.signbit,
    # bits: of bool and of integers
    "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor, "not": np.invert,
    "shl": np.left_shift, "shr": np.right_shift, "mulhi": _multiply_high,
    "bits": _bits,  # of a float32 or float64, as an unsigned integer
    # pairs of bfloat16 and of 16-bit integers, and four 8-bit integers; an `Update` that adds a
    # `dot2` may round otherwise and flush subnormals
    "pair": _pair, "dot2": _dot2, "pair16": _pair16, "dot16": _dot16,
    "quad8": _quad8, "dot8": _dot8,
    # the rest
    "where": np.where,  # where(condition, x, y)
    "cast": lambda x: x,  # to the dtype of the call, as NumPy's astype
}
"""name -> function of NumPy scalars; the result is then cast to the dtype of the call."""

TRANSCENDENTAL = (
    "exp exp2 expm1 log log2 log10 log1p sin cos tan asin acos atan atan2 "
    "sinh cosh tanh asinh acosh atanh erf hypot"
).split()
_FLOAT_ONLY = {*TRANSCENDENTAL, "div", "sqrt", "copysign", "nextafter"}
_BOOL, _DOUBLE = np.dtype(bool), np.dtype("float64")
PREDICATES = set("lt le gt ge eq ne isnan isinf isfinite signbit".split())
_RESULT_DTYPES = dict.fromkeys(PREDICATES, _BOOL) \
    | dict.fromkeys(("pair", "pair16", "quad8"), np.dtype("uint32")) \
    | dict.fromkeys(("dot16", "dot8"), np.dtype("int32")) | {"dot2": np.dtype("float32")}
_EXACT_IN_SMALL_FLOATS = set(
    "neg abs sign maximum minimum floor ceil trunc round copysign nextafter".split()
)


def compute_dtype(op: str, dtypes: list[np.dtype[Any]]) -> np.dtype[Any]:
    """The dtype in which NumPy would compute with operands of these dtypes."""
    first = dtypes[0] if all(t == dtypes[0] for t in dtypes) else np.result_type(*dtypes)
    is_integer = summed_in(first).kind != "f"
    return _DOUBLE if op in _FLOAT_ONLY and is_integer else first


def result_dtype(op: str, computed: np.dtype[Any]) -> np.dtype[Any]:
    """The result dtype of an operation computed in dtype `worked`.

    16-bit floats are held as float32. A result that is not exact in 16 bits has yet to be rounded.
    """
    wide = summed_in(computed)
    if op == "bits":
        return np.dtype(f"u{wide.itemsize}")
    return _RESULT_DTYPES.get(op, computed if op in _EXACT_IN_SMALL_FLOATS
                              and is_small(computed) else wide)
