"""Computes scores of a tile of queries, and the softmax weights of the keys, without their divisor.

    scores[row][key] = queries[row] . keys[key], for all keys that one of the rows attends to
    for each row, over the keys that it attends to:
        the mask, and the largest score
        powers[row][key] = 2 ** (score - the largest), and their sum
        0 for the keys that follow

Scores are scaled by log2(e), so that powers of 2 serve. The products of a row's powers are divided
by the sum of the powers, which is at least 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ...ir import loop_ir
from ...ir.affine_index import Index, as_index, counter
from ...ir.builder import ExprValue, call
from ...ir.inline import Indices
from ...ir.loop_ir import BOOL, DType, Expr, For, KernelBuffer, Register, Stmt, const
from ..gemm.pack_loops import pack_loops
from .panels import allocate_panels, lane_loop, tile_sums
from .shape import LINE, AttentionShape, round_up

LOG2E = 1.4426950408889634
_VECTORS_IN_FLIGHT = 4


@dataclass(frozen=True, eq=False)
class ScoreRows:
    """Rows of a block in memory, `pitch` elements apart."""

    buffer: KernelBuffer
    pitch: int

    def index_of(self, row: Index, column: Index) -> Expr:
        return (row * self.pitch + column).expr()

    def load(self, row: Index, column: Index) -> Expr:
        return loop_ir.load(self.buffer, self.index_of(row, column))


class Scores:
    """The powers of a block of queries, and the packed operands of their computation."""

    def __init__(self, shape: AttentionShape, task: Index, count: int) -> None:
        """`count`: the queries of a block, whose powers are stored."""
        self.shape, h = shape, shape
        self.queries = ScoreRows(h.scratch("queries", count * (h.width + LINE)), h.width + LINE)
        self.powers = ScoreRows(h.scratch("powers", count * h.pitch), h.pitch)
        self.keys = allocate_panels(h, "keys", task, h.width, h.keys)
        self.memory = self.queries.buffer, self.powers.buffer, self.keys.buffer

    def packed_keys(self, head: Indices) -> list[Stmt]:
        """Statements that pack the keys of a head, transposed."""
        return self.keys.packed(
            lambda e, c: self.shape.element(self.shape.operands[1], *head, c, e))

    def packed_queries(self, head: Indices, first: Index, local: Index) -> list[Stmt]:
        """Statements that pack the queries of a tile, scaled, from row `local` of the block on."""
        h = self.shape

        def store(at: dict[str, Index]) -> loop_ir.Store:
            value = h.element(h.operands[0], *head, first + at["i"], at["e"]) * (h.scale * LOG2E)
            return loop_ir.Store(self.queries.buffer,
                                 self.queries.index_of(local + at["i"], at["e"]),
                                 value.expr)

        return pack_loops({"i": h.rows, "e": h.width}, {}, store, h.vector)

    def scores(self, local: Index, panels: Index) -> Stmt:
        """The loop that computes the scores of a tile, in so many panels of keys."""
        h, (p, panel) = self.shape, counter("p", panels.range()[1])

        def body(panel: Index, lane: Index) -> list[Stmt]:
            def end(i: int, total: Expr) -> list[Stmt]:
                index = self.powers.index_of(local + i, panel * h.panel_width + lane)
                return [loop_ir.Store(self.powers.buffer, index, total)]

            return tile_sums([loop_ir.const(0, h.dtype)] * h.rows, as_index(h.width),
                             lambda i, k: self.queries.load(local + i, k),
                             lambda k: self.keys.load(panel, k, lane), end)

        return For(p, const(0), panels.expr(),
                   (lane_loop(h.panel_width, h.panel_width, panel, body),))

    def row(self, head: Indices, query: Index, local: Index, end: Index
            ) -> tuple[list[Stmt], Expr]:
        """Statements that turn the scores of a row into powers, and the reciprocal of the powers'
        sum.

        Keys from the last visible one up to `end` get 0. The reciprocal is 0 for a query without
        visible keys."""
        h, seen = self.shape, self.shape.visible_keys(head, query)
        top, total, has_visible = (Register(n, d) for n, d in (
            ("top", h.dtype), ("total", h.dtype), ("some", BOOL)))
        statements: list[Stmt] = [loop_ir.Assign(top, loop_ir.const(-float("inf"), h.dtype)),
                                  loop_ir.Assign(total, loop_ir.const(0, h.dtype))]
        if h.masked:
            statements.append(loop_ir.Assign(has_visible, loop_ir.const(False, BOOL)))
        statements.append(self._key_loop(as_index(0), seen, lambda c: self._update_maximum(
            top, has_visible, head, query, local, c)))
        largest, one = ExprValue(loop_ir.read(top)), ExprValue(loop_ir.const(1, h.dtype))
        if h.masked:
            largest = call("where", ExprValue(loop_ir.read(has_visible)), largest, 0.0)
        statements.append(
            self._key_loop(as_index(0), seen, lambda c: self._store_power(total, largest, local, c))
        )
        if h.causal:
            statements.append(self._key_loop(seen, end, lambda c: [loop_ir.Store(
                self.powers.buffer, self.powers.index_of(local, c), loop_ir.const(0, h.dtype))], 1))
        reciprocal = one / ExprValue(loop_ir.read(total))
        if h.may_see_nothing:
            some = ExprValue(loop_ir.read(has_visible)) if h.masked else seen > 0
            reciprocal = call("where", some, reciprocal, 0.0)
        return statements, reciprocal.expr

    def _key_loop(
        self, first: Index, last: Index, body: Any, unroll: int = _VECTORS_IN_FLIGHT
    ) -> For:
        """The loop that runs body(key) for keys, as lanes."""
        var, key = counter("c", round_up(self.shape.keys, self.shape.panel_width))
        return For(var, first.expr(), last.expr(), tuple(body(key)), self.shape.vector, unroll)

    def _update_maximum(
        self,
        top: Register,
        has_visible: Register,
        head: Indices,
        query: Index,
        local: Index,
        key: Index,
    ) -> list[Stmt]:
        score = ExprValue(self.powers.load(local, key))
        if not self.shape.masked:
            return [loop_ir.Update(top, "maximum", score.expr)]
        mask, masked = self.shape.mask(head, query, key), Register("masked", self.shape.dtype)
        if mask.dtype == BOOL:
            score, is_visible = call("where", mask, score, -float("inf")), mask
        else:
            score, is_visible = score + mask * LOG2E, call("ne", mask, -float("inf"))
        return [loop_ir.Assign(masked, score.expr),
                loop_ir.Store(self.powers.buffer, self.powers.index_of(local, key),
                              loop_ir.read(masked)),
                loop_ir.Update(top, "maximum", loop_ir.read(masked)),
                loop_ir.Update(has_visible, "or", is_visible.expr)]

    def _store_power(
        self, total: Register, largest: ExprValue, local: Index, key: Index
    ) -> list[Stmt]:
        power = Register("power", self.shape.dtype)
        value = power_of_2(ExprValue(self.powers.load(local, key)) - largest, self.shape.dtype)
        return [loop_ir.Assign(power, value.expr),
                loop_ir.Store(self.powers.buffer, self.powers.index_of(local, key),
                              loop_ir.read(power)),
                loop_ir.Update(total, "add", loop_ir.read(power))]


def power_of_2(x: ExprValue, dtype: DType) -> ExprValue:
    """2 ** x for x <= 0, or 0 if that is subnormal.

    Processors multiply subnormal numbers up to a hundred times as slowly as others, and beside the
    largest power, 1, they change no sum. They occur where a mask subtracts 100 to hide a key."""
    smallest = float(np.finfo(dtype).minexp)
    return call("where", x < smallest, 0.0, call("exp2", x))  # type: ignore[no-any-return]
