"""Rows of attention as one op and of its way back, from the formula over float64."""

from __future__ import annotations

from typing import Any

import numpy as np
from rows.row import Array, arrays, b1, f4, f8, row

from fusewire.eager.ops.elementwise.composite import call
from fusewire.eager.ops.layers import attention
from fusewire.eager.ops.layers.cached_attention import cached_attention_op


def repeated(x: Array, groups: int) -> Array:
    return np.repeat(x, groups, -3) if groups > 1 else x


def shares(q: Array, k: Array, mask: Any, causal: bool, scale: float, groups: int) -> Array:
    """How much each query takes of each key; nothing where it may look at none."""
    scores = q @ np.swapaxes(repeated(k, groups), -1, -2) * scale
    if causal:
        scores = np.where(np.tril(np.ones(scores.shape[-2:], bool)), scores, -np.inf)
    if mask:
        scores = np.where(mask[0], scores, -np.inf) if mask[0].dtype == bool else scores + mask[0]
    top = scores.max(-1, keepdims=True)
    powers = np.exp(scores - np.where(np.isfinite(top), top, 0))
    total = powers.sum(-1, keepdims=True)
    return powers / np.where(total == 0, 1, total)


def forward(q: Array, k: Array, v: Array, *mask: Array, causal: bool, scale: float, groups: int
            ) -> Array:
    return shares(q, k, mask, causal, scale, groups) @ repeated(v, groups)


def summed(x: Array, groups: int) -> Array:
    """The sum of the gradients that a head of keys has from its group."""
    if groups == 1:
        return x
    *lead, heads, rows, columns = x.shape
    return x.reshape(*lead, heads // groups, groups, rows, columns).sum(-3)


def backward(g: Array, out: Array, q: Array, k: Array, v: Array, *mask: Array, causal: bool,
             scale: float, groups: int) -> Array:
    p = shares(q, k, mask, causal, scale, groups)
    along = (g * out).sum(-1, keepdims=True)
    s = p * (g @ np.swapaxes(repeated(v, groups), -1, -2) - along) * scale
    found = (s @ repeated(k, groups), summed(np.swapaxes(s, -1, -2) @ q, groups),
             summed(np.swapaxes(p, -1, -2) @ g, groups))
    return np.concatenate([x.reshape(-1) for x in found])


PLAIN = ((3, 2), (4, 2), (4, 3))
GROUPS = ((2, 4, 3, 2), (2, 2, 3, 2), (2, 2, 3, 1))
for label, shapes, mask, causal, groups in (
        ("", PLAIN, None, False, 1), ("causal", PLAIN, None, True, 1),
        ("a mask", PLAIN, ((3, 4), b1), False, 1), ("numbers", PLAIN, ((4,), f8), True, 1),
        ("groups", GROUPS, None, False, 2),
        ("groups, causal", GROUPS, ((2, 1, 3, 3), b1), True, 2)):
    settings: dict[str, Any] = {"causal": causal, "scale": 0.7, "groups": groups}
    more = [] if mask is None else [mask]
    result = (*shapes[0][:-1], shapes[2][-1])
    for op, given, reference in ((attention.attention_op, shapes, forward),
                                 (attention.backward_op, (result, result, *shapes), backward)):
        makers = [arrays(*given, *[s for s, _ in more], low=-1, high=1, dtypes=(
            *[dtype] * len(given), *[d if d is b1 else dtype for _, d in more]))
            for dtype in (f4, f8)]
        row(op.name, lambda *x, op=op, settings=settings: call(op, *x, **settings), makers,
            lambda *x, reference=reference, settings=settings: reference(*x, **settings),
            label=label, tolerance=1e-5)


def of_cache(q: Array, k: Array, v: Array, table: Array, positions: Array, *, scale: float,
             window: int) -> Array:
    """Attention of each text to the rows in its table, up to the position of a query."""
    keys, values = (np.moveaxis(x[table], 2, 1) for x in (k, v))
    behind = (positions[:, :, None] - np.arange(table.shape[1])) % table.shape[1]
    seen = (behind <= positions[:, :, None]) & (behind < (window or table.shape[1]))
    return forward(q, keys, values, seen[:, None], causal=False, scale=scale,
                   groups=q.shape[1] // k.shape[1])


def cached(dtype: Any) -> Any:
    """Inputs of two texts with two queries, four heads and two heads of keys."""
    floats = arrays((2, 4, 2, 3), (11, 2, 3), (11, 2, 2), low=-1, high=1, dtypes=(dtype,) * 3)
    table, positions = np.arange(10).reshape(2, 5)[::-1], np.array([[-1, 0], [3, 4]])
    return lambda rng: (*floats(rng), table.copy(), positions)


for label, window in (("", 0), ("a window", 2)):
    chosen = {"scale": 0.7, "window": window}
    row(cached_attention_op.name,
        lambda *x, chosen=chosen: call(cached_attention_op, *x, **chosen),
        [cached(f4), cached(f8)],
        lambda *x, chosen=chosen: of_cache(*x, **chosen), label=label, tolerance=1e-5)
