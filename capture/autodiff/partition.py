"""Partitions a function on nodes, with its tape, into a forward and backward programs.

Backward over the tape gives gradients as nodes of the same graph. The forward values that they read
are saved, that is, they become further outputs of the forward; or they are recomputed (see
partitioner.py). Gradients of all results decide once which values are saved. Each further set of
results that receives gradients has a backward graph of its own, from the same saved values.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple

from ...eager.arrays.shapes import TensorType
from ...eager.autograd.engine import gradients_between
from ...eager.core.dispatch import taped
from ...eager.core.op import Op
from ...eager.core.tape import Leaf, set_grad_enabled
from ...eager.core.tensor import Tensor
from ..graph.device_placement import devices_of
from ..graph.graph import Graph, Node, Nodes, topological
from ..graph.graph_builder import GraphBuilder, as_tensor, building
from ..segments.segment import cone, extract_graph
from ..sizes.symbolic_dim import ShapeEnv
from .partitioner import decomposed, saved_values


class TapeBuilder(GraphBuilder):
    """A graph builder that also records a tape, so that vjp rules can differentiate again."""

    def __init__(self, nodes: Nodes, sizes: ShapeEnv) -> None:
        super().__init__(nodes)
        self.sizes = sizes

    def apply(self, op: Op, inputs: tuple[Any, ...], params: dict[str, Any]) -> Tensor:
        with self.sizes.recording(False):  # nodes compare by symbolic sizes, without new conditions
            operands, params = self.in_order(op, inputs, params)
        kind = op.result(*[n.type for n in operands], **params)
        with self.sizes.recording(False):
            out = self.noted(op, self.nodes.make(op.name, operands, params, kind, self.site))
        return taped(op, inputs, params, out)


class Result(NamedTuple):
    """A value that receives a gradient: a tensor with its edge on the tape, and its node."""

    tensor: Tensor
    node: Node


class TapeSection(NamedTuple):
    """A part of a tape: the numbers of the results where its backward usually starts, and the edges
    where it ends. An end may be None."""

    results: Sequence[int]
    ends: Sequence[Any]


class Gradients(NamedTuple):
    """Gradients as nodes: the numbers of the ends that have one, the gradients, followed by the
    last ordered op if there is one, and the input nodes of the gradients from which they are
    computed."""

    ends: list[int]
    nodes: list[Node]
    incoming: list[Node]


class BackwardGraph(NamedTuple):
    """A backward: a graph from values that are at hand, at these positions, and the gradients of
    results, to the gradients of ends with these numbers."""

    graph: Graph
    reads: list[int]
    ends: list[int]


class Partition:
    """What a forward computes and saves, and the backward graphs that read it."""

    def __init__(self, nodes: Nodes, sizes: ShapeEnv, outputs: Sequence[Node],
                 results: Sequence[Result], sections: Sequence[TapeSection],
                 live_in: Sequence[Node] = (), checkpointed: Mapping[Node, Any] | None = None
                 ) -> None:
        """outputs: what the forward computes in any case. results: the values that may receive
        gradients. live_in: computed values that both sides read. checkpointed: values inside of
        checkpoints, by their checkpoint. Questions about sizes become conditions of the trace."""
        self._nodes, self._sizes, self._results = nodes, sizes, results
        self._decomposed: dict[Node, Node] = {n: n for n in live_in}
        self._sections = sections
        self._first = [self._gradients(section, None, True) for section in sections]
        self.outputs = decomposed(nodes, outputs, self._decomposed)
        inner = decomposed(nodes, list(checkpointed or ()), self._decomposed)
        demanded = _read_in_backward([g for first in self._first for g in first.nodes],
                                     {g for first in self._first for g in first.incoming})
        values = saved_values(demanded, set(self.outputs),
                              dict(zip(inner, (checkpointed or {}).values())))
        self.saved: list[Node] = list(dict.fromkeys([*live_in, *values]))

    def _gradients(self, section: TapeSection, needed: Collection[int] | None,
                   adds_conditions: bool) -> Gradients:
        ends, results = section.ends, [self._results[i] for i in section.results]
        devices = devices_of([r.node for r in results])
        incoming = [self._nodes.input(f"g{i}", r.node.type, device)
                    for i, r, device in zip(section.results, results, devices)]
        numbers = [i for i, end in enumerate(ends) if end is not None]
        builder = TapeBuilder(self._nodes, self._sizes)
        builder.after = incoming[:1]  # no ordered op of the backward moves into the forward
        with building(builder), self._sizes.recording(adds_conditions):
            gradients = gradients_between(
                [r.tensor for r in results], list(map(as_tensor, incoming)),
                [ends[i] for i in numbers], False)
        found = [(i, g._data.node) for i, g in zip(numbers, gradients)
                 if g is not None and (needed is None or i in needed)]
        return Gradients([i for i, _ in found], decomposed(
            self._nodes, [*(node for _, node in found), *builder.ordered[-1:]], self._decomposed),
            incoming)

    def forward(self, inputs: Sequence[Node]) -> Graph:
        """The graph from `inputs` to the outputs, followed by the saved values."""
        outputs = [*self.outputs, *self.saved]
        return extract_graph(cone(outputs, inputs), outputs, inputs)

    def backward(self, section: int, numbers: Sequence[int], needed: Collection[int] | None,
                 inputs: Sequence[Node], size_inputs: Sequence[Node] = ()) -> BackwardGraph:
        """The backward from the results with these numbers to the `needed` ends of a section, by
        default to all. At hand are `inputs`, and then the saved values; the graph also has
        `size_inputs`."""
        usual, ends = self._sections[section]
        gradients = self._first[section] if needed is None and [*numbers] == [*usual] else \
            self._gradients(TapeSection(numbers, ends), needed, False)
        position = {n: i for i, n in enumerate([*inputs, *self.saved])}
        nodes = cone([*gradients.nodes, *size_inputs], dict.fromkeys(self.saved))
        reads = [n for n in nodes if n in position]
        graph = extract_graph(nodes, gradients.nodes, [*reads, *gradients.incoming])
        return BackwardGraph(graph, [position[n] for n in reads], gradients.ends)


class ForwardBackward(NamedTuple):
    """A function as a forward graph, to its results and the `saved` values behind them, and as
    `backward(results, inputs)`: the graph from the inputs, the saved values, and the gradients of
    results with these numbers, to the gradients of inputs with these numbers, by default of all."""

    forward: Graph
    saved: list[Node]
    backward: Callable[[Sequence[int], Collection[int] | None], BackwardGraph]


def partition(function: Callable[[Sequence[Tensor]], Sequence[Tensor]],
              types: Sequence[TensorType], needs: Sequence[bool]) -> ForwardBackward:
    """The partition of a function of tensors of these types, some of which `needs` gradients."""
    nodes, sizes = Nodes(), ShapeEnv({})
    inputs = [nodes.input(f"x{i}", t) for i, t in enumerate(types)]
    tensors = list(map(as_tensor, inputs))
    for t, need in zip(tensors, needs):
        t.edge = Leaf(t) if need else None
    with building(TapeBuilder(nodes, sizes)), set_grad_enabled(any(needs)):
        outputs = function(tensors)
    results = [Result(t, t._data.node) for t in outputs]
    section = TapeSection(range(len(results)), [t.edge for t in tensors])
    parts = Partition(nodes, sizes, [r.node for r in results], results,
                      [section] if any(needs) else [])

    def backward(results: Sequence[int], needed: Collection[int] | None) -> BackwardGraph:
        return parts.backward(0, results, needed, inputs)

    return ForwardBackward(parts.forward(inputs), parts.saved, backward)


def _read_in_backward(roots: Sequence[Node], incoming: Collection[Node]) -> list[Node]:
    """The forward values that the gradients read or equal.

    `incoming` are the gradients that the backward starts from.
    """
    backward: set[Node] = set()
    demanded: dict[Node, None] = {}
    for node in topological(roots):
        if node in incoming or any(i in backward for i in node.inputs):
            backward.add(node)
            demanded.update(dict.fromkeys(i for i in node.inputs if i not in backward))
    demanded.update(dict.fromkeys(g for g in roots if g not in backward))
    return [n for n in demanded if n not in backward]
