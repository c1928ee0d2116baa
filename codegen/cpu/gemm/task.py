"""Describes one task of a contraction: its batch element, block of columns and chunk of rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ....capture.graph.graph import Node
from ...ir import loop_ir
from ...ir.affine_index import Index, as_index, atom
from ...ir.axis_coalescing import number_of
from ...ir.builder import ExprValue
from ...ir.inline import Indices, Inliner, flatten, memory_reader
from ...ir.loop_ir import Expr, If, Stmt, const
from ...ir.sizes import Size, is_at_least
from .plan import Contraction


class TaskPart:
    """The elements that a task works on, and how it reads those of the operands."""

    def __init__(
        self, of: Contraction, batch_index: dict[str, Index], block: Index, row_chunk: Index
    ) -> None:
        """`batch_index`: the element of the batch, by label."""
        self.of, self.roles, self.batch_index = of, of.roles, batch_index
        self.block, self.row_chunk = block, row_chunk
        self.first_column = block * of.column_step
        self.column_stop = clipped_count(self.first_column, of.column_step,
                                         of.roles.size[of.roles.columns[0]])
        self.inner_columns = of.roles.count(of.roles.columns[1:])

    # ---- elements
    def position(self, labels: list[str], indices: dict[str, Index]) -> Index:
        """The indices of several labels as one index, the last label counting fastest."""
        return flatten(tuple(indices[a] for a in labels), [self.roles.size[a] for a in labels])

    def operand(self, number: int, where: dict[str, Index]) -> ExprValue:
        """An element of an operand, or a packed word of elements, read through the views before it.
        """
        if self.of.lane_packing is None:
            return self._element(number, where)
        packing, label = self.of.lane_packing
        first = where[label] * packing.count
        return ExprValue(
            packing.pack_elements(
                [
                    self._element(number, where | {label: first + n}).expr
                    for n in range(packing.count)
                ]
            )
        )

    def _element(self, number: int, where: dict[str, Index]) -> ExprValue:
        node = self.of.node.inputs[number]
        return Inliner(self.read).value(node, tuple(where[a] for a in self.of.labels[number]))

    def read(self, node: Node, index: Indices, mask: Any) -> ExprValue | None:
        """Reads an element in memory, or returns None."""
        return memory_reader(self.of.buffers, self.of.group.members)(node, index, mask)

    # ---- blocks of the summed axes
    def depth_block(self, number: Index) -> tuple[Index, Expr]:
        """The first index of a block of summed elements, in steps of their first label, and the
        count."""
        first = number * self.of.depth_step
        return first, clipped_count(first, self.of.depth_step,
                                    self.roles.size[self.roles.summed[0]])

    def elements_of(self, end: Expr) -> Expr:
        """The number of summed elements in `end` steps of their first label."""
        rest = self.roles.count(self.roles.summed[1:])
        number = number_of(end)
        return times(end, rest) if number is None else const(number * rest)

    def padded(self, elements: Expr) -> Expr:
        """A number of summed elements, with the zeros that follow them in packed lines."""
        unit = self.of.depth_unit
        number = number_of(elements)
        if number is not None or unit == 1:
            return elements if number is None else const(self.of.padded(number))
        above = loop_ir.call("add", (elements, const(unit - 1)), loop_ir.INT)
        return times(loop_ir.call("idiv", (above, const(unit)), loop_ir.INT), unit)

    def column_base(self, number: Index) -> Index:
        """The index of the task's block of columns among the packed ones, for block `number` of the
        depth."""
        of = self.of
        if not of.prepacks_columns:
            return as_index(0)
        labels = of.batch_labels_of(1 - self.roles.row_operand)
        batch = self.position(labels, self.batch_index) if labels else as_index(0)
        return (
            (batch * of.column_blocks + self.block) * of.depth_blocks + number
        ) * of.column_block_size

    # ---- panels of the block's columns
    def full_panels(self) -> Expr:
        """The number of full panels of the block."""
        wide = 2 * self.of.vector
        number = number_of(self.column_stop)
        if number is not None:
            return const(number * self.inner_columns // wide)
        columns = times(self.column_stop, self.inner_columns)
        return loop_ir.call("idiv", (columns, const(wide)), loop_ir.INT)

    def last_panel(self) -> Index:
        """The number of the partial panel in the last block."""
        of = self.of
        if of.dynamic_columns:
            return atom(self.full_panels(), (0, of.columns_per_block // (2 * of.vector)))
        before = (of.column_blocks - 1) * of.column_step
        return as_index((of.columns - before * self.inner_columns) // (2 * of.vector))

    def rest_columns(self) -> tuple[int, Expr] | None:
        """(upper bound, count) of the columns of the partial panel, or None if there is none."""
        panel_width = 2 * self.of.vector
        if not self.of.dynamic_columns:
            rest = self.of.columns % panel_width
            return (rest, const(rest)) if rest else None
        columns = times(self.column_stop, self.inner_columns)
        return panel_width, loop_ir.call("imod", (columns, const(panel_width)), loop_ir.INT)

    def in_last_block(self, body: list[Stmt]) -> list[Stmt]:
        """The statements, run by the last block of columns only."""
        if self.of.dynamic_columns or self.of.column_blocks == 1:
            return body  # there is only one block, or the count of other blocks is 0
        last = loop_ir.call("eq", (self.block.expr(), const(self.of.column_blocks - 1)),
                            loop_ir.BOOL)
        return if_true(last, body)


def if_true(condition: Expr, body: Sequence[Stmt]) -> list[Stmt]:
    """The statements, run where a condition holds."""
    return list(body) if isinstance(condition, loop_ir.Const) else [If(condition, tuple(body))]


def clipped_count(first: Index, step: Size, size: Size) -> Expr:
    """`step`, or the smaller number of elements from `first` to `size`."""
    if is_at_least(size, first.range()[1] + step):
        return const(step)
    return loop_ir.call("minimum", (const(step), (size - first).expr()), loop_ir.INT)


def times(e: Expr, factor: Size) -> Expr:
    """The product of an expression and a size."""
    return loop_ir.call("mul", (e, const(factor)), loop_ir.INT) if factor not in (0, 1) else e


def decode(position: Index, labels: list[str], size: dict[str, int]) -> dict[str, Index]:
    """A position as the indices of several labels, the last counting fastest."""
    indices: dict[str, Index] = {}
    for n, label in enumerate(reversed(labels)):
        last = n == len(labels) - 1
        indices[label] = position if last else position % size[label]
        position = position if last else position // size[label]
    return indices
