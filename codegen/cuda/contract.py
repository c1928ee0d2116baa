"""Contractions as kernels for a GPU: a team computes a tile of the result, step by step of the
summed axes.

    for each block of summed elements:
        all threads read a block of both operands into shared memory
        each thread adds the products of some rows and some columns to sums of its own
    each thread: what the group computes from its sums, and its stores

What is a large product of matrices as they lie in memory says so: a library may compute it.

Operands are read through whatever views stand before them, so the windows of a convolution are
never written to memory. Where the tiles are few and the sums long, teams share the summed elements,
and a second kernel adds up what they have in order. Which tiles these are stands in `tiles.py`.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from ...capture.graph import Node
from ...eager.dtypes import summed_in
from ...eager.errors import CodegenError
from ...eager.ops.contract import parts
from ...eager.shapes import product
from .. import loops
from ..fuse import Group
from ..index import Index, as_index, atom, variable
from ..inline import Indices, Inliner, flat, in_memory, unflat
from ..loops import Buffer, For, If, Kernel, Register, Stmt, const
from ..machine import Machine
from ..nest import counter
from ..pack import factor
from ..tasks import bounds, buffers_of
from ..values import BUILDER, Value, call, cast
from .cost import FIRST, Choice
from .product import is_worth_a_library, product_of
from .tiles import Sizes, Way, ways


class Contraction:
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
        if self.is_plain and machine.open:  # which is called with numbers
            raise CodegenError("a library is to compute a product of this size")

    def count(self, letters: list[str]) -> int:
        """How many elements these letters count."""
        return int(product(self.size[a] for a in letters))

    @property
    def sizes(self) -> Sizes:
        """What tiles are chosen by."""
        most = self.machine.most
        read = sum(most(self.buffers[n].size) * n.type.dtype.itemsize for n in self.group.reads)
        batch, rows, columns = (most(self.count(x)) for x in (self.batch, self.rows, self.columns))
        return Sizes(batch, rows, columns, most(self.depth), self.dtype.itemsize, read)

    def element(self, operand: int, where: dict[str, Index]) -> Value:
        """An element of an operand, read through the views before it."""
        inline = Inliner(in_memory(self.buffers, self.group.members))
        node = self.node.inputs[operand]
        return cast(inline.value(node, tuple(where[a] for a in self.letters[operand])), self.dtype)

    def steps(self, operand: int) -> bool:
        """Whether neighbouring threads are to read summed elements: where more of these than of the
        operand's rows or columns lie side by side in memory."""
        mine = self.columns if operand == self.column_operand else self.rows
        local = {a: variable(f"a{a}", self.size[a]) for a in self.size}
        found = loops.parts([self.element(operand, local).expr])
        loads = [e for e in found if isinstance(e, loops.Load)]

        def beside(letters: list[str]) -> int:
            last = [a for a in letters if self.size[a] > 1][-1:]
            var = next(iter(local[last[0]].terms)) if last else None
            near = var is not None and any(factor(e.index, var) == 1 for e in loads)
            return self.machine.most(self.size[last[0]]) if near else 0

        return beside(self.summed) > beside(mine)


def lower_contract(group: Group, buffers: dict[Node, Buffer], machine: Machine, name: str,
                   kept: Collection[Buffer] = (), choice: Choice = FIRST) -> list[Kernel]:
    """The kernels of a group that begins with a contraction. Which of its tiles these have is the
    model's choice, or of who measures them."""
    of = Contraction(group, buffers, machine, name)
    if of.is_plain:
        return Team(of, ways(of.sizes, whole=True)[0]).kernels()
    return choice.best({str(w): Team(of, w).kernels for w in ways(of.sizes, choice.chip)})


