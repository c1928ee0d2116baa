"""Scans as kernels for a GPU.

    it is the last axis:    a team for each row, block by block. A thread combines some neighbours,
                            then the threads combine what they have, in as many steps as their
                            number has bits; what was before is put in front of it all
    all other:              a thread for each column, one element after the other

Where there are few rows or columns, and these are long, they are cut into pieces: a kernel combines
each piece to one value, a scan of these says what comes before each piece, and the last kernel
starts there. What comes first stays on the left of every combination, so results are eager's but
for the rounding of floats, whose order is another one: sizes alone decide on it. So the sums of
numbers of one sign may go back by a bit between two threads' elements.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from ...capture.graph.graph import Node
from ..cpu.partition_work import buffers_of, chunk_bounds
from ..cpu.scan import Scan
from ..fusion.fusion import Group
from ..ir import loop_ir
from ..ir.affine_index import Index, as_index, counter
from ..ir.builder import ExprValue, cast
from ..ir.inline import Inliner, flatten, memory_reader
from ..ir.loop_ir import Assign, Buffer, Expr, For, If, Kernel, Register, Stmt, Store, const
from ..ir.target_info import Machine
from .thread_mapping import WARP

_SHORT = 16  # elements of a row that one thread scans
_BYTES = 16  # that a thread reads at once
_WIDEST = 256  # threads of a team
_ENOUGH = 1024  # teams that keep every processor busy
_DEEP = 64  # elements of a column that make a piece

Place = tuple[Index, Index, Index]  # of an element: before the axis, along it, behind it


@dataclass(frozen=True)
class Elements:
    """What is scanned along an axis of `length` elements, and where results go."""

    length: int
    read: Callable[[Place], ExprValue]
    write: Callable[[Place, Expr], Stmt]


@dataclass(frozen=True)
class ScanChunks:
    """An axis in `count` pieces of `size` elements. `total`: where what a piece comes to is noted,
    instead of results; `before`: where what comes before the next piece is found."""

    count: int
    size: int
    total: Buffer | None = None
    before: Buffer | None = None


def lower_scan(group: Group, buffers: dict[Node, Buffer], machine: Machine, name: str
               ) -> list[Kernel]:
    """The kernels of a scan; none where it has no elements, or none that anybody reads."""
    scan = BlockScan(group, buffers, machine)
    if scan.node.type.size == 0 or scan.node not in buffers:
        return []
    return scan.kernels(name)


class BlockScan(Scan):
    """A scan, and its kernels for teams of threads."""

    def __init__(self, group: Group, buffers: dict[Node, Buffer], machine: Machine) -> None:
        super().__init__(group, buffers, machine)
        self.by_rows = self.inner_size == 1 and self.length > _SHORT
        self.lines = self.outer_size * self.inner_size
        self.each = max(1, _BYTES // self.node.type.dtype.itemsize)  # elements of a thread
        self.nothing = ExprValue(const(self.start_value(), self.accumulator))

    def kernels(self, name: str) -> list[Kernel]:
        """The kernels of the whole scan."""
        of, made = Elements(self.length, self._read, self._write), self._pieces()
        if made.count == 1:
            return [self._made(name, of, made)]
        size = made.count * self.lines
        total, before = (Buffer(f"{name}_{part}", self.accumulator, size)
                         for part in ("part", "before"))
        return [
            self._made(f"{name}_part", of, ScanChunks(made.count, made.size, total=total)),
            self._made(f"{name}_sum", self._between(total, before, made.count),
                         ScanChunks(1, made.count)),
            self._made(name, of, ScanChunks(made.count, made.size, before=before))]

    def _pieces(self) -> ScanChunks:
        if self.by_rows:
            block = self._threads(self.length) * self.each
            few = self.lines < _ENOUGH // 4 and self.length >= 4 * block
            size = block * max(1, -(-self.length // (_ENOUGH * block)))
        else:
            few = self.lines < _ENOUGH * WARP and self.length >= 2 * _DEEP
            wanted = min(self.length // _DEEP, 2 * _ENOUGH * WARP // self.lines)
            size = -(-self.length // max(1, min(wanted, math.isqrt(self.length))))
        size = size if few else self.length
        return ScanChunks(-(-self.length // size), size)

    def _made(self, name: str, of: Elements, cut: ScanChunks) -> Kernel:
        make = self._team_kernel if self.by_rows else self._thread_kernel
        var, tasks, body, scratch = make(of, cut)
        return Kernel(name, *buffers_of(body), scratch, var, tasks, body,
                      float(self.lines * of.length), (self.node.site,) if self.node.site else ())

    # ---- elements
    def _read(self, place: Place) -> ExprValue:
        inline = Inliner(memory_reader(self.buffers, (self.node,)))
        return cast(inline.value(self.node.inputs[0], self.index(*place)), self.accumulator)

    def _write(self, place: Place, value: Expr) -> Stmt:
        at = flatten(self.index(*place), self.shape).expr()
        return Store(self.buffers[self.node], at, value)

    def _between(self, total: Buffer, before: Buffer, count: int) -> Elements:
        """What the pieces come to, as elements of a scan of its own."""
        def at(place: Place) -> Expr:
            return self.of_piece(place[0] * self.inner_size + place[2], place[1], count).expr()

        return Elements(count, lambda place: ExprValue(loop_ir.load(total, at(place))),
                        lambda place, value: Store(before, at(place), value))

    def of_piece(self, line: Index, piece: Index, count: int) -> Index:
        """Where a value of a piece lies: neighbours are those that a team reads together."""
        return line * count + piece if self.by_rows else piece * self.lines + line

    def _beginning(self, cut: ScanChunks, line: Index, piece: Index) -> ExprValue:
        """What comes before a piece."""
        if cut.before is None:
            return self.nothing
        at = self.of_piece(line, piece, cut.count)
        back = self.of_piece(as_index(0), as_index(1), cut.count)
        some = (piece > 0).expr
        return ExprValue(loop_ir.load(cut.before, (at - back).expr(), some, self.nothing.expr))

    # ---- a thread for each column
    def _thread_kernel(self, of: Elements, cut: ScanChunks
                       ) -> tuple[loop_ir.Var, int, tuple[Stmt, ...], tuple[Buffer, ...]]:
        total = self.lines * cut.count
        threads = WARP if total < _ENOUGH * _WIDEST else _WIDEST
        tasks = -(-total // threads)
        var, task = counter("task", tasks)
        lane, unit = counter("i", total)
        piece, line = unit // self.lines, unit % self.lines
        one = self._column(of, cut, line, piece)
        return var, tasks, (For(lane, *chunk_bounds(task, threads, total), one, threads),), ()

    def _column(self, of: Elements, cut: ScanChunks, line: Index, piece: Index) -> tuple[Stmt, ...]:
        sum_so_far = Register("s", self.accumulator)
        var, k = counter("k", of.length)
        place = (line // self.inner_size, k, line % self.inner_size)
        step: list[Stmt] = [Assign(sum_so_far, self.combined(
            ExprValue(loop_ir.read(sum_so_far)), of.read(place)).expr)]
        if cut.total is None:
            step.append(of.write(place, loop_ir.read(sum_so_far)))
        body: list[Stmt] = [Assign(sum_so_far, self._beginning(cut, line, piece).expr),
                            For(var, *chunk_bounds(piece, cut.size, of.length), tuple(step), 0, 4)]
        if cut.total is not None:
            at = self.of_piece(line, piece, cut.count).expr()
            body.append(Store(cut.total, at, loop_ir.read(sum_so_far)))
        return tuple(body)

    # ---- a team for each row
    def _threads(self, length: int) -> int:
        """Threads of a team for so many elements."""
        return min(_WIDEST, max(WARP, 1 << (-(-length // self.each) - 1).bit_length()))

    def _team_kernel(self, of: Elements, cut: ScanChunks
                     ) -> tuple[loop_ir.Var, int, tuple[Stmt, ...], tuple[Buffer, ...]]:
        tasks = self.lines * cut.count
        var, task = counter("task", tasks)
        line, piece = task // cut.count, task % cut.count
        row = _Row(self, of, cut, line, piece, self._threads(of.length))
        return var, tasks, tuple(row.body(self._beginning(cut, line, piece))), row.scratch


class _Row:
    """A piece of a row, by a team. A thread moves its neighbours in one piece where rows begin at a
    multiple of that; if not, they go through shared memory, so that what threads read and write at
    once lies side by side."""

    def __init__(self, scan: BlockScan, of: Elements, cut: ScanChunks, line: Index, piece: Index,
                 threads: int) -> None:
        self.scan, self.of, self.cut, self.line, self.piece = scan, of, cut, line, piece
        self.threads, self.each = threads, scan.each
        self.aligned = of.length % scan.each == 0
        self.carry = Register("carry", scan.accumulator)  # what comes before the block
        self.own = Buffer("own", scan.accumulator, threads * self.each, scratch=True)
        self.sums = [Buffer(name, scan.accumulator, threads, scratch=True) for name in ("sum",
                                                                                        "sum2")]

    @property
    def scratch(self) -> tuple[Buffer, ...]:
        needed = self.cut.total is None or not self.aligned
        return (*((self.own,) if needed else ()), *self.sums)

    def body(self, beginning: ExprValue) -> list[Stmt]:
        count = self.threads * self.each
        blocks = -(-min(self.cut.size, self.of.length) // count)
        var, block = counter("block", blocks) if blocks > 1 else (loop_ir.Var("block"), as_index(0))
        first = self.piece * self.cut.size + block * count
        turn = self._block(first)
        end: list[Stmt] = [For(var, const(0), const(blocks), tuple(turn))] if blocks > 1 else turn
        if self.cut.total is not None:
            at = self.scan.of_piece(self.line, self.piece, self.cut.count).expr()
            end = [*end, Store(self.cut.total, at, loop_ir.read(self.carry))]
        return [Assign(self.carry, beginning.expr), *end]

    def _block(self, first: Index) -> list[Stmt]:
        """Some neighbours of each thread, from an element on."""
        steps = (self.threads - 1).bit_length()
        last, put = self.sums[steps % 2], self.scan.combined
        whole = loop_ir.load(last, const(self.threads - 1))
        make = self._results if self.aligned else self._spread
        results = [] if self.cut.total else [make(first, last)]
        fetched = [] if self.aligned else [self._fetched(first)]
        return [*fetched, self._own_sums(first), *map(self._step, range(steps)), *results,
                Assign(self.carry, put(ExprValue(loop_ir.read(self.carry)), ExprValue(whole)).expr)]

    def _lanes(self, lane: loop_ir.Var, body: list[Stmt]) -> For:
        return For(lane, const(0), const(self.threads), tuple(body), self.threads)

    def _own_sums(self, first: Index) -> For:
        """Each thread combines its neighbours."""
        (lane, t), (var, n) = counter("t", self.threads), counter("n", self.each)
        total, at = Register("s", self.scan.accumulator), t * self.each + n
        element = self.of.read((self.line, first + at, as_index(0))) if self.aligned \
            else ExprValue(loop_ir.load(self.own, at.expr()))
        step: list[Stmt] = [Assign(total, self.scan.combined(
            ExprValue(loop_ir.read(total)), element).expr)]
        if self.cut.total is None:
            step.append(Store(self.own, at.expr(), loop_ir.read(total)))
        return self._lanes(lane, [
            Assign(total, self.scan.nothing.expr), self._neighbours(first, t, var, step),
            Store(self.sums[0], t.expr(), loop_ir.read(total))])

    def _neighbours(self, first: Index, t: Index, var: loop_ir.Var, body: list[Stmt]) -> Stmt:
        """Something for each of a thread's neighbours, those behind the row left out."""
        found = For(var, const(0), const(self.each), tuple(body), 0, self.each)
        inside = first + t * self.each < self.of.length
        return If(inside.expr, (found,)) if self.aligned and inside is not True else found

    # ---- through shared memory
    def _elements(self, first: Index, make: Callable[[Index, Index], list[Stmt]]) -> For:
        """Something for each element of a block."""
        count = self.threads * self.each
        lane, u = counter("u", count)
        return For(lane, const(0), const(count), tuple(make(u, first + u)), self.threads)

    def _fetched(self, first: Index) -> For:
        """The elements of a block, and behind the row what changes nothing."""
        def fetched(u: Index, k: Index) -> list[Stmt]:
            own = Register("own", self.scan.accumulator)
            found = Assign(own, self.of.read((self.line, k, as_index(0))).expr)
            inside = k < self.of.length
            return [Assign(own, self.scan.nothing.expr),
                    found if inside is True else If(inside.expr, (found,)),
                    Store(self.own, u.expr(), loop_ir.read(own))]

        return self._elements(first, fetched)

    def _spread(self, first: Index, sums: Buffer) -> For:
        """The results, element by element."""
        def spread(u: Index, k: Index) -> list[Stmt]:
            put = self.scan.combined
            before = put(ExprValue(loop_ir.read(self.carry)), self._sum(sums, u // self.each, 1))
            own = ExprValue(loop_ir.load(self.own, u.expr()))
            result = self.of.write((self.line, k, as_index(0)), put(before, own).expr)
            inside = k < self.of.length
            return [result if inside is True else If(inside.expr, (result,))]

        return self._elements(first, spread)

    # ---- what threads have
    def _step(self, step: int) -> For:
        """Each thread's sum takes in that of the thread 2 ** step before it."""
        lane, t = counter("t", self.threads)
        source, target = self.sums[step % 2], self.sums[(step + 1) % 2]
        value = self.scan.combined(self._sum(source, t, 1 << step),
                                   ExprValue(loop_ir.load(source, t.expr())))
        return self._lanes(lane, [Store(target, t.expr(), value.expr)])

    def _sum(self, sums: Buffer, t: Index, back: int) -> ExprValue:
        """The sum of a thread that comes before another one, if it is there."""
        return ExprValue(loop_ir.load(sums, (t - back).expr(), (t >= back).expr,
                                      self.scan.nothing.expr))

    def _results(self, first: Index, sums: Buffer) -> For:
        """Each thread puts what is before its neighbours in front of their sums."""
        (lane, t), (var, n) = counter("t", self.threads), counter("n", self.each)
        before, put = Register("before", self.scan.accumulator), self.scan.combined
        own = ExprValue(loop_ir.load(self.own, (t * self.each + n).expr()))
        place = (self.line, first + t * self.each + n, as_index(0))
        result = self.of.write(place, put(ExprValue(loop_ir.read(before)), own).expr)
        return self._lanes(lane, [
            Assign(before, put(ExprValue(loop_ir.read(self.carry)), self._sum(sums, t, 1)).expr),
            self._neighbours(first, t, var, [result])])


