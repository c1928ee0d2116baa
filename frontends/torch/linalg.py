"""Linear algebra, under PyTorch's names and keywords."""

from __future__ import annotations

from typing import Any

from ...eager import linalg as _plain
from .base.generate import same_named as _same_named
from .base.package import fw as _fw
from .base.tensor_class import retag as _retag

globals().update({name: _same_named(value, name) if callable(value) and not isinstance(value, type)
                  else value for name in _plain.__all__ for value in [getattr(_plain, name)]})


def norm(A: Any, ord: Any = None, dim: Any = None, keepdim: bool = False, *, dtype: Any = None
         ) -> Any:
    """The norm of vectors or, for two axes, of matrices."""
    x = A if dtype is None else _fw.astype(A, dtype)
    if dim is None and (ord is None or x.ndim == 1):
        return _retag(_plain.vector_norm(x, keepdims=keepdim, ord=2 if ord is None else ord))
    if isinstance(dim, int) or (dim is not None and len(dim) == 1) or ord is None:
        return vector_norm(x, 2 if ord is None else ord, dim, keepdim)
    return matrix_norm(x, "fro" if ord is None else ord, (-2, -1) if dim is None else dim, keepdim)


def vector_norm(x: Any, ord: Any = 2, dim: Any = None, keepdim: bool = False, *, dtype: Any = None
                ) -> Any:
    """The norm of the elements along axes."""
    x = x if dtype is None else _fw.astype(x, dtype)
    axis = tuple(dim) if isinstance(dim, list) else dim
    return _retag(_plain.vector_norm(x, axis=axis, keepdims=keepdim, ord=ord))


def matrix_norm(A: Any, ord: Any = "fro", dim: Any = (-2, -1), keepdim: bool = False, *,
                dtype: Any = None) -> Any:
    """The norm of matrices, which lie in two axes."""
    x = _fw.moveaxis(A if dtype is None else _fw.astype(A, dtype), tuple(dim), (-2, -1))
    out = _plain.matrix_norm(x, keepdims=keepdim, ord=ord)
    return _retag(_fw.moveaxis(out, (-2, -1), tuple(dim)) if keepdim else out)


def _lower(A: Any, UPLO: str) -> Any:
    """A Hermitian matrix whose lower triangle counts."""
    return A if UPLO.upper() == "L" else _fw.conj(_fw.matrix_transpose(A))


def eigh(A: Any, UPLO: str = "L") -> Any:
    """Eigenvalues and eigenvectors of Hermitian matrices, of which one triangle is read."""
    return _retag(_plain.eigh(_lower(A, UPLO)))


def eigvalsh(A: Any, UPLO: str = "L") -> Any:
    """Eigenvalues of Hermitian matrices, of which one triangle is read."""
    return _retag(_plain.eigvalsh(_lower(A, UPLO)))


def diagonal(A: Any, *, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Any:
    """The diagonal of two axes, as the last axis."""
    return _retag(_fw.diagonal(_fw.moveaxis(A, (dim1, dim2), (-2, -1)), offset))


def lstsq(A: Any, B: Any, rcond: Any = None, *, driver: Any = None) -> Any:
    """The solutions of least squares."""
    return _retag(_plain.lstsq(A, B) if rcond is None else _plain.lstsq(A, B, rcond))
