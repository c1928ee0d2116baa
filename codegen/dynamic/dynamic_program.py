"""Compiles one native program for all sizes of some axes, up to a capacity that grows on demand.

The graph is lowered once, with symbols for its sizes (`ir/sizes.py`). The sizes are an argument of
the program (`size_arguments.py`). A graph whose lowering depends on the order of two sizes that can
have either order is refused, with the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from ...capture.graph.bind_sizes import dims_in
from ...capture.graph.graph import Graph, Node, Nodes, rebuild
from ...capture.runtime.metrics import Memory
from ...capture.sizes.size_expr import SizeExpr
from ...capture.sizes.symbolic_dim import size_expr_of
from ...eager.arrays.shapes import TensorType
from ...eager.errors import CodegenError, GraphError, ShapeError
from ..fusion.launch import Launch
from ..ir.sizes import Size, bounded_size, rebound
from ..program.executable import Executable, ExecutableInput, Plan
from .size_arguments import MAX_DYNAMIC_SIZES, SIZES, with_size_arguments

_SIZE_ERRORS = (GraphError, ShapeError, OverflowError)  # what graphs raise at wrong sizes
_MIN_CAPACITY = 64  # the capacity of a program at first

Sizes = Mapping[str, int]
Shape = tuple[SizeExpr, ...]
Lower = Callable[[Graph], "tuple[Plan, list[Launch]]"]
Assemble = Callable[[Plan, "list[Launch]"], Any]


@dataclass(frozen=True, eq=False)
class DynamicProgram:
    """A program for all sizes up to `capacity`."""

    capacity: Sizes
    equal_to: Mapping[str,
                      str]  # the name of the size that another one must be equal to, or its own
    program: Any
    results: list[Shape]
    shapes: list[Shape]

    def maker(self, shape: tuple[int, ...], dtype: Any) -> Callable[[], Any]:
        """A function that allocates a result."""
        make: Callable[[], Any] = self.program.maker(shape, dtype)
        return make

    def has_room(self, sizes: Sizes) -> bool:
        """True if the sizes are within the capacity."""
        return all(n <= self.capacity[name] and n == sizes[self.equal_to[name]]
                   for name, n in sizes.items())

    def sizes_argument(self, sizes: Sizes) -> Any:
        """The array in which the program finds its sizes."""
        return np.resize([sizes[name] for name in dict.fromkeys(self.equal_to.values())],
                         MAX_DYNAMIC_SIZES)

    def bind(self, sizes: Sizes) -> BoundProgram:
        """The program bound to one set of sizes."""
        interface = self.program.interface
        makers = [self.maker(shape_at(shape, sizes), of.dtype)
                  for shape, of in zip(self.results, interface.results)]
        bound = ExecutableInput(self.sizes_argument(sizes), makers,
                                tuple([shape_at(shape, sizes) for shape in self.shapes]),
                                [(i, check.at(sizes)) for i, check in interface.input_checks],
                                [check.at(sizes) for check in interface.output_checks])
        return BoundProgram(self.program, bound)


def shape_at(shape: Sequence[Any], sizes: Sizes) -> tuple[int, ...]:
    """A shape of sizes and size expressions, with numbers."""
    return tuple([n.value(sizes) if isinstance(n, SizeExpr) else n for n in shape])


class BoundProgram(NamedTuple):
    """A dynamic-shape program bound to one set of sizes."""

    program: Executable
    bound: ExecutableInput

    def __call__(self, arrays: list[Any]) -> list[Any]:
        """The outputs for these inputs."""
        return self.program(arrays, self.bound)

    def rows(self) -> list[dict[str, Any]]:
        """A row per kernel, timed at the program's capacity."""
        return self.program.rows()

    def listings(self) -> list[dict[str, Any]]:
        """The program as plain data, timed at its capacity."""
        return self.program.listings()

    def explain(self) -> str:
        """The kernels as a table."""
        return self.program.explain()

    @property
    def memory(self) -> Memory:
        """The peak memory of a call, at the program's capacity."""
        return self.program.memory

    @property
    def code(self) -> str:
        """The LLVM IR of the program."""
        return self.program.code

    @property
    def assembly(self) -> str:
        """The machine code of the program as text."""
        return self.program.assembly


