"""All steps of an LSTM as one op: eagerly, a step is so small that ops take longer than numbers.

What the gates depend on beside the state before is one product over all steps; so is, on the way
back, what the gates were, and what follows for the weight. Only the recurrence goes step by step.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...arrays import dtypes
from ...arrays.shapes import TensorType
from ...core.tensor import Tensor
from ..elementwise.composite import call, composite
from ..elementwise.pointwise import sigmoid, tanh
from ..products.contract import matmul
from ..shape.concat import concat_same_dtype
from ..shape.view import slice_axes, transpose


def _rows(x: Tensor, step: int, size: int) -> Tensor:
    return slice_axes(x, (step * size, 0), (1, 1), (size, x.shape[1]))


def columns(x: Tensor, first: int, count: int, size: int) -> Tensor:
    """`count` gates of (n, gates * size), from the gate `first` on."""
    return slice_axes(x, (0, first * size), (1, 1), (x.shape[0], count * size))


def lstm_step(gates: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
    """The next (h, c), by gates i, f, g, o (n, 4 * hidden) before their sigmoid or tanh.

    Hochreiter and Schmidhuber 1997, with the forget gate of Gers et al. 2000.
    """
    n = c.shape[1]
    both = sigmoid(columns(gates, 0, 2, n))
    c = columns(both, 1, 1, n) * c + columns(both, 0, 1, n) * tanh(columns(gates, 2, 1, n))
    return sigmoid(columns(gates, 3, 1, n)) * tanh(c), c


# ---- forwards: (steps * n, 4 * hidden) of the inputs to (steps * n, 2 * hidden), h beside c
def _forward(given: Tensor, w: Tensor, h: Tensor, c: Tensor) -> Tensor:
    found, turned, size = [], transpose(w, 0, 1), h.shape[0]
    for step in range(given.shape[0] // size):
        h, c = lstm_step(_rows(given, step, size) + matmul(h, turned), c)
        found.append(concat_same_dtype([h, c], 1))
    return concat_same_dtype(found, 0)


def _forward_arrays(given: Any, w: Any, h: Any, c: Any) -> Any:
    size, n = c.shape
    out, turned = np.empty((len(given), 2 * n), given.dtype), np.ascontiguousarray(w.T)
    for start in range(0, len(given), size):
        gates = h @ turned
        gates += given[start:start + size]
        i, f, new, o = _activated(gates, n)
        row = out[start:start + size]
        c = np.add(np.multiply(f, c, out=f), np.multiply(i, new, out=i), out=row[:, n:])
        h = np.multiply(o, np.tanh(c), out=row[:, :n])
    return out


def _activated(gates: Any, n: int) -> tuple[Any, ...]:
    """i, f, g and o; i, f and o in the place of what they are made of."""
    parts = tuple(gates[:, k * n:(k + 1) * n] for k in range(4))
    new = np.tanh(parts[2])
    np.negative(gates, out=gates)
    np.exp(gates, out=gates)
    gates += 1
    np.reciprocal(gates, out=gates)
    return parts[0], parts[1], new, parts[3]


# ---- backwards: (steps * n, 5 * hidden), the gradients of the gates beside those of c before
def _backward(g: Tensor, out: Tensor, given: Tensor, w: Tensor, h: Tensor, c: Tensor) -> Tensor:
    size, n = c.shape
    found: list[Tensor] = []
    to_h = to_c = None
    for step in reversed(range(given.shape[0] // size)):
        before = concat_same_dtype([h, c], 1) if not step else _rows(out, step - 1, size)
        h_before, c_before = columns(before, 0, 1, n), columns(before, 1, 1, n)
        gates = _rows(given, step, size) + matmul(h_before, transpose(w, 0, 1))
        at, back = columns(_rows(out, step, size), 1, 1, n), _rows(g, step, size)
        gh, gc = columns(back, 0, 1, n), columns(back, 1, 1, n)
        if found:
            gh, gc = gh + to_h, gc + to_c
        i, f, new, o = (how(columns(gates, k, 1, n)) for k, how in enumerate(
            (sigmoid, sigmoid, tanh, sigmoid)))
        t = tanh(at)
        gc = gc + gh * o * (1 - t * t)
        slopes = concat_same_dtype([gc * new * (i * (1 - i)), gc * c_before * (f * (1 - f)),
                                    gc * i * (1 - new * new), gh * t * (o * (1 - o))], 1)
        to_h, to_c = matmul(slopes, w), gc * f
        found.append(concat_same_dtype([slopes, to_c], 1))
    return concat_same_dtype(found[::-1], 0)


def _backward_arrays(g: Any, out: Any, given: Any, w: Any, h: Any, c: Any) -> Any:
    size, n = c.shape
    before = np.concatenate([np.concatenate([h, c], 1), out[:-size]])
    gates = before[:, :n] @ w.T
    gates += given
    i, f, new, o = _activated(gates, n)
    t = np.tanh(out[:, n:])
    by_h, by_c = o * (1 - t * t), np.stack(
        [new * (i * (1 - i)), before[:, n:] * (f * (1 - f)), i * (1 - new * new)], 1)
    of_o = t * (o * (1 - o))
    made = np.empty((len(given), 5 * n), given.dtype)
    to_h = to_c = given.dtype.type(0)
    for start in reversed(range(0, len(given), size)):
        rows = slice(start, start + size)
        gh = g[rows, :n] + to_h
        gc = g[rows, n:] + to_c + gh * by_h[rows]
        row = made[rows]
        np.multiply(by_c[rows], gc[:, None], out=row[:, :3 * n].reshape(size, 3, n))
        np.multiply(of_o[rows], gh, out=row[:, 3 * n:4 * n])
        to_c = np.multiply(gc, f[rows], out=row[:, 4 * n:])
        to_h = row[:, :4 * n] @ w
    return made


def _in_float32(formula: Callable[..., Any]) -> Callable[..., Any]:
    """`formula` of arrays; numbers of 16 bits are rounded once, at its end."""
    def impl(xp: Any, *arrays: Any) -> Any:
        dtype = arrays[0].dtype
        if dtype.itemsize > 2:
            return formula(*arrays)
        return formula(*[a.astype(dtypes.float32) for a in arrays]).astype(dtype)

    return impl


def _vjp(needs: Any, g: Tensor, out: Tensor, given: Tensor, w: Tensor, h: Tensor, c: Tensor
         ) -> list[Tensor | None]:
    size, n = c.shape
    made = call(back_op, g, out, given, w, h, c)
    slopes, first = columns(made, 0, 4, n), _rows(made, 0, size)
    before = columns(out, 0, 1, n)
    before = concat_same_dtype(
        [h, slice_axes(before, (0, 0), (1, 1), (out.shape[0] - size, n))], 0)
    return [slopes, matmul(transpose(slopes, 0, 1), before) if needs[1] else None,
            matmul(columns(first, 0, 4, n), w) if needs[2] else None, columns(first, 4, 1, n)]


def _wide(count: int, given: TensorType, c: TensorType) -> TensorType:
    return TensorType((given.shape[0], count * c.shape[1]), given.dtype)


back_op = composite("lstm_back", _backward, lambda g, out, given, w, h, c: _wide(5, given, c),
                    _in_float32(_backward_arrays))
lstm_op = composite("lstm", _forward, lambda given, w, h, c: _wide(2, given, c),
                    _in_float32(_forward_arrays), _vjp)


def lstm(given: Tensor, w: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
    """The h and the c of every step, (steps * n, hidden) each, from a state (n, hidden) on.

    given: what inputs and biases give to the gates i, f, g, o at every step, (steps * n,
    4 * hidden); w: (4 * hidden, hidden), for what h gives.
    """
    both, n = call(lstm_op, given, w, h, c), c.shape[1]
    return columns(both, 0, 1, n), columns(both, 1, 1, n)
