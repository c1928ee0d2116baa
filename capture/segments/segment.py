"""Defines segments: each is a graph of a traced program that is compiled and run as a whole.

A segment computes the values that the next branch or exit needs, from the inputs of the call and
from values of earlier segments.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, Protocol

import numpy as np

from ...eager.core.op import OPS
from ...eager.settings import settings
from ..graph.bind_sizes import plain_sizes, sizes_of
from ..graph.device_placement import devices_of
from ..graph.graph import Graph, Node, Nodes
from ..guards.gather_paths import compile_gather
from ..guards.guards import PathCodegen
from ..heap.access_path import Path
from ..runtime.compile_queue import Meanwhile, code_of, making_code, ready
from ..runtime.metrics import Memory
from ..scalars.scalar_expr import Origins, compute
from ..sizes.symbolic_dim import Dim
from ..trace.value_table import ValueTable

Registers = dict[Node, Any]  # arrays that earlier segments of a call have computed


class Executable(Protocol):
    """A compiled graph."""

    def __call__(self, arrays: list[Any]) -> list[Any]:
        """The graph's outputs for these inputs."""

    def rows(self) -> list[dict[str, Any]]:
        """A row per kernel with name, line, seconds, bytes and flops."""

    def listings(self) -> list[dict[str, Any]]:
        """The programs as plain data: kernels with facts and times, memory, code."""

    def explain(self) -> str:
        """A description of the kernels."""

    @property
    def memory(self) -> Memory:
        """The memory that a call needs."""

    @property
    def code(self) -> str:
        """The generated code."""

    @property
    def assembly(self) -> str:
        """The machine code as text."""


Backend = Callable[[Graph], Executable]


class Inputs(NamedTuple):
    """The inputs of a segment's graph: tensors of the call, then numbers, then registers."""

    tensors: list[Node]
    numbers: list[Node]
    registers: list[Node]


def cone(roots: Sequence[Node], available: Collection[Node] = ()) -> list[Node]:
    """The nodes that `roots` depend on, in topological order; the search stops at `available`."""
    seen: dict[Node, None] = {}
    stack = [(root, False) for root in reversed(list(roots))]
    while stack:
        node, ready = stack.pop()
        if node in seen:
            continue
        if ready or node in available:
            seen[node] = None
        else:
            stack.append((node, True))
            stack.extend((i, False) for i in reversed(node.inputs))
    return list(seen)


class Segment:
    """A graph of a program and the sources of its inputs. It is compiled when it first runs."""

    def __init__(self, names: ValueTable, fn: Any, outputs: Sequence[Node], inputs: Inputs,
                 graph: Graph, backend: Backend) -> None:
        self.names, self.outputs, self.backend = names, list(outputs), backend
        self.inputs, self.graph = inputs, graph
        self.gather = compile_gather(self.paths, (), PathCodegen(fn, names.held))
        self.program: Executable | None = None  # or a stand-in until the graph is compiled

    @property
    def executable(self) -> Executable | None:
        """The compiled graph; None while there is none."""
        return code_of(self.program)

    @property
    def is_awaited(self) -> bool:
        """True while another thread compiles the graph."""
        return isinstance(self.program, Meanwhile) and self.program.job.is_awaited

    @functools.cached_property
    def is_ordered(self) -> bool:
        """True if an op of the graph is ordered."""
        return any(n.op in OPS and OPS[n.op].ordered for n in self.graph.nodes())

    @property
    def paths(self) -> list[Path]:
        """The access paths of the tensors that the segment reads."""
        return [self.names.paths[n] for n in self.inputs.tensors]

    def note_changes(self, changed: Collection[Path], donated: Mapping[int, int]) -> None:
        """Sets the donations, and marks tensors at `changed` paths as not persistent."""
        persistent = frozenset(i for i in self.graph.persistent if self.paths[i] not in changed)
        self.graph = replace(self.graph, donated=donated, persistent=persistent)

    def compile(self) -> Executable:
        """The compiled graph, or an op-by-op executable while another thread compiles it."""
        program = self.program
        if program is None:
            with making_code():
                program = self.backend(self.graph)
        self.program = ready(program)
        return self.program

    def run(self, tensors: list[Any], registers: Registers, origins: Origins) -> list[Any]:
        """The output arrays for these tensors, which are those at `paths`."""
        return self.compile()(self.operands(tensors, registers, origins))

    def operands(self, tensors: list[Any], registers: Registers, origins: Origins) -> list[Any]:
        """The input arrays of the graph for these tensors."""
        arrays = [t._data for t in tensors]
        if not all(map(_has_type, arrays, self.inputs.tensors)):
            raise ValueError("the type of an input tensor depends on the path that a call takes")
        tensors.clear()  # donated arrays must have no other reference
        arrays += [operand(compute(self.names.numbers[n], origins), n)
                   for n in self.inputs.numbers]
        return arrays + [registers[n] for n in self.inputs.registers]


