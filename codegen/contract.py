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
from .collapse import merge_axes, whole_numbers
from .fuse import Group
from .index import Index, as_index, atom, comparisons
from .inline import Indices, Inliner, flat, load
from .loops import Buffer, Expr, For, Kernel, Register, Stmt, Var
from .lower import buffers_of
from .machine import Machine
from .values import Value

_BLOCK = 128  # columns of a block
_DEPTH = 512  # summed elements of a block
_PAD = 16  # keeps rows of packed blocks out of the same cache sets


def c(value: int) -> Expr:
    return loops.const(value)


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


def roles_of(node: Node, lanes: int) -> Roles:
    """Columns are the letters of the operand that has the result's last letter; all but as many of
    them as fill two vectors count as batch."""
    names = parts(node.params["spec"])
    size = {a: n for letters, i in zip(names, node.inputs) for a, n in zip(letters, i.type.shape)}
    out = names[2]
    row_operand = 1 if out[-1] in names[0] and out[-1] not in names[1] else 0
    mine, other = names[row_operand], names[1 - row_operand]
    batch = [a for a in out if a in mine and a in other]
    columns = [a for a in out if a in other and a not in mine]
    roles = Roles(batch, [a for a in out if a in mine and a not in other], columns,
                  [a for a in names[0] if a not in out], row_operand, size)
    while len(columns) > 1 and roles.count(columns[1:]) >= 2 * lanes:
        batch.append(columns.pop(0))
    return roles


class Contraction:
    """The loops of one contraction group."""

    def __init__(self, group: Group, buffers: dict[Node, Buffer], machine: Machine, name: str) -> None:
        self.group, self.buffers, self.machine, self.name = group, buffers, machine, name
        self.node = group.members[0]
        self.dtype = self.node.type.dtype
        self.vector = machine.lanes(self.dtype.itemsize)
        self.roles = roles_of(self.node, self.vector)
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

    # ---- names of memory
    @cached_property
    def packed_columns(self) -> Buffer:
        return Buffer("columns", self.dtype, self.block_depth * self.pitch, scratch=True)

    @cached_property
    def packed_rows(self) -> Buffer:
        return Buffer("rows", self.dtype, self.tile * (self.block_depth + _PAD), scratch=True)

    @cached_property
    def sums(self) -> Buffer:
        return Buffer("sums", self.dtype, self.share * self.pitch, scratch=True)

    # ---- the kernel
    def kernel(self) -> Kernel:
        tasks = self.batches * self.column_blocks * self.shares
        var = Var("task")
        task = atom(var, (0, max(0, tasks - 1)))
        share, task = task % self.shares, task // self.shares
        block, batch = task % self.column_blocks, task // self.column_blocks
        place = _Place(self, batch, block, share)
        body = place.statements()
        reads, writes = buffers_of(tuple(body))
        scratch = [self.packed_columns, self.packed_rows]
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
        limits = {a: c(roles.size[a]) for a in (*roles.columns, *roles.summed)}
        limits[roles.columns[0]], limits[roles.summed[0]] = self.column_stop, stop
        local = {a: atom(Var(a), (0, roles.size[a] - 1)) for a in limits}
        shift = {roles.columns[0]: self.first_column, roles.summed[0]: first}
        where = self.fixed | {a: i + shift.get(a, 0) for a, i in local.items()}
        value = self._operand(1 - roles.row_operand, where)
        k = _flat([local[a] for a in roles.summed], [roles.size[a] for a in roles.summed])
        j = _flat([local[a] for a in roles.columns], [roles.size[a] for a in roles.columns])
        store = loops.Store(of.packed_columns, (k * of.pitch + j).expr(), value.expr)
        order = [*roles.summed, *roles.columns]
        return self._pack_loops(order, local, limits, value.expr, store)

    def _pack_rows(self, row: Index, count: int, first: Index, stop: Expr) -> list[Stmt]:
        """Rows `row`... one after the other, the summed axes along them."""
        of, roles = self.of, self.roles
        out: list[Stmt] = []
        limits = {a: c(roles.size[a]) for a in roles.summed}
        limits[roles.summed[0]] = stop
        local = {a: atom(Var(a), (0, roles.size[a] - 1)) for a in limits}
        shift = {roles.summed[0]: first}
        i = atom(Var("i"), (0, count - 1))
        where = self.fixed | {a: k + shift.get(a, 0) for a, k in local.items()}
        where |= _decode(row + i, roles.rows, roles.size)
        value = self._operand(roles.row_operand, where)
        k = _flat([local[a] for a in roles.summed], [roles.size[a] for a in roles.summed])
        index = i * (of.block_depth + _PAD) + k
        store = loops.Store(of.packed_rows, index.expr(), value.expr)
        inner = self._pack_loops(roles.summed, local, limits, value.expr, store)
        (var,) = i.terms or {Var("i"): 1}
        out.append(For(var, c(0), c(count), tuple(inner)))  # type: ignore[arg-type]
        return out

    def _pack_loops(
        self, order: list[str], local: dict[str, Index], limits: dict[str, Expr], value: Expr,
        store: Stmt,
    ) -> list[Stmt]:
        """Loops over `order`, the letter that the operand is contiguous along as lanes and inside."""
        def step(letter: str) -> tuple[int, int]:
            var = next(iter(local[letter].terms), None)
            factors = [f.get(var, 0) for f in whole_numbers([value]) if var in f] if var else [0]
            good = bool(factors) and all(f == 1 for f in factors[:1])
            return (1 if good else 0, self.roles.size[letter])

        lane = max(order, key=step)
        body: tuple[Stmt, ...] = (store,)
        for letter in [lane, *[a for a in reversed(order) if a != lane]]:
            var = next(iter(local[letter].terms), None)
            if var is None:
                continue
            wide = self.of.vector if letter == lane else 0
            body = (For(var, c(0), limits[letter], body, wide),)  # type: ignore[arg-type]
        return list(body)

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
        return [*self._pack_rows(row, count, first, stop),
                *self._panels(lambda base, lane: self._panel(row, count, base, lane, depth))]

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
        steps = tuple(
            loops.Update(r, "add", loops.call("mul", (loops.load(
                of.packed_rows, (as_index(i * (of.block_depth + _PAD)) + position).expr()), b),
                of.dtype))
            for i, r in enumerate(registers))
        out.append(For(k, c(0), depth, steps, 0, 4 if count <= 4 else 2))
        for i, register in enumerate(registers):
            if kept:
                out.append(loops.Store(of.sums, at[i], loops.read(register)))
            else:
                out += self._results(row + i, column, Value(loops.read(register)))
        return out

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


def _flat(index: list[Index], sizes: list[int]) -> Index:
    return flat(tuple(index), sizes)
