"""Families of computations over all pairs of rows."""

from __future__ import annotations

from typing import Any

from ..program import Draw, Program, family


@family
def pairwise_forces(draw: Draw) -> Program:
    """Forces between all pairs of points: (n, n, d) reduced along an inner axis."""
    draw.either_precision()
    n, d = draw.size(64, 900), draw.pick(2, 3, 3, 4)
    power, soft = draw.pick(-1.5, -1.5, -0.5, -2.5, -3.0), draw.pick(0.01, 0.1)

    def function(xp: Any, weights: Any, x: Any, mass: Any) -> Any:
        apart = x[None, :, :] - x[:, None, :]
        inverse = (xp.sum(apart * apart, -1) + soft) ** power
        return xp.sum(apart * (inverse * mass[None, :])[:, :, None], 1)

    return Program(f"{n} points of {d}, power {power}", function,
                   [draw.normal(n, d), draw.positive(n)])


@family
def pairwise_kernel(draw: Draw) -> Program:
    """A kernel matrix between two sets of points, and its product with weights."""
    draw.either_precision()
    n, m, d = draw.size(64, 800), draw.size(64, 800), draw.pick(1, 2, 3, 8, 16)
    laplace, summed = draw.pick(True, False), draw.pick(True, False)

    def function(xp: Any, weights: Any, x: Any, y: Any) -> Any:
        apart = x[:, None, :] - y[None, :, :]
        distance = xp.sum(xp.abs(apart) if laplace else apart * apart, -1)
        kernel = xp.exp(-0.5 * distance)
        return kernel @ weights[0] if summed else kernel

    return Program(f"({n}, {m}, {d}) {'l1' if laplace else 'l2'}{' @ w' if summed else ''}",
                   function, [draw.normal(n, d), draw.normal(m, d)], [draw.normal(m, 4)])


@family
def nearest_rows(draw: Draw) -> Program:
    """The nearest of some centres for every point, by a product, and the distance to it."""
    n, m, d = draw.size(256, 8192), draw.size(8, 256), draw.size(4, 64)

    def function(xp: Any, weights: Any, x: Any) -> Any:
        (centres,) = weights
        squares = xp.sum(x * x, 1)[:, None] - 2.0 * (x @ centres.T) + xp.sum(centres * centres, 1)
        return xp.amax(-squares, 1), xp.argmax(-squares, 1)

    return Program(f"({n}, {d}), {m} centres", function, [draw.normal(n, d)], [draw.normal(m, d)])


@family
def transposed_sum(draw: Draw) -> Program:
    """A formula of a matrix and the transpose of another one."""
    draw.either_precision()
    n, m = draw.size(64, 1600), draw.size(64, 1600)
    kind = draw.pick("sum", "symmetric", "batched", "activation")
    batch = draw.size(2, 16)
    if kind == "batched":
        n, m = max(8, n // 8), max(8, m // 8)

    def function(xp: Any, weights: Any, a: Any, b: Any) -> Any:
        if kind == "symmetric":
            return 0.5 * (a + a.T)
        if kind == "batched":
            return a * xp.permute(b, (0, 2, 1)) + a
        return xp.tanh(a - b.T) if kind == "activation" else a + b.T

    m = n if kind == "symmetric" else m
    lead = (batch,) if kind == "batched" else ()
    return Program(f"{kind} {(*lead, n, m)}", function,
                   [draw.normal(*lead, n, m), draw.normal(*lead, m, n)])
