"""The scalar operations of the loop IR as C expressions, one row of a table each.

A row is called with the dtype of the operands and with their texts, each a name, a literal or an
expression in parentheses. `fusewire/codegen/ir/scalar_ops.py` defines what an operation gives.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from fusewire.codegen.ir.scalar_ops import TRANSCENDENTAL, compute_dtype, result_dtype
from fusewire.eager.arrays.dtypes import float16, is_small, summed_in

DType = np.dtype[Any]
Row = Callable[..., str]
C_TYPES = {"bool": "bool", "float32": "float", "float64": "double"}
BOOL, DOUBLE, FLOAT = np.dtype(bool), np.dtype("float64"), np.dtype("float32")


def register_type(dtype: DType) -> str:
    """The C type of a value; 16-bit floats are held as float."""
    name = summed_in(dtype).name
    return C_TYPES.get(name, f"{name}_t")


def memory_type(dtype: DType) -> str:
    """The C type of an element in memory; 16-bit floats are their bits."""
    return "uint16_t" if is_small(dtype) else register_type(dtype)


def small(dtype: DType) -> str:
    """The name of a 16-bit float in functions of the prelude."""
    return "f16" if dtype == float16 else "bf16"


def literal(value: Any, dtype: DType) -> str:
    """A constant, exact to the bit."""
    dtype = summed_in(dtype)
    if dtype.kind == "b":
        return "true" if value else "false"
    if dtype.kind == "f":
        if math.isfinite(value):
            return f"({float(value).hex()}{'f' if dtype == FLOAT else ''})"
        word = np.array(value, dtype).view(f"u{dtype.itemsize}").item()
        return f"of_bits_f{8 * dtype.itemsize}({word:#x}u{'ll' if dtype == DOUBLE else ''})"
    text = f"({value + 1}LL - 1)" if value == -(1 << 63) else \
        f"{value}{'ULL' if dtype.kind == 'u' else 'LL'}"
    return f"(({register_type(dtype)}){text})"


def apply(op: str, args: list[str], dtypes: list[DType], result: DType) -> str:
    """The text of an operation, converted to the dtype `result`."""
    if op == "cast":
        return convert(args[0], dtypes[0], result)
    if op == "where":
        yes, no = (convert(a, t, result) for a, t in zip(args[1:], dtypes[1:]))
        return f"({convert(args[0], dtypes[0], BOOL)} ? {yes} : {no})"
    computed = compute_dtype(op, dtypes)
    operands = [convert(a, t, computed) for a, t in zip(args, dtypes)]
    if op == "nextafter" and is_small(computed):
        return convert(f"next_{small(computed)}({', '.join(operands)})", computed, result)
    text = SCALAR[op](summed_in(computed), *operands)
    return convert(text, result_dtype(op, computed), result)


def convert(text: str, source: DType, to: DType) -> str:
    """A value of one dtype as another; the 16-bit floats are rounded."""
    if source == to:
        return text
    if is_small(to):
        return f"round_{small(to)}({text})"
    if to.kind == "b":
        return f"({text} != 0)"
    if source.kind == "f" and to.kind in "iu" and to.itemsize < 4:  # NumPy goes by int
        return f"(({register_type(to)})(int32_t){text})"
    return text if summed_in(source) == to else f"(({register_type(to)}){text})"


def infix(sign: str, booleans: str = "") -> Row:
    """A row of an operator; the compiler wraps integers (`-fwrapv`)."""
    return lambda t, x, y: \
        f"(({register_type(t)})({x} {booleans or sign if t.kind == 'b' else sign} {y}))"


def compared(sign: str) -> Row:
    """A row of a comparison."""
    return lambda t, x, y: f"({x} {sign} {y})"


def of_floats(name: str) -> Row:
    """A row of a function of the C library; integers are unchanged."""
    return lambda t, *xs: xs[0] if t.kind != "f" else \
        f"{name}{'f' if t == FLOAT else ''}({', '.join(xs)})"


def by_dtype(name: str, booleans: str = "") -> Row:
    """A row of a function of the prelude, of which there is one for each dtype."""
    return lambda t, *xs: f"({f' {booleans} '.join(xs)})" if t.kind == "b" else \
        f"{name}_{t.name}({', '.join(xs)})"


def function(name: str) -> Row:
    """A row of a function of the prelude."""
    return lambda t, *xs: f"{name}({', '.join(xs)})"


def classified(name: str, integers: str) -> Row:
    """A row of a predicate of floats."""
    return lambda t, x: f"({name}({x}) != 0)" if t.kind == "f" else integers


def _abs(t: DType, x: str) -> str:
    if t.kind == "f":
        return of_floats("fabs")(t, x)
    return f"(({register_type(t)})({x} < 0 ? -{x} : {x}))" if t.kind == "i" else x


def _not(t: DType, x: str) -> str:
    return f"(!{x})" if t.kind == "b" else f"(({register_type(t)})~{x})"


def _signbit(t: DType, x: str) -> str:
    return f"(signbit({x}) != 0)" if t.kind == "f" else f"({x} < 0)"


SCALAR: dict[str, Row] = {
    "add": infix("+", "|"), "sub": infix("-", "^"), "mul": infix("*", "&"), "div": infix("/"),
    "neg": lambda t, x: f"(({register_type(t)})(-{x}))", "abs": _abs, "sign": by_dtype("sign"),
    "idiv": infix("/"), "imod": infix("%"), "pow": by_dtype("pow"), "fmod": by_dtype("fmod"),
    "floor_divide": by_dtype("floor_divide"), "remainder": by_dtype("remainder"),
    "maximum": by_dtype("maximum", "|"), "minimum": by_dtype("minimum", "&"),
    **{name: of_floats(name) for name in ("floor", "ceil", "trunc", "sqrt", "copysign",
                                          "nextafter", *TRANSCENDENTAL)},
    "round": of_floats("rint"),
    "lt": compared("<"), "le": compared("<="), "gt": compared(">"), "ge": compared(">="),
    "eq": compared("=="), "ne": compared("!="), "signbit": _signbit,
    "isnan": classified("isnan", "false"), "isinf": classified("isinf", "false"),
    "isfinite": classified("isfinite", "true"),
    "and": infix("&"), "or": infix("|"), "xor": infix("^"), "not": _not,
    "shl": by_dtype("shl"), "shr": by_dtype("shr"), "mulhi": function("mulhi"),
    "bits": lambda t, x: f"bits_f{8 * t.itemsize}({x})",
    "pair": function("pair"), "dot2": function("dot2"),
}  # fmt: skip
