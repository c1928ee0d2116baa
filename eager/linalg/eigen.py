"""Computes eigenvalues and eigenvectors."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..arguments import names_itself
from ..arrays import dtypes
from ..arrays.shapes import TensorType
from ..core.dispatch import apply
from ..core.op import each
from ..core.tensor import Tensor
from ..ops.elementwise import pointwise
from ..ops.elementwise.complex import conj_of, real
from ..ops.products.matrix import diagonal
from ..ops.shape.view import expand_dims
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
from .solve import solve

__all__ = ["EigResult", "EighResult", "eig", "eigh", "eigvals", "eigvalsh"]

_NOT_FINITE = "inf and nan have no eigenvalues: fw.isfinite shows where they are"


class EighResult(NamedTuple):
    """Real eigenvalues (..., n) in ascending order, and eigenvectors as columns (..., n, n)."""

    eigenvalues: Tensor
    eigenvectors: Tensor


class EigResult(NamedTuple):
    """Complex eigenvalues (..., n), and eigenvectors as columns (..., n, n)."""

    eigenvalues: Tensor
    eigenvectors: Tensor


def _differences(values: Tensor) -> Tensor:
    """E[i, j] = values[j] - values[i], and 1 on the diagonal."""
    differences = expand_dims(values, -2) - expand_dims(values, -1)
    return differences + eye_like(differences)


# ---- of symmetric matrices

def _shapes(x: Any) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    n = x.shape[-1]
    return (n,), (n, n)


def _eigh(x: Any) -> Any:
    values, vectors = np.linalg.eigh(x)
    return pack(x.shape[:-2], values.astype(x.dtype), vectors)


def _eigh_vjp(g: Tensor, out: Tensor, x: Tensor) -> Tensor:
    """M. Giles, "Collected matrix derivative results" (2008), section 3.1."""
    (gw, gv), (w, v) = unpack(g, *_shapes(x)), unpack(out, *_shapes(x))
    inner = adjoint(v) @ gv
    inner = (inner - adjoint(inner)) * 0.5 / _differences(w)  # the rest cannot move the vectors
    return v @ with_diagonal(inner, without_imag(gw)) @ adjoint(v)


eigh_op = lapack("eigh", lambda x: packed_type(x, x.dtype, *_shapes(x)), _eigh, each(_eigh_vjp),
                 _NOT_FINITE, finite=True)


def eigh(x: Tensor) -> EighResult:
    """Eigenvalues and eigenvectors of symmetric (Hermitian) matrices (..., n, n).

    The eigenvalues (..., n) are real and ascending, the eigenvectors are the columns of (..., n,
    n). Only the lower triangle of `x` is read; the gradient is symmetric. Through the vectors it is
    divided by the differences of eigenvalues: inf or nan if two are equal. The loss must not depend
    on the phase of a complex vector.

    Raises:
        ShapeError: the matrices are not square.
        LinAlgError: the iteration does not converge.

    Example:
        >>> import fusewire as fw
        >>> fw.linalg.eigh(fw.tensor([[2.0, 0.0], [0.0, 1.0]])).eigenvalues
        tensor([1., 2.])
    """
    x = matrices("eigh", x, square=True)
    w, v = unpack(apply(eigh_op, (x,)), *_shapes(x))
    return EighResult(real(w) if x.dtype.kind == "c" else w, v)


def _eigvalsh_vjp(g: Tensor, out: Tensor, x: Tensor) -> Tensor:
    v = eigh(x).eigenvectors
    return v * columns(pointwise.cast(g, x.dtype)) @ adjoint(v)


def _values(x: TensorType) -> TensorType:
    return TensorType(x.shape[:-1], dtypes.real_of(x.dtype))


eigvalsh_op = lapack("eigvalsh", _values, np.linalg.eigvalsh, each(_eigvalsh_vjp), _NOT_FINITE,
                     finite=True)


def eigvalsh(x: Tensor) -> Tensor:
    """The eigenvalues of symmetric (Hermitian) matrices, ascending: (..., n, n) -> (..., n).

    The first derivative is right for equal eigenvalues, too; the second one is not.

    Raises:
        ShapeError: the matrices are not square.
        LinAlgError: the iteration does not converge.

    Example:
        >>> import fusewire as fw
        >>> fw.linalg.eigvalsh(fw.tensor([[0.0, 2.0], [2.0, 0.0]]))
        tensor([-2.,  2.])
    """
    return apply(eigvalsh_op, (matrices("eigvalsh", x, square=True),))


# ---- of any square matrices

def _eig(x: Any) -> Any:
    values, vectors = np.linalg.eig(x)
    dtype = dtypes.complex_of(x.dtype)
    return pack(x.shape[:-2], values.astype(dtype), vectors.astype(dtype))


def _eig_vjp(g: Tensor, out: Tensor, x: Tensor) -> Tensor:
    """The gradient as for symmetric matrices, with the inverse of V in the place of its adjoint.

    The vectors keep the length 1, which removes the real part of diag(V^H gV). The gradient of a
    real matrix is real.
    """
    (gw, gv), (w, v) = unpack(g, *_shapes(x)), unpack(out, *_shapes(x))
    vh = adjoint(v)
    inner = vh @ gv
    inner = inner - vh @ v * columns(without_imag(diagonal(inner)))
    inner = with_diagonal(inner / conj_of(_differences(w)), gw)
    gx = solve(vh, inner @ vh)
    return gx if x.dtype.kind == "c" else pointwise.cast(real(gx), x.dtype)


eig_op = lapack("eig", lambda x: packed_type(x, dtypes.complex_of(x.dtype), *_shapes(x)), _eig,
                each(_eig_vjp), _NOT_FINITE, finite=True)


def eig(x: Tensor) -> EigResult:
    """Complex eigenvalues (..., n) and eigenvectors (..., n, n) of matrices (..., n, n).

    The eigenvalues are in no particular order; the eigenvectors are columns of length 1. The
    gradient is inf or nan if two eigenvalues are equal. The loss must not depend on the phase of a
    vector.

    Raises:
        ShapeError: the matrices are not square.
        LinAlgError: the matrices contain inf or nan, or the iteration does not converge.

    Example:
        >>> import fusewire as fw
        >>> fw.linalg.eig(fw.tensor([[0.0, 1.0], [-1.0, 0.0]])).eigenvalues
        tensor([0.+1.j, 0.-1.j])
    """
    x = matrices("eig", x, square=True)
    return EigResult(*unpack(apply(eig_op, (x,)), *_shapes(x)))


@names_itself
def eigvals(x: Tensor) -> Tensor:
    """The complex eigenvalues of matrices, in the order of `eig`: (..., n, n) -> (..., n).

    Example:
        >>> import fusewire as fw
        >>> fw.linalg.eigvals(fw.tensor([[2.0, 0.0], [0.0, 3.0]]))
        tensor([2.+0.j, 3.+0.j])
    """
    return eig(matrices("eigvals", x, square=True)).eigenvalues
