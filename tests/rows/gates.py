"""Rows of an LSTM's steps as one op, of their way back, and of recurrent layers, step by step."""

from __future__ import annotations

from typing import Any

import numpy as np
from rows.row import Array, arrays, f8, row

from fusewire.eager.ops.elementwise.composite import call
from fusewire.eager.ops.layers import lstm, recurrent


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
    row("lstm", lambda *x: call(lstm.lstm_op, *x),
        [arrays(*inputs, low=-1, high=1), arrays(*inputs, dtypes=f8, low=-1, high=1)],
        forward, label=f"{steps} steps", tolerance=1e-5)
    row("lstm_back", lambda *x: call(lstm.backward_op, *x),
        [arrays(both, both, *inputs, low=-1, high=1),
         arrays(both, both, *inputs, dtypes=f8, low=-1, high=1)],
        backward, label=f"{steps} steps", tolerance=1e-5)


# ---- layers: the gates in ONNX's order, as its page of operators has them
def sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def lstm_after(x: Array, h: Array, c: Array, w: Array, r: Array, b: Array) -> tuple[Array, ...]:
    i, o, f, new = np.split(x @ w.T + h @ r.T + b.reshape(2, -1).sum(0), 4, axis=1)
    c = sigmoid(f) * c + sigmoid(i) * np.tanh(new)
    return sigmoid(o) * np.tanh(c), c


def gru_after(x: Array, h: Array, w: Array, r: Array, b: Array) -> tuple[Array, ...]:
    given, before = x @ w.T + np.split(b, 2)[0], h @ r.T + np.split(b, 2)[1]
    (z, reset, new), (z_h, reset_h, new_h) = (np.split(y, 3, axis=1) for y in (given, before))
    z = sigmoid(z + z_h)
    return ((1 - z) * np.tanh(new + sigmoid(reset + reset_h) * new_h) + z * h,)


def rnn_after(how: Any) -> Any:
    return lambda x, h, w, r, b: (how(x @ w.T + h @ r.T + b.reshape(2, -1).sum(0)),)


AFTER: dict[str, Any] = {
    "LSTM": lstm_after, "GRU": gru_after, "RNN_TANH": rnn_after(np.tanh),
    "RNN_RELU": rnn_after(lambda x: np.maximum(x, 0))}


def layer(x: Array, w: Array, r: Array, *rest: Array, kind: str, directions: tuple[str, ...],
          bias: bool, part: str) -> Array:
    made = []
    for k, direction in enumerate(directions):
        b = rest[0][k] if bias else np.zeros(2 * r.shape[1])
        state = [s[k] for s in rest[bias:]] or [np.zeros((x.shape[1], r.shape[2]))] * 2
        state, found = state[:1 + (kind == "LSTM")], []
        for given in x[::-1] if direction == "reverse" else x:
            state = list(AFTER[kind](given, *state, w[k], r[k], b))
            found.append(state[0])
        y = np.stack(found[::-1] if direction == "reverse" else found)
        made.append({"y": y, "h": state[0], "c": state[-1]}[part])
    return np.stack(made, 1 if part == "y" else 0)


BOTH = ("forward", "reverse")
for kind, gates_of, directions, bias, begun, part in (
        ("LSTM", 4, BOTH, True, True, "y"), ("LSTM", 4, ("reverse",), True, False, "c"),
        ("LSTM", 4, BOTH, False, True, "h"), ("GRU", 3, BOTH, True, True, "y"),
        ("GRU", 3, ("forward",), False, False, "h"), ("RNN_TANH", 1, BOTH, True, False, "y"),
        ("RNN_RELU", 1, ("reverse",), True, True, "h")):
    steps, size, wide, n, count = 3, 2, 3, 2, len(directions)
    shapes = ((steps, size, wide), (count, gates_of * n, wide), (count, gates_of * n, n),
              *[(count, 2 * gates_of * n)] * bias,
              *[(count, size, n)] * (begun * (1 + (kind == "LSTM"))))
    settings = {"kind": kind, "directions": directions, "bias": bias, "part": part}
    row("recurrent", lambda *x, settings=settings: call(recurrent.layer_op, *x, **settings),
        [arrays(*shapes, low=-1, high=1), arrays(*shapes, dtypes=f8, low=-1, high=1)],
        lambda *x, settings=settings: layer(*x, **settings),
        label=f"{kind} {' and '.join(directions)} {part}", tolerance=1e-5)
