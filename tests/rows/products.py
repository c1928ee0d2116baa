"""Rows of scaled sums of products, diagonals, distances, and solutions by Cholesky factors."""

from __future__ import annotations

from typing import Any

import numpy as np
from rows.row import Array, Bad, Make, arrays, c16, f4, f8, i8, numbers, row

import fusewire as fw

# ---- beta * x + alpha * product
SUMS = {  # a name, the shapes of the operands, and the product
    "addmm": (((3, 5), (3, 4), (4, 5)), np.matmul),
    "addmv": (((3,), (3, 4), (4,)), np.matmul),
    "addr": (((3, 4), (3,), (4,)), np.outer),
    "baddbmm": (((2, 3, 5), (2, 3, 4), (2, 4, 5)), np.matmul),
    "addbmm": (((3, 5), (2, 3, 4), (2, 4, 5)), lambda a, b: np.matmul(a, b).sum(0)),
}
for name, (shapes, product) in SUMS.items():
    op = "multiply" if name == "addr" else "contract"
    makers = [arrays(*shapes, dtypes=f8), arrays(*shapes, dtypes=i8), arrays(*shapes),
              arrays((), *shapes[1:], dtypes=f8)]
    row(op, getattr(fw, name), makers,
        lambda x, a, b, p=product: x + p(a, b), label=name, tolerance=5e-6, errors=(
            Bad(lambda f=name, s=shapes: getattr(fw, f)(fw.ones(7, 7), *map(fw.ones, s[1:])),
                f"{name}"),
            Bad(lambda f=name: getattr(fw, f)(fw.ones(1), fw.ones(1, 1, 1, 1), fw.ones(1)),
                f"{name}: takes an operand with"),))
    row("multiply", lambda x, a, b, f=name: getattr(fw, f)(x, a, b, beta=0.5, alpha=-2), makers[:1],
        lambda x, a, b, p=product: 0.5 * x - 2 * p(a, b), label=f"{name}, scaled", tolerance=5e-6)
    row(op, lambda x, a, b, f=name: getattr(fw, f)(x * fw.nan, a, b, beta=0), makers[:1],
        lambda x, a, b, p=product: p(a, b), label=f"{name}, beta=0", grad=False)
row("contract", fw.scaled_matmul, [
    arrays((3, 4), (4, 5), (3, 1), (1, 5), dtypes=f8), arrays((2, 3, 4), (4, 5), (), (1,)),
    arrays((3, 4), (4, 5), (1, 1), (1, 5), dtypes=(np.dtype("int8"), np.dtype("int8"), f4, f4)),
    arrays((0, 4), (4, 5), (), ())],
    lambda a, b, s, t: np.matmul(a * s, b * t), label="scaled_matmul", tolerance=5e-6, errors=(
        Bad(lambda: fw.scaled_matmul(fw.ones(3), fw.ones(3, 2), 1, 1),
            "takes matrices, got shapes"),
        Bad(lambda: fw.scaled_matmul(fw.ones(3, 3), fw.ones(3, 2), fw.ones(1, 3), 1),
            "scale_a has shape (1, 3), but a of shape (3, 3) takes one number, or (3, 1)"),
        Bad(lambda: fw.scaled_matmul(fw.ones(3, 3), fw.ones(3, 2), 1, fw.ones(2)),
            "scale_b has shape (2,), but b of shape (3, 2) takes one number, or (1, 2)"),
        Bad(lambda: fw.scaled_matmul(fw.ones(3, 3, dtype=fw.complex64), fw.ones(3, 2), 1, 1),
            "takes real numbers, not complex64")))
row("multiply", lambda x, a, b: fw.addcmul(x, a, b, value=0.5),
    [arrays((2, 3), (3,), (2, 1), dtypes=f8)], lambda x, a, b: x + 0.5 * a * b, label="addcmul",
    errors=(Bad(lambda: fw.addcmul(fw.ones(2), fw.ones(3), 1), "addcmul: shapes (2,) and (3,)"),))
row("divide", lambda x, a, b: fw.addcdiv(x, a, b, value=0.5),
    [arrays((2, 3), (3,), (2, 1), dtypes=f8, low=0.5)], lambda x, a, b: x + 0.5 * a / b,
    label="addcdiv",
    errors=(Bad(lambda: fw.addcdiv(fw.ones(2), fw.ones(3), 1), "addcdiv: shapes (2,) and (3,)"),))
row("contract", fw.inner, [arrays((2, 3), (4, 3), dtypes=f8), arrays((3,), (2, 3), dtypes=i8)],
    np.inner, label="inner", errors=(
        Bad(lambda: fw.inner(fw.ones(2), fw.ones(3)), "inner: the last axes of (2,) and (3,)"),))
row("multiply", fw.inner, [arrays((), (4, 3), dtypes=f8)], np.inner, label="inner with a number")


# ---- diagonals
def blocks(*xs: Array) -> Array:
    xs = tuple(map(np.atleast_2d, xs))
    out = np.zeros([sum(x.shape[i] for x in xs) for i in (0, 1)], np.result_type(*xs))
    i = j = 0
    for x in xs:
        out[i:i + x.shape[0], j:j + x.shape[1]] = x
        i, j = i + x.shape[0], j + x.shape[1]
    return out


row("unslice", fw.block_diag, [arrays((2, 3), (1, 2), (3, 1), dtypes=f8), arrays((), (3,), (2, 2)),
                               arrays((2, 2), (0, 3), dtypes=(i8, f4))], blocks,
    label="block_diag", errors=(
        Bad(lambda: fw.block_diag(fw.ones(1, 1, 1)), "block_diag: takes matrices, got shape"),
        Bad(lambda: fw.block_diag(), "block_diag: takes a list or tuple of at least one")))


