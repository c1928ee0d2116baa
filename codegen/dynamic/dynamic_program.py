"""Compiles one native program for all sizes of some axes, up to a capacity that grows on demand.

The graph is lowered for two samples of sizes, and numbers that differ become formulas of the sizes,
which are an argument of the program (see `prime_unification`). That is correct if every size is a
product of unknown sizes and numbers, and if views read along an axis of dynamic size only the
element at the same index. Other graphs are refused, with the reason.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Set
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from ...capture.graph.bind_sizes import bind_sizes, dims_in
from ...capture.graph.graph import SPECIAL, Graph, Node
from ...capture.graph.reference_interpreter import evaluate_node
from ...capture.runtime.metrics import Memory
from ...capture.sizes.size_expr import SizeSymbol
from ...eager.arrays import memory
from ...eager.arrays.shapes import TensorType
from ...eager.core.op import OPS
from ...eager.errors import CodegenError, GraphError, ShapeError
from ..fusion.launch import Launch
from ..ir import loop_ir
from ..ir.affine_index import as_index, atom, collect_comparisons, variable
from ..ir.builder import BUILDER, ExprValue
from ..ir.loop_ir import KernelBuffer
from ..ir.target_info import Machine
from ..program.executable import Executable, ExecutableInput, Plan
from .prime_unification import (
    MAX_DYNAMIC_SIZES,
    SIZES,
    PrimeSample,
    SizeFormula,
    size_dependent,
    unify_samples,
)

_SIZE_ERRORS = (GraphError, ShapeError, OverflowError)  # what graphs raise at wrong sizes
_MIN_CAPACITY = 64  # the capacity of a program at first
_SHAPE_PARAMS = ("shape", "size", "out")  # params of views that say how long axes are

Sizes = Mapping[str, int]
Lower = Callable[[Graph, "tuple[tuple[int, int], ...]"], "tuple[Plan, list[Launch]]"]
Assemble = Callable[[Plan, "list[Launch]"], Any]


@dataclass(frozen=True, eq=False)
class DynamicProgram:
    """A program for all sizes up to `capacity`."""

    capacity: Sizes
    equal_to: Mapping[str,
                      str]  # the name of the size that another one must be equal to, or its own
    program: Any
    results: list[tuple[SizeFormula, ...]]
    shapes: list[tuple[SizeFormula, ...]]

    def maker(self, shape: tuple[int, ...], dtype: Any) -> Callable[[], Any]:
        """A function that allocates a result."""
        return memory.maker(shape, dtype)

    def has_room(self, sizes: Sizes) -> bool:
        """True if the sizes are within the capacity."""
        return all(n <= self.capacity[name] and n == sizes[self.equal_to[name]]
                   for name, n in sizes.items())

    def bind(self, sizes: Sizes) -> BoundProgram:
        """The program bound to one set of sizes."""
        numbers = [sizes[name] for name in dict.fromkeys(self.equal_to.values())]

        def shape_at(shape: tuple[SizeFormula, ...]) -> tuple[int, ...]:
            return tuple([n.value(numbers) for n in shape])

        makers = [self.maker(shape_at(shape), of.dtype)
                  for shape, of in zip(self.results, self.program.interface.results)]
        bound = ExecutableInput(np.resize(numbers, MAX_DYNAMIC_SIZES), makers,
                                tuple(map(shape_at, self.shapes)))
        return BoundProgram(self.program, bound)


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
    it. lower(graph, dynamic_sizes) lowers a graph of fixed sizes, of which these stand for unknown
    sizes (see `Machine`). Raises CodegenError with the reason if there is none."""
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
    sample = prime_sample_of(graph, {name: least[name] for name in names})
    check_size_constants(graph)
    plans, launches = [], []
    for primes in sample:
        prime_of = dict(zip(names, primes))
        fixed = bind_sizes(graph, {name: prime_of[equal_to[name]] for name in least})
        plan, sample_launches = lower(fixed, tuple(zip(primes, sample.large)))
        plans.append(plan)
        launches.append(sample_launches)
    plan, results, shapes = _dynamic_plan(sample, *plans)
    program = assemble(plan, unify_samples(sample, *launches))
    capacity = dict(zip(names, sample.large))
    return DynamicProgram({name: capacity[equal_to[name]] for name in least}, equal_to, program,
                          results, shapes)


