"""The order of elements along an axis as a kernel, row by row; equal ones stay in their order.

    short rows    an element's place is the number of those that come before it
    others        radix sort: keys, unsigned integers in the order of the elements, are dealt out by
                  eight bits after the other, the lowest first (Knuth 1998, 5.2.5 R); bits in which
                  all keys agree are left out

Where only the first few are wanted, those that must come later are left out first: as many groups
of elements as are wanted have one at least that comes no later than the least of any other.
"""

from __future__ import annotations

import numpy as np

from ...capture.graph.graph import Node
from ...eager.arrays.dtypes import kind, summed_in
from ...eager.arrays.shapes import product
from ...eager.errors import CodegenError
from ..fusion.fusion import Group
from ..ir import loop_ir
from ..ir.affine_index import Index, as_index, atom, counter
from ..ir.builder import ExprValue, call, cast
from ..ir.inline import Inliner, flat, in_memory, unflat
from ..ir.loop_ir import (
    INT,
    Assign,
    Buffer,
    DType,
    Expr,
    For,
    If,
    Kernel,
    Register,
    Stmt,
    Store,
    const,
)
from ..ir.target_info import Machine
from .partition_work import bounds, buffers_of, chunks

_SHORT = 48  # elements of a row in which each is compared with each
_TASK = 4096  # elements that make a task worth while
_DIGIT = 8  # bits by which keys are dealt out at once
_HIGHEST = 11  # bits that tell what comes first: sign, exponent and two more of a float32
PLACE = np.dtype("int32")
_GROUP = 64  # elements of which the least is counted, at most
_BLOCK = 64  # elements that are left out at once
_SCRATCH = 1 << 22  # bytes


def lower_sort(group: Group, buffers: dict[Node, Buffer], machine: Machine, name: str
               ) -> list[Kernel]:
    """The kernel of an order; none where nobody reads it or there is nothing to order."""
    (node,) = group.members
    if node.type.size == 0 or node not in buffers:
        return []
    length = node.inputs[0].type.shape[node.params["axis"]]
    if machine.varies(length):
        raise CodegenError(f"{where(node)}: a dynamic-shape program cannot sort rows of "
                           "dynamic length")
    made = (Compared if length <= _SHORT else RadixDigits)(node, buffers, machine)
    return [made.kernel(name)]


def where(node: Node) -> str:
    """The line of a node, for errors."""
    return node.site or node.op


