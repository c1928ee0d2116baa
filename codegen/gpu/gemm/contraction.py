"""The letters of a contraction by what they do, and where its operands are read and its results
stored: through whatever views stand before them, so the windows of a convolution are never written
to memory."""

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
from ...ir.loop_ir import Buffer, Stmt, const
from ...ir.target_info import Machine
from .configs import Sizes
from .library_pattern import is_worth_a_library


class GpuContraction:
    """The letters of a contraction by what they do."""

    def __init__(self, group: Group, buffers: dict[Node, Buffer], machine: Machine, name: str
                 ) -> None:
        self.group, self.buffers, self.machine, self.name = group, buffers, machine, name
        self.node = group.members[0]
        self.dtype = summed_in(self.node.type.dtype)
        first, second, out = self.letters = parts(self.node.params["spec"])
        self.size = {a: n for letters, i in zip(self.letters, self.node.inputs)
                     for a, n in zip(letters, i.type.shape)}
        # the operand that has the last letter of the result has its columns
        self.column_operand = int(not out or out[-1] not in first or out[-1] in second)
        mine, other = self.letters[1 - self.column_operand], self.letters[self.column_operand]
        self.batch = [a for a in out if a in mine and a in other]
        self.rows = [a for a in out if a in mine and a not in other]
        self.columns = [a for a in out if a in other and a not in mine]
        self.summed = [a for a in first if a not in out]
        self.depth = self.count(self.summed)
        self.is_plain = is_worth_a_library(self)
        if self.is_plain and machine.dynamic_sizes:  # which is called with numbers
            raise CodegenError("a library is to compute a product of this size")

    def count(self, letters: list[str]) -> int:
        """How many elements these letters count."""
        return int(product(self.size[a] for a in letters))

    @property
    def sizes(self) -> Sizes:
        """What tiles are chosen by."""
        most = self.machine.upper_bound
        read = sum(most(self.buffers[n].size) * n.type.dtype.itemsize for n in self.group.reads)
        batch, rows, columns = (most(self.count(x)) for x in (self.batch, self.rows, self.columns))
        return Sizes(batch, rows, columns, most(self.depth), self.dtype.itemsize, read)

    def element(self, operand: int, where: dict[str, Index]) -> ExprValue:
        """An element of an operand, read through the views before it."""
        inline = Inliner(memory_reader(self.buffers, self.group.members))
        node = self.node.inputs[operand]
        return inline.value(node, tuple(where[a] for a in self.letters[operand]))

    def places(self, letters: list[str], at: Index) -> dict[str, Index]:
        """Where letters are that are counted as one."""
        return dict(zip(letters, unflatten(at, [self.size[a] for a in letters])))

    def nearest(self, letters: list[str], at: Index) -> dict[str, Index]:
        """The same; behind the end, the last ones."""
        return self.places(letters, at_most(at, self.count(letters) - 1))

    def is_inside(self, i: Index, letters: list[str]) -> Any:
        """Whether there is such an element of letters that are counted as one. A count that is
        known at run time only stands there by itself, not with what is added to the index."""
        count = self.count(letters)
        return (atom(i.expr(), i.range()) if self.machine.is_dynamic(count) else i) < count

    def stores(self, where: Indices, value: ExprValue) -> list[Stmt]:
        """What the group stores at one element of the result, from the sum there."""
        members = self.group.members
        return stores_of(members, self.buffers, where, value, memory_reader(self.buffers, members))

    @property
    def is_of_small_floats(self) -> bool:
        """Whether both operands are floats of 16 bits, of one kind."""
        first, second = (n.type.dtype for n in self.node.inputs)
        return first == second and is_small(first)

    def steps(self, operand: int) -> bool:
        """Whether neighbouring threads are to read summed elements: where more of these than of the
        operand's rows or columns lie side by side in memory."""
        mine = self.columns if operand == self.column_operand else self.rows
        local = {a: variable(f"a{a}", self.size[a]) for a in self.size}
        found = loop_ir.subexpressions([self.element(operand, local).expr])
        loads = [e for e in found if isinstance(e, loop_ir.Load)]

        def beside(letters: list[str]) -> int:
            last = [a for a in letters if self.size[a] > 1][-1:]
            var = next(iter(local[last[0]].terms)) if last else None
            near = var is not None and any(stride_along(e.index, var) == 1 for e in loads)
            return self.machine.upper_bound(self.size[last[0]]) if near else 0

        return beside(self.summed) > beside(mine)


def at_most(i: Index, last: int) -> Index:
    """An index, or the last one in the place of those behind it."""
    if i.range()[1] <= last:
        return i
    return atom(loop_ir.call("minimum", (i.expr(), const(last)), loop_ir.INT), (0, last))
