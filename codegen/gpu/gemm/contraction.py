"""The axes of a contraction by their role, and the access to its operands and results.

Operands are read through the views before them, so the windows of a convolution are never
written to memory.
"""

from __future__ import annotations

from typing import Any

from ....capture.graph.graph import Node
from ....eager.arrays.dtypes import is_small, summed_in
from ....eager.arrays.shapes import product
from ....eager.errors import CodegenError
from ....eager.ops.products.contract import parts
from ...cpu.gemm.pack_loops import stride_along
from ...fusion.fusion import Group
from ...ir import loop_ir
from ...ir.affine_index import Index, atom, variable
from ...ir.builder import ExprValue
from ...ir.inline import Indices, Inliner, memory_reader, stores_of, unflatten
from ...ir.loop_ir import KernelBuffer, Stmt, const
from ...ir.sizes import Size, is_at_least, is_dynamic, upper_bound
from ...ir.target_info import Machine
from .configs import ContractionSizes
from .library_pattern import is_worth_library


class GpuContraction:
    """The labels of a contraction by their role: batch, rows, columns, summed."""

    def __init__(self, group: Group, buffers: dict[Node, KernelBuffer], machine: Machine, name: str
                 ) -> None:
        self.group, self.buffers, self.machine, self.name = group, buffers, machine, name
        self.node = group.members[0]
        self.dtype = summed_in(self.node.type.dtype)
        first, second, out = self.labels = parts(self.node.params["spec"])
        self.size = {a: n for labels, i in zip(self.labels, self.node.inputs)
                     for a, n in zip(labels, i.type.shape)}
        # the operand with the result's last label provides its columns
        self.column_operand = int(not out or out[-1] not in first or out[-1] in second)
        left, right = self.labels[1 - self.column_operand], self.labels[self.column_operand]
        self.batch = [a for a in out if a in left and a in right]
        self.rows = [a for a in out if a in left and a not in right]
        self.columns = [a for a in out if a in right and a not in left]
        self.summed = [a for a in first if a not in out]
        self.depth = self.count(self.summed)
        self.uses_library = is_worth_library(self)
        if self.uses_library and any(map(is_dynamic, self.size.values())):
            # a library call needs static sizes
            raise CodegenError("a library is to compute a product of this size")

    def count(self, labels: list[str]) -> Size:
        """The number of elements along these labels."""
        return product(self.size[a] for a in labels)  # type: ignore[no-any-return]

    @property
    def sizes(self) -> ContractionSizes:
        """The sizes that tiles are chosen by."""
        bytes_read = sum(upper_bound(self.buffers[n].size) * n.type.dtype.itemsize
                         for n in self.group.reads)
        axes = self.batch, self.rows, self.columns
        batch, rows, columns = (upper_bound(self.count(labels)) for labels in axes)
        return ContractionSizes(batch, rows, columns, upper_bound(self.depth), self.dtype.itemsize,
                                bytes_read)

    def element(self, operand: int, coordinates: dict[str, Index]) -> ExprValue:
        """An element of an operand, read through the views before it."""
        inliner = Inliner(memory_reader(self.buffers, self.group.members))
        node = self.node.inputs[operand]
        return inliner.value(node, tuple(coordinates[a] for a in self.labels[operand]))

    def coordinates(self, labels: list[str], index: Index) -> dict[str, Index]:
        """The coordinate of each label for an index that counts all of them."""
        return dict(zip(labels, unflatten(index, [self.size[a] for a in labels])))

    def clamped_coordinates(self, labels: list[str], index: Index) -> dict[str, Index]:
        """Like `coordinates`, with indices beyond the end clamped to the last element."""
        return self.coordinates(labels, at_most(index, self.count(labels) - 1))

    def is_inside(self, i: Index, labels: list[str]) -> Any:
        """True where an index over these labels is in range. A dynamic count is compared without
        the index's own addends."""
        count = self.count(labels)
        return (atom(i.expr(), i.range()) if is_dynamic(count) else i) < count

    def stores(self, coordinates: Indices, value: ExprValue) -> list[Stmt]:
        """The stores of the group at one element of the result, given its sum."""
        members = self.group.members
        return stores_of(members, self.buffers, coordinates, value,
                         memory_reader(self.buffers, members))

    @property
    def has_16_bit_floats(self) -> bool:
        """True if both operands are 16-bit floats of one dtype."""
        first, second = (n.type.dtype for n in self.node.inputs)
        return first == second and is_small(first)

    def reads_along_summed(self, operand: int) -> bool:
        """True if neighbouring threads should read along the summed axes: where these have more
        contiguous elements than the operand's rows or columns."""
        own_letters = self.columns if operand == self.column_operand else self.rows
        local = {a: variable(f"a{a}", self.size[a]) for a in self.size}
        subexpressions = loop_ir.subexpressions([self.element(operand, local).expr])
        loads = [e for e in subexpressions if isinstance(e, loop_ir.Load)]

        def contiguous_length(labels: list[str]) -> int:
            last = [a for a in labels if self.size[a] != 1][-1:]
            var = next(iter(local[last[0]].terms)) if last else None
            near = var is not None and any(stride_along(e.index, var) == 1 for e in loads)
            return upper_bound(self.size[last[0]]) if near else 0

        return contiguous_length(self.summed) > contiguous_length(own_letters)


def at_most(i: Index, last: Size) -> Index:
    """An index clamped to `last`."""
    if is_at_least(last, i.range()[1]):
        return i
    return atom(loop_ir.call("minimum", (i.expr(), const(last)), loop_ir.INT), (0, last))