def segment_of(names: ValueTable, fn: Any, targets: Sequence[Node], available: Collection[Node],
               size_inputs: Sequence[Node], backend: Backend) -> Segment:
    """The segment that computes `targets` from `available`; see find_size_inputs."""
    nodes = cone([*targets, *size_inputs], available)
    sources = [n for n in nodes if n.op == "input" or n in available]
    inputs = Inputs([n for n in sources if n in names.paths and n not in available],
                    [n for n in sources if n in names.numbers and n not in available],
                    [n for n in sources if n in available])
    graph = extract_graph(nodes, targets, [n for kind in inputs for n in kind])
    persistent = frozenset(i for i, n in enumerate(inputs.tensors)
                           if settings.prepack and not names.paths[n].is_argument)
    return Segment(names, fn, targets, inputs, replace(graph, persistent=persistent), backend)


def _has_type(array: Any, node: Node) -> bool:
    """True if an array has a node's type; symbolic sizes match any number."""
    expected, shape = node.type, array.shape
    return bool(array.dtype == expected.dtype) and len(shape) == len(expected.shape) \
        and all([type(n) is Dim or m == n for m, n in zip(shape, expected.shape)])


def find_size_inputs(names: ValueTable, targets: Sequence[Node], available: Collection[Node],
                     sources: Iterable[Node]) -> list[Node]:
    """The further inputs whose shapes determine the symbolic sizes of a graph.

    They are chosen from `sources`, the inputs that traces of this program read. In other programs
    of the function, the same names may mean other axes of inputs at the same paths.
    """
    nodes = cone(targets, available)
    needed = {size for n in nodes for size in sizes_of(n)}
    determined = {size for n in nodes if n.op == "input" or n in available
                  for size in plain_sizes(n)}
    chosen = []
    for node in (*sources, *(n for n in names.data_dependent if n in available)):
        if (needed - determined) & plain_sizes(node):
            determined |= plain_sizes(node)
            chosen.append(node)
    return chosen


def operand(value: Any, node: Node) -> Any:
    """A number as an array of the dtype it adapts to. Raises OverflowError if it does not fit."""
    with np.errstate(over="ignore"):
        return np.asarray(node.type.dtype.type(value))


def extract_graph(nodes: Sequence[Node], outputs: Sequence[Node], inputs: Sequence[Node]) -> Graph:
    """The graph from `inputs`, which become graph inputs, to `outputs`, over `nodes`."""
    factory = Nodes()
    new = {n: factory.input(n.params["name"] if n.op == "input" else f"r{i}", n.type, device)
           for i, (n, device) in enumerate(zip(inputs, devices_of(inputs)))}
    for n in nodes:
        if n not in new:
            new[n] = factory.make(n.op, [new[i] for i in n.inputs], n.params, n.type, n.site)
    return Graph(tuple(new[n] for n in inputs), tuple(new[n] for n in outputs))
