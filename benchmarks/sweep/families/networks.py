"""Families of small networks."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from ..program import Draw, Program, family


@family
def mlp(draw: Draw) -> Program:
    """Linear layers with activations, at any batch size."""
    batch, depth = draw.size(1, 512), draw.size(2, 5)
    sizes = [draw.size(16, 768) for _ in range(depth + 1)]
    name = draw.pick("relu", "gelu", "tanh", "silu")

    def function(xp: Any, weights: Any, x: Any) -> Any:
        for i in range(depth):
            x = x @ weights[2 * i] + weights[2 * i + 1]
            x = getattr(xp, name)(x) if i + 1 < depth else x
        return x

    weights = [w for k, n in pairwise(sizes) for w in (draw.matrix(k, n), draw.normal(n))]
    return Program(f"batch {batch}, {sizes}, {name}", function, [draw.normal(batch, sizes[0])],
                   weights)


@family
def gated_mlp(draw: Draw) -> Program:
    """A norm and a gated MLP with a residual, as of a language model."""
    rows, wide, factor = draw.pick(1, 1, 8, 64, 256), draw.size(64, 640), draw.pick(2, 3)

    def function(xp: Any, weights: Any, x: Any) -> Any:
        w, gate, up, down = weights
        y = x / xp.sqrt(xp.mean(x * x, 1, True) + 1e-6) * w
        return x + (xp.silu(y @ gate) * (y @ up)) @ down

    return Program(f"({rows}, {wide}), {factor * wide} hidden", function,
                   [draw.normal(rows, wide)],
                   [draw.positive(wide), draw.matrix(wide, factor * wide),
                    draw.matrix(wide, factor * wide), draw.matrix(factor * wide, wide)])


@family
def experts(draw: Draw) -> Program:
    """Every row by each of several small networks, mixed by a softmax."""
    rows, wide, count = draw.size(16, 512), draw.size(16, 96), draw.size(2, 8)
    hidden = draw.size(16, 96)

    def function(xp: Any, weights: Any, x: Any) -> Any:
        gate, up, down = weights
        share = xp.softmax(x @ gate, 1)
        each = xp.tanh(xp.einsum("nd,edh->enh", x, up))
        return xp.einsum("enh,ehd,ne->nd", each, down, share)

    return Program(f"({rows}, {wide}), {count} of {hidden}", function, [draw.normal(rows, wide)],
                   [draw.matrix(wide, count), draw.normal(count, wide, hidden, scale=wide ** -0.5),
                    draw.normal(count, hidden, wide, scale=hidden ** -0.5)])


@family
def graph_layer(draw: Draw) -> Program:
    """A layer over a dense graph: normalized adjacency, rows and a weight."""
    nodes, wide, out = draw.size(32, 512), draw.size(8, 128), draw.size(8, 128)

    def function(xp: Any, weights: Any, adjacency: Any, x: Any) -> Any:
        degree = xp.sum(adjacency, 1, True)
        return xp.relu((adjacency / degree) @ (x @ weights[0]))

    return Program(f"{nodes} nodes, {wide}-{out}", function,
                   [draw.positive(nodes, nodes), draw.normal(nodes, wide)],
                   [draw.matrix(wide, out)])
