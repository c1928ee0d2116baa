"""Rows of an LSTM's steps as one op, and of their way back, step by step in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
from rows.row import Array, arrays, f8, row

from fusewire.eager.ops import gates
from fusewire.eager.ops.composite import call


def activated(x: Array) -> list[Array]:
    """i, f, g and o of one step."""
    parts = np.split(x, 4, axis=1)
    return [np.tanh(p) if k == 2 else 1 / (1 + np.exp(-p)) for k, p in enumerate(parts)]


def forward(given: Array, w: Array, h: Array, c: Array) -> Array:
    found = []
    for part in np.split(given, len(given) // len(h)):
        i, f, new, o = activated(part + h @ w.T)
        c = f * c + i * new
        h = o * np.tanh(c)
        found.append(np.concatenate([h, c], 1))
    return np.concatenate(found)


def backward(g: Array, out: Array, given: Array, w: Array, h: Array, c: Array) -> Array:
    n, found = c.shape[1], []
    states = [np.concatenate([h, c], 1), *np.split(out, len(given) // len(h))]
    to_h: Any = 0
    to_c: Any = 0
    for part, back, before, after in reversed(list(zip(
            np.split(given, len(states) - 1), np.split(g, len(states) - 1), states, states[1:]))):
        i, f, new, o = activated(part + before[:, :n] @ w.T)
        t = np.tanh(after[:, n:])
        gh = back[:, :n] + to_h
        gc = back[:, n:] + to_c + gh * o * (1 - t ** 2)
        made = [gc * new * i * (1 - i), gc * before[:, n:] * f * (1 - f), gc * i * (1 - new ** 2),
                gh * t * o * (1 - o)]
        to_c = gc * f
        to_h = np.concatenate(made, 1) @ w
        found.append(np.concatenate([*made, to_c], 1))
    return np.concatenate(found[::-1])


for steps, size, n in ((3, 2, 2), (1, 3, 1), (4, 1, 3)):
    inputs = ((steps * size, 4 * n), (4 * n, n), (size, n), (size, n))
    both = (steps * size, 2 * n)
    row("lstm", lambda *x: call(gates.lstm_op, *x),
        [arrays(*inputs, low=-1, high=1), arrays(*inputs, dtypes=f8, low=-1, high=1)],
        forward, label=f"{steps} steps", tolerance=1e-5)
    row("lstm_back", lambda *x: call(gates.back_op, *x),
        [arrays(both, both, *inputs, low=-1, high=1),
         arrays(both, both, *inputs, dtypes=f8, low=-1, high=1)],
        backward, label=f"{steps} steps", tolerance=1e-5)
