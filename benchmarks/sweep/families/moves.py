"""Families of strided and permuted reads."""

from __future__ import annotations

from typing import Any

from ..program import Draw, Program, family


@family
def strided_reads(draw: Draw) -> Program:
    """A formula of every second or third element, or of interleaved halves, along either axis."""
    draw.either_precision()
    n = draw.size(64, 2048) // 12 * 12
    m, step = max(12, draw.rest(1 << 14, 1 << 21, n) // 12 * 12), draw.pick(2, 2, 3, 4)
    kind = draw.pick("columns", "rows", "complex", "reversed")

    def function(xp: Any, weights: Any, x: Any) -> Any:
        if kind == "rows":
            return x[::step] * x[1::step]
        if kind == "reversed":
            return xp.flip(x, (1,)) + x
        a, b = x[:, ::step], x[:, 1::step]
        return xp.stack([a * a - b * b, 2.0 * a * b], 2) if kind == "complex" else a * b + a

    return Program(f"{kind} ({m}, {n}), step {step}", function, [draw.normal(m, n)])


@family
def permutations(draw: Draw) -> Program:
    """A tensor with permuted axes, scaled, as between layouts of images or of heads."""
    draw.either_precision()
    shape = [draw.size(2, 96) for _ in range(3)]
    shape.append(draw.rest(1 << 13, 1 << 21, *shape))
    shape = [shape[i] for i in draw.rng.permutation(4)]
    axes = tuple(int(i) for i in draw.rng.permutation(4))

    def function(xp: Any, weights: Any, x: Any) -> Any:
        return xp.permute(x, axes) * 2.0 + 1.0

    return Program(f"{tuple(shape)} by {axes}", function, [draw.normal(*shape)])


@family
def patches(draw: Draw) -> Program:
    """An image cut into patches, and a linear layer over them."""
    batch, side, count = draw.pick(1, 2, 8), draw.pick(4, 8, 16), draw.size(4, 14)
    channels, wide = draw.pick(1, 3, 4), draw.size(32, 256)

    def function(xp: Any, weights: Any, x: Any) -> Any:
        cut = x.reshape(batch, channels, count, side, count, side)
        rows = xp.permute(cut, (0, 2, 4, 3, 5, 1)).reshape(batch, count * count, -1)
        return rows @ weights[0] + weights[1]

    return Program(f"batch {batch}, {count} x {count} of {side}, {channels}-{wide}", function,
                   [draw.normal(batch, channels, count * side, count * side)],
                   [draw.matrix(side * side * channels, wide), draw.normal(count * count, wide)])


@family
def joined(draw: Draw) -> Program:
    """Arrays joined along an axis, with a formula on the way, and a shuffle of channels."""
    m = draw.size(64, 1024)
    n, parts, axis = draw.rest(1 << 13, 1 << 19, m), draw.size(2, 6), draw.pick(0, 1)

    def function(xp: Any, weights: Any, *xs: Any) -> Any:
        return xp.concat([xp.tanh(x) if i % 2 else x * 0.5 for i, x in enumerate(xs)], axis)

    return Program(f"{parts} of ({m}, {n}) along {axis}", function,
                   [draw.normal(m, n) for _ in range(parts)])
