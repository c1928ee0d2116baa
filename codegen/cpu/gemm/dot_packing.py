"""Several neighbouring elements of a summed letter as one word of 32 bits: processors multiply two
such words element by element and add up, in one instruction."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ....capture.graph.graph import Node
from ....eager.arrays.dtypes import bfloat16
from ...ir import loop_ir
from ...ir.loop_ir import DType, Expr
from ...ir.target_info import Machine
from .value_ranges import fits

WORD = np.dtype("uint32")
_INT32, _INT16, _INT8, _UINT8 = (np.dtype(t) for t in ("int32", "int16", "int8", "uint8"))


@dataclass(frozen=True)
class PackedLanes:
    """`count` elements. `pack` is the operation that makes a word of them, `product` that of two
    words; `swapped`: the row's word is the second of these."""

    count: int
    pack: str
    product: str
    swapped: bool = False

    def of(self, elements: Sequence[Expr]) -> Expr:
        """The word of so many elements."""
        return loop_ir.call(self.pack, tuple(elements), WORD)

    def times(self, row: Expr, column: Expr, dtype: DType) -> Expr:
        """The sum of the products of two words."""
        return loop_ir.call(self.product, (column, row) if self.swapped else (row, column), dtype)


_FLOATS = PackedLanes(2, "pair", "dot2")
_SHORTS = PackedLanes(2, "pair16", "dot16")
_BYTES = PackedLanes(4, "quad8", "dot8")


def lane_packing_for(node: Node, row_operand: int, machine: Machine) -> Iterator[PackedLanes]:
    """The words that a contraction's elements may stand in on this processor, the best first."""
    dtypes = {n.type.dtype for n in (node, *node.inputs)}
    if machine.dot and dtypes == {bfloat16}:
        yield _FLOATS
    if dtypes != {_INT32}:
        return
    row, column = node.inputs[row_operand], node.inputs[1 - row_operand]
    if machine.dot8:  # the first without signs, the second with them
        for word, first, second in ((_BYTES, row, column),
                                    (replace(_BYTES, swapped=True), column, row)):
            if fits(first, _UINT8) and fits(second, _INT8):
                yield word
    if machine.dot16 and fits(row, _INT16) and fits(column, _INT16):
        yield _SHORTS
