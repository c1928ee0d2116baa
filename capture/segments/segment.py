"""A part of a program: the graph of what is wanted next, beyond what is known already."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, Protocol

import numpy as np

from ..graph.bind_sizes import plain_sizes, sizes_of
from ..graph.device_placement import devices_of
from ..graph.graph import Graph, Node, Nodes
from ..guards.gather import compile_gather
from ..guards.guards import PathCodegen
from ..heap.access_path import Path
from ..runtime.compile_queue import Meanwhile, code_of, making_code, ready
from ..runtime.metrics import Memory
from ..scalars.scalar_expr import Origins, compute
from ..sizes.symbolic_dim import Dim
from ..trace.value_table import ValueTable

Registers = dict[Node, Any]  # arrays that earlier stages of a call have computed


class Executable(Protocol):
    """What a backend makes of a graph."""

    def __call__(self, arrays: list[Any]) -> list[Any]:
        """The graph's outputs for these inputs."""

    def rows(self) -> list[dict[str, Any]]:
        """A row per kernel: name, line, seconds, bytes, flops."""

    def explain(self) -> str:
        """The kernels in words."""

    @property
    def memory(self) -> Memory:
        """What a call of it takes."""

    @property
    def code(self) -> str:
        """The generated code."""

    @property
    def assembly(self) -> str:
        """The machine code as text."""


Backend = Callable[[Graph], Executable]


class Inputs(NamedTuple):
    """The inputs of a cut graph, in order: tensors from outside, numbers, values of registers."""

    tensors: list[Node]
    numbers: list[Node]
    registers: list[Node]


def cone(wanted: Sequence[Node], known: Collection[Node] = ()) -> list[Node]:
    """What must be computed or read for `wanted`, inputs before users; `known` ends the search."""
    seen: dict[Node, None] = {}
    stack = [(root, False) for root in reversed(list(wanted))]
    while stack:
        node, ready = stack.pop()
        if node in seen:
            continue
        if ready or node in known:
            seen[node] = None
        else:
            stack.append((node, True))
            stack.extend((i, False) for i in reversed(node.inputs))
    return list(seen)


class Segment:
    """One graph of a program and how its inputs are found. Its code is made when it first runs."""

    def __init__(self, names: ValueTable, fn: Any, wanted: Sequence[Node], inputs: Inputs,
                 graph: Graph,
                 backend: Backend) -> None:
        self.names, self.wanted, self.backend = names, list(wanted), backend
        self.inputs, self.graph = inputs, graph
        self.gather = compile_gather(self.paths, (), PathCodegen(fn, names.held))
        self.program: Executable | None = None  # what runs it

    @property
    def executable(self) -> Executable | None:
        """Its code, once it is there."""
        return code_of(self.program)

    @property
    def is_awaited(self) -> bool:
        """Whether another thread is to make its code."""
        return isinstance(self.program, Meanwhile) and self.program.job.is_awaited

    @property
    def paths(self) -> list[Path]:
        """Where the tensors are that it reads."""
        return [self.names.paths[n] for n in self.inputs.tensors]

    def change(self, changed: Collection[Path], donated: Mapping[int, int]) -> None:
        """Notes which tensors each call changes, and allows outputs to take inputs' memory."""
        kept = frozenset(i for i in self.graph.kept if self.paths[i] not in changed)
        self.graph = replace(self.graph, donated=donated, kept=kept)

    def compile(self) -> Executable:
        """What runs it: its code, made once; until another thread has made that, its ops."""
        program = self.program
        if program is None:
            with making_code():
                program = self.backend(self.graph)
        self.program = ready(program)
        return self.program

    def run(self, tensors: list[Any], registers: Registers, origins: Origins) -> list[Any]:
        """The arrays of what is wanted, for these tensors at `paths`."""
        arrays = [t._data for t in tensors]
        if not all(map(_is_of, arrays, self.inputs.tensors)):
            raise ValueError("a tensor is read whose type depends on the path that a call takes")
        tensors.clear()  # what nobody else holds may be written over
        arrays += [operand(compute(self.names.numbers[n], origins), n)
                   for n in self.inputs.numbers]
        arrays += [registers[n] for n in self.inputs.registers]
        return self.compile()(arrays)


def segment_of(names: ValueTable, fn: Any, wanted: Sequence[Node], known: Collection[Node],
               tellers: Sequence[Node], backend: Backend) -> Segment:
    """The stage that computes what is wanted from what is `known`; see `tellers`."""
    nodes = cone([*wanted, *tellers], known)
    found = [n for n in nodes if n.op == "input" or n in known]
    inputs = Inputs([n for n in found if n in names.paths and n not in known],
                    [n for n in found if n in names.numbers and n not in known],
                    [n for n in found if n in known])
    graph = cut(nodes, wanted, [n for kind in inputs for n in kind])
    kept = frozenset(i for i, n in enumerate(inputs.tensors) if not names.paths[n].is_given)
    return Segment(names, fn, wanted, inputs, replace(graph, kept=kept), backend)


def _is_of(array: Any, node: Node) -> bool:
    """Whether an array is of a node's type, as far as that is known."""
    shape = node.type.shape
    return array.dtype == node.type.dtype and (array.shape == shape or (
        len(array.shape) == len(shape)
        and all(type(n) is Dim or m == n for m, n in zip(array.shape, shape))))


def tellers(names: ValueTable, wanted: Sequence[Node], known: Collection[Node],
            sources: Iterable[Node]) -> list[Node]:
    """The inputs from whose shapes the symbolic sizes of a graph are told, beside its own.

    Only `sources` qualify, the inputs that runs of this program read. Other programs of the
    function have inputs at the same paths in which the same names mean other axes.
    """
    nodes = cone(wanted, known)
    asked = {size for n in nodes for size in sizes_of(n)}
    told = {size for n in nodes if n.op == "input" or n in known for size in plain_sizes(n)}
    found = []
    for node in (*sources, *(n for n in names.measures if n in known)):
        if (asked - told) & plain_sizes(node):
            told |= plain_sizes(node)
            found.append(node)
    return found


def operand(value: Any, node: Node) -> Any:
    """A number as the dtype it adapts to; OverflowError where that cannot hold it."""
    with np.errstate(over="ignore"):
        return np.asarray(node.type.dtype.type(value))


def cut(nodes: Sequence[Node], wanted: Sequence[Node], inputs: Sequence[Node]) -> Graph:
    """The graph of `nodes` in which `inputs`, whatever computes them elsewhere, are given."""
    made = Nodes()
    new = {n: made.input(n.params["name"] if n.op == "input" else f"r{i}", n.type, device)
           for i, (n, device) in enumerate(zip(inputs, devices_of(inputs)))}
    for n in nodes:
        if n not in new:
            new[n] = made.make(n.op, [new[i] for i in n.inputs], n.params, n.type, n.site)
    return Graph(tuple(new[n] for n in inputs), tuple(new[n] for n in wanted))
