"""Emits the scalar operations of the loop IR as LLVM instructions, one row each, for scalars and
vectors.

A row is called with the builder, the dtype of the operands, and the operands.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...eager.arrays.dtypes import is_small, summed_in
from ..ir.scalar_ops import TRANSCENDENTAL, compute_dtype, result_dtype
from . import dot_products, half, math
from .ir_builder import BITS, LlvmBuilder, Value, constant, listed, suffix, type_of
from .libm import integer_pow, per_lane

DType = np.dtype[Any]
Row = Callable[..., Value]
_BOOL, _DOUBLE = np.dtype(bool), np.dtype("float64")


def apply(k: LlvmBuilder, op: str, args: list[Value], dtypes: list[DType], result: DType) -> Value:
    """The value of an operation, as `codegen.scalar` defines it, converted to `result`."""
    if op == "cast":
        return convert(k, args[0], dtypes[0], result)
    if op == "where":
        x, y = (convert(k, a, t, result) for a, t in zip(args[1:], dtypes[1:], strict=True))
        return k.select(convert(k, args[0], dtypes[0], _BOOL), x, y)
    work = compute_dtype(op, dtypes)
    operands = [convert(k, a, t, work) for a, t in zip(args, dtypes, strict=True)]
    if is_small(work) and op in _SMALL:
        return convert(k, _SMALL[op](k, work, *operands), work, result)
    operand_dtype = summed_in(work)
    value = SCALAR[op](k, operand_dtype, *operands)
    return convert(k, value, result_dtype(op, work), result)


def convert(k: LlvmBuilder, v: Value, source: DType, to: DType) -> Value:
    """A value as another dtype, with the semantics of NumPy's astype where that is defined."""
    if source == to:
        return v
    if is_small(to):
        wide = source if source == _DOUBLE else summed_in(to)
        return half.rounded(k, convert(k, v, source, wide), to)
    source, kind = summed_in(source), type_of(to)
    if source == to:
        return v
    if to.kind == "b":
        return k.compare("une" if source.kind == "f" else "ne", v, 0)
    if source.kind == "b":
        return k.select(v, constant(1, kind), constant(0, kind))
    if source.kind == "f":
        return _from_float(k, v, to)
    if to.kind == "f":
        return k.cast("sitofp" if source.kind == "i" else "uitofp", v, kind)
    return k.integer(v, kind, source.kind == "i")


def _from_float(k: LlvmBuilder, v: Value, to: DType) -> Value:
    """A float as another float, or as an integer by way of what the processor converts to."""
    kind = type_of(to)
    if to.kind == "f":
        return k.cast("fpext" if BITS[kind] > BITS[v.type] else "fptrunc", v, kind)
    unsigned = to.kind == "u"
    middle = "i64" if to.itemsize == 8 or (unsigned and to.itemsize == 4) else "i32"
    v = k.cast("fptoui" if unsigned and to.itemsize == 8 else "fptosi", v, middle)
    # What does not fit is poison to LLVM; frozen it is merely some number, as in NumPy.
    v = k.instruction(f"freeze {v.typed}", v.type, v.lanes, v.depth)
    return k.integer(v, kind)


# Builders of rows


def by_kind(floats: str, signed: str, unsigned: str = "", booleans: str = "") -> Row:
    """A row of one two-operand instruction for each kind of dtype."""
    names = {"f": floats, "i": signed, "u": unsigned or signed, "b": booleans or signed}
    return lambda k, t, x, y: k.binary(names[t.kind], x, y)


def comparison(name: str) -> Row:
    """A row that compares; only `ne` holds between nans."""
    floats = ("u" if name == "ne" else "o") + name
    signed = name if name in ("eq", "ne") else "s" + name
    unsigned = name if name in ("eq", "ne") else "u" + name

    def row(k: LlvmBuilder, t: DType, x: Value, y: Value) -> Value:
        return k.compare({"f": floats, "i": signed}.get(t.kind, unsigned), x, y)

    return row


def rounding(name: str) -> Row:
    """A row that changes floats only."""
    return lambda k, t, x: k.intrinsic(name, x) if t.kind == "f" else x


