"""Families of recurrences, with their steps written out."""

from __future__ import annotations

from typing import Any

from ..program import Draw, Program, family


@family
def recurrent_cell(draw: Draw) -> Program:
    """Steps of a plain, GRU or LSTM cell."""
    batch, wide, hidden = draw.pick(1, 4, 16, 64), draw.size(8, 128), draw.size(16, 160)
    steps, kind = draw.size(4, 24), draw.pick("plain", "gru", "lstm")
    gates = {"plain": 1, "gru": 3, "lstm": 4}[kind]

    def sigmoid(xp: Any, x: Any) -> Any:
        return 1.0 / (1.0 + xp.exp(-x))

    def function(xp: Any, weights: Any, xs: Any, h: Any) -> Any:
        wx, wh, b = weights
        c = h
        for t in range(steps):
            a, r = xs[t] @ wx + b, h @ wh
            if kind == "plain":
                h = xp.tanh(a + r)
            elif kind == "gru":
                s = sigmoid(xp, a[:, :2 * hidden] + r[:, :2 * hidden])
                new = xp.tanh(a[:, 2 * hidden:] + s[:, :hidden] * r[:, 2 * hidden:])
                h = s[:, hidden:] * h + (1.0 - s[:, hidden:]) * new
            else:
                z = a + r
                s = sigmoid(xp, z[:, :3 * hidden])
                c = s[:, hidden:2 * hidden] * c + s[:, :hidden] * xp.tanh(z[:, 3 * hidden:])
                h = s[:, 2 * hidden:] * xp.tanh(c)
        return h

    return Program(f"{kind}, {steps} steps, batch {batch}, {wide}-{hidden}", function,
                   [draw.normal(steps, batch, wide), draw.normal(batch, hidden)],
                   [draw.matrix(wide, gates * hidden), draw.matrix(hidden, gates * hidden),
                    draw.normal(gates * hidden)])


@family
def iteration(draw: Draw) -> Program:
    """Steps of a differential equation for many small systems, by a Runge-Kutta method."""
    draw.either_precision()
    n, steps, step = draw.size(64, 1 << 16), draw.size(2, 8), 0.01

    def slope(u: Any) -> list[Any]:
        x, y, z = u
        return [10.0 * (y - x), x * (28.0 - z) - y, x * y - 8.0 / 3.0 * z]

    def function(xp: Any, weights: Any, x: Any, y: Any, z: Any) -> Any:
        u = [x, y, z]
        for _ in range(steps):
            a = slope(u)
            b = slope([p + 0.5 * step * q for p, q in zip(u, a)])
            u = [p + step * q for p, q in zip(u, b)]
        return tuple(u)

    return Program(f"{n} systems, {steps} steps", function, [draw.normal(n) for _ in range(3)])
