"""Pieces of long concats, and where in them they lie.

The steps of a loop often give an array together. A kernel for each of its pieces, which only copies
what another kernel has just made, takes as long to start as a small step does; so results of turns
lie where the concat has them (`compose.py`).
"""

from __future__ import annotations

from collections.abc import Iterator

from ...capture.graph.graph import SPECIAL, Graph, Node
from ...eager.arrays.shapes import product
from ..fusion.fusion import is_pieces

Pieces = dict[Node, tuple[Node, int]]  # of which concat, and from which of its elements on


def concat_operands_of(graph: Graph) -> Pieces:
    """For values that are pieces of a long concat, that concat and their place in it. Results of
    the graph have memory of their own."""
    found: Pieces = {}
    for whole in graph.nodes():
        if lies_in_pieces(whole):
            for piece, at in placements_of(whole):
                while piece.op == "reshape":
                    (piece,) = piece.inputs
                if piece.op not in SPECIAL and piece not in graph.outputs:
                    found.setdefault(piece, (whole, at))
    return found


def placements_of(whole: Node) -> Iterator[tuple[Node, int]]:
    """The pieces of a concat, each with its first element in it."""
    shape, axis, at = whole.type.shape, whole.params["axis"], 0
    for piece in whole.inputs:
        yield piece, at
        at += piece.type.shape[axis] * product(shape[axis + 1:])


def lies_in_pieces(node: Node) -> bool:
    """Whether a node is a long concat in which the elements of each piece lie one behind the
    other."""
    return is_pieces(node) and product(node.type.shape[:node.params["axis"]]) == 1