def embedded(x: Array, offset: int) -> Array:
    n = x.shape[-1] + abs(offset)
    out = np.zeros((*x.shape[:-1], n, n), x.dtype)
    for index in np.ndindex(x.shape[:-1]):
        out[index] = np.diag(x[index], offset)
    return out


def with_diagonal(x: Array, v: Array, offset: int) -> Array:
    out = np.array(x)
    for index in np.ndindex(v.shape):
        out[(*index[:-1], index[-1] + max(-offset, 0), index[-1] + max(offset, 0))] = v[index]
    return out


for offset in (0, 1, -2):
    row("unslice", lambda x, k=offset: fw.diag_embed(x, k), [arrays((3,)), arrays((2, 0, 3)),
                                                             arrays((2, 3), dtypes=i8)],
        lambda x, k=offset: embedded(x, k), label=f"diag_embed {offset}", errors=(
            Bad(lambda: fw.diag_embed(fw.ones(())), "diag_embed: takes vectors (..., k)"),))
    row("unslice", lambda x, k=offset: fw.diagflat(x, k), [arrays((3,)), arrays((2, 3)),
                                                           arrays((), dtypes=i8)],
        lambda x, k=offset: np.diagflat(x, k), label=f"diagflat {offset}")
    for shape in ((3, 4), (2, 4, 3), (2, 2)):
        count = np.diagonal(np.zeros(shape[-2:]), offset).size
        row("put_slice", lambda x, v, k=offset: fw.diagonal_scatter(x, v, k),
            [arrays(shape, (*shape[:-2], count)),
             arrays(shape, (*shape[:-2], count), dtypes=(f8, i8))],
            lambda x, v, k=offset: with_diagonal(x, v, k),
            label=f"diagonal_scatter {offset}, {shape}", errors=(
                Bad(lambda: fw.diagonal_scatter(fw.ones(2), 1), "diagonal_scatter: takes tensors"),
                Bad(lambda: fw.diagonal_scatter(fw.ones(2), fw.ones(2)), "needs matrices"),
                Bad(lambda: fw.diagonal_scatter(fw.ones(2, 2), fw.ones(3)),
                    "diagonal_scatter: values (3,) for diagonals (2,)")))


# ---- distances
def distances(x: Array, y: Array, p: float) -> Array:
    return np.linalg.norm(x[..., :, None, :] - y[..., None, :, :], p, -1)


for p in (0, 1, 2, 3, np.inf):
    row("subtract", lambda x, y, p=p: fw.cdist(x, y, p),
        [arrays((3, 4), (5, 4), dtypes=f8), arrays((2, 1, 3, 2), (4, 2)), arrays((0, 2), (3, 2))],
        lambda x, y, p=p: distances(x, y, p), label=f"cdist, p={p}", errors=(
            Bad(lambda: fw.cdist(fw.ones(2, 3), fw.ones(2, 4)), "cdist: rows of shapes (2, 3)"),
            Bad(lambda: fw.cdist(fw.ones(3), fw.ones(2, 3)), "cdist: rows of shapes (3,)")))
    row("subtract", lambda x, y, p=p: fw.dist(x, y, p), [arrays((3, 4), (4,), dtypes=f8)],
        lambda x, y, p=p: np.linalg.norm((x - y).ravel(), p), label=f"dist, p={p}")


# ---- Cholesky factors
def factors(*lead: int, dtype: Any = f8) -> Make:
    """Right sides and lower triangles that are far from singular."""
    def make(rng: np.random.Generator) -> tuple[Array, Array]:
        low = np.tril(numbers(rng, (*lead, 3, 3), dtype), -1) * dtype.type(0.3) + np.eye(3) * 2
        return numbers(rng, (*lead, 3, 2), dtype), low.astype(dtype)

    return make


def gram(low: Array, upper: bool) -> Array:
    adjoint = np.conj(np.swapaxes(low, -1, -2))
    return adjoint @ low if upper else low @ adjoint


def triangle(x: Any, upper: bool) -> Any:
    return x.mT.conj() if upper else x


FACTORS = [factors(), factors(2), factors(dtype=c16), factors(dtype=f4)]
for upper in (False, True):
    row("solve_triangular", lambda b, t, u=upper: fw.cholesky_solve(b, triangle(t, u), u), FACTORS,
        lambda b, t: np.linalg.solve(gram(t, False), b), label=f"cholesky_solve, upper={upper}",
        tolerance=1e-5, errors=(
            Bad(lambda: fw.cholesky_solve(fw.ones(3), fw.eye(3)), "cholesky_solve: takes matrices"),
            Bad(lambda: fw.cholesky_solve(fw.ones(2, 1), fw.eye(3)), "cholesky_solve: right sides"),
            Bad(lambda: fw.cholesky_inverse(fw.ones(2, 3)), "cholesky_inverse: takes square")))
    row("solve_triangular", lambda b, t, u=upper: fw.cholesky_inverse(triangle(t, u), u) @ b,
        FACTORS, lambda b, t: np.linalg.solve(gram(t, False), b), tolerance=1e-5,
        label=f"cholesky_inverse, upper={upper}")
row("slogdet", lambda x: fw.logdet(x @ x.mT), [arrays((2, 3, 3), dtypes=f8)],
    lambda x: 2 * np.log(np.abs(np.linalg.det(x))), label="logdet", tolerance=1e-5)
row("slogdet", fw.logdet, [lambda rng: (np.array([[[-1.0, 0], [0, 1]], [[0, 0], [0, 1]]]),)],
    lambda x: np.array([np.nan, -np.inf]), label="logdet of a negative one and 0", grad=False)
