"""The C types of dtypes: in registers, in memory, and as literals."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...eager.arrays.dtypes import float16, is_small, summed_in

DType = np.dtype[Any]
FLOAT, DOUBLE = np.dtype("float32"), np.dtype("float64")
C_TYPES = {
    "bool": "bool", "int8": "signed char", "int16": "short", "int32": "int", "int64": "long long",
    "uint8": "unsigned char", "uint16": "unsigned short", "uint32": "unsigned",
    "uint64": "unsigned long long", "float32": "float", "float64": "double",
}  # fmt: skip


def register_type(dtype: DType) -> str:
    """The C type of a value in a register; 16-bit floats are held as float32."""
    return C_TYPES[summed_in(dtype).name]


def memory_type(dtype: DType) -> str:
    """The C type of an element in memory; 16-bit floats are stored as their bits."""
    return "unsigned short" if is_small(dtype) else C_TYPES[dtype.name]


def short_name(dtype: DType) -> str:
    """A name for functions of this dtype: f32, bf16, i64, bool."""
    if dtype.kind == "b":
        return "bool"
    letters = "bf" if is_small(dtype) and dtype != float16 else dtype.kind
    return f"{letters}{8 * dtype.itemsize}"


def small_float_name(dtype: DType) -> str:
    """f16 or bf16, as in the names of the prelude's functions."""
    return "f16" if dtype == float16 else "bf16"


def literal(value: Any, dtype: DType) -> str:
    """A constant of a dtype as C text, exact to the bit."""
    dtype = summed_in(dtype)
    if dtype.kind == "b":
        return "true" if value else "false"
    if dtype.kind == "f":
        return _float(float(value), dtype)
    if dtype == np.dtype("int64"):
        is_minimum = value == -(1 << 63)  # its digits alone overflow the type
        return "(-9223372036854775807LL - 1)" if is_minimum else f"{value}LL"
    if dtype == np.dtype("int32") and value == -(1 << 31):
        return "(-2147483647 - 1)"
    suffix = {"uint32": "u", "uint64": "ULL"}.get(dtype.name, "")
    return f"{value}{suffix}" if dtype.itemsize >= 4 else f"({register_type(dtype)}){value}"


def _float(value: float, dtype: DType) -> str:
    single = dtype == FLOAT
    if math.isfinite(value):
        digits = repr(float(value)) if not single else str(np.float32(value))
        return f"{digits}f" if single else digits
    bits = np.array(value, dtype).view(f"u{dtype.itemsize}").item()
    if single:
        return f"__uint_as_float(0x{bits:08x}u)"
    return f"__longlong_as_double(0x{bits:016x}LL)"
