"""Defines the dtypes: NumPy's dtype objects under the Array API's names, and their promotion.

Numbers of at most 8 bits beside int8, uint8 and bool have *stored* dtypes: tensors hold them, one
byte an element, move, cast and compare them, and do not compute with them.
"""

from __future__ import annotations

import builtins
from functools import cache
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

from ..errors import DTypeError

__all__ = [
    "bfloat16",
    "bool",
    "can_cast",
    "complex64",
    "complex128",
    "finfo",
    "float4_e2m1fn",
    "float8_e4m3fn",
    "float8_e4m3fnuz",
    "float8_e5m2",
    "float8_e5m2fnuz",
    "float8_e8m0fnu",
    "float16",
    "float32",
    "float64",
    "iinfo",
    "int2",
    "int4",
    "int8",
    "int16",
    "int32",
    "int64",
    "isdtype",
    "result_type",
    "uint2",
    "uint4",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
]

DType = np.dtype[Any]

SCALARS = (bool, int, float, complex)  # Python's numbers; each type holds those before it

bool = np.dtype("bool")
int8, int16, int32, int64 = (np.dtype(f"int{n}") for n in (8, 16, 32, 64))
uint8, uint16, uint32, uint64 = (np.dtype(f"uint{n}") for n in (8, 16, 32, 64))
float16, float32, float64 = (np.dtype(f"float{n}") for n in (16, 32, 64))
bfloat16 = np.dtype(ml_dtypes.bfloat16)
complex64, complex128 = np.dtype("complex64"), np.dtype("complex128")
float8_e4m3fn, float8_e5m2, float8_e4m3fnuz, float8_e5m2fnuz, float8_e8m0fnu = (
    np.dtype(getattr(ml_dtypes, f"float8_{name}"))
    for name in ("e4m3fn", "e5m2", "e4m3fnuz", "e5m2fnuz", "e8m0fnu"))
float4_e2m1fn = np.dtype(ml_dtypes.float4_e2m1fn)
int4, uint4, int2, uint2 = (
    np.dtype(t) for t in (ml_dtypes.int4, ml_dtypes.uint4, ml_dtypes.int2, ml_dtypes.uint2))

COMPUTED = (bool, int8, int16, int32, int64, uint8, uint16, uint32, uint64,
            bfloat16, float16, float32, float64, complex64, complex128)
# Dtypes that are only stored, with their kinds. NumPy calls one of them "f", the others void.
STORED = {**dict.fromkeys((float8_e4m3fn, float8_e5m2, float8_e4m3fnuz, float8_e5m2fnuz,
                           float8_e8m0fnu, float4_e2m1fn), "f"),
          int4: "i", uint4: "u", int2: "i", uint2: "u"}
STORED_NUMBERS = frozenset(d.num for d in STORED)  # to test a dtype quickly
DTYPES = {d.name: d for d in (*COMPUTED, *STORED)}
OWN = {d: d for d in DTYPES.values()}  # NumPy has several objects for one dtype
DEFAULT_FLOAT, DEFAULT_INT = float32, int64
_KIND = {bfloat16: "f", **STORED}
_RANK = {"b": 0, "u": 1, "i": 1, "f": 2, "c": 3}
_OF_RANK = {0: bool, 1: DEFAULT_INT, 2: DEFAULT_FLOAT, 3: complex64}


def as_dtype(dtype: Any) -> DType:
    """The dtype meant by a dtype object, NumPy type, Python type or name; float means float32."""
    if dtype is float:
        return DEFAULT_FLOAT
    if dtype is complex:
        return complex64
    try:
        own = DTYPES.get(dtype) if isinstance(dtype, str) else None
        own = own or OWN.get(np.dtype(dtype))
    except TypeError:
        own = None
    if own is None:
        names = ", ".join(DTYPES)
        raise DTypeError(f"{dtype!r} is not a dtype of fusewire", f"the dtypes are {names}")
    return own


def is_dtype_name(name: str) -> Any:
    """True if `name` is a name of a dtype, fusewire's or NumPy's."""
    try:
        return np.dtype(name) in OWN
    except TypeError:
        return name in DTYPES


def kind(dtype: Any) -> str:
    """One of "biufc", as NumPy's `dtype.kind`, which knows no dtype of ml_dtypes."""
    return _KIND.get(dtype) or dtype.kind  # type: ignore[no-any-return]


def characters(kinds: str) -> str:
    """The `dtype.char` of each dtype of these kinds that NumPy itself computes with."""
    return "".join([d.char for d in COMPUTED if d != bfloat16 and d.kind in kinds])


