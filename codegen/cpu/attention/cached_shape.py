"""Describes attention to the keys of a cache: a table names their rows, positions their number."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ....capture.graph.graph import Node
from ...ir.affine_index import Index, as_index, atom
from ...ir.builder import ExprValue, call, cast
from ...ir.inline import Indices
from ...ir.loop_ir import INT, KernelBuffer
from ...ir.target_info import Machine
from ..scatter_rows import clamped_index
from .shape import AttentionShape


class CachedShape(AttentionShape):
    """The sizes of an attention to a cache without a window. Its keys are columns of the table."""

    def __init__(self, node: Node, buffers: Mapping[Node, KernelBuffer], machine: Machine,
                 name: str) -> None:
        _, self.key_rows, self.value_rows, self.table, self.positions = node.inputs
        super().__init__(node, 0, buffers, machine, name)
        self.operands = node.inputs[:3]
        self.causal = True

    def shapes(self) -> list[tuple[int, ...]]:
        texts, columns = self.table.type.shape
        rows = [(texts, n.type.shape[1], columns, n.type.shape[2])
                for n in (self.key_rows, self.value_rows)]
        return [self.node.inputs[0].type.shape, *rows]

    @property
    def may_see_nothing(self) -> bool:
        return True

    def element(self, node: Node, *index: Any) -> ExprValue:
        """An element of the query; or of a key or a value, in float32, by text, head, position."""
        if node not in (self.key_rows, self.value_rows):
            return super().element(node, *index)
        text, head, position, e = index
        row = clamped_index(super().element(self.table, text, position), node.type.shape[0])
        return cast(super().element(node, row, head, e), np.float32)

    def visible_keys(self, head: Indices, query: Index) -> Index:
        return _bounded(self._end(head, query), self.keys)

    def visible_to_tile(self, head: Indices, first: Index) -> Index:
        end = self._end(head, first)
        for row in range(1, self.rows):
            end = call("maximum", end, self._end(head, first + row))
        return _bounded(end, self.keys)

    def _end(self, head: Indices, query: Index) -> ExprValue:
        """The position behind a query."""
        position = super().element(self.positions, as_index(head[0]), query)
        end: ExprValue = cast(position, INT) + 1
        return end


def _bounded(count: ExprValue, most: int) -> Index:
    bounded = call("minimum", call("maximum", count, 0), most)
    return atom(bounded.expr, (0, most))