class Team:
    """The statements of a task of a contraction."""

    def __init__(self, of: Contraction, way: Way) -> None:
        self.of, (self.tile, self.shares) = of, way
        self.grid = of.count(of.batch), *of.sizes.grid(self.tile)
        tile, dtype = self.tile, of.dtype
        self.blocks = [Buffer(n, dtype, tile.depth * p, scratch=True)
                       for n, p in zip(("rows", "columns"), tile.pitch)]
        self.sums = Buffer("sums", dtype, tile.threads * tile.own ** 2, scratch=True)
        self.factors = [Buffer(n, dtype, tile.threads * tile.own, scratch=True)
                        for n in ("left", "right")]
        self.partial = Buffer(f"{of.name}_part", dtype, self.shares * of.node.type.size)

    def kernels(self) -> list[Kernel]:
        """The tiles, and what adds up the shares of a tile."""
        of = self.of
        tasks = product(self.grid) * self.shares
        var, task = counter("task", tasks)
        share, number = task % self.shares, task // self.shares
        body = self._statements(number, share)
        scratch = (*self.blocks, self.sums, *self.factors)
        made = Kernel(of.name, *buffers_of(tuple(body)), scratch, var, tasks,
                      tuple(body), self._cost(), _sites(of),
                      product=product_of(of, self.result) if of.is_plain else None)
        return [made, self._total()] if self.in_parts else [made]

    @property
    def in_parts(self) -> bool:
        """Whether what the tiles give lies in memory before the rest of the group is computed."""
        return self.shares > 1 or (self.of.is_plain and len(self.of.group.members) > 1)

    @property
    def result(self) -> Buffer:
        """What the tiles are written to, where they are written as they are."""
        return self.partial if self.in_parts else self.of.buffers[self.of.node]

    def _cost(self) -> float:
        of = self.of
        return 2e-3 * float(of.node.type.size) * of.depth

    def _statements(self, number: Index, share: Index) -> list[Stmt]:
        of, tile = self.of, self.tile
        blocks = -(-of.sizes.depth // tile.depth)
        each = -(-blocks // self.shares)
        var, block = counter("block", blocks)
        column, number = number % self.grid[2], number // self.grid[2]
        row, batch = number % self.grid[1], number // self.grid[1]
        self.fixed = dict(zip(of.batch, unflat(batch, [of.size[a] for a in of.batch])))
        self.first = row * tile.rows, column * tile.columns
        body = [*self._read(0, block), *self._read(1, block), self._multiply()]
        return [self._clear(), For(var, *bounds(share, each, blocks), tuple(body)),
                self._finish(share)]

    def _lanes(self, body: list[Stmt], var: loops.Var) -> For:
        return For(var, const(0), const(self.tile.threads), tuple(body), self.tile.threads)

    # ---- operands
    def _read(self, side: int, block: Index) -> list[Stmt]:
        """A block of the rows' operand (side 0) or the columns' as it lies in shared memory."""
        of, tile = self.of, self.tile
        wide, operand = (tile.rows, tile.columns)[side], abs(of.column_operand - 1 + side)
        count = wide * tile.depth
        lane, i = counter("i", count)
        if of.steps(operand):
            own, k = i // tile.depth, i % tile.depth
        else:
            k, own = i // wide, i % wide
        value = self._operand(operand, side, self.first[side] + own, block * tile.depth + k)
        store = loops.Store(self.blocks[side], (k * self.tile.pitch[side] + own).expr(), value.expr)
        return [For(lane, const(0), const(count), (store,), tile.threads)]

    def _operand(self, operand: int, side: int, own: Index, k: Index) -> Value:
        """An element at one of the rows or columns, and one of the summed. Behind their ends it is
        0: the last one is read again there, as views know of no other places."""
        of = self.of
        letters = (of.rows, of.columns)[side]
        inside = _both(own < of.count(letters), k < of.depth)
        where = dict(self.fixed)
        for names, at in ((letters, own), (of.summed, k)):
            last = _at_most(at, of.count(names) - 1)
            where |= dict(zip(names, unflat(last, [of.size[a] for a in names])))
        value = of.element(operand, where)
        return value if inside is None else cast(call("where", inside, value, 0), of.dtype)

    # ---- sums
    def _clear(self) -> For:
        lane, t = counter("t", self.tile.threads)
        zero = loops.const(0, self.of.dtype)
        return self._lanes([loops.Store(self.sums, self._own(t, n).expr(), zero)
                            for n in range(self.tile.own ** 2)], lane)

    def _own(self, thread: Index, n: int) -> Index:
        return thread * self.tile.own ** 2 + n

    def _multiply(self) -> For:
        """What each thread adds to its sums from the blocks in shared memory."""
        of, own = self.of, self.tile.own
        lane, t = counter("t", self.tile.threads)
        sums = [Register(f"s{n}", of.dtype) for n in range(own * own)]
        var, k = counter("k", self.tile.depth)
        steps = [s for side in (0, 1) for s in self._factors(side, t, k)]
        steps += [loops.Update(sums[i * own + j], "add", loops.call(
            "mul", (self._factor(0, t, i), self._factor(1, t, j)), of.dtype))
            for i in range(own) for j in range(own)]
        took = [loops.Assign(r, loops.load(self.sums, self._own(t, n).expr()))
                for n, r in enumerate(sums)]
        gave = [loops.Store(self.sums, self._own(t, n).expr(), loops.read(r))
                for n, r in enumerate(sums)]
        return self._lanes([*took, For(var, const(0), const(self.tile.depth), tuple(steps), 0,
                                          self.tile.unrolled), *gave], lane)

    def _factors(self, side: int, thread: Index, k: Index) -> list[Stmt]:
        """Reads a thread's rows or columns for one summed element, a piece after the other."""
        own, piece = self.tile.own, self.tile.piece
        out: list[Stmt] = []
        for number in range(0, own, piece):
            var, n = counter("n", piece)
            place = k * self.tile.pitch[side] + self._place(side, thread, number) + n
            value = loops.load(self.blocks[side], place.expr())
            store = loops.Store(self.factors[side], (thread * own + number + n).expr(), value)
            out.append(For(var, const(0), const(piece), (store,), 0, piece))
        return out

    def _factor(self, side: int, thread: Index, n: int) -> loops.Expr:
        return loops.load(self.factors[side], (thread * self.tile.own + n).expr())

    def _place(self, side: int, thread: Index, number: int) -> Index:
        """Where in its tile a thread's row (side 0) or column of this number is: its pieces are as
        far from each other as those of all threads beside it are wide."""
        tile, piece = self.tile, self.tile.piece
        across = tile.columns // tile.own
        mine = thread % across if side else thread // across
        beside = across if side else tile.rows // tile.own
        return mine * piece + number // piece * beside * piece + number % piece

    # ---- results
    def _finish(self, share: Index) -> For:
        lane, t = counter("t", self.tile.threads)
        own, piece = self.tile.own, self.tile.piece
        return self._lanes([s for i in range(own) for j in range(0, own, piece)
                            for s in self._piece_of_results(t, i, j, share)], lane)

    def _piece_of_results(self, thread: Index, i: int, j: int, share: Index) -> list[Stmt]:
        """A thread's results in a row: those of a piece of columns at once, where all of them are
        there."""
        tile, of = self.tile, self.of
        row = self.first[0] + self._place(0, thread, i)
        column = self.first[1] + self._place(1, thread, j)

        def result(n: Index) -> list[Stmt]:
            value = Value(loops.load(self.sums, (self._own(thread, i * tile.own + j) + n).expr()))
            return self._results(row, column + n, value, share)

        if of.count(of.columns) % tile.piece == 0:
            var, n = counter("n", tile.piece)
            loop = For(var, const(0), const(tile.piece), tuple(result(n)), 0, tile.piece)
            return self._guarded(row, column, [loop])
        return [s for n in range(tile.piece)
                for s in self._guarded(row, column + n, result(as_index(n)))]

    def _guarded(self, row: Index, column: Index, body: list[Stmt]) -> list[Stmt]:
        of = self.of
        inside = _both(row < of.count(of.rows), column < of.count(of.columns))
        return body if inside is None else [If(inside.expr, tuple(body))]

    def _results(self, row: Index, column: Index, value: Value, share: Index) -> list[Stmt]:
        """Stores of the group's members at one element, or of a share's sum."""
        of = self.of
        where = self._element(row, column)
        if self.in_parts:
            at = share * of.node.type.size + flat(where, of.node.type.shape)
            return [loops.Store(self.partial, at.expr(), value.expr)]
        return stores(of, where, value)

    def _element(self, row: Index, column: Index) -> Indices:
        of = self.of
        letters = dict(self.fixed)
        for names, at in ((of.rows, row), (of.columns, column)):
            last = _at_most(at, of.count(names) - 1)
            letters |= dict(zip(names, unflat(last, [of.size[a] for a in names])))
        return tuple(letters[a] for a in of.letters[2])

    def _total(self) -> Kernel:
        """Adds up the shares, and does the rest of the group: a thread for each element."""
        of = self.of
        size, lanes = of.node.type.size, 128
        tasks = -(-size // lanes)
        var, task = counter("task", tasks)
        lane, i = counter("i", size)
        number, p = counter("p", self.shares)
        total = Register("total", of.dtype)
        add = loops.Update(total, "add", loops.load(self.partial, (p * size + i).expr()))
        body = (loops.Assign(total, loops.const(0, of.dtype)),
                For(number, const(0), const(self.shares), (add,), 0, 4),
                *stores(of, unflat(i, of.node.type.shape), Value(loops.read(total))))
        loop = (For(lane, *bounds(task, lanes, size), body, lanes),)
        return Kernel(of.name + "_total", *buffers_of(loop), (), var, tasks, loop, float(size),
                      _sites(of))


def stores(of: Contraction, where: Indices, value: Value) -> list[Stmt]:
    """What the group stores at one element of the result, from the sum there."""
    memory = in_memory(of.buffers, of.group.members)

    def leaf(node: Node, index: Indices, mask: Any) -> Value | None:
        return cast(value, node.type.dtype) if node is of.node else memory(node, index, mask)

    inline = Inliner(leaf)
    return [loops.Store(of.buffers[m], flat(where, m.type.shape).expr(),
                        inline.value(m, where).expr)
            for m in of.group.members if m in of.buffers]


def _at_most(i: Index, last: int) -> Index:
    """An index, or the last one in the place of those behind it."""
    if i.range()[1] <= last:
        return i
    return atom(loops.call("minimum", (i.expr(), const(last)), loops.INT), (0, last))


def _both(a: Any, b: Any) -> Value | None:
    """Where both hold; None where that is everywhere."""
    known = a is True and b is True
    both = a and b if isinstance(a, bool) and isinstance(b, bool) else call("and", a, b)
    return None if known else both if isinstance(both, Value) else BUILDER.const(both, loops.BOOL)


def _sites(of: Contraction) -> tuple[str, ...]:
    return tuple(dict.fromkeys(n.site for n in of.group.members if n.site))


