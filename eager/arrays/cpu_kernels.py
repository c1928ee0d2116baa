"""Provides NumPy under the names that formulas use: the `k` and `xp` of ops on the CPU.

Functions that NumPy lacks, or computes otherwise than formulas need, are here too.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy import (  # noqa: F401
    abs,
    acos,
    acosh,
    angle,
    arange,
    asarray,
    asin,
    asinh,
    atan,
    atan2,
    atanh,
    ceil,
    conj,
    copysign,
    cos,
    cosh,
    empty,
    exp,
    exp2,
    floor,
    floor_divide,
    fmod,
    full,
    hypot,
    isfinite,
    isinf,
    isnan,
    log,
    log1p,
    log2,
    log10,
    logaddexp,
    maximum,
    minimum,
    nextafter,
    pow,
    remainder,
    sign,
    signbit,
    sin,
    sinh,
    sqrt,
    tan,
    trunc,
    where,
    zeros,
)
from numpy import rint as round  # noqa: F401

from .dtypes import complex_of, is_stored, summed_in

# Coefficients of W. J. Cody, "Rational Chebyshev approximations for the error function" (1969).
_ERF_P = (1.85777706184603153e-1, 3.16112374387056560e0, 1.13864154151050156e2,
          3.77485237685302021e2, 3.20937758913846947e3)
_ERF_Q = (1.0, 2.36012909523441209e1, 2.44024637934444173e2, 1.28261652607737228e3,
          2.84423683343917062e3)
ERFC_P = (2.15311535474403846e-8, 5.64188496988670089e-1, 8.88314979438837594e0,
          6.61191906371416295e1, 2.98635138197400131e2, 8.81952221241769090e2,
          1.71204761263407058e3, 2.05107837782607147e3, 1.23033935479799725e3)
ERFC_Q = (1.0, 1.57449261107098347e1, 1.17693950891312499e2, 5.37181101862009858e2,
          1.62138957456669019e3, 3.29079923573345963e3, 4.36261909014324716e3,
          3.43936767414372164e3, 1.23033935480374942e3)
TAIL_P = (1.63153871373020978e-2, 3.05326634961232344e-1, 3.60344899949804439e-1,
          1.25781726111229246e-1, 1.60837851487422766e-2, 6.58749161529837803e-4)
TAIL_Q = (1.0, 2.56852019228982242e0, 1.87295284992346047e0, 5.27905102951428412e-1,
          6.05183413124413191e-2, 2.33520497626869185e-3)


def erf(x: Any) -> Any:
    """The error function with a relative error of 1e-15; of float32, 3e-7."""
    if getattr(x, "dtype", None) == np.float32:
        return _erf_float32(x)
    wide = np.asarray(x, dtype=np.float64)
    t = np.abs(wide)
    square = wide * wide
    with np.errstate(all="ignore"):
        small = wide * _polynomial(_ERF_P, square) / _polynomial(_ERF_Q, square)
        decay = np.exp(-square)
        middle = 1.0 - decay * _polynomial(ERFC_P, t) / _polynomial(ERFC_Q, t)
        inverse = 1.0 / square
        tail = inverse * _polynomial(TAIL_P, inverse) / _polynomial(TAIL_Q, inverse)
        large = 1.0 - decay * (0.5641895835477563 - tail) / t
    big = np.copysign(np.where(t < 4.0, middle, np.where(t > 6.0, 1.0, large)), wide)
    return np.where(t <= 0.46875, small, np.where(np.isnan(wide), wide, big)).astype(_float(x))


def _erf_float32(x: Any) -> Any:
    """`erf` of float32, four times as fast: from 4 on it is 1, so that it needs no tail."""
    t = np.minimum(np.abs(x), np.float32(4))
    square = t * t
    small = x * _polynomial(_ERF_P, square) / _polynomial(_ERF_Q, square)
    middle = 1 - np.exp(-square) * _polynomial(ERFC_P, t) / _polynomial(ERFC_Q, t)
    return np.where(t <= 0.46875, small, np.copysign(middle, x))


def _polynomial(coefficients: tuple[float, ...], x: Any) -> Any:
    """The polynomial of `x`, highest power first, by Horner's rule."""
    out = x * coefficients[0] + coefficients[1]
    for c in coefficients[2:]:
        out *= x
        out += c
    return out


