"""Data types: NumPy's dtype objects under the Array API's names, and how they combine."""

from __future__ import annotations

from functools import cache
from typing import Any

import ml_dtypes
import numpy as np

from .errors import DTypeError

__all__ = [
    "bfloat16",
    "bool",
    "complex64",
    "complex128",
    "float16",
    "float32",
    "float64",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
]

DType = np.dtype[Any]

SCALARS = (bool, int, float, complex)  # Python's numbers, each holding those before it

bool = np.dtype("bool")
int8, int16, int32, int64 = (np.dtype(f"int{n}") for n in (8, 16, 32, 64))
uint8, uint16, uint32, uint64 = (np.dtype(f"uint{n}") for n in (8, 16, 32, 64))
float16, float32, float64 = (np.dtype(f"float{n}") for n in (16, 32, 64))
bfloat16 = np.dtype(ml_dtypes.bfloat16)
complex64, complex128 = np.dtype("complex64"), np.dtype("complex128")

DTYPES = {
    d.name: d
    for d in (bool, int8, int16, int32, int64, uint8, uint16, uint32, uint64)
    + (bfloat16, float16, float32, float64, complex64, complex128)
}
DEFAULT_FLOAT, DEFAULT_INT = float32, int64
_RANK = {"b": 0, "u": 1, "i": 1, "f": 2, "c": 3}
_OF_RANK = {0: bool, 1: DEFAULT_INT, 2: DEFAULT_FLOAT, 3: complex64}


def as_dtype(dtype: Any) -> DType:
    """The dtype meant by a dtype object, NumPy type, Python type or name; float means float32."""
    if dtype is float:
        return DEFAULT_FLOAT
    if dtype is complex:
        return complex64
    try:
        found = np.dtype(dtype)
    except TypeError:
        found = None
    if found is None or DTYPES.get(found.name) != found:
        names = ", ".join(DTYPES)
        raise DTypeError(f"{dtype!r} is not a dtype of fusewire", f"the dtypes are {names}")
    return found


def kind(dtype: Any) -> str:
    """One of "biufc", as NumPy's `dtype.kind`; "f" for bfloat16 too, which NumPy calls void."""
    return "f" if dtype == bfloat16 else dtype.kind  # type: ignore[no-any-return]


def is_float(dtype: DType) -> Any:
    """Whether values of this dtype are floating point numbers, real or complex."""
    return kind(dtype) in "fc"


def real_of(dtype: DType) -> DType:
    """The dtype of the real and imaginary parts of complex numbers; any other dtype itself."""
    return {complex64: float32, complex128: float64}.get(dtype, dtype)


@cache
def promote(a: DType, b: DType) -> DType:
    """The dtype that `a` and `b` combine to.

    Inside a kind as the Array API has it. Between kinds, which the standard leaves open, the dtype
    of the higher kind, as in PyTorch: int64 with float32 is float32. Unsigned 64 bits with a signed
    integer have no common integer dtype and raise DTypeError.
    """
    if a == b:
        return a
    ra, rb = _RANK[kind(a)], _RANK[kind(b)]
    if {a, b} == {float16, bfloat16}:
        return float32  # the smallest that holds both
    if {ra, rb} == {2, 3}:
        return complex64 if bfloat16 in (a, b) else np.promote_types(a, b)
    if ra != rb:
        return a if ra > rb else b
    common = np.promote_types(a, b)
    if _RANK[kind(common)] != ra:
        raise DTypeError(
            f"{a.name} and {b.name} have no common integer dtype",
            "cast one of them first: x.astype(fw.int64)",
        )
    return common


def promote_scalar(dtype: DType, scalar: Any) -> DType:
    """The dtype of a tensor of `dtype` combined with a Python scalar, which adapts where it can."""
    rank = _rank(scalar)
    if rank <= _RANK[kind(dtype)]:
        return dtype
    if rank == 3:
        return complex128 if dtype == float64 else complex64
    return _OF_RANK[rank]


def holds(dtype: DType, other: DType) -> Any:
    """Whether values of `other` are of the kind of `dtype` or a lower one: integers in floats."""
    return _RANK[kind(other)] <= _RANK[kind(dtype)]


def of_scalar(scalar: Any) -> DType:
    """The default dtype of a Python scalar: bool, int64, float32 or complex64."""
    return _OF_RANK[_rank(scalar)]


def _rank(scalar: Any) -> int:
    for rank, kind in enumerate(SCALARS):
        if isinstance(scalar, kind):
            return rank
    raise DTypeError(f"{scalar!r:.80} is not a number", "bool, int, float and complex are")
