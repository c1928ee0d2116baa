"""Small functions with arguments of unknown size, one for each kind of computation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from unknown_sizes import recorded

import fusewire as fw
import fusewire.nn.functional as F
from fusewire.capture.graph.graph import Graph


class Row(NamedTuple):
    """A function of arrays; the names in their shapes are unknown sizes.

    `indices`: for each argument that holds indices, their upper limit; `least`: the smallest size
    that the function accepts; `ulps`: how far a sum in another order may be off."""

    function: Callable[..., Any]
    shapes: tuple[tuple[Any, ...], ...]
    indices: Mapping[int, Any] = {}
    least: int = 2
    ulps: int = 40

    def names(self) -> list[str]:
        """The names of the unknown sizes."""
        return list(dict.fromkeys(n for shape in self.shapes for n in shape if isinstance(n, str)))

    def sizes(self, size: int) -> dict[str, int]:
        """A set of sizes, of which the first is this."""
        others = (size, size * 5 % 61 + 2, size * 7 % 31 + 3)
        return {name: max(self.least, n) for name, n in zip(self.names(), others)}

    def graph(self, size: int = 9) -> Graph:
        """The recording for any sizes."""
        dtypes = {i: fw.int64 for i in self.indices}
        return recorded(self.function, *self.shapes, dtypes=dtypes, **self.sizes(size))

    def arrays(self, sizes: Mapping[str, int], seed: int = 0) -> list[Any]:
        """Arguments of these sizes."""
        rng = np.random.default_rng(seed)
        arrays = []
        for i, shape in enumerate(self.shapes):
            here = tuple(sizes.get(n, n) for n in shape)
            limit = self.indices.get(i)
            arrays.append(rng.standard_normal(here, np.float32) if limit is None else
                          rng.integers(0, sizes.get(limit, limit), here))
        return arrays


def _gradients(loss: Callable[..., Any], count: int) -> Callable[..., Any]:
    """The gradients of a loss by its arguments from the second on."""
    return fw.func.grad(loss, argnums=tuple(range(1, count)))


def _mlp(x: Any, w: Any, v: Any) -> Any:
    return (F.gelu(x @ w) @ v).square().mean()


def _conv_net(x: Any, w: Any, b: Any, v: Any) -> Any:
    h = F.max_pool2d(F.relu(F.conv2d(x, w, b, padding=1)), 2)
    return (h.reshape(h.shape[0], -1) @ v).square().mean()


def _transformer(x: Any, w: Any, o: Any, u: Any, d: Any) -> Any:
    n, t, _ = x.shape
    qkv = (F.layer_norm(x, (16,)) @ w).reshape(n, t, 3, 2, 8).permute_dims((2, 0, 3, 1, 4))
    h = F.scaled_dot_product_attention(qkv[0], qkv[1], qkv[2])
    x = x + h.permute_dims((0, 2, 1, 3)).reshape(n, t, 16) @ o
    return (x + F.gelu(F.layer_norm(x, (16,)) @ u) @ d).square().mean()


def _lstm(x: Any, h: Any, c: Any, w: Any, u: Any) -> Any:
    outputs = []
    for t in range(x.shape[1]):
        i, f, g, o = fw.split(x[:, t] @ w + h @ u, 8, 1)
        c = fw.sigmoid(f) * c + fw.sigmoid(i) * fw.tanh(g)
        h = fw.sigmoid(o) * fw.tanh(c)
        outputs.append(h)
    return fw.stack(outputs, 1)


def _recurrent(layer: Any) -> Callable[..., Any]:
    """The layer as a function of a batch and of its weights."""
    names = [name for name, _ in layer.named_parameters()]
    return lambda x, *weights: fw.func.functional_call(layer, dict(zip(names, weights)), (x,))[0]


def _rows_added(x: Any, index: Any, rows: Any) -> Any:
    return x.index_add(0, index, rows)


def _rows_set(x: Any, index: Any, rows: Any) -> Any:
    y = x * 2
    y[index] = rows
    return y


def _masked_attention(q: Any, k: Any, v: Any, mask: Any) -> Any:
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)


def _attention_loss(x: Any, q: Any) -> Any:
    return F.scaled_dot_product_attention(x, x * q, x + q, is_causal=True).square().mean()


def _conv_loss(x: Any, w: Any) -> Any:
    return F.conv2d(fw.tanh(F.conv2d(x, w, padding=1)), w, padding=1).square().mean()


def _cross_entropy(x: Any, w: Any, target: Any) -> Any:
    return F.cross_entropy(x @ w, target)


N, M = "n", "m"
ROWS = {
    "pointwise": Row(lambda x: fw.exp(x) * 2 + 1, ((N, 20),)),
    "pointwise along one axis": Row(lambda x, y: fw.tanh(x) * y, ((N,), (N,))),
    "sum over rows": Row(lambda x: x.sum(axis=0), ((N, 20),)),
    "sum along rows": Row(lambda x: x.sum(axis=1), ((20, N),)),
    "sum of all": Row(lambda x: (x * x).sum(), ((N, M),)),
    "long sum": Row(lambda x: (x * x).sum(), ((N, 70000),)),
    "long sum over rows": Row(lambda x: x.reshape(-1, 8).sum(axis=0), ((N, 70000),)),
    "mean and variance": Row(lambda x: (x.mean(axis=0), x.var(axis=0)), ((N, 20),)),
    "softmax": Row(lambda x: fw.softmax(x, -1), ((N, M),)),
    "layer norm": Row(lambda x, w, b: F.layer_norm(x, (20,), w, b), ((N, 20), (20,), (20,))),
    "transpose": Row(lambda x: x.T * 2, ((N, M),)),
    "permute": Row(lambda x: x.permute_dims((2, 0, 1)) + 1, ((N, 5, M),)),
    "merged axes": Row(lambda x: x.reshape(-1, 20) * 2, ((N, M, 20),)),
    "merged last axes": Row(lambda x: x.reshape(4, -1) * 2, ((4, N, M),)),
    "split axis": Row(lambda x: x[:x.shape[0] // 2 * 2].reshape(x.shape[0] // 2, 2, 5).sum(1),
                      ((N, 5),)),
    "slice": Row(lambda x: x[1:] * 2, ((N, 20),)),
    "slice before the end": Row(lambda x: x[:-1] + x[1:], ((N, 20),)),
    "strided slice": Row(lambda x: x[::2] * 1, ((N, 20),)),
    "last row": Row(lambda x: x[-1] * 2, ((N, 20),)),
    "gather": Row(lambda x, i: x[i] * 2, ((N, 20), (M,)), {1: N}),
    "take along": Row(lambda x, i: fw.take_along_axis(x, i, axis=1), ((5, N), (5, M)), {1: N}),
    "embedding": Row(F.embedding, ((N, M), (30, 20)), {0: 30}),
    "one hot": Row(lambda i: F.one_hot(i, 12), ((N,),), {0: 12}),
    "index add": Row(_rows_added, ((N, 20), (M,), (M, 20)), {1: N}),
    "rows set": Row(_rows_set, ((N, 20), (M,), (M, 20)), {1: N}),
    "gradient of take": Row(_gradients(lambda i, w: (w[i] * w[i]).sum(), 2), ((N,), (M, 20)),
                            {0: M}),
    "argmax": Row(lambda x: (x.argmax(axis=1), x.argmax(axis=0)), ((N, M),)),
    "sort of a fixed axis": Row(lambda x: fw.argsort(x, axis=1), ((N, 20),)),
    "cumsum": Row(lambda x: (fw.cumsum(x, 0), fw.cumsum(x, 1)), ((N, M),)),
    "product, rows": Row(lambda x, w: x @ w, ((N, 20), (20, 30))),
    "product, columns": Row(lambda x, w: w @ x, ((20, N), (30, 20))),
    "product, summed": Row(lambda x, y: x.T @ y, ((N, 20), (N, 30))),
    "product, deep": Row(lambda x, w: x @ w, ((N, 1100), (1100, 9))),
    "product of a size plus one": Row(lambda x, w: fw.pad(x, ((1, 0), (0, 0))) @ w,
                                      ((N, 20), (20, 30))),
    "products of a batch": Row(lambda x, y: x @ y, ((N, 6, 20), (N, 20, 9))),
    "products of a batch of any rows": Row(lambda x, y: x @ y, ((N, M, 20), (N, 20, 9))),
    "conv1d": Row(lambda x, w: F.conv1d(x, w, padding=1), ((2, 3, N), (4, 3, 3))),
    "conv2d of a batch": Row(lambda x, w: F.relu(F.conv2d(x, w, padding=1)),
                             ((N, 3, 9, 9), (4, 3, 3, 3))),
    "conv2d of any width": Row(lambda x, w: F.conv2d(x, w, padding=1),
                               ((2, 3, N, M), (4, 3, 3, 3))),
    "conv2d with stride": Row(lambda x, w: F.conv2d(x, w, stride=2, padding=1),
                              ((2, 3, N, M), (4, 3, 3, 3))),
    "wide conv2d of a batch": Row(lambda x, w: F.conv2d(x, w, padding=1),
                                  ((N, 32, 14, 14), (32, 32, 3, 3)), ulps=400),
    "max pooling": Row(lambda x: F.max_pool2d(x, 2), ((N, 3, 8, 8),)),
    "max pooling of any width": Row(lambda x: F.max_pool2d(x, 2), ((2, 3, N, M),)),
    "average pooling": Row(lambda x: F.avg_pool2d(x, 2), ((N, 3, 8, 8),)),
    "attention of a batch": Row(F.scaled_dot_product_attention, ((N, 2, 16, 8),) * 3),
    "attention of any length": Row(F.scaled_dot_product_attention,
                                   ((2, 2, N, 8), (2, 2, M, 8), (2, 2, M, 8))),
    "causal attention": Row(lambda q, k, v: F.scaled_dot_product_attention(q, k, v,
                                                                           is_causal=True),
                            ((2, 2, N, 8),) * 3),
    "attention with a mask": Row(_masked_attention, (*((N, 2, 16, 8),) * 3, (N, 1, 16, 16))),
    "training, attention": Row(_gradients(_attention_loss, 2), ((N, 2, 16, 8), (16, 8)), ulps=400),
    "training, wide convolutions": Row(_gradients(_conv_loss, 2),
                                       ((N, 16, 14, 14), (16, 16, 3, 3)), ulps=2000),
    "lstm by hand": Row(_lstm, ((N, 7, 12), (N, 8), (N, 8), (12, 32), (8, 32))),
    "lstm": Row(_recurrent(fw.nn.LSTM(12, 8, batch_first=True)),
                ((N, 7, 12), (32, 12), (32, 8), (32,), (32,))),
    "gru": Row(_recurrent(fw.nn.GRU(12, 8, batch_first=True)),
               ((N, 7, 12), (24, 12), (24, 8), (24,), (24,))),
    "concat": Row(lambda x, y: fw.concat([x, y * 2], axis=0), ((N, 20), (M, 20))),
    "concat with a constant": Row(lambda x, y: fw.concat([y, x, y], axis=1), ((5, N), (5, 2))),
    "concat of ten": Row(lambda x, y: fw.concat([x, y] * 5, axis=0), ((N, 20), (M, 20))),
    "beside": Row(lambda x: fw.concat([x, x * 2], axis=1), ((N, 20),)),
    "pad": Row(lambda x: fw.pad(x, ((1, 2), (0, 3))), ((N, 20),)),
    "roll": Row(lambda x: fw.roll(x, 3, 0), ((N, 20),)),
    "flip": Row(lambda x: fw.flip(x, (0,)), ((N, 20),)),
    "stack": Row(lambda x, y: fw.stack([x, y, x * y], 1), ((N, 20), (N, 20))),
    "repeat": Row(lambda x: fw.tile(x, (3, 1)) * 1, ((N, 20),)),
    "triangle": Row(lambda x: fw.tril(x), ((N, N),)),
    "square": Row(lambda x: fw.exp(x) * 2, ((N, N),)),
    "positions": Row(lambda x: x * fw.arange(x.shape[0], dtype=fw.float32), ((N,),)),
    "size as a number": Row(lambda x: x.sum() / x.shape[0] + x.shape[0] % 5, ((N, 20),)),
    "differences": Row(lambda x: fw.diff(x, axis=0), ((N, 20),)),
    "cross entropy": Row(_cross_entropy, ((N, 20), (20, 9), (N,)), {2: 9}),
    "training, mlp": Row(_gradients(_mlp, 3), ((N, 20), (20, 30), (30, 7))),
    "training, conv net": Row(_gradients(_conv_net, 4),
                              ((N, 3, 8, 8), (4, 3, 3, 3), (4,), (64, 5)), ulps=200),
    "training, transformer": Row(_gradients(_transformer, 5),
                                 ((N, 6, 16), (16, 48), (16, 16), (16, 32), (32, 16)), ulps=400),
}
