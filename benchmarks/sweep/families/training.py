"""Families of training: a loss and the gradients by all weights."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from ..program import Draw, Program, family


@family
def mlp_training(draw: Draw) -> Program:
    """The loss of an MLP and its gradients."""
    batch, depth = draw.size(8, 256), draw.size(2, 4)
    sizes = [draw.size(16, 384) for _ in range(depth + 1)]
    name = draw.pick("relu", "gelu", "tanh")

    def function(xp: Any, weights: Any, x: Any, labels: Any) -> Any:
        for i in range(depth):
            x = x @ weights[2 * i] + weights[2 * i + 1]
            x = getattr(xp, name)(x) if i + 1 < depth else x
        return xp.cross_entropy(x, labels)

    weights = [w for k, n in pairwise(sizes) for w in (draw.matrix(k, n), draw.normal(n))]
    return Program(f"batch {batch}, {sizes}, {name}", function,
                   [draw.normal(batch, sizes[0]), draw.integers(sizes[-1], batch)], weights, True)


@family
def convolution_training(draw: Draw) -> Program:
    """The loss of a small convolutional network and its gradients."""
    batch, side, channels = draw.size(2, 16), draw.size(10, 32), draw.pick(1, 3, 8)
    first, second, stride = draw.size(8, 48), draw.size(8, 48), draw.pick(1, 2)

    def function(xp: Any, weights: Any, x: Any, labels: Any) -> Any:
        a, b, c, d, head = weights
        x = xp.relu(xp.conv(x, a, b, stride, 1))
        x = xp.relu(xp.conv(x, c, d, 2, 1))
        return xp.cross_entropy(xp.mean(x, (2, 3)) @ head, labels)

    return Program(f"batch {batch}, {side} pixels, {channels}-{first}-{second}, stride {stride}",
                   function,
                   [draw.normal(batch, channels, side, side), draw.integers(10, batch)],
                   [draw.filters(first, channels, 3, 3), draw.normal(first),
                    draw.filters(second, first, 3, 3), draw.normal(second),
                    draw.matrix(second, 10)], True)


@family
def attention_training(draw: Draw) -> Program:
    """The loss of one attention layer with a norm, and its gradients."""
    batch, n, heads, each = draw.pick(1, 4), draw.size(16, 192), draw.pick(2, 4), draw.pick(16, 32)
    width = heads * each

    def function(xp: Any, weights: Any, x: Any, y: Any) -> Any:
        scale, shift, qkv, out = weights
        rows = xp.layer_norm(x, scale, shift) @ qkv
        parts = xp.permute(rows.reshape(batch, n, 3, heads, each), (2, 0, 3, 1, 4))
        mixed = xp.attention(parts[0], parts[1], parts[2], True)
        apart = x + xp.permute(mixed, (0, 2, 1, 3)).reshape(batch, n, width) @ out - y
        return xp.mean(apart * apart, (0, 1, 2))

    return Program(f"({batch}, {n}, {width}), {heads} heads", function,
                   [draw.normal(batch, n, width), draw.normal(batch, n, width)],
                   [draw.positive(width), draw.normal(width), draw.matrix(width, 3 * width),
                    draw.matrix(width, width)], True)


@family
def embedding_training(draw: Draw) -> Program:
    """The loss of a bag of embeddings and a linear layer, and its gradients."""
    rows, wide, each = draw.size(64, 4000), draw.size(8, 96), draw.size(2, 16)
    batch, classes = draw.size(16, 256), draw.size(2, 64)

    def function(xp: Any, weights: Any, at: Any, labels: Any) -> Any:
        table, head = weights
        return xp.cross_entropy(xp.tanh(xp.mean(xp.take(table, at), 1)) @ head, labels)

    return Program(f"({rows}, {wide}) at ({batch}, {each}), {classes} classes", function,
                   [draw.integers(rows, batch, each), draw.integers(classes, batch)],
                   [draw.normal(rows, wide), draw.matrix(wide, classes)], True)


@family
def decoder_training(draw: Draw) -> Program:
    """The squared error of a transposed convolution behind a linear layer, and its gradients."""
    batch, code, channels, side = draw.size(4, 32), draw.size(8, 64), draw.size(4, 32), \
        draw.pick(4, 7, 8)

    def function(xp: Any, weights: Any, z: Any, y: Any) -> Any:
        linear, w, b = weights
        image = xp.relu(z @ linear).reshape(batch, channels, side, side)
        apart = xp.tanh(xp.conv_transpose(image, w, b, 2, 1, 0)) - y
        return xp.mean(apart * apart, (0, 1, 2, 3))

    return Program(f"batch {batch}, {code} to {channels} of {side}", function,
                   [draw.normal(batch, code), draw.normal(batch, 3, 2 * side, 2 * side)],
                   [draw.matrix(code, channels * side * side),
                    draw.normal(channels, 3, 4, 4, scale=0.2), draw.normal(3)], True)