def _float(x: Any) -> Any:
    return x.dtype if hasattr(x, "dtype") else np.float64


def tanh(x: Any) -> Any:
    """The hyperbolic tangent; with an infinite real part, the imaginary one is a signed zero.

    The zero has the sign of the imaginary part, as in the Array API. C, which NumPy calls, gives it
    the sign of the sine of twice that part.
    """
    out = np.tanh(x)
    if out.dtype.kind == "c":
        x, out = np.asarray(x), np.array(out)
        far = np.isinf(x.real) & np.isfinite(x.imag)
        out.imag[far] = np.copysign(0, x.imag[far])
    return out


def broadcast_to(x: Any, shape: tuple[int, ...]) -> Any:
    """`x` repeated to `shape` without copying."""
    if x.size == 1 and x.ndim <= len(shape):  # 8 times as fast; gradients of sums come here
        return np.ndarray(shape, x.dtype, x, 0, (0,) * len(shape))
    return np.broadcast_to(x, shape)


def strided(x: Any, shape: tuple[int, ...], strides: tuple[int, ...]) -> Any:
    """The memory of `x` with another shape and other strides, in bytes."""
    return np.lib.stride_tricks.as_strided(x, shape, strides, writeable=False)


def vecdot(x: Any, y: Any) -> Any:
    """The products of vectors along the last axis, without conjugation."""
    return np.vecdot(x.conj() if x.dtype.kind == "c" else x, y)  # vecdot conjugates it again


def put(out: Any, index: Any, values: Any) -> None:
    """Sets out[index] to `values`; the last of several for one index stays."""
    out[index] = values


def scatter(combine: str, out: Any, indices: Any, values: Any) -> None:
    """Sets elements of the vector `out` to `values`, or combines both by NumPy's `combine`."""
    if combine:
        getattr(np, combine).at(out, indices, values)
    else:
        out[indices] = values


def add_rows(g: Any, i: Any, size: int, axis: int) -> Any:
    """Zeros with `size` elements along `axis`, to which each row of `g` is added at its index `i`.

    Sorts by index and sums each run of equal indices: much faster than numpy.add.at.
    """
    lead, rest = g.shape[:axis], g.shape[axis + i.ndim:]
    out = np.zeros((*lead, size, *rest), g.dtype)
    if g.size:
        permutation = i.reshape(-1).argsort(kind="stable")
        indices = i.reshape(-1)[permutation]
        starts = np.flatnonzero(np.concatenate([[True], indices[1:] != indices[:-1]]))
        sorted_g = g.reshape(*lead, -1, *rest).take(permutation, axis=axis)
        target = (*[slice(None)] * axis, indices[starts])
        out[target] = np.add.reduceat(sorted_g, starts, axis=axis, dtype=summed_in(g.dtype))
    return out


def cast(x: Any, dtype: Any) -> Any:
    """`x` as `dtype`: the real parts of complex numbers; as bool, True for all but 0."""
    with np.errstate(all="ignore"):
        if is_stored(x.dtype):  # as compiled code does, for inf and nan, too
            x = x.astype(np.float32)
        return (x.real if x.dtype.kind == "c" and dtype.kind not in "bc" else x).astype(dtype)


def bits(x: Any) -> Any:
    """The bits of float32 as uint32."""
    return np.asarray(x).view(np.uint32)


def from_bits(x: Any) -> Any:
    """The float32 with these bits, uint32."""
    return np.asarray(x).view(np.float32)


# ---- complex numbers
def real(x: Any) -> Any:
    """A copy of the real parts."""
    return x.real.copy()


def imag(x: Any) -> Any:
    """A copy of the imaginary parts."""
    return x.imag.copy()


def complex(x: Any, y: Any) -> Any:
    """The complex numbers with these real and imaginary parts."""
    dtype = complex_of((x if hasattr(x, "dtype") else y).dtype)
    out = np.empty(np.broadcast_shapes(np.shape(x), np.shape(y)), dtype)
    out.real, out.imag = x, y
    return out


def expm1(x: Any) -> Any:
    """exp(x) - 1, exact near 0; of complex zeros and infinities as in the Array API."""
    out = np.expm1(x)
    if x.dtype.kind == "c":
        special = ~np.isfinite(x) | (x == 0)
        if special.any():
            out = np.where(special, np.exp(x) - 1, out)
    return out
