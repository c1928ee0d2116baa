"""Rows of normalization, from its formula, of mean and variance, and of sums of stretches."""

from __future__ import annotations

from typing import Any

import numpy as np
from rows.row import Array, arrays, f8, row, strided

from fusewire.eager.ops.elementwise.composite import call
from fusewire.eager.ops.layers import normalize, pool


def normalized(x: Array, axes: Any, eps: float, centred: bool) -> tuple[Array, Array]:
    x = x - x.mean(axes, keepdims=True) if centred else x
    factor = 1 / np.sqrt((x * x).mean(axes, keepdims=True) + eps)
    return x * factor, factor


def back(g: Array, x: Array, axes: Any, eps: float, centred: bool) -> Array:
    out, factor = normalized(x, axes, eps, centred)
    rest = g - out * (g * out).mean(axes, keepdims=True)
    return (rest - g.mean(axes, keepdims=True) if centred else rest) * factor


def scaled(x: Array, weight: Array, bias: Array | None = None, *, shape: Any, **how: Any) -> Array:
    out = normalized(x, **how)[0] * weight.reshape(shape)
    return out if bias is None else out + bias.reshape(shape)


for shape, axes, eps, centred in (
        ((3, 5), (1,), 1e-5, True), ((3, 4, 5), (1, 2), 0.1, True), ((6, 3), (0,), 1e-5, True),
        ((4, 3, 2, 2), (0, 2, 3), 1e-3, True), ((3, 5), (1,), 1e-5, False)):
    how = {"axes": axes, "eps": eps, "centred": centred}
    more = [strided(1)] if len(shape) == 2 else []
    row("normalize", lambda x, h=how: normalize.normalize(x, **h),
        [arrays(shape), arrays(shape, dtypes=f8), *more],
        lambda x, h=how: normalized(x, **h)[0], label=f"{shape} {axes} {centred}", tolerance=1e-5)
    row("normalize_back", lambda g, x, h=how: call(normalize.backward_op, g, x, **h),
        [arrays(shape, shape), arrays(shape, shape, dtypes=f8)],
        lambda g, x, h=how: back(g, x, **h), label=f"{shape} {axes} {centred}", tolerance=1e-5)


for shape, axes, along, values in (
        ((3, 5), (1,), (5,), 2), ((4, 3, 2, 2), (0, 2, 3), (1, 3, 1, 1), 2),
        ((2, 3, 4), (1, 2), (3, 4), 1)):
    how = {"axes": axes, "eps": 1e-3, "centred": values == 2, "shape": along}
    own = (tuple(n for n in along if n > 1),) * values
    row("normalize_affine", lambda x, *v, h=how: call(normalize.affine_op, x, *v, **h),
        [arrays(shape, *own), arrays(shape, *own, dtypes=f8)],
        lambda x, *v, h=how: scaled(x, *v, **h), label=f"{shape} {axes} {values}", tolerance=1e-5)


for shape, axes in (((6, 3), (0,)), ((4, 3, 2, 2), (0, 2, 3)), ((2, 3, 4), (2,))):
    row("moments", lambda x, a=axes: normalize.moments(x, a),
        [arrays(shape), arrays(shape, dtypes=f8)],
        lambda x, a=axes: np.stack([x.mean(a), x.var(a, ddof=1)]), label=f"{shape} {axes}",
        tolerance=1e-5)


def stretched(x: Array, axis: int, size: int) -> Array:
    """Sums from floor(i n / size) to ceil((i + 1) n / size), one by one."""
    n = x.shape[axis]
    ends = [(i * n // size, -(-(i + 1) * n // size)) for i in range(size)]
    return np.stack([x.take(range(a, b), axis).sum(axis) for a, b in ends], axis)


for shape, axis, size in (((3, 7), 1, 3), ((5, 2, 3), 0, 2), ((2, 3, 2), 1, 7), ((2, 4), 1, 4)):
    row("stretch_sums", lambda x, a=axis, s=size: pool.stretch_sums(x, a, s),
        [arrays(shape), arrays(shape, dtypes=f8)], lambda x, a=axis, s=size: stretched(x, a, s),
        label=f"{shape} {axis} {size}")