class SortedRows:
    """The rows to be sorted, and the loops over them."""

    def __init__(self, node: Node, buffers: dict[Node, Buffer], machine: Machine) -> None:
        self.node, self.buffers, self.machine = node, buffers, machine
        self.source, self.axis = node.inputs[0], int(node.params["axis"])
        self.shape = self.source.type.shape
        self.length, self.count = self.shape[self.axis], int(node.params["count"])
        self.key = key_dtype(self.source.type.dtype)
        self.rows = int(product(self.shape)) // self.length
        self.tasks, self.each = chunks(self.rows, -(-_TASK // self.length), machine)

    def kernel(self, name: str) -> Kernel:
        var, task = counter("task", self.tasks)
        number, row = counter("row", self.rows)
        body = (For(number, *bounds(task, self.each, self.rows), tuple(self.row(task, row))),)
        sites = (self.node.site,) if self.node.site else ()
        return Kernel(name, *buffers_of(body), self.scratch(), var, self.tasks, body,
                      self.rows * self.cost(), sites)

    def row(self, task: Index, row: Index) -> list[Stmt]:
        """Puts one row in order."""
        raise NotImplementedError

    def scratch(self) -> tuple[Buffer, ...]:
        raise NotImplementedError

    def cost(self) -> float:
        """Nanoseconds for a row."""
        raise NotImplementedError

    def at(self, row: Index, place: Index) -> tuple[Index, ...]:
        others = unflat(row, (*self.shape[:self.axis], *self.shape[self.axis + 1:]))
        return (*others[:self.axis], place, *others[self.axis:])

    def key_of(self, row: Index, place: Index) -> ExprValue:
        """The key of an element of a row."""
        inline = Inliner(in_memory(self.buffers, (self.node,)))
        found = inline.value(self.source, self.at(row, place))
        return key_of(found, self.key, bool(self.node.params["descending"]))

    def store(self, row: Index, place: Index, order: Expr) -> Store:
        """Notes which element comes at a place of the row's order."""
        at = flat(self.at(row, place), self.node.type.shape).expr()
        return Store(self.buffers[self.node], at, cast(ExprValue(order), INT).expr)


class Compared(SortedRows):
    """Short rows."""

    def __init__(self, node: Node, buffers: dict[Node, Buffer], machine: Machine) -> None:
        super().__init__(node, buffers, machine)
        self.keys = Buffer("keys", self.key, self.length, scratch=True)
        self.before = Register("before", self.key)  # how many keys come before one

    def scratch(self) -> tuple[Buffer, ...]:
        return (self.keys,)

    def cost(self) -> float:
        return float(self.length * (5 + self.length / 8))

    def row(self, task: Index, row: Index) -> list[Stmt]:
        var, i = counter("i", self.length)
        own, at = Register("own", self.key), Register("at", INT)
        place = atom(loop_ir.read(at), (0, self.length - 1))
        wanted = loop_ir.call("lt", (loop_ir.read(at), const(self.count)), loop_ir.BOOL)
        note = self.store(row, place, i.expr())
        return [
            For(var, const(0), const(self.length),
                (Store(self.keys, i.expr(), self.key_of(row, i).expr),)),
            For(var, const(0), const(self.length), (
                Assign(own, loop_ir.load(self.keys, i.expr())),
                Assign(self.before, const(0, self.key)),
                self._counted("le", own, const(0), i.expr()),  # equal ones stay in their order
                self._counted("lt", own, (i + 1).expr(), const(self.length)),
                Assign(at, cast(ExprValue(loop_ir.read(self.before)), INT).expr),
                note if self.count == self.length else If(wanted, (note,))))]

    def _counted(self, op: str, own: Register, start: Expr, stop: Expr) -> Stmt:
        """Counts the keys of a range that are before one's own."""
        var, j = counter("j", self.length)
        smaller = loop_ir.call(op, (loop_ir.load(self.keys, j.expr()), loop_ir.read(own)),
                               loop_ir.BOOL)
        more = loop_ir.Update(self.before, "add", cast(ExprValue(smaller), self.key).expr)
        return For(var, start, stop, (more,), self.machine.lanes(self.key.itemsize))


class RadixDigits(SortedRows):
    """Longer rows. Keys and places are dealt out from one half of a task's memory to the other,
    which is scratch where there is little of it."""

    def __init__(self, node: Node, buffers: dict[Node, Buffer], machine: Machine) -> None:
        super().__init__(node, buffers, machine)
        self.short = 2 * self.length * (self.key.itemsize + PLACE.itemsize) <= _SCRATCH
        if not self.short and machine.varies(self.rows):
            raise CodegenError(f"{where(node)}: a dynamic number of such long rows would need "
                               "unbounded memory")
        size = 2 * self.length * (1 if self.short else self.tasks)
        self.keys = Buffer("keys", self.key, size, self.short)
        self.order = Buffer("order", PLACE, size, self.short)
        self.bits = 8 * self.key.itemsize
        self.highest = min(self.bits, _HIGHEST)
        size = max(1 << self.highest, self.bits // _DIGIT << _DIGIT)
        self.counts = Buffer("counts", PLACE, size, scratch=True)
        self.half, self.many = Register("half", INT), Register("many", INT)
        self.group = min(_GROUP, self.length // (2 * self.count))
        self.lanes = machine.lanes(max(4, self.key.itemsize))

    def scratch(self) -> tuple[Buffer, ...]:
        return (self.counts, self.keys, self.order) if self.short else (self.counts,)

    def cost(self) -> float:
        return float(self.length) * (0.3 if self.group > 1 else 1 + 2 * self.bits / _DIGIT)

    def row(self, task: Index, row: Index) -> list[Stmt]:
        base = as_index(0) if self.short else task * (2 * self.length)
        var, digit = counter("digit", self.bits // _DIGIT)
        place, i = counter("place", self.count)
        order = loop_ir.load(self.order, (base + self._half + i).expr())
        return [
            self._noted(row, base),
            Assign(self.many, const(self.length)),
            *(self._first(base) if self.group > 1 else ()),
            *self._counted(base),
            Assign(self.half, const(0)),
            For(var, const(0), const(self.bits // _DIGIT), tuple(self._deal(base, digit))),
            For(place, const(0), const(self.count), (self.store(row, i, order),))]

    @property
    def _half(self) -> Index:
        return atom(loop_ir.read(self.half), (0, self.length))

    # ---- which elements are to be sorted
    def _noted(self, row: Index, base: Index) -> Stmt:
        """Notes the keys and places of all elements."""
        var, i = counter("i", self.length)
        note = (Store(self.keys, (base + i).expr(), self.key_of(row, i).expr),
                Store(self.order, (base + i).expr(), cast(i, PLACE).expr))
        return For(var, const(0), const(self.length), note, self.lanes)

    def _first(self, base: Index) -> list[Stmt]:
        """Keeps those that can be among the first by their highest bits: as far as the least of
        so many groups reach as are wanted."""
        groups, last = self.length // self.group, Register("last", self.key)
        var, i = counter("i", groups)
        least = base + self.length
        return [
            self._least_of_groups(base, groups),
            self._cleared(1 << self.highest),
            For(var, const(0), const(groups),
                tuple(self._more(0, self._high(loop_ir.load(self.keys, (least + i).expr()))))),
            *self._last_of_the_first(last),
            Assign(self.many, const(0)),
            self._kept(base, last)]

    def _least_of_groups(self, base: Index, groups: int) -> Stmt:
        """Puts the least key of each group, every so manieth of the row, into the other half."""
        (lane, j), (turn, t) = counter("j", groups), counter("t", self.group)
        least = Register("least", self.key)
        key = loop_ir.load(self.keys, (base + t * groups + j).expr())
        return For(lane, const(0), const(groups), (
            Assign(least, loop_ir.load(self.keys, (base + j).expr())),
            For(turn, const(1), const(self.group), (loop_ir.Update(least, "minimum", key),)),
            Store(self.keys, (base + self.length + j).expr(), loop_ir.read(least))), self.lanes)

    def _high(self, key: Expr) -> ExprValue:
        return ExprValue(key) >> (self.bits - self.highest)

    def _last_of_the_first(self, last: Register) -> list[Stmt]:
        """Finds the highest bits up to which there are as many groups as elements are wanted."""
        var, b = counter("bucket", 1 << self.highest)
        total = Register("total", PLACE)
        short = ExprValue(loop_ir.read(total)) < self.count
        found = call("where", short, cast(b, self.key), ExprValue(loop_ir.read(last)))
        more = ExprValue(loop_ir.read(total)) + ExprValue(loop_ir.load(self.counts, b.expr()))
        return [Assign(total, const(0, PLACE)), Assign(last, const(0, self.key)),
                For(var, const(0), const(1 << self.highest),
                    (Assign(last, found.expr), Assign(total, more.expr)))]

    def _kept(self, base: Index, last: Register) -> Stmt:
        """Moves what is kept to the front; blocks without such an element are left out at once."""
        blocks = -(-self.length // _BLOCK)
        (var, block), (lane, j), (one, i) = (
            counter(name, size) for name, size in
            (("block", blocks), ("j", self.length), ("i", self.length)))
        least, limits = Register("least", self.key), bounds(block, _BLOCK, self.length)
        keys = loop_ir.load(self.keys, (base + j).expr())
        some = call("le", self._high(loop_ir.read(least)), ExprValue(loop_ir.read(last)))
        return For(var, const(0), const(blocks), (
            Assign(least, const((1 << self.bits) - 1, self.key)),
            For(lane, *limits, (loop_ir.Update(least, "minimum", keys),), self.lanes),
            If(some.expr, (For(one, *limits, tuple(self._moved(base, i, last))),))))

    def _moved(self, base: Index, i: Index, last: Register) -> list[Stmt]:
        """Moves a key to those before it that were kept; it counts if it is one itself."""
        own, at = Register("own", self.key), base + atom(loop_ir.read(self.many), (0, self.length))
        kept = call("le", self._high(loop_ir.read(own)), ExprValue(loop_ir.read(last)))
        more = ExprValue(loop_ir.read(self.many)) + cast(kept, INT)
        return [Assign(own, loop_ir.load(self.keys, (base + i).expr())),
                Store(self.keys, at.expr(), loop_ir.read(own)),
                Store(self.order, at.expr(), cast(i, PLACE).expr),
                Assign(self.many, more.expr)]

    # ---- sorting them
    def _counted(self, base: Index) -> list[Stmt]:
        """Counts how often each digit stands at each place of the keys."""
        (var, i), own = counter("i", self.length), Register("own", self.key)
        digits = range(self.bits // _DIGIT)
        each = [s for d in digits for s in self._more(
            d << _DIGIT, ExprValue(_digit(loop_ir.read(own), cast(d * _DIGIT, self.key))))]
        return [self._cleared(len(digits) << _DIGIT),
                For(var, const(0), loop_ir.read(self.many),
                    (Assign(own, loop_ir.load(self.keys, (base + i).expr())), *each))]

    def _deal(self, base: Index, digit: Index) -> list[Stmt]:
        """Deals the keys out by a digit, unless all have the same."""
        var, i = counter("i", self.length)
        shift, counts = cast(digit * _DIGIT, self.key), digit * (1 << _DIGIT)
        one = _digit(loop_ir.load(self.keys, (base + self._half).expr()), shift)
        alike = loop_ir.load(self.counts, (counts + atom(one, (0, 255))).expr())
        differ = call("ne", cast(ExprValue(alike), INT), ExprValue(loop_ir.read(self.many)))
        return [If(differ.expr, (
            *self._summed(counts),
            For(var, const(0), loop_ir.read(self.many), tuple(self._dealt(base, i, shift, counts))),
            Assign(self.half, (as_index(self.length) - self._half).expr())))]

    def _summed(self, counts: Index) -> list[Stmt]:
        """Counts become the places of the first key of each digit."""
        var, b = counter("bucket", 1 << _DIGIT)
        total, own = Register("total", PLACE), Register("count", PLACE)
        return [Assign(total, const(0, PLACE)), For(var, const(0), const(1 << _DIGIT), (
            Assign(own, loop_ir.load(self.counts, (counts + b).expr())),
            Store(self.counts, (counts + b).expr(), loop_ir.read(total)),
            Assign(total, (ExprValue(loop_ir.read(total)) + ExprValue(loop_ir.read(own))).expr)))]

    def _dealt(self, base: Index, i: Index, shift: ExprValue, counts: Index) -> list[Stmt]:
        """Moves a key and its place to where its digit is next."""
        own, at = Register("own", self.key), Register("at", PLACE)
        place, source = Register("place", PLACE), (base + self._half + i).expr()
        digit = (counts + atom(_digit(loop_ir.read(own), shift), (0, 255))).expr()
        to = cast(ExprValue(loop_ir.read(at)), INT).expr
        target = (base + self.length - self._half + atom(to, (0, self.length - 1))).expr()
        return [Assign(own, loop_ir.load(self.keys, source)),
                Assign(place, loop_ir.load(self.order, source)),
                Assign(at, loop_ir.load(self.counts, digit)),
                Store(self.counts, digit, (ExprValue(loop_ir.read(at)) + 1).expr),
                Store(self.keys, target, loop_ir.read(own)),
                Store(self.order, target, loop_ir.read(place))]

    def _cleared(self, size: int) -> Stmt:
        var, b = counter("bucket", size)
        body = (Store(self.counts, b.expr(), const(0, PLACE)),)
        return For(var, const(0), const(size), body, self.machine.lanes())

    def _more(self, counts: int, bucket: ExprValue) -> list[Stmt]:
        """One more of a bucket."""
        place = (as_index(counts) + atom(cast(bucket, INT).expr, (0, self.counts.size))).expr()
        old = Register("old", PLACE)
        return [Assign(old, loop_ir.load(self.counts, place)),
                Store(self.counts, place, (ExprValue(loop_ir.read(old)) + 1).expr)]


def _digit(key: Expr, shift: ExprValue) -> Expr:
    """The eight bits of a key that begin at `shift`, as an index."""
    return cast(call("and", call("shr", ExprValue(key), shift), (1 << _DIGIT) - 1), INT).expr


# ---- keys
def key_dtype(dtype: DType) -> DType:
    """The dtype of the keys of elements."""
    size = summed_in(dtype).itemsize if kind(dtype) == "f" else dtype.itemsize
    return np.dtype(f"u{size}")


def key_of(element: ExprValue, dtype: DType, descending: bool) -> ExprValue:
    """An unsigned integer that is as small as its element comes early: 0.0 and -0.0 are equal, nan
    is the largest."""
    key = _of_float(element, dtype) if kind(element.dtype) == "f" else _of_integer(element, dtype)
    return call("not", key) if descending else key


def _of_integer(element: ExprValue, dtype: DType) -> ExprValue:
    key = cast(element, dtype)
    return key ^ _sign(dtype) if element.dtype.kind == "i" else key


def _of_float(element: ExprValue, dtype: DType) -> ExprValue:
    """The order of floats is that of their bits, turned round where the sign is set."""
    wide = cast(element, np.dtype(f"f{dtype.itemsize}")) + 0.0
    bits = ExprValue(loop_ir.call("bits", (wide.expr,), dtype))
    turned = call("where", bits >= _sign(dtype), call("not", bits), bits | _sign(dtype))
    nan = ExprValue(loop_ir.call("isnan", (wide.expr,), loop_ir.BOOL))
    found: ExprValue = call("where", nan, 2 * _sign(dtype) - 1, turned)
    return found


def _sign(dtype: DType) -> int:
    return 1 << 8 * dtype.itemsize - 1
