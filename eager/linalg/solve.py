"""Solves systems of linear equations, and computes inverses and determinants."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..arrays.shapes import TensorType, broadcast
from ..core.dispatch import apply
from ..core.op import each
from ..core.tensor import Tensor
from ..errors import ShapeError
from ..ops.elementwise.complex import complex, conj_of, imag, real
from ..ops.products.contract import factors
from ..ops.reduction import reduce
from ..ops.shape.view import expand_to, matrix_transpose, permute_dims, reshape
from .core import adjoint, lapack, matrices, packed_type, scalars, triangle, unpack

__all__ = ["SlogdetResult", "det", "inv", "slogdet", "solve", "solve_triangular"]

_SINGULAR = "its rows depend on each other; fw.linalg.pinv and fw.linalg.lstsq take such matrices"

# ---- solve


def _solve_vjp(needs: Any, g: Tensor, out: Tensor, a: Tensor, b: Tensor) -> list[Any]:
    gb = apply(solve_op, (adjoint(a), g))
    return [-(gb @ adjoint(out)) if needs[0] else None, gb]


solve_op = lapack("solve", lambda a, b: b, np.linalg.solve, _solve_vjp, _SINGULAR)


def solve(a: Tensor, b: Tensor) -> Tensor:
    """The solutions X of a @ X = b: (..., n, n), (..., n, k) -> (..., n, k).

    Args:
        a: square matrices.
        b: right sides; a vector (n,) gives vectors (..., n).

    Raises:
        ShapeError: the sizes do not fit.
        LinAlgError: a matrix is singular.

    Example:
        >>> import fusewire as fw
        >>> fw.linalg.solve(fw.tensor([[2.0, 0.0], [0.0, 4.0]]), fw.tensor([1.0, 1.0]))
        tensor([0.5 , 0.25])
    """
    a, b = factors("solve", matrices("solve", a, square=True), reduce.floating("solve", b))
    if b.ndim == 1:
        return _of_vectors(a, b)
    _check_rows("solve", a, b)
    if a.ndim == 2 and b.ndim > 2:  # one matrix a: all right sides become columns of one b
        return _as_columns(a, b)
    return apply(solve_op, _same_lead("solve", a, b))


def _of_vectors(a: Tensor, b: Tensor) -> Tensor:
    out = solve(a, reshape(b, (*b.shape, 1)))
    return reshape(out, out.shape[:-1])


def _as_columns(a: Tensor, b: Tensor) -> Tensor:
    lead = tuple(range(b.ndim - 2))
    rows_first = permute_dims(b, (b.ndim - 2, *lead, b.ndim - 1))
    flat = reshape(rows_first, (rows_first.shape[0], b.size // b.shape[-2] if b.shape[-2] else 0))
    out = reshape(apply(solve_op, (a, flat)), rows_first.shape)
    return permute_dims(out, (*[i + 1 for i in lead], 0, b.ndim - 1))


def _check_rows(name: str, a: Tensor, b: Tensor) -> None:
    if a.shape[-1] != b.shape[-2]:
        raise ShapeError(f"{name}: {a.shape} has {a.shape[-1]} rows, the right side {b.shape} has "
                         f"{b.shape[-2]}", "its second to last axis must be as long; a single "
                         "vector has one axis, a batch of vectors is b[..., None]")


def _same_lead(name: str, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    lead = broadcast(name, a.shape[:-2], b.shape[:-2])
    return expand_to(a, (*lead, *a.shape[-2:])), expand_to(b, (*lead, *b.shape[-2:]))


# ---- solve_triangular

_MAX_ROWS = 32  # rows that are solved at once; larger matrices are halved


def substitute(a: Any, b: Any, upper: bool, unit: bool) -> Any:
    n = a.shape[-1]
    if n <= _MAX_ROWS:
        a = np.triu(a) if upper else np.tril(a)
        if unit:
            np.einsum("...ii->...i", a)[...] = 1
        return np.linalg.solve(a, b)
    h = n // 2
    first, last = (slice(h, n), slice(0, h)) if upper else (slice(0, h), slice(h, n))
    x = substitute(a[..., first, first], b[..., first, :], upper, unit)
    rest = b[..., last, :] - a[..., last, first] @ x
    y = substitute(a[..., last, last], rest, upper, unit)
    return np.concatenate([y, x] if upper else [x, y], axis=-2)


def _triangular_vjp(needs: Any, g: Tensor, out: Tensor, a: Tensor, b: Tensor, upper: bool,
                    unit: bool) -> list[Any]:
    gb = apply(triangular_op, (adjoint(a), g), {"upper": not upper, "unit": unit})
    ga = triangle(-(gb @ adjoint(out)), upper, strict=unit) if needs[0] else None
    return [ga, gb]


triangular_op = lapack("solve_triangular", lambda a, b, upper, unit: b, substitute,
                       _triangular_vjp, _SINGULAR)


def solve_triangular(
    a: Tensor, b: Tensor, *, upper: bool, left: bool = True, unitriangular: bool = False
) -> Tensor:
    """The solutions X of a @ X = b for triangular `a`: (..., n, n), (..., n, k) -> (..., n, k).

    Args:
        a: square matrices, of which one triangle is read.
        b: right sides.
        upper: True reads the upper triangle, False the lower one.
        left: False solves X @ a = b, with `b` (..., k, n). Default True.
        unitriangular: True takes the diagonal as 1 without reading it. Default False.

    Raises:
        ShapeError: the sizes do not fit.
        LinAlgError: a matrix is singular.

    Example:
        >>> import fusewire as fw
        >>> a = fw.tensor([[1.0, 0.0], [2.0, 1.0]])
        >>> fw.linalg.solve_triangular(a, fw.tensor([[1.0], [3.0]]), upper=False)
        tensor([[1.],
                [1.]])
    """
    name = "solve_triangular"
    a, b = factors(name, matrices(name, a, square=True), matrices(name, b))
    if not left:
        out = solve_triangular(matrix_transpose(a), matrix_transpose(b), upper=not upper,
                               unitriangular=unitriangular)
        return matrix_transpose(out)
    _check_rows(name, a, b)
    return apply(triangular_op, _same_lead(name, a, b), {"upper": upper, "unit": unitriangular})


# ---- inverse and determinants

inv_op = lapack("inv", lambda x: x, np.linalg.inv,
                each(lambda g, out, x: -(adjoint(out) @ g @ adjoint(out))), _SINGULAR)


def inv(x: Tensor) -> Tensor:
    """The inverses of matrices (..., n, n).

    Raises:
        ShapeError: the matrices are not square.
        LinAlgError: a matrix is singular.

    Example:
        >>> import fusewire as fw
        >>> fw.linalg.inv(fw.tensor([[2.0, 0.0], [0.0, 4.0]]))
        tensor([[0.5 , 0.  ],
                [0.  , 0.25]])
    """
    return apply(inv_op, (matrices("inv", x, square=True),))


def _numbers(x: TensorType) -> TensorType:
    return TensorType(x.shape[:-2], x.dtype)


def _cofactors(x: Any) -> Any:
    """The transposed inverse times det(x); from singular values for singular matrices."""
    try:
        out = np.linalg.det(x)[..., None, None] * np.linalg.inv(x).mT
        if np.isfinite(out).all():
            return out
    except np.linalg.LinAlgError:
        pass
    u, s, vh = np.linalg.svd(x)
    others = np.where(_diagonal(s), 1, s[..., None, :]).prod(-1)
    return _times_cofactors(u, vh, _diagonal(s) * others[..., None, :]).astype(x.dtype)


def _diagonal(s: Any) -> Any:
    """A mask of the diagonal of the square matrices with the singular values `s`."""
    i = np.arange(s.shape[-1], like=s)
    return i[:, None] == i


def _times_cofactors(u: Any, vh: Any, inner: Any) -> Any:
    """The cofactors of u, times `inner`, times those of vh: the inverses of both are adjoints."""
    sign = np.linalg.det(u) * np.linalg.det(vh)
    return u.conj() @ inner @ vh.conj() * sign[..., None, None]


def _det_hessian(x: Any, t: Any) -> Any:
    """The derivative of the cofactors of x towards t, without a division.

    For x = diag(s) it consists of products of all s but two.
    """
    u, s, vh = np.linalg.svd(x)
    same = _diagonal(s)
    rest = np.where(same, 1, s[..., None, :])  # row i: all but s[i]
    pairs = np.where(same, 0, _before(rest) * _before(rest[..., ::-1])[..., ::-1])
    inside = u.conj().mT @ t @ vh.conj().mT
    own = pairs @ np.diagonal(inside, axis1=-2, axis2=-1)[..., None]
    return _times_cofactors(u, vh, np.where(same, own, -pairs * inside.mT)).astype(x.dtype)


def _before(x: Any) -> Any:
    """The product of the elements before each one, along the last axis."""
    return np.concatenate([np.ones_like(x[..., :1]), np.cumprod(x, -1)[..., :-1]], -1)


def _hessian_vjp(needs: Any, g: Tensor, out: Tensor, x: Tensor, t: Tensor) -> list[Any]:
    """The op is symmetric in t and g. By x: from H[t] = (sum(t * C) C - C t^T C) / det."""
    g = conj_of(g)
    gt = conj_of(apply(hessian_op, (x, g))) if needs[1] else None
    if not needs[0]:
        return [None, gt]
    c, d = apply(cofactors_op, (x,)), scalars(det(x))
    ct, along_g, along_t = matrix_transpose(c), _inner(g, c), _inner(t, c)
    by_c = (along_t * g + along_g * t - g @ ct @ t - t @ ct @ g) / d
    return [conj_of(apply(hessian_op, (x, by_c)) - c * (_inner(g, out) / d)), gt]


def _inner(x: Tensor, y: Tensor) -> Tensor:
    return scalars(reduce.sum(x * y, axis=(-2, -1)))


hessian_op = lapack("det_hessian", lambda x, t: x, _det_hessian, _hessian_vjp)
cofactors_op = lapack("cofactors", lambda x: x, _cofactors, each(
    lambda g, out, x: conj_of(apply(hessian_op, (x, conj_of(g))))))
det_op = lapack("det", _numbers, np.linalg.det, each(
    lambda g, out, x: scalars(g) * conj_of(apply(cofactors_op, (x,)))), onnx="Det")


def det(x: Tensor) -> Tensor:
    """The determinants of matrices: (..., n, n) -> (...).

    The first and second derivatives are right for singular matrices, too; the third one is not.

    Raises:
        ShapeError: the matrices are not square.

    Example:
        >>> import fusewire as fw
        >>> fw.linalg.det(fw.tensor([[2.0, 0.0], [0.0, 4.0]]))
        tensor(8.)
    """
    return apply(det_op, (matrices("det", x, square=True),))


def _slogdet(x: Any) -> Any:
    sign, logabs = np.linalg.slogdet(x)
    return np.stack([sign, logabs.astype(sign.dtype)], axis=-1)


def _slogdet_vjp(g: Tensor, out: Tensor, x: Tensor) -> Tensor:
    """From d log det = tr(A^-1 dA): the real part changes logabsdet, the imaginary part sign."""
    (gs, gl), (sign, _) = unpack(g, (), ()), unpack(out, (), ())
    weight = complex(real(gl), -imag(conj_of(gs) * sign)) if x.dtype.kind == "c" else gl
    return scalars(weight) * adjoint(inv(x))


slogdet_op = lapack("slogdet", lambda x: packed_type(x, x.dtype, (), ()), _slogdet,
                    each(_slogdet_vjp))


class SlogdetResult(NamedTuple):
    """The signs of determinants, and the logarithms of their absolute values: both (...)."""

    sign: Tensor
    logabsdet: Tensor


def slogdet(x: Tensor) -> SlogdetResult:
    """The sign, and the logarithm of the absolute value, of the determinants of (..., n, n).

    The sign of a complex determinant has the absolute value 1. A determinant of 0 has the sign 0
    and the logarithm -inf.

    Raises:
        ShapeError: the matrices are not square.

    Example:
        >>> import fusewire as fw
        >>> fw.linalg.slogdet(fw.tensor([[-1.0, 0.0], [0.0, 1.0]]))
        SlogdetResult(sign=tensor(-1.), logabsdet=tensor(0.))
    """
    x = matrices("slogdet", x, square=True)
    sign, logabs = unpack(apply(slogdet_op, (x,)), (), ())
    return SlogdetResult(sign, real(logabs) if x.dtype.kind == "c" else logabs)
