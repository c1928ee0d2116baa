"""Spellings of functions of single elements, and of casts."""

from __future__ import annotations

TABLE = """
fmi absolute(input) = fw.abs(input)
fmi neg(input) = fw.negative(input) |> -x
mi negative(input)
m positive(input)
fmi add(input, other, *, alpha=1) = fw.add(input, scaled(other, alpha)) |> x + y
fmi sub(input, other, *, alpha=1) = fw.subtract(input, scaled(other, alpha)) |> x - y
fmi subtract(input, other, *, alpha=1) = fw.subtract(input, scaled(other, alpha)) |> x - y
f rsub(input, other, *, alpha=1) = fw.subtract(other, scaled(input, alpha))
fmi mul(input, other) = fw.multiply(input, other) |> x * y
fmi multiply(input, other) = fw.multiply(input, other) |> x * y
fmi div(input, other, *, rounding_mode=None) = divided(input, other, rounding_mode) |> x / y
fmi divide(input, other, *, rounding_mode=None) = divided(input, other, rounding_mode) |> x / y
fmi true_divide(input, other) = fw.divide(input, other) |> x / y
fmi floor_divide(input, other) = fw.floor_divide(input, other)
fmi remainder(input, other) = fw.remainder(input, other)
fmi fmod(input, other) = fw.fmod(input, other)
fmi pow(input, exponent) = fw.pow(input, exponent)
fmi float_power(input, exponent) = fw.float_power(input, exponent)
fmi eq(input, other) = fw.equal(input, other) |> x == y
fmi ne(input, other) = fw.not_equal(input, other) |> x != y
fmi not_equal(input, other) = fw.not_equal(input, other)
fmi lt(input, other) = fw.less(input, other) |> x < y
fmi less(input, other) = fw.less(input, other) |> x < y
fmi le(input, other) = fw.less_equal(input, other) |> x <= y
fmi less_equal(input, other) = fw.less_equal(input, other)
fmi gt(input, other) = fw.greater(input, other) |> x > y
fmi greater(input, other) = fw.greater(input, other) |> x > y
fmi ge(input, other) = fw.greater_equal(input, other) |> x >= y
fmi greater_equal(input, other) = fw.greater_equal(input, other)
fm equal(input, other) = all_equal(input, other) | one bool for all elements |> fw.all(x == y)
fm allclose(input, other, rtol=1e-05, atol=1e-08, equal_nan=False)
    = bool(fw.allclose(input, other, rtol, atol, equal_nan))
    | a bool of Python
fm isclose(input, other, rtol=1e-05, atol=1e-08, equal_nan=False)
    = fw.isclose(input, other, rtol, atol, equal_nan)
fmi bitwise_not(input) = fw.bitwise_invert(input)
mi bitwise_and(input, other)
mi bitwise_or(input, other)
mi bitwise_xor(input, other)
mi bitwise_left_shift(input, other)
mi bitwise_right_shift(input, other)
mi logical_and(input, other)
mi logical_or(input, other)
mi logical_xor(input, other)
mi logical_not(input)
mi atan2(input, other)
fmi arctan2(input, other) = fw.atan2(input, other)
mi copysign(input, other)
mi hypot(input, other)
m logaddexp(input, other)
mi nextafter(input, other)
m signbit(input)
fmi sgn(input) = fw.sign(input)
fmi fix(input) = fw.trunc(input)
fmi clamp(input, min=None, max=None) = clipped(input, min, max) |> x.clip
fmi clip(input, min=None, max=None) = clipped(input, min, max)
fmi clamp_min(input, min) = clipped(input, min, None) |> x.maximum
fmi clamp_max(input, max) = clipped(input, None, max) |> x.minimum
fmi arccos(input) = fw.acos(input)
fmi arccosh(input) = fw.acosh(input)
fmi arcsin(input) = fw.asin(input)
fmi arcsinh(input) = fw.asinh(input)
fmi arctan(input) = fw.atan(input)
fmi arctanh(input) = fw.atanh(input)
fm conj_physical(input) = fw.conj(input)
fm resolve_conj(input) = same(input) | conj computes at once |> x  # conj computes at once
fm resolve_neg(input) = same(input) | negative computes at once |> x  # -x computes at once
fmi polygamma(n, input) = fw.polygamma(n, input) | the method takes n alone
fmi mvlgamma(input, p) = fw.special.multigammaln(input, p)
fm igamma(input, other) = fw.special.gammainc(input, other)
fm igammac(input, other) = fw.special.gammaincc(input, other)
m i0(input)
f where(condition, input=None, other=None) = selected(condition, input, other)
m where(input, condition, other) = fw.where(condition, input, other)
fmi lerp(input, end, weight) = fw.lerp(input, end, weight)
fmi addcmul(input, tensor1, tensor2, *, value=1) = fw.addcmul(input, tensor1, tensor2, value=value)
fmi addcdiv(input, tensor1, tensor2, *, value=1) = fw.addcdiv(input, tensor1, tensor2, value=value)
fmi round(input, *, decimals=0) = rounded(input, decimals)
fm relu(input) = fw.relu(input)
m float(input) = fw.astype(input, fw.float32) |> x.astype(fw.float32)
m double(input) = fw.astype(input, fw.float64) |> x.astype(fw.float64)
m half(input) = fw.astype(input, fw.float16) |> x.astype(fw.float16)
m bfloat16(input) = fw.astype(input, fw.bfloat16) |> x.astype(fw.bfloat16)
m int(input) = fw.astype(input, fw.int32) |> x.astype(fw.int32)
m long(input) = fw.astype(input, fw.int64) |> x.astype(fw.int64)
m short(input) = fw.astype(input, fw.int16) |> x.astype(fw.int16)
m char(input) = fw.astype(input, fw.int8) |> x.astype(fw.int8)
m byte(input) = fw.astype(input, fw.uint8) |> x.astype(fw.uint8)
m bool(input) = fw.astype(input, fw.bool) |> x.astype(fw.bool)
m cfloat(input) = fw.astype(input, fw.complex64)
m cdouble(input) = fw.astype(input, fw.complex128)
m type_as(input, other) = fw.astype(input, other.dtype) |> x.astype(y.dtype)
m type(input, dtype=None)
    = typed(input, dtype)
    | without an argument the name of its type
    |> x.astype
fm is_floating_point(input)
    = fw.isdtype(input.dtype, "real floating")
    |> fw.isdtype(x.dtype, "real floating")
fm is_complex(input) = fw.isdtype(input.dtype, "complex floating")
fm is_signed(input) = not fw.isdtype(input.dtype, ("unsigned integer", "bool"))
fm is_nonzero(input) = bool(input)
f is_tensor(input) = isinstance(input, Tensor) |> isinstance(x, fw.Tensor)
f isin(elements, test_elements, *, assume_unique=False, invert=False)
    = fw.isin(elements, test_elements, invert=invert)
"""
