"""Rows of linear algebra: factors, solutions, eigenvalues, singular values."""

from __future__ import annotations

from typing import Any

import numpy as np
from rows.row import Array, Bad, Make, arrays, c16, f4, f8, i8, numbers, row

import fusewire as fw
from fusewire.eager.core.dispatch import apply
from fusewire.eager.linalg.core import adjoint
from fusewire.eager.linalg.solve import cofactors_op, hessian_op

L = fw.linalg
ROUGH = 2e-4  # relative, for float32: what a condition number of some tens leaves


def square(*lead: int, n: int = 3, dtype: Any = f4) -> Make:
    """Matrices that are far from singular, with eigenvalues that differ."""
    return lambda rng: (np.asarray(numbers(rng, (*lead, n, n), dtype, -1, 1)
                                   + np.diag(np.arange(2, 2 + n)), dtype),)


def tall(m: int, n: int, *lead: int, dtype: Any = f4) -> Make:
    return lambda rng: (np.asarray(numbers(rng, (*lead, m, n), dtype, -1, 1)
                                   + 2 * np.eye(m, n), dtype),)


def beside(left: Make, *shape: int, dtype: Any = f4) -> Make:
    """The input that `left` makes, and random numbers of `shape`."""
    return lambda rng: (*left(rng), numbers(rng, shape, dtype))


MATRICES = [square(), square(2, dtype=f8), square(n=1), square(0), square(n=0), square(dtype=c16)]


def symmetric(x: Any) -> Any:
    return x + adjoint(x)


def positive(x: Any) -> Any:
    return x @ adjoint(x)


def h(x: Array) -> Array:
    return x.conj().mT


# ---- solutions
row("inv", L.inv, MATRICES, np.linalg.inv, tolerance=ROUGH, errors=(
    Bad(lambda: L.inv(fw.zeros(2, 3)), "inv: takes square matrices (..., n, n), got shape (2, 3)"),
    Bad(lambda: L.inv(fw.zeros(3)), "inv: takes square matrices (..., n, n), got shape (3,)"),
    Bad(lambda: L.inv(fw.tensor([[1, 2], [3, 4]])), "inv: takes floating point tensors"),
    Bad(lambda: L.inv(fw.ones(2, 2)), "inv: float32[2, 2]: Singular matrix"),
    Bad(lambda: L.inv(fw.stack([fw.tensor([[1.0, 0.0], [0.0, 1.0]]), fw.ones(2, 2)])),
        "inv: the matrix at (1,) of float32[2, 2, 2]: Singular matrix")))
row("solve", L.solve,
    [beside(square(), 3, 2), beside(square(2, dtype=f8), 2, 3, 2, dtype=f8),
     beside(square(dtype=f8), 4, 3, 2, dtype=f8), beside(square(2, 1), 3, 3, 1),
     beside(square(dtype=c16), 3, 2, dtype=c16), beside(square(), 3, 0), beside(square(0), 3, 2)],
    np.linalg.solve, tolerance=ROUGH, errors=(
        Bad(lambda: L.solve(fw.ones(2, 2), fw.ones(3, 1)), "solve: (2, 2) has 2 rows, the right"),
        Bad(lambda: L.solve(fw.ones(2, 2), fw.ones(2, 1)), "solve: float32[2, 2]: Singular")))
row("solve", L.solve, [beside(square(2, dtype=f8), 3, dtype=f8), beside(square(), 3)],
    lambda a, b: np.linalg.solve(a, b[..., None])[..., 0], tolerance=ROUGH, label="vector")
