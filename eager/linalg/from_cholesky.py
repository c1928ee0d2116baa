"""Solves and inverts by Cholesky factors, and computes logarithms of determinants."""

from __future__ import annotations

import math

from ..core.tensor import Tensor
from ..errors import ShapeError
from ..ops.elementwise import pointwise
from .core import adjoint, eye_like, matrices
from .solve import slogdet, solve_triangular

__all__ = ["cholesky_inverse", "cholesky_solve", "logdet"]


def cholesky_solve(b: Tensor, factor: Tensor, upper: bool = False) -> Tensor:
    """The solutions X of a @ X = b, from the Cholesky factor of a: (..., n, k), (..., n, n).

    Args:
        b: right sides (..., n, k).
        factor: lower triangles L with a = L @ L^H, as `fw.linalg.cholesky` gives them.
        upper: True takes upper triangles U with a = U^H @ U. Default False.

    Raises:
        ShapeError: the sizes do not fit.
        LinAlgError: there is a zero on a diagonal.

    Example:
        >>> import fusewire as fw
        >>> fw.cholesky_solve(fw.tensor([[4.0], [9.0]]), fw.tensor([[2.0, 0.0], [0.0, 3.0]]))
        tensor([[1.],
                [1.]])
    """
    b = matrices("cholesky_solve", b)
    factor = matrices("cholesky_solve", factor, square=True)
    if b.shape[-2] != factor.shape[-1]:
        raise ShapeError(f"cholesky_solve: right sides {b.shape} for factors {factor.shape}",
                         "the right sides are matrices (..., n, k); a vector is b[:, None]")
    lower = adjoint(factor) if upper else factor
    half = solve_triangular(lower, b, upper=False)
    return solve_triangular(adjoint(lower), half, upper=True)


def cholesky_inverse(factor: Tensor, upper: bool = False) -> Tensor:
    """The inverses of the matrices with these Cholesky factors: (..., n, n). See `cholesky_solve`.

    Raises:
        ShapeError: the factors are not square.
        LinAlgError: there is a zero on a diagonal.

    Example:
        >>> import fusewire as fw
        >>> fw.cholesky_inverse(fw.tensor([[2.0, 0.0], [0.0, 1.0]]))
        tensor([[0.25, 0.  ],
                [0.  , 1.  ]])
    """
    factor = matrices("cholesky_inverse", factor, square=True)
    return cholesky_solve(eye_like(factor), factor, upper)


def logdet(x: Tensor) -> Tensor:
    """The logarithms of determinants: (..., n, n) -> (...); nan of a negative one, -inf of 0.

    That of a complex determinant is a complex number.

    Raises:
        ShapeError: the matrices are not square.

    Example:
        >>> import fusewire as fw
        >>> fw.logdet(fw.eye(3))
        tensor(0.)
    """
    sign, size = slogdet(matrices("logdet", x, square=True))
    if x.dtype.kind == "c":
        return size + pointwise.log(sign)
    return pointwise.where(pointwise.less(sign, 0), math.nan, size)
