"""Families of matrix products."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..program import Draw, Program, family


@family
def one_row_product(draw: Draw) -> Program:
    """One row, or a few, by a matrix: a layer of a network at batch 1."""
    draw.either_precision()
    rows, k = draw.pick(1, 1, 1, 2, 3), draw.size(64, 8192)
    n = draw.rest(1 << 16, 1 << 22, k)
    transposed = draw.pick(True, False)

    def function(xp: Any, weights: Any, x: Any) -> Any:
        w, b = weights
        return xp.tanh(x @ (w.T if transposed else w) + b)

    stored = draw.matrix(n, k) if transposed else draw.matrix(k, n)
    return Program(f"({rows}, {k}) @ ({k}, {n}){'.T' if transposed else ''}", function,
                   [draw.normal(rows, k)], [stored, draw.normal(n)])


@family
def matrix_vector(draw: Draw) -> Program:
    """A matrix, which changes from call to call, by a vector from either side."""
    draw.either_precision()
    n = draw.size(16, 4096)
    m, left = draw.rest(1 << 14, 1 << 22, n), draw.pick(True, False)

    def function(xp: Any, weights: Any, a: Any, x: Any) -> Any:
        return x @ a if left else a @ x

    return Program(f"({m}, {n}), vector {'left' if left else 'right'}", function,
                   [draw.normal(m, n), draw.normal(m if left else n)])


@family
def small_batched_products(draw: Draw) -> Program:
    """Many products of small matrices."""
    draw.either_precision()
    m, k, n = (draw.size(2, 32) for _ in range(3))
    if draw.pick(True, False):
        m = k = n
    batch = draw.rest(1 << 12, 1 << 18, max(m, n) * k)
    transposed = draw.pick(True, False)

    def function(xp: Any, weights: Any, a: Any, b: Any) -> Any:
        return a @ (xp.permute(b, (0, 2, 1)) if transposed else b)

    b = draw.normal(batch, n, k) if transposed else draw.normal(batch, k, n)
    return Program(f"{batch} of ({m}, {k}) @ ({k}, {n}){'.T' if transposed else ''}", function,
                   [draw.normal(batch, m, k), b])


@family
def skinny_product(draw: Draw) -> Program:
    """A product with a short axis: the rows, the columns or the sum."""
    draw.either_precision()
    sizes = [draw.size(2, 24), draw.size(64, 1024)]
    sizes.append(draw.rest(1 << 18, 1 << 23, *sizes))
    m, k, n = (sizes[i] for i in draw.rng.permutation(3))

    def function(xp: Any, weights: Any, a: Any, b: Any) -> Any:
        return a @ b

    return Program(f"({m}, {k}) @ ({k}, {n})", function, [draw.normal(m, k), draw.normal(k, n)])


@family
def odd_product(draw: Draw) -> Program:
    """A product of matrices of medium and odd sizes, either of them transposed."""
    draw.either_precision()
    m, k, n = (draw.size(24, 700) for _ in range(3))
    first, second = draw.pick(True, False), draw.pick(True, False)

    def function(xp: Any, weights: Any, a: Any, b: Any) -> Any:
        return (a.T if first else a) @ (b.T if second else b)

    shapes = (k, m) if first else (m, k), (n, k) if second else (k, n)
    return Program(f"{'T' if first else 'N'}{'T' if second else 'N'} {m}, {k}, {n}", function,
                   [draw.normal(*s) for s in shapes])


@family
def einsum(draw: Draw) -> Program:
    """A contraction of two tensors with several axes."""
    spec = draw.pick("bij,bkj->bik", "bhid,bhjd->bhij", "abc,cd->abd", "nchw,oc->nohw",
                     "bik,bkj->bji", "ijk,kl->lij", "bnd,bnd->bn")
    size = {a: draw.size(4, 40) for a in "abcdhijklnow"}
    first, second = spec.split("->")[0].split(",")

    def function(xp: Any, weights: Any, a: Any, b: Any) -> Any:
        return xp.einsum(spec, a, b)

    return Program(f"{spec} {({a: size[a] for a in sorted({*first, *second})})}", function,
                   [draw.normal(*[size[a] for a in names]) for names in (first, second)])


@family
def matrix_function(draw: Draw) -> Program:
    """A matrix exponential by its series, or an inverse square root by Newton's iteration."""
    draw.either_precision()
    n, steps, newton = draw.size(8, 256), draw.size(3, 8), draw.pick(True, False)

    def function(xp: Any, weights: Any, a: Any) -> Any:
        (eye,) = weights
        if newton:
            inverse = eye
            for _ in range(steps):
                inverse = 0.5 * inverse @ (3.0 * eye - a @ inverse @ inverse)
            return inverse
        total, term = eye, eye
        for i in range(1, steps):
            term = term @ a / i
            total = total + term
        return total

    noise = draw.normal(n, n, scale=0.1 / n ** 0.5)
    eye = np.eye(n, dtype=draw.dtype)
    return Program(f"{'newton' if newton else 'exp'} {n}, {steps} steps", function,
                   [noise @ noise.T + eye if newton else noise], [eye])
