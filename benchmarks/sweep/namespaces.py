"""Gives the functions of fusewire, torch and jax the same names and arguments.

A function that a class does not define is looked up in the library. It then has the same name and
positional arguments everywhere, as `exp` and `einsum` have.
"""

from __future__ import annotations

import functools
from typing import Any

Axis = int | tuple[int, ...]


class Fusewire:
    """Functions of fusewire; those of torch have the same signatures except a few."""

    keepdims = "keepdims"

    def __init__(self) -> None:
        import fusewire

        self.lib, self.F = fusewire, fusewire.nn.functional

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.lib, name, None)
        return getattr(self.F, name) if found is None else found

    def sum(self, x: Any, axis: Axis, keepdims: bool = False) -> Any:
        return self.lib.sum(x, axis, **{self.keepdims: keepdims})

    def mean(self, x: Any, axis: Axis, keepdims: bool = False) -> Any:
        return self.lib.mean(x, axis, **{self.keepdims: keepdims})

    def var(self, x: Any, axis: Axis, keepdims: bool = False) -> Any:
        return self.lib.var(x, axis, correction=0, **{self.keepdims: keepdims})

    def amax(self, x: Any, axis: Axis, keepdims: bool = False) -> Any:
        return self.lib.max(x, axis, **{self.keepdims: keepdims})

    def logsumexp(self, x: Any, axis: int) -> Any:
        return self.lib.logsumexp(x, axis)

    def softmax(self, x: Any, axis: int) -> Any:
        return self.F.softmax(x, axis)

    def permute(self, x: Any, axes: tuple[int, ...]) -> Any:
        return self.lib.permute_dims(x, axes)

    def sorted(self, x: Any, axis: int) -> Any:
        return self.lib.sort(x, axis)

    def topk(self, x: Any, k: int) -> Any:
        values, indices = self.lib.topk(x, k)
        return values, indices

    def take(self, x: Any, rows: Any) -> Any:
        """The rows of `x` at indices of any shape."""
        return x[rows]

    def take_along(self, x: Any, indices: Any, axis: int) -> Any:
        return self.lib.take_along_axis(x, indices, axis=axis)

    def add_rows(self, x: Any, rows: Any, values: Any) -> Any:
        """A copy of `x` with values added to its rows."""
        return self.lib.index_add(x, 0, rows, values)

    def roll(self, x: Any, shift: int, axis: int) -> Any:
        return self.lib.roll(x, shift, axis)

    def pad(self, x: Any, count: int) -> Any:
        """`x` with `count` zeros around its last two axes."""
        return self.F.pad(x, (count,) * 4)

    def conv(self, x: Any, w: Any, b: Any = None, stride: int = 1, padding: int = 0,
             groups: int = 1) -> Any:
        function = self.F.conv1d if len(w.shape) == 3 else self.F.conv2d
        return function(x, w, b, stride, padding, 1, groups)

    def conv_transpose(self, x: Any, w: Any, b: Any, stride: int, padding: int, extra: int) -> Any:
        return self.F.conv_transpose2d(x, w, b, stride, padding, extra)

    def max_pool(self, x: Any, size: int, stride: int, padding: int) -> Any:
        return self.F.max_pool2d(x, size, stride, padding)

    def avg_pool(self, x: Any, size: int) -> Any:
        return self.F.avg_pool2d(x, size)

    def layer_norm(self, x: Any, w: Any, b: Any) -> Any:
        return self.F.layer_norm(x, tuple(w.shape), w, b)

    def group_norm(self, x: Any, groups: int, w: Any, b: Any) -> Any:
        return self.F.group_norm(x, groups, w, b)

    def relu(self, x: Any) -> Any:
        return self.F.relu(x)

    def attention(self, q: Any, k: Any, v: Any, causal: bool) -> Any:
        return self.F.scaled_dot_product_attention(q, k, v, is_causal=causal)

    def one_hot(self, x: Any, count: int) -> Any:
        return self.F.one_hot(x, count)

    def cross_entropy(self, x: Any, labels: Any) -> Any:
        return self.F.cross_entropy(x, labels)

    def upsample(self, x: Any, factor: int, mode: str) -> Any:
        return self.F.interpolate(x, scale_factor=factor, mode=mode)

    def like(self, value: float, x: Any) -> Any:
        """A tensor of one value in the shape of `x`."""
        return self.lib.full_like(x, value)


class Torch(Fusewire):
    """Functions of torch."""

    keepdims = "keepdim"

    def __init__(self) -> None:
        import torch

        self.lib, self.F = torch, torch.nn.functional

    def amax(self, x: Any, axis: Axis, keepdims: bool = False) -> Any:
        return self.lib.amax(x, axis, keepdims)

    def permute(self, x: Any, axes: tuple[int, ...]) -> Any:
        return self.lib.permute(x, axes)

    def sorted(self, x: Any, axis: int) -> Any:
        return self.lib.sort(x, axis)[0]

    def take_along(self, x: Any, indices: Any, axis: int) -> Any:
        return self.lib.take_along_dim(x, indices, axis)


