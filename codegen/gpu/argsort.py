"""Lowers stable argsort along an axis to GPU kernels.

    short rows    the rank of an element is the number of those before it: a thread for each element
    others        a thread block sorts a row, or a chunk of it, in shared memory: pairs of key and
                  position by a network that compares fixed pairs (Batcher 1968), where positions
                  break ties; then runs are merged in pairs, again and again: each element finds
                  its rank by a binary search in the other run, a thread for each

Of each run only as many elements are stored as the result needs of a row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ...capture.graph.graph import Node
from ...eager.arrays.shapes import TensorType
from ...eager.errors import CodegenError
from ..cpu.argsort import POSITION, SortedRows, check_sortable
from ..cpu.partition_work import buffers_of, chunk_bounds
from ..fusion.fusion import Group
from ..ir import loop_ir
from ..ir.affine_index import Index, as_index, atom, counter
from ..ir.builder import ExprValue, call, cast
from ..ir.loop_ir import (
    BOOL,
    INT,
    Assign,
    Expr,
    For,
    If,
    Kernel,
    KernelBuffer,
    Register,
    Stmt,
    Store,
    Var,
    const,
)
from ..ir.sizes import ceil_div, is_dynamic, upper_bound
from ..ir.target_info import Machine

MAX_RANKED_ROW = 64  # elements
RANK_BLOCK_THREADS = 128  # of a block that ranks several short rows
MAX_BLOCK_THREADS = 1024
SHARED_BYTES = 40 << 10  # of keys and positions that a block sorts
ALL_BANKS_BYTES = 128  # that all banks of shared memory deliver at once
BANK_BYTES = 4  # width of a bank
MERGE_BLOCK_THREADS = 256  # of a block that merges


def lower_sort(group: Group, buffers: dict[Node, KernelBuffer], machine: Machine, name: str
               ) -> list[Kernel]:
    """The kernels of an argsort; none if its result is empty or unused."""
    (node,) = group.members
    if node.type.size == 0 or node not in buffers:
        return []
    length = node.inputs[0].type.shape[node.params["axis"]]
    check_sortable(node)
    rows = (RankedRows if length <= MAX_RANKED_ROW else MergeSortedRows)(node, buffers, machine)
    return rows.kernels(name)


def argsort_kernels(node: Node, buffers: Mapping[Node, KernelBuffer], machine: Machine, name: str
                    ) -> tuple[KernelBuffer, list[Kernel]]:
    """The stable order of all elements of a node, and the kernels that compute it; `buffers` holds
    the nodes that lie in memory."""
    if is_dynamic(node.type.size):
        raise CodegenError(f"{node.site or node.op}: one program cannot sort indices whose number "
                           "is known at run time only")
    shape = (node.type.size,)
    flat = Node("reshape", (node,), {"shape": shape}, TensorType(shape, node.type.dtype), node.site)
    params = {"axis": 0, "descending": False, "count": shape[0]}
    order = Node("argsort", (flat,), params, TensorType(shape, INT), node.site)
    result = KernelBuffer(name, INT, shape[0])
    group = Group("sort", shape, None, [order], {node})
    return result, lower_sort(group, {**buffers, order: result}, machine, name)


def _equal(x: Expr, y: Expr) -> ExprValue:
    return ExprValue(loop_ir.call("eq", (x, y), BOOL))


def _less(x: Expr, y: Expr) -> ExprValue:
    return ExprValue(loop_ir.call("lt", (x, y), BOOL))


class BlockSortedRows(SortedRows):
    """Rows that thread blocks sort."""

    def kernels(self, name: str) -> list[Kernel]:
        """All kernels, in launch order."""
        raise NotImplementedError

    def kernel_of(self, name: str, task: Var, tasks: int, body: Sequence[Stmt],
                  scratch: tuple[KernelBuffer, ...] = ()) -> Kernel:
        """The kernel of these statements."""
        sites = (self.node.site,) if self.node.site else ()
        return Kernel(name, *buffers_of(tuple(body)), scratch, task, tasks, tuple(body),
                      float(upper_bound(self.rows * self.length)), sites)


class RankedRows(BlockSortedRows):
    """Short rows, several for each thread block."""

    def kernels(self, name: str) -> list[Kernel]:
        """The single kernel."""
        total, size = self.rows * self.length, max(1,
                                                   RANK_BLOCK_THREADS // self.length) * self.length
        tasks = ceil_div(total, size)
        var, task = counter("task", tasks)
        keys = KernelBuffer("keys", self.key, size, scratch=True)
        limits = chunk_bounds(task, size, total)
        (lane, u), (lane2, element2) = counter("u", total), counter("u", total)
        store_key = Store(keys, (u - task * size).expr(),
                          self.key_of(u // self.length, u % self.length).expr)
        body = (For(lane, *limits, (store_key,), RANK_BLOCK_THREADS),
                For(lane2, *limits, tuple(self._rank(element2, element2 - task * size, keys)),
                    RANK_BLOCK_THREADS))
        return [self.kernel_of(name, var, tasks, body, (keys,))]

    def _rank(self, element: Index, local_index: Index, keys: KernelBuffer) -> list[Stmt]:
        """Counts the keys that come before the key of an element."""
        i = element % self.length
        own_key, rank = Register("own", self.key), Register("before", INT)
        var, j = counter("j", self.length)
        key = loop_ir.load(keys, (local_index - i + j).expr())
        equal = call("and", _equal(key, loop_ir.read(own_key)), _less(j.expr(), i.expr()))
        is_before = call("or", _less(key, loop_ir.read(own_key)), equal)
        store = self.store(element // self.length, atom(loop_ir.read(rank), (0, self.length - 1)),
                           i.expr())
        is_stored = loop_ir.call("lt", (loop_ir.read(rank), const(self.count)), BOOL)
        return [Assign(own_key, loop_ir.load(keys, local_index.expr())), Assign(rank, const(0)),
                For(var, const(0), const(self.length), (
                    loop_ir.Update(rank, "add", cast(is_before, INT).expr),), 0, 4),
                store if self.count == self.length else If(is_stored, (store,))]


@dataclass(frozen=True)
class SortedRuns:
    """The keys and positions of sorted runs in memory: `count` runs of each row, of `size` each."""

    count: int
    size: int
    keys: KernelBuffer
    positions: KernelBuffer

    def at(self, row: Index, run: Index) -> Index:
        """The index of a run's first element."""
        return (row * self.count + run) * self.size


