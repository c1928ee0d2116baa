"""The order of elements along an axis as kernels for a GPU; equal ones stay in their order.

    short rows    an element's place is the number of those that come before it: a thread for each
                  element
    others        a team sorts a row, or a piece of it, in shared memory: pairs of a key and a place
                  by a network that compares fixed pairs (Batcher 1968), where places decide between
                  equal keys; then pieces are merged in pairs, and these in pairs: each element
                  finds its new place by a search in the other piece, a thread for each

Only as many elements of a piece are kept as are wanted of the row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ...capture.graph.graph import Node
from ...eager.arrays.shapes import TensorType
from ..cpu.argsort import POSITION, SortedRows
from ..cpu.partition_work import buffers_of, chunk_bounds
from ..fusion.fusion import Group
from ..ir import loop_ir
from ..ir.affine_index import Index, as_index, atom, counter
from ..ir.builder import ExprValue, call, cast
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
    Var,
    const,
)
from ..ir.target_info import Machine

_SHORT = 64  # elements of a row in which each is compared with each
_BLOCK = 128  # threads of a team that has some short rows
_WIDEST = 1024  # threads of a team
_SHARED = 40 << 10  # bytes of keys and places that a team sorts
_BANKS = 128  # bytes that all banks of shared memory give at once
_WORD = 4  # bytes of a bank
_MERGING = 256  # threads of a team that merges


def lower_sort(group: Group, buffers: dict[Node, Buffer], machine: Machine, name: str
               ) -> list[Kernel]:
    """The kernels of an order; none where nobody reads it or there is nothing to order."""
    (node,) = group.members
    if node.type.size == 0 or node not in buffers:
        return []
    length = node.inputs[0].type.shape[node.params["axis"]]
    made = (Compared if length <= _SHORT else Merged)(node, buffers, machine)
    return made.kernels(name)


def order_of(node: Node, buffers: Mapping[Node, Buffer], machine: Machine, name: str
             ) -> tuple[Buffer, list[Kernel]]:
    """The order of all elements of a node, equal ones as they come, and the kernels that find it;
    `buffers`: what lies in memory."""
    shape = (int(node.type.size),)
    line = Node("reshape", (node,), {"shape": shape}, TensorType(shape, node.type.dtype), node.site)
    params = {"axis": 0, "descending": False, "count": shape[0]}
    order = Node("argsort", (line,), params, TensorType(shape, INT), node.site)
    made = Buffer(name, INT, shape[0])
    group = Group("sort", shape, None, [order], {node})
    return made, lower_sort(group, {**buffers, order: made}, machine, name)


def _equal(x: Expr, y: Expr) -> ExprValue:
    return ExprValue(loop_ir.call("eq", (x, y), BOOL))


def _less(x: Expr, y: Expr) -> ExprValue:
    return ExprValue(loop_ir.call("lt", (x, y), BOOL))


class BlockSortedRows(SortedRows):
    """Rows whose order teams of threads find."""

    def kernels(self, name: str) -> list[Kernel]:
        """All that has to run, in order."""
        raise NotImplementedError

    def made(self, name: str, task: Var, tasks: int, body: Sequence[Stmt],
             scratch: tuple[Buffer, ...] = ()) -> Kernel:
        """A kernel of these statements."""
        sites = (self.node.site,) if self.node.site else ()
        return Kernel(name, *buffers_of(tuple(body)), scratch, task, tasks, tuple(body),
                      float(self.rows * self.length), sites)


class Compared(BlockSortedRows):
    """Short rows, some of them for each team."""

    def kernels(self, name: str) -> list[Kernel]:
        """The one kernel."""
        total, size = self.rows * self.length, max(1, _BLOCK // self.length) * self.length
        tasks = -(-total // size)
        var, task = counter("task", tasks)
        keys = Buffer("keys", self.key, size, scratch=True)
        limits = chunk_bounds(task, size, total)
        (lane, u), (lane2, u2) = counter("u", total), counter("u", total)
        note = Store(keys, (u - task * size).expr(),
                     self.key_of(u // self.length, u % self.length).expr)
        body = (For(lane, *limits, (note,), _BLOCK),
                For(lane2, *limits, tuple(self._placed(u2, u2 - task * size, keys)), _BLOCK))
        return [self.made(name, var, tasks, body, (keys,))]

    def _placed(self, element: Index, here: Index, keys: Buffer) -> list[Stmt]:
        """Counts the keys that come before an element's."""
        i = element % self.length
        own, before = Register("own", self.key), Register("before", INT)
        var, j = counter("j", self.length)
        key = loop_ir.load(keys, (here - i + j).expr())
        equal = call("and", _equal(key, loop_ir.read(own)), _less(j.expr(), i.expr()))
        earlier = call("or", _less(key, loop_ir.read(own)), equal)
        note = self.store(element // self.length, atom(loop_ir.read(before), (0, self.length - 1)),
                          i.expr())
        wanted = loop_ir.call("lt", (loop_ir.read(before), const(self.count)), BOOL)
        return [Assign(own, loop_ir.load(keys, here.expr())), Assign(before, const(0)),
                For(var, const(0), const(self.length), (
                    loop_ir.Update(before, "add", cast(earlier, INT).expr),), 0, 4),
                note if self.count == self.length else If(wanted, (note,))]