for upper in (False, True):
    half = np.triu if upper else np.tril
    row("solve_triangular", lambda a, b, u=upper: L.solve_triangular(a, b, upper=u),
        [beside(square(dtype=f8), 2, 3, 2, dtype=f8), beside(square(n=70), 70, 3),
         beside(square(dtype=c16), 3, 1, dtype=c16), beside(square(n=0), 0, 2)],
        lambda a, b, f=half: np.linalg.solve(f(a), b), tolerance=ROUGH, label=f"upper={upper}")
    row("solve_triangular", lambda a, b, u=upper: L.solve_triangular(
            a, b, upper=u, left=False, unitriangular=True),
        [beside(square(dtype=f8), 2, 3, dtype=f8)],
        lambda a, b, f=half: b @ np.linalg.inv(f(a) - np.diag(np.diag(a)) + np.eye(3)),
        tolerance=ROUGH, label=f"right, unit, upper={upper}", errors=(
            Bad(lambda: L.solve_triangular(fw.ones(2, 2), fw.ones(3, 1), upper=True),
                "solve_triangular: (2, 2) has 2 rows"),))

# ---- determinants
row("det", L.det, MATRICES, np.linalg.det, tolerance=ROUGH, errors=(
    Bad(lambda: L.det(fw.zeros(2, 3)), "det: takes square matrices"),))


def cofactors(x: Array) -> Array:
    return np.linalg.det(x)[..., None, None] * np.linalg.inv(x).mT


row("det_hessian", lambda x, t: apply(hessian_op, (x, t)),
    [beside(square(dtype=f8), 3, 3, dtype=f8), beside(square(2), 2, 3, 3),
     beside(square(n=1), 1, 1), beside(square(dtype=c16), 3, 3, dtype=c16),
     beside(square(n=2, dtype=f8), 2, 2, dtype=f8), beside(square(n=0), 0, 0),
     beside(square(0), 0, 3, 3)],
    lambda x, t: (lambda c: (np.sum(t * c, (-2, -1))[..., None, None] * c - c @ t.mT @ c)
                  / np.linalg.det(x)[..., None, None])(cofactors(x)), tolerance=ROUGH)
row("cofactors", lambda x: apply(cofactors_op, (x,)), MATRICES[:4] + MATRICES[5:], cofactors,
    tolerance=ROUGH)
row("slogdet", lambda x: L.slogdet(x).logabsdet, MATRICES, lambda x: np.linalg.slogdet(x)[1],
    tolerance=ROUGH)
row("slogdet", lambda x: L.slogdet(x).sign, MATRICES, lambda x: np.linalg.slogdet(x)[0],
    tolerance=ROUGH, label="sign")

# ---- triangular factors
row("cholesky", lambda x: L.cholesky(positive(x)), MATRICES,
    lambda x: np.linalg.cholesky(x @ h(x)), tolerance=ROUGH, errors=(
        Bad(lambda: L.cholesky(fw.tensor([[1.0, 0.0], [0.0, -1.0]])),
            "cholesky: float32[2, 2]: Matrix is not positive definite"),))
row("cholesky", lambda x: L.cholesky(positive(x), upper=True), [square(2, dtype=f8)],
    lambda x: np.linalg.cholesky(x @ h(x)).mT, tolerance=ROUGH, label="upper")
SHAPES = [square(), tall(4, 3, 2, dtype=f8), tall(4, 2, dtype=c16), tall(2, 5, dtype=f8),
          tall(3, 2, 0), tall(3, 0), tall(0, 3)]
for part in (0, 1):
    row("qr", lambda x, i=part: L.qr(x)[i], SHAPES[:3] + SHAPES[4:6],
        lambda x, i=part: np.linalg.qr(x)[i], tolerance=ROUGH, label="QR"[part], errors=(
            Bad(lambda: L.qr(fw.ones(2)), "qr: takes matrices (..., m, n), got shape (2,)"),
            Bad(lambda: L.qr(fw.ones(2, 2), mode="r"), "qr: mode 'r' is not known")))
row("qr", lambda x: fw.matmul(*L.qr(x)), SHAPES, lambda x: x, tolerance=ROUGH, label="Q @ R")
row("qr", lambda x: fw.matmul(*L.qr(x, mode="complete")), [tall(4, 2), tall(2, 4)], lambda x: x,
    tolerance=ROUGH, label="complete", grad=False)


