"""Declares the ops by which native code casts to and from dtypes that are only stored.

A code is the byte in which an element is stored. Casts of users are the op `cast`; a pass of the
compiler puts these ops in its place (`capture/passes/stored_dtypes.py`).
"""

from __future__ import annotations

import struct
from typing import Any

from ...arrays import dtypes
from ...arrays.dtypes import float32, int8, int32, uint8
from ...arrays.shapes import TensorType
from ...arrays.small_formats import FLOATS, INTEGER_BITS, FloatFormat
from ...core.op import Op, define

__all__: list[str] = []

_WHY = {"vjp": "codes are integers", "onnx": "an export casts, and needs no codes"}
_FRACTION_BITS, _BIAS = 23, 127  # of float32
_INFINITY, _SIZE = 0x7F800000, 0x7FFFFFFF
_NAN = 0x7FC00000
_HALF = 1 << 22  # half of the distance of two powers of 2, in codes of float32


def decoded_dtype(dtype: Any) -> Any:
    """The dtype of numbers decoded from a stored dtype; it holds all of them."""
    return {"f": float32, "i": int8, "u": uint8}[dtypes.kind(dtype)]


def encode(k: Any, x: Any, dtype: Any) -> Any:
    """The codes of numbers rounded to a stored dtype: to the nearest, and of two the even one."""
    if dtype in INTEGER_BITS:
        whole = k.cast(x, int32) if dtypes.kind(x.dtype) in "fb" else x
        return k.cast(whole & ((1 << INTEGER_BITS[dtype]) - 1), uint8)
    wide = k.cast(x, float32)
    code = _encode_float(k, wide, FLOATS[dtype]) if dtype in FLOATS else _encode_power(k, wide)
    return k.cast(code, uint8)


def _encode_float(k: Any, x: Any, form: FloatFormat) -> Any:
    bits = k.bits(x)
    size_bits = bits & _SIZE
    size, shift = k.from_bits(size_bits), _FRACTION_BITS - form.fraction
    last = (size_bits >> shift) & 1
    usual = ((size_bits + last + ((1 << (shift - 1)) - 1)) >> shift) \
        - ((_BIAS - form.bias) << form.fraction)
    raised = form.step * 2.0 ** _FRACTION_BITS  # floats from here on are `step` apart
    small = k.bits(size + raised) - struct.unpack("I", struct.pack("f", raised))[0]
    code = k.where(size < form.smallest_normal, small, usual)
    zero = bits & 0
    beyond = k.where(size_bits > _INFINITY, zero + form.nan, zero + form.beyond)
    code = k.where(code > form.largest, beyond, code)
    sign_bit = 1 << form.sign
    sign = (bits >> (31 - form.sign)) & sign_bit
    return code ^ sign if form.negative_zero else \
        k.where(code & (sign_bit - 1) == 0, code, code ^ sign)  # 0 and nan have no sign


def _encode_power(k: Any, x: Any) -> Any:
    """The codes of powers of 2 of float8_e8m0fnu, the exponents of float32; ties go up."""
    bits = k.bits(x)
    usual = (bits + _HALF) >> _FRACTION_BITS
    zero = bits & 0
    least = k.where(bits <= _HALF, zero, zero + 1)  # 2 ** -127; larger numbers go up
    code = k.where(bits < 1 << _FRACTION_BITS, least, usual)
    return k.where((bits == 0) | (bits >= _INFINITY), zero + 255, code)  # and negative ones


def decode(k: Any, code: Any, dtype: Any) -> Any:
    """The numbers of codes, exactly."""
    if dtype in INTEGER_BITS:
        count = INTEGER_BITS[dtype]
        number = k.cast(code & ((1 << count) - 1), decoded_dtype(dtype))
        sign = 1 << (count - 1)
        return (number ^ sign) - sign if dtypes.kind(dtype) == "i" else number
    wide = k.cast(code, dtypes.uint32)
    return _decode_float(k, wide, FLOATS[dtype]) if dtype in FLOATS else _decode_power(k, wide)


def _decode_float(k: Any, code: Any, form: FloatFormat) -> Any:
    size = code & ((1 << form.sign) - 1)
    usual = (size << (_FRACTION_BITS - form.fraction)) + ((_BIAS - form.bias) << _FRACTION_BITS)
    # Without a subnormal float32, which processors may flush to 0.
    small = k.bits(k.cast(size, float32) * form.step)
    bits = k.where(size < 1 << form.fraction, small, usual)
    if form.has_inf:
        bits = k.where(size > form.largest, bits | _INFINITY, bits)
    elif form.nan == form.largest + 1:
        bits = k.where(size > form.largest if form.negative_zero else code == form.nan,
                       (bits & 0) + _NAN, bits)
    return k.from_bits(bits | ((code >> form.sign) & 1) << 31)


def _decode_power(k: Any, code: Any) -> Any:
    bits = k.where(code == 0, (code & 0) + _HALF, code << _FRACTION_BITS)
    return k.from_bits(k.where(code == 255, (code & 0) + _NAN, bits))


encode_op = define(Op(
    "encode", "pointwise", lambda x, dtype: TensorType(x.shape, uint8), encode, encode, why=_WHY))
decode_op = define(Op(
    "decode", "pointwise", lambda x, dtype: TensorType(x.shape, decoded_dtype(dtype)), decode,
    decode, why=_WHY))
# The codes of a result that leaves a program; whoever allocates its memory uses `dtype`.
as_stored_op = define(Op(
    "as_stored", "pointwise", lambda x, dtype: x, lambda k, x, dtype: x.view(),
    lambda k, x, dtype: x, why=_WHY))
