"""Softmax of rows whose scores come tile after tile: a thread knows the largest score of each of
its rows so far, and the sum of the powers of those that it had itself.

    scores of a tile; in shared memory: the largest of each thread and row
    a larger one than before: the sums so far are multiplied by 2 ** (before - now)
    powers = 2 ** (score - the largest)

Scores are scaled by log2(e), with the queries. As long as all scores of a row are -inf, powers are
those without a largest score, 0.
"""

from __future__ import annotations

from collections.abc import Callable

from ...cpu.attention.scores import LOG2E
from ...ir import loop_ir
from ...ir.affine_index import Index, counter
from ...ir.builder import ExprValue, call, cast
from ...ir.loop_ir import BOOL, Buffer, Expr, For, Register, Stmt, const
from .rows import NEVER, ScoreRows
from .tiles import FLOAT, OWN, Block, Thread, ThreadTile, Tile, block, dots

Keep = Callable[[Thread, int, int, ExprValue],
                Stmt]  # a row and a column of a thread, and their power


class Online:
    """A tile's scores, and what is known of its rows."""

    def __init__(self, rows: ScoreRows, tile: Tile, unit: Index, first: Index,
                 *widths: int) -> None:
        """The tile has rows of a unit from `first` on; its keys lie where blocks of these widths
        do, too."""
        self.rows, self.tile, self.unit, self.first = rows, tile, unit, first
        h = self.heads = rows.heads
        (self.queries,) = block("queries", tile.rows, h.width)
        self.keys, *self.others = block("keys", tile.columns, h.width, *widths)
        self.scores = ThreadTile("scores", tile, OWN * tile.each)
        self.top, self.total, self.factor = (
            ThreadTile(n, tile, OWN) for n in ("top", "total", "factor"))
        self.parts = Buffer("parts", FLOAT, tile.across * tile.rows, scratch=True)
        self.seen = Buffer("seen", BOOL, tile.across * tile.rows, scratch=True)
        self.memory = (self.queries.buffer, self.keys.buffer, self.parts, self.scores.buffer,
                       self.top.buffer, self.total.buffer, self.factor.buffer,
                       *([self.seen] if h.masked else []))

    def begin(self) -> list[Stmt]:
        """Reads the queries; nothing is known of their scores."""
        h, rows = self.heads, self.rows
        thread = Thread(self.tile)
        known = [*self.top.filled(thread, NEVER), *self.total.filled(thread, 0)]
        if h.masked:
            known += [self._part(thread, self.seen, i, ExprValue(loop_ir.const(False, BOOL)))
                      for i in range(OWN)]
        return [queries_in(self.queries, self.tile, self.tile.rows, rows, self.unit, self.first),
                thread.loop(known)]

    def step(self, number: Index, keep: Keep | None = None) -> list[Stmt]:
        """Takes the scores of a tile of keys; keep: what becomes of their powers."""
        h, first = self.heads, number * self.tile.columns
        of_keys = self.rows.keys(self.unit)
        return [self.keys.filled(self.tile, self.tile.columns, first, h.keys,
                                 lambda c, e: h.element(h.operands[1], *of_keys, c, e)),
                self._scores(first), self._powers(keep)]

    # ---- scores
    def _scores(self, first: Index) -> For:
        thread = Thread(self.tile)
        body, sums = dots(thread, self.queries, self.keys)
        for i in range(OWN):
            body += self._row(thread, i, sums[i], first)
        return thread.loop(body)

    def _row(self, thread: Thread, i: int, sums: list[Register], first: Index) -> list[Stmt]:
        """The scores of one of a thread's rows under the mask, and the largest of them."""
        top, some = Register(f"top{i}", FLOAT), Register(f"some{i}", BOOL)
        out: list[Stmt] = [loop_ir.Assign(top, loop_ir.const(NEVER, FLOAT))]
        if self.heads.masked:
            out.append(loop_ir.Assign(some, loop_ir.load(self.seen, self._place(thread, i))))
        for j, r in enumerate(sums):
            score, seen = self.rows.masked(ExprValue(loop_ir.read(r)), self.unit,
                                           self.first + thread.row + i, first + thread.column(j))
            masked = Register("masked", FLOAT)
            out += [loop_ir.Assign(masked, score.expr),
                    self.scores.store(thread, i * self.tile.each + j,
                                      ExprValue(loop_ir.read(masked))),
                    loop_ir.Update(top, "maximum", loop_ir.read(masked))]
            if self.heads.masked:
                out.append(loop_ir.Update(some, "or", cast(seen, BOOL).expr))
        if self.heads.masked:
            out.append(self._part(thread, self.seen, i, ExprValue(loop_ir.read(some))))
        return [*out, self._part(thread, self.parts, i, ExprValue(loop_ir.read(top)))]

    def _part(self, thread: Thread, parts: Buffer, i: int, value: ExprValue) -> Stmt:
        """Tells the threads that have the same row."""
        return loop_ir.Store(parts, self._place(thread, i), value.expr)

    def _place(self, thread: Thread, i: int) -> Expr:
        return (thread.place * self.tile.rows + thread.row + i).expr()

    def _together(self, thread: Thread, parts: Buffer, op: str, registers: list[Register]) -> For:
        """Puts together what the threads have told of each of a thread's rows."""
        var, n = counter("n", self.tile.across)
        body = tuple([loop_ir.Update(r, op, loop_ir.load(
            parts, (n * self.tile.rows + thread.row + i).expr()))
            for i, r in enumerate(registers)])
        return For(var, const(0), const(self.tile.across), body, 0, 4)

    # ---- powers
    def _powers(self, keep: Keep | None) -> For:
        thread = Thread(self.tile)
        tops = [Register(f"top{i}", FLOAT) for i in range(OWN)]
        body: list[Stmt] = [loop_ir.Assign(r, self.top.load(thread, i).expr)
                            for i, r in enumerate(tops)]
        body.append(self._together(thread, self.parts, "maximum", tops))
        for i, r in enumerate(tops):
            body += self._powers_of_row(thread, i, ExprValue(loop_ir.read(r)), keep)
        return thread.loop(body)

    def _powers_of_row(self, thread: Thread, i: int, top: ExprValue,
                       keep: Keep | None) -> list[Stmt]:
        largest, factor, total = (Register(f"{n}{i}", FLOAT)
                                  for n in ("largest", "factor", "total"))
        by = call("exp2", self.top.load(thread, i) - ExprValue(loop_ir.read(largest)))
        out: list[Stmt] = [
            loop_ir.Assign(largest, finite(top).expr), loop_ir.Assign(factor, by.expr),
            loop_ir.Assign(total, (self.total.load(thread,
                                                   i) * ExprValue(loop_ir.read(factor))).expr)]
        for j in range(self.tile.each):
            power = Register("power", FLOAT)
            score = self.scores.load(thread, i * self.tile.each + j)
            out += [loop_ir.Assign(power, call("exp2",
                                               score - ExprValue(loop_ir.read(largest))).expr),
                    loop_ir.Update(total, "add", loop_ir.read(power))]
            out += [keep(thread, i, j, ExprValue(loop_ir.read(power)))] if keep else []
        return [*out, self.top.store(thread, i, top),
                self.factor.store(thread, i, ExprValue(loop_ir.read(factor))),
                self.total.store(thread, i, ExprValue(loop_ir.read(total)))]

    # ---- what all threads of a row have had
    def end(self) -> For:
        """Threads tell each other the sums of their powers."""
        thread = Thread(self.tile)
        return thread.loop([self._part(thread, self.parts, i, self.total.load(thread, i))
                            for i in range(OWN)])

    def known(self, thread: Thread) -> tuple[list[Stmt], list[ExprValue], list[ExprValue]]:
        """Statements that find out the sum of all powers of each of a thread's rows, and whether
        its query may look at something; the sums, and that, which is left out without a mask."""
        totals = [Register(f"total{i}", FLOAT) for i in range(OWN)]
        out: list[Stmt] = [loop_ir.Assign(r, loop_ir.const(0, FLOAT)) for r in totals]
        out.append(self._together(thread, self.parts, "add", totals))
        if not self.heads.masked:
            return out, _read(totals), []
        some = [Register(f"some{i}", BOOL) for i in range(OWN)]
        out += [loop_ir.Assign(r, loop_ir.const(False, BOOL)) for r in some]
        out.append(self._together(thread, self.seen, "or", some))
        return out, _read(totals), _read(some)


def _read(registers: list[Register]) -> list[ExprValue]:
    return [ExprValue(loop_ir.read(r)) for r in registers]


def finite(top: ExprValue) -> ExprValue:
    """What is subtracted from scores: the largest, or 0 where all of them are -inf."""
    return call("where", call("eq", top, NEVER), 0.0, top)  # type: ignore[no-any-return]


def queries_in(into: Block, tile: Tile, count: int, rows: ScoreRows, unit: Index,
               first: Index) -> For:
    """Reads so many rows' queries, scaled."""
    h = rows.heads
    return into.filled(tile, count, first, rows.count, lambda r, e: rows.element(
        h.operands[0], unit, r, e) * (h.scale * LOG2E))
