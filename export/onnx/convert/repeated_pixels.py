"""Matches pixels repeated along spatial axes, which Resize computes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ....capture.graph.graph import Node
from ....capture.sizes.symbolic_dim import Dim, size_expr_of
from ....eager.arrays.shapes import product
from ..writer.context import WriterContext
from ..writer.graph_writer import OnnxValue

MAX_VIEWS = 8  # views between an image and its repetition


class AxisFactor(NamedTuple):
    """A factor of an axis: part of the image, or a number of repetitions."""

    size: Any
    own: bool


Axes = list[list[AxisFactor]]  # the factors of each axis, the outermost first


def repeated(node: Node, users: Mapping[Node, Sequence[Node]]) -> tuple[Node, list[int]] | None:
    """The image that `node` repeats and the repetitions along each axis, or None."""
    chain = [node]
    while len(chain) < MAX_VIEWS and chain[-1].inputs[0].op in ("reshape", "broadcast_to") \
            and len(users[chain[-1].inputs[0]]) == 1:
        chain.append(chain[-1].inputs[0])
    for end in range(len(chain), 2, -1):  # the first views may have another purpose
        image = chain[end - 1].inputs[0]
        times = _times(image.type.shape, chain[:end][::-1], node.type.ndim)
        if times is not None and any(n > 1 for n in times):
            return image, times
    return None


def _times(shape: Sequence[Any], views: Sequence[Node], ndim: int) -> list[int] | None:
    axes: Axes = [_parts(n, True) for n in shape]
    for view in views:
        step = _grown if view.op == "broadcast_to" else _regrouped
        next_axes = step(axes, view.type.shape)
        if next_axes is None:
            return None
        axes = next_axes
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


def _grown(axes: Axes, shape: Sequence[Any]) -> Axes | None:
    """The factors after a broadcast without new axes; None if it adds axes."""
    if len(axes) != len(shape):
        return None
    return [parts or _parts(size, False) for parts, size in zip(axes, shape)]


def _regrouped(axes: Axes, shape: Sequence[Any]) -> Axes | None:
    """The factors after a reshape, or None if it splits one."""
    rest = [part for parts in axes for part in parts]
    groups: Axes = []
    for size in shape:
        group: list[AxisFactor] = []
        while rest and size_expr_of(product(part.size for part in group)) != size_expr_of(size):
            group.append(rest.pop(0))
        if size_expr_of(product(part.size for part in group)) != size_expr_of(size):
            return None
        groups.append(group)
    return groups if not rest else None


def resized(c: WriterContext, x: OnnxValue, times: Sequence[int]) -> OnnxValue:
    """`x` with each element repeated along each axis by Resize."""
    scales = c.writer.const(np.array(times, np.float32))
    return c.writer.op("Resize", [x, None, scales], x.dtype, mode="nearest", nearest_mode="floor",
                       coordinate_transformation_mode="asymmetric")