def is_stored(dtype: Any) -> builtins.bool:
    """True for a dtype that is only stored: float8, and numbers of 4 and 2 bits."""
    return dtype.num in STORED_NUMBERS


def require_computed(name: str, dtype: DType) -> DType:
    """The dtype itself; DTypeError if it is only stored."""
    if is_stored(dtype):
        raise only_stored(name, dtype)
    return dtype


def require_in_range(dtype: DType, values: Any) -> None:
    """Raises OverflowError for whole numbers beyond a stored integer dtype, which would wrap."""
    if is_stored(dtype) and kind(dtype) in "iu" and np.size(values):
        limits, low, high = iinfo(dtype), np.min(values), np.max(values)
        if low < limits.min or high > limits.max:
            raise OverflowError(f"Python integer {low if low < limits.min else high} out of bounds "
                                f"for {dtype.name}")


def only_stored(name: str, dtype: DType) -> DTypeError:
    """The error for an op that does not take a stored dtype."""
    wide = "float32" if kind(dtype) == "f" else "int32"
    return DTypeError(f"{name and f'{name}: '}{dtype.name} is only stored, not computed with",
                      f"cast first: x.astype(fw.{wide})")


def is_float(dtype: DType) -> Any:
    """True for floating point numbers, real or complex."""
    return kind(dtype) in "fc"


def is_small(dtype: DType) -> Any:
    """True for floats of 16 bits, for which sums and some formulas use float32."""
    return dtype in (float16, bfloat16)


def summed_in(dtype: DType) -> DType:
    """The dtype in which elements of this one are summed: float32 for smaller floats."""
    return float32 if is_small(dtype) else dtype


def added_in(dtype: DType) -> DType:
    """The dtype in which many terms of this one are added in sequence."""
    if dtype.kind == "c":
        return complex128
    return float64 if kind(dtype) == "f" else dtype


def real_of(dtype: DType) -> DType:
    """The dtype of the parts of complex numbers; any other dtype itself."""
    return {complex64: float32, complex128: float64}.get(dtype, dtype)


def complex_of(dtype: DType) -> DType:
    """The dtype of complex numbers whose parts are of this dtype, or a wider one."""
    return complex128 if dtype in (float64, complex128) else complex64


@cache
def promote(a: DType, b: DType) -> DType:
    """The dtype to which `a` and `b` promote.

    Within a kind it is that of the Array API. Between kinds, which the standard leaves open, it is
    the dtype of the higher kind, as in PyTorch: int64 with float32 is float32. DTypeError for
    unsigned 64 bits with a signed integer, which have no common integer dtype, and for a dtype that
    is only stored with another one.
    """
    if a == b:
        return a
    if is_stored(a) or is_stored(b):
        raise DTypeError(f"{a.name} and {b.name} have no common dtype: "
                         f"{(a if is_stored(a) else b).name} is only stored",
                         "cast it first: x.astype(fw.float32)")
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
    """The dtype to which a tensor of `dtype` and a Python scalar promote.

    It is `dtype`, unless the scalar is of a higher kind.
    """
    rank = _rank(scalar)
    if rank <= _RANK[kind(dtype)]:
        return dtype
    if is_stored(dtype):
        raise DTypeError(f"{dtype.name} and {scalar!r} have no common dtype: {dtype.name} is only "
                         "stored", "cast the tensor first: x.astype(fw.float32)")
    if rank == 3:
        return complex128 if dtype == float64 else complex64
    return _OF_RANK[rank]


def holds(dtype: DType, other: DType) -> Any:
    """True if `other` is of the kind of `dtype` or a lower one, as integers for floats."""
    return _RANK[kind(other)] <= _RANK[kind(dtype)]


def of_scalar(scalar: Any) -> DType:
    """The default dtype of a Python scalar: bool, int64, float32 or complex64."""
    return _OF_RANK[_rank(scalar)]


def _rank(scalar: Any) -> int:
    for rank, kind in enumerate(SCALARS):
        if isinstance(scalar, kind):
            return rank
    raise DTypeError(f"{scalar!r:.80} is not a number", "numbers are bool, int, float and complex")


# ---- the functions of the Array API
_KINDS = {"bool": "b", "signed integer": "i", "unsigned integer": "u", "integral": "iu",
          "real floating": "f", "complex floating": "c", "numeric": "iufc"}


