"""Plants mistakes in compiled programs, so that the code computes one node of a graph wrong.

The node is changed in the graph that is compiled. So the whole program and each part of it are
wrong, while NumPy evaluates the original graph.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import fusewire as fw
from fusewire.capture.graph.graph import SPECIAL, Graph, Node, Nodes, rebuild
from fusewire.capture.graph.graph_builder import build
from fusewire.codegen.compile import compile_graph

FACTORS = {2: 1.5, 4: 1.01, 8: 1.0001}  # by bytes of a float: well above rounding
Spoil = Callable[[Any, np.random.Generator], Any]


def _where(x: Any, chosen: Any, wrong: Any) -> Any:
    return fw.where(fw.asarray(chosen), wrong, x)


def _other(x: Any) -> Any:
    """Values of the magnitude of `x` that differ from it."""
    return fw.logical_not(x) if x.dtype == fw.bool else x + x + 1


def one_element(x: Any, rng: np.random.Generator) -> Any:
    chosen = np.zeros(x.shape, bool)
    chosen.reshape(-1)[rng.integers(chosen.size)] = True
    return _where(x, chosen, _other(x))


def one_column(x: Any, rng: np.random.Generator) -> Any:
    chosen = np.zeros(x.shape, bool)
    chosen[..., rng.integers(x.shape[-1])] = True
    return _where(x, chosen, fw.zeros_like(x))


def tail_of_rows(x: Any, rng: np.random.Generator) -> Any:
    chosen = np.zeros(x.shape, bool)
    chosen[..., rng.integers(x.shape[-1]):] = True
    return _where(x, chosen, _other(x))


def last_lane_dropped(x: Any, rng: np.random.Generator) -> Any:
    chosen = np.zeros(x.shape, bool)
    chosen[..., -1] = True
    return _where(x, chosen, fw.zeros_like(x))


def last_row_dropped(x: Any, rng: np.random.Generator) -> Any:
    chosen = np.zeros(x.shape, bool)
    chosen[-1] = True
    return _where(x, chosen, fw.zeros_like(x))


def wrong_factor(x: Any, rng: np.random.Generator) -> Any:
    return x * FACTORS[x.dtype.itemsize] if x.dtype.kind == "f" else _other(x)


def wrong_sign(x: Any, rng: np.random.Generator) -> Any:
    return fw.logical_not(x) if x.dtype == fw.bool else -x


def next_index(x: Any, rng: np.random.Generator) -> Any:
    return fw.roll(x, 1, axis=int(rng.integers(x.ndim)))


OF_RESULTS: dict[str, Spoil] = {f.__name__: f for f in (
    one_element, one_column, tail_of_rows, last_lane_dropped, last_row_dropped, wrong_factor,
    wrong_sign, next_index)}
MISTAKES = (*OF_RESULTS, "left_out", "operand_shifted")


@dataclass(frozen=True)
class Planted:
    """A backend whose code computes the node `target` with a mistake. `together`: only in code of
    the whole `graph`, like a mistake that depends on the other nodes."""

    graph: Graph
    target: Node
    mistake: str
    seed: int
    together: bool = False

    def __call__(self, part: Graph) -> Any:
        if self.together and part is not self.graph:
            return compile_graph(part)
        return compile_graph(rebuild(part, self._visit))

    def wrong(self) -> Graph:
        """The graph with the mistake."""
        return rebuild(self.graph, self._visit)

    def _visit(self, nodes: Nodes, node: Node, inputs: tuple[Node, ...]) -> Node:
        unchanged = nodes.with_inputs(node, inputs)
        if node is not self.target:
            return unchanged
        rng = np.random.default_rng(self.seed)
        if self.mistake == "left_out":
            return next(i for i in inputs if i.type == node.type)
        if self.mistake == "operand_shifted":
            position = _shifted_operand(node)
            shifted = build(nodes, lambda x: fw.roll(x, 1, axis=-1), (inputs[position],), {}, "")
            return nodes.make(node.op, (*inputs[:position], shifted, *inputs[position + 1:]),
                              node.params,
                              node.type, node.site)
        return build(nodes, lambda x: OF_RESULTS[self.mistake](x, rng), (unchanged,), {}, node.site)


def _shifted_operand(node: Node) -> int:
    """The number of the last operand that can be shifted, or -1."""
    return max((k for k, i in enumerate(node.inputs)
                if i.type.shape and i.type.shape[-1] > 1 and i.op not in SPECIAL), default=-1)


def can_have(node: Node, mistake: str) -> bool:
    """True if a mistake can be planted in a node."""
    if node.op in SPECIAL or not node.type.shape or node.type.size < 2 or \
            node.type.dtype.kind not in "biufV":
        return False
    if mistake == "left_out":
        return node.kind != "view" and any(i.type == node.type for i in node.inputs)
    if mistake == "operand_shifted":
        return node.kind in ("pointwise", "contract") and _shifted_operand(node) >= 0
    return mistake != "wrong_sign" or node.type.dtype.kind != "u"