def eliminated(x: Array) -> tuple[Array, Array]:
    """L and U of one matrix, column by column."""
    m, n = x.shape
    lower, upper = np.zeros((m, 0), x.dtype), x.copy()
    for i in range(min(m, n)):
        pivot = i + (np.abs(upper.real) + np.abs(upper.imag))[i:, i].argmax()
        upper[[i, pivot]], lower[[i, pivot]] = upper[[pivot, i]], lower[[pivot, i]]
        factor = upper[:, i] / upper[i, i] * (np.arange(m) > i)
        lower = np.concatenate([lower, factor[:, None]], 1)
        upper = upper - factor[:, None] * upper[i]
    return lower + np.eye(*lower.shape), upper[:min(m, n)]


LU = [tall(4, 4, dtype=f8), tall(5, 3), tall(3, 5, dtype=c16), tall(1, 1)]
for part in (0, 1):
    row("lu", lambda x, i=part: L.lu(x)[1 + i], LU, lambda x, i=part: eliminated(x)[i],
        tolerance=ROUGH, label="LU"[part], errors=(
            Bad(lambda: L.lu(fw.ones(2)), "lu: takes matrices (..., m, n), got shape (2,)"),))
row("lu", lambda x: fw.einsum("...ij,...jk,...kl->...il", *L.lu(x)), [
    *LU, tall(4, 3, 2, 2), tall(3, 3, 0), tall(0, 2), tall(2, 0), tall(40, 30, dtype=f8)],
    lambda x: x, tolerance=ROUGH, label="P @ L @ U")


# ---- eigenvalues. Vectors have no fixed sign: what is compared is a function of the matrix.
def exp_by_eigh(x: Any) -> Any:
    w, v = L.eigh(symmetric(x))
    return fw.real(v * fw.exp(w)[..., None, :] @ adjoint(v))


def exp_symmetric(x: Array) -> Array:
    w, v = np.linalg.eigh(x + h(x))
    return (v * np.exp(w)[..., None, :] @ h(v)).real


row("eigh", exp_by_eigh, MATRICES, exp_symmetric, tolerance=ROUGH, errors=(
    Bad(lambda: L.eigh(fw.ones(2, 3)), "eigh: takes square matrices"),))
row("eigh", lambda x: L.eigh(symmetric(x)).eigenvalues, MATRICES,
    lambda x: np.linalg.eigvalsh(x + h(x)), tolerance=ROUGH, label="values")
row("eigvalsh", lambda x: L.eigvalsh(symmetric(x)), MATRICES,
    lambda x: np.linalg.eigvalsh(x + h(x)), tolerance=ROUGH)


def cube_by_eig(x: Any) -> Any:
    w, v = L.eig(x)
    return v * (w * w * w)[..., None, :] @ L.inv(v)


row("inv", cube_by_eig, MATRICES, lambda x: (x @ x @ x).astype(complex), tolerance=ROUGH,
    label="of eigenvectors")
row("eig", lambda x: fw.sum(L.eigvals(x) ** 2, -1), MATRICES,
    lambda x: np.trace(x @ x, axis1=-2, axis2=-1).astype(complex), tolerance=ROUGH, errors=(
        Bad(lambda: L.eig(fw.full((2, 2), float("nan"))), "eig: float32[2, 2]: Array must not"),
        Bad(lambda: L.eigvals(fw.ones(2)), "eigvals: takes square matrices")))

row("eig", lambda x: fw.abs(L.eig(x).eigenvectors), [square(2, dtype=f8), square(dtype=c16)],
    lambda x: np.abs(np.linalg.eig(x)[1]), tolerance=ROUGH, label="sizes of vectors")


# ---- singular values
def exp_by_svd(x: Any) -> Any:
    u, s, vh = L.svd(x, full_matrices=False)
    return u * fw.exp(s)[..., None, :] @ vh


def exp_singular(x: Array) -> Array:
    u, s, vh = np.linalg.svd(x, full_matrices=False)
    return u * np.exp(s)[..., None, :] @ vh


