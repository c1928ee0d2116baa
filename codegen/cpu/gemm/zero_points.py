"""Products of small integers with one factor without signs, of which processors multiply four at
once (`words.py`).

    sum of (x - z) w  =  sum of x w  -  z (sum of w)                x from 0 to 255, z a number
    sum of x w        =  sum of (x + 128) w  -  128 (sum of w)      x from -128 to 127

Sums of int32 wrap around, so both sides are equal to the bit. The sums of a weight that stays are
made once.
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
_FEWEST = 8  # rows and columns from which on it is worth the sums


class _Shifted(NamedTuple):
    """A factor as `base` less `less`, a scalar if it is not None; `signed`: that base has signs."""

    base: Node
    less: Node | None
    signed: bool


def split_zero_points(graph: Graph) -> Graph:
    """The graph in which products of integers of 8 bits have a factor without signs."""
    if not any(n.op == "contract" and n.type.dtype == _INT32 for n in graph.nodes()):
        return graph
    return rewrite(graph, [_RULE])


def _product(nodes: Nodes, node: Node) -> Node | None:
    if any(n.type.dtype != _INT32 for n in (node, *node.inputs)) or not _is_worth(node):
        return None
    ways = [(i, node.inputs[i], node.inputs[1 - i]) for i in (0, 1)]
    if any(fits(x, _UINT8) and fits(w, _INT8) for _, x, w in ways):
        return None
    for i, x, w in ways:
        found = _shifted(nodes, x) if fits(w, _INT8) and not _repeats(w) else None
        if found is not None:
            given = (found.base, w) if found.less is None else (found.base, w, found.less)
            how = {"spec": node.params["spec"], "first": i == 0, "signed": found.signed}
            return build(nodes, _opened, given, how, node.site)
    return None


def _is_worth(node: Node) -> bool:
    """Whether there are many rows and columns, and every summed letter is one of both factors."""
    left, right, out = parts(node.params["spec"])
    size = dict(zip(left, node.inputs[0].type.shape)) | dict(zip(right, node.inputs[1].type.shape))
    summed = {*left, *right} - {*out}
    counts = [np.prod([size[a] for a in out if a not in other], initial=1)
              for other in (left, right)]
    return summed <= {*left} & {*right} and min(counts) >= _FEWEST


def _shifted(nodes: Nodes, x: Node) -> _Shifted | None:
    base, less = x, None
    inner = x.inputs[0] if x.op == "permute_dims" else x
    if inner.op == "subtract" and not inner.inputs[1].type.shape:
        base, less = inner.inputs
        base = base if inner is x else nodes.apply("permute_dims", (base,), x.params, x.site)
    if fits(base, _UINT8):
        return None if less is None else _Shifted(base, less, False)
    return _Shifted(base, less, True) if fits(base, _INT8) and not _repeats(base) else None


def _repeats(x: Node) -> bool:
    """Whether a view shows elements several times, as windows do: to change or to add them up
    takes as long as the product."""
    whole = x.type.size
    while x.kind == "view" and len(x.inputs) == 1:
        (x,) = x.inputs
    return bool(x.type.size < whole)


def _opened(x: Tensor, w: Tensor, *less: Tensor, spec: str, first: bool, signed: bool) -> Tensor:
    """The product of `x` less a number with `w`, `x` being the `first` factor or the second."""
    left, right, out = parts(spec)
    own = right if first else left
    if signed:  # in memory as bytes
        x = cast(cast(cast(x, _INT16) + 128, _UINT8), _INT32)
    summed = tuple(a for a, letter in enumerate(own) if letter not in out)
    sums = sum_along(w, axis=summed, dtype=_INT32)
    kept = [letter for letter in own if letter in out]
    order = [letter for letter in out if letter in own]
    sums = permute_dims(sums, tuple(kept.index(letter) for letter in order))
    sizes = dict(zip(kept, (w.shape[a] for a, letter in enumerate(own) if letter in out)))
    sums = reshape(sums, tuple(sizes.get(letter, 1) for letter in out))
    offset = less[0] + 128 if less and signed else less[0] if less else 128
    both = (x, w) if first else (w, x)
    return contract(*both, spec) - sums * offset


_RULE = Rule("(x - z) w -> x w - z (sum of w)", ("contract",), _product)
