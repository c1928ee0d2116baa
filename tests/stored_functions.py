"""Functions of tensors whose dtypes are only stored: they cast, move, compare and write."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import fusewire as fw


def numbers(dtype: Any) -> tuple[Any, Any]:
    """Floats, and some of their kind in a dtype that is only stored."""
    x = fw.from_numpy(np.random.default_rng(0).standard_normal((33, 20)).astype(np.float32) * 4)
    return x, x.flip(0).astype(dtype)


def written(x: Any, q: Any) -> Any:
    """A copy of q with parts written to."""
    out = fw.zeros(q.shape, dtype=q.dtype)
    out[3:7] = q[3:7]
    out[0] = 1
    out[:, 2].copy_(x[:, 2])
    return out


FUNCTIONS: dict[str, Callable[[Any, Any], Any]] = {
    "round trip": lambda x, q: (x.astype(q.dtype).astype(fw.float32) * 2 + x, q.astype(fw.float16)),
    "move": lambda x, q: fw.concat([q, q.flip(0)])[:, ::2].T,
    "compare": lambda x, q: (q == q.flip(0), q != 1, q.astype(fw.bool)),
    "where": lambda x, q: fw.where(x > 0, q, 1),
    "take": lambda x, q: (q[fw.tensor([5, 3, 3, 0])], q[:, 3], q[x[:, 0] > 0]),
    "create": lambda x, q: (q, q.reshape(-1), fw.ones(3, dtype=q.dtype), fw.zeros(4, dtype=q.dtype),
                            fw.zeros(4, dtype=fw.uint8), fw.pad(q, ((1, 1), (2, 2)))),
    "put": lambda x, q: fw.index_put(q, (fw.tensor([1, 0]),), q[4:6]),
    "along": lambda x, q: fw.take_along_axis(q, fw.zeros((33, 2), dtype=fw.int64), axis=1),
    "write": written,
    "product": lambda x, q: (x @ q.astype(fw.float32).T).astype(q.dtype),
    "sum": lambda x, q: (x + q.astype(fw.float32)).sum(0).astype(q.dtype),
}


def leaves(result: Any) -> tuple[Any, ...]:
    """The results of a function, as a tuple."""
    return result if isinstance(result, tuple) else (result,)