class Jax:
    """Functions of jax."""

    def __init__(self) -> None:
        import jax

        self.jax, self.lib = jax, jax.numpy

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.lib, name, None)
        return getattr(self.jax.nn, name) if found is None else found

    def amax(self, x: Any, axis: Axis, keepdims: bool = False) -> Any:
        return self.lib.max(x, axis, keepdims=keepdims)

    def sum(self, x: Any, axis: Axis, keepdims: bool = False) -> Any:
        return self.lib.sum(x, axis, keepdims=keepdims)

    def mean(self, x: Any, axis: Axis, keepdims: bool = False) -> Any:
        return self.lib.mean(x, axis, keepdims=keepdims)

    def var(self, x: Any, axis: Axis, keepdims: bool = False) -> Any:
        return self.lib.var(x, axis, keepdims=keepdims)

    def logsumexp(self, x: Any, axis: int) -> Any:
        return self.jax.nn.logsumexp(x, axis)

    def permute(self, x: Any, axes: tuple[int, ...]) -> Any:
        return self.lib.transpose(x, axes)

    def sorted(self, x: Any, axis: int) -> Any:
        return self.lib.sort(x, axis)

    def topk(self, x: Any, k: int) -> Any:
        return self.jax.lax.top_k(x, k)

    def take(self, x: Any, rows: Any) -> Any:
        return x[rows]

    def take_along(self, x: Any, indices: Any, axis: int) -> Any:
        return self.lib.take_along_axis(x, indices, axis)

    def add_rows(self, x: Any, rows: Any, values: Any) -> Any:
        return x.at[rows].add(values)

    def pad(self, x: Any, count: int) -> Any:
        return self.lib.pad(x, [(0, 0)] * (x.ndim - 2) + [(count, count)] * 2)

    def conv(self, x: Any, w: Any, b: Any = None, stride: int = 1, padding: int = 0,
             groups: int = 1) -> Any:
        space = w.ndim - 2
        out = self.jax.lax.conv_general_dilated(
            x, w, (stride,) * space, [(padding, padding)] * space, feature_group_count=groups)
        return out if b is None else out + b.reshape(1, -1, *[1] * space)

    def conv_transpose(self, x: Any, w: Any, b: Any, stride: int, padding: int, extra: int) -> Any:
        before = w.shape[2] - 1 - padding
        out = self.jax.lax.conv_general_dilated(
            x, self.lib.flip(w, (2, 3)).swapaxes(0, 1), (1, 1), [(before, before + extra)] * 2,
            lhs_dilation=(stride, stride))
        return out + b.reshape(1, -1, 1, 1)

    def concat(self, xs: Any, axis: int) -> Any:
        return self.lib.concatenate(xs, axis)

    def upsample(self, x: Any, factor: int, mode: str) -> Any:
        shape = (*x.shape[:2], *(n * factor for n in x.shape[2:]))
        return self.jax.image.resize(x, shape, mode)

    def max_pool(self, x: Any, size: int, stride: int, padding: int) -> Any:
        return self.jax.lax.reduce_window(
            x, -self.lib.inf, self.jax.lax.max, (1, 1, size, size), (1, 1, stride, stride),
            [(0, 0)] * 2 + [(padding, padding)] * 2)

    def avg_pool(self, x: Any, size: int) -> Any:
        window = (1, 1, size, size)
        return self.jax.lax.reduce_window(x, 0.0, self.jax.lax.add, window, window,
                                          "VALID") / size ** 2

    def layer_norm(self, x: Any, w: Any, b: Any) -> Any:
        axes = tuple(range(-w.ndim, 0))
        centred = x - x.mean(axes, keepdims=True)
        return centred * self.jax.lax.rsqrt(x.var(axes, keepdims=True) + 1e-5) * w + b

    def group_norm(self, x: Any, groups: int, w: Any, b: Any) -> Any:
        parts = x.reshape(x.shape[0], groups, -1)
        centred = parts - parts.mean(2, keepdims=True)
        out = (centred * self.jax.lax.rsqrt(parts.var(2, keepdims=True) + 1e-5)).reshape(x.shape)
        shape = (1, -1, *[1] * (x.ndim - 2))
        return out * w.reshape(shape) + b.reshape(shape)

    @functools.cached_property
    def gelu(self) -> Any:
        return functools.partial(self.jax.nn.gelu, approximate=False)

    def attention(self, q: Any, k: Any, v: Any, causal: bool) -> Any:
        q, k, v = (x.swapaxes(1, 2) for x in (q, k, v))
        return self.jax.nn.dot_product_attention(q, k, v, is_causal=causal).swapaxes(1, 2)

    def cross_entropy(self, x: Any, labels: Any) -> Any:
        logs = self.jax.nn.log_softmax(x, -1)
        return -self.lib.take_along_axis(logs, labels[:, None], 1).mean()

    def like(self, value: float, x: Any) -> Any:
        return self.lib.full_like(x, value)
