"""Families of computations element by element."""

from __future__ import annotations

from typing import Any

from ..program import Draw, Program, family


@family
def formula(draw: Draw) -> Program:
    """A random chain of functions of two arrays and a row."""
    draw.either_precision()
    m = draw.size(16, 1024)
    n, depth = draw.rest(1 << 10, 1 << 21, m), draw.size(2, 12)
    names = [draw.pick("exp", "tanh", "sin", "sqrt", "log", "add", "multiply", "relu", "divide",
                       "sigmoid", "maximum") for _ in range(depth)]

    def function(xp: Any, weights: Any, x: Any, y: Any, row: Any) -> Any:
        for name in names:
            if name in ("exp", "tanh", "sin"):
                x = getattr(xp, name)(0.5 * x)
            elif name in ("sqrt", "log"):
                x = getattr(xp, name)(xp.abs(x) + 1.0)
            elif name == "relu":
                x = xp.relu(x)
            elif name == "sigmoid":
                x = 1.0 / (1.0 + xp.exp(-x))
            elif name == "divide":
                x = x / (y * y + 1.0)
            else:
                other = y if name == "add" else row
                x = x + other if name == "add" else x * other if name == "multiply" \
                    else xp.maximum(x, other)
        return x

    return Program(f"({m}, {n}) {' '.join(names)}", function,
                   [draw.normal(m, n), draw.normal(m, n), draw.normal(n)])


@family
def masks(draw: Draw) -> Program:
    """Choices by comparisons, and sums of what they choose."""
    draw.either_precision()
    m = draw.size(64, 1024)
    n, summed = draw.rest(1 << 13, 1 << 21, m), draw.pick(True, False)

    def function(xp: Any, weights: Any, x: Any, y: Any) -> Any:
        inside = (x > -0.5) & (y < 0.7)
        chosen = xp.where(inside, x * y, xp.where(x > y, x, -y))
        return xp.sum(chosen, 1) if summed else chosen

    return Program(f"({m}, {n}){' summed' if summed else ''}", function,
                   [draw.normal(m, n), draw.normal(m, n)])


@family
def powers(draw: Draw) -> Program:
    """Powers by constants, integers and halves among them."""
    draw.either_precision()
    n = draw.size(1 << 12, 1 << 21)
    exponents = [draw.pick(-2.5, -1.5, -0.5, 0.25, 0.75, 1.5, 2.5, 3.0, 4.0, 5.0, -2.0, 2.2)
                 for _ in range(draw.pick(1, 2))]

    def function(xp: Any, weights: Any, x: Any) -> Any:
        return sum(x ** e for e in exponents)

    return Program(f"{n} of {exponents}", function, [draw.positive(n)])


@family
def optimizer_step(draw: Draw) -> Program:
    """Adam's step for one parameter, or momentum's."""
    m = draw.size(64, 2048)
    n, adam = draw.rest(1 << 12, 1 << 21, m), draw.pick(True, True, False)

    def function(xp: Any, weights: Any, p: Any, g: Any, first: Any, second: Any) -> Any:
        if not adam:
            first = 0.9 * first + g
            return p - 0.01 * first, first
        first = 0.9 * first + 0.1 * g
        second = 0.999 * second + 0.001 * g * g
        step = 0.01 * (first / 0.19) / (xp.sqrt(second / 0.002) + 1e-8)
        return p * 0.9999 - step, first, second

    return Program(f"{'adam' if adam else 'momentum'} ({m}, {n})", function,
                   [draw.normal(m, n), draw.normal(m, n), draw.normal(m, n), draw.positive(m, n)])


@family
def stencil(draw: Draw) -> Program:
    """Steps of heat or waves on a grid: sums of neighbours."""
    draw.either_precision()
    side, steps, wraps = draw.size(64, 1024), draw.size(1, 4), draw.pick(True, False)

    def neighbours(xp: Any, u: Any) -> Any:
        if wraps:
            return xp.roll(u, 1, 0) + xp.roll(u, -1, 0) + xp.roll(u, 1, 1) + xp.roll(u, -1, 1)
        wide = xp.pad(u, 1)
        return wide[2:, 1:-1] + wide[:-2, 1:-1] + wide[1:-1, 2:] + wide[1:-1, :-2]

    def function(xp: Any, weights: Any, u: Any, v: Any) -> Any:
        for _ in range(steps):
            v = v + 0.1 * (neighbours(xp, u) - 4.0 * u)
            u = u + 0.1 * v
        return u, v

    return Program(f"({side}, {side}), {steps} steps, {'periodic' if wraps else 'padded'}",
                   function, [draw.normal(side, side), draw.normal(side, side)])


@family
def dual_formula(draw: Draw) -> Program:
    """A formula of broadcast columns and rows, as of grids and outer products."""
    draw.either_precision()
    m = draw.size(32, 1500)
    n = draw.rest(1 << 14, 1 << 21, m)

    def function(xp: Any, weights: Any, x: Any, y: Any) -> Any:
        r = xp.sqrt(x[:, None] * x[:, None] + y * y + 1.0)
        return xp.sin(r) / r

    return Program(f"({m}, 1), ({n},)", function, [draw.normal(m), draw.normal(n)])
