"""Families of attention."""

from __future__ import annotations

from typing import Any

from ..program import Draw, Program, family


@family
def attention(draw: Draw) -> Program:
    """Attention of several shapes, by the library's own function."""
    heads, wide = draw.pick(1, 4, 8, 12), draw.pick(16, 32, 64, 128)
    queries, causal = draw.size(16, 512), draw.pick(True, False)
    batch = max(1, min(8, draw.rest(1 << 20, 1 << 24, heads, wide, queries)))
    keys = queries if causal else draw.pick(queries, draw.size(16, 512))

    def function(xp: Any, weights: Any, q: Any, k: Any, v: Any) -> Any:
        return xp.attention(q, k, v, causal)

    shape = batch, heads, keys, wide
    return Program(f"({batch}, {heads}, {queries} x {keys}, {wide}){' causal' if causal else ''}",
                   function, [draw.normal(batch, heads, queries, wide), draw.normal(*shape),
                              draw.normal(*shape)])


@family
def attention_by_hand(draw: Draw) -> Program:
    """Attention written as products and a softmax, with a bias."""
    heads, wide, n = draw.pick(2, 4, 8), draw.pick(16, 32, 64), draw.size(16, 320)
    batch = draw.pick(1, 2)

    def function(xp: Any, weights: Any, q: Any, k: Any, v: Any) -> Any:
        scores = q @ xp.permute(k, (0, 1, 3, 2)) * wide ** -0.5 + weights[0]
        return xp.softmax(scores, 3) @ v

    shape = batch, heads, n, wide
    return Program(str(shape), function, [draw.normal(*shape) for _ in range(3)],
                   [draw.normal(heads, n, n)])


@family
def decoding(draw: Draw) -> Program:
    """One step of a decoder: a query against cached keys and values."""
    heads, wide = draw.pick(4, 8, 16), draw.pick(32, 64, 128)
    batch, past = draw.pick(1, 1, 4), draw.size(32, 1024)
    width = heads * wide

    def function(xp: Any, weights: Any, x: Any, keys: Any, values: Any) -> Any:
        wq, wo = weights
        q = (x @ wq).reshape(batch, heads, 1, wide)
        scores = xp.softmax(q @ xp.permute(keys, (0, 1, 3, 2)) * wide ** -0.5, 3)
        return x + (scores @ values).reshape(batch, width) @ wo

    cache = batch, heads, past, wide
    return Program(f"batch {batch}, {heads} heads of {wide}, {past} keys", function,
                   [draw.normal(batch, width), draw.normal(*cache), draw.normal(*cache)],
                   [draw.matrix(width, width), draw.matrix(width, width)])


@family
def encoder_layer(draw: Draw) -> Program:
    """A layer of a transformer: attention and an MLP, each behind a norm."""
    heads, each = draw.pick(2, 4, 8), draw.pick(16, 32, 64)
    batch, n, width = draw.pick(1, 2), draw.size(16, 256), heads * each

    def function(xp: Any, weights: Any, x: Any) -> Any:
        scale, shift, qkv, out, up, down = weights
        rows = xp.layer_norm(x, scale, shift) @ qkv
        parts = xp.permute(rows.reshape(batch, n, 3, heads, each), (2, 0, 3, 1, 4))
        mixed = xp.attention(parts[0], parts[1], parts[2], False)
        x = x + xp.permute(mixed, (0, 2, 1, 3)).reshape(batch, n, width) @ out
        return x + xp.gelu(xp.layer_norm(x, scale, shift) @ up) @ down

    return Program(f"({batch}, {n}, {width}), {heads} heads", function,
                   [draw.normal(batch, n, width)],
                   [draw.positive(width), draw.normal(width), draw.matrix(width, 3 * width),
                    draw.matrix(width, width), draw.matrix(width, 4 * width),
                    draw.matrix(4 * width, width)])