class MergeSortedRows(BlockSortedRows):
    """Longer rows: chunks are sorted in shared memory, then merged."""

    def __init__(self, node: Node, buffers: dict[Node, KernelBuffer], machine: Machine) -> None:
        super().__init__(node, buffers, machine)
        max_chunk = 1 << (SHARED_BYTES // (self.key.itemsize + POSITION.itemsize)).bit_length() - 1
        self.chunk = min(max_chunk, 1 << (self.length - 1).bit_length())
        self.chunks = -(-self.length // self.chunk)
        self.threads = min(MAX_BLOCK_THREADS, self.chunk // 2)
        self.last_key = const((1 << 8 * self.key.itemsize) - 1, self.key)  # sorts last
        self.keys = KernelBuffer("keys", self.key, self.chunk, scratch=True)
        self.positions = KernelBuffer("positions", POSITION, self.chunk, scratch=True)

    def kernels(self, name: str) -> list[Kernel]:
        """The kernel that sorts the chunks, and all merges."""
        if self.chunks == 1:
            return [self._sort_chunk(name, None)]
        runs = self._runs(f"{name}_0", self.chunks, self.chunk)
        kernels = [self._sort_chunk(f"{name}_chunks", runs)]
        while runs.count > 1:
            is_final = runs.count == 2
            merged = self._runs(f"{name}_{len(kernels)}", -(-runs.count // 2), 2 * runs.size)
            kernels.append(self._merge_kernel(f"{name}_merge", runs, merged, is_final))
            runs = merged
        return kernels

    def _runs(self, name: str, count: int, size: int) -> SortedRuns:
        size = min(size, self.count)
        total = self.rows * count * size
        return SortedRuns(count, size, KernelBuffer(f"{name}_keys", self.key, total),
                          KernelBuffer(f"{name}_places", POSITION, total))

    # ---- a chunk in shared memory
    def _sort_chunk(self, name: str, runs: SortedRuns | None) -> Kernel:
        """Sorts each chunk; its first elements become a run, or the result."""
        tasks = self.rows * self.chunks
        var, task = counter("task", tasks)
        row, chunk = task // self.chunks, task % self.chunks
        body = [self._load_chunk(row, chunk * self.chunk), *self._sorting_network(),
                self._store_chunk(row, chunk, runs)]
        return self.kernel_of(name, var, tasks, body, (self.keys, self.positions))

    def _lanes(self, var: Var, size: int, body: Sequence[Stmt]) -> For:
        return For(var, const(0), const(size), tuple(body), self.threads)

    def _load_chunk(self, row: Index, first: Index) -> Stmt:
        """Loads keys and positions; elements beyond the row get the last key."""
        (lane, u), key = counter("u", self.chunk), Register("own", self.key)
        position = first + u
        inside = position < self.length
        load = Assign(key, self.key_of(row, position).expr)
        loads = [load] if inside is True else [Assign(key, self.last_key), If(inside.expr, (load,))]
        return self._lanes(lane, self.chunk, [
            *loads, Store(self.keys, self._bank_swizzle(self.keys, u), loop_ir.read(key)),
            Store(self.positions, self._bank_swizzle(self.positions, u),
                  cast(position, POSITION).expr)])

    def _sorting_network(self) -> list[Stmt]:
        """Merges sorted runs of 1, 2, 4, ... elements into runs of twice the size.

        The first element of one run is compared with the last of the next and so on; then
        elements at ever smaller distances are compared."""
        steps = (self.chunk - 1).bit_length()
        (stage, s), (step, n) = counter("stage", steps), counter("step", steps)
        closer = loop_ir.call("maximum", ((s - 1 - n).expr(), const(0)), INT)  # never below it
        return [For(stage, const(0), const(steps), (
            self._compare_exchange(self._distance(s.expr()), True),
            For(step, const(0), s.expr(),
                (self._compare_exchange(self._distance(closer), False),))))]

    def _distance(self, power: Expr) -> Index:
        return atom(loop_ir.call("shl", (const(1), power), INT), (1, self.chunk // 2))

    def _bank_swizzle(self, b: KernelBuffer, u: Index) -> Expr:
        """The index of an element in shared memory, chosen to avoid bank conflicts.

        Neighbouring threads read elements at distances of a power of two, which would use half
        of the banks. So every second stretch of as many elements as there are banks is stored
        in reverse: its elements fall into the other half."""
        banks = ALL_BANKS_BYTES // b.dtype.itemsize
        if b.dtype.itemsize < BANK_BYTES or banks >= b.size:
            return u.expr()
        is_second = self._bit_op("and", self._bit_op("shr", u, banks.bit_length() - 1), 1)
        return self._bit_op("xor", u, is_second * (banks - 1)).expr()

    def _bit_op(self, op: str, x: Index, y: Index | int) -> Index:
        """A bit operation on indices within a chunk."""
        result = loop_ir.call(op, (x.expr(), as_index(y).expr()), INT)
        return atom(result, (0, self.chunk - 1))

    def _compare_exchange(self, distance: Index, mirrored: bool) -> For:
        """Each thread puts two keys in order."""
        lane, t = counter("t", self.chunk // 2)
        low = self._bit_op("and", t, distance * -1) * 2 + self._bit_op("and", t, distance - 1)
        high = self._bit_op("xor", low, distance * 2 - 1 if mirrored else distance)
        pair = low, high
        indices = {b: [self._bank_swizzle(b, i) for i in pair] for b in (self.keys, self.positions)}
        keys, positions = ([Register(f"{kind}{n}", dtype) for n in (1, 2)]
                           for kind, dtype in (("key", self.key), ("position", POSITION)))
        (k1, k2), (p1, p2) = ([loop_ir.read(r) for r in pair] for pair in (keys, positions))
        swap = call("or", _less(k2, k1), call("and", _equal(k1, k2), _less(p2, p1)))
        read = [Assign(r, loop_ir.load(b, i))
                for b, registers in ((self.keys, keys), (self.positions, positions))
                for r, i in zip(registers, indices[b])]
        exchange = [Store(b, i, value)
                    for b, values in ((self.keys, (k2, k1)), (self.positions, (p2, p1)))
                    for i, value in zip(indices[b], values)]
        return self._lanes(lane, self.chunk // 2, [*read, If(swap.expr, tuple(exchange))])

    def _store_chunk(self, row: Index, chunk: Index, runs: SortedRuns | None) -> Stmt:
        """Stores the first elements of a chunk, as a run or as the result."""
        size = self.count if runs is None else runs.size
        lane, u = counter("u", size)
        position = loop_ir.load(self.positions, self._bank_swizzle(self.positions, u))
        if runs is None:
            return self._lanes(lane, size, [self.store(row, u, position)])
        index = (runs.at(row, chunk) + u).expr()
        return self._lanes(lane, size, [
            Store(runs.keys, index, loop_ir.load(self.keys, self._bank_swizzle(self.keys, u))),
            Store(runs.positions, index, position)])

    # ---- pairs of runs
    def _merge_kernel(self, name: str, runs: SortedRuns, merged: SortedRuns,
                      is_final: bool) -> Kernel:
        """Stores each element at its rank in the merge of its run and the other run of the pair."""
        total = self.rows * runs.count * runs.size
        tasks = -(-total // MERGE_BLOCK_THREADS)
        var, task = counter("task", tasks)
        lane, i = counter("i", total)
        body = self._merge_element(i, runs, merged, is_final)
        loop = For(lane, *chunk_bounds(task, MERGE_BLOCK_THREADS, total), tuple(body),
                   MERGE_BLOCK_THREADS)
        return self.kernel_of(name, var, tasks, (loop,))

    def _merge_element(self, i: Index, runs: SortedRuns, merged: SortedRuns,
                       is_final: bool) -> list[Stmt]:
        own_key, count_before = Register("own", self.key), Register("found", INT)
        run, row = i // runs.size % runs.count, i // runs.size // runs.count
        second = run % 2
        other = atom((run + 1 - second * 2).expr(), (0, runs.count))
        target = i % runs.size + atom(loop_ir.read(count_before), (0, runs.size))
        position = loop_ir.load(runs.positions, i.expr())
        if is_final:
            stores: tuple[Stmt, ...] = (self.store(row, target, position),)
        else:
            index = (merged.at(row, run // 2) + target).expr()
            stores = (Store(merged.keys, index, loop_ir.read(own_key)),
                      Store(merged.positions, index, position))
        is_stored = target < merged.size
        return [Assign(own_key, loop_ir.load(runs.keys, i.expr())),
                *self._search_other_run(runs, row, other, second, own_key, count_before),
                *(stores if is_stored is True else [If(is_stored.expr, stores)]),
                *self._pad_last_run(i, runs, merged)]

    def _pad_last_run(self, i: Index, runs: SortedRuns, merged: SortedRuns) -> list[Stmt]:
        """Pads the last run with the last key if it has no other run to merge with."""
        if runs.count % 2 == 0 or merged.size == runs.size:
            return []
        run, row, offset = i // runs.size % runs.count, i // runs.size // runs.count, i % runs.size
        index = (merged.at(row, run // 2) + runs.size + offset).expr()
        is_last_run = call("and", run >= runs.count - 1, offset < merged.size - runs.size)
        return [If(is_last_run.expr,
                   (Store(merged.keys, index, self.last_key),
                    Store(merged.positions, index, const(self.length, POSITION))))]

    def _search_other_run(self, runs: SortedRuns, row: Index, other: Index, second: Index,
                          own_key: Register, count_before: Register) -> list[Stmt]:
        """Counts the elements of the other run that come before an element; none beyond the last
        run."""
        step = Register("step", INT)
        var, _ = counter("step", runs.size.bit_length())
        candidate = (atom(loop_ir.read(count_before)) + atom(loop_ir.read(step))).expr()
        in_run = call("and", ExprValue(loop_ir.call("le", (candidate, const(runs.size)), BOOL)),
                      other < runs.count if runs.count % 2 else True)
        key = loop_ir.load(runs.keys, (runs.at(row, other) + atom(candidate) - 1).expr(),
                           in_run.expr, const(0, self.key))
        equal = call("and", _equal(key, loop_ir.read(own_key)), _equal(second.expr(), const(1)))
        advance = call("and", in_run, call("or", _less(key, loop_ir.read(own_key)), equal))
        return [Assign(count_before, const(0)),
                Assign(step, const(1 << runs.size.bit_length() - 1)),
                For(var, const(0), const(runs.size.bit_length()), (
                    If(advance.expr, (Assign(count_before, candidate),)),
                    Assign(step, loop_ir.call("shr", (loop_ir.read(step), const(1)), INT))))]
