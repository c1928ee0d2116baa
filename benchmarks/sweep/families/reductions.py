"""Families of reductions, scans and sorts."""

from __future__ import annotations

from typing import Any

from ..program import Draw, Program, family


@family
def softmax(draw: Draw) -> Program:
    """A softmax, or the logarithm of a sum of exponentials, along either axis."""
    draw.either_precision()
    n = draw.size(8, 8192)
    m, axis = draw.rest(1 << 13, 1 << 21, n), draw.pick(1, 1, 0)
    kind = draw.pick("softmax", "logsumexp", "masked")

    def function(xp: Any, weights: Any, x: Any) -> Any:
        if kind == "logsumexp":
            return xp.logsumexp(x, axis)
        return xp.softmax(xp.where(x > 1.0, x - 100.0, x) if kind == "masked" else x, axis)

    return Program(f"{kind} ({m}, {n}) along {axis}", function, [draw.normal(m, n)])


@family
def column_statistics(draw: Draw) -> Program:
    """Means and variances of columns, or columns standardized by them."""
    draw.either_precision()
    n = draw.size(4, 2048)
    m, standardized = draw.rest(1 << 13, 1 << 21, n), draw.pick(True, False)

    def function(xp: Any, weights: Any, x: Any) -> Any:
        mean, var = xp.mean(x, 0), xp.var(x, 0)
        return (x - mean) / xp.sqrt(var + 1e-5) if standardized else (mean, var, xp.amax(x, 0))

    return Program(f"({m}, {n}){' standardized' if standardized else ''}", function,
                   [draw.normal(m, n)])


@family
def axis_reductions(draw: Draw) -> Program:
    """A sum, mean, maximum or norm over some axes of a tensor."""
    draw.either_precision()
    shape = [draw.size(2, 64) for _ in range(3)]
    shape.append(draw.rest(1 << 13, 1 << 21, *shape))
    shape = [shape[i] for i in draw.rng.permutation(4)]
    axes = draw.pick((0,), (1,), (2,), (3,), (0, 1), (2, 3), (0, 2), (1, 3), (0, 2, 3))
    kind = draw.pick("sum", "mean", "amax", "norm")

    def function(xp: Any, weights: Any, x: Any) -> Any:
        if kind == "norm":
            return xp.sqrt(xp.sum(x * x, axes))
        return getattr(xp, kind)(x, axes)

    return Program(f"{kind} {tuple(shape)} over {axes}", function, [draw.normal(*shape)])


@family
def norms(draw: Draw) -> Program:
    """A layer, RMS, group, instance or batch normalization."""
    kind = draw.pick("layer", "rms", "group", "instance", "batch")
    wide = draw.size(16, 1024) // 8 * 8 if kind in ("layer", "rms") else draw.size(16, 128) // 8 * 8
    count = draw.rest(1 << 13, 1 << 21, wide)
    side = max(2, round((count / 4) ** 0.5))
    images = kind in ("group", "instance", "batch")

    def function(xp: Any, weights: Any, x: Any) -> Any:
        w, b = weights
        if kind == "layer":
            return xp.layer_norm(x, w, b)
        if kind == "rms":
            return x / xp.sqrt(xp.mean(x * x, -1, True) + 1e-6) * w
        if kind in ("group", "instance"):
            return xp.group_norm(x, 8 if kind == "group" else wide, w, b)
        mean, var = xp.mean(x, (0, 2, 3), True), xp.var(x, (0, 2, 3), True)
        return (x - mean) / xp.sqrt(var + 1e-5) * w.reshape(1, -1, 1, 1) + b.reshape(1, -1, 1, 1)

    shape = (4, wide, side, side) if images else (count, wide)
    return Program(f"{kind} {shape}", function, [draw.normal(*shape)],
                   [draw.positive(wide), draw.normal(wide)])


@family
def cumulative_sums(draw: Draw) -> Program:
    """Sums up to each element, along any axis, and means of windows made from them."""
    draw.either_precision()
    n = draw.size(16, 1 << 14)
    m, axis, moving = draw.rest(1 << 12, 1 << 20, n), draw.pick(0, 1, 1), draw.pick(True, False)

    def function(xp: Any, weights: Any, x: Any) -> Any:
        total = xp.cumsum(x, axis)
        if not moving:
            return total
        return (total[4:] - total[:-4] if axis == 0 else total[:, 4:] - total[:, :-4]) * 0.25

    return Program(f"({max(m, 8)}, {n}) along {axis}{' moving' if moving else ''}", function,
                   [draw.normal(max(m, 8), n)])


@family
def sorting(draw: Draw) -> Program:
    """Sorted rows, the largest elements of rows, or their positions."""
    n = draw.size(16, 1 << 14)
    m, kind = draw.rest(1 << 11, 1 << 18, n), draw.pick("sort", "top", "top", "argmax")
    k = draw.size(1, 8)

    def function(xp: Any, weights: Any, x: Any) -> Any:
        if kind == "top":
            return xp.topk(x, k)
        return xp.sorted(x, 1) if kind == "sort" else xp.argmax(x, 1)

    return Program(f"{kind}{f' {k}' if kind == 'top' else ''} ({m}, {n})", function,
                   [draw.normal(m, n)])


@family
def losses(draw: Draw) -> Program:
    """A loss of a batch: cross entropy, Huber, binary cross entropy, or a cosine distance."""
    n = draw.size(8, 2048)
    m = draw.rest(1 << 12, 1 << 20, n)
    kind = draw.pick("cross entropy", "huber", "binary", "cosine")

    def function(xp: Any, weights: Any, x: Any, y: Any, labels: Any) -> Any:
        if kind == "cross entropy":
            return xp.cross_entropy(x, labels)
        if kind == "huber":
            apart = xp.abs(x - y)
            return xp.mean(xp.where(apart < 1.0, 0.5 * apart * apart, apart - 0.5), (0, 1))
        if kind == "binary":
            hard = xp.where(y > 0.0, xp.like(1.0, y), xp.like(0.0, y))
            return xp.mean(xp.relu(x) - x * hard + xp.log1p(xp.exp(-xp.abs(x))), (0, 1))
        lengths = xp.sqrt(xp.sum(x * x, 1) * xp.sum(y * y, 1))
        return xp.mean(1.0 - xp.sum(x * y, 1) / lengths, 0)

    return Program(f"{kind} ({m}, {n})", function,
                   [draw.normal(m, n), draw.normal(m, n), draw.integers(n, m)])
