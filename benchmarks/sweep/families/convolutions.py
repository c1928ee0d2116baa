"""Families of convolutions and pooling."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from ..program import Draw, Program, family


@family
def convolution_stack(draw: Draw) -> Program:
    """Convolutions of 3 by 3, some strided, with biases and activations."""
    batch, side, depth = draw.pick(1, 1, 4, 16), draw.size(12, 72), draw.size(2, 4)
    channels = [draw.pick(3, 8, 16), *[draw.size(8, 96) for _ in range(depth)]]
    strides = [draw.pick(1, 1, 2) for _ in range(depth)]

    def function(xp: Any, weights: Any, x: Any) -> Any:
        for i, stride in enumerate(strides):
            x = xp.relu(xp.conv(x, weights[2 * i], weights[2 * i + 1], stride, 1))
        return x

    weights = [w for c, n in pairwise(channels)
               for w in (draw.filters(n, c, 3, 3), draw.normal(n))]
    return Program(f"batch {batch}, {side} pixels, {channels}, strides {strides}", function,
                   [draw.normal(batch, channels[0], side, side)], weights)


@family
def transposed_convolutions(draw: Draw) -> Program:
    """A stack of transposed convolutions that double the image, as of a decoder."""
    batch, side, depth = draw.pick(1, 2, 8), draw.size(4, 20), draw.size(2, 3)
    kernel, padding, extra = draw.pick((4, 1, 0), (3, 1, 1), (2, 0, 0), (5, 2, 1))
    channels = [draw.size(16, 160), *[draw.size(8, 80) for _ in range(depth)]]

    def function(xp: Any, weights: Any, x: Any) -> Any:
        for i in range(depth):
            x = xp.conv_transpose(x, weights[2 * i], weights[2 * i + 1], 2, padding, extra)
            x = xp.relu(x) if i + 1 < depth else xp.tanh(x)
        return x

    weights = [w for c, n in pairwise(channels)
               for w in (draw.normal(c, n, kernel, kernel, scale=0.5 / (c ** 0.5 * kernel)),
                         draw.normal(n))]
    return Program(f"batch {batch}, {side} pixels, {channels}, kernel {kernel}", function,
                   [draw.normal(batch, channels[0], side, side)], weights)


@family
def bottlenecks(draw: Draw) -> Program:
    """Bottlenecks of 1x1, strided 3x3 and 1x1 convolutions with a projection, mostly at batch 1."""
    batch, side, wide = draw.pick(1, 1, 1, 4), draw.size(7, 56), draw.size(32, 192)
    inner, stride, depth = max(8, wide // 4), draw.pick(1, 2), draw.size(1, 3)

    def function(xp: Any, weights: Any, x: Any) -> Any:
        for i in range(depth):
            w = weights[4 * i:4 * i + 4]
            y = xp.relu(xp.conv(x, w[0]))
            y = xp.conv(xp.relu(xp.conv(y, w[1], None, stride if i == 0 else 1, 1)), w[2])
            x = xp.relu(y + (xp.conv(x, w[3], None, stride) if i == 0 else x))
        return x

    weights = [w for _ in range(depth)
               for w in (draw.filters(inner, wide, 1, 1), draw.filters(inner, inner, 3, 3),
                         draw.filters(wide, inner, 1, 1), draw.filters(wide, wide, 1, 1))]
    return Program(f"batch {batch}, {side} pixels, {wide}-{inner}, stride {stride}, depth {depth}",
                   function, [draw.normal(batch, wide, side, side)], weights)


@family
def depthwise_block(draw: Draw) -> Program:
    """A depthwise convolution of 7 by 7 or smaller, a norm over channels, and an MLP."""
    batch, side, wide = draw.pick(1, 1, 4), draw.size(7, 40), draw.size(24, 160)
    kernel, factor = draw.pick(7, 7, 5, 3), draw.pick(2, 4)

    def function(xp: Any, weights: Any, x: Any) -> Any:
        w, b, scale, shift, up, down = weights
        y = xp.permute(xp.conv(x, w, b, 1, kernel // 2, wide), (0, 2, 3, 1))
        y = xp.gelu(xp.layer_norm(y, scale, shift) @ up) @ down
        return x + xp.permute(y, (0, 3, 1, 2))

    weights = [draw.filters(wide, 1, kernel, kernel), draw.normal(wide), draw.positive(wide),
               draw.normal(wide), draw.matrix(wide, factor * wide),
               draw.matrix(factor * wide, wide)]
    return Program(f"batch {batch}, {side} pixels, {wide} channels, {kernel}x{kernel}", function,
                   [draw.normal(batch, wide, side, side)], weights)


@family
def separable_convolutions(draw: Draw) -> Program:
    """Depthwise convolutions of 3 by 3, some strided, between convolutions of 1 by 1."""
    batch, side, narrow = draw.pick(1, 1, 8), draw.size(7, 56), draw.size(8, 48)
    wide, stride = narrow * draw.pick(2, 4, 6), draw.pick(1, 2)

    def function(xp: Any, weights: Any, x: Any) -> Any:
        up, depthwise, down = weights
        y = xp.relu(xp.conv(x, up))
        y = xp.relu(xp.conv(y, depthwise, None, stride, 1, wide))
        y = xp.conv(y, down)
        return x + y if stride == 1 else y

    return Program(f"batch {batch}, {side} pixels, {narrow}-{wide}, stride {stride}", function,
                   [draw.normal(batch, narrow, side, side)],
                   [draw.filters(wide, narrow, 1, 1), draw.filters(wide, 1, 3, 3),
                    draw.filters(narrow, wide, 1, 1)])


@family
def signal_filters(draw: Draw) -> Program:
    """Convolutions along one axis: filters of signals or of sequences."""
    batch, channels, filters = draw.size(1, 16), draw.pick(1, 1, 8, 32), draw.size(1, 64)
    kernel, stride = draw.size(3, 65), draw.pick(1, 1, 2, 4)
    length = draw.rest(1 << 12, 1 << 16, batch, channels) + kernel

    def function(xp: Any, weights: Any, x: Any) -> Any:
        return xp.conv(x, weights[0], None, stride, kernel // 2)

    return Program(f"({batch}, {channels}, {length}), {filters} of {kernel}, stride {stride}",
                   function, [draw.normal(batch, channels, length)],
                   [draw.filters(filters, channels, kernel)])


@family
def pooling(draw: Draw) -> Program:
    """Maxima or means of windows, and of whole images."""
    batch, channels, side = draw.pick(1, 4, 16), draw.size(8, 96), draw.size(16, 96)
    kind, size = draw.pick("max", "mean", "padded max", "global"), draw.pick(2, 3)

    def function(xp: Any, weights: Any, x: Any) -> Any:
        if kind == "global":
            return xp.mean(x, (2, 3))
        if kind == "mean":
            return xp.avg_pool(x, size)
        return xp.max_pool(x, size, 2, size // 2 if kind == "padded max" else 0)

    return Program(f"{kind} {size}, {(batch, channels, side, side)}", function,
                   [draw.normal(batch, channels, side, side)])


@family
def upsampling(draw: Draw) -> Program:
    """An enlarged image, and a convolution behind it."""
    batch, channels, side = draw.pick(1, 2, 8), draw.size(4, 48), draw.size(8, 48)
    mode, behind = draw.pick("nearest", "bilinear"), draw.pick(True, False)

    def function(xp: Any, weights: Any, x: Any) -> Any:
        y = xp.upsample(x, 2, mode)
        return xp.conv(y, weights[0], None, 1, 1) if behind else y

    return Program(f"{mode}{' + conv' if behind else ''} {(batch, channels, side, side)}",
                   function, [draw.normal(batch, channels, side, side)],
                   [draw.filters(channels, channels, 3, 3)])
