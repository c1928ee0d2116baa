"""Rows written at places known only at run time, as kernels for a GPU: all rows at once, but for
those that a later one is written over.

    few rows    the team of a row looks whether a later one has its place
    many        rows are put in order by their places, the later ones of a place behind: the last
                of each stays

So no two threads ever write the same element, and the last of several rows for a place stays.
"""

from __future__ import annotations

from collections.abc import Mapping

from ...capture.graph.graph import Node
from ...eager.arrays.shapes import product
from ..cpu.partition_work import buffers_of, chunk_bounds
from ..cpu.scatter_rows import scatter_kernels, store_row_element, target_row
from ..fusion.fusion import Group
from ..ir import loop_ir
from ..ir.affine_index import Index, atom, counter
from ..ir.builder import ExprValue, call
from ..ir.inline import Inliner, memory_reader
from ..ir.loop_ir import BOOL, INT, Assign, Buffer, For, If, Kernel, Register, Stmt, Update, const
from ..ir.target_info import Machine
from .argsort import order_of
from .lower import lower
from .thread_mapping import WARP

_FEW = 1024  # rows of which each is compared with all later ones
_WIDEST = 256  # threads of a team
_EACH = 4  # elements of a row that a thread writes


def lower_scatter_rows(group: Group, buffers: dict[Node, Buffer], machine: Machine, name: str
              ) -> list[Kernel]:
    """The kernels of rows that are written; none where nobody reads the result."""
    return scatter_kernels(group, buffers, machine, name, lower, _written)


def _written(node: Node, buffers: Mapping[Node, Buffer], machine: Machine, name: str
             ) -> list[Kernel]:
    rows = WrittenRows(node, buffers)
    return [rows.few(name)] if rows.count <= _FEW else rows.many(machine, name)


class WrittenRows:
    """The rows that are written."""

    def __init__(self, node: Node, buffers: Mapping[Node, Buffer]) -> None:
        self.node, self.buffers = node, buffers
        self.count = int(node.inputs[2].type.size)
        self.width = int(product(node.type.shape[1:]))
        self.inline = Inliner(memory_reader(buffers))

    def _kernel(self, name: str, var: loop_ir.Var, tasks: int, body: tuple[Stmt, ...]) -> Kernel:
        return Kernel(name, *buffers_of(body), (), var, tasks, body,
                      float(self.count * self.width), (self.node.site,) if self.node.site else ())

    def _same(self, n: Index, m: Index) -> ExprValue:
        """Whether two rows have one place."""
        places = [target_row(self.node, self.inline, row).expr() for row in (n, m)]
        return ExprValue(loop_ir.call("eq", tuple(places), BOOL))

    # ---- few of them
    def few(self, name: str) -> Kernel:
        """A team for each row, or for a part of a long one."""
        threads = min(_WIDEST, max(WARP, 1 << (-(-self.width // _EACH) - 1).bit_length()))
        size = threads * _EACH
        parts = -(-self.width // size)
        var, task = counter("task", self.count * parts)
        n, part = task // parts, task % parts
        later = Register("later", BOOL)
        (lane, m), (column, c) = counter("m", self.count), counter("i", self.width)
        over = Update(later, "or", self._same(n, m).expr)
        line = For(column, *chunk_bounds(part, size, self.width),
                   (store_row_element(self.node, self.buffers, self.inline, n, c),), threads)
        stays = loop_ir.call("not", (loop_ir.read(later),), BOOL)
        body = (Assign(later, const(False, BOOL)),
                For(lane, (n + 1).expr(), const(self.count), (over,), threads),
                If(stays, (line,)))
        return self._kernel(name, var, self.count * parts, body)

    # ---- many of them
    def many(self, machine: Machine, name: str) -> list[Kernel]:
        """The order of the places, and a thread for each element."""
        order, first = order_of(self.node.inputs[2], self.buffers, machine, f"{name}_order")
        return [*first, self._by_order(name, order)]

    def _by_order(self, name: str, order: Buffer) -> Kernel:
        """Each element, unless the next row in the order has the same place."""
        total = self.count * self.width
        tasks = -(-total // _WIDEST)
        var, task = counter("task", tasks)
        lane, i = counter("i", total)
        number = i // self.width
        last = number + 1 >= self.count
        following = atom(loop_ir.call("minimum", ((number + 1).expr(), const(self.count - 1)), INT),
                         (0, self.count - 1))
        n, after = (self._row(order, at) for at in (number, following))
        stays = call("or", last, call("not", self._same(n, after)))
        store = store_row_element(self.node, self.buffers, self.inline, n, i % self.width)
        loop = For(lane, *chunk_bounds(task, _WIDEST, total), (If(stays.expr, (store,)),), _WIDEST)
        return self._kernel(name, var, tasks, (loop,))

    def _row(self, order: Buffer, number: Index) -> Index:
        """The number of the row that comes at a place of the order."""
        return atom(loop_ir.load(order, number.expr()), (0, self.count - 1))
