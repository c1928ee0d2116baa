"""Provides CuPy under the names that formulas use: the `k` and `xp` of ops on a GPU.

A name is CuPy's function of that name, except where CuPy lacks it or differs from NumPy.
"""

from __future__ import annotations

import importlib
import sys
from typing import Any

import numpy as np

from ..arrays.dtypes import complex_of, summed_in


def cupy() -> Any:
    """The module CuPy, which has been imported."""
    return sys.modules["cupy"]


def cupyx(name: str) -> Any:
    """A module of CuPy's extensions, such as "cupyx.scipy.special"."""
    return importlib.import_module(name)


def __getattr__(name: str) -> Any:
    if name.startswith("__") or "cupy" not in sys.modules:  # pickle looks for names in all modules
        raise AttributeError(name)
    return getattr(cupy(), name)


def failing() -> Any:
    """A context in which CuPy raises errors for singular matrices, as NumPy does."""
    return cupyx("cupyx").errstate(linalg="raise")


# CuPy's function that combines elements along axes, by the name in an op's meaning.
REDUCE = {"add": "sum", "mul": "prod", "maximum": "max", "minimum": "min", "or": "any",
          "and": "all"}


SCAN = {"add": "cumsum", "mul": "cumprod"}  # those that combine each element with its predecessors


def reduce(combine: str, x: Any, axis: tuple[int, ...], keepdims: bool) -> Any:
    """The elements of `x` combined along `axis`; sums and products use a wider dtype."""
    function = getattr(cupy(), REDUCE[combine])
    if combine not in ("add", "mul"):
        return function(x, axis=axis, keepdims=keepdims)
    out = function(x, axis=axis, dtype=summed_in(x.dtype), keepdims=keepdims)
    return out.astype(x.dtype, copy=False)


def round(x: Any) -> Any:
    """The nearest whole numbers; the even one of two that are as near."""
    return cupy().rint(x)


def erf(x: Any) -> Any:
    """The error function."""
    return cupyx("cupyx.scipy.special").erf(x).astype(x.dtype, copy=False)


def tanh(x: Any) -> Any:
    """The hyperbolic tangent; with an infinite real part, the imaginary one is a signed zero."""
    xp = cupy()
    out = xp.tanh(x)
    if out.dtype.kind != "c":
        return out
    far = xp.isinf(x.real) & xp.isfinite(x.imag)
    return complex(xp.where(far, xp.copysign(xp.ones_like(x.real), x.real), out.real),
                   xp.where(far, xp.copysign(xp.zeros_like(x.imag), x.imag), out.imag))


def expm1(x: Any) -> Any:
    """exp(x) - 1, exact near 0."""
    xp = cupy()
    if x.dtype.kind != "c":
        return xp.expm1(x)
    special = ~xp.isfinite(x) | (x == 0)
    return xp.where(special, xp.exp(x) - 1, xp.expm1(x))


def cast(x: Any, dtype: Any) -> Any:
    """`x` as `dtype`: the real parts of complex numbers; as bool, True for all but 0."""
    return (x.real if x.dtype.kind == "c" and dtype.kind not in "bc" else x).astype(dtype)


def bits(x: Any) -> Any:
    """The bits of float32 as uint32."""
    return x.view(np.uint32)


def from_bits(x: Any) -> Any:
    """The float32 with these bits, uint32."""
    return x.view(np.float32)


def strided(x: Any, shape: tuple[int, ...], strides: tuple[int, ...]) -> Any:
    """The memory of `x` with another shape and other strides, in bytes."""
    return cupy().lib.stride_tricks.as_strided(x, shape, strides)


def vecdot(x: Any, y: Any) -> Any:
    """The products of vectors along the last axis, without conjugation."""
    return cupy().matmul(x[..., None, :], y[..., :, None])[..., 0, 0]


def put(out: Any, index: Any, values: Any) -> None:
    """Sets out[index] to `values` along the first axis; the last of several for one index stays.

    CuPy leaves open which one stays, so a stable sort finds the last one.
    """
    xp = cupy()
    indices = index.reshape(-1)
    if not indices.size:
        return
    permutation = xp.argsort(indices)
    ordered = indices[permutation]
    last = xp.ones(indices.shape, bool)
    last[:-1] = ordered[1:] != ordered[:-1]
    rows = xp.broadcast_to(values, (*index.shape, *out.shape[1:])).reshape(-1, *out.shape[1:])
    out[ordered[last]] = rows[permutation[last]]


def scatter(combine: str, out: Any, indices: Any, values: Any) -> None:
    """Sets elements of the vector `out` to `values`, or combines both by NumPy's `combine`."""
    if combine == "":
        put(out, indices, values)
    elif combine == "add":
        out += add_rows(values, indices, out.size, 0)
    else:
        raise NotImplementedError(f"there is no scatter by {combine} on a GPU")


def add_rows(g: Any, i: Any, size: int, axis: int) -> Any:
    """Zeros with `size` elements along `axis`, to which each row of `g` is added at its index `i`.

    Sorted by index, each row is added to the row 1, 2, 4, ... behind it if both have one index: the
    same sums in every run. (CuPy's `add.at` adds in no fixed sequence, and its `add.reduceat` takes
    differences of running sums, which lose digits.)
    """
    xp = cupy()
    lead, rest = g.shape[:axis], g.shape[axis + i.ndim:]
    out = xp.zeros((*lead, size, *rest), g.dtype)
    permutation = xp.argsort(i.reshape(-1))
    indices = i.reshape(-1)[permutation]
    rows = g.reshape(*lead, permutation.size, *rest).take(permutation, axis=axis)
    rows = xp.moveaxis(rows.astype(summed_in(g.dtype), copy=False), axis, 0)
    step = 1
    while step < permutation.size:
        alike = (indices[step:] == indices[:-step]).reshape(-1, *[1] * (rows.ndim - 1))
        rows[step:] += xp.where(alike, rows[:-step], rows.dtype.type(0))
        step *= 2
    last = xp.ones(indices.shape, bool)
    last[:-1] = indices[1:] != indices[:-1]
    target = (*[slice(None)] * axis, indices[last])
    out[target] = xp.moveaxis(rows[last], 0, axis)
    return out


def real(x: Any) -> Any:
    """A copy of the real parts."""
    return x.real.copy()


def imag(x: Any) -> Any:
    """A copy of the imaginary parts."""
    return x.imag.copy()


def complex(x: Any, y: Any) -> Any:
    """The complex numbers with these real and imaginary parts."""
    dtype = complex_of((x if hasattr(x, "dtype") else y).dtype)
    out = cupy().empty(np.broadcast_shapes(np.shape(x), np.shape(y)), dtype)
    out.real, out.imag = x, y
    return out
