"""Rows added at places known only at run time, as kernels for a GPU: the way back of `take`.

    few rows    a thread for each element of the result looks at the place of each row
    others      rows are put in order by their places, those of one place as they come; a search
                finds where each place begins; a thread for each element adds up what is its own

Each element is the sum of 0 and its rows, one after the other, in the order in which they come, as
`numpy.add.at` makes it; smaller floats are added up in float32. Of a place with many rows those
that fill pieces of the order are added up first, a thread for each column of a piece, and their
sums then stand for them. Sizes alone tell what the pieces are: so the same numbers come from the
same values, whichever thread is first, and each row is read once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ...capture.graph.graph import Node
from ...eager.arrays.dtypes import summed_in
from ...eager.arrays.shapes import product
from ..cpu.partition_work import buffers_of, chunk_bounds
from ..cpu.scatter_rows import clamped_index, unflatten_row
from ..fusion.fusion import Group
from ..ir import loop_ir
from ..ir.affine_index import Index, atom, counter
from ..ir.builder import ExprValue, call, cast
from ..ir.inline import Inliner, memory_reader
from ..ir.loop_ir import (
    BOOL,
    INT,
    Assign,
    Buffer,
    Expr,
    For,
    If,
    Kernel,
    Register,
    Stmt,
    Store,
    const,
    load,
    read,
)
from ..ir.target_info import Machine
from .argsort import order_of

_FEW = 32  # rows at whose places every thread looks
_BLOCK = 256  # threads of a team
_SHORTEST = 64  # rows of a piece, at least
_AT_ONCE = 4  # rows that a thread waits for at the same time


def lower_add_at(group: Group, buffers: Mapping[Node, Buffer], machine: Machine, name: str
                 ) -> list[Kernel]:
    """The kernels of rows that are added up; none where nobody reads the result."""
    (node,) = group.members
    if node.type.size == 0 or node not in buffers:
        return []
    few = node.inputs[1].type.size <= _FEW
    return (Few if few else Ordered)(node, buffers, machine, name).kernels()


class AddedRows:
    """The rows that are added up: `outer` times `count` of them, each of `width` elements."""

    def __init__(self, node: Node, buffers: Mapping[Node, Buffer], machine: Machine, name: str
                 ) -> None:
        self.node, self.buffers, self.machine, self.name = node, buffers, machine, name
        self.values, self.places = node.inputs
        axis, shape = int(node.params["axis"]), node.type.shape
        self.before, self.size, self.after = shape[:axis], int(shape[axis]), shape[axis + 1:]
        self.outer, self.width = int(product(self.before)), int(product(self.after))
        self.count = int(self.places.type.size)
        self.total = Register("total", summed_in(node.type.dtype))
        self.inline = Inliner(memory_reader(buffers))

    def kernels(self) -> list[Kernel]:
        """All that has to run, in order."""
        raise NotImplementedError

    def made(self, name: str, total: int, body: Callable[[Index], list[Stmt]]) -> Kernel:
        """A kernel with a thread for each of so many elements."""
        tasks = -(-total // _BLOCK)
        var, task = counter("task", tasks)
        lane, i = counter("i", total)
        loop = (For(lane, *chunk_bounds(task, _BLOCK, total), tuple(body(i)), _BLOCK),)
        return Kernel(name, *buffers_of(loop), (), var, tasks, loop,
                      float(self.values.type.size + total),
                      (self.node.site,) if self.node.site else ())

    def elements(self, body: Callable[[Index, Index, Index], list[Stmt]]) -> Kernel:
        """The kernel that sums up each element of the result: `body` adds to what is 0 first, by
        the outer part, the place and the column of the element."""
        def element(i: Index) -> list[Stmt]:
            outer, place, column = i // self.width // self.size, i // self.width % self.size, \
                i % self.width
            sums = cast(ExprValue(read(self.total)), self.node.type.dtype).expr
            return [self.none(), *body(outer, place, column),
                    Store(self.buffers[self.node], i.expr(), sums)]

        return self.made(self.name, int(self.node.type.size), element)

    def place(self, n: Index) -> Expr:
        """The place of a row."""
        found = self.inline.value(self.places, unflatten_row(n, self.places.type.shape))
        return clamped_index(found, self.size).expr()

    def none(self) -> Assign:
        """Nothing is added up yet."""
        return Assign(self.total, const(0, self.total.dtype))

    def added(self, value: Expr) -> Assign:
        """One more value is added up."""
        dtype = self.total.dtype
        more = cast(ExprValue(value), dtype).expr
        return Assign(self.total, loop_ir.call("add", (read(self.total), more), dtype))

    def row(self, outer: Index, n: Index, column: Index) -> Assign:
        """An element of a row is added."""
        index = (*unflatten_row(outer, self.before), *unflatten_row(n, self.places.type.shape),
                 *unflatten_row(column, self.after))
        return self.added(self.inline.value(self.values, index).expr)


class Few(AddedRows):
    """Few rows, at whose places every thread looks."""

    def kernels(self) -> list[Kernel]:
        """The one kernel."""
        return [self.elements(self._looked)]

    def _looked(self, outer: Index, place: Index, column: Index) -> list[Stmt]:
        if self.count == 0:
            return []
        var, n = counter("n", self.count)
        here = loop_ir.call("eq", (self.place(n), place.expr()), BOOL)
        body = If(here, (self.row(outer, n, column),))
        return [For(var, const(0), const(self.count), (body,), 0, _AT_ONCE)]


class Ordered(AddedRows):
    """Rows that are put in order by their places; `piece` of them, in that order, are a piece."""

    def __init__(self, node: Node, buffers: Mapping[Node, Buffer], machine: Machine, name: str
                 ) -> None:
        super().__init__(node, buffers, machine, name)
        self.order, self.first = order_of(self.places, buffers, machine, f"{name}_order")
        self.begins = Buffer(f"{name}_begins", INT, self.size + 1)
        self.piece = max(_SHORTEST, 1 << (self.count.bit_length() - 1) // 2)
        self.pieces = self.count // self.piece
        self.sums = Buffer(f"{name}_sums", self.total.dtype, self.outer * self.pieces * self.width)

    def kernels(self) -> list[Kernel]:
        """Their order, where each place begins in it, pieces of one place, and all elements."""
        found = [*self.first, self.made(f"{self.name}_begins", self.size + 1, self._searched)]
        if self.pieces < 2:
            return [*found, self.elements(self._at_once)]
        return [*found, self.made(f"{self.name}_pieces", self.sums.size, self._piece),
                self.elements(self._in_pieces)]

    def _row(self, m: Index) -> Index:
        """The number of the row that comes at a place of the order."""
        return atom(load(self.order, m.expr()), (0, self.count - 1))

    def _searched(self, i: Index) -> list[Stmt]:
        """How many rows have an earlier place: with the others this one begins."""
        found, step, bits = Register("found", INT), Register("step", INT), self.count.bit_length()
        var, _ = counter("turn", bits)
        following = loop_ir.call("add", (read(found), read(step)), INT)
        there = ExprValue(loop_ir.call("le", (following, const(self.count)), BOOL))
        last = atom(loop_ir.call("minimum", (following, const(self.count)), INT), (1, self.count))
        earlier = ExprValue(loop_ir.call("lt", (self.place(self._row(last - 1)), i.expr()), BOOL))
        return [
            Assign(found, const(0)), Assign(step, const(1 << bits - 1)),
            For(var, const(0), const(bits), (
                If(call("and", there, earlier).expr, (Assign(found, following),)),
                Assign(step, loop_ir.call("shr", (read(step), const(1)), INT)))),
            Store(self.begins, i.expr(), read(found))]

    def _rows(self, start: Expr, stop: Expr, outer: Index, column: Index) -> For:
        """The rows of a part of the order are added."""
        var, m = counter("m", self.count)
        return For(var, start, stop, (self.row(outer, self._row(m), column),), 0, _AT_ONCE)

    def _begin(self, name: str, place: Index) -> Assign:
        return Assign(Register(name, INT), load(self.begins, place.expr()))

    def _at_once(self, outer: Index, place: Index, column: Index) -> list[Stmt]:
        ends = self._begin("start", place), self._begin("stop", place + 1)
        start, stop = (read(s.register) for s in ends)
        return [*ends, self._rows(start, stop, outer, column)]

    # ---- pieces
    def _piece(self, i: Index) -> list[Stmt]:
        """A piece of the order is added up, where all of it has one place."""
        part, column = i // self.width, i % self.width
        outer, start = part // self.pieces, part % self.pieces * self.piece
        stop = start + self.piece
        ends = [self.place(self._row(m)) for m in (start, stop - 1)]
        return [If(loop_ir.call("eq", tuple(ends), BOOL), (
            self.none(), self._rows(start.expr(), stop.expr(), outer, column),
            Store(self.sums, i.expr(), read(self.total))))]

    def _in_pieces(self, outer: Index, place: Index, column: Index) -> list[Stmt]:
        """The rows before the first whole piece, the pieces, and what is behind the last."""
        ends = self._begin("start", place), self._begin("stop", place + 1)
        start, stop = (atom(read(s.register), (0, self.count)) for s in ends)
        first, last = (start + self.piece - 1) // self.piece, stop // self.piece
        head = loop_ir.call("minimum", ((first * self.piece).expr(), stop.expr()), INT)
        tail = loop_ir.call("maximum", ((last * self.piece).expr(), head), INT)
        var, p = counter("p", self.pieces)
        at = ((outer * self.pieces + p) * self.width + column).expr()
        return [*ends, self._rows(start.expr(), head, outer, column),
                For(var, first.expr(), last.expr(), (self.added(load(self.sums, at)),), 0,
                    _AT_ONCE),
                self._rows(tail, stop.expr(), outer, column)]
