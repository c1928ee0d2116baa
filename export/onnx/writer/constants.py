"""The constants of a model: tensors the function reads, and what follows from them alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from ....capture.graph.bind_sizes import sizes_of
from ....capture.graph.graph import Node
from ....capture.graph.reference_interpreter import evaluate_node
from ....capture.sizes.symbolic_dim import Dim
from ....eager.core.op import OPS

_SMALL = 64  # elements that a computed constant may have beyond those it is made of
_KINDS = ("pointwise", "view", "reduce")
_WORDS = {"permute_dims": "T", "reshape": "reshaped", "slice": "part", "concat": "joined"}


class Named(NamedTuple):
    """The values of a constant, and its name in the model (empty: any)."""

    name: str
    array: Any


class Constants:
    """Constants by node. A computed one is computed when it is asked for: many never are."""

    def __init__(self, nodes: list[Node], given: Mapping[Node, Named]) -> None:
        self._found: dict[Node, Named] = dict(given)
        self._computed: set[Node] = set()
        for node in nodes:
            if node not in self._found and self._follows(node):
                self._computed.add(node)

    def __contains__(self, node: Node) -> bool:
        return node in self._found or node in self._computed

    def __getitem__(self, node: Node) -> Named:
        if node not in self._found:
            inputs = [self[i] for i in node.inputs]
            names = [*dict.fromkeys(i.name for i in inputs if i.name)]
            word = _WORDS.get(node.op, node.op)
            name = f"{names[0]}.{word}" if len(names) == 1 else ""
            self._found[node] = Named(name, evaluate_node(node, [i.array for i in inputs]))
        return self._found[node]

    def _follows(self, node: Node) -> bool:
        """Whether a node has one value on every run, not much larger than its inputs."""
        if node.op == "const":
            return type(node.params["value"]) is not Dim
        if node.op == "input" or OPS[node.op].kind not in _KINDS or not node.inputs:
            return False
        if sizes_of(node) or not all(i in self for i in node.inputs):
            return False
        return bool(node.type.size <= sum(i.type.size for i in node.inputs) + _SMALL)
