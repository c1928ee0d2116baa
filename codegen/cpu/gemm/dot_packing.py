"""Packs neighbouring elements of a summed label into 32-bit words for dot-product instructions.

Such an instruction multiplies two words element by element and adds up the products.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ....capture.graph.graph import Node
from ....eager.arrays.dtypes import bfloat16
from ....eager.ops.products.contract import parts
from ...ir import loop_ir
from ...ir.loop_ir import DType, Expr
from ...ir.sizes import is_dynamic
from ...ir.target_info import Machine
from .value_ranges import fits

WORD = np.dtype("uint32")
_INT32, _INT16, _INT8, _UINT8 = (np.dtype(t) for t in ("int32", "int16", "int8", "uint8"))


@dataclass(frozen=True)
class PackedLanes:
    """A packing of `count` elements into a word.

    `pack`: the operation that makes a word
    `product`: the operation that computes the dot product of two words
    `swapped`: whether the word of the row is the second operand of `product`
    `elements`: the dtypes of the elements of rows and of columns, for the matrix unit
    """

    count: int
    pack: str
    product: str
    swapped: bool = False
    elements: tuple[DType, DType] | None = None

    def pack_elements(self, elements: Sequence[Expr]) -> Expr:
        """The word of `count` elements."""
        return loop_ir.call(self.pack, tuple(elements), WORD)

    def dot(self, row: Expr, column: Expr, dtype: DType) -> Expr:
        """The sum of the products of two words."""
        return loop_ir.call(self.product, (column, row) if self.swapped else (row, column), dtype)


_FLOATS = PackedLanes(2, "pair", "dot2")
_SHORTS = PackedLanes(2, "pair16", "dot16")
_BYTES = PackedLanes(4, "quad8", "dot8")


def can_use_matrix_unit(node: Node, machine: Machine) -> bool:
    """True if the matrix unit multiplies the elements of a contraction, whose depth is known."""
    left, right, out = parts(node.params["spec"])
    sizes = zip((*left, *right), (n for x in node.inputs for n in x.type.shape))
    known = not any(is_dynamic(n) for label, n in sizes if label not in out)
    return known and any(True for _ in matrix_packing_for(node, 0, machine))


def matrix_packing_for(node: Node, row_operand: int, machine: Machine) -> Iterator[PackedLanes]:
    """The packing in which the matrix unit multiplies a contraction's elements, if it can."""
    dtypes = {n.type.dtype for n in (node, *node.inputs)}
    row, column = node.inputs[row_operand], node.inputs[1 - row_operand]
    if machine.matrix_unit and machine.dot and dtypes == {bfloat16}:
        yield replace(_FLOATS, elements=(bfloat16, bfloat16))
    if machine.matrix_unit and dtypes == {_INT32}:
        fitting = [next((t for t in (_UINT8, _INT8) if fits(n, t)), None) for n in (row, column)]
        if fitting[0] is not None and fitting[1] is not None:
            yield replace(_BYTES, elements=(fitting[0], fitting[1]))


def lane_packing_for(node: Node, row_operand: int, machine: Machine) -> Iterator[PackedLanes]:
    """The packings that the processor supports for a contraction's elements, the best first."""
    dtypes = {n.type.dtype for n in (node, *node.inputs)}
    if machine.dot and dtypes == {bfloat16}:
        yield _FLOATS
    if dtypes != {_INT32}:
        return
    row, column = node.inputs[row_operand], node.inputs[1 - row_operand]
    if machine.dot8:  # the first factor unsigned, the second signed
        for packing, first, second in ((_BYTES, row, column),
                                       (replace(_BYTES, swapped=True), column, row)):
            if fits(first, _UINT8) and fits(second, _INT8):
                yield packing
    if machine.dot16 and fits(row, _INT16) and fits(column, _INT16):
        yield _SHORTS
