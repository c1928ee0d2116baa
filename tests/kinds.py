"""Defines one small program for each kind of kernel, at any size, for tests of the machine code:
the memory that it touches, or code for other processors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from oracle import recorded, tensors

import fusewire as fw
import fusewire.nn.functional as F
from fusewire.capture.graph.graph import Graph
from fusewire.eager.ops.indexing.index_put import index_put

SIZES = [1, 2, 7, 15, 16, 17, 31, 33, 65]  # around the widths of vectors
Shape = tuple[int, ...]


class Places(NamedTuple):
    """An input of integers from 0 to `below` - 1."""

    shape: Shape
    below: int


@dataclass(frozen=True)
class Kind:
    """A function of tensors, and the shapes of its inputs at a size."""

    function: Callable[..., Any]
    inputs: Callable[[int], tuple[Shape | Places, ...]]

    def graph(self, size: int, dtype: Any, seed: int = 0) -> tuple[Graph, list[Any]]:
        """The graph of a call at that size, and its inputs."""
        rng = np.random.default_rng(seed)
        fw.manual_seed(seed)
        arrays = [made_of(shape, np.dtype(dtype), rng) for shape in self.inputs(size)]
        return recorded(self.function, *tensors(arrays))


def made_of(shape: Shape | Places, dtype: Any, rng: np.random.Generator) -> Any:
    """An array of random numbers of that shape."""
    if isinstance(shape, Places):
        return rng.integers(0, shape.below, shape.shape)
    if dtype.kind == "f":
        return rng.standard_normal(shape).astype(dtype)
    return rng.integers(-9 if dtype.kind == "i" else 0, 10, shape).astype(dtype)


def gradient(function: Callable[..., Any], count: int = 1) -> Callable[..., Any]:
    """A function that returns the result and its gradients by the first `count` inputs."""

    def both(*xs: Any) -> Any:
        leaves = [x.detach().requires_grad_() for x in xs[:count]]
        out = function(*leaves, *xs[count:])
        return out.detach(), *fw.grad(out.sum(), leaves)

    return both


def adam(w: Any, g: Any, m: Any, v: Any) -> Any:
    """One step of Adam."""
    m, v = m + 0.1 * (g - m), v * v * 0.999 + 0.001 * g * g
    return w - 1e-3 * m / (fw.sqrt(v) + 1e-8), m, v


def forces(x: Any) -> Any:
    """The sum of a function of the distances to all other points."""
    apart = x[None] - x[:, None]
    return fw.sum(apart * ((apart * apart).sum(-1, keepdims=True) + 0.1) ** -1.5, 1)


def attention(q: Any, k: Any, v: Any) -> Any:
    return fw.softmax(q @ fw.matrix_transpose(k) * 0.3, -1) @ v


def causal(q: Any, k: Any, v: Any) -> Any:
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


def layer_norm(x: Any, w: Any, b: Any) -> Any:
    return F.layer_norm(x, w.shape, w, b)


FLOATS = {
    "pointwise": Kind(lambda x, y: fw.tanh(x * y) + fw.exp(-x * x), lambda n: ((3, n), (n,))),
    "choices": Kind(lambda x: (fw.where(x > 0, x, fw.expm1(x)), x < 0), lambda n: ((n, 3),)),
    "softmax": Kind(gradient(lambda x: fw.softmax(x, -1) * x), lambda n: ((3, n),)),
    "log_softmax of columns": Kind(lambda x: fw.log_softmax(x, 0), lambda n: ((n, 5),)),
    "layer_norm": Kind(gradient(layer_norm, 3), lambda n: ((5, n), (n,), (n,))),
    "variance": Kind(lambda x: (fw.var(x, 0), fw.std(x + 1.0)), lambda n: ((n + 1, 5),)),
    "means": Kind(lambda x: fw.mean(x, (0, 2)), lambda n: ((3, n, 4),)),
    "matmul": Kind(gradient(lambda x, y: fw.relu(x @ y), 2), lambda n: ((n, n + 3), (n + 3, 5))),
    "matmul, turned": Kind(lambda x, y: x.T @ y.T + 1.0, lambda n: ((n + 1, n), (70, n + 1))),
    "matmul, first turned": Kind(lambda x, y: x.T @ y, lambda n: ((33, n), (33, n + 2))),
    "matmul, second turned": Kind(lambda x, y: x @ y.T, lambda n: ((n, 40), (n + 1, 40))),
    "matmul, batched": Kind(lambda x, y: x @ y, lambda n: ((2, 3, n), (2, n, n + 1))),
    "matmul, deep": Kind(lambda x, y: x @ y, lambda n: ((3, 1030 + n), (1030 + n, n))),
    "matrix by vector": Kind(lambda x, y: (x @ y, y @ x.T), lambda n: ((n, n + 2), (n + 2,))),
    "attention": Kind(attention, lambda n: ((2, n, 6), (2, n, 6), (2, n, 5))),
    "attention, whole": Kind(gradient(causal, 3), lambda n: ((2, n + 3, 6), (2, n, 6), (2, n, 5))),
    "conv": Kind(gradient(lambda x, w: F.conv2d(x, w, padding=1), 2),
                 lambda n: ((2, 3, 5, n), (4, 3, 3, 3))),
    "conv, by tiles": Kind(gradient(lambda x, w: F.conv2d(x, w, padding=1), 2),
                           lambda n: ((2, 16, 13, n + 7), (18, 16, 3, 3))),
    "conv, strided": Kind(lambda x, w: F.conv2d(x, w, stride=2), lambda n: ((1, 2, 7, n + 3),
                                                                            (3, 2, 3, 2))),
    "conv, depthwise": Kind(lambda x, w: F.conv2d(x, w, stride=(1, 2), padding=2, groups=4),
                            lambda n: ((1, 4, 5, n + 2), (4, 1, 3, 4))),
    "max_pool": Kind(gradient(lambda x: F.max_pool2d(x, 2)), lambda n: ((1, 2, 4, n + 1),)),
    "pairs": Kind(forces, lambda n: ((n + 60, 3),)),
    "adam": Kind(adam, lambda n: ((n,), (n,), (n,), (n,))),
    "dropout": Kind(lambda x: F.dropout(x, 0.5), lambda n: ((3, n),)),
    "cross_entropy": Kind(gradient(lambda x, y: F.cross_entropy(x, y)),
                          lambda n: ((6, n), Places((6,), n))),
}
NUMBERS = {  # of floats and integers
    "sums": Kind(lambda x: (x.sum(), x.sum(0), x.sum(1)), lambda n: ((n, n + 2),)),
    "extremes": Kind(lambda x: (fw.max(x, 1), fw.min(x, 0), fw.argmax(x, 1)), lambda n: ((n, 5),)),
    "cumulative": Kind(lambda x: fw.cumsum(x, 1) + fw.cumsum(x, 0), lambda n: ((4, n),)),
    "gather": Kind(lambda x, i: x[i] * 2, lambda n: ((n, 3), Places((5, 7), n))),
    "take_along_axis": Kind(lambda x, i: fw.take_along_axis(x, i, axis=1),
                            lambda n: ((3, n), Places((3, n), n))),
    "put": Kind(lambda x, v, i: index_put(x, v * 2, i), lambda n: ((n, 3), (5, 7, 3),
                                                                  Places((5, 7), n))),
    "put, of columns": Kind(lambda x, v, i: index_put(x, v, i), lambda n: ((4, n), (9, n),
                                                                          Places((9,), 4))),
    "slices": Kind(lambda x: (x[1:, ::-1] + x[:-1, ::1], x[-1:, 1::2] * 2, x[::3]),
                   lambda n: ((4, n),)),
    "interleaved": Kind(lambda x, y: (x.T * 2, y[:, 1] - y[:, 4], x[:, ::-1] + 1),
                        lambda n: ((n, 3), (n, 7))),
    "pad": Kind(lambda x: fw.pad(x, ((1, 0), (2, 3))) + 1, lambda n: ((3, n),)),
    "concat": Kind(lambda x, y: fw.concat([x, y * 2, x[:, :1]], 1), lambda n: ((3, n), (3, n + 1))),
    "transpose": Kind(lambda x: (x.T * 2, fw.permute_dims(x.reshape(2, -1, 2), (2, 1, 0))),
                      lambda n: ((4, n),)),
    "transposed operand": Kind(lambda x, y: x * 2 + y.T, lambda n: ((n + 3, 21), (21, n + 3))),
    "roll and flip": Kind(lambda x: fw.roll(x, 1, -1) - fw.flip(x, axis=-1), lambda n: ((2, n),)),
    "repeat": Kind(lambda x: (fw.repeat(x, 3), fw.tile(x, (2, 1))), lambda n: ((n, 2),)),
    "lower half": Kind(lambda x: fw.tril(x) + fw.triu(x, k=1) * 2, lambda n: ((n, n),)),
    "diagonal": Kind(lambda x: fw.diagonal(x) + x[0], lambda n: ((n, n),)),
    "products of small numbers": Kind(
        lambda x, y: x.astype(fw.int32) @ fw.minimum(y, 127).astype(fw.int32).T,
        lambda n: ((5, 4 * n), (7, 4 * n))),
}
KINDS = {**FLOATS, **NUMBERS}


def cases() -> list[tuple[str, str]]:
    """The names of all kinds, with the dtypes of each."""
    return [(name, dtype) for dtype in ("float32", "float64") for name in KINDS] + \
           [(name, dtype) for dtype in ("int32", "uint8", "int64") for name in NUMBERS]
