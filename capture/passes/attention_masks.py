"""Finds the masks of attention between its scores and their softmax.

    scores + bias                                        added, with a number for each score
    where(allowed, scores, -inf)                         chosen
    (scores.reshape(b, w, h, q, k) + mask).reshape(...)  for scores with other leading axes

The reshapes split leading axes, as attention in windows does. All masks are given for the finest
of these shapes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ...eager.core.tensor import Tensor
from ...eager.ops.elementwise.pointwise import logical_and, logical_not
from ...eager.ops.shape.view import reshape
from ..graph.graph import Node

Shape = tuple[Any, ...]


class Mask(NamedTuple):
    """A mask, and how it is used.

    `shape`: that of the mask for the scores of all leading axes
    `is_inverted`: True if it is True for the scores that do not count
    """

    node: Node
    shape: Shape
    is_inverted: bool = False


class Masked(NamedTuple):
    """Scores without their masks, their leading sizes where the masks apply, and the masks."""

    scores: Node
    lead: Shape
    masks: tuple[Mask, ...]


def without_masks(masked: Node) -> Masked | None:
    """The parts of masked scores (..., queries, keys); None if the masks cannot be joined."""
    found: list[tuple[Shape, Mask]] = []  # with the leading sizes of the scores
    shapes, node = [_lead(masked)], masked
    while (step := _step(node)) is not None:
        node, mask = step
        if mask is not None:
            found.append((shapes[-1], mask))
        else:
            shapes.append(_lead(node))
    finest = max(shapes, key=len)
    masks = [_for_lead(mask, lead, finest) for lead, mask in found]
    if None in masks or _split(_lead(node), finest) is None \
            or _lead(node) != _lead(masked) or len({_is_bool(m) for _, m in found}) > 1:
        return None
    return Masked(node, finest, tuple(m for m in masks if m is not None))


def joined(*masks: Tensor, shapes: Sequence[Shape], inverted: Sequence[bool]) -> Tensor:
    """One mask for masks that all are added, or all chosen by."""
    out: Tensor | None = None
    for mask, shape, is_inverted in zip(masks, shapes, inverted, strict=True):
        mask = in_shape(mask, shape)
        mask = logical_not(mask) if is_inverted else mask
        join = logical_and if mask.dtype == np.dtype(bool) else Tensor.__add__
        out = mask if out is None else join(out, mask)
    assert out is not None
    return out


def in_shape(x: Tensor, shape: Shape) -> Tensor:
    """The elements of `x` in this shape."""
    return x if x.shape == shape else reshape(x, shape)


def number_of(node: Node) -> float | None:
    """The value of a constant scalar, perhaps broadcast; None for other nodes."""
    while node.op in ("broadcast_to", "reshape"):
        node = node.inputs[0]
    if node.op == "full" and isinstance(node.params["value"], (int, float)):
        return float(node.params["value"])
    if node.op != "const" or node.type.size != 1:
        return None
    return float(np.asarray(node.params["value"]).reshape(()))


def larger(node: Node) -> int:
    """The number of the operand that has the shape of the result; the first if both have."""
    return int(node.inputs[0].type.shape != node.type.shape)


# ---- one step from masked scores to scores
def step_operand(node: Node) -> int:
    """The number of the operand of a mask's op that has the scores."""
    if node.op == "where":
        return 1 if number_of(node.inputs[2]) == -math.inf else 2
    return larger(node) if node.op == "add" else 0


def _step(node: Node) -> tuple[Node, Mask | None] | None:
    """The scores before a mask, and the mask; None in its place for a reshape of leading axes."""
    if node.op not in ("add", "where", "reshape"):
        return None
    at = step_operand(node)
    scores = node.inputs[at]
    if scores.type.shape[-2:] != node.type.shape[-2:] or len(scores.type.shape) < 2:
        return None
    if node.op == "reshape":
        return scores, None
    if scores.type != node.type:
        return None
    if node.op == "add":
        mask = node.inputs[1 - at]
        return scores, Mask(mask, mask.type.shape)
    condition = node.inputs[0]
    if number_of(node.inputs[3 - at]) != -math.inf or condition.type.dtype != np.dtype(bool):
        return None
    return scores, Mask(condition, condition.type.shape, at == 2)


def _is_bool(mask: Mask) -> bool:
    return mask.node.type.dtype == np.dtype(bool)


# ---- leading axes
def _lead(node: Node) -> Shape:
    return node.type.shape[:-2]


def _for_lead(mask: Mask, lead: Shape, finest: Shape) -> Mask | None:
    """A mask for scores with the leading sizes `lead` as one for those of `finest`."""
    shape = (1,) * (len(lead) + 2 - len(mask.shape)) + mask.shape
    groups = _split(lead, finest)
    if groups is None:
        return None
    sizes: list[Any] = []
    for size, whole, parts in zip(shape, lead, groups):
        if size not in (1, whole):
            return None
        sizes += parts if size == whole else [1] * len(parts)
    return mask._replace(shape=(*sizes, *shape[-2:]))


def _split(sizes: Shape, finest: Shape) -> list[Shape] | None:
    """The sizes of `finest` into which each of `sizes` is split; None if it is not so."""
    if sizes == finest:
        return [(n,) for n in sizes]
    if any(type(n) is not int for n in (*sizes, *finest)):
        return None
    groups, rest = [], list(finest)
    for size in sizes:
        parts: list[Any] = []
        while math.prod(parts) < size and rest:
            parts.append(rest.pop(0))
        if math.prod(parts) != size:
            return None
        groups.append(tuple(parts))
    return groups if all(n == 1 for n in rest) else None
