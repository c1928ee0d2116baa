"""Places the operands of long concats in the memory of the result.

The iterations of a loop often compute one array together. A kernel that only copies an operand,
just computed by another kernel, takes as long to launch as a small iteration; so results of region
instances are written to the memory of the concat (`program/link.py`).
"""

from __future__ import annotations

from collections.abc import Iterator

from ...capture.graph.graph import SPECIAL, Graph, Node
from ...eager.arrays.shapes import product
from ..fusion.materialize import is_split_concat

ConcatPlacements = dict[Node,
                        tuple[Node, int]]  # operand -> (concat, offset in it)


def concat_operands_of(graph: Graph) -> ConcatPlacements:
    """The operands of long concats, each with its concat and its offset in it.

    Outputs of the graph are left out: they have memory of their own."""
    placements: ConcatPlacements = {}
    for concat in graph.nodes():
        if is_contiguous_split_concat(concat):
            for operand, offset in placements_of(concat):
                while operand.op == "reshape":
                    (operand,) = operand.inputs
                if operand.op not in SPECIAL and operand not in graph.outputs:
                    placements.setdefault(operand, (concat, offset))
    return placements


def placements_of(concat: Node) -> Iterator[tuple[Node, int]]:
    """The operands of a concat, each with its offset in it."""
    shape, axis, offset = concat.type.shape, concat.params["axis"], 0
    for operand in concat.inputs:
        yield operand, offset
        offset += operand.type.shape[axis] * product(shape[axis + 1:])


def is_contiguous_split_concat(node: Node) -> bool:
    """True if a node is a split concat whose operands are each contiguous in the result."""
    return is_split_concat(node) and product(node.type.shape[:node.params["axis"]]) == 1
