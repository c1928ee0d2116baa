"""Online softmax: the scores of a row come tile by tile, and a thread tracks the row's maximum so
far and the sum of its own powers.

    the scores of a tile; in shared memory: the maximum of each thread and row
    where the maximum grows, earlier sums are multiplied by 2 ** (old maximum - new maximum)
    powers = 2 ** (score - maximum)

Scores are scaled by log2(e), with the queries. While all scores of a row are -inf, its maximum
is taken as 0, so its powers are 0.
"""

from __future__ import annotations

from collections.abc import Callable

from ...cpu.attention.scores import LOG2E
from ...ir import loop_ir
from ...ir.affine_index import Index, counter
from ...ir.builder import ExprValue, call, cast
from ...ir.loop_ir import BOOL, Expr, For, KernelBuffer, Register, Stmt, const
from .rows import MASKED_SCORE, QueryRows
from .tiles import (
    FLOAT,
    ROWS_PER_THREAD,
    ScoreTile,
    SharedMatrix,
    Thread,
    ThreadTile,
    dots,
    shared_matrices,
)

StorePower = Callable[[Thread, int, int, ExprValue],
                      Stmt]  # a thread's row and column, and their power


class OnlineSoftmax:
    """The scores of a tile, and the statistics of its rows."""

    def __init__(self, rows: QueryRows, tile: ScoreTile, unit: Index, first: Index,
                 *widths: int) -> None:
        """The tile has the rows of a unit from `first` on; its keys share memory with matrices of
        these widths."""
        self.rows, self.tile, self.unit, self.first = rows, tile, unit, first
        self.shape = shape = rows.shape
        (self.queries,) = shared_matrices("queries", tile.rows, shape.width)
        self.keys, *self.blocks_sharing_keys = shared_matrices("keys", tile.columns, shape.width,
                                                               *widths)
        self.scores = ThreadTile("scores", tile, ROWS_PER_THREAD * tile.columns_per_thread)
        self.row_maximum, self.row_sum, self.rescaling = (
            ThreadTile(n, tile, ROWS_PER_THREAD) for n in ("top", "total", "factor"))
        self.row_exchange = KernelBuffer("parts", FLOAT, tile.threads_per_row * tile.rows,
                                         scratch=True)
        self.any_visible = KernelBuffer("seen", BOOL, tile.threads_per_row * tile.rows,
                                        scratch=True)
        self.scratch = (self.queries.buffer, self.keys.buffer, self.row_exchange,
                        self.scores.buffer, self.row_maximum.buffer, self.row_sum.buffer,
                        self.rescaling.buffer,
                        *([self.any_visible] if shape.masked else []))

    def begin(self) -> list[Stmt]:
        """Loads the queries and clears the statistics."""
        shape, rows = self.shape, self.rows
        thread = Thread(self.tile)
        initial = [*self.row_maximum.filled(thread, MASKED_SCORE), *self.row_sum.filled(thread, 0)]
        if shape.masked:
            initial += [self._publish(thread, self.any_visible, i,
                                      ExprValue(loop_ir.const(False, BOOL)))
                        for i in range(ROWS_PER_THREAD)]
        return [load_queries(self.queries, self.tile, self.tile.rows, rows, self.unit, self.first),
                thread.loop(initial)]

    def step(self, tile_number: Index, store_power: StorePower | None = None) -> list[Stmt]:
        """Computes the scores of a tile of keys; `store_power` stores their powers."""
        shape, first = self.shape, tile_number * self.tile.columns
        key_head = self.rows.keys(self.unit)
        return [self.keys.filled(self.tile, self.tile.columns, first, shape.keys,
                                 lambda c, e: shape.element(shape.operands[1], *key_head, c, e)),
                self._scores(first), self._powers(store_power)]

    # ---- scores
    def _scores(self, first: Index) -> For:
        thread = Thread(self.tile)
        body, sums = dots(thread, self.queries, self.keys)
        for i in range(ROWS_PER_THREAD):
            body += self._row_scores(thread, i, sums[i], first)
        return thread.loop(body)

    def _row_scores(self, thread: Thread, i: int, sums: list[Register], first: Index) -> list[Stmt]:
        """The masked scores of one of a thread's rows, and their maximum."""
        maximum, any_visible = Register(f"top{i}", FLOAT), Register(f"some{i}", BOOL)
        out: list[Stmt] = [loop_ir.Assign(maximum, loop_ir.const(MASKED_SCORE, FLOAT))]
        if self.shape.masked:
            out.append(loop_ir.Assign(any_visible,
                                      loop_ir.load(self.any_visible,
                                                   self._exchange_index(thread, i))))
        for j, r in enumerate(sums):
            score, is_visible = self.rows.masked(ExprValue(loop_ir.read(r)), self.unit,
                                                 self.first + thread.row + i,
                                                 first + thread.column(j))
            masked = Register("masked", FLOAT)
            out += [loop_ir.Assign(masked, score.expr),
                    self.scores.store(thread, i * self.tile.columns_per_thread + j,
                                      ExprValue(loop_ir.read(masked))),
                    loop_ir.Update(maximum, "maximum", loop_ir.read(masked))]
            if self.shape.masked:
                out.append(loop_ir.Update(any_visible, "or", cast(is_visible, BOOL).expr))
        if self.shape.masked:
            out.append(self._publish(thread, self.any_visible, i,
                                     ExprValue(loop_ir.read(any_visible))))
        return [*out, self._publish(thread, self.row_exchange, i, ExprValue(loop_ir.read(maximum)))]

    def _publish(self, thread: Thread, parts: KernelBuffer, i: int, value: ExprValue) -> Stmt:
        """Stores a thread's value for a row where the other threads of the row read it."""
        return loop_ir.Store(parts, self._exchange_index(thread, i), value.expr)

    def _exchange_index(self, thread: Thread, i: int) -> Expr:
        return (thread.lane_in_row * self.tile.rows + thread.row + i).expr()

    def _combine(self, thread: Thread, parts: KernelBuffer, op: str,
                 registers: list[Register]) -> For:
        """Combines the values that the threads of each row have published."""
        var, n = counter("n", self.tile.threads_per_row)
        body = tuple([loop_ir.Update(r, op, loop_ir.load(
            parts, (n * self.tile.rows + thread.row + i).expr()))
            for i, r in enumerate(registers)])
        return For(var, const(0), const(self.tile.threads_per_row), body, 0, 4)

    # ---- powers
    def _powers(self, store_power: StorePower | None) -> For:
        thread = Thread(self.tile)
        maxima = [Register(f"top{i}", FLOAT) for i in range(ROWS_PER_THREAD)]
        body: list[Stmt] = [loop_ir.Assign(r, self.row_maximum.load(thread, i).expr)
                            for i, r in enumerate(maxima)]
        body.append(self._combine(thread, self.row_exchange, "maximum", maxima))
        for i, r in enumerate(maxima):
            body += self._powers_of_row(thread, i, ExprValue(loop_ir.read(r)), store_power)
        return thread.loop(body)

    def _powers_of_row(self, thread: Thread, i: int, maximum: ExprValue,
                       store_power: StorePower | None) -> list[Stmt]:
        largest, factor, total = (Register(f"{n}{i}", FLOAT)
                                  for n in ("largest", "factor", "total"))
        rescale = call("exp2", self.row_maximum.load(thread, i) - ExprValue(loop_ir.read(largest)))
        out: list[Stmt] = [loop_ir.Assign(largest, finite_maximum(maximum).expr),
                           loop_ir.Assign(factor, rescale.expr),
                           loop_ir.Assign(total,
                                          (self.row_sum.load(thread, i)
                                           * ExprValue(loop_ir.read(factor))).expr)]
        for j in range(self.tile.columns_per_thread):
            power = Register("power", FLOAT)
            score = self.scores.load(thread, i * self.tile.columns_per_thread + j)
            out += [loop_ir.Assign(power, call("exp2",
                                               score - ExprValue(loop_ir.read(largest))).expr),
                    loop_ir.Update(total, "add", loop_ir.read(power))]
            out += [store_power(thread, i, j,
                                ExprValue(loop_ir.read(power)))] if store_power else []
        return [*out, self.row_maximum.store(thread, i, maximum),
                self.rescaling.store(thread, i, ExprValue(loop_ir.read(factor))),
                self.row_sum.store(thread, i, ExprValue(loop_ir.read(total)))]

    # ---- totals of a row
    def end(self) -> For:
        """The threads publish the sums of their powers."""
        thread = Thread(self.tile)
        return thread.loop([self._publish(thread, self.row_exchange, i,
                                          self.row_sum.load(thread, i))
                            for i in range(ROWS_PER_THREAD)])

    def row_totals(self, thread: Thread) -> tuple[list[Stmt], list[ExprValue], list[ExprValue]]:
        """Statements that combine the totals of a thread's rows, with the sums of all powers, and
        with conditions that are True if the query may attend to any key (empty without a mask)."""
        totals = [Register(f"total{i}", FLOAT) for i in range(ROWS_PER_THREAD)]
        out: list[Stmt] = [loop_ir.Assign(r, loop_ir.const(0, FLOAT)) for r in totals]
        out.append(self._combine(thread, self.row_exchange, "add", totals))
        if not self.shape.masked:
            return out, _values_of(totals), []
        any_visible = [Register(f"some{i}", BOOL) for i in range(ROWS_PER_THREAD)]
        out += [loop_ir.Assign(r, loop_ir.const(False, BOOL)) for r in any_visible]
        out.append(self._combine(thread, self.any_visible, "or", any_visible))
        return out, _values_of(totals), _values_of(any_visible)


def _values_of(registers: list[Register]) -> list[ExprValue]:
    return [ExprValue(loop_ir.read(r)) for r in registers]


def finite_maximum(top: ExprValue) -> ExprValue:
    """The number subtracted from scores: the maximum, or 0 where all scores are -inf."""
    return call("where", call("eq", top, MASKED_SCORE), 0.0, top)  # type: ignore[no-any-return]


def load_queries(target: SharedMatrix, tile: ScoreTile, count: int, rows: QueryRows, unit: Index,
                 first: Index) -> For:
    """Loads the scaled queries of `count` rows."""
    shape = rows.shape
    return target.filled(tile, count, first, rows.count, lambda row, e: rows.element(
        shape.operands[0], unit, row, e) * (shape.scale * LOG2E))
