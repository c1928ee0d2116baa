"""Families of reads and writes at indices that are data."""

from __future__ import annotations

from typing import Any

from ..program import Draw, Program, family


@family
def gathered_rows(draw: Draw) -> Program:
    """Rows of a table at indices, or sums of a bag of them."""
    rows, wide = draw.size(64, 20000), draw.size(4, 256)
    each = draw.size(2, 32)
    batch, summed = draw.rest(1 << 11, 1 << 19, wide, each), draw.pick(True, False)

    def function(xp: Any, weights: Any, at: Any) -> Any:
        found = xp.take(weights[0], at)
        return xp.sum(found, 1) if summed else found * 2.0

    return Program(f"({rows}, {wide}) at ({batch}, {each}){' summed' if summed else ''}", function,
                   [draw.integers(rows, batch, each)], [draw.normal(rows, wide)])


@family
def gathered_elements(draw: Draw) -> Program:
    """One element, or a few, of every row, at indices."""
    n = draw.size(16, 4096)
    m, count, axis = draw.rest(1 << 12, 1 << 20, n), draw.size(1, 32), draw.pick(0, 1)

    def function(xp: Any, weights: Any, x: Any, at: Any) -> Any:
        return xp.exp(xp.take_along(x, at, axis))

    at = draw.integers(n, m, count) if axis else draw.integers(m, count, n)
    return Program(f"({m}, {n}), {count} along {axis}", function, [draw.normal(m, n), at])


@family
def scattered_rows(draw: Draw) -> Program:
    """Rows added to a table at indices: messages along the edges of a graph, or a histogram."""
    rows, wide = draw.size(32, 8192), draw.size(1, 128)
    edges = draw.rest(1 << 11, 1 << 19, wide)
    graph = draw.pick(True, False)

    def function(xp: Any, weights: Any, x: Any, values: Any, source: Any, to: Any) -> Any:
        return xp.add_rows(x, to, xp.take(x, source) * values if graph else values)

    return Program(f"{edges} of {wide} to {rows}{' along edges' if graph else ''}", function,
                   [draw.normal(rows, wide), draw.normal(edges, wide),
                    draw.integers(rows, edges), draw.integers(rows, edges)])


@family
def one_hot(draw: Draw) -> Program:
    """Labels as rows of zeros and a one: smoothed, or counted."""
    count = draw.size(4, 512)
    m, counted = draw.rest(1 << 12, 1 << 19, count), draw.pick(True, False)

    def function(xp: Any, weights: Any, x: Any, labels: Any) -> Any:
        hot = xp.where(xp.one_hot(labels, count) > 0, xp.like(0.9, x), xp.like(0.1 / count, x))
        return xp.sum(hot, 0) if counted else xp.sum(hot * x, 1)

    return Program(f"{m} of {count}{' counted' if counted else ''}", function,
                   [draw.normal(m, count), draw.integers(count, m)])


@family
def interactions(draw: Draw) -> Program:
    """A recommender: embeddings, products of all pairs of them, and an MLP, on large batches."""
    batch, fields, wide = draw.size(64, 4096), draw.size(4, 16), draw.pick(8, 16, 32)
    rows, hidden = draw.size(200, 10000), draw.size(32, 128)

    def function(xp: Any, weights: Any, at: Any, dense: Any) -> Any:
        table, first, second = weights
        parts = xp.concat([xp.take(table, at), dense[:, None, :]], 1)
        pairs = parts @ xp.permute(parts, (0, 2, 1))
        flat = xp.concat([pairs.reshape(batch, (fields + 1) ** 2), dense], 1)
        return xp.relu(flat @ first) @ second

    return Program(f"batch {batch}, {fields} fields of {wide}, hidden {hidden}", function,
                   [draw.integers(rows, batch, fields), draw.normal(batch, wide)],
                   [draw.normal(rows, wide), draw.matrix((fields + 1) ** 2 + wide, hidden),
                    draw.matrix(hidden, 1)])
