"""The scalar operations of the loop IR as CUDA C expressions, one table row each.

A row is called with the common dtype of the operands and with their texts. Each text is a name,
a literal, or an expression in parentheses.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ...eager.arrays.dtypes import is_small, summed_in
from ..ir.scalar_ops import TRANSCENDENTAL, compute_dtype, result_dtype
from .types import DOUBLE, FLOAT, DType, register_type, small_float_name

OperationWriter = Callable[..., str]
_BOOL = np.dtype(bool)


def apply(op: str, args: list[str], dtypes: list[DType], result: DType) -> str:
    """The text of an operation as `ir.scalar_ops` defines it, converted to `result`."""
    if op == "cast":
        return convert(args[0], dtypes[0], result)
    if op == "where":
        true_value, false_value = (convert(a, t, result)
                                   for a, t in zip(args[1:], dtypes[1:], strict=True))
        return f"({convert(args[0], dtypes[0], _BOOL)} ? {true_value} : {false_value})"
    operand_type = compute_dtype(op, dtypes)
    operands = [convert(a, t, operand_type) for a, t in zip(args, dtypes, strict=True)]
    if is_small(operand_type) and op == "nextafter":
        return convert(f"fw_next_{small_float_name(operand_type)}({', '.join(operands)})",
                       operand_type, result)
    return convert(SCALAR[op](summed_in(operand_type), *operands), result_dtype(op, operand_type),
                   result)


def convert(text: str, source: DType, to: DType) -> str:
    """A value converted to another dtype, like NumPy's astype where that is defined."""
    if source == to:
        return text
    if is_small(to):
        wide = source if source == DOUBLE else FLOAT
        return f"fw_round_{small_float_name(to)}({convert(text, source, wide)})"
    source = summed_in(source)
    if source == to:
        return text
    return f"({text} != 0)" if to.kind == "b" else f"(({register_type(to)}){text})"


# Builders of rows


def infix(sign: str, booleans: str = "") -> OperationWriter:
    """A row of one operator. Integers wrap; in C only unsigned ones do, so they are cast."""
    def row(t: DType, x: str, y: str) -> str:
        if t.kind == "b":
            return f"({x} {booleans or sign} {y})"
        if t.kind == "i" and t.itemsize >= 4:
            unsigned = "unsigned" if t.itemsize == 4 else "unsigned long long"
            return f"(({register_type(t)})(({unsigned}){x} {sign} ({unsigned}){y}))"
        is_narrow_integer = t.kind in "iu" and t.itemsize < 4  # C computes these as int
        text = f"({x} {sign} {y})"
        return f"(({register_type(t)}){text})" if is_narrow_integer else text

    return row


def compared(sign: str) -> OperationWriter:
    return lambda t, x, y: f"({x} {sign} {y})"


def bitwise(sign: str) -> OperationWriter:
    def row(t: DType, x: str, y: str) -> str:
        return f"(({register_type(t)})({x} {sign} {y}))"

    return row


def function(name: str) -> OperationWriter:
    """A row that calls a function of the prelude."""
    return lambda t, *xs: f"{name}({', '.join(xs)})"


def of_float(name: str) -> OperationWriter:
    """A row that calls a function of CUDA's math library; integers are unchanged."""
    def row(t: DType, *xs: str) -> str:
        if t.kind != "f":
            return xs[0]
        return f"{name}{'f' if t == FLOAT else ''}({', '.join(xs)})"

    return row


def classified(name: str, integers: str) -> OperationWriter:
    return lambda t, x: f"((bool){name}({x}))" if t.kind == "f" else integers


# Rows with more to say


def _neg(t: DType, x: str) -> str:
    return f"(-{x})" if t.kind == "f" else SCALAR["sub"](t, f"(({register_type(t)})0)", x)


def _abs(t: DType, x: str) -> str:
    if t.kind == "f":
        return f"{'fabsf' if t == FLOAT else 'fabs'}({x})"
    return f"({x} < 0 ? {_neg(t, x)} : {x})" if t.kind == "i" else x


def _signbit(t: DType, x: str) -> str:
    if t.kind == "f":
        return f"((bool)signbit({x}))"
    return f"({x} < 0)" if t.kind == "i" else "false"


def _extreme(name: str, booleans: str) -> OperationWriter:
    def row(t: DType, x: str, y: str) -> str:
        return f"({x} {booleans} {y})" if t.kind == "b" else f"fw_{name}({x}, {y})"

    return row


def _fmod(t: DType, x: str, y: str) -> str:
    return f"fw_rest({x}, {y})" if t.kind != "f" else of_float("fmod")(t, x, y)


def _pow(t: DType, x: str, y: str) -> str:
    return of_float("pow")(t, x, y) if t.kind == "f" else f"fw_integer_pow({x}, {y})"


def _not(t: DType, x: str) -> str:
    return f"(!{x})" if t.kind == "b" else f"(({register_type(t)})~{x})"


def _bits(t: DType, x: str) -> str:
    name = "__float_as_uint" if t == FLOAT else "(unsigned long long)__double_as_longlong"
    return f"({name}({x}))"


SCALAR: dict[str, OperationWriter] = {
    "add": infix("+", "|"), "sub": infix("-", "^"), "mul": infix("*", "&"),
    "div": lambda t, x, y: f"({x} / {y})",
    "neg": _neg, "abs": _abs, "sign": function("fw_sign"),
    "floor_divide": function("fw_floor_divide"), "remainder": function("fw_remainder"),
    "fmod": _fmod, "pow": _pow,
    "idiv": lambda t, x, y: f"({x} / {y})", "imod": lambda t, x, y: f"({x} % {y})",
    "maximum": _extreme("maximum", "|"), "minimum": _extreme("minimum", "&"),
    **{name: of_float(name) for name in ("floor", "ceil", "trunc", "sqrt", "copysign",
                                         "nextafter", *TRANSCENDENTAL)},
    "round": of_float("rint"),
    "lt": compared("<"), "le": compared("<="), "gt": compared(">"), "ge": compared(">="),
    "eq": compared("=="), "ne": compared("!="),
    "isnan": classified("isnan", "false"), "isinf": classified("isinf", "false"),
    "isfinite": classified("isfinite", "true"), "signbit": _signbit,
    "and": bitwise("&"), "or": bitwise("|"), "xor": bitwise("^"), "not": _not,
    "shl": function("fw_shl"), "shr": function("fw_shr"),
    "mulhi": function("__umulhi"), "bits": _bits, "from_bits": function("__uint_as_float"),
    "pair": function("fw_pair"), "dot2": function("fw_dot2"),
    "pair16": lambda t, x, y: f"fw_pair16((unsigned){x}, (unsigned){y})",
    "dot16": function("fw_dot16"),
    "quad8": lambda t, *four: f"fw_quad8({', '.join(f'(unsigned){x}' for x in four)})",
    "dot8": function("fw_dot8"),
    "where": lambda t, c, x, y: f"({c} ? {x} : {y})", "cast": lambda t, x: x,
}  # fmt: skip
"""operation -> its C text; `apply` handles `where` and `cast`."""