def extreme(op: str) -> Row:
    """maximum or minimum, in which nan wins."""
    predicate, short = ("ogt", "max") if op == "maximum" else ("olt", "min")

    def row(k: LlvmBuilder, t: DType, x: Value, y: Value) -> Value:
        if t.kind == "b":
            return k.binary("or" if short == "max" else "and", x, y)
        if t.kind != "f":
            return k.intrinsic(("s" if t.kind == "i" else "u") + short, x, y)
        if _is_number(x):
            x, y = y, x
        if _is_number(y):  # one instruction: x when it is nan
            return k.select(k.compare(predicate, y, x), y, x)
        best = k.select(k.compare(predicate, x, y), x, y)
        return k.select(k.compare("uno", x, x), x, best)

    return row


def _is_number(x: Value) -> bool:
    return x.text[0] != "%" and "0x7FF8" not in x.text and "0xFFF8" not in x.text


def of_float(name: str) -> Row:
    """A row that a function of `math` computes."""
    function = math.function(name)
    return lambda k, t, *xs: function(k, *xs)


def classify(predicate: str, integers: bool) -> Row:
    """A row that compares |x| with infinity; `integers` is the result for integers."""

    def row(k: LlvmBuilder, t: DType, x: Value) -> Value:
        if t.kind != "f":
            return constant(integers, "i1")
        return k.compare(predicate, k.intrinsic("fabs", x), float("inf"))

    return row


# Rows with more to say


def _neg(k: LlvmBuilder, t: DType, x: Value) -> Value:
    if t.kind == "f":
        return k.emit(f"fneg {x.typed}", x.type, x.lanes, x.depth)
    return k.binary("sub", 0, x)


def _abs(k: LlvmBuilder, t: DType, x: Value) -> Value:
    if t.kind == "f":
        return k.intrinsic("fabs", x)
    if t.kind != "i":
        return x
    return k.call(f"llvm.abs.{suffix(x)}", [x, constant(False, "i1")], x.type, x.lanes)


def _sign(k: LlvmBuilder, t: DType, x: Value) -> Value:
    if t.kind == "f":
        sign = k.select(
            k.compare("oeq", x, 0), 0.0, k.intrinsic("copysign", constant(1, x.type), x)
        )
        return k.select(k.compare("uno", x, x), x, sign)
    one = k.select(k.compare("ne", x, 0), constant(1, x.type), constant(0, x.type))
    return k.select(k.compare("slt", x, 0), constant(-1, x.type), one) if t.kind == "i" else one


def _signbit(k: LlvmBuilder, t: DType, x: Value) -> Value:
    if t.kind == "f":
        x = k.cast("bitcast", x, f"i{BITS[x.type]}")
    return k.compare("slt", x, 0) if t.kind in "fi" else constant(False, "i1")


def _integer_division(remainder: bool, floor: bool) -> Row:
    """Division of integers that never traps: by zero it gives 0, and by -1 it wraps."""

    def row(k: LlvmBuilder, t: DType, x: Value, y: Value) -> Value:
        op = ("rem" if remainder else "div",)
        if t.kind != "i":
            zero = k.compare("eq", y, 0)
            result = k.binary("u" + op[0], x, k.select(zero, constant(1, y.type), y))
            return k.select(zero, constant(0, y.type), result)
        zero, minus = k.compare("eq", y, 0), k.compare("eq", y, -1)
        safe = k.select(k.binary("or", zero, minus), constant(1, y.type), y)
        rest = k.binary("srem", x, safe)
        differ = k.compare("slt", k.binary("xor", rest, safe), 0)
        adjust = k.binary("and", differ, k.compare("ne", rest, 0))
        if remainder:
            if floor:
                rest = k.select(adjust, k.binary("add", rest, safe), rest)
            return rest  # of 1, when the divisor was replaced: 0
        quotient = k.binary("sdiv", x, safe)
        quotient = k.select(adjust, k.binary("sub", quotient, 1), quotient)
        quotient = k.select(minus, k.binary("sub", 0, x), quotient)
        return k.select(zero, constant(0, y.type), quotient)

    return row


def _fmod(k: LlvmBuilder, t: DType, x: Value, y: Value) -> Value:
    if t.kind != "f":
        return _integer_division(True, False)(k, t, x, y)
    return per_lane(k, "fmod", x, y)


