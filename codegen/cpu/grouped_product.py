"""Lowers products of few rows with a matrix of few bits to sums of products of 8-bit integers.

A row x is written as whole numbers z times a step, x ~ z * step, where step is 2**-21 of the
largest magnitude in x. Each z has three signed digits of 8 bits. So a group of products is an
exact integer, and only the sum over groups is a float:

    sum of x * (code * scale + least) = step * (sum over groups of scale * (sum of code * z)
                                                                 + least * (sum of z))

An instruction multiplies four codes by four digits. The digits are computed once, in a kernel of
their own. Lanes take neighbouring words of four codes, and all lanes are in one group.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping

import numpy as np

from ...capture.graph.graph import Node
from ...eager.arrays.shapes import product
from ..fusion.fusion import Group
from ..ir import loop_ir
from ..ir.affine_index import Index, as_index, counter
from ..ir.builder import ExprValue, call, cast
from ..ir.inline import Inliner, memory_reader
from ..ir.loop_ir import (
    Assign,
    For,
    Kernel,
    KernelBuffer,
    Register,
    Stmt,
    Store,
    Update,
    Var,
    const,
)
from ..ir.sizes import Size, is_dynamic
from ..ir.target_info import Machine
from .partition_work import buffers_of, chunk_bounds, split_into_tasks

MAX_ROWS = 16  # with more, products of floats are faster
_PER_WORD = 4  # codes, or digits
_DIGITS = 3  # of a whole number
_WHOLE = 2**21  # the largest whole number: four of them times codes of 8 bits fit into int32
_BIAS = 0x808080  # makes each digit a byte from 0 to 255, which is the digit plus 128
_LEAST_TOP = 2.0**-100  # a row of smaller numbers counts as 0
_MIN_LANES = 4  # of the instructions
_MIN_CODES_PER_TASK = 1 << 15
_CODES_PER_NS = 20.0
_REGISTERS_PER_ROW = 4  # vector registers: a sum, a product, and room for what rows share
_Sums = dict[int, Register]  # by row
_FLOAT, _INT32, _WORD = (np.dtype(t) for t in ("float32", "int32", "uint32"))


def has_grouped_kernel(node: Node, machine: Machine) -> bool:
    """True if a product with a matrix of few bits has kernels; it is decomposed if not."""
    if not machine.dot8 or any(is_dynamic(n) for i in (node, *node.inputs) for n in i.type.shape):
        return False
    x, codes, scale, _ = (n.type for n in node.inputs)
    rows = [n for n in x.shape[:-1] if n != 1]
    return len(rows) <= 1 and 0 < product(rows) <= MAX_ROWS and 0 not in codes.shape \
        and x.dtype.itemsize <= _FLOAT.itemsize and _lanes(x.shape[-1] // scale.shape[1]) > 0


def _lanes(group: int, most: int = _MIN_LANES) -> int:
    """The largest power of two, up to `most`, of words that fill a group; 0 if there is none."""
    words, rest = divmod(group, _PER_WORD)
    lanes = min(most, words & -words)
    return 0 if rest or lanes < _MIN_LANES else lanes


def grouped_kernels(group: Group, buffers: Mapping[Node, KernelBuffer], machine: Machine,
                    name: str) -> list[Kernel]:
    """The kernels of a node for which `has_grouped_kernel` holds."""
    (node,) = group.members
    lowering = _GroupedProduct(node, buffers, machine, name)
    return [lowering.digits_kernel(), lowering.product_kernel()]


class _GroupedProduct:
    """The two kernels, and the buffers between them."""

    def __init__(self, node: Node, buffers: Mapping[Node, KernelBuffer], machine: Machine,
                 name: str) -> None:
        self.node, self.machine, self.name = node, machine, name
        self.inline, self.out = Inliner(memory_reader(buffers, (node,))), buffers[node]
        self.x, self.codes, self.scale, self.least = node.inputs
        self.bits = int(node.params["bits"])
        self.inputs = self.x.type.shape[-1]
        self.rows = self.x.type.size // self.inputs
        self.outputs, self.groups = self.scale.type.shape
        self.words = self.inputs // _PER_WORD
        self.group = self.inputs // self.groups
        self.lanes = _lanes(self.group, machine.lanes())
        self.digits = KernelBuffer(f"{name}_digits", _WORD, _DIGITS * self.rows * self.words)
        self.sums = KernelBuffer(f"{name}_sums", _FLOAT, self.rows * self.groups)
        self.steps = KernelBuffer(f"{name}_steps", _FLOAT, self.rows)

    # ---- the digits of the rows
    def digits_kernel(self) -> Kernel:
        """The kernel that writes the digits and the step of each row, and its sums by group."""
        var, row = counter("row", self.rows)
        top, factor = Register("top", _FLOAT), Register("factor", _FLOAT)
        largest = ExprValue(loop_ir.read(top))
        # The difference is nan where the largest is inf.
        step = (call("maximum", largest, _LEAST_TOP) + (largest - largest)) * (1 / _WHOLE)
        body: list[Stmt] = [
            Assign(top, const(0, _FLOAT)),
            self._loop(self.inputs, lambda i: [
                Update(top, "maximum", call("abs", self._x(row, i)).expr)], self._vector),
            Store(self.steps, row.expr(), step.expr),
            Assign(factor, (1.0 / step).expr),
            self._loop(self.words, lambda w: self._word(row, w, factor), self._vector),
            self._loop(self.groups, lambda g: self._group_sum(row, g, factor))]
        return self._kernel("digits", (var, self.rows), body, self.rows * self.inputs / 4)

    @property
    def _vector(self) -> int:
        return max(2, self.machine.lanes())

    def _x(self, row: Index, i: Index) -> ExprValue:
        long = [n != 1 for n in self.x.type.shape[:-1]]
        where = tuple(row if is_long else as_index(0) for is_long in long)
        value: ExprValue = cast(self.inline.value(self.x, (*where, i)), _FLOAT)
        return value

    def _whole(self, row: Index, i: Index, factor: Register) -> ExprValue:
        """The whole number of an element, as a float."""
        rounded: ExprValue = call("round", self._x(row, i) * ExprValue(loop_ir.read(factor)))
        # nan, for which the result is nan by its step, becomes a number that has digits
        has_digits = call("le", call("abs", rounded), float(_WHOLE))
        whole: ExprValue = call("where", has_digits, rounded, 0.0)
        return whole

    def _word(self, row: Index, word: Index, factor: Register) -> list[Stmt]:
        """Statements that store the digits of four elements."""
        whole = [cast(self._whole(row, word * _PER_WORD + n, factor), _INT32) + _BIAS
                 for n in range(_PER_WORD)]
        stores: list[Stmt] = []
        for digit in range(_DIGITS):
            signed = [(((z >> 8 * digit) & 255) - 128).expr for z in whole]
            stores.append(Store(self.digits, self._digit_at(digit, row, word).expr(),
                                loop_ir.call("quad8", tuple(signed), _WORD)))
        return stores

    def _digit_at(self, digit: int, row: Index, word: Index) -> Index:
        first: Index = (row + digit * self.rows) * self.words
        return first + word

    def _group_sum(self, row: Index, group: Index, factor: Register) -> list[Stmt]:
        total = Register("total", _FLOAT)
        return [Assign(total, const(0, _FLOAT)),
                self._loop(self.group, lambda i: [Update(total, "add", self._whole(
                    row, group * self.group + i, factor).expr)], self._vector),
                Store(self.sums, (row * self.groups + group).expr(), loop_ir.read(total))]

    # ---- the product
    def product_kernel(self) -> Kernel:
        """The kernel that computes the results, one output after the other."""
        smallest = max(1, _MIN_CODES_PER_TASK // self.inputs)
        tasks, chunk = split_into_tasks(self.outputs, smallest, self.machine)
        (var, task), (position, output) = counter("task", tasks), counter("o", self.outputs)
        body = [s for rows in self._tiles() for s in self._output(output, rows)]
        loop = For(position, *chunk_bounds(task, chunk, self.outputs), tuple(body))
        elements = self.rows * self.inputs * self.outputs
        return self._kernel("", (var, tasks), [loop], elements / _CODES_PER_NS)

    def _tiles(self) -> list[range]:
        """The rows that are computed side by side: they share what is read of the matrix."""
        count = -(-self.rows // max(1, self.machine.registers // _REGISTERS_PER_ROW))
        bounds = [self.rows * n // count for n in range(count + 1)]
        return [range(a, b) for a, b in itertools.pairwise(bounds)]

    def _output(self, output: Index, rows: range) -> list[Stmt]:
        """Statements that compute an output of some rows."""
        totals = {r: Register(f"total{r}", _FLOAT) for r in rows}
        return [*[Assign(t, const(0, _FLOAT)) for t in totals.values()],
                self._loop(self.lanes, lambda lane: self._lane(output, lane, totals), self.lanes),
                *self._rest_of_least(output, totals),
                *[self._store(row, output, t) for row, t in totals.items()]]

    def _lane(self, output: Index, lane: Index, totals: _Sums) -> list[Stmt]:
        """Statements of a lane: its sum over all groups."""
        sums = {r: Register(f"sum{r}", _FLOAT) for r in totals}
        steps = self.group // _PER_WORD // self.lanes
        count = self.groups * self.bits // 8

        def groups(g: Index) -> list[Stmt]:
            return [self._loop(steps, lambda s: self._products(
                output, g, (g * steps + s) * self.lanes + lane, sums))]

        def least(g: Index) -> list[Stmt]:
            return self._add_least(output, g * self.lanes + lane, sums)

        whole = self.groups // self.lanes
        return [*[Assign(s, const(0, _FLOAT)) for s in sums.values()],
                self._loop(count, groups, unroll=2),
                *([self._loop(whole, least)] if whole else []),
                *[Update(t, "add", loop_ir.read(sums[r])) for r, t in totals.items()]]

    def _products(self, output: Index, group: Index, word: Index, sums: _Sums) -> list[Stmt]:
        """Statements that add the products of a word of bytes to the sums of the rows."""
        codes = Register("codes", _WORD)
        four = tuple(cast(self.inline.value(self.codes, (output, word * _PER_WORD + n)),
                          _INT32).expr for n in range(_PER_WORD))
        body: list[Stmt] = [Assign(codes, loop_ir.call("quad8", four, _WORD))]
        parts = 8 // self.bits
        for part in range(parts):
            some, value = Register(f"codes{part}", _WORD), ExprValue(loop_ir.read(codes))
            if parts > 1:
                value = (value >> part * self.bits) & 0x0F0F0F0F
            scale = self.inline.value(self.scale, (output, group + part * (self.groups // parts)))
            body.append(Assign(some, value.expr))
            at = word + part * (self.words // parts)
            for row, total in sums.items():
                whole = Register(f"whole{part}_{row}", _INT32)
                body += [*self._whole_product(whole, some, as_index(row), at), Update(
                    total, "add", (cast(ExprValue(loop_ir.read(whole)), _FLOAT) * scale).expr)]
        return body

    def _whole_product(self, total: Register, codes: Register, row: Index, word: Index
                       ) -> list[Stmt]:
        """Statements that set `total` to the products of four codes with four whole numbers."""
        body: list[Stmt] = [Assign(total, const(0, _INT32))]
        for digit in reversed(range(_DIGITS)):
            digits = loop_ir.load(self.digits, self._digit_at(digit, row, word).expr())
            product = loop_ir.call("dot8", (loop_ir.read(codes), digits), _INT32)
            body.append(Update(total, "add", product))
            if digit:
                shifted = ExprValue(loop_ir.read(total)) << 8
                body.append(Assign(total, shifted.expr))
        return body

    def _add_least(self, output: Index, group: Index, sums: _Sums) -> list[Stmt]:
        """Statements that add what the least numbers of a group contribute."""
        least = self.inline.value(self.least, (output, group))
        return [Update(s, "add", (least * ExprValue(loop_ir.load(
            self.sums, (group + row * self.groups).expr()))).expr) for row, s in sums.items()]

    def _rest_of_least(self, output: Index, totals: _Sums) -> list[Stmt]:
        """The loop over the groups that do not fill all lanes."""
        rest, first = self.groups % self.lanes, self.groups // self.lanes * self.lanes
        return [self._loop(rest, lambda g: self._add_least(output, g + first, totals),
                           max(2, 1 << (rest - 1).bit_length()))] if rest else []

    def _store(self, row: int, output: Index, total: Register) -> Stmt:
        step = ExprValue(loop_ir.load(self.steps, const(row)))
        value = cast(ExprValue(loop_ir.read(total)) * step, self.out.dtype)
        return Store(self.out, (output + row * self.outputs).expr(), value.expr)

    # ---- loops
    def _loop(self, size: int, body: Callable[[Index], list[Stmt]], lanes: int = 0,
              unroll: int = 1) -> For:
        var, i = counter("i", size)
        return For(var, const(0), const(size), tuple(body(i)), lanes, unroll)

    def _kernel(self, label: str, tasks: tuple[Var, Size], body: list[Stmt], cost: float) -> Kernel:
        reads, writes = buffers_of(tuple(body))
        name = f"{self.name}_{label}" if label else self.name
        var, count = tasks
        return Kernel(name, reads, writes, (), var, count, tuple(body), cost,
                      (self.node.site,) if self.node.site else ())
