"""Matches weighted sums of two neighbours along spatial axes and writes them as one Resize.

Interpolation along an axis is a sum of weighted elements, which a matrix describes. The operator
is written if that matrix belongs to a mode of Resize.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from ....capture.graph.graph import Node
from ....capture.sizes.symbolic_dim import Dim
from ..load.operators.resizing import POSITIONS, Along, ResizeAttributes, taps
from ..writer.constants import Constants
from ..writer.context import WriterContext
from ..writer.graph_writer import OnnxValue
from .patterns import Fused, Users

MODES = ("half_pixel", "align_corners")
_TOLERANCE = 1e-5  # of weights, computed in float32 from positions up to thousands


class ResizeStep(NamedTuple):
    """A node that resizes one axis of `source` by a mode."""

    source: Node
    axis: int
    mode: str


def interpolated(node: Node, users: Users, constants: Constants) -> Fused | None:
    """A Resize for `node` if it interpolates along spatial axes, else None."""
    if node.op != "add" or node.type.ndim not in (4, 5) or node.type.dtype != np.float32:
        return None
    steps = list(_steps(node, users, constants))
    axes, modes = {step.axis for step in steps}, {step.mode for step in steps}
    if not steps or len(modes) != 1 or len(axes) != len(steps) or min(axes) < 2:
        return None
    mode = modes.pop()
    return Fused((steps[-1].source,), lambda c, xs: _resize(c, node, xs[0], mode))


def _resize(c: WriterContext, node: Node, x: OnnxValue, mode: str) -> OnnxValue:
    attributes: dict[str, Any] = {"mode": "linear", "coordinate_transformation_mode": mode}
    if c.writer.opset >= 18:
        attributes["axes"] = list(range(2, node.type.ndim))
    sizes = c.sizes.vector(node.type.shape[2 if "axes" in attributes else 0:])
    return c.writer.op("Resize", [x, None, None, sizes], x.dtype, **attributes)


def _steps(node: Node, users: Users, constants: Constants) -> Iterator[ResizeStep]:
    """The resized axes, the last one first."""
    step = _step(node, users, constants)
    while step is not None:
        yield step
        node = step.source
        step = _step(node, users, constants) if len(users[node]) == 2 else None


def _step(node: Node, users: Users, constants: Constants) -> ResizeStep | None:
    parts = [_weighted(term, constants) for term in node.inputs] if node.op == "add" else []
    weighted = [part for part in parts if part is not None]
    if len(weighted) != 2:
        return None
    takes, weights = zip(*weighted)
    source, axis = takes[0].inputs[0], takes[0].params["axis"]
    size, n = node.type.shape[axis], source.type.shape[axis]
    if any(t.inputs[0] is not source or t.params["axis"] != axis for t in takes) \
            or any(len(users[t]) != 1 for t in takes) or type(n) is Dim or type(size) is Dim:
        return None
    matrix = _matrix(n, [constants[t.inputs[1]].array for t in takes],
                     [w.reshape(-1) for w in weights])
    for mode in MODES:
        at, shares = taps(POSITIONS[mode](np.arange(float(size)), Along(n, size, size / n)),
                          Along(n, size, size / n), ResizeAttributes("linear", mode))
        if np.allclose(matrix, _matrix(n, at.T.astype(np.int64), shares.T), 0, _TOLERANCE):
            return ResizeStep(source, axis, mode)
    return None


def _weighted(term: Node, constants: Constants) -> tuple[Node, Any] | None:
    """The gathered elements and their weights, if `term` is their product."""
    if term.op != "multiply":
        return None
    for take, weight in (term.inputs, term.inputs[::-1]):
        if take.op == "take" and take.inputs[1] in constants and weight in constants \
                and take.inputs[1].type.ndim == 1 and take.type == term.type:
            axis, shape = take.params["axis"], weight.type.shape
            own = tuple(n if i == axis else 1 for i, n in enumerate(take.type.shape))
            return (take, constants[weight].array) if shape == own else None
    return None


def _matrix(n: int, positions: Any, weights: Any) -> Any:
    """The weights of `n` elements (columns) in each element of the result (rows)."""
    matrix = np.zeros((len(weights[0]), n))
    for at, share in zip(positions, weights):
        matrix[np.arange(len(share)), at] += share
    return matrix
