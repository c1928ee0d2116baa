"""Contractions as kernels: packed blocks, and a tile of sums that stays in registers.

    task = one batch element, one block of columns, a share of the rows
        for each block of the summed axes:
            pack the columns' operand:       columns[k][j]
            for each tile of rows:
                pack the rows' operand:      rows[i][k]
                for each panel of columns (lanes):
                    sums[i] += rows[i][k] * columns[k][j] for all k
                    epilogue: what the group computes from the sums, and its stores

Packing reads the operands through whatever views stand before them (windows of a convolution,
transposes, slices), so none of those is ever written to memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ..capture.graph import Node
from ..eager.ops.contract import parts
from . import loops
from .collapse import linear, merge_axes, whole_numbers
from .fuse import Group
from .index import Index, as_index, atom, comparisons, variable
from .inline import Indices, Inliner, flat, load
from .loops import Buffer, Expr, For, Kernel, Register, Stmt, Var
from .lower import bounds, buffers_of, chunks
from .machine import Machine
from .nest import counter
from .values import Value

_BLOCK = 128  # columns of a block
_DEPTH = 512  # summed elements of a block
_PAD = 16  # keeps rows of packed blocks out of the same cache sets


def c(value: int) -> Expr:
    return loops.const(value)


def lower_contract(
    group: Group, buffers: dict[Node, Buffer], machine: Machine, name: str
) -> list[Kernel]:
    """The kernels of a group that begins with a contraction, in the orientation that moves less."""
    both = [Contraction(group, buffers, machine, name, operand) for operand in (0, 1)]
    best = min(both, key=Contraction.moves)
    return [*([best.packing_kernel()] if best.shared else []), best.kernel()]


@dataclass
class Roles:
    """The letters of a contraction by what they do, and which operand has the columns."""

    batch: list[str]
    rows: list[str]
    columns: list[str]
    summed: list[str]
    row_operand: int
    size: dict[str, int]

    def count(self, letters: list[str]) -> int:
        total = 1
        for letter in letters:
            total *= self.size[letter]
        return total


def roles_of(node: Node, lanes: int, row_operand: int) -> Roles:
    """The letters' roles with this operand as rows. Of the other operand's letters all but as many
    as fill two vectors count as batch: the rows are multiplied with each of them anew."""
    names = parts(node.params["spec"])
    size = {a: n for letters, i in zip(names, node.inputs) for a, n in zip(letters, i.type.shape)}
    mine, other, out = names[row_operand], names[1 - row_operand], names[2]
    batch = [a for a in out if a in mine and a in other]
    columns = [a for a in out if a in other and a not in mine]
    roles = Roles(batch, [a for a in out if a in mine and a not in other], columns,
                  [a for a in names[0] if a not in out], row_operand, size)
    while len(columns) > 1 and roles.count(columns[1:]) >= 2 * lanes:
        batch.append(columns.pop(0))
    return roles


class Contraction:
    """The loops of one contraction group."""

    def __init__(
        self, group: Group, buffers: dict[Node, Buffer], machine: Machine, name: str,
        row_operand: int,
    ) -> None:
        self.group, self.buffers, self.machine, self.name = group, buffers, machine, name
        self.node = group.members[0]
        self.dtype = self.node.type.dtype
        self.vector = machine.lanes(self.dtype.itemsize)
        self.roles = roles_of(self.node, self.vector, row_operand)
        self.letters = parts(self.node.params["spec"])
        self._choose_blocks()

    def _choose_blocks(self) -> None:
        roles, wide = self.roles, 2 * self.vector
        self.rows, self.depth = roles.count(roles.rows), roles.count(roles.summed)
        self.columns = roles.count(roles.columns)
        inner = roles.count(roles.columns[1:])
        first = roles.size[roles.columns[0]]
        step = max(1, min(first, -(-_BLOCK // inner)))
        blocks = -(-first // step)
        step = -(-first // blocks)
        if inner == 1 and blocks > 1:
            step = min(first, -(-step // wide) * wide)
        self.column_step, self.column_blocks = step, -(-first // step)
        self.block = step * inner
        self.pitch = -(-self.block // wide) * wide + _PAD
        self._choose_depth()
        self.tile = _tile(self.rows, self.machine.tile_rows)
        self.batches = roles.count(roles.batch)
        shares = 1
        while shares * self.batches * self.column_blocks < 8 and \
                self.rows // (shares * 2) >= 4 * self.tile:
            shares *= 2
        self.share = -(-self.rows // shares // self.tile) * self.tile
        self.shares = -(-self.rows // self.share)

    def _choose_depth(self) -> None:
        """Blocks of the summed axes: pieces of the first of them."""
        summed = self.roles.summed
        first = self.roles.size[summed[0]]
        rest = self.roles.count(summed[1:])
        limit = 2 * _DEPTH if self.depth <= 2 * _DEPTH else _DEPTH
        self.depth_step = max(1, min(first, limit // rest))
        self.depth_blocks = -(-first // self.depth_step)
        self.depth_step = -(-first // self.depth_blocks)
        self.block_depth = self.depth_step * rest

    def moves(self) -> float:
        """Roughly what packing and storing cost, in vector operations: what orientation is chosen by."""
        place = _Place(self, *[as_index(0)] * 3)
        tasks = self.batches * self.column_blocks * self.shares
        columns = place.packing_cost(self.roles.summed, self.roles.columns) * tasks
        repeats = self.row_batches if self.shared else self.batches * self.column_blocks
        rows = place.packing_cost(self.roles.summed, self.roles.rows) * repeats
        out = self.letters[2]
        stored = self.batches * self.rows * self.columns
        return columns + rows + stored * (1 / self.vector if out[-1] in self.roles.columns else 2.0)

    # ---- names of memory
    @cached_property
    def packed_columns(self) -> Buffer:
        return Buffer("columns", self.dtype, self.block_depth * self.pitch, scratch=True)

    @cached_property
    def packed_rows(self) -> Buffer:
        return Buffer("rows", self.dtype, self.tile * self.row_pitch, scratch=True)

    @cached_property
    def shared(self) -> bool:
        """Whether many tasks use the same rows, so that they are packed once, by a kernel of its own."""
        own = set(self.letters[self.roles.row_operand])
        repeats = self.roles.count([a for a in self.roles.batch if a not in own])
        return repeats * self.column_blocks >= 4 and self.depth_blocks == 1

    @cached_property
    def shared_rows(self) -> Buffer:
        """The rows of every batch element, each `row_pitch` apart."""
        return Buffer(f"{self.name}_rows", self.dtype, self.row_batches * self.rows * self.row_pitch)

    @property
    def row_pitch(self) -> int:
        return self.block_depth + _PAD

    @property
    def row_letters(self) -> list[str]:
        """The batch letters that the rows' operand has."""
        own = self.letters[self.roles.row_operand]
        return [a for a in self.roles.batch if a in own]

    @property
    def row_batches(self) -> int:
        return self.roles.count(self.row_letters)

    @cached_property
    def sums(self) -> Buffer:
        return Buffer("sums", self.dtype, self.share * self.pitch, scratch=True)

    # ---- the kernels
    def packing_kernel(self) -> Kernel:
        """Packs the rows for all tasks."""
        total = self.row_batches * self.rows
        tasks, piece = chunks(total, max(1, 4096 // self.block_depth))
        var, task = counter("task", tasks)
        line, i = counter("i", total)
        place = _Place(self, *[as_index(0)] * 3)
        where = _decode(i // self.rows, self.row_letters, self.roles.size)
        inner = place.packed_row(where, i % self.rows, i, self.shared_rows)
        body = [For(line, *bounds(task, piece, total), tuple(inner))]
        reads, writes = buffers_of(tuple(body))
        return Kernel(self.name + "_pack", reads, writes, (), var, tasks, tuple(body),
                      total * self.block_depth * 0.5)

    def kernel(self) -> Kernel:
        tasks = self.batches * self.column_blocks * self.shares
        var = Var("task")
        task = atom(var, (0, max(0, tasks - 1)))
        share, task = task % self.shares, task // self.shares
        block, batch = task % self.column_blocks, task // self.column_blocks
        place = _Place(self, batch, block, share)
        body = place.statements()
        reads, writes = buffers_of(tuple(body))
        scratch = [self.packed_columns, *([] if self.shared else [self.packed_rows])]
        if self.depth_blocks > 1:
            scratch.append(self.sums)
        flops = 2.0 * self.batches * self.rows * self.columns * self.depth
        sites = tuple(dict.fromkeys(n.site for n in self.group.members if n.site))
        return Kernel(self.name, reads, writes, tuple(scratch), var, tasks, tuple(body),
                      flops / (2 * 2.5 * 2 * self.vector) * 1.3, sites)


def _tile(rows: int, most: int) -> int:
    """The number of rows of a tile: a divisor of `rows` if one is not much smaller than the most."""
    if rows <= most:
        return rows
    divisors = [t for t in range(most, most // 2, -1) if rows % t == 0]
    return divisors[0] if divisors else most


class _Place:
    """One task: positions of its batch element, its block of columns and its share of the rows."""

    def __init__(self, of: Contraction, batch: Index, block: Index, share: Index) -> None:
        self.of, self.roles = of, of.roles
        self.fixed = _decode(batch, of.roles.batch, of.roles.size)
        self.first_column, self.share = block * of.column_step, share
        self.column_stop = self._stop(self.first_column, of.column_step,
                                      of.roles.size[of.roles.columns[0]])
        self.inner_columns = of.roles.count(of.roles.columns[1:])
        self.merged = _merged(of)

    @staticmethod
    def _stop(first: Index, step: int, size: int) -> Expr:
        """How many of `step` there are from `first` on before `size`."""
        if first.range()[1] + step <= size:
            return c(step)
        return loops.call("minimum", (c(step), (size - first).expr()), loops.INT)

    def statements(self) -> list[Stmt]:
        of = self.of
        if of.depth_blocks == 1:
            return self._depth_block(as_index(0), c(of.depth_step))
        number = Var("kb")
        first = atom(number, (0, of.depth_blocks - 1)) * of.depth_step
        stop = self._stop(first, of.depth_step, self.roles.size[self.roles.summed[0]])
        body = self._depth_block(first, stop)
        return [*self._clear(), For(number, c(0), c(of.depth_blocks), tuple(body)), *self._finish()]

    def _depth_block(self, first: Index, stop: Expr) -> list[Stmt]:
        return [*self._pack_columns(first, stop), *self._tiles(first, stop)]

    # ---- packing
    def _pack_columns(self, first: Index, stop: Expr) -> list[Stmt]:
        of, roles = self.of, self.roles
        shift = {roles.columns[0]: self.first_column, roles.summed[0]: first}
        limits = {roles.columns[0]: self.column_stop, roles.summed[0]: stop}

        def store(local: dict[str, Index]) -> loops.Store:
            where = self.fixed | {a: i + shift.get(a, 0) for a, i in local.items()}
            value = self._operand(1 - roles.row_operand, where)
            k, j = self._position(roles.summed, local), self._position(roles.columns, local)
            return loops.Store(of.packed_columns, (k * of.pitch + j).expr(), value.expr)

        return pack_loops(self._pack_sizes([*roles.summed, *roles.columns]), limits, store, of.vector)

    def _pack_rows(self, row: Index, count: int, first: Index, stop: Expr) -> list[Stmt]:
        """Rows `row`... one after the other, the summed axes along them."""
        line, i = counter("i", count)
        inner = self.packed_row(self.fixed, row + i, i, self.of.packed_rows, first, stop)
        return [For(line, c(0), c(count), tuple(inner))]

    def packed_row(
        self, fixed: dict[str, Index], row: Index, place: Index, into: Buffer,
        first: Index | None = None, stop: Expr | None = None,
    ) -> list[Stmt]:
        """Loops that write one row of the rows' operand as number `place` of `into`."""
        of, roles = self.of, self.roles

        def store(local: dict[str, Index]) -> loops.Store:
            where = fixed | _decode(row, roles.rows, roles.size) | local
            where[roles.summed[0]] = where[roles.summed[0]] + (first or 0)
            value = self._operand(roles.row_operand, where)
            index = place * of.row_pitch + self._position(roles.summed, local)
            return loops.Store(into, index.expr(), value.expr)

        limits = {} if stop is None else {roles.summed[0]: stop}
        return pack_loops(self._pack_sizes(roles.summed), limits, store, of.vector)

    def packing_cost(self, summed: list[str], others: list[str]) -> float:
        """Vector operations that packing one operand for one task takes."""
        number = self.roles.row_operand if others == self.roles.rows else 1 - self.roles.row_operand
        sizes = {a: self.roles.size[a] for a in (*others, *summed)}
        local = {a: variable(a, n) for a, n in sizes.items()}
        value = self._operand(number, self.fixed | local)
        last = (others if number != self.roles.row_operand else summed)[-1]
        total, best = self.roles.count(list(sizes)), 3.0
        for letter, n in sizes.items():
            var = next(iter(local[letter].terms), None)
            reads = [linear(e.index)[0].get(var, 0) for e in loads_of(value.expr)] if var else []
            if reads and all(f == 1 for f in reads):
                wide = min(n, self.of.vector)
                best = min(best, 2 / wide if letter == last else 1 / wide + 2.0)
        return total * best

    def _pack_sizes(self, letters: list[str]) -> dict[str, int]:
        """The sizes of packed letters: those of the blocked ones are the blocks'."""
        steps = {self.roles.columns[0]: self.of.column_step,
                 self.roles.summed[0]: self.of.depth_step}
        return {a: steps.get(a, self.roles.size[a]) for a in letters}

    def _position(self, letters: list[str], local: dict[str, Index]) -> Index:
        return flat(tuple(local[a] for a in letters), [self.roles.size[a] for a in letters])

    def _operand(self, number: int, where: dict[str, Index]) -> Value:
        """An element of an operand, read through the views before it."""
        node = self.of.node.inputs[number]
        return Inliner(self._leaf).value(node, tuple(where[a] for a in self.of.letters[number]))

    def _leaf(self, node: Node, index: Indices, mask: Any) -> Value | None:
        if node in self.of.buffers and node not in self.of.group.members:
            return load(self.of.buffers[node], node.type, index, mask)
        return None

    # ---- tiles
    def _tiles(self, first: Index, stop: Expr) -> list[Stmt]:
        of = self.of
        start = self.share * of.share
        whole, rest = divmod(of.rows if of.shares == 1 else of.share, of.tile)
        tile = Var("tile")
        last = of.rows // of.tile  # tiles that are whole, over all shares
        number = atom(tile, (0, max(0, whole - 1)))
        row = start + number * of.tile
        count: Expr = c(whole)
        if of.shares > 1 and of.shares * of.share > of.rows - of.rows % of.tile:
            left = loops.call("sub", (c(last), loops.call(
                "mul", (self.share.expr(), c(of.share // of.tile)), loops.INT)), loops.INT)
            count = loops.call("minimum", (c(whole), left), loops.INT)
        out: list[Stmt] = [For(tile, c(0), count, tuple(self._tile(row, of.tile, first, stop)))]
        rest = of.rows % of.tile
        if rest:
            tail = tuple(self._tile(as_index(last * of.tile), rest, first, stop))
            if of.shares == 1:
                out.extend(tail)
            else:
                here = loops.call("eq", (self.share.expr(), c(of.shares - 1)), loops.BOOL)
                out.append(loops.If(here, tail))
        return out

    def _tile(self, row: Index, count: int, first: Index, stop: Expr) -> list[Stmt]:
        depth = self._depth(stop)
        packing = [] if self.of.shared else self._pack_rows(row, count, first, stop)
        return [*packing, *self._panels(lambda base, lane: self._panel(row, count, base, lane, depth))]

    def _depth(self, stop: Expr) -> Expr:
        rest = self.roles.count(self.roles.summed[1:])
        return loops.call("mul", (stop, c(rest)), loops.INT) if rest > 1 and not isinstance(
            stop, loops.Const) else c(stop.value * rest) if isinstance(stop, loops.Const) else stop

    def _panels(self, body: Any) -> list[Stmt]:
        """Loops over the columns of the block: whole panels of two vectors, then what is left."""
        wide = 2 * self.of.vector
        if isinstance(self.column_stop, loops.Const):
            columns = int(self.column_stop.value) * self.inner_columns
            whole, rest = divmod(columns, wide)
            out = self._panel_loop(c(whole), wide, body, whole)
            if rest:
                lanes = self.of.vector if rest <= self.of.vector else wide
                lane = Var("j")
                inside = body(as_index(whole * wide), atom(lane, (0, rest - 1)))
                out.append(For(lane, c(0), c(rest), tuple(inside), lanes))
            return out
        columns_expr = loops.call("mul", (self.column_stop, c(self.inner_columns)), loops.INT) \
            if self.inner_columns > 1 else self.column_stop
        lane = Var("j")
        inside = body(as_index(0), atom(lane, (0, self.of.block - 1)))
        return [For(lane, c(0), columns_expr, tuple(inside), wide)]

    def _panel_loop(self, count: Expr, wide: int, body: Any, whole: int) -> list[Stmt]:
        if not whole:
            return []
        panel, lane = Var("panel"), Var("j")
        base = atom(panel, (0, whole - 1)) * wide if whole > 1 else as_index(0)
        loop = For(lane, c(0), c(wide), tuple(body(base, atom(lane, (0, wide - 1)))), wide)
        return [For(panel, c(0), count, (loop,))] if whole > 1 else [loop]

    def _panel(self, row: Index, count: int, base: Index, lane: Index, depth: Expr) -> list[Stmt]:
        """The sums of a tile of rows at one column per lane, and what is done with them."""
        of = self.of
        registers = [Register(f"s{i}", of.dtype) for i in range(count)]
        column = base + lane
        kept = of.depth_blocks > 1
        at = [((row - self.share * of.share + i) * of.pitch + column).expr() for i in range(count)]
        out: list[Stmt] = [
            loops.Assign(r, loops.load(of.sums, a) if kept else loops.const(0, of.dtype))
            for r, a in zip(registers, at)]
        k = Var("k")
        position = atom(k, (0, of.block_depth - 1))
        b = loops.load(of.packed_columns, (position * of.pitch + column).expr())
        rows, first = self._row_memory(row)
        steps = tuple(
            loops.Update(r, "add", loops.call("mul", (loops.load(
                rows, (first + i * of.row_pitch + position).expr()), b), of.dtype))
            for i, r in enumerate(registers))
        out.append(For(k, c(0), depth, steps, 0, 4 if count <= 4 else 2))
        for i, register in enumerate(registers):
            if kept:
                out.append(loops.Store(of.sums, at[i], loops.read(register)))
            else:
                out += self._results(row + i, column, Value(loops.read(register)))
        return out

    def _row_memory(self, row: Index) -> tuple[Buffer, Index]:
        """Where the packed rows of a tile begin."""
        of = self.of
        if not of.shared:
            return of.packed_rows, as_index(0)
        letters = of.row_letters
        batch = self._position(letters, self.fixed) if letters else as_index(0)
        return of.shared_rows, (batch * of.rows + row) * of.row_pitch

    # ---- sums kept over several blocks of depth
    def _clear(self) -> list[Stmt]:
        lane = Var("z")
        return [For(lane, c(0), c(self.of.sums.size), (
            loops.Store(self.of.sums, lane, loops.const(0, self.of.dtype)),), self.of.vector)]

    def _finish(self) -> list[Stmt]:
        of = self.of
        i = Var("r")
        local = atom(i, (0, of.share - 1))
        row = self.share * of.share + local
        count = self._stop(self.share * of.share, of.share, of.rows)

        def body(base: Index, lane: Index) -> list[Stmt]:
            value = loops.load(of.sums, (local * of.pitch + base + lane).expr())
            return self._results(row, base + lane, Value(value))

        return [For(i, c(0), count, tuple(self._panels(body)))]

    # ---- epilogue
    def _results(self, row: Index, column: Index, value: Value) -> list[Stmt]:
        """Stores of the group's members at one element, from the sum there."""
        of = self.of
        where = self._element(row, column)

        def leaf(node: Node, index: Indices, mask: Any) -> Value | None:
            return value if node is of.node else self._leaf(node, index, mask)

        inline = Inliner(leaf)
        return [loops.Store(of.buffers[m], flat(where, m.type.shape).expr(),
                            inline.value(m, where).expr)
                for m in of.group.members if m in of.buffers]

    def _element(self, row: Index, column: Index) -> Indices:
        """The element of the result: letters of the batch, of the row, and of the column."""
        roles = self.roles
        letters = dict(self.fixed) | _decode(row, roles.rows, roles.size)
        at = self.first_column * self.inner_columns + column
        if self.merged:
            letters |= {a: as_index(0) for a in roles.columns} | {roles.columns[-1]: at}
        else:
            letters |= _decode(at, roles.columns, roles.size)
        return tuple(letters[a] for a in self.of.letters[2])


def pack_loops(
    sizes: dict[str, int], limits: dict[str, Expr], store: Any, vector: int
) -> list[Stmt]:
    """Loops around store(local): letters that are stepped through as one are merged, and the lanes
    run along what is contiguous in memory, before and after."""
    letters = list(sizes)
    separate = {a: variable(a, n) for a, n in sizes.items()}
    with comparisons() as compared:
        probe = store(separate)
    forms = whole_numbers([probe.index, probe.value]) + [dict(x.terms) for x in compared]
    runs = merge_axes(tuple(sizes.values()), tuple(separate.values()), forms)
    names = [[letters[i] for i in run] for run in runs]
    order = sorted(names, key=lambda run: _contiguous(probe, separate, run, sizes))
    return _nest(order, sizes, limits, store, vector)


def _nest(
    order: list[list[str]], sizes: dict[str, int], limits: dict[str, Expr], store: Any, vector: int
) -> list[Stmt]:
    counters, local = [], dict.fromkeys(sizes, as_index(0))
    for run in order:
        var, size = Var(run[-1]), _run_size(run, sizes)
        long = [a for a in run if sizes[a] != 1]
        local[long[-1] if long else run[-1]] = atom(var, (0, size - 1)) if size > 1 else as_index(0)
        counters.append((var, size, limits.get(run[0])))
    body: tuple[Stmt, ...] = (store(local),)
    for depth, (var, size, limit) in enumerate(reversed(counters)):
        if size == 1:
            continue
        stop: Expr = c(size)
        if limit is not None and not isinstance(limit, loops.Const):
            run = order[len(order) - 1 - depth]
            rest = size // sizes[run[0]]
            stop = loops.call("mul", (limit, c(rest)), loops.INT) if rest > 1 else limit
        lanes = min(vector, 1 << (size - 1).bit_length()) if depth == 0 else 0
        body = (For(var, c(0), stop, body, lanes),)
    return list(body)


def _contiguous(
    probe: loops.Store, local: dict[str, Index], run: list[str], sizes: dict[str, int]
) -> tuple[int, int]:
    """How well a run serves as lanes: read and written at neighbouring places, and long."""
    var = next((next(iter(local[a].terms)) for a in reversed(run) if local[a].terms), None)
    if var is None:
        return (-1, 0)
    reads = [linear(e.index)[0].get(var, 0) for e in loads_of(probe.value)]
    good = (bool(reads) and all(f == 1 for f in reads)) + (linear(probe.index)[0].get(var) == 1)
    return (good, _run_size(run, sizes))


def loads_of(e: Expr) -> list[loops.Load]:
    """Every load in an expression."""
    found, stack = [], [e]
    while stack:
        e = stack.pop()
        if isinstance(e, loops.Load):
            found.append(e)
        stack.extend(loops.children(e))
    return found


def _run_size(run: list[str], sizes: dict[str, int]) -> int:
    total = 1
    for a in run:
        total *= sizes[a]
    return total


def _merged(of: Contraction) -> bool:
    """Whether the columns' letters can be stepped through as one by everything in the epilogue."""
    group, columns = of.group, of.roles.columns
    if len(columns) == 1:
        return True
    where = group.variables()

    def leaf(node: Node, index: Indices, mask: Any) -> Value | None:
        if node is of.node:
            return Value(loops.read(Register("sum", of.dtype)))
        return load(of.buffers[node], node.type, index, mask) if node in of.buffers else None

    with comparisons() as compared:
        found = [Inliner(leaf).value(m, where).expr for m in group.members]
        found += [flat(where, group.domain).expr()]
    forms = whole_numbers(found) + [dict(x.terms) for x in compared]
    runs = merge_axes(group.domain, where, forms)
    axes = [of.letters[2].index(a) for a in columns]
    between = range(axes[0], axes[-1] + 1)  # other letters between them would be stepped over
    alone = all(i in axes or group.domain[i] == 1 for i in between)
    return alone and any(set(axes) <= set(run) for run in runs)


def pack_loops(
    sizes: dict[str, int], limits: dict[str, Expr], store: Any, vector: int
) -> list[Stmt]:
    """Loops around store(local): letters that are stepped through as one are merged, and the lanes
    run along what is contiguous in memory, before and after."""
    letters = list(sizes)
    separate = {a: variable(a, n) for a, n in sizes.items()}
    with comparisons() as compared:
        probe = store(separate)
    forms = whole_numbers([probe.index, probe.value]) + [dict(x.terms) for x in compared]
    runs = merge_axes(tuple(sizes.values()), tuple(separate.values()), forms)
    names = [[letters[i] for i in run] for run in runs]
    order = sorted(names, key=lambda run: _contiguous(probe, separate, run, sizes))
    return _nest(order, sizes, limits, store, vector)


def _nest(
    order: list[list[str]], sizes: dict[str, int], limits: dict[str, Expr], store: Any, vector: int
) -> list[Stmt]:
    counters, local = [], dict.fromkeys(sizes, as_index(0))
    for run in order:
        var, size = Var(run[-1]), _run_size(run, sizes)
        long = [a for a in run if sizes[a] != 1]
        local[long[-1] if long else run[-1]] = atom(var, (0, size - 1)) if size > 1 else as_index(0)
        counters.append((var, size, limits.get(run[0])))
    body: tuple[Stmt, ...] = (store(local),)
    for depth, (var, size, limit) in enumerate(reversed(counters)):
        if size == 1:
            continue
        stop: Expr = c(size)
        if limit is not None and not isinstance(limit, loops.Const):
            run = order[len(order) - 1 - depth]
            rest = size // sizes[run[0]]
            stop = loops.call("mul", (limit, c(rest)), loops.INT) if rest > 1 else limit
        lanes = min(vector, 1 << (size - 1).bit_length()) if depth == 0 else 0
        body = (For(var, c(0), stop, body, lanes),)
    return list(body)


def _contiguous(
    probe: loops.Store, local: dict[str, Index], run: list[str], sizes: dict[str, int]
) -> tuple[int, int]:
    """How well a run serves as lanes: read and written at neighbouring places, and long."""
    var = next((next(iter(local[a].terms)) for a in reversed(run) if local[a].terms), None)
    if var is None:
        return (-1, 0)
    reads = [linear(e.index)[0].get(var, 0) for e in loads_of(probe.value)]
    good = (bool(reads) and all(f == 1 for f in reads)) + (linear(probe.index)[0].get(var) == 1)
    return (good, _run_size(run, sizes))


def loads_of(e: Expr) -> list[loops.Load]:
    """Every load in an expression."""
    found, stack = [], [e]
    while stack:
        e = stack.pop()
        if isinstance(e, loops.Load):
            found.append(e)
        stack.extend(loops.children(e))
    return found


def _run_size(run: list[str], sizes: dict[str, int]) -> int:
    total = 1
    for a in run:
        total *= sizes[a]
    return total


def _merged(of: Contraction) -> bool:
    """Whether the columns' letters can be stepped through as one by everything in the epilogue."""
    group, columns = of.group, of.roles.columns
    if len(columns) == 1:
        return True
    where = group.variables()

    def leaf(node: Node, index: Indices, mask: Any) -> Value | None:
        if node is of.node:
            return Value(loops.read(Register("sum", of.dtype)))
        return load(of.buffers[node], node.type, index, mask) if node in of.buffers else None

    with comparisons() as compared:
        found = [Inliner(leaf).value(m, where).expr for m in group.members]
        found += [flat(where, group.domain).expr()]
    forms = whole_numbers(found) + [dict(x.terms) for x in compared]
    runs = merge_axes(group.domain, where, forms)
    axes = {of.letters[2].index(a) for a in columns}
    return any(axes <= set(run) for run in runs)


def _decode(position: Index, letters: list[str], size: dict[str, int]) -> dict[str, Index]:
    """A position as the indices of several letters, the last counting fastest."""
    out: dict[str, Index] = {}
    for n, letter in enumerate(reversed(letters)):
        last = n == len(letters) - 1
        out[letter] = position if last else position % size[letter]
        position = position if last else position // size[letter]
    return out

