"""Collects a model's constants: tensors that the function reads, and values folded from them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from ....capture.graph.bind_sizes import sizes_of
from ....capture.graph.graph import Node
from ....capture.graph.reference_interpreter import evaluate_node
from ....capture.sizes.symbolic_dim import Dim
from ....eager.core.op import OPS

_MAX_EXTRA_ELEMENTS = 64  # elements of a folded constant beyond those of its inputs
_FOLDED_KINDS = ("pointwise", "view", "reduce")
_SUFFIXES = {"permute_dims": "T", "reshape": "reshaped", "slice": "part", "concat": "joined"}


class Named(NamedTuple):
    """The value of a constant, and its name in the model; an empty name leaves the choice open."""

    name: str
    array: Any


class Constants:
    """The constants by node. A folded one is evaluated on first access, as many are never read."""

    def __init__(self, nodes: list[Node], tensors: Mapping[Node, Named]) -> None:
        self._values: dict[Node, Named] = dict(tensors)
        self._folded: set[Node] = set()
        for node in nodes:
            if node not in self._values and self._is_foldable(node):
                self._folded.add(node)

    def __contains__(self, node: Node) -> bool:
        return node in self._values or node in self._folded

    def __getitem__(self, node: Node) -> Named:
        if node not in self._values:
            inputs = [self[i] for i in node.inputs]
            names = [*dict.fromkeys(i.name for i in inputs if i.name)]
            suffix = _SUFFIXES.get(node.op, node.op)
            name = f"{names[0]}.{suffix}" if len(names) == 1 else ""
            self._values[node] = Named(name, evaluate_node(node, [i.array for i in inputs]))
        return self._values[node]

    def _is_foldable(self, node: Node) -> bool:
        """True if a node has one value on every run, and is not much larger than its inputs."""
        if node.op == "const":
            return type(node.params["value"]) is not Dim
        if node.op == "input" or OPS[node.op].kind not in _FOLDED_KINDS or not node.inputs:
            return False
        if sizes_of(node) or not all(i in self for i in node.inputs):
            return False
        return bool(node.type.size <= sum(i.type.size for i in node.inputs) + _MAX_EXTRA_ELEMENTS)
