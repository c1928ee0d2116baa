"""Lowers argsort along an axis, row by row; equal elements keep their order.

    short rows    the position of an element is the number of elements that come before it
    few elements  one after the other is selected, each the least of those behind the last one
    others        radix sort: keys, unsigned integers in the order of the elements, are distributed
                  by eight bits at a time, the lowest first (Knuth 1998, 5.2.5 R); digits in which
                  all keys agree are skipped

Where only the first `count` elements are wanted, others are discarded first. The row is divided
into at least `count` groups. The largest of the `count` smallest group minima bounds the wanted
elements from above.
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
from ..ir.inline import Inliner, flatten, memory_reader, unflatten
from ..ir.loop_ir import (
    INT,
    Assign,
    DType,
    Expr,
    For,
    If,
    Kernel,
    KernelBuffer,
    Register,
    Stmt,
    Store,
    const,
)
from ..ir.sizes import is_dynamic, upper_bound
from ..ir.target_info import Machine
from .partition_work import buffers_of, chunk_bounds, split_into_tasks

_MIN_ELEMENTS_PER_TASK = 4096
# Approximate nanoseconds; only their ratios matter.
_COMPARE_NS, _COMPARED_NS = 0.9, 2.0  # a vector of keys compared with one; an element besides
_SELECT_NS, _SELECTED_NS = 1.7, 6.0  # a vector of keys in one of the two loops of a selection
_BUCKET_NS, _SELECT_BUCKET_NS = 0.4, 0.7  # a digit's count; a count of the highest bits
_MOVE_NS, _DISCARD_NS = 1.15, 0.3  # an element in a pass of the radix sort; one discarded
_DIGIT_BITS = 8  # bits of one pass of the radix sort
_SELECT_BITS = 11  # highest bits used to select: sign, exponent and two more of a float32
POSITION = np.dtype("int32")
_MAX_GROUP_ELEMENTS = 64  # elements per group whose minimum is counted
_SELECT_BLOCK_ELEMENTS = 64  # elements discarded at once
_MAX_SCRATCH_BYTES = 1 << 22  # of a task; longer rows use shared memory


def lower_sort(group: Group, buffers: dict[Node, KernelBuffer], machine: Machine, name: str
               ) -> list[Kernel]:
    """The kernel of an argsort; none where it has no reader or no elements."""
    (node,) = group.members
    if node.type.size == 0 or node not in buffers:
        return []
    check_sortable(node)
    classes = ComparisonSort, SelectionSort, RadixSort
    sorts = [made(node, buffers, machine) for made in classes]
    return [min(sorts, key=lambda sort: sort.cost()).kernel(name)]


def check_sortable(node: Node) -> None:
    """Raises CodegenError for rows of a dynamic length."""
    if is_dynamic(node.inputs[0].type.shape[node.params["axis"]]):
        raise CodegenError(f"{node.site or node.op}: one program cannot sort rows of a length "
                           "known at run time only")


class SortedRows:
    """The rows to be sorted, and the loops over them."""

    def __init__(self, node: Node, buffers: dict[Node, KernelBuffer], machine: Machine) -> None:
        self.node, self.buffers, self.machine = node, buffers, machine
        self.source, self.axis = node.inputs[0], int(node.params["axis"])
        self.shape = self.source.type.shape
        self.length, self.count = self.shape[self.axis], int(node.params["count"])
        self.key = key_dtype(self.source.type.dtype)
        self.rows = product(self.shape) // self.length
        self.tasks, self.rows_per_task = split_into_tasks(
            self.rows, -(-_MIN_ELEMENTS_PER_TASK // self.length), machine
        )

    def kernel(self, name: str) -> Kernel:
        var, task = counter("task", self.tasks)
        number, row = counter("row", self.rows)
        body = (For(number, *chunk_bounds(task, self.rows_per_task, self.rows),
                    tuple(self.row(task, row))),)
        sites = (self.node.site,) if self.node.site else ()
        return Kernel(name, *buffers_of(body), self.scratch(), var, self.tasks, body,
                      upper_bound(self.rows) * self.cost(), sites)

    def row(self, task: Index, row: Index) -> list[Stmt]:
        """The statements that sort one row."""
        raise NotImplementedError

    def scratch(self) -> tuple[KernelBuffer, ...]:
        raise NotImplementedError

    def cost(self) -> float:
        """The estimated nanoseconds per row."""
        raise NotImplementedError

    def element_index(self, row: Index, position: Index) -> tuple[Index, ...]:
        others = unflatten(row, (*self.shape[:self.axis], *self.shape[self.axis + 1:]))
        return (*others[:self.axis], position, *others[self.axis:])

    def key_of(self, row: Index, position: Index) -> ExprValue:
        """The key of an element of a row."""
        inline = Inliner(memory_reader(self.buffers, (self.node,)))
        element = inline.value(self.source, self.element_index(row, position))
        return key_of(element, self.key, bool(self.node.params["descending"]))

    def store(self, row: Index, position: Index, order: Expr) -> Store:
        """The store of an element's index at a position of the sorted row."""
        at = flatten(self.element_index(row, position), self.node.type.shape).expr()
        return Store(self.buffers[self.node], at, cast(ExprValue(order), INT).expr)