WIDE = [tall(3, 4, dtype=f8), *SHAPES[:3], tall(3, 2, 0)]
row("svd", exp_by_svd, WIDE, exp_singular, tolerance=ROUGH, errors=(
    Bad(lambda: L.svd(fw.ones(2)), "svd: takes matrices (..., m, n), got shape (2,)"),
    Bad(lambda: L.svd(fw.full((2, 2), float("nan"))), "svd: float32[2, 2]: Array must not")))
row("svd", lambda x: L.svd(x).S, WIDE, lambda x: np.linalg.svd(x)[1], tolerance=ROUGH,
    label="values, full_matrices")
row("svdvals", L.svdvals, [*WIDE, tall(0, 2)], lambda x: np.linalg.svd(x, compute_uv=False),
    tolerance=ROUGH)
row("svdvals", lambda x: L.matrix_norm(x, ord="nuc"), WIDE[:2],
    lambda x: np.linalg.svd(x)[1].sum(-1), tolerance=ROUGH, label="nuclear norm")
row("pinv", L.pinv, [*WIDE, tall(2, 0)], np.linalg.pinv, tolerance=ROUGH)
row("pinv", lambda a, b: L.pinv(a @ b),
    [lambda rng: (numbers(rng, (4, 2), f8), numbers(rng, (2, 3), f8))],
    lambda a, b: np.linalg.pinv(a @ b), tolerance=ROUGH, label="of rank 2")
row("pinv", lambda a, b: L.lstsq(a, b).solution, [beside(tall(5, 2, dtype=f8), 5, 3, dtype=f8)],
    lambda a, b: np.linalg.lstsq(a, b, rcond=None)[0], tolerance=ROUGH, label="lstsq")


# ---- functions of matrices
def exponential(x: Array) -> Array:
    """The series, of a small part of the matrix, squared ten times."""
    part, term = x / 1024, np.broadcast_to(np.eye(x.shape[-1]), x.shape)
    total = term
    for i in range(1, 15):
        term = term @ part / i
        total = total + term
    for _ in range(10):
        total = total @ total
    return total


def scaled(by: float, *lead: int, n: int = 3, dtype: Any = f8) -> Make:
    return lambda rng: (numbers(rng, (*lead, n, n), dtype, -by, by),)


row("matrix_exp", L.matrix_exp,
    [*[scaled(by, 2) for by in (0.003, 0.05, 0.2, 0.5, 1.0, 4.0)], scaled(1, dtype=f4),
     scaled(1, dtype=c16), scaled(1, 0), scaled(1, n=1),
     lambda rng: (np.stack([np.zeros((2, 2)), np.eye(2), 9 * np.ones((2, 2))]),)],
    exponential, tolerance=1e-4, errors=(
        Bad(lambda: L.matrix_exp(fw.ones(2, 3)), "matrix_exp: takes square matrices"),))
row("contract", lambda x: L.matrix_power(x, 5), [square(2, dtype=f8)],
    lambda x: np.linalg.matrix_power(x, 5), label="matrix_power", tolerance=ROUGH)
row("inv", lambda x: L.matrix_power(x, -3), [square(2, dtype=f8)],
    lambda x: np.linalg.matrix_power(x, -3), label="matrix_power", tolerance=ROUGH)
row("contract", lambda a, b, c: L.multi_dot([a, b, c]),
    [lambda rng: tuple(numbers(rng, s, f8) for s in ((2, 9), (9, 3), (3,)))],
    lambda a, b, c: a @ b @ c, label="multi_dot", errors=(
        Bad(lambda: L.multi_dot([fw.ones(2, 2)]), "multi_dot: takes two or more matrices, got 1"),
        Bad(lambda: L.multi_dot([fw.ones(2, 2), fw.ones(2), fw.ones(2, 2)]),
            "multi_dot: operand 1 of shape (2,) is no matrix")))
row("multiply", lambda x: L.vander(x, N=4), [arrays((2, 3), dtypes=f8), arrays((3,), dtypes=i8)],
    lambda x: x[..., None] ** np.arange(4), label="vander")