@dataclass(frozen=True)
class Runs:
    """Keys and places in memory, in order from run to run: so many of each row, of `size` each."""

    count: int
    size: int
    keys: Buffer
    places: Buffer

    def at(self, row: Index, run: Index) -> Index:
        """Where a run begins."""
        return (row * self.count + run) * self.size


class Merged(BlockSortedRows):
    """Longer rows: pieces sorted in shared memory, and merged."""

    def __init__(self, node: Node, buffers: dict[Node, Buffer], machine: Machine) -> None:
        super().__init__(node, buffers, machine)
        most = 1 << (_SHARED // (self.key.itemsize + POSITION.itemsize)).bit_length() - 1
        self.piece = min(most, 1 << (self.length - 1).bit_length())
        self.pieces = -(-self.length // self.piece)
        self.threads = min(_WIDEST, self.piece // 2)
        self.last = const((1 << 8 * self.key.itemsize) - 1, self.key)  # the key that comes last
        self.keys = Buffer("keys", self.key, self.piece, scratch=True)
        self.places = Buffer("places", POSITION, self.piece, scratch=True)

    def kernels(self, name: str) -> list[Kernel]:
        """The sort of the pieces, and all merges."""
        if self.pieces == 1:
            return [self._sorted(name, None)]
        runs = self._runs(f"{name}_0", self.pieces, self.piece)
        made = [self._sorted(f"{name}_pieces", runs)]
        while runs.count > 1:
            last = runs.count == 2
            merged = self._runs(f"{name}_{len(made)}", -(-runs.count // 2), 2 * runs.size)
            made.append(self._merged(f"{name}_merge", runs, merged, last))
            runs = merged
        return made

    def _runs(self, name: str, count: int, size: int) -> Runs:
        size = min(size, self.count)
        total = self.rows * count * size
        return Runs(count, size, Buffer(f"{name}_keys", self.key, total),
                    Buffer(f"{name}_places", POSITION, total))

    # ---- a piece in shared memory
    def _sorted(self, name: str, runs: Runs | None) -> Kernel:
        """Sorts each piece; its first elements become runs, or the order itself."""
        tasks = self.rows * self.pieces
        var, task = counter("task", tasks)
        row, number = task // self.pieces, task % self.pieces
        body = [self._noted(row, number * self.piece), *self._network(),
                self._kept(row, number, runs)]
        return self.made(name, var, tasks, body, (self.keys, self.places))

    def _lanes(self, var: Var, size: int, body: Sequence[Stmt]) -> For:
        return For(var, const(0), const(size), tuple(body), self.threads)

    def _noted(self, row: Index, first: Index) -> Stmt:
        """Keys and places; what is behind the row comes last."""
        (lane, u), own = counter("u", self.piece), Register("own", self.key)
        place = first + u
        inside = place < self.length
        key = Assign(own, self.key_of(row, place).expr)
        some = [key] if inside is True else [Assign(own, self.last), If(inside.expr, (key,))]
        return self._lanes(lane, self.piece, [
            *some, Store(self.keys, self._at(self.keys, u), loop_ir.read(own)),
            Store(self.places, self._at(self.places, u), cast(place, POSITION).expr)])

    def _network(self) -> list[Stmt]:
        """Sorted runs of 1, 2, 4, ... are made into ones of twice that size: the first of one is
        compared with the last of the next and so on, and then those ever closer to each other."""
        steps = (self.piece - 1).bit_length()
        (stage, s), (step, n) = counter("stage", steps), counter("step", steps)
        closer = loop_ir.call("maximum", ((s - 1 - n).expr(), const(0)), INT)  # never below it
        return [For(stage, const(0), const(steps), (
            self._compared(self._distance(s.expr()), True),
            For(step, const(0), s.expr(), (self._compared(self._distance(closer), False),))))]

    def _distance(self, power: Expr) -> Index:
        return atom(loop_ir.call("shl", (const(1), power), INT), (1, self.piece // 2))

    def _at(self, b: Buffer, u: Index) -> Expr:
        """Where an element is in shared memory. Threads side by side read elements that are a power
        of two apart: half of the banks. So of each two parts as long as there are banks the second
        one lies the other way round: its elements are in the other half."""
        banks = _BANKS // b.dtype.itemsize
        if b.dtype.itemsize < _WORD or banks >= b.size:
            return u.expr()
        is_second = self._bits("and", self._bits("shr", u, banks.bit_length() - 1), 1)
        return self._bits("xor", u, is_second * (banks - 1)).expr()

    def _bits(self, op: str, x: Index, y: Index | int) -> Index:
        """Part of a place, by its bits."""
        made = loop_ir.call(op, (x.expr(), as_index(y).expr()), INT)
        return atom(made, (0, self.piece - 1))

    def _compared(self, distance: Index, mirrored: bool) -> For:
        """Each thread puts two keys in order."""
        lane, t = counter("t", self.piece // 2)
        low = self._bits("and", t, distance * -1) * 2 + self._bits("and", t, distance - 1)
        high = self._bits("xor", low, distance * 2 - 1 if mirrored else distance)
        pair = low, high
        at = {b: [self._at(b, i) for i in pair] for b in (self.keys, self.places)}
        keys, places = ([Register(f"{kind}{n}", dtype) for n in (1, 2)]
                        for kind, dtype in (("key", self.key), ("place", POSITION)))
        (k1, k2), (p1, p2) = ([loop_ir.read(r) for r in pair] for pair in (keys, places))
        swap = call("or", _less(k2, k1), call("and", _equal(k1, k2), _less(p2, p1)))
        read = [Assign(r, loop_ir.load(b, i))
                for b, own in ((self.keys, keys), (self.places, places))
                for r, i in zip(own, at[b])]
        swapped = [Store(b, i, value) for b, values in ((self.keys, (k2, k1)),
                                                        (self.places, (p2, p1)))
                   for i, value in zip(at[b], values)]
        return self._lanes(lane, self.piece // 2, [*read, If(swap.expr, tuple(swapped))])

    def _kept(self, row: Index, number: Index, runs: Runs | None) -> Stmt:
        """The first elements of a piece, as a run or as the order."""
        size = self.count if runs is None else runs.size
        lane, u = counter("u", size)
        place = loop_ir.load(self.places, self._at(self.places, u))
        if runs is None:
            return self._lanes(lane, size, [self.store(row, u, place)])
        at = (runs.at(row, number) + u).expr()
        return self._lanes(lane, size, [
            Store(runs.keys, at, loop_ir.load(self.keys, self._at(self.keys, u))),
            Store(runs.places, at, place)])

    # ---- pairs of runs
    def _merged(self, name: str, runs: Runs, merged: Runs, last: bool) -> Kernel:
        """Puts each element where it comes in its run and the other one of its pair."""
        total = self.rows * runs.count * runs.size
        tasks = -(-total // _MERGING)
        var, task = counter("task", tasks)
        lane, i = counter("i", total)
        body = self._moved(i, runs, merged, last)
        loop = For(lane, *chunk_bounds(task, _MERGING, total), tuple(body), _MERGING)
        return self.made(name, var, tasks, (loop,))

    def _moved(self, i: Index, runs: Runs, merged: Runs, last: bool) -> list[Stmt]:
        own, found = Register("own", self.key), Register("found", INT)
        run, row = i // runs.size % runs.count, i // runs.size // runs.count
        second = run % 2
        other = atom((run + 1 - second * 2).expr(), (0, runs.count))
        target = i % runs.size + atom(loop_ir.read(found), (0, runs.size))
        place = loop_ir.load(runs.places, i.expr())
        if last:
            stores: tuple[Stmt, ...] = (self.store(row, target, place),)
        else:
            at = (merged.at(row, run // 2) + target).expr()
            stores = (Store(merged.keys, at, loop_ir.read(own)), Store(merged.places, at, place))
        kept = target < merged.size
        return [Assign(own, loop_ir.load(runs.keys, i.expr())),
                *self._searched(runs, row, other, second, own, found),
                *(stores if kept is True else [If(kept.expr, stores)]),
                *self._filled(i, runs, merged)]

    def _filled(self, i: Index, runs: Runs, merged: Runs) -> list[Stmt]:
        """Where the last run stays alone, what comes last fills the place of another one."""
        if runs.count % 2 == 0 or merged.size == runs.size:
            return []
        run, row, place = i // runs.size % runs.count, i // runs.size // runs.count, i % runs.size
        at = (merged.at(row, run // 2) + runs.size + place).expr()
        alone = call("and", run >= runs.count - 1, place < merged.size - runs.size)
        return [If(alone.expr, (Store(merged.keys, at, self.last),
                                Store(merged.places, at, const(self.length, POSITION))))]

    def _searched(self, runs: Runs, row: Index, other: Index, second: Index, own: Register,
                  found: Register) -> list[Stmt]:
        """How many elements of the other run come before one; there are none behind the last."""
        step = Register("step", INT)
        var, _ = counter("turn", runs.size.bit_length())
        next_one = (atom(loop_ir.read(found)) + atom(loop_ir.read(step))).expr()
        there = call("and", ExprValue(loop_ir.call("le", (next_one, const(runs.size)), BOOL)),
                     other < runs.count if runs.count % 2 else True)
        key = loop_ir.load(runs.keys, (runs.at(row, other) + atom(next_one) - 1).expr(), there.expr,
                           const(0, self.key))
        equal = call("and", _equal(key, loop_ir.read(own)), _equal(second.expr(), const(1)))
        before = call("and", there, call("or", _less(key, loop_ir.read(own)), equal))
        return [Assign(found, const(0)),
                Assign(step, const(1 << runs.size.bit_length() - 1)),
                For(var, const(0), const(runs.size.bit_length()), (
                    If(before.expr, (Assign(found, next_one),)),
                    Assign(step, loop_ir.call("shr", (loop_ir.read(step), const(1)), INT))))]