class ComparisonSort(SortedRows):
    """Sorts short rows by counting, for each element, those that come before it."""

    def __init__(self, node: Node, buffers: dict[Node, KernelBuffer], machine: Machine) -> None:
        super().__init__(node, buffers, machine)
        self.keys = KernelBuffer("keys", self.key, self.length, scratch=True)
        self.before = Register("before",
                               self.key)  # number of keys that come before the current one

    def scratch(self) -> tuple[KernelBuffer, ...]:
        return (self.keys,)

    def cost(self) -> float:
        steps = self.length / self.machine.lanes(self.key.itemsize)
        return float(self.length * (_COMPARED_NS + steps * _COMPARE_NS))

    def row(self, task: Index, row: Index) -> list[Stmt]:
        var, i = counter("i", self.length)
        own, at = Register("own", self.key), Register("at", INT)
        position = atom(loop_ir.read(at), (0, self.length - 1))
        is_selected = loop_ir.call("lt", (loop_ir.read(at), const(self.count)), loop_ir.BOOL)
        store_index = self.store(row, position, i.expr())
        return [
            For(var, const(0), const(self.length),
                (Store(self.keys, i.expr(), self.key_of(row, i).expr),)),
            For(var, const(0), const(self.length), (
                Assign(own, loop_ir.load(self.keys, i.expr())),
                Assign(self.before, const(0, self.key)),
                self._count("le", own, const(0), i.expr()),  # equal elements keep their order
                self._count("lt", own, (i + 1).expr(), const(self.length)),
                Assign(at, cast(ExprValue(loop_ir.read(self.before)), INT).expr),
                store_index if self.count == self.length else If(is_selected, (store_index,))))]

    def _count(self, op: str, own: Register, start: Expr, stop: Expr) -> Stmt:
        """The loop that counts the keys in a range that are before the current one."""
        var, j = counter("j", self.length)
        smaller = loop_ir.call(op, (loop_ir.load(self.keys, j.expr()), loop_ir.read(own)),
                               loop_ir.BOOL)
        add = loop_ir.Update(self.before, "add", cast(ExprValue(smaller), self.key).expr)
        return For(var, start, stop, (add,), self.machine.lanes(self.key.itemsize))


class SelectionSort(SortedRows):
    """Selects the first elements one by one: the least key of those that follow the last one, and
    the first position where it stands."""

    def __init__(self, node: Node, buffers: dict[Node, KernelBuffer], machine: Machine) -> None:
        super().__init__(node, buffers, machine)
        self.keys = KernelBuffer("keys", self.key, self.length, scratch=True)
        self.lanes = machine.lanes(max(POSITION.itemsize, self.key.itemsize))
        self.last, self.least = Register("last", self.key), Register("least", self.key)
        self.last_at, self.at = Register("last_at", POSITION), Register("at", POSITION)

    def scratch(self) -> tuple[KernelBuffer, ...]:
        return (self.keys,)

    def cost(self) -> float:
        steps = self.length / self.machine.lanes(self.key.itemsize)
        return float(self.count * 2 * (_SELECTED_NS + steps * _SELECT_NS) + steps * _COMPARE_NS)

    def row(self, task: Index, row: Index) -> list[Stmt]:
        (var, i), (number, position) = counter("i", self.length), counter("n", self.count)
        found = cast(ExprValue(loop_ir.read(self.at)), INT).expr
        return [
            For(var, const(0), const(self.length),
                (Store(self.keys, i.expr(), self.key_of(row, i).expr),), self.lanes),
            Assign(self.last, const(0, self.key)), Assign(self.last_at, const(-1, POSITION)),
            For(number, const(0), const(self.count), (
                *self._select(),
                self.store(row, position, found),
                Assign(self.last, loop_ir.read(self.least)),
                Assign(self.last_at, loop_ir.read(self.at))))]

    def _select(self) -> list[Stmt]:
        """Statements that find the least key behind the last one, and its position."""
        largest = (1 << 8 * self.key.itemsize) - 1
        (first, i), (second, j) = counter("i", self.length), counter("j", self.length)
        key, same = self._follows(i)
        least = call("where", key, same, largest)
        is_next, found = self._follows(j)
        is_least = call("eq", found, ExprValue(loop_ir.read(self.least)))
        place = call("where", call("and", is_next, is_least), cast(j, POSITION), self.length - 1)
        return [
            Assign(self.least, const(largest, self.key)),
            For(first, const(0), const(self.length),
                (loop_ir.Update(self.least, "minimum", least.expr),), self.lanes),
            Assign(self.at, const(self.length - 1, POSITION)),
            For(second, const(0), const(self.length),
                (loop_ir.Update(self.at, "minimum", place.expr),), self.lanes)]

    def _follows(self, i: Index) -> tuple[ExprValue, ExprValue]:
        """Whether an element follows the last selected one, and its key."""
        key, last = ExprValue(loop_ir.load(self.keys, i.expr())), ExprValue(loop_ir.read(self.last))
        is_behind = call("gt", cast(i, POSITION), ExprValue(loop_ir.read(self.last_at)))
        equal = call("and", call("eq", key, last), is_behind)
        return call("or", call("gt", key, last), equal), key


