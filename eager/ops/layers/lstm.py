"""Runs all steps of an LSTM as one op, since eager steps are too small for ops of their own.

One product over all steps computes the part of the gates that does not depend on the state. In the
backward, one product recomputes the gates, and one gives the gradient of the weight. Only the
recurrence runs step by step.
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
    """`count` gates of (n, gates * size), beginning with the gate `first`."""
    return slice_axes(x, (0, first * size), (1, 1), (x.shape[0], count * size))


def lstm_step(gates: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
    """The next (h, c), from the gates i, f, g, o (n, 4 * hidden) before their sigmoid or tanh.

    Hochreiter and Schmidhuber 1997, with the forget gate of Gers et al. 2000.
    """
    n = c.shape[1]
    both = sigmoid(columns(gates, 0, 2, n))
    c = columns(both, 1, 1, n) * c + columns(both, 0, 1, n) * tanh(columns(gates, 2, 1, n))
    return sigmoid(columns(gates, 3, 1, n)) * tanh(c), c


# ---- forwards: (steps * n, 4 * hidden) of the inputs to (steps * n, 2 * hidden), h beside c
def _forward(inputs: Tensor, w: Tensor, h: Tensor, c: Tensor) -> Tensor:
    rows, wt, size = [], transpose(w, 0, 1), h.shape[0]
    for step in range(inputs.shape[0] // size):
        h, c = lstm_step(_rows(inputs, step, size) + matmul(h, wt), c)
        rows.append(concat_same_dtype([h, c], 1))
    return concat_same_dtype(rows, 0)


def _forward_arrays(inputs: Any, w: Any, h: Any, c: Any) -> Any:
    size, n = c.shape
    out, wt = np.empty((len(inputs), 2 * n), inputs.dtype), np.ascontiguousarray(w.T)
    for start in range(0, len(inputs), size):
        gates = h @ wt
        gates += inputs[start:start + size]
        i, f, new, o = _activated(gates, n)
        row = out[start:start + size]
        c = np.add(np.multiply(f, c, out=f), np.multiply(i, new, out=i), out=row[:, n:])
        h = np.multiply(o, np.tanh(c), out=row[:, :n])
    return out


def _activated(gates: Any, n: int) -> tuple[Any, ...]:
    """The activated gates i, f, g and o; i, f and o overwrite their inputs."""
    parts = tuple(gates[:, k * n:(k + 1) * n] for k in range(4))
    new = np.tanh(parts[2])
    np.negative(gates, out=gates)
    np.exp(gates, out=gates)
    gates += 1
    np.reciprocal(gates, out=gates)
    return parts[0], parts[1], new, parts[3]


# ---- backwards: (steps * n, 5 * hidden), the gradients of the gates beside those of c before
def _backward(g: Tensor, out: Tensor, inputs: Tensor, w: Tensor, h: Tensor, c: Tensor) -> Tensor:
    size, n = c.shape
    rows: list[Tensor] = []
    to_h = to_c = None
    for step in reversed(range(inputs.shape[0] // size)):
        before = concat_same_dtype([h, c], 1) if not step else _rows(out, step - 1, size)
        h_before, c_before = columns(before, 0, 1, n), columns(before, 1, 1, n)
        gates = _rows(inputs, step, size) + matmul(h_before, transpose(w, 0, 1))
        c_after, slope = columns(_rows(out, step, size), 1, 1, n), _rows(g, step, size)
        gh, gc = columns(slope, 0, 1, n), columns(slope, 1, 1, n)
        if rows:
            gh, gc = gh + to_h, gc + to_c
        i, f, new, o = (how(columns(gates, k, 1, n)) for k, how in enumerate(
            (sigmoid, sigmoid, tanh, sigmoid)))
        t = tanh(c_after)
        gc = gc + gh * o * (1 - t * t)
        slopes = concat_same_dtype([gc * new * (i * (1 - i)), gc * c_before * (f * (1 - f)),
                                    gc * i * (1 - new * new), gh * t * (o * (1 - o))], 1)
        to_h, to_c = matmul(slopes, w), gc * f
        rows.append(concat_same_dtype([slopes, to_c], 1))
    return concat_same_dtype(rows[::-1], 0)


def _backward_arrays(g: Any, out: Any, inputs: Any, w: Any, h: Any, c: Any) -> Any:
    size, n = c.shape
    before = np.concatenate([np.concatenate([h, c], 1), out[:-size]])
    gates = before[:, :n] @ w.T
    gates += inputs
    i, f, new, o = _activated(gates, n)
    t = np.tanh(out[:, n:])
    by_h, by_c = o * (1 - t * t), np.stack(
        [new * (i * (1 - i)), before[:, n:] * (f * (1 - f)), i * (1 - new * new)], 1)
    of_o = t * (o * (1 - o))
    result = np.empty((len(inputs), 5 * n), inputs.dtype)
    to_h = to_c = inputs.dtype.type(0)
    for start in reversed(range(0, len(inputs), size)):
        rows = slice(start, start + size)
        gh = g[rows, :n] + to_h
        gc = g[rows, n:] + to_c + gh * by_h[rows]
        row = result[rows]
        np.multiply(by_c[rows], gc[:, None], out=row[:, :3 * n].reshape(size, 3, n))
        np.multiply(of_o[rows], gh, out=row[:, 3 * n:4 * n])
        to_c = np.multiply(gc, f[rows], out=row[:, 4 * n:])
        to_h = row[:, :4 * n] @ w
    return result


def _in_float32(formula: Callable[..., Any]) -> Callable[..., Any]:
    """`formula` of arrays, with 16-bit floats rounded once, at its end."""
    def impl(xp: Any, *arrays: Any) -> Any:
        dtype = arrays[0].dtype
        if dtype.itemsize > 2:
            return formula(*arrays)
        return formula(*[a.astype(dtypes.float32) for a in arrays]).astype(dtype)

    return impl


def _vjp(needs: Any, g: Tensor, out: Tensor, inputs: Tensor, w: Tensor, h: Tensor, c: Tensor
         ) -> list[Tensor | None]:
    size, n = c.shape
    grads = call(backward_op, g, out, inputs, w, h, c)
    slopes, first = columns(grads, 0, 4, n), _rows(grads, 0, size)
    before = columns(out, 0, 1, n)
    before = concat_same_dtype(
        [h, slice_axes(before, (0, 0), (1, 1), (out.shape[0] - size, n))], 0)
    return [slopes, matmul(transpose(slopes, 0, 1), before) if needs[1] else None,
            matmul(columns(first, 0, 4, n), w) if needs[2] else None, columns(first, 4, 1, n)]


def _wide(count: int, inputs: TensorType, c: TensorType) -> TensorType:
    return TensorType((inputs.shape[0], count * c.shape[1]), inputs.dtype)


backward_op = composite("lstm_back", _backward, lambda g, out, inputs, w, h, c: _wide(5, inputs, c),
                        _in_float32(_backward_arrays))
lstm_op = composite("lstm", _forward, lambda inputs, w, h, c: _wide(2, inputs, c),
                    _in_float32(_forward_arrays), _vjp)


def lstm(inputs: Tensor, w: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
    """The h and the c of every step, (steps * n, hidden) each, starting from a state (n, hidden).

    Args:
        inputs: the part of the gates i, f, g, o that inputs and biases give at every step,
            (steps * n, 4 * hidden).
        w: the weight of h for the gates, (4 * hidden, hidden).
    """
    both, n = call(lstm_op, inputs, w, h, c), c.shape[1]
    return columns(both, 0, 1, n), columns(both, 1, 1, n)
