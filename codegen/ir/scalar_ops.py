"""Defines the scalar operations of the loop IR, one row each, by NumPy functions.

The interpreter runs this table. The emitters map the same names to code of their targets, and a
test checks that each emitter has a row for every name here. The dtype in which a row computes, and
its result dtype, are defined only here.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ...eager.arrays.dtypes import bfloat16, is_small, summed_in

_erf = np.vectorize(math.erf, otypes=[np.float64])


def _bits(x: Any) -> Any:
    return np.asarray(x).view(f"u{x.dtype.itemsize}")


def _from_bits(x: Any) -> Any:
    return np.asarray(x, np.uint32).view(np.float32)


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


class OpCost(NamedTuple):
    """The cost of a scalar operation, in additions of the same dtype.

    CPU columns are times of a vector whose operands are in registers, where exp of float32 takes 12
    (`python -m benchmarks.scalar_costs` measures them). GPU columns are counts of machine
    instructions for sm_80, slow paths left out.
    """

    cpu: float = 1  # of float32, 16-bit floats and integers
    cpu_double: float = 1
    gpu: float = 1
    gpu_double: float = 1


_SIMPLE = OpCost()


@dataclass(frozen=True)
class ScalarOp:
    """A scalar operation of the loop IR.

    `function` computes it on NumPy scalars; its result is then cast to the dtype of the call.
    `result` is its result dtype if it has one of its own. `float_only`: integers are computed as
    float64. `exact_in_small_floats`: a result of 16-bit floats needs no rounding. `is_call`: CPU
    code calls a function for it, so that vectors in flight are of no use.
    """

    function: Callable[..., Any]
    cost: OpCost = _SIMPLE
    result: np.dtype[Any] | None = None
    float_only: bool = False
    exact_in_small_floats: bool = False
    is_call: bool = False
    is_transcendental: bool = False


def _transcendental(function: Callable[..., Any], *cost: float, is_call: bool = False) -> ScalarOp:
    return ScalarOp(function, OpCost(*cost), float_only=True, is_call=is_call,
                    is_transcendental=True)


def _predicate(function: Callable[..., Any]) -> ScalarOp:
    return ScalarOp(function, result=_BOOL)


def _exact(function: Callable[..., Any]) -> ScalarOp:
    return ScalarOp(function, exact_in_small_floats=True)


_BOOL, _DOUBLE = np.dtype(bool), np.dtype("float64")
_UINT32, _INT32 = np.dtype("uint32"), np.dtype("int32")
_DIVIDE = OpCost(4, 5, 9, 16)

SCALAR: dict[str, ScalarOp] = {
    # arithmetic; integers wrap, x / 0 follows IEEE, an integer divided by zero is 0
    "add": ScalarOp(np.add), "sub": ScalarOp(np.subtract), "mul": ScalarOp(np.multiply),
    "div": ScalarOp(np.true_divide, _DIVIDE, float_only=True),
    "neg": _exact(np.negative), "abs": _exact(np.abs), "sign": _exact(np.sign),
    "floor_divide": ScalarOp(np.floor_divide, OpCost(600, 420, 40, 80), is_call=True),
    "remainder": ScalarOp(np.remainder, OpCost(600, 420, 40, 80), is_call=True),
    "fmod": ScalarOp(np.fmod, OpCost(600, 420, 40, 80), is_call=True),
    "pow": ScalarOp(np.power, OpCost(200, 390, 60, 200), is_call=True),
    "idiv": ScalarOp(np.floor_divide),  # of indices: not negative, positive divisor
    "imod": ScalarOp(np.remainder),
    "maximum": _exact(np.maximum), "minimum": _exact(np.minimum),  # nan wins
    "floor": _exact(np.floor), "ceil": _exact(np.ceil), "trunc": _exact(np.trunc),
    "round": _exact(np.rint),
    "sqrt": ScalarOp(np.sqrt, OpCost(5, 10, 8, 30), float_only=True),
    "copysign": ScalarOp(np.copysign, float_only=True, exact_in_small_floats=True),
    "nextafter": ScalarOp(np.nextafter, OpCost(150, 110, 30, 30), float_only=True,
                          exact_in_small_floats=True, is_call=True),
    # transcendental
    "exp": _transcendental(np.exp, 12, 22, 9, 41),
    "exp2": _transcendental(np.exp2, 9, 90, 4, 41),
    "expm1": _transcendental(np.expm1, 16, 19, 20, 49),
    "log": _transcendental(np.log, 20, 30, 20, 65),
    "log2": _transcendental(np.log2, 20, 28, 20, 65),
    "log10": _transcendental(np.log10, 17, 28, 20, 65),
    "log1p": _transcendental(np.log1p, 25, 35, 25, 100),
    "sin": _transcendental(np.sin, 22, 330, 25, 80, is_call=True),
    "cos": _transcendental(np.cos, 25, 330, 25, 80, is_call=True),
    "tan": _transcendental(np.tan, 25, 340, 30, 100, is_call=True),
    "asin": _transcendental(np.arcsin, 10, 130, 20, 65),
    "acos": _transcendental(np.arccos, 18, 135, 20, 70),
    "atan": _transcendental(np.arctan, 16, 325, 17, 41),
    "atan2": _transcendental(np.arctan2, 22, 510, 35, 100),
    "sinh": _transcendental(np.sinh, 80, 360, 30, 120, is_call=True),
    "cosh": _transcendental(np.cosh, 70, 215, 17, 41, is_call=True),
    "tanh": _transcendental(np.tanh, 20, 25, 20, 57),
    "asinh": _transcendental(np.arcsinh, 130, 440, 40, 150, is_call=True),
    "acosh": _transcendental(np.arccosh, 120, 430, 40, 150, is_call=True),
    "atanh": _transcendental(np.arctanh, 100, 400, 40, 120, is_call=True),
    "erf": _transcendental(_erf, 30, 110, 25, 57),
    "hypot": _transcendental(np.hypot, 22, 250, 25, 41, is_call=True),
    # comparisons give bool
    "lt": _predicate(np.less), "le": _predicate(np.less_equal),
    "gt": _predicate(np.greater), "ge": _predicate(np.greater_equal),
    "eq": _predicate(np.equal), "ne": _predicate(np.not_equal),
    "isnan": _predicate(np.isnan), "isinf": _predicate(np.isinf),
    "isfinite": _predicate(np.isfinite), "signbit": _predicate(np.signbit),
    # bits: of bool and of integers
    "and": ScalarOp(np.bitwise_and), "or": ScalarOp(np.bitwise_or),
    "xor": ScalarOp(np.bitwise_xor), "not": ScalarOp(np.invert),
    "shl": ScalarOp(np.left_shift), "shr": ScalarOp(np.right_shift),
    "mulhi": ScalarOp(_multiply_high, OpCost(4, 4, 1, 1)),
    "bits": ScalarOp(_bits),  # of a float32 or float64, as an unsigned integer
    "from_bits": ScalarOp(_from_bits, result=np.dtype("float32")),  # of a uint32
    # pairs of bfloat16 and of 16-bit integers, and four 8-bit integers; an `Update` that adds a
    # `dot2` may round otherwise and flush subnormals
    "pair": ScalarOp(_pair, result=_UINT32),
    "dot2": ScalarOp(_dot2, result=np.dtype("float32")),
    "pair16": ScalarOp(_pair16, result=_UINT32), "dot16": ScalarOp(_dot16, result=_INT32),
    "quad8": ScalarOp(_quad8, result=_UINT32), "dot8": ScalarOp(_dot8, result=_INT32),
    # the rest
    "where": ScalarOp(np.where),  # where(condition, x, y)
    "cast": ScalarOp(lambda x: x),  # to the dtype of the call, as NumPy's astype
}  # fmt: skip

TRANSCENDENTAL = [name for name, op in SCALAR.items() if op.is_transcendental]
PREDICATES = frozenset(name for name, op in SCALAR.items() if op.result == _BOOL)


def compute_dtype(op: str, dtypes: list[np.dtype[Any]]) -> np.dtype[Any]:
    """The dtype in which NumPy would compute with operands of these dtypes."""
    first = dtypes[0] if all(t == dtypes[0] for t in dtypes) else np.result_type(*dtypes)
    is_integer = summed_in(first).kind != "f"
    return _DOUBLE if SCALAR[op].float_only and is_integer else first


def result_dtype(op: str, computed: np.dtype[Any]) -> np.dtype[Any]:
    """The result dtype of an operation computed in dtype `computed`.

    16-bit floats are held as float32. A result that is not exact in 16 bits has yet to be rounded.
    """
    wide, scalar_op = summed_in(computed), SCALAR[op]
    if op == "bits":
        return np.dtype(f"u{wide.itemsize}")
    if scalar_op.result is not None:
        return scalar_op.result
    return computed if scalar_op.exact_in_small_floats and is_small(computed) else wide


def scalar_cost(op: str, dtype: np.dtype[Any], on_gpu: bool) -> float:
    """The cost of a scalar operation whose operands have a dtype, in additions of that dtype."""
    cost, is_double = SCALAR[op].cost, dtype == _DOUBLE
    if on_gpu:
        return cost.gpu_double if is_double else cost.gpu
    return cost.cpu_double if is_double else cost.cpu
