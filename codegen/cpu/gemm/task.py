"""One task's part of a contraction: its batch element, its block of columns, its share of rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ....capture.graph.graph import Node
from ...ir import loop_ir
from ...ir.affine_index import Index, as_index, atom
from ...ir.builder import ExprValue
from ...ir.inline import Indices, Inliner, flat, in_memory
from ...ir.loop_ir import Expr, If, Stmt, const
from ...ir.target_info import Machine
from .plan import Contraction


class TaskPart:
    """Which elements a task works on, and how those of the operands are read."""

    def __init__(self, of: Contraction, fixed: dict[str, Index], block: Index, share: Index
                 ) -> None:
        """`fixed`: the element of the batch, letter by letter."""
        self.of, self.roles, self.fixed = of, of.roles, fixed
        self.block, self.share = block, share
        self.first_column = block * of.column_step
        self.column_stop = stop(self.first_column, of.column_step,
                                of.roles.size[of.roles.columns[0]], of.machine)
        self.inner_columns = of.roles.count(of.roles.columns[1:])

    # ---- elements
    def position(self, letters: list[str], local: dict[str, Index]) -> Index:
        """The indices of several letters as one, the last counting fastest."""
        return flat(tuple(local[a] for a in letters), [self.roles.size[a] for a in letters])

    def operand(self, number: int, where: dict[str, Index]) -> ExprValue:
        """An element of an operand, read through the views before it, or a word of them."""
        if self.of.words is None:
            return self._one(number, where)
        word, letter = self.of.words
        first = where[letter] * word.count
        return ExprValue(word.of([self._one(number, where | {letter: first + n}).expr
                                  for n in range(word.count)]))

    def _one(self, number: int, where: dict[str, Index]) -> ExprValue:
        node = self.of.node.inputs[number]
        return Inliner(self.leaf).value(node, tuple(where[a] for a in self.of.letters[number]))

    def leaf(self, node: Node, index: Indices, mask: Any) -> ExprValue | None:
        """An element of what lies in memory."""
        return in_memory(self.of.buffers, self.of.group.members)(node, index, mask)

    # ---- blocks of the summed axes
    def depth_block(self, number: Index) -> tuple[Index, Expr]:
        """The first of the summed elements in a block, in steps of their first letter, and how many
        there are."""
        first = number * self.of.depth_step
        return first, stop(first, self.of.depth_step, self.roles.size[self.roles.summed[0]],
                           self.of.machine)

    def column_base(self, number: Index) -> Index:
        """Where the block of columns begins among the packed ones, for a block of the sums."""
        of = self.of
        if not of.kept_columns:
            return as_index(0)
        letters = of.own_batch(1 - self.roles.row_operand)
        batch = self.position(letters, self.fixed) if letters else as_index(0)
        return ((batch * of.column_blocks + self.block) * of.depth_blocks + number) * of.column_area

    # ---- panels of the block's columns
    def whole_panels(self) -> Expr:
        """How many whole panels the block has."""
        wide = 2 * self.of.vector
        if isinstance(self.column_stop, loop_ir.Const):
            return const(int(self.column_stop.value) * self.inner_columns // wide)
        columns = times(self.column_stop, self.inner_columns)
        return loop_ir.call("idiv", (columns, const(wide)), loop_ir.INT)

    def last_panel(self) -> Index:
        """The number, in the last block, of the panel that is not whole."""
        of = self.of
        if of.open_columns:
            return atom(self.whole_panels(), (0, of.block // (2 * of.vector)))
        before = (of.column_blocks - 1) * of.column_step
        return as_index((of.columns - before * self.inner_columns) // (2 * of.vector))

    def rest_columns(self) -> tuple[int, Expr] | None:
        """How many columns at most, and how many, that panel has; None if all are whole."""
        wide = 2 * self.of.vector
        if not self.of.open_columns:
            rest = self.of.columns % wide
            return (rest, const(rest)) if rest else None
        columns = times(self.column_stop, self.inner_columns)
        return wide, loop_ir.call("imod", (columns, const(wide)), loop_ir.INT)

    def in_last_block(self, body: list[Stmt]) -> list[Stmt]:
        """Statements that only the last block of columns runs."""
        if self.of.open_columns or self.of.column_blocks == 1:
            return body  # or there is no such panel in another one
        last = loop_ir.call("eq", (self.block.expr(), const(self.of.column_blocks - 1)),
                            loop_ir.BOOL)
        return only(last, body)


def only(condition: Expr, body: Sequence[Stmt]) -> list[Stmt]:
    """Statements that run where a condition holds."""
    return list(body) if isinstance(condition, loop_ir.Const) else [If(condition, tuple(body))]


def stop(first: Index, step: int, size: int, machine: Machine) -> Expr:
    """How many of `step` there are from `first` on before `size`."""
    if not machine.varies(size) and first.range()[1] + step <= size:
        return const(step)
    return loop_ir.call("minimum", (const(step), (size - first).expr()), loop_ir.INT)


def times(e: Expr, factor: int) -> Expr:
    """A multiple of a number."""
    return loop_ir.call("mul", (e, const(factor)), loop_ir.INT) if factor > 1 else e


def decode(position: Index, letters: list[str], size: dict[str, int]) -> dict[str, Index]:
    """A position as the indices of several letters, the last counting fastest."""
    out: dict[str, Index] = {}
    for n, letter in enumerate(reversed(letters)):
        last = n == len(letters) - 1
        out[letter] = position if last else position % size[letter]
        position = position if last else position // size[letter]
    return out
