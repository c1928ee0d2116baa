"""The nodes and captured tensors that all runs of an exported function share."""

from __future__ import annotations

from typing import Any, NamedTuple

from ...eager.arrays.shapes import TensorType
from ..control_flow.builtin_patching import PatchedModules
from ..control_flow.merge_table import MergeTable
from ..control_flow.unrolled_loops import UnrolledLoops
from ..graph.graph import Node
from ..heap.access_path import Path
from ..scalars.scalar_expr import ScalarExpr
from .value_table import ValueTable


class CapturedTensor(NamedTuple):
    """A tensor that the function reads beside its inputs: its array and its access path."""

    array: Any
    path: Path | None


class SharedValues(ValueTable):
    """The nodes and captured tensors that all runs of one function share."""

    def __init__(self) -> None:
        super().__init__()
        self.outside: dict[Node, CapturedTensor] = {}
        self.merges = MergeTable()
        self.modules = PatchedModules()
        self.unrolled = UnrolledLoops()
        self._captured_nodes: dict[Any, Node] = {}

    def number(self, formula: ScalarExpr, type: TensorType) -> Node:
        node = self.nodes.input(f"number {self._number(formula)}", type)
        self.numbers[node] = formula
        return node

    def phi(self, key: Any, like: Node) -> Node:
        return self.nodes.input(f"phi {self._number(key)}", like.type)

    def captured_input(self, array: Any, path: Path | None) -> Node:
        """The node of a captured tensor, identified by its path or else by its values."""
        key = path or (array.dtype.str, array.shape, array.tobytes())
        if key not in self._captured_nodes:
            kind = TensorType(array.shape, array.dtype)
            node = self._captured_nodes[key] = self.nodes.input(f"outside {len(self.outside)}",
                                                                kind)
            self.outside[node] = CapturedTensor(array, path)
        return self._captured_nodes[key]
