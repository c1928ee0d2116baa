"""Pixels that are repeated along the axes of space, which runtimes have one operator for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ....capture.graph.graph import Node
from ....capture.sizes.symbolic_dim import Dim, size_expr_of
from ....eager.arrays.shapes import product
from ..writer.context import Context
from ..writer.graph_writer import Value

MOST = 8  # views between an image and the one with more pixels


class AxisFactor(NamedTuple):
    """A factor of an axis: of what is repeated, or how often."""

    size: Any
    own: bool


Axes = list[list[AxisFactor]]  # the parts of each axis, the outermost first


def repeated(node: Node, users: Mapping[Node, Sequence[Node]]) -> tuple[Node, list[int]] | None:
    """The image that `node` repeats, and how often along each axis; or None."""
    chain = [node]
    while len(chain) < MOST and chain[-1].inputs[0].op in ("reshape", "broadcast_to") \
            and len(users[chain[-1].inputs[0]]) == 1:
        chain.append(chain[-1].inputs[0])
    for end in range(len(chain), 2, -1):  # views in front of it may be of another kind
        image = chain[end - 1].inputs[0]
        times = _times(image.type.shape, chain[:end][::-1], node.type.ndim)
        if times is not None and any(n > 1 for n in times):
            return image, times
    return None


def _times(shape: Sequence[Any], views: Sequence[Node], ndim: int) -> list[int] | None:
    axes: Axes = [_parts(n, True) for n in shape]
    for view in views:
        step = _grown if view.op == "broadcast_to" else _regrouped
        found = step(axes, view.type.shape)
        if found is None:
            return None
        axes = found
    if ndim != len(shape) or [_own(parts) for parts in axes] != [_parts(n, True) for n in shape] \
            or any(part.own for parts in axes for part in parts[1:]):
        return None
    times = [product(part.size for part in parts if not part.own) for parts in axes]
    return times if all(type(n) is int for n in times) else None


def _parts(size: Any, own: bool) -> list[AxisFactor]:
    return [] if _is_one(size) else [AxisFactor(size, own)]


def _own(parts: list[AxisFactor]) -> list[AxisFactor]:
    return [part for part in parts if part.own]


def _is_one(size: Any) -> bool:
    return type(size) is not Dim and size == 1


def _grown(axes: Axes, wanted: Sequence[Any]) -> Axes | None:
    """The parts after a broadcast, of as many axes."""
    if len(axes) != len(wanted):
        return None
    return [parts or _parts(size, False) for parts, size in zip(axes, wanted)]


def _regrouped(axes: Axes, wanted: Sequence[Any]) -> Axes | None:
    """The parts after a reshape that cuts none of them."""
    rest = [part for parts in axes for part in parts]
    made: Axes = []
    for size in wanted:
        taken: list[AxisFactor] = []
        while rest and size_expr_of(product(part.size for part in taken)) != size_expr_of(size):
            taken.append(rest.pop(0))
        if size_expr_of(product(part.size for part in taken)) != size_expr_of(size):
            return None
        made.append(taken)
    return made if not rest else None


def resized(c: Context, x: Value, times: Sequence[int]) -> Value:
    """`x` with each element so many times along each axis."""
    scales = c.writer.const(np.array(times, np.float32))
    return c.writer.op("Resize", [x, None, scales], x.dtype, mode="nearest", nearest_mode="floor",
                       coordinate_transformation_mode="asymmetric")
