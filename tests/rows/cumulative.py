"""Rows of the scans."""

from __future__ import annotations

from typing import Any

import numpy as np
from rows.row import Array, Bad, arrays, b1, c8, f2, f4, f8, i4, i8, row, special, strided, u1

import fusewire as fw
from fusewire.eager.ops.statistics import cumulative

WIDE = {"b": np.int64, "i": np.int64, "u": np.uint64}


def scan(op: str, call: Any, reference: Any, dtypes: Any, low: float = -3, high: float = 3,
         **more: Any) -> None:
    """Rows of one scan along the first, the middle and the last axis, and along empty ones."""
    bad = (Bad(lambda: call(fw.zeros(2, 3), 2), "axis 2 is out of range for a tensor with 2"),
           Bad(lambda: call(fw.zeros(()), 1), "axis 1 is out of range for a tensor with 1"))
    for axis in (0, 1, -1):
        makers = [arrays((2, 3, 4), dtypes=d, low=low, high=high) for d in dtypes]
        row(op, lambda x, a=axis: call(x, a), makers, lambda x, a=axis: reference(x, a),
            label=f"axis={axis}", errors=bad, **more)
    row(op, lambda x: call(x, 0),
        [arrays((0, 2)), arrays((1, 2)), arrays((130, 2), low=0.9, high=1),
         strided(1, low=low, high=high), special(1), special(1, f8)],
        lambda x: reference(x, 0), label="empty, long, special", **{**more, "tolerance": 1e-5})
    row("alias", lambda x: call(x, -1), [arrays((), dtypes=d) for d in dtypes],
        lambda x: reference(x.reshape(1), 0)[0], label=f"{op}, 0-d", **more)


def summed(x: Array, axis: int) -> Array:
    return np.cumsum(x, axis, dtype=WIDE.get(x.dtype.kind))


def multiplied(x: Array, axis: int) -> Array:
    return np.cumprod(x, axis, dtype=WIDE.get(x.dtype.kind))


scan("cumulative_sum", cumulative.cumsum, summed, (f4, f8, c8, i4, u1, b1))
row("cumulative_sum", lambda x: fw.cumulative_sum(x, axis=0, include_initial=True),
    [arrays((3, 2)), arrays((0, 2)), arrays((3,), dtypes=i8)],
    lambda x: np.concatenate([np.zeros_like(x[:1]) if x.size else np.zeros((1, 2)),
                              np.cumsum(x, 0)]), label="include_initial", errors=(
        Bad(lambda: fw.cumulative_sum(fw.zeros(2, 3)), "cumulative_sum: a tensor of shape"),))
row("cumulative_sum", lambda x: fw.cumulative_sum(x), [arrays((5000,), dtypes=f2, low=0.9, high=1)],
    np.cumsum, label="float16", tolerance=1e-3, grad=False)
scan("cumulative_prod", cumulative.cumprod, multiplied, (f4, f8, c8, i8, b1), low=0.5, high=2)
row("cumulative_prod", lambda x: fw.cumulative_prod(x, axis=1),
    [lambda rng: (np.array([[2.0, 0, 3, 4], [0, 0, 5, 2], [1, 2, 3, 0]]),)],
    lambda x: np.cumprod(x, 1), label="with zeros")
row("cumulative_prod", lambda x: fw.cumulative_prod(x, axis=1, include_initial=True),
    [arrays((2, 3))], lambda x: np.cumprod(np.concatenate([np.ones((2, 1)), x], 1), 1),
    label="include_initial")
scan("cumulative_max", lambda x, axis: cumulative.cummax(x, axis).values, np.maximum.accumulate,
     (f4, f8, i4, u1, b1), smooth=False)
scan("cumulative_min", lambda x, axis: cumulative.cummin(x, axis).values, np.minimum.accumulate,
     (f4, f8, i4, u1, b1), smooth=False)
scan("logcumsumexp", cumulative.logcumsumexp, np.logaddexp.accumulate, (f4, f8), tolerance=1e-5)
