"""Rewrites products of 8-bit integers so that one factor is unsigned, as dot instructions need it.

    sum of (x - z) w  =  sum of x w  -  z (sum of w)                x from 0 to 255, z a number
    sum of x w        =  sum of (x + 128) w  -  128 (sum of w)      x from -128 to 127

Sums of int32 wrap around, so both sides are equal to the bit. The sums of persistent weights are
computed once. `dot_packing` selects the instructions.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ....capture.graph.graph import Graph, Node, Nodes
from ....capture.graph.graph_builder import build
from ....capture.graph.rewrite import Rule, rewrite
from ....eager.core.tensor import Tensor
from ....eager.ops.declare import cast
from ....eager.ops.products.contract import contract, parts
from ....eager.ops.reduction.reduce import sum as sum_along
from ....eager.ops.shape.view import permute_dims, reshape
from .value_ranges import fits

_INT32, _INT16, _INT8, _UINT8 = (np.dtype(t) for t in ("int32", "int16", "int8", "uint8"))
_MIN_ROWS_AND_COLUMNS = 8  # with fewer, the sums cost more than they save


class _Shifted(NamedTuple):
    """A factor as `base` minus `less`, a scalar or None. `signed`: whether the base is signed."""

    base: Node
    less: Node | None
    signed: bool


def split_zero_points(graph: Graph) -> Graph:
    """The graph in which products of 8-bit integers have an unsigned factor."""
    if not any(n.op == "contract" and n.type.dtype == _INT32 for n in graph.nodes()):
        return graph
    return rewrite(graph, [_RULE])


def _split_product(nodes: Nodes, node: Node) -> Node | None:
    if any(n.type.dtype != _INT32 for n in (node, *node.inputs)) or not _is_worth(node):
        return None
    pairings = [(i, node.inputs[i], node.inputs[1 - i]) for i in (0, 1)]
    if any(fits(x, _UINT8) and fits(w, _INT8) for _, x, w in pairings):
        return None
    for i, x, w in pairings:
        shifted = _shifted_factor(nodes, x) if fits(w, _INT8) and not _repeats_elements(w) else None
        if shifted is not None:
            operands = (
                (shifted.base, w) if shifted.less is None else (shifted.base, w, shifted.less)
            )
            params = {"spec": node.params["spec"], "first": i == 0, "signed": shifted.signed}
            return build(nodes, _decomposed_product, operands, params, node.site)
    return None


def _is_worth(node: Node) -> bool:
    """True if there are many rows and columns, and both factors have all summed labels."""
    left, right, out = parts(node.params["spec"])
    sizes = dict(zip(left, node.inputs[0].type.shape)) | dict(zip(right, node.inputs[1].type.shape))
    summed_labels = {*left, *right} - {*out}
    counts = [np.prod([sizes[a] for a in out if a not in other], initial=1)
              for other in (left, right)]
    return summed_labels <= {*left} & {*right} and min(counts) >= _MIN_ROWS_AND_COLUMNS


def _shifted_factor(nodes: Nodes, x: Node) -> _Shifted | None:
    base, less = x, None
    inner = x.inputs[0] if x.op == "permute_dims" else x
    if inner.op == "subtract" and not inner.inputs[1].type.shape:
        base, less = inner.inputs
        base = base if inner is x else nodes.apply("permute_dims", (base,), x.params, x.site)
    if fits(base, _UINT8):
        return None if less is None else _Shifted(base, less, False)
    return _Shifted(base, less, True) if fits(base, _INT8) and not _repeats_elements(base) else None


def _repeats_elements(x: Node) -> bool:
    """True if a view shows elements several times, as windows do.

    To shift or to add them up then takes as long as the product."""
    size = x.type.size
    while x.kind == "view" and len(x.inputs) == 1:
        (x,) = x.inputs
    return bool(x.type.size < size)


def _decomposed_product(
    x: Tensor, w: Tensor, *less: Tensor, spec: str, first: bool, signed: bool
) -> Tensor:
    """The product of `x` less a number with `w`, where `x` is the first factor if `first`, else the
    second."""
    left, right, out = parts(spec)
    w_labels = right if first else left
    if signed:  # stored as bytes
        x = cast(cast(cast(x, _INT16) + 128, _UINT8), _INT32)
    summed = tuple(a for a, label in enumerate(w_labels) if label not in out)
    sums = sum_along(w, axis=summed, dtype=_INT32)
    outer_labels = [label for label in w_labels if label in out]
    order = [label for label in out if label in w_labels]
    sums = permute_dims(sums, tuple(outer_labels.index(label) for label in order))
    sizes = dict(
        zip(outer_labels, (w.shape[a] for a, label in enumerate(w_labels) if label in out))
    )
    sums = reshape(sums, tuple(sizes.get(label, 1) for label in out))
    offset = less[0] + 128 if less and signed else less[0] if less else 128
    both = (x, w) if first else (w, x)
    return contract(*both, spec) - sums * offset


_RULE = Rule("(x - z) w -> x w - z (sum of w)", ("contract",), _split_product)
