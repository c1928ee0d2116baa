"""Chooses the nodes that are materialized.

All other nodes are computed where they are read.
"""

from __future__ import annotations

from collections.abc import Mapping

from ...capture.graph.graph import SPECIAL, Node
from ...eager.arrays.shapes import product
from ..ir.op_cost import node_cost
from ..ir.sizes import upper_bound

WHOLE_OPERAND_KINDS = ("contract", "scan", "composite")
"""Kinds of nodes that read more than one element of an operand for an element of the result."""
_MIN_OPS_TO_AVOID_REPEATS = 10  # simple operations of a value that every row would repeat
_MIN_OPS_TO_SHARE = 5  # simple operations of a value with several readers
_MAX_INLINED_OPS = 400  # simple operations
_MIN_RUN_TO_JOIN = 16  # contiguous elements of an operand that is computed inside of a concat
SPLIT = "split"  # a param of concats, of codegen only
_MAX_INLINED_CONCAT_OPERANDS = 8  # with more, each operand is written to its slice of the result
_MAX_INLINED_SLICES = 4  # with more, the value is materialized: other kernels read them
_READS_OTHER_ELEMENTS = "a scan or a sort, whose elements need others, has a kernel of its own"
OWN_KERNEL_REFUSALS = {
    "scan": _READS_OTHER_ELEMENTS, "sort": _READS_OTHER_ELEMENTS,
    "scatter_rows": "rows written at indices known at run time have a kernel of their own",
    **dict.fromkeys(("composite", "opaque"), "an op kept whole has a kernel of its own")}
"""Kinds of nodes that are never fused, each with the reason."""


def is_preallocated(node: Node) -> bool:
    """True if a value is in memory before the program runs: an input, or an array constant."""
    return node.op == "input" or (node.op == "const" and bool(node.type.shape))


def choose_materialized(
    nodes: list[Node], readers: Mapping[Node, list[Node]], outputs: set[Node],
    reader_counts: Mapping[Node, int], on_gpu: bool,
) -> tuple[set[Node], dict[Node, float]]:
    """The materialized nodes, and the number of operations that each node inlines, itself included.
    """
    packed_operands, elements_read = _packed_operands(nodes), _elements_read(nodes, readers)
    materialized: set[Node] = set()
    op_count: dict[Node, float] = {}
    for node in nodes:
        op_count[node] = node_cost(node, on_gpu) + sum(
            op_count[i] / _elements_per_value(node, i) for i in node.inputs
            if i not in materialized)
        if node.op in SPECIAL:
            materialize = is_preallocated(node) or node in outputs
        else:
            recomputed = (
                node in packed_operands
                or (
                    elements_read[node] > 1.5 * max(1, upper_bound(node.type.size))
                    and not _is_widening_integer_cast(node)
                    and not (op_count[node] < _MIN_OPS_TO_SHARE
                             and _is_joined_once(node, readers, elements_read))
                )
                or (
                    op_count[node] >= _MIN_OPS_TO_AVOID_REPEATS
                    and (any(_recomputes_per_row(r, node) for r in readers[node])
                         or _is_recomputed_per_block(node, readers))
                )
            )
            materialize = node in outputs or _should_materialize(
                node, op_count[node], reader_counts[node], recomputed, readers[node])
        if materialize:
            materialized.add(node)
    return materialized, op_count


def _elements_per_value(node: Node, operand: Node) -> int:
    """The number of elements of a node for which code computes a value of an operand once.

    It is the length of a row where the operand is constant along each row."""
    if node.kind == "reduce" or (node.kind == "view" and node.op != "broadcast_to"):
        return 1
    shape, operand_shape = node.type.shape, operand.type.shape
    is_constant_along_rows = not operand_shape or operand_shape[-1] == 1
    return max(1, upper_bound(shape[-1])) if shape and is_constant_along_rows else 1


def _should_materialize(node: Node, op_count: float, reader_count: int, recomputed: bool,
                        readers: list[Node]) -> bool:
    """True if a node needs memory. `recomputed`: its readers would compute its elements many times.
    """
    if node.kind in ("reduce", "contract", *OWN_KERNEL_REFUSALS):
        return True
    if is_split_concat(node) or _has_many_slices(node, readers):
        return True
    if node.kind == "view" or not node.type.shape:
        return op_count > _MAX_INLINED_OPS
    if recomputed or op_count > _MAX_INLINED_OPS:
        return True
    return reader_count > 1 and op_count >= _MIN_OPS_TO_SHARE


def is_split_concat(node: Node) -> bool:
    """True if each operand of a concat is written to its slice of the result: it has many, or
    `concat_splitting.py` has chosen it."""
    return node.op == "concat" and (
        len(node.inputs) > _MAX_INLINED_CONCAT_OPERANDS or SPLIT in node.params)