def _remainder(k: LlvmBuilder, t: DType, x: Value, y: Value) -> Value:
    if t.kind != "f":
        return _integer_division(True, True)(k, t, x, y)
    rest = per_lane(k, "fmod", x, y)
    adjusted = k.select(_signs_differ(k, rest, y), k.binary("fadd", rest, y), rest)
    return k.select(k.compare("une", rest, 0), adjusted, k.intrinsic("copysign", 0.0, y))


def _signs_differ(k: LlvmBuilder, rest: Value, y: Value) -> Value:
    return k.binary("xor", k.compare("olt", rest, 0), k.compare("olt", y, 0))


def _floor_divide(k: LlvmBuilder, t: DType, x: Value, y: Value) -> Value:
    if t.kind != "f":
        return _integer_division(False, True)(k, t, x, y)
    rest = per_lane(k, "fmod", x, y)
    plain = k.binary("fdiv", x, y)
    exact = k.binary("fdiv", k.binary("fsub", x, rest), y)
    lower = k.binary("and", k.compare("une", rest, 0), _signs_differ(k, rest, y))
    exact = k.select(lower, k.binary("fsub", exact, 1), exact)
    whole = k.intrinsic("floor", exact)
    behind = k.compare("ogt", k.binary("fsub", exact, whole), 0.5)
    whole = k.select(behind, k.binary("fadd", whole, 1), whole)
    whole = k.select(k.compare("une", exact, 0), whole, k.intrinsic("copysign", 0.0, plain))
    return k.select(k.compare("oeq", y, 0), plain, whole)


def _pow(k: LlvmBuilder, t: DType, x: Value, y: Value) -> Value:
    return math.function("pow")(k, x, y) if t.kind == "f" else \
        integer_pow(k, x, y, t.kind == "i")


def _not(k: LlvmBuilder, t: DType, x: Value) -> Value:
    return k.binary("xor", x, True if t.kind == "b" else -1)


def _shift(op: str) -> Row:
    """A shift in which all bits may leave."""

    def row(k: LlvmBuilder, t: DType, x: Value, y: Value) -> Value:
        width = BITS[x.type]
        arithmetic = op == "shr" and t.kind == "i"
        name = "shl" if op == "shl" else "ashr" if arithmetic else "lshr"
        if y.text.isdigit() and int(y.text) < width:
            return k.binary(name, x, y)
        inside = k.compare("ult", y, width)
        last = constant(width - 1, y.type)
        if arithmetic:
            return k.binary(name, x, k.select(inside, y, last))
        shifted = k.binary(name, x, k.select(inside, y, last))
        return k.select(inside, shifted, constant(0, x.type))

    return row


def _multiply_high(k: LlvmBuilder, t: DType, x: Value, y: Value) -> Value:
    lanes = max(x.lanes, y.lanes)
    if lanes % 2 or not lanes or not k.module.target.x86:
        long = [k.integer(v, "i64", False) for v in (x, y)]
        return k.integer(k.binary("lshr", k.binary("mul", *long), 32), "i32")
    # x86 multiplies every other element to 64 bits; it shifts the elements between to their places.
    (x0, x1), (y0, y1) = (_even_and_odd(k, v, lanes) for v in (x, y))
    even, odd = (k.as_elements(k.binary("mul", *xy), "i32") for xy in ((x0, y0), (x1, y1)))
    highs = listed([i + 1 if i % 2 == 0 else lanes + i for i in range(lanes)], "i32")
    return k.emit(f"shufflevector {even.typed}, {odd.typed}, {highs.typed}", "i32", lanes,
                  max(even.depth, odd.depth))