def isdtype(dtype: Any, kind: Any) -> builtins.bool:
    """True if `dtype` is of a kind.

    Args:
        dtype: dtype, or its name.
        kind: a dtype; "bool", "signed integer", "unsigned integer", "integral", "real floating"
            (float16 and bfloat16 too), "complex floating" or "numeric"; or a tuple of these.

    Raises:
        DTypeError: `dtype` is not a dtype, or `kind` not a kind.

    Example:
        >>> import fusewire as fw
        >>> fw.isdtype(fw.int8, "signed integer"), fw.isdtype(fw.int8, (fw.int64, "bool"))
        (True, False)
    """
    if isinstance(kind, tuple):
        return any([isdtype(dtype, k) for k in kind])
    if isinstance(kind, str) and kind not in DTYPES:
        if kind not in _KINDS:
            raise DTypeError(f"isdtype: {kind!r} is not a kind of dtypes",
                             f"the kinds are {', '.join(_KINDS)}")
        return _kind_of(dtype) in _KINDS[kind]
    return as_dtype(dtype) == as_dtype(kind)


def _kind_of(dtype: Any) -> str:
    return kind(as_dtype(dtype))


def dtype_of(x: Any) -> DType:
    """The dtype of a tensor or an array; for anything else, `x` as a dtype."""
    own = getattr(x, "dtype", None)
    return as_dtype(own if isinstance(own, np.dtype) else x)


def result_type(*arrays_and_dtypes: Any) -> DType:
    """The dtype to which tensors, dtypes and Python's numbers promote.

    Args:
        arrays_and_dtypes: tensors, dtypes and numbers, at least one of them not a number.

    Raises:
        DTypeError: there are numbers only, or the dtypes have no common dtype.

    Example:
        >>> import fusewire as fw
        >>> fw.result_type(fw.int8, fw.uint8), fw.result_type(fw.ones(2, dtype=fw.float16), 1.5)
        (dtype('int16'), dtype('float16'))
    """
    numbers = [x for x in arrays_and_dtypes if isinstance(x, SCALARS)]
    dtypes = [dtype_of(x) for x in arrays_and_dtypes if not isinstance(x, SCALARS)]
    if not dtypes:
        raise DTypeError("result_type: needs a tensor or a dtype", "numbers alone have no dtype")
    common = dtypes[0]
    for dtype in dtypes[1:]:
        common = promote(common, dtype)
    for number in numbers:
        common = promote_scalar(common, number)
    return common


def can_cast(from_: Any, to: Any, /) -> builtins.bool:
    """True if a dtype promotes to `to` beside it.

    Args:
        from_: dtype or tensor.
        to: dtype.

    Example:
        >>> import fusewire as fw
        >>> fw.can_cast(fw.int8, fw.int16), fw.can_cast(fw.float64, fw.float32)
        (True, False)
    """
    source, target = dtype_of(from_), as_dtype(to)
    try:
        return promote(source, target) == target
    except DTypeError:
        return False


class FloatLimits(NamedTuple):
    """The limits of a floating point dtype; `eps` is the step from 1.0 to the next number."""

    bits: int
    eps: float
    max: float
    min: float
    smallest_normal: float
    dtype: DType


class IntegerLimits(NamedTuple):
    """The limits of an integer dtype."""

    bits: int
    max: int
    min: int
    dtype: DType


def finfo(type: Any, /) -> FloatLimits:
    """The limits of a floating point dtype: bits, eps, max, min, smallest_normal and dtype.

    Args:
        type: dtype or tensor; of a complex one, the limits of its parts.

    Raises:
        DTypeError: the dtype is not floating point.

    Example:
        >>> import fusewire as fw
        >>> fw.finfo(fw.float32).eps == 2**-23, fw.finfo(fw.bfloat16).bits
        (True, 16)
    """
    dtype = real_of(dtype_of(type))
    if kind(dtype) != "f":
        raise DTypeError(f"finfo: {dtype.name} is not a floating point dtype", "use fw.iinfo")
    limits: Any = ml_dtypes.finfo(dtype)
    return FloatLimits(int(limits.bits), float(limits.eps), float(limits.max), float(limits.min),
                       float(limits.smallest_normal), dtype)


def iinfo(type: Any, /) -> IntegerLimits:
    """The limits of an integer dtype: bits, max, min and dtype.

    Args:
        type: dtype or tensor.

    Raises:
        DTypeError: the dtype is not an integer dtype.

    Example:
        >>> import fusewire as fw
        >>> fw.iinfo(fw.uint8).max
        255
    """
    dtype = dtype_of(type)
    if kind(dtype) not in "iu":
        raise DTypeError(f"iinfo: {dtype.name} is not an integer dtype", "use fw.finfo")
    limits: Any = ml_dtypes.iinfo(dtype) if is_stored(dtype) else np.iinfo(dtype)
    return IntegerLimits(int(limits.bits), int(limits.max), int(limits.min), dtype)
