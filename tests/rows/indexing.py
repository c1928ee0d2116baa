"""Rows of elements written at places known only at run time."""

from __future__ import annotations

from typing import Any

import numpy as np
from rows.row import Array, Bad, arrays, c16, f4, f8, i4, i8, numbers, row

import fusewire as fw
from fusewire.eager.ops.indexing import index_put


def inputs(x: Any, i: Any, dtype: Any = f4, of: Any = i8) -> Any:
    """A maker of a tensor of shape `x`, of values for indices of shape `i`, and of those."""
    return lambda rng: (numbers(rng, x, dtype), numbers(rng, (*i, *x[1:]), dtype),
                        rng.integers(0, x[0], i).astype(of))


def written(x: Array, v: Array, i: Array) -> Array:
    """One value after the other."""
    out = np.array(x)
    for place in np.ndindex(i.shape):
        out[i[place]] = v[place]
    return out


row("index_put", index_put.index_put,
    [inputs((5, 2), (3,)), inputs((4,), (2, 3), f8), inputs((3, 2), (), f8, i4),
     inputs((6,), (9,), i8), inputs((3, 2), (0,)), inputs((3,), (7,), c16),
     lambda rng: (np.zeros(3), np.arange(4.0), np.array([1, 0, 1, 1]))],
    written, errors=(
        Bad(lambda: index_put.index_put(fw.zeros(3), fw.zeros(1), fw.tensor([3])),
            "index_put: index 3 is out of range for axis 0 with size 3"),))


def put_into(x: Any, v: Any) -> Any:
    y = fw.eager.ops.elementwise.pointwise.alias(x)
    y[fw.tensor([2, 0, 2]), 1:] = v
    return y


def put_reference(x: Array, v: Array) -> Array:
    out = np.array(x)
    out[[2, 0, 2], 1:] = v
    return out


row("index_put", put_into, [arrays((3, 3), (3, 2)), arrays((3, 3), (2,), dtypes=f8),
                            arrays((3, 3), ())], put_reference, label="beside a slice")


def taken(x: Any) -> Any:
    return x[1, :, fw.tensor([0, -1, 0])]


row("take", taken, [arrays((2, 3, 4)), arrays((2, 3, 4), dtypes=f8)],
    lambda x: x[1, :, [0, -1, 0]], label="indices apart")
row("take", lambda x: x[fw.tensor([[1], [0]]), None, fw.tensor([0, 2], dtype=fw.uint8)],
    [arrays((2, 3, 4)), arrays((2, 3, 4), dtypes=f8)],
    lambda x: x[np.array([[1], [0]]), None, np.array([0, 2])], label="indices that broadcast")