class RadixSort(SortedRows):
    """Sorts longer rows. Keys and positions move from one half of a task's memory to the other.

    The memory is scratch where it is small enough."""

    def __init__(self, node: Node, buffers: dict[Node, KernelBuffer], machine: Machine) -> None:
        super().__init__(node, buffers, machine)
        self.short = 2 * self.length * (self.key.itemsize + POSITION.itemsize) <= _MAX_SCRATCH_BYTES
        size = 2 * self.length * (1 if self.short else upper_bound(self.tasks))
        self.keys = KernelBuffer("keys", self.key, size, self.short)
        self.order = KernelBuffer("order", POSITION, size, self.short)
        self.bits = 8 * self.key.itemsize
        self.highest = min(self.bits, _SELECT_BITS)
        size = max(1 << self.highest, self.bits // _DIGIT_BITS << _DIGIT_BITS)
        self.counts = KernelBuffer("counts", POSITION, size, scratch=True)
        self.half, self.many = Register("half", INT), Register("many", INT)
        self.group = min(_MAX_GROUP_ELEMENTS, self.length // (2 * self.count))
        self.lanes = machine.lanes(max(4, self.key.itemsize))

    def scratch(self) -> tuple[KernelBuffer, ...]:
        return (self.counts, self.keys, self.order) if self.short else (self.counts,)

    def cost(self) -> float:
        passes = self.bits / _DIGIT_BITS
        fixed = passes * (1 << _DIGIT_BITS) * _BUCKET_NS
        if self.group > 1:
            selecting = (1 << self.highest) * _SELECT_BUCKET_NS + _DISCARD_NS * self.length
            return float(fixed + selecting)
        return float(fixed + self.length * (1 + _MOVE_NS * passes))

    def row(self, task: Index, row: Index) -> list[Stmt]:
        base = as_index(0) if self.short else task * (2 * self.length)
        var, digit = counter("digit", self.bits // _DIGIT_BITS)
        position, i = counter("position", self.count)
        order = loop_ir.load(self.order, (base + self._offset + i).expr())
        return [
            self._store_keys(row, base),
            Assign(self.many, const(self.length)),
            *(self._select(base) if self.group > 1 else ()),
            *self._count(base),
            Assign(self.half, const(0)),
            For(var, const(0), const(self.bits // _DIGIT_BITS),
                tuple(self._distribute(base, digit))),
            For(position, const(0), const(self.count), (self.store(row, i, order),))]

    @property
    def _offset(self) -> Index:
        return atom(loop_ir.read(self.half), (0, self.length))

    # ---- selection of the elements to be sorted
    def _store_keys(self, row: Index, base: Index) -> Stmt:
        """The loop that stores the keys and positions of all elements."""
        var, i = counter("i", self.length)
        stores = (Store(self.keys, (base + i).expr(), self.key_of(row, i).expr),
                  Store(self.order, (base + i).expr(), cast(i, POSITION).expr))
        return For(var, const(0), const(self.length), stores, self.lanes)

    def _select(self, base: Index) -> list[Stmt]:
        """Statements that keep the elements which can be among the first, by their highest bits.

        The bound is the largest of as many group minima as elements are wanted."""
        groups, bound = self.length // self.group, Register("last", self.key)
        var, i = counter("i", groups)
        minima = base + self.length
        return [
            self._group_minima(base, groups),
            self._clear_counts(1 << self.highest),
            For(
                var,
                const(0),
                const(groups),
                tuple(
                    self._increment(
                        0, self._high_bits(loop_ir.load(self.keys, (minima + i).expr()))
                    )
                ),
            ),
            *self._find_bound(bound),
            Assign(self.many, const(0)),
            self._compact(base, bound),
        ]

    def _group_minima(self, base: Index, groups: int) -> Stmt:
        """The loop that stores the minimum of each group in the other half.

        Element i belongs to group i modulo the number of groups."""
        (lane, j), (iteration, t) = counter("j", groups), counter("t", self.group)
        least = Register("least", self.key)
        key = loop_ir.load(self.keys, (base + t * groups + j).expr())
        return For(lane, const(0), const(groups), (
            Assign(least, loop_ir.load(self.keys, (base + j).expr())),
            For(iteration, const(1), const(self.group), (loop_ir.Update(least, "minimum", key),)),
            Store(self.keys, (base + self.length + j).expr(), loop_ir.read(least))), self.lanes)

    def _high_bits(self, key: Expr) -> ExprValue:
        return ExprValue(key) >> (self.bits - self.highest)

    def _find_bound(self, bound: Register) -> list[Stmt]:
        """Statements that find the lowest bucket with as many group minima up to it as elements are
        wanted."""
        var, b = counter("bucket", 1 << self.highest)
        total = Register("total", POSITION)
        too_few = ExprValue(loop_ir.read(total)) < self.count
        new_bound = call("where", too_few, cast(b, self.key), ExprValue(loop_ir.read(bound)))
        new_total = ExprValue(loop_ir.read(total)) + ExprValue(loop_ir.load(self.counts, b.expr()))
        return [Assign(total, const(0, POSITION)), Assign(bound, const(0, self.key)),
                For(var, const(0), const(1 << self.highest),
                    (Assign(bound, new_bound.expr), Assign(total, new_total.expr)))]

    def _compact(self, base: Index, bound: Register) -> Stmt:
        """The loop that moves the selected elements to the front. Blocks without one are skipped.
        """
        blocks = -(-self.length // _SELECT_BLOCK_ELEMENTS)
        (var, block), (lane, j), (one, i) = (
            counter(name, size) for name, size in
            (("block", blocks), ("j", self.length), ("i", self.length)))
        least, limits = (
            Register("least", self.key),
            chunk_bounds(block, _SELECT_BLOCK_ELEMENTS, self.length),
        )
        keys = loop_ir.load(self.keys, (base + j).expr())
        has_selected = call("le", self._high_bits(loop_ir.read(least)),
                            ExprValue(loop_ir.read(bound)))
        return For(var, const(0), const(blocks), (
            Assign(least, const((1 << self.bits) - 1, self.key)),
            For(lane, *limits, (loop_ir.Update(least, "minimum", keys),), self.lanes),
            If(has_selected.expr, (For(one, *limits, tuple(self._compact_one(base, i, bound))),))))

    def _compact_one(self, base: Index, i: Index, bound: Register) -> list[Stmt]:
        """Statements that append a key to the selected ones, and count it if it is one of them."""
        key, at = Register("own", self.key), base + atom(loop_ir.read(self.many), (0, self.length))
        is_selected = call("le", self._high_bits(loop_ir.read(key)), ExprValue(loop_ir.read(bound)))
        new_count = ExprValue(loop_ir.read(self.many)) + cast(is_selected, INT)
        return [Assign(key, loop_ir.load(self.keys, (base + i).expr())),
                Store(self.keys, at.expr(), loop_ir.read(key)),
                Store(self.order, at.expr(), cast(i, POSITION).expr),
                Assign(self.many, new_count.expr)]

    # ---- sorting
    def _count(self, base: Index) -> list[Stmt]:
        """Statements that count how often each digit occurs in each byte of the keys."""
        (var, i), key = counter("i", self.length), Register("own", self.key)
        digits = range(self.bits // _DIGIT_BITS)
        increments = [s for d in digits for s in self._increment(
            d << _DIGIT_BITS,
            ExprValue(_digit(loop_ir.read(key), cast(d * _DIGIT_BITS, self.key))))]
        return [self._clear_counts(len(digits) << _DIGIT_BITS),
                For(var, const(0), loop_ir.read(self.many),
                    (Assign(key, loop_ir.load(self.keys, (base + i).expr())), *increments))]

    def _distribute(self, base: Index, digit: Index) -> list[Stmt]:
        """Statements that distribute the keys by a digit, unless all keys have the same."""
        var, i = counter("i", self.length)
        shift, counts = cast(digit * _DIGIT_BITS, self.key), digit * (1 << _DIGIT_BITS)
        first_digit = _digit(loop_ir.load(self.keys, (base + self._offset).expr()), shift)
        same_digit = loop_ir.load(self.counts, (counts + atom(first_digit, (0, 255))).expr())
        digits_differ = call("ne", cast(ExprValue(same_digit), INT),
                             ExprValue(loop_ir.read(self.many)))
        return [If(digits_differ.expr, (
            *self._prefix_sum(counts),
            For(var, const(0), loop_ir.read(self.many),
                tuple(self._distribute_one(base, i, shift, counts))),
            Assign(self.half, (as_index(self.length) - self._offset).expr())))]

    def _prefix_sum(self, counts: Index) -> list[Stmt]:
        """Statements that turn counts into the position of the first key of each digit."""
        var, b = counter("bucket", 1 << _DIGIT_BITS)
        total, count = Register("total", POSITION), Register("count", POSITION)
        return [Assign(total, const(0, POSITION)), For(var, const(0), const(1 << _DIGIT_BITS), (
            Assign(count, loop_ir.load(self.counts, (counts + b).expr())),
            Store(self.counts, (counts + b).expr(), loop_ir.read(total)),
            Assign(total, (ExprValue(loop_ir.read(total)) + ExprValue(loop_ir.read(count))).expr)))]

    def _distribute_one(self, base: Index, i: Index, shift: ExprValue, counts: Index) -> list[Stmt]:
        """Statements that move a key and its index to the next position of its digit."""
        key, at = Register("own", self.key), Register("at", POSITION)
        index, source = Register("position", POSITION), (base + self._offset + i).expr()
        digit = (counts + atom(_digit(loop_ir.read(key), shift), (0, 255))).expr()
        position = cast(ExprValue(loop_ir.read(at)), INT).expr
        target = (base + self.length - self._offset + atom(position, (0, self.length - 1))).expr()
        return [Assign(key, loop_ir.load(self.keys, source)),
                Assign(index, loop_ir.load(self.order, source)),
                Assign(at, loop_ir.load(self.counts, digit)),
                Store(self.counts, digit, (ExprValue(loop_ir.read(at)) + 1).expr),
                Store(self.keys, target, loop_ir.read(key)),
                Store(self.order, target, loop_ir.read(index))]

    def _clear_counts(self, size: int) -> Stmt:
        var, b = counter("bucket", size)
        body = (Store(self.counts, b.expr(), const(0, POSITION)),)
        return For(var, const(0), const(size), body, self.machine.lanes())

    def _increment(self, counts: int, bucket: ExprValue) -> list[Stmt]:
        """Statements that add one to a bucket."""
        bucket_index = (as_index(counts) + atom(cast(bucket, INT).expr,
                                                (0, self.counts.size))).expr()
        old = Register("old", POSITION)
        return [Assign(old, loop_ir.load(self.counts, bucket_index)),
                Store(self.counts, bucket_index, (ExprValue(loop_ir.read(old)) + 1).expr)]


def _digit(key: Expr, shift: ExprValue) -> Expr:
    """The eight bits of a key that begin at `shift`, as an index."""
    return cast(call("and", call("shr", ExprValue(key), shift), (1 << _DIGIT_BITS) - 1), INT).expr


# ---- keys
def key_dtype(dtype: DType) -> DType:
    """The dtype of the keys of elements."""
    size = summed_in(dtype).itemsize if kind(dtype) == "f" else dtype.itemsize
    return np.dtype(f"u{size}")


def key_of(element: ExprValue, dtype: DType, descending: bool) -> ExprValue:
    """An unsigned integer key with the order of the elements. 0.0 equals -0.0, and nan is the
    largest."""
    key = _of_float(element, dtype) if kind(element.dtype) == "f" else _of_integer(element, dtype)
    return call("not", key) if descending else key


def _of_integer(element: ExprValue, dtype: DType) -> ExprValue:
    key = cast(element, dtype)
    return key ^ _sign(dtype) if element.dtype.kind == "i" else key


def _of_float(element: ExprValue, dtype: DType) -> ExprValue:
    """The key of a float: its bits, inverted where the sign is set."""
    wide = cast(element, np.dtype(f"f{dtype.itemsize}")) + 0.0
    bits = ExprValue(loop_ir.call("bits", (wide.expr,), dtype))
    ordered = call("where", bits >= _sign(dtype), call("not", bits), bits | _sign(dtype))
    nan = ExprValue(loop_ir.call("isnan", (wide.expr,), loop_ir.BOOL))
    key: ExprValue = call("where", nan, 2 * _sign(dtype) - 1, ordered)
    return key


def _sign(dtype: DType) -> int:
    return 1 << 8 * dtype.itemsize - 1
