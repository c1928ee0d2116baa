"""Computes triangular factors: Cholesky and QR."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..arrays.shapes import TensorType
from ..core.dispatch import apply
from ..core.op import each
from ..core.tensor import Tensor
from ..errors import ArgumentError, GradientError
from ..ops.products.matrix import diagonal
from ..ops.shape.join import concat
from .core import adjoint, lapack, matrices, pack, packed_type, triangle, unpack, with_diagonal
from .solve import solve_triangular

__all__ = ["QRResult", "cholesky", "qr"]


def _cholesky_vjp(g: Tensor, out: Tensor, x: Tensor) -> Tensor:
    """I. Murray, "Differentiation of the Cholesky decomposition" (2016), for A = L L^H."""
    upper = adjoint(out)
    inner = triangle(upper @ g, upper=False)
    inner = with_diagonal(inner, diagonal(inner) * 0.5)
    half = solve_triangular(upper, inner, upper=True)  # L^-H inner
    full = solve_triangular(upper, adjoint(half), upper=True)  # the adjoint of half L^-1
    return (full + adjoint(full)) * 0.5


cholesky_op = lapack(
    "cholesky", lambda x: x, np.linalg.cholesky, each(_cholesky_vjp),
    "all eigenvalues must be positive: x + eps * identity moves them up, fw.linalg.eigvalsh shows "
    "them")


def cholesky(x: Tensor, upper: bool = False) -> Tensor:
    """The lower triangles L with L @ L^H = x, for matrices (..., n, n).

    `x` is symmetric (Hermitian) and positive definite. Only its lower triangle is read; its
    gradient is symmetric.

    Args:
        upper: True returns upper triangles U with U^H @ U = x. Default False.

    Raises:
        ShapeError: the matrices are not square.
        LinAlgError: a matrix is not positive definite.

    Example:
        >>> import fusewire as fw
        >>> fw.linalg.cholesky(fw.tensor([[4.0, 2.0], [2.0, 5.0]]))
        tensor([[2., 0.],
                [1., 2.]])
    """
    out = apply(cholesky_op, (matrices("cholesky", x, square=True),))
    return adjoint(out) if upper else out


# ---- QR

def _shapes(x: Any, mode: str) -> tuple[tuple[Any, Any], tuple[Any, Any]]:
    """The shapes of Q and R, for matrices with at least as many rows as columns."""
    m, n = x.shape[-2:]
    return ((m, m), (m, n)) if mode == "complete" else ((m, n), (n, n))


def _qr(x: Any, mode: Any) -> Any:
    q, r = np.linalg.qr(x, mode)
    return pack(x.shape[:-2], q, r)


def _qr_vjp(g: Tensor, out: Tensor, x: Tensor, mode: str) -> Tensor:
    """J. Townsend, "Differentiating the QR decomposition" (2018)."""
    if mode == "complete" and x.shape[-2] != x.shape[-1]:
        raise GradientError(f"qr: the complete Q of matrices {x.shape} has no gradient",
                            'its last columns are not determined; take mode="reduced"')
    shapes = _shapes(x, mode)
    (gq, gr), (q, r) = unpack(g, *shapes), unpack(out, *shapes)
    inner = triangle(gr @ adjoint(r) - adjoint(q) @ gq, upper=True)
    both = inner + adjoint(inner)
    both = with_diagonal(both, diagonal(both) * 0.5)
    return adjoint(solve_triangular(r, adjoint(gq + q @ both), upper=True))


def _qr_result(x: TensorType, mode: str) -> TensorType:
    return packed_type(x, x.dtype, *_shapes(x, mode))


qr_op = lapack("qr", _qr_result, _qr, each(_qr_vjp))


class QRResult(NamedTuple):
    """Q @ R is the matrix: orthonormal columns, and an upper triangle."""

    Q: Tensor
    R: Tensor


def qr(x: Tensor, mode: str = "reduced") -> QRResult:
    """The factors Q @ R = x of matrices (..., m, n).

    Q (..., m, k) has orthonormal columns, R (..., k, n) is an upper triangle. k is the smaller of m
    and n; with mode "complete" it is m. The gradient needs the first k columns of `x` to be
    independent, and does not exist for the complete Q if m > n.

    Args:
        mode: "reduced" or "complete". Default "reduced".

    Raises:
        ArgumentError: `mode` has another value.
        GradientError: the gradient of a complete Q is asked for, and m > n.

    Example:
        >>> import fusewire as fw
        >>> q, r = fw.linalg.qr(fw.tensor([[0.0, 2.0], [3.0, 1.0]]))
        >>> q @ r
        tensor([[0., 2.],
                [3., 1.]])
    """
    x = matrices("qr", x)
    if mode not in ("reduced", "complete"):
        raise ArgumentError(f"qr: mode {mode!r} is not known", 'it is "reduced" or "complete"')
    m, n = x.shape[-2:]
    if m >= n:
        return QRResult(*unpack(apply(qr_op, (x,), {"mode": mode}), *_shapes(x, mode)))
    square, rest = x[..., :m], x[..., m:]
    q, r = unpack(apply(qr_op, (square,), {"mode": "reduced"}), (m, m), (m, m))
    return QRResult(q, concat([r, adjoint(q) @ rest], axis=-1))
