"""Lowers attention to the keys of a cache, with lengths that are read at run time.

Many queries have the kernel of `forward.py`, which reads keys by the table. Few queries have this
one:

    task = one text, and one head of keys: the queries of its group are the rows
        for each block of keys that one of the rows sees:
            scores[row][key] = query[row] . key                  each key is read once for all rows
            for each row: its largest score so far; powers[row][key] = 2 ** (score - the largest)
            sums[row] = sums[row] * 2 ** (the largest before - the largest) + powers[row] @ values
        result[row] = sums[row] / sum of powers

A block is rescaled as in Milakov and Gimelshein, "Online normalizer calculation for softmax"
(2018), so the scratch memory of a task does not grow with the cache.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ....capture.graph.graph import Node
from ...ir import loop_ir
from ...ir.affine_index import Index, as_index, atom, counter
from ...ir.builder import ExprValue, call, cast
from ...ir.inline import Inliner, memory_reader
from ...ir.loop_ir import INT, Assign, Expr, For, Kernel, KernelBuffer, Register, Stmt, Store, const
from ...ir.sizes import is_dynamic, upper_bound
from ...ir.target_info import Machine
from ..partition_work import buffers_of
from ..scatter_rows import clamped_index
from .scores import LOG2E

_KEYS_PER_BLOCK = 128
_MAX_ROWS = 8  # that share the reads of a key
_MAX_VECTORS = 4  # of a row at a time
_MOST_POSITIONS = 1 << 40
_FLOAT = np.dtype("float32")
_SMALL = ("float32", "bfloat16", "float16")


def fits_cached(node: Node) -> bool:
    """True if kernels have code for the dtypes of an attention to a cache, and know its sizes."""
    query, keys, values = (n.type for n in node.inputs[:3])
    sizes = query.shape[1], query.shape[3], *keys.shape[1:], values.shape[2]
    columns = node.inputs[3].type.shape[1]
    return query.dtype == _FLOAT and keys.dtype.name in _SMALL and values.dtype == keys.dtype \
        and not any(map(is_dynamic, (*sizes, columns))) \
        and 0 not in (query.shape[0], query.shape[2], keys.shape[0], columns, *sizes)


@dataclass(frozen=True)
class _Block:
    """The keys from `start` to `stop`, which one of the rows sees."""

    start: Index
    stop: Expr


class CachedAttention:
    """The kernel, and its scratch memory: an element, or a vector, for each row."""

    def __init__(self, node: Node, buffers: Mapping[Node, KernelBuffer], machine: Machine,
                 name: str) -> None:
        self.node, self.buffers, self.name = node, buffers, name
        self.inline = Inliner(memory_reader(buffers, (node,)))
        self.query, self.keys, self.values, self.table, self.positions = node.inputs
        self.texts, self.heads, self.length, self.width = self.query.type.shape
        self.key_heads, self.features = self.values.type.shape[1:]
        self.rows = self.heads // self.key_heads * self.length
        self.tile = max(n for n in range(1, _MAX_ROWS + 1) if self.rows % n == 0)
        self.columns, self.window = self.table.type.shape[1], int(node.params["window"])
        fitting = max(1, machine.registers // 2 // self.tile)
        self.vector, self.vectors = max(2, machine.lanes()), min(_MAX_VECTORS, fitting)
        self.var, task = counter("task", self.texts * self.key_heads)
        self.text, self.head = task // self.key_heads, task % self.key_heads
        sizes = {"queries": self.width, "scores": _KEYS_PER_BLOCK, "sums": self.features,
                 "tops": 1, "totals": 1, "factors": 1}
        self.scratch = {n: KernelBuffer(n, _FLOAT, self.rows * size, scratch=True)
                        for n, size in sizes.items()}
        self.key_rows = KernelBuffer("key_rows", INT, _KEYS_PER_BLOCK, scratch=True)

    def kernel(self) -> Kernel:
        first, end = Register("first", INT), Register("end", INT)
        before = [Assign(first, self._bound(self._first_seen, "minimum")),
                  Assign(end, self._bound(self._end_seen, "maximum"))]
        (number, block), last = counter("block", _MOST_POSITIONS), atom(
            loop_ir.read(end), (0, _MOST_POSITIONS))
        start = atom(loop_ir.read(first), (0, _MOST_POSITIONS)) + block * _KEYS_PER_BLOCK
        stop = loop_ir.call("minimum", ((start + _KEYS_PER_BLOCK).expr(), last.expr()), INT)
        length = call("maximum", (last - atom(loop_ir.read(first))).value(), 0)
        count = call("idiv", length + (_KEYS_PER_BLOCK - 1), _KEYS_PER_BLOCK)
        blocks = For(number, const(0), count.expr, tuple(self._block(_Block(start, stop))))
        body = (*before, *self._begin(), blocks, *self._finish())
        elements = upper_bound(self.texts) * self.key_heads * upper_bound(self.columns)
        size = self.keys.type.dtype.itemsize * (self.width + self.features)
        reads, writes = buffers_of(body)
        return Kernel(self.name, reads, writes, (*self.scratch.values(), self.key_rows), self.var,
                      self.texts * self.key_heads, body, elements * size / 20,
                      (self.node.site,) if self.node.site else ())

    # ---- the keys that a row sees
    def _position(self, query: Index | int) -> ExprValue:
        """The position of a query of the text."""
        return cast(self.inline.value(self.positions, (self.text, as_index(query))), INT)

    def _first_seen(self, query: Index | int) -> ExprValue:
        """The first key that a query sees."""
        if not self.window:
            return ExprValue(const(0))
        first: ExprValue = call("maximum", self._position(query) - (self.window - 1), 0)
        return first

    def _end_seen(self, query: Index | int) -> ExprValue:
        """The key behind the last one that a query sees."""
        end: ExprValue = self._position(query) + 1
        if not self.window:
            end = call("minimum", end, self.columns)
        return end

    def _bound(self, of: Callable[[int], ExprValue], op: str) -> Expr:
        bound = of(0)
        for query in range(1, self.length):
            bound = call(op, bound, of(query))
        return bound.expr

    # ---- before the first block, and after the last one
    def _begin(self) -> list[Stmt]:
        """Statements that pack the queries, scaled, and clear the sums."""
        def query(row: Index, e: Index) -> ExprValue:
            per_head = self.heads // self.key_heads
            index = (self.text, self.head * per_head + row // self.length, row % self.length, e)
            return self.inline.value(self.query, tuple(as_index(i) for i in index)) \
                * (float(self.node.params["scale"]) * LOG2E)

        def fill(name: str, value: float) -> Stmt:
            size = self.scratch[name].size
            var, i = counter("i", size)
            store = Store(self.scratch[name], i.expr(), loop_ir.const(value, _FLOAT))
            return For(var, const(0), const(size), (store,), self._lanes(size))

        return [self._for_rows(lambda row: [self._lane_loop(self.width, lambda e: [
                    self._store("queries", row * self.width + e, query(row, e))])]),
                fill("sums", 0.0), fill("totals", 0.0), fill("tops", -float("inf"))]

    def _finish(self) -> list[Stmt]:
        """Statements that store the results."""
        out = self.buffers[self.node]
        head = (self.text * self.key_heads + self.head) * self.rows

        def body(row: Index) -> list[Stmt]:
            total = self._load("totals", row)
            factor = call("where", call("eq", total, 0.0), 0.0,
                          ExprValue(loop_ir.const(1, _FLOAT)) / total)
            reciprocal = Register("reciprocal", _FLOAT)
            return [Assign(reciprocal, factor.expr), self._lane_loop(self.features, lambda e: [
                Store(out, ((head + row) * self.features + e).expr(),
                      (self._load("sums", row * self.features + e)
                       * ExprValue(loop_ir.read(reciprocal))).expr)])]

        return [self._for_rows(body)]

    # ---- a block of keys
    def _block(self, block: _Block) -> list[Stmt]:
        return [self._rows_of_keys(block),
                self._for_tiles(lambda first: [self._scores(block, first)]),
                self._for_rows(lambda row: self._powers(block, row)),
                self._for_tiles(lambda first: [self._weighted(block, first)])]

    def _rows_of_keys(self, block: _Block) -> Stmt:
        """The loop that looks up where the keys begin."""
        key, j = self._key()
        column = (self.text, j % self.columns if self.window else j)
        row = clamped_index(self.inline.value(self.table, column), self.keys.type.shape[0])
        return For(key, block.start.expr(), block.stop, (
            Store(self.key_rows, (j - block.start).expr(), row.expr()),))

    def _key(self) -> tuple[loop_ir.Var, Index]:
        return counter("j", _MOST_POSITIONS if self.window else self.columns)

    def _key_row(self, local: Index) -> Index:
        row = loop_ir.load(self.key_rows, local.expr())
        return atom(row, (0, self.keys.type.shape[0] - 1))

    def _element(self, of: Node, row: Index, e: Index) -> ExprValue:
        """An element of a key or a value, in float32."""
        return cast(self.inline.value(of, (row, self.head, e)), _FLOAT)

    def _scores(self, block: _Block, first: Index) -> Stmt:
        """The loop over keys that computes the scores of a tile of rows."""
        key, j = self._key()
        local, at = j - block.start, Register("row", INT)
        row = atom(loop_ir.read(at), (0, self.keys.type.shape[0] - 1))
        sums = [Register(f"s{i}", _FLOAT) for i in range(self.tile)]

        def products(e: Index) -> list[Stmt]:
            element = self._element(self.keys, row, e)
            return [loop_ir.Update(s, "add", (self._load(
                "queries", (first + i) * self.width + e) * element).expr)
                for i, s in enumerate(sums)]

        stores = [self._store("scores", (first + i) * _KEYS_PER_BLOCK + local,
                              ExprValue(loop_ir.read(s))) for i, s in enumerate(sums)]
        return For(key, block.start.expr(), block.stop, (
            Assign(at, self._key_row(local).expr()),
            *[Assign(s, loop_ir.const(0, _FLOAT)) for s in sums],
            self._lane_loop(self.width, products), *stores))

    def _powers(self, block: _Block, row: Index) -> list[Stmt]:
        """Statements that turn the scores of a row into powers, and rescale the earlier sums."""
        top, total, base = (Register(n, _FLOAT) for n in ("top", "total", "base"))
        before = self._load("tops", row)
        largest = ExprValue(loop_ir.read(top))
        finite = call("where", call("eq", largest, -float("inf")), 0.0, largest)
        factor = call("exp2", before - ExprValue(loop_ir.read(base)))

        def power(key: Index) -> list[Stmt]:
            value, at = Register("power", _FLOAT), row * _KEYS_PER_BLOCK + (key - block.start)
            score = self._load("scores", at) - ExprValue(loop_ir.read(base))
            return [Assign(value, call("exp2", score).expr),
                    self._store("scores", at, ExprValue(loop_ir.read(value))),
                    loop_ir.Update(total, "add", loop_ir.read(value))]

        return [Assign(top, before.expr), self._key_lanes(block, lambda key: self._masked(
                    block, row, key, top)),
                Assign(base, finite.expr),
                Assign(total, loop_ir.const(0, _FLOAT)), self._key_lanes(block, power),
                self._store("factors", row, factor),
                self._store("totals", row, self._load("totals", row) * self._load("factors", row)
                            + ExprValue(loop_ir.read(total))),
                self._store("tops", row, largest)]

    def _masked(self, block: _Block, row: Index, key: Index, top: Register) -> list[Stmt]:
        """Statements that hide a key from a row that does not see it, and note the largest score.
        """
        at = row * _KEYS_PER_BLOCK + (key - block.start)
        if self.length == 1:
            return [loop_ir.Update(top, "maximum", self._load("scores", at).expr)]
        query, masked = row % self.length, Register("masked", _FLOAT)
        seen = call("and", call("lt", key.value(), self._end_seen(query)),
                    call("ge", key.value(), self._first_seen(query)))
        score = call("where", seen, self._load("scores", at), -float("inf"))
        return [Assign(masked, score.expr),
                self._store("scores", at, ExprValue(loop_ir.read(masked))),
                loop_ir.Update(top, "maximum", loop_ir.read(masked))]

    def _weighted(self, block: _Block, first: Index) -> Stmt:
        """The loop over features that adds the weighted values of a block to the sums."""
        def body(e: Index) -> list[Stmt]:
            sums = [Register(f"w{i}", _FLOAT) for i in range(self.tile)]
            at = [(first + i) * self.features + e for i in range(self.tile)]
            key, j = self._key()
            local = j - block.start
            element = self._element(self.values, self._key_row(local), e)
            steps = tuple(loop_ir.Update(s, "add", (self._load(
                "scores", (first + i) * _KEYS_PER_BLOCK + local) * element).expr)
                for i, s in enumerate(sums))
            return [*[Assign(s, (self._load("sums", a) * self._load("factors", first + i)).expr)
                      for i, (s, a) in enumerate(zip(sums, at))],
                    For(key, block.start.expr(), block.stop, steps, 0, 2),
                    *[self._store("sums", a, ExprValue(loop_ir.read(s)))
                      for s, a in zip(sums, at)]]

        return self._lane_loop(self.features, body)

    # ---- loops
    def _for_rows(self, body: Callable[[Index], list[Stmt]]) -> Stmt:
        var, row = counter("r", self.rows)
        return For(var, const(0), const(self.rows), tuple(body(row)))

    def _for_tiles(self, body: Callable[[Index], list[Stmt]]) -> Stmt:
        """The loop over tiles of rows: body(first row)."""
        var, number = counter("tile", self.rows // self.tile)
        return For(var, const(0), const(self.rows // self.tile), tuple(body(number * self.tile)))

    def _lane_loop(self, size: int, body: Callable[[Index], list[Stmt]]) -> For:
        var, e = counter("e", size)
        return For(var, const(0), const(size), tuple(body(e)), self._lanes(size))

    def _lanes(self, size: int) -> int:
        return max(2, min(self.vectors * self.vector, 1 << (size - 1).bit_length()))

    def _key_lanes(self, block: _Block, body: Callable[[Index], list[Stmt]]) -> For:
        var, key = self._key()
        return For(var, block.start.expr(), block.stop, tuple(body(key)), self.vector, 2)

    def _load(self, name: str, index: Index) -> ExprValue:
        return ExprValue(loop_ir.load(self.scratch[name], index.expr()))

    def _store(self, name: str, index: Any, value: ExprValue) -> Store:
        return Store(self.scratch[name], index.expr(), value.expr)