def compile_any_size(graph: Graph, least: Sizes, lower: Lower,
                     assemble: Assemble) -> DynamicProgram:
    """A program for all sizes of a graph up to at least `least`, as assemble(plan, launches) makes
    it. lower(graph) lowers a graph whose sizes have bounds. Raises CodegenError with the reason if
    there is none."""
    if len(least) > MAX_DYNAMIC_SIZES:
        raise CodegenError(f"more than {MAX_DYNAMIC_SIZES} sizes are dynamic")
    try:
        return _compile_with_equal_sizes(graph, least, {name: name for name in least}, lower,
                                         assemble)
    except _SIZE_ERRORS:  # some have to be equal, and those are now
        first = {n: name for name, n in reversed([*least.items()])}
        equal_to = {name: first[n] for name, n in least.items()}
    try:
        return _compile_with_equal_sizes(graph, least, equal_to, lower, assemble)
    except _SIZE_ERRORS as error:
        raise CodegenError(f"the graph cannot be lowered for all sizes: {error}") from error


def _compile_with_equal_sizes(graph: Graph, least: Sizes, equal_to: Mapping[str, str], lower: Lower,
                              assemble: Assemble) -> DynamicProgram:
    """The program if each size equals the size that `equal_to` names."""
    names = [*dict.fromkeys(equal_to.values())]
    capacity = {name: max(least[name], _MIN_CAPACITY) for name in names}
    lowest = _least_values(graph)
    sizes = {name: bounded_size(name, lowest.get(name, 1), capacity[name]) for name in names}
    plan, launches = lower(_with_sizes(graph, {name: sizes[equal_to[name]] for name in least}))
    results = [_exprs(n.type.shape) for n in plan.results]
    shapes = [_exprs(shape) for shape in plan.shapes[:plan.output_count]]
    program = assemble(_with_size_argument(plan, [*capacity.values()]),
                       with_size_arguments(launches, names))
    return DynamicProgram({name: capacity[equal_to[name]] for name in least}, equal_to, program,
                          results, shapes)


def _least_values(graph: Graph) -> dict[str, int]:
    """The least value of each named size of a graph."""
    return {s.name: s.least for node in (*graph.inputs, *graph.nodes())
            for dim in dims_in((node.type.shape, *node.params.values()))
            for s in dim.expr.named()}


def _with_sizes(graph: Graph, sizes: Mapping[str, Size]) -> Graph:
    """The graph with these bounded sizes for its named ones. Raises ShapeError where sizes have to
    be equal and are not."""
    def visit(nodes: Nodes, node: Node, inputs: tuple[Node, ...]) -> Node:
        kind = TensorType(rebound(node.type.shape, sizes), node.type.dtype)
        params = {name: rebound(value, sizes) for name, value in node.params.items()}
        return nodes.make(node.op, inputs, params, kind, node.site)

    return rebuild(graph, visit)


def _exprs(shape: Sequence[Size]) -> Shape:
    return tuple(map(size_expr_of, shape))


def _with_size_argument(plan: Plan, capacity: Sequence[int]) -> Plan:
    """The plan at its capacity, with the sizes as one more input."""
    sizes = Node("input", (), {"name": "sizes"}, TensorType((MAX_DYNAMIC_SIZES,), SIZES.dtype))
    graph = replace(plan.graph, inputs=(*plan.graph.inputs, sizes))
    inputs = [plan.buffers[n] for n in plan.graph.inputs]
    arguments = dict.fromkeys((*inputs, SIZES, *plan.arguments))
    return replace(plan, graph=graph, buffers={**plan.buffers, sizes: SIZES}, sizes=tuple(capacity),
                   arguments={b: i for i, b in enumerate(arguments)})
