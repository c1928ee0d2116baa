"""One task of a contraction: packing, tiles of sums in registers, and the epilogue."""

from __future__ import annotations

from typing import Any

from ..capture.graph import Node
from . import loops
from .collapse import linear, merge_axes, whole_numbers
from .contraction import Contraction
from .index import Index, as_index, atom, comparisons, variable
from .inline import Indices, Inliner, flat, load
from .loops import Buffer, Expr, For, Register, Stmt, Var, const
from .nest import counter
from .pack import loads_of, pack_loops
from .values import Value


class Task:
    """One task: positions of its batch element, its block of columns and its share of the rows."""

    def __init__(self, of: Contraction, batch: Index, block: Index, share: Index) -> None:
        self.of, self.roles = of, of.roles
        self.fixed = decode(batch, of.roles.batch, of.roles.size)
        self.first_column, self.share = block * of.column_step, share
        self.column_stop = self._stop(self.first_column, of.column_step,
                                      of.roles.size[of.roles.columns[0]])
        self.inner_columns = of.roles.count(of.roles.columns[1:])
        self.merged = _merged(of)

    @staticmethod
    def _stop(first: Index, step: int, size: int) -> Expr:
        """How many of `step` there are from `first` on before `size`."""
        if first.range()[1] + step <= size:
            return const(step)
        return loops.call("minimum", (const(step), (size - first).expr()), loops.INT)

    def statements(self) -> list[Stmt]:
        of = self.of
        if of.depth_blocks == 1:
            return self._depth_block(as_index(0), const(of.depth_step))
        number = Var("kb")
        first = atom(number, (0, of.depth_blocks - 1)) * of.depth_step
        stop = self._stop(first, of.depth_step, self.roles.size[self.roles.summed[0]])
        body = self._depth_block(first, stop)
        blocks = For(number, const(0), const(of.depth_blocks), tuple(body))
        return [*self._clear(), blocks, *self._finish()]

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

        sizes = self._pack_sizes([*roles.summed, *roles.columns])
        return pack_loops(sizes, limits, store, of.vector)

    def _pack_rows(self, row: Index, count: int, first: Index, stop: Expr) -> list[Stmt]:
        """Rows `row`... one after the other, the summed axes along them."""
        line, i = counter("i", count)
        inner = self.packed_row(self.fixed, row + i, i, self.of.packed_rows, first, stop)
        return [For(line, const(0), const(count), tuple(inner))]

    def packed_row(
        self, fixed: dict[str, Index], row: Index, place: Index, into: Buffer,
        first: Index | None = None, stop: Expr | None = None,
    ) -> list[Stmt]:
        """Loops that write one row of the rows' operand as number `place` of `into`."""
        of, roles = self.of, self.roles

        def store(local: dict[str, Index]) -> loops.Store:
            where = fixed | decode(row, roles.rows, roles.size) | local
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
        plain = isinstance(value.expr, loops.Load) and value.expr.mask is None
        turns = 0.4 if plain and sizes[last] >= self.of.vector else 2.0  # in registers, or singly
        for letter, n in sizes.items():
            var = next(iter(local[letter].terms), None)
            reads = [linear(e.index)[0].get(var, 0) for e in loads_of(value.expr)] if var else []
            if reads and all(f == 1 for f in reads):
                wide = min(n, self.of.vector)
                best = min(best, 2 / wide if letter == last else 1 / wide + turns)
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
        count: Expr = const(whole)
        if of.shares > 1 and of.shares * of.share > of.rows - of.rows % of.tile:
            left = loops.call("sub", (const(last), loops.call(
                "mul", (self.share.expr(), const(of.share // of.tile)), loops.INT)), loops.INT)
            count = loops.call("minimum", (const(whole), left), loops.INT)
        out: list[Stmt] = [For(tile, const(0), count, tuple(self._tile(row, of.tile, first, stop)))]
        rest = of.rows % of.tile
        if rest:
            tail = tuple(self._tile(as_index(last * of.tile), rest, first, stop))
            if of.shares == 1:
                out.extend(tail)
            else:
                here = loops.call("eq", (self.share.expr(), const(of.shares - 1)), loops.BOOL)
                out.append(loops.If(here, tail))
        return out

    def _tile(self, row: Index, count: int, first: Index, stop: Expr) -> list[Stmt]:
        depth = self._depth(stop)
        packing = [] if self.of.shared else self._pack_rows(row, count, first, stop)

        def panel(base: Index, lane: Index) -> list[Stmt]:
            return self._panel(row, count, base, lane, depth)

        return [*packing, *self._panels(panel)]

    def _depth(self, stop: Expr) -> Expr:
        rest = self.roles.count(self.roles.summed[1:])
        if isinstance(stop, loops.Const):
            return const(stop.value * rest)
        return loops.call("mul", (stop, const(rest)), loops.INT) if rest > 1 else stop

    def _panels(self, body: Any) -> list[Stmt]:
        """Loops over the columns of the block: whole panels of two vectors, then what is left."""
        wide = 2 * self.of.vector
        if isinstance(self.column_stop, loops.Const):
            columns = int(self.column_stop.value) * self.inner_columns
            whole, rest = divmod(columns, wide)
            out = self._panel_loop(const(whole), wide, body, whole)
            if rest:
                lanes = self.of.vector if rest <= self.of.vector else wide
                lane = Var("j")
                inside = body(as_index(whole * wide), atom(lane, (0, rest - 1)))
                out.append(For(lane, const(0), const(rest), tuple(inside), lanes))
            return out
        columns_expr = loops.call("mul", (self.column_stop, const(self.inner_columns)), loops.INT) \
            if self.inner_columns > 1 else self.column_stop
        lane = Var("j")
        inside = body(as_index(0), atom(lane, (0, self.of.block - 1)))
        return [For(lane, const(0), columns_expr, tuple(inside), wide)]

    def _panel_loop(self, count: Expr, wide: int, body: Any, whole: int) -> list[Stmt]:
        if not whole:
            return []
        panel, lane = Var("panel"), Var("j")
        base = atom(panel, (0, whole - 1)) * wide if whole > 1 else as_index(0)
        loop = For(lane, const(0), const(wide), tuple(body(base, atom(lane, (0, wide - 1)))), wide)
        return [For(panel, const(0), count, (loop,))] if whole > 1 else [loop]

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
        out.append(For(k, const(0), depth, steps, 0, 4 if count <= 4 else 2))
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
        return [For(lane, const(0), const(self.of.sums.size), (
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

        return [For(i, const(0), count, tuple(self._panels(body)))]

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
        letters = dict(self.fixed) | decode(row, roles.rows, roles.size)
        at = self.first_column * self.inner_columns + column
        if self.merged:
            # on an axis of size 1 it would read as a broadcast one, so not on the last of these
            wide = [a for a in roles.columns if roles.size[a] > 1] or roles.columns
            letters |= {a: as_index(0) for a in roles.columns} | {wide[-1]: at}
        else:
            letters |= decode(at, roles.columns, roles.size)
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
    axes = [of.letters[2].index(a) for a in columns]
    between = range(axes[0], axes[-1] + 1)  # other letters between them would be stepped over
    alone = all(i in axes or group.domain[i] == 1 for i in between)
    return alone and any(set(axes) <= set(run) for run in runs)


def decode(position: Index, letters: list[str], size: dict[str, int]) -> dict[str, Index]:
    """A position as the indices of several letters, the last counting fastest."""
    out: dict[str, Index] = {}
    for n, letter in enumerate(reversed(letters)):
        last = n == len(letters) - 1
        out[letter] = position if last else position % size[letter]
        position = position if last else position // size[letter]
    return out