def _has_many_slices(node: Node, readers: list[Node]) -> bool:
    """True if many slices of the node are read."""
    return node.op != "broadcast_to" and sum(r.op == "slice" for r in readers) > _MAX_INLINED_SLICES


def _is_joined_once(node: Node, readers: Mapping[Node, list[Node]],
                    elements_read: Mapping[Node, int]) -> bool:
    """True if a node is read by one concat alone, each element of which is read once. Computing a
    cheap operand for all of its elements is faster than writing and reading memory."""
    while len(readers[node]) == 1:
        (reader,) = readers[node]
        if reader.op == "concat":
            run = product(node.type.shape[reader.params["axis"]:])  # contiguous elements of it
            return not is_split_concat(reader) and upper_bound(run) >= _MIN_RUN_TO_JOIN \
                and elements_read[reader] <= upper_bound(reader.type.size)
        if not is_forwarding_view(reader):
            return False
        node = reader
    return False


def is_forwarding_view(node: Node) -> bool:
    """True if a reader of the node reads the node's own operand: it is a view without memory."""
    return node.kind == "view" and not is_split_concat(node)


def count_readers(
    nodes: list[Node], readers: dict[Node, list[Node]], outputs: set[Node]
) -> dict[Node, int]:
    """The number of computations that read an element of each node, directly or through views."""
    counts: dict[Node, int] = {}
    for node in reversed(nodes):
        per_reader = [counts[r] if is_forwarding_view(r) else 1 for r in readers[node]]
        disjoint = _read_disjoint_slices(readers[node], node)
        counts[node] = (max(per_reader) if disjoint else sum(per_reader)) + (node in outputs)
    return counts


def _read_disjoint_slices(readers: list[Node], node: Node) -> bool:
    """True if the readers are slices that together have no more elements than the node."""
    return len(readers) > 1 and all(r.op == "slice" for r in readers) \
        and sum(upper_bound(r.type.size) for r in readers) <= upper_bound(node.type.size)


def _packed_operands(nodes: list[Node]) -> set[Node]:
    """The operands of nodes that pack or copy whole operands, directly or through views."""
    operands: set[Node] = set()
    stack = [i for n in nodes if n.kind in WHOLE_OPERAND_KINDS for i in n.inputs]
    while stack:
        node = stack.pop()
        if node not in operands:
            # reading the smaller array is faster than copying a larger one
            if not _is_widening_cast(node):
                operands.add(node)
            stack.extend(node.inputs if is_forwarding_view(node)
                         or _is_widening_cast(node) else ())
    return operands


def _is_widening_cast(node: Node) -> bool:
    """True if a node is a cast of smaller numbers, perhaps less a zero point."""
    if node.op == "subtract" and not node.inputs[1].type.shape:
        node = node.inputs[0]
    return node.op == "cast" and \
        node.inputs[0].type.dtype.itemsize < node.type.dtype.itemsize


def _is_widening_integer_cast(node: Node) -> bool:
    """True if a node widens integers. Windows read these without a copy."""
    return node.type.dtype.kind in "iu" and _is_widening_cast(node)


def _elements_read(nodes: list[Node], readers: Mapping[Node, list[Node]]) -> dict[Node, int]:
    """The most elements that each node is read as, through views."""
    counts: dict[Node, int] = {}
    for node in reversed(nodes):
        views = [counts[r] for r in readers[node] if is_forwarding_view(r)
                 or _is_widening_integer_cast(r)]
        counts[node] = max([upper_bound(node.type.size), *views])
    return counts


def _recomputes_per_row(reader: Node, node: Node) -> bool:
    """True if a reader would compute each lane of the node again in every row.

    A value that is constant along a row is computed once per row."""
    shape, reader_shape = node.type.shape, reader.type.shape
    return reader.kind == "pointwise" and bool(shape) and shape[-1] == reader_shape[-1] != 1 \
        and upper_bound(reader.type.size) > 1.5 * upper_bound(node.type.size)


def _is_recomputed_per_block(node: Node, readers: Mapping[Node, list[Node]]) -> bool:
    """True if a reader, directly or through views, is summed over rows along which the node is
    constant. Every block of columns would compute its values again, one by one. This is how the
    activations of a vector are multiplied by a matrix."""
    return any(_is_recomputed_per_block(r, readers) if is_forwarding_view(r)
               else _sums_rows(r, node, readers[r]) for r in readers[node])


def _sums_rows(reader: Node, node: Node, next_readers: list[Node]) -> bool:
    shape, row = node.type.shape, reader.type.shape[-1:]
    return reader.kind == "pointwise" and upper_bound(node.type.size) > 1 \
        and shape[-1:] != row and all(n == 1 for n in shape[-1:]) \
        and any(r.kind == "reduce" and reader.type.ndim - 1 not in r.params["axis"]
                for r in next_readers)
