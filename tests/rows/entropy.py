"""Rows of cross entropies."""

from __future__ import annotations

from typing import Any

import numpy as np
from rows.row import Array, Bad, arrays, f4, f8, i8, row, u1

import fusewire as fw
from fusewire.eager.ops.elementwise.composite import call
from fusewire.eager.ops.layers import entropy


def softmaxed(x: Array) -> Array:
    e = np.exp(x - x.max(1, keepdims=True, initial=-np.inf))
    return e / e.sum(1, keepdims=True)


def rows(x: Array, t: Array, ignore: int = entropy.NOTHING) -> Array:
    t = t.astype(int)
    kept = t != ignore
    return np.where(kept, -np.log(softmaxed(x))[np.arange(len(t)), np.where(kept, t, 0)], 0)


def slopes(g: Array, x: Array, t: Array, ignore: int = entropy.NOTHING) -> Array:
    hit = np.arange(x.shape[1]) == t[:, None]
    return np.where((t != ignore)[:, None], (softmaxed(x) - hit) * g[:, None], 0)


def ignored(rng: Any, ignore: int = entropy.NOTHING) -> tuple[Array, ...]:
    """Logits, and class numbers of which two count for nothing."""
    return rng.uniform(-3, 3, (5, 4)).astype(f4), np.array([1, ignore, 3, 0, ignore])


SHAPES = [arrays((5, 4), (5,), dtypes=(f4, i8), low=0), arrays((0, 4), (0,), dtypes=(f8, i8))]
row("cross_entropy_rows", entropy.cross_entropy_rows,
    [*SHAPES, arrays((3, 4), (3,), dtypes=(f8, u1)), arrays((2, 300), (2,), dtypes=(f8, u1)),
     ignored], rows, tolerance=1e-5,
    errors=(
        Bad(lambda: entropy.cross_entropy_rows(fw.zeros(2, 3), fw.tensor([0, 3])),
            "cross_entropy: target 3 is not one of 3 classes"),
        Bad(lambda: entropy.cross_entropy_rows(fw.zeros(2, 3), fw.tensor([-1, 0])),
            "cross_entropy: target -1 is not one of 3 classes")))
row("cross_entropy_rows", lambda x, t: entropy.cross_entropy_rows(x, t, 1), SHAPES,
    lambda x, t: rows(x, t, 1), label="a class is ignored", tolerance=1e-5)
row("cross_entropy_mean", entropy.cross_entropy_mean, [SHAPES[0], ignored],
    lambda x, t: rows(x, t).sum() / (t != entropy.NOTHING).sum(), tolerance=1e-5)
for ignore in (entropy.NOTHING, 1):
    row("cross_entropy_rows_grad",
        lambda g, x, t, i=ignore: call(entropy.rows_grad_op, g, x, t, ignore=i),
        [arrays((5,), (5, 4), (5,), dtypes=(f4, f4, i8), low=0),
         arrays((0,), (0, 4), (0,), dtypes=(f8, f8, i8)),
         lambda rng, i=ignore: (rng.uniform(-1, 1, 5).astype(f4), *ignored(rng, i))],
        lambda g, x, t, i=ignore: slopes(g, x, t, i), label=f"ignore={ignore}", tolerance=1e-5)
row("binary_cross_entropy", lambda x, t: call(entropy.binary_op, x, t),
    [arrays(shape, shape, dtypes=dtype, low=0.05, high=0.95)
     for shape, dtype in (((3, 4), f4), ((3, 4), f8), ((), f4), ((0, 4), f8))],
    lambda x, t: -t * np.log(x) - (1 - t) * np.log1p(-x), tolerance=1e-5,
    errors=(Bad(lambda: call(entropy.binary_op, fw.tensor([1.5]), fw.ones(1)),
                "binary_cross_entropy: the input holds numbers that are not between 0 and 1"),))
