"""Scores of a tile of queries, and what they become: how much is taken of each key.

    scores[row][key] = queries[row] . keys[key], for all keys that one of the rows may look at
    for each row, over the keys that it may look at:
        the mask, and the largest score
        powers[row][key] = 2 ** (score - the largest), and their sum
        0 for the keys that follow

Scores are scaled by log2(e) so that powers of 2 do. A row's powers are divided by their sum, which
is at least 1, where they have been used.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...ir import loop_ir
from ...ir.affine_index import Index, as_index, counter
from ...ir.builder import ExprValue, call
from ...ir.inline import Indices
from ...ir.loop_ir import BOOL, Buffer, Expr, For, Register, Stmt, const
from ..gemm.pack_loops import pack_loops
from .panels import lanes, panels, sums
from .shape import LINE, AttentionShape, up

LOG2E = 1.4426950408889634
_UNROLL = 4  # vectors of a row at once


@dataclass(frozen=True, eq=False)
class ScoreRows:
    """Rows of a block in memory, one behind the other."""

    buffer: Buffer
    pitch: int

    def place(self, row: Index, column: Index) -> Expr:
        return (row * self.pitch + column).expr()

    def load(self, row: Index, column: Index) -> Expr:
        return loop_ir.load(self.buffer, self.place(row, column))


class Scores:
    """The powers of a block of queries, and what is needed to find them."""

    def __init__(self, heads: AttentionShape, task: Index, count: int) -> None:
        """count: the queries of a block, whose powers are kept."""
        self.heads, h = heads, heads
        self.queries = ScoreRows(h.scratch("queries", count * (h.width + LINE)), h.width + LINE)
        self.powers = ScoreRows(h.scratch("powers", count * h.pitch), h.pitch)
        self.keys = panels(h, "keys", task, h.width, h.keys)
        self.memory = self.queries.buffer, self.powers.buffer, self.keys.buffer

    def packed_keys(self, head: Indices) -> list[Stmt]:
        """Packs the keys of a head, turned."""
        return self.keys.packed(lambda e, c: self.heads.element(self.heads.given[1], *head, c, e))

    def packed_queries(self, head: Indices, first: Index, local: Index) -> list[Stmt]:
        """Packs the queries of a tile, scaled, as those from number `local` of the block on."""
        h = self.heads

        def store(at: dict[str, Index]) -> loop_ir.Store:
            value = h.element(h.given[0], *head, first + at["i"], at["e"]) * (h.scale * LOG2E)
            return loop_ir.Store(self.queries.buffer, self.queries.place(local + at["i"], at["e"]),
                                 value.expr)

        return pack_loops({"i": h.rows, "e": h.width}, {}, store, h.vector)

    def scores(self, local: Index, panels: Index) -> Stmt:
        """The scores of a tile, in so many panels of keys."""
        h, (p, panel) = self.heads, counter("p", panels.range()[1])

        def body(panel: Index, lane: Index) -> list[Stmt]:
            def end(i: int, total: Expr) -> list[Stmt]:
                place = self.powers.place(local + i, panel * h.wide + lane)
                return [loop_ir.Store(self.powers.buffer, place, total)]

            return sums([loop_ir.const(0, h.dtype)] * h.rows, as_index(h.width),
                        lambda i, k: self.queries.load(local + i, k),
                        lambda k: self.keys.load(panel, k, lane), end)

        return For(p, const(0), panels.expr(), (lanes(h.wide, h.wide, panel, body),))

    def row(self, head: Indices, query: Index, local: Index, end: Index
            ) -> tuple[list[Stmt], Expr]:
        """Statements that make the powers of a row from its scores, and 0 for the keys after those
        that it may look at, up to `end`; and one divided by the sum of its powers. That is 0 for a
        query that may look at nothing."""
        h, seen = self.heads, self.heads.seen(query)
        top, total, some = (Register(n, d) for n, d in (
            ("top", h.dtype), ("total", h.dtype), ("some", BOOL)))
        out: list[Stmt] = [loop_ir.Assign(top, loop_ir.const(-float("inf"), h.dtype)),
                           loop_ir.Assign(total, loop_ir.const(0, h.dtype))]
        if h.masked:
            out.append(loop_ir.Assign(some, loop_ir.const(False, BOOL)))
        out.append(self._over(as_index(0), seen, lambda c: self._largest(
            top, some, head, query, local, c)))
        largest, one = ExprValue(loop_ir.read(top)), ExprValue(loop_ir.const(1, h.dtype))
        if h.masked:
            largest = call("where", ExprValue(loop_ir.read(some)), largest, 0.0)
        out.append(self._over(as_index(0), seen, lambda c: self._power(total, largest, local, c)))
        if h.causal:
            out.append(self._over(seen, end, lambda c: [loop_ir.Store(
                self.powers.buffer, self.powers.place(local, c), loop_ir.const(0, h.dtype))], 1))
        by = one / ExprValue(loop_ir.read(total))
        return out, (call("where", ExprValue(loop_ir.read(some)), by, 0.0) if h.masked else by).expr

    def _over(self, first: Index, last: Index, body: Any, unroll: int = _UNROLL) -> For:
        """Runs body(key) for keys, as lanes."""
        var, key = counter("c", up(self.heads.keys, self.heads.wide))
        return For(var, first.expr(), last.expr(), tuple(body(key)), self.heads.vector, unroll)

    def _largest(self, top: Register, some: Register, head: Indices, query: Index, local: Index,
                 key: Index) -> list[Stmt]:
        score = ExprValue(self.powers.load(local, key))
        if not self.heads.masked:
            return [loop_ir.Update(top, "maximum", score.expr)]
        mask, masked = self.heads.mask(head, query, key), Register("masked", self.heads.dtype)
        if mask.dtype == BOOL:
            score, seen = call("where", mask, score, -float("inf")), mask
        else:
            score, seen = score + mask * LOG2E, call("ne", mask, -float("inf"))
        return [loop_ir.Assign(masked, score.expr),
                loop_ir.Store(self.powers.buffer, self.powers.place(local, key),
                              loop_ir.read(masked)),
                loop_ir.Update(top, "maximum", loop_ir.read(masked)),
                loop_ir.Update(some, "or", seen.expr)]

    def _power(self, total: Register, largest: ExprValue, local: Index, key: Index) -> list[Stmt]:
        power = Register("power", self.heads.dtype)
        value = call("exp2", ExprValue(self.powers.load(local, key)) - largest)
        return [loop_ir.Assign(power, value.expr),
                loop_ir.Store(self.powers.buffer, self.powers.place(local, key),
                              loop_ir.read(power)),
                loop_ir.Update(total, "add", loop_ir.read(power))]
