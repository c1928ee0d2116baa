"""Defines a recorded function: its control-flow tree with segments, its inputs and weights."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from ...capture.cfg.ir import Block, Branch, Exit, walk
from ...capture.cfg.segment_planner import SegmentPlanner
from ...capture.graph.device_placement import without_transfers
from ...capture.graph.graph import Graph, Node
from ...capture.heap.access_path import Path
from ...capture.replay.path_enumeration import Explored
from ...capture.segments.segment import Segment
from ...eager.arrays.devices import host
from ...eager.arrays.shapes import TensorType
from ...eager.errors import ExportError


class NamedType(NamedTuple):
    """An input or output: its name and its type, with symbolic sizes."""

    name: str
    type: TensorType


@dataclass(frozen=True)
class Recording:
    """A recording of a function.

    `inputs`: the nodes of the inputs; the last ones are the states of random generators, which have
    the names `states`
    `outputs`: the results; each exit computes them, and then the new states
    `weights`: the arrays that the function reads beside its inputs
    `ranges`: the least and the largest value of each dynamic size
    `specialized`: the sets of sizes that get a program of their own
    """

    root: Block
    inputs: Sequence[Node]
    states: Sequence[str]
    outputs: Sequence[NamedType]
    weights: Mapping[Node, Any]
    names: Any
    ranges: Mapping[str, tuple[int, int]]
    specialized: Sequence[Mapping[str, int]]

    @property
    def named_inputs(self) -> list[NamedType]:
        """The inputs with their names."""
        own = self.inputs[:len(self.inputs) - len(self.states)]
        names = [*(node.params["name"] for node in own), *self.states]
        return [NamedType(name, node.type) for name, node in zip(names, self.inputs)]

    @property
    def state_nodes(self) -> Sequence[Node]:
        """The nodes of the states."""
        return self.inputs[len(self.inputs) - len(self.states):]

    def graph_of(self, segment: Segment) -> tuple[Graph, list[Any]]:
        """The graph of a segment with its weights as last inputs, and their arrays."""
        sources = [n for kind in segment.inputs for n in kind]
        graph = segment.graph
        weights = [(n, i) for n, i in zip(sources, graph.inputs) if n in self.weights]
        others = [i for n, i in zip(sources, graph.inputs) if n not in self.weights]
        inputs = (*others, *(i for _, i in weights))
        persistent = frozenset(range(len(others), len(inputs)))
        return without_transfers(replace(graph, inputs=inputs, persistent=persistent)), \
            [host(self.weights[n]) for n, _ in weights]


def plan_segments(fn: Callable[..., Any], paths: Explored, inputs: Sequence[Node],
                  results: Mapping[Exit, Sequence[Node]]) -> None:
    """Sets the segments of the blocks and exits of the tree of `fn`."""
    names = paths.names
    # The planner takes nodes with an access path for tensors that come from outside.
    for i, node in enumerate(dict.fromkeys((*inputs, *names.outside))):
        names.paths[node] = Path("args").item(i)
    for end, nodes in results.items():
        end.exits[0].outputs = list(nodes)
    SegmentPlanner(names, fn, _compiled_later).plan(paths.root)


def _compiled_later(graph: Graph) -> Any:
    raise AssertionError("segments of a library are compiled for each set of sizes")


def decision_notes(root: Block) -> list[str]:
    """A note for the report that names the lines of the decisions, if there are any."""
    lines = [block.site for block in walk(root) if isinstance(block, Branch)]
    return [f"values of tensors decide at {', '.join(dict.fromkeys(reversed(lines)))}"] \
        if lines else []


def check_equal_types(root: Block, results: Mapping[Exit, Sequence[Node]], count: int) -> None:
    """Raises ExportError, with the line of the decision, if paths have results of other types."""
    first = next(iter(results.values()))
    for end, nodes in results.items():
        for a, b in zip(first[:count], nodes[:count]):
            if a.type != b.type:
                error = ExportError(f"aot.build: the function returns {a.type} on one path and "
                                    f"{b.type} on another", "return the same shape and dtype on "
                                    "all paths")
                error.line = _last_decision(root, end)
                raise error


def _last_decision(root: Block, end: Exit) -> str:
    """The line of the last decision before an exit."""
    lines = [at.site for at in walk(root) if isinstance(at, Branch) and end in walk(at)]
    return lines[-1] if lines else ""
