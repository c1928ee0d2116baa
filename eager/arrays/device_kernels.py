"""CuPy under the names that formulas use: the `k` and `xp` of ops on a GPU.

Everything is CuPy's function of that name, but for what it lacks or has otherwise than NumPy.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from . import devices
from .devices import cupy, cupyx
from .dtypes import complex_of, summed_in


def __getattr__(name: str) -> Any:
    if name.startswith("__") or not devices.in_use:  # pickle looks for names in all modules
        raise AttributeError(name)
    return getattr(cupy(), name)


def failing() -> Any:
    """A context in which CuPy raises errors for matrices without an inverse, as NumPy does."""
    return cupyx("cupyx").errstate(linalg="raise")


# What combines the elements along axes, by the name in an op's meaning.
REDUCE = {"add": "sum", "mul": "prod", "maximum": "max", "minimum": "min", "or": "any",
          "and": "all"}


SCAN = {"add": "cumsum", "mul": "cumprod"}  # what combines each element with those before it


def reduce(combine: str, x: Any, axis: tuple[int, ...], keepdims: bool) -> Any:
    """The elements of `x` along `axis`, combined; sums and products are made in a wider dtype."""
    function = getattr(cupy(), REDUCE[combine])
    if combine not in ("add", "mul"):
        return function(x, axis=axis, keepdims=keepdims)
    found = function(x, axis=axis, dtype=summed_in(x.dtype), keepdims=keepdims)
    return found.astype(x.dtype, copy=False)


def round(x: Any) -> Any:
    """The nearest whole numbers; of two the even one."""
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
    """`x` as `dtype`: of complex numbers the real part, and as bool whether they are not 0."""
    return (x.real if x.dtype.kind == "c" and dtype.kind not in "bc" else x).astype(dtype)


def strided(x: Any, shape: tuple[int, ...], strides: tuple[int, ...]) -> Any:
    """The memory of `x` seen in another shape with other strides, in bytes."""
    return cupy().lib.stride_tricks.as_strided(x, shape, strides)


def vecdot(x: Any, y: Any) -> Any:
    """The products of vectors along the last axis, none of them conjugated."""
    return cupy().matmul(x[..., None, :], y[..., :, None])[..., 0, 0]


def put(out: Any, index: Any, values: Any) -> None:
    """out[index] = values, along the first axis; of several for one place the last one stays.

    CuPy leaves open which one does, so each place gets the last in a stable order.
    """
    xp = cupy()
    places = index.reshape(-1)
    if not places.size:
        return
    order = xp.argsort(places)
    ordered = places[order]
    last = xp.ones(places.shape, bool)
    last[:-1] = ordered[1:] != ordered[:-1]
    rows = xp.broadcast_to(values, (*index.shape, *out.shape[1:])).reshape(-1, *out.shape[1:])
    out[ordered[last]] = rows[order[last]]


def scatter(combine: str, out: Any, places: Any, values: Any) -> None:
    """Combines elements of the vector `out` with values, by NumPy's function of that name; "" puts
    them there."""
    if combine == "":
        put(out, places, values)
    elif combine == "add":
        out += add_rows(values, places, out.size, 0)
    else:
        raise NotImplementedError(f"nothing is scattered by {combine} here")


def add_rows(g: Any, i: Any, size: int, axis: int) -> Any:
    """Zeros with `size` elements along `axis`, and each of `g` added at its index.

    Rows in the order of their places are added to the one that comes 1, 2, 4, ... behind, where
    that has the same place: the same sums in every run. (CuPy's `add.at` adds in no fixed order,
    and its `add.reduceat` takes differences of running sums, which lose digits.)
    """
    xp = cupy()
    lead, rest = g.shape[:axis], g.shape[axis + i.ndim:]
    out = xp.zeros((*lead, size, *rest), g.dtype)
    order = xp.argsort(i.reshape(-1))
    places = i.reshape(-1)[order]
    rows = g.reshape(*lead, order.size, *rest).take(order, axis=axis)
    rows = xp.moveaxis(rows.astype(summed_in(g.dtype), copy=False), axis, 0)
    step = 1
    while step < order.size:
        alike = (places[step:] == places[:-step]).reshape(-1, *[1] * (rows.ndim - 1))
        rows[step:] += xp.where(alike, rows[:-step], rows.dtype.type(0))
        step *= 2
    last = xp.ones(places.shape, bool)
    last[:-1] = places[1:] != places[:-1]
    target = (*[slice(None)] * axis, places[last])
    out[target] = xp.moveaxis(rows[last], 0, axis)
    return out


def real(x: Any) -> Any:
    """The real parts, as an array of its own."""
    return x.real.copy()


def imag(x: Any) -> Any:
    """The imaginary parts, as an array of its own."""
    return x.imag.copy()


def complex(x: Any, y: Any) -> Any:
    """The complex numbers with these real and imaginary parts."""
    dtype = complex_of((x if hasattr(x, "dtype") else y).dtype)
    out = cupy().empty(np.broadcast_shapes(np.shape(x), np.shape(y)), dtype)
    out.real, out.imag = x, y
    return out
