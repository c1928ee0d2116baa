"""Computes LU factors with row exchanges."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..core.dispatch import apply
from ..core.op import each
from ..core.tensor import Tensor
from ..ops.create import iota
from ..ops.elementwise import pointwise
from ..ops.shape.join import concat
from ..ops.shape.view import expand_dims
from .core import adjoint, eye_like, lapack, matrices, pack, packed_type, triangle, unpack
from .solve import solve_triangular, substitute

__all__ = ["LUResult", "lu"]


def _eliminate(a: Any) -> tuple[Any, Any]:
    """The order of rows (..., m), and L below the diagonal of U (..., m, n).

    It halves the columns, so that most of the work is in products of matrices.
    """
    m, n = a.shape[-2:]
    rows = np.broadcast_to(np.arange(m), a.shape[:-1])
    if m == 0 or n == 0:
        return rows, a
    if n == 1:
        return _first_column(a, rows.copy())
    h = n // 2
    k = min(m, h)
    rows, left = _eliminate(a[..., :h])
    right = np.take_along_axis(a[..., h:], rows[..., None], -2)
    upper = substitute(left[..., :k, :k], right[..., :k, :], upper=False, unit=True)
    rest_rows, rest = _eliminate(right[..., k:, :] - left[..., k:, :k] @ upper)
    below = np.take_along_axis(left[..., k:, :], rest_rows[..., None], -2)
    rows = np.concatenate([rows[..., :k], np.take_along_axis(rows[..., k:], rest_rows, -1)], -1)
    return rows, np.concatenate([np.concatenate([left[..., :k, :], below], -2),
                                 np.concatenate([upper, rest], -2)], -1)


def _first_column(a: Any, rows: Any) -> tuple[Any, Any]:
    """The factors of a single column: its largest element is exchanged with the first.

    Complex elements are compared by |re| + |im|, as in LAPACK.
    """
    largest = (np.abs(a.real) + np.abs(a.imag))[..., 0].argmax(-1)
    np.put_along_axis(rows, largest[..., None], 0, -1)
    rows[..., 0] = largest
    a = np.take_along_axis(a, rows[..., None], -2)
    pivot = a[..., :1, :]
    divided = a[..., 1:, :] / np.where(pivot == 0, 1, pivot)
    return rows, np.concatenate([pivot, divided], -2)


def _lu(x: Any) -> Any:
    rows, factors = _eliminate(x)
    return pack(x.shape[:-2], factors, rows.astype(x.dtype))


def _shapes(x: Any) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    return tuple(x.shape[-2:]), (x.shape[-2],)


def _lu_vjp(g: Tensor, out: Tensor, x: Tensor) -> Tensor:
    """The gradient of the leading square A = L U, and of the rows below or the columns beside it.

    These rows of L are A / U, these columns of U are L \\ A.
    """
    m, n = x.shape[-2:]
    k = min(m, n)
    g, factors = unpack(g, *_shapes(x))[0], unpack(out, *_shapes(x))[0]
    square = factors[..., :k, :k]
    lower, upper = triangle(square, upper=False, strict=True) + eye_like(square), \
        triangle(square, upper=True)
    lh, uh = adjoint(lower), adjoint(upper)
    g_lower = g_upper = g[..., :k, :k]
    parts = []
    if m > n:
        below = adjoint(solve_triangular(upper, adjoint(g[..., k:, :]), upper=True))
        g_upper = g_upper - adjoint(factors[..., k:, :]) @ below
        parts = [below]
    elif n > m:
        beside = solve_triangular(lh, g[..., k:], upper=True, unitriangular=True)
        g_lower = g_lower - beside @ adjoint(factors[..., k:])
        parts = [beside]
    inner = triangle(lh @ triangle(g_lower, upper=False, strict=True), upper=False, strict=True) \
        + triangle(triangle(g_upper, upper=True) @ uh, upper=True)
    inner = solve_triangular(lh, inner, upper=True, unitriangular=True)
    inner = adjoint(solve_triangular(upper, adjoint(inner), upper=True))
    whole = concat([inner, *parts], axis=-2 if m > n else -1)
    return _permutation(out, x) @ whole


def _permutation(packed: Tensor, x: Tensor) -> Tensor:
    """The matrices (..., m, m) that permute the rows of L @ U to the order of `x`."""
    m = x.shape[-2]
    rows = expand_dims(unpack(packed, *_shapes(x))[1].detach(), -2)
    column = pointwise.cast(iota((m, m), 0, device=x.device), rows.dtype)
    return pointwise.cast(pointwise.equal(column, rows), x.dtype)


lu_op = lapack("lu", lambda x: packed_type(x, x.dtype, *_shapes(x)), _lu, each(_lu_vjp))


class LUResult(NamedTuple):
    """P @ L @ U is the matrix: a permutation, a unit lower and an upper triangle."""

    P: Tensor
    L: Tensor
    U: Tensor


def lu(x: Tensor) -> LUResult:
    """The factors P @ L @ U = x of matrices (..., m, n); k is the smaller of m and n.

    P (..., m, m) exchanges rows, L (..., m, k) has ones on its diagonal and zeros above, U (..., k,
    n) is an upper triangle. The gradient needs the first k columns to be independent.

    Raises:
        ShapeError: `x` has fewer than two axes.

    Example:
        >>> import fusewire as fw
        >>> p, l, u = fw.linalg.lu(fw.tensor([[1.0, 2.0], [2.0, 2.0]]))
        >>> l, u
        (tensor([[1. , 0. ],
                [0.5, 1. ]]), tensor([[2., 2.],
                [0., 1.]]))
    """
    x = matrices("lu", x)
    k = min(x.shape[-2:])
    packed = apply(lu_op, (x,))
    factors = unpack(packed, *_shapes(x))[0]
    low = triangle(factors[..., :k], upper=False, strict=True)
    rows, columns = (iota(low.shape[-2:], axis, device=x.device) for axis in (0, 1))
    ones = pointwise.cast(pointwise.equal(rows, columns), x.dtype)
    return LUResult(_permutation(packed, x), low + ones, triangle(factors[..., :k, :], upper=True))
