"""Computes singular values, and from them pseudo-inverses, ranks and least squares."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..arguments import check_number, names_itself
from ..arrays import dtypes
from ..arrays.shapes import TensorType
from ..core.dispatch import apply
from ..core.op import each
from ..core.tensor import Tensor
from ..errors import DTypeError
from ..ops.create import full
from ..ops.elementwise import pointwise
from ..ops.elementwise.complex import imag, real
from ..ops.products.contract import factors
from ..ops.products.matrix import diagonal
from ..ops.reduction import reduce
from ..ops.shape.view import expand_dims, expand_to, reshape
from .core import (
    adjoint,
    columns,
    eye_like,
    lapack,
    matrices,
    pack,
    packed_type,
    unpack,
    with_diagonal,
    without_imag,
)

__all__ = ["LstsqResult", "SVDResult", "lstsq", "matrix_rank", "pinv", "svd", "svdvals"]

_NOT_FINITE = "inf and nan have no singular values: fw.isfinite shows where they are"


class SVDResult(NamedTuple):
    """U @ diag(S) @ Vh is the matrix. S is descending; U and Vh have orthonormal vectors."""

    U: Tensor
    S: Tensor
    Vh: Tensor


def _shapes(x: Any, full: bool) -> tuple[tuple[Any, ...], ...]:
    m, n = x.shape[-2:]
    k = min(m, n)
    return ((m, m), (k,), (n, n)) if full else ((m, k), (k,), (k, n))


def _svd(x: Any, full: bool) -> Any:
    u, s, vh = np.linalg.svd(x, full_matrices=full)
    return pack(x.shape[:-2], u, s.astype(x.dtype), vh)


def _svd_vjp(g: Tensor, out: Tensor, x: Tensor, full: bool) -> Tensor:
    """J. Townsend, "Differentiating the singular value decomposition" (2016)."""
    m, n = x.shape[-2:]
    k = min(m, n)
    (gu, gs, gvh), (u, s, vh) = unpack(g, *_shapes(x, full)), unpack(out, *_shapes(x, full))
    gu, u = gu[..., :k], u[..., :k]
    gvh, vh = gvh[..., :k, :], vh[..., :k, :]
    gv, uh = adjoint(gvh), adjoint(u)
    by_column, by_row = columns(s), expand_dims(s, -1)
    from_u, from_v = uh @ gu, vh @ gv
    gaps = (by_column - by_row) * (by_column + by_row) + eye_like(u[..., :k, :])
    left, right = (from_u - adjoint(from_u)) / gaps, (from_v - adjoint(from_v)) / gaps
    inner = left * by_column + by_row * right
    gx = u @ with_diagonal(inner, without_imag(gs) + _phase(from_u, s)) @ vh
    if m > k:
        gx = gx + (gu - u @ from_u) / by_column @ vh
    if n > k:
        gx = gx + u / by_column @ (gvh - adjoint(from_v) @ vh)
    return gx


def _phase(from_u: Tensor, s: Tensor) -> Any:
    """The diagonal part from rotating the phases of U and V together; 0 for real matrices."""
    if s.dtype.kind != "c":
        return 0.0
    angles = imag(diagonal(from_u)) / real(s)
    return pointwise.cast(angles, s.dtype) * 1j


svd_op = lapack("svd", lambda x, full: packed_type(x, x.dtype, *_shapes(x, full)), _svd,
                each(_svd_vjp), _NOT_FINITE, finite=True)


def svd(x: Tensor, full_matrices: bool = True) -> SVDResult:
    """The singular value decompositions U @ diag(S) @ Vh of matrices (..., m, n).

    S is (..., k) with k the smaller of m and n, U is (..., m, m), and Vh is (..., n, n).

    The gradient through the vectors divides by the differences of squared singular values, and by
    the values if m and n differ. It is inf or nan if two values are equal, or one is 0. Gradients
    of the vectors that only `full_matrices` adds are ignored. A complex loss must not depend on the
    phase of a pair of vectors.

    Args:
        full_matrices: False makes U (..., m, k) and Vh (..., k, n). Default True.

    Raises:
        LinAlgError: the iteration does not converge, as for inf and nan.
        DTypeError: `x` does not hold floats.

    Example:
        >>> import fusewire as fw
        >>> fw.linalg.svd(fw.tensor([[0.0, 2.0], [3.0, 0.0]])).S
        tensor([3., 2.])
    """
    x, full = matrices("svd", x), bool(full_matrices)
    u, s, vh = unpack(apply(svd_op, (x,), {"full": full}), *_shapes(x, full))
    return SVDResult(u, real(s) if x.dtype.kind == "c" else s, vh)


def _svdvals_vjp(g: Tensor, out: Tensor, x: Tensor) -> Tensor:
    u, _, vh = svd(x, full_matrices=False)
    return u * columns(pointwise.cast(g, x.dtype)) @ vh


def _svdvals_result(x: TensorType) -> TensorType:
    return TensorType((*x.shape[:-2], min(x.shape[-2:])), dtypes.real_of(x.dtype))


svdvals_op = lapack("svdvals", _svdvals_result, lambda x: np.linalg.svd(x, compute_uv=False),
                    each(_svdvals_vjp), _NOT_FINITE, finite=True)


def svdvals(x: Tensor) -> Tensor:
    """The singular values of matrices in descending order: (..., m, n) -> (..., k).

    k is the smaller of m and n.

    Raises:
        LinAlgError: the iteration does not converge, as for inf and nan.

    Example:
        >>> import fusewire as fw
        >>> fw.linalg.svdvals(fw.tensor([[0.0, 2.0], [3.0, 0.0]]))
        tensor([3., 2.])
    """
    return apply(svdvals_op, (matrices("svdvals", x),))


# ---- rank

def _tolerance(name: str, x: Tensor, rtol: Any) -> Tensor:
    """`rtol` for each matrix of `x`; by default the larger size times the epsilon of the dtype."""
    lead, dtype = x.shape[:-2], dtypes.real_of(x.dtype)
    if rtol is None:
        return full(lead, max(x.shape[-2:]) * dtypes.finfo(dtype).eps, dtype, x.device)
    if not isinstance(rtol, Tensor):
        return full(lead, float(check_number(name, "rtol", rtol)), dtype, x.device)
    if dtypes.kind(rtol.dtype) != "f":
        raise DTypeError(f"{name}: rtol is {rtol.dtype.name}", "it is a real floating point number")
    return expand_to(pointwise.cast(rtol.detach(), dtype), lead)


@names_itself
def matrix_rank(x: Tensor, rtol: Any = None) -> Tensor:
    """The numbers of singular values above rtol * the largest: (..., m, n) -> (...), int64.

    Args:
        rtol: a number, or one for each matrix. Default None: max(m, n) * epsilon of the dtype.

    Raises:
        DTypeError: `rtol` is a tensor of other numbers than real floats.

    Example:
        >>> import fusewire as fw
        >>> fw.linalg.matrix_rank(fw.ones(3, 3))
        tensor(1)
    """
    x = matrices("matrix_rank", x).detach()
    values = svdvals(x)
    if not values.shape[-1]:
        return full(values.shape[:-1], 0, device=x.device)
    limit = expand_dims(_tolerance("matrix_rank", x, rtol), -1) * values[..., :1]
    return reduce.sum(pointwise.greater(values, limit), -1)


# ---- pseudo-inverse

def _pinv(x: Any, rtol: Any) -> Any:
    return np.linalg.pinv(x, rcond=rtol.astype(x.real.dtype))


def _pinv_vjp(g: Tensor, out: Tensor, x: Tensor, rtol: Tensor) -> Tensor:
    """G. Golub and V. Pereyra (1973), for matrices of constant rank."""
    p, ph, gh = out, adjoint(out), adjoint(g)
    gx = -(ph @ g @ ph)
    gx = gx + (gh - x @ (p @ gh)) @ p @ ph
    return gx + ph @ p @ (gh - (gh @ p) @ x)


pinv_op = lapack(
    "pinv", lambda x, rtol: TensorType((*x.shape[:-2], x.shape[-1], x.shape[-2]), x.dtype), _pinv,
    each(_pinv_vjp, None), _NOT_FINITE, finite=True)


def pinv(x: Tensor, rtol: Any = None) -> Tensor:
    """The Moore-Penrose pseudo-inverses of matrices: (..., m, n) -> (..., n, m).

    The gradient is right where the rank does not change.

    Args:
        rtol: singular values up to rtol * the largest count as 0; a number, or one for each matrix.
            Default None: max(m, n) * epsilon of the dtype.

    Raises:
        LinAlgError: the iteration does not converge, as for inf and nan.

    Example:
        >>> import fusewire as fw
        >>> fw.linalg.pinv(fw.tensor([[2.0, 0.0], [0.0, 0.0]]))
        tensor([[0.5, 0. ],
                [0. , 0. ]])
    """
    x = matrices("pinv", x)
    return apply(pinv_op, (x, _tolerance("pinv", x, rtol)))


class LstsqResult(NamedTuple):
    """A least squares solution, its squared errors, and rank and singular values of the matrix."""

    solution: Tensor
    residuals: Tensor
    rank: Tensor
    singular_values: Tensor


@names_itself
def lstsq(a: Tensor, b: Tensor, rcond: Any = None) -> LstsqResult:
    """The X (..., n, k) with the smallest |a @ X - b|, for `a` (..., m, n) and `b` (..., m, k).

    Of several solutions it is the smallest. `residuals` (..., k) are the squared errors.

    Args:
        b: right sides; a vector (m,) gives vectors (..., n).
        rcond: the `rtol` of `pinv`. Default None.

    Raises:
        ShapeError: the sizes do not fit.

    Example:
        >>> import fusewire as fw
        >>> fw.linalg.lstsq(fw.tensor([[2.0], [0.0]]), fw.tensor([2.0, 3.0])).solution
        tensor([1.])
    """
    a, b = factors("lstsq", matrices("lstsq", a), reduce.floating("lstsq", b))
    vector = b.ndim == 1
    right = reshape(b, (*b.shape, 1)) if vector else b
    solution = pinv(a, rcond) @ right
    error = pointwise.abs(a @ solution - right)
    residuals = reduce.sum(error * error, -2)
    if vector:
        solution, residuals = (reshape(t, t.shape[:-1]) for t in (solution, residuals))
    return LstsqResult(solution, residuals, matrix_rank(a, rcond), svdvals(a.detach()))