# ---- what can be done
def prime_sample_of(graph: Graph, least: Sizes) -> PrimeSample:
    """Prime numbers that stand for the sizes: no other size is a multiple of one of them."""
    excluded = _fixed_sizes(graph)

    def prime(least: int) -> int:
        candidate = next(n for n in _primes(least) if not any(m % n == 0 for m in excluded))
        excluded.add(candidate)
        return candidate

    large = tuple([prime(max(n, _MIN_CAPACITY)) for n in least.values()])
    return PrimeSample(large, tuple([prime(n // 3) for n in large]))


def _fixed_sizes(graph: Graph) -> set[int]:
    """The non-zero numbers in the formulas of all sizes. Raises CodegenError if the size of an axis
    is not a product."""
    sizes: set[int] = set()
    for node in (*graph.inputs, *graph.nodes()):
        sizes.update(_ints_in((node.type.shape, *node.params.values())))
        for dim in dims_in((node.type.shape, *node.params.values())):
            sizes.update(abs(factor) for _, factor in dim.expr.terms)
            if not all(isinstance(a, SizeSymbol) for a in dim.expr.atoms()):
                raise CodegenError(f"{node.site or node.op}: {dim.expr} comes from a division")
        for dim in dims_in(node.type.shape):
            if len(dim.expr.terms) > 1:
                raise CodegenError(f"{node.site or node.op}: {dim.expr}, a size of {node.type}, "
                                   "is not a product of dynamic sizes")
    return sizes - {0}


def _ints_in(value: Any) -> Iterator[int]:
    """The ints in a value and in nested tuples."""
    if type(value) is int:
        yield abs(value)
    elif type(value) is tuple:
        for part in value:
            yield from _ints_in(part)


def _primes(least: int) -> Iterator[int]:
    """The prime numbers from `least` on."""
    n = max(least, 2)
    while True:
        if all(n % d for d in range(2, math.isqrt(n) + 1)):
            yield n
        n += 1


def check_size_constants(graph: Graph) -> None:
    """Raises CodegenError for numbers that could agree at both samples and differ elsewhere: starts
    of views, and numbers computed from sizes alone before lowering."""
    size_constants = set[Node]()  # numbers that sizes are
    for node in graph.nodes():
        if node.op not in SPECIAL and not _is_size_independent(node, size_constants):
            raise CodegenError(f"{node.site or node.op}: {node.op} depends on a dynamic size")
        if node.op in ("const", "full") and any(True for _ in dims_in(node.params["value"])):
            size_constants.add(node)


def _is_size_independent(node: Node, size_constants: Set[Node]) -> bool:
    """True if nothing in a node but shapes and plain values depends on sizes."""
    if node.inputs and not node.type.shape and not size_constants.isdisjoint(node.inputs) and \
            all(n.op in ("const", "full") for n in node.inputs):
        return False
    shapes = OPS[node.op].kind not in ("view", "composite")
    return shapes or not any(True for name, value in node.params.items()
                             if name not in _SHAPE_PARAMS
                             for _ in dims_in(value))


def check_views(graph: Graph, machine: Machine) -> None:
    """Raises CodegenError for a view that reads, along an axis of dynamic size, another element
    than that at the same index."""
    for node in graph.nodes():
        if node.op not in SPECIAL and OPS[node.op].kind == "view" and node.op != "reshape":
            if any(machine.is_dynamic(n) for x in (node, *node.inputs) for n in x.type.shape):
                _check_view(node, machine)


def _check_view(node: Node, machine: Machine) -> None:
    variables = tuple(variable(f"i{a}", n) for a, n in enumerate(node.type.shape))
    dynamic_axes = {w.expr(): (w, n) for w, n in zip(variables, node.type.shape)
                    if machine.is_dynamic(n)}
    types = [i.type for i in node.inputs]

    def at(number: int, index: Any) -> Any:
        return atom(loop_ir.load(KernelBuffer("taken", loop_ir.INT, 1), loop_ir.const(0)))

    with collect_comparisons() as compared:
        sources = OPS[node.op].meaning(BUILDER, variables, types, at, **node.params)
    elementwise = not any(dynamic_axes.keys() & c.terms.keys() and c.const
                          and not machine.is_dynamic(c.const)
                          for c in compared)
    for source in sources:
        source_indices = [(as_index(i), n) for i, n in zip(source.index, types[source.input].shape)
                          if machine.is_dynamic(n)]
        elementwise &= all(any(p.equals(w) and n == m for w, m in dynamic_axes.values())
                           for p, n in source_indices)
        if isinstance(source.mask, ExprValue):
            mask = loop_ir.subexpressions([source.mask.expr])
            elementwise &= dynamic_axes.keys().isdisjoint(mask)
    if not elementwise:
        raise CodegenError(f"{node.site or node.op}: {node.op} along an axis of dynamic size")


# ---- the plan for any size
def _dynamic_plan(sample: PrimeSample, large: Plan, small: Plan
                  ) -> tuple[Plan, list[tuple[SizeFormula, ...]], list[tuple[SizeFormula, ...]]]:
    """The plan with the sizes as one more input, and the shape formulas of results and outputs."""
    interfaces = [(len(p.results), len(p.constants), len(p.donated), p.checks, p.output_count)
                  for p in
                  (large, small)]
    if interfaces[0] != interfaces[1]:
        raise size_dependent("what the program is called with")
    for a, b in zip(large.constants, small.constants):
        if not np.array_equal(evaluate_node(a, []), evaluate_node(b, [])):
            raise size_dependent("constants")
    results = [sample.shape(a.type.shape, b.type.shape)
               for a, b in zip(large.results, small.results)]
    shapes = [sample.shape(a, b) for a, b in zip(large.shapes, small.shapes)][:large.output_count]
    sizes = Node("input", (), {"name": "sizes"}, TensorType((MAX_DYNAMIC_SIZES,), SIZES.dtype))
    graph = replace(large.graph, inputs=(*large.graph.inputs, sizes))
    inputs = [large.buffers[n] for n in large.graph.inputs]
    arguments = dict.fromkeys((*inputs, SIZES, *large.arguments))
    plan = replace(large, graph=graph, buffers={**large.buffers, sizes: SIZES}, sizes=sample.large,
                   arguments={b: i for i, b in enumerate(arguments)})
    return plan, results, shapes