def _even_and_odd(k: LlvmBuilder, x: Value, lanes: int) -> tuple[Value, Value]:
    """The unsigned elements at even positions, and those at odd ones, in 64 bits."""
    if x.is_number:
        same = constant(int(x.text) & _LOW32, "i64", lanes // 2)
        return same, same
    pairs = k.as_elements(k.wide(x, lanes), "i64")
    return k.binary("and", pairs, _LOW32), k.binary("lshr", pairs, 32)


_LOW32 = (1 << 32) - 1

SCALAR: dict[str, Row] = {
    "add": by_kind("fadd", "add", booleans="or"), "sub": by_kind("fsub", "sub"),
    "mul": by_kind("fmul", "mul", booleans="and"), "div": by_kind("fdiv", ""),
    "neg": _neg, "abs": _abs, "sign": _sign,
    "floor_divide": _floor_divide, "remainder": _remainder, "fmod": _fmod, "pow": _pow,
    "idiv": _floor_divide, "imod": _remainder,
    "maximum": extreme("maximum"), "minimum": extreme("minimum"),
    "floor": rounding("floor"), "ceil": rounding("ceil"),
    "trunc": rounding("trunc"), "round": rounding("rint"),
    "sqrt": rounding("sqrt"), "copysign": lambda k, t, x, y: k.intrinsic("copysign", x, y),
    "nextafter": lambda k, t, x, y: per_lane(k, "nextafter", x, y),
    **{name: of_float(name) for name in TRANSCENDENTAL},
    **{name: comparison(name) for name in ("lt", "le", "gt", "ge", "eq", "ne")},
    "isnan": classify("uno", False), "isinf": classify("oeq", False),
    "isfinite": classify("olt", True), "signbit": _signbit,
    "and": by_kind("", "and"), "or": by_kind("", "or"), "xor": by_kind("", "xor"), "not": _not,
    "shl": _shift("shl"), "shr": _shift("shr"), "mulhi": _multiply_high,
    "from_bits": lambda k, t, x: k.cast("bitcast", x, "float"),
    "bits": lambda k, t, x: k.cast("bitcast", x, f"i{BITS[x.type]}"),
    "pair": lambda k, t, x, y: dot_products.pair(k, x, y),
    "pair16": lambda k, t, x, y: dot_products.pair16(k, x, y),
    "dot2": lambda k, t, x, y: dot_products.dot(k, x, y),
    "dot16": lambda k, t, x, y: dot_products.dot16(k, x, y),
    "quad8": lambda k, t, *four: dot_products.quad8(k, *four),
    "dot8": lambda k, t, x, y: dot_products.dot8(k, x, y),
    "where": lambda k, t, c, x, y: k.select(c, x, y), "cast": lambda k, t, x: x,
}  # fmt: skip
"""operation -> how to write it; `where` and `cast` are `apply`'s."""

_SMALL: dict[str, Row] = {"nextafter": half.following}
"""What floats of 16 bits need rows of their own for, called with their dtype."""


# Reductions


def identity(op: str, dtype: DType) -> Value:
    """The identity element of `op`; -0.0 for sums of floats."""
    dtype, kind = summed_in(dtype), type_of(dtype)
    if op == "add":
        return constant(-0.0 if dtype.kind == "f" else 0, kind)
    if op in ("maximum", "minimum") and dtype.kind == "f":
        return constant(float("-inf" if op == "maximum" else "inf"), kind)
    if op in ("maximum", "minimum") and dtype.kind in "iu":
        info = np.iinfo(dtype)
        return constant(info.min if op == "maximum" else info.max, kind)
    if op == "mul":
        return constant(1, kind)
    ones = op in ("and", "minimum")
    return constant((1 if dtype.kind == "b" else -1) if ones else 0, kind)


_INTEGER_REDUCTION = {"add": "add", "mul": "mul", "and": "and", "or": "or"}
_BOOL_REDUCTION = {"add": "or", "maximum": "or", "mul": "and", "minimum": "and"}


def across(k: LlvmBuilder, op: str, dtype: DType, v: Value) -> Value:
    """The lanes of a vector combined into one value, in the order of a tree."""
    if is_small(dtype):
        held = summed_in(dtype)
        return convert(k, across(k, op, held, v), held, dtype)
    if dtype.kind == "b":
        return k.reduce_bits(_BOOL_REDUCTION.get(op, op), v)
    scalar = v._replace(text="", lanes=0)
    if dtype.kind == "f" and op in ("add", "mul"):
        name = f"llvm.vector.reduce.f{op}.{suffix(v)}"
        return k.call(name, [identity(op, dtype), v], v.type, scalar.lanes, flags="reassoc ")
    if op in ("maximum", "minimum"):
        short = op[:3]
        if dtype.kind == "f":  # f...imum lets nan win
            return k.call(f"llvm.vector.reduce.f{op}.{suffix(v)}", [v], v.type, 0, flags="nsz ")
        sign = {"i": "s", "u": "u"}[dtype.kind]
        return k.call(f"llvm.vector.reduce.{sign}{short}.{suffix(v)}", [v], v.type, 0)
    return k.call(f"llvm.vector.reduce.{_INTEGER_REDUCTION[op]}.{suffix(v)}", [v], v.type, 0)
