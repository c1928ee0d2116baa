"""One native program for all sizes of some axes, up to a capacity that grows when it has to.

The program is lowered for two sets of sizes, and what differs between them becomes a formula of the
sizes, which are an argument like any other (see `generalise`). That is right where every size is a
product of the unknown ones and numbers, and no value is picked out along an axis of dynamic size
but by its own place. All else is refused, with the reason.
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
from ...capture.sizes.size_expr import Symbol
from ...eager.arrays import memory
from ...eager.arrays.shapes import TensorType
from ...eager.core.op import OPS
from ...eager.errors import CodegenError, GraphError, ShapeError
from ..fusion.launch import Launch
from ..ir import loop_ir
from ..ir.affine_index import as_index, atom, comparisons, variable
from ..ir.builder import BUILDER, ExprValue
from ..ir.loop_ir import Buffer
from ..ir.target_info import Machine
from ..program.executable import Executable, ExecutableInput, Plan
from .prime_unification import MOST, SIZES, PrimeSample, SizeFormula, differing, unify_samples

_NOT_FOR_THESE = (GraphError, ShapeError, OverflowError)  # what graphs raise at wrong sizes
_LEAST = 64  # the capacity of a program at first
_SHAPES = ("shape", "size", "out")  # params of views that say how long axes are

Sizes = Mapping[str, int]
Lower = Callable[[Graph, "tuple[tuple[int, int], ...]"], "tuple[Plan, list[Launch]]"]
Assemble = Callable[[Plan, "list[Launch]"], Any]


@dataclass(frozen=True, eq=False)
class DynamicProgram:
    """A program for all sizes up to `capacity`."""

    capacity: Sizes
    same: Mapping[str, str]  # the name of the size that another one must be equal to, or its own
    program: Any
    results: list[tuple[SizeFormula, ...]]
    shapes: list[tuple[SizeFormula, ...]]

    def maker(self, shape: tuple[int, ...], dtype: Any) -> Callable[[], Any]:
        """What makes a result."""
        return memory.maker(shape, dtype)

    def has_room(self, sizes: Sizes) -> bool:
        """Whether sizes are within the capacity."""
        return all(n <= self.capacity[name] and n == sizes[self.same[name]]
                   for name, n in sizes.items())

    def at(self, sizes: Sizes) -> BoundProgram:
        """The program for one set of sizes."""
        numbers = [sizes[name] for name in dict.fromkeys(self.same.values())]

        def known(shape: tuple[SizeFormula, ...]) -> tuple[int, ...]:
            return tuple([n.at(numbers) for n in shape])

        makers = [self.maker(known(shape), of.dtype)
                  for shape, of in zip(self.results, self.program.interface.results)]
        given = ExecutableInput(np.resize(numbers, MOST), makers, tuple(map(known, self.shapes)))
        return BoundProgram(self.program, given)


class BoundProgram(NamedTuple):
    """A program for any size, with one of them."""

    program: Executable
    given: ExecutableInput

    def __call__(self, arrays: list[Any]) -> list[Any]:
        """The outputs for these inputs."""
        return self.program(arrays, self.given)

    def rows(self) -> list[dict[str, Any]]:
        """A row per kernel, timed at the program's capacity."""
        return self.program.rows()

    def explain(self) -> str:
        """The kernels as a table."""
        return self.program.explain()

    @property
    def memory(self) -> Memory:
        """What a call takes at most, at the program's capacity."""
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
    """A program for all sizes of a graph up to at least these, as assemble(plan, launches) gives
    it. lower(graph, open) makes the kernels of a graph of fixed sizes, where some stand for any
    (see `Machine`). CodegenError with the reason where there is none."""
    if len(least) > MOST:
        raise CodegenError(f"more than {MOST} sizes are dynamic")
    try:
        return _compiled(graph, least, {name: name for name in least}, lower, assemble)
    except _NOT_FOR_THESE:  # some have to be equal, and those are now
        first = {n: name for name, n in reversed([*least.items()])}
        same = {name: first[n] for name, n in least.items()}
    try:
        return _compiled(graph, least, same, lower, assemble)
    except _NOT_FOR_THESE as error:
        raise CodegenError(f"the graph cannot be lowered for all sizes: {error}") from error


def _compiled(graph: Graph, least: Sizes, same: Mapping[str, str], lower: Lower,
              assemble: Assemble) -> DynamicProgram:
    """The program where sizes are the `same` as those of other names, or their own."""
    names = [*dict.fromkeys(same.values())]
    sample = sample_of(graph, {name: least[name] for name in names})
    check_numbers(graph)
    plans, launches = [], []
    for primes in sample:
        known = dict(zip(names, primes))
        fixed = bind_sizes(graph, {name: known[same[name]] for name in least})
        plan, found = lower(fixed, tuple(zip(primes, sample.large)))
        plans.append(plan)
        launches.append(found)
    plan, results, shapes = _plan(sample, *plans)
    program = assemble(plan, unify_samples(sample, *launches))
    capacity = dict(zip(names, sample.large))
    return DynamicProgram({name: capacity[same[name]] for name in least}, same, program, results,
                          shapes)


# ---- what can be done
def sample_of(graph: Graph, least: Sizes) -> PrimeSample:
    """Prime numbers that stand for the sizes: no other size is a multiple of one of them."""
    taken = _fixed_sizes(graph)

    def prime(least: int) -> int:
        found = next(n for n in _primes(least) if not any(m % n == 0 for m in taken))
        taken.add(found)
        return found

    large = tuple([prime(max(n, _LEAST)) for n in least.values()])
    return PrimeSample(large, tuple([prime(n // 3) for n in large]))


def _fixed_sizes(graph: Graph) -> set[int]:
    """The numbers other than 0 in the formulas of all sizes; CodegenError where the size of an axis
    is no product."""
    found: set[int] = set()
    for node in (*graph.inputs, *graph.nodes()):
        found.update(_plain_numbers((node.type.shape, *node.params.values())))
        for dim in dims_in((node.type.shape, *node.params.values())):
            found.update(abs(factor) for _, factor in dim.expr.terms)
            if not all(isinstance(a, Symbol) for a in dim.expr.atoms()):
                raise CodegenError(f"{node.site or node.op}: {dim.expr} comes from a division")
        for dim in dims_in(node.type.shape):
            if len(dim.expr.terms) > 1:
                raise CodegenError(f"{node.site or node.op}: {dim.expr}, a size of {node.type}, "
                                   "is not a product of dynamic sizes")
    return found - {0}


def _plain_numbers(value: Any) -> Iterator[int]:
    """The ints in a value, in tuples too."""
    if type(value) is int:
        yield abs(value)
    elif type(value) is tuple:
        for part in value:
            yield from _plain_numbers(part)


def _primes(least: int) -> Iterator[int]:
    """The prime numbers from `least` on."""
    n = max(least, 2)
    while True:
        if all(n % d for d in range(2, math.isqrt(n) + 1)):
            yield n
        n += 1


def check_numbers(graph: Graph) -> None:
    """CodegenError for what may be the same at two sets of sizes and other elsewhere: where views
    begin, and numbers computed of nothing but sizes, as that is done before there is code."""
    known = set[Node]()  # numbers that sizes are
    for node in graph.nodes():
        if node.op not in SPECIAL and not _without_choice(node, known):
            raise CodegenError(f"{node.site or node.op}: {node.op} depends on a dynamic size")
        if node.op in ("const", "full") and any(True for _ in dims_in(node.params["value"])):
            known.add(node)


def _without_choice(node: Node, known: Set[Node]) -> bool:
    """Whether nothing in a node but shapes and plain values depends on sizes."""
    if node.inputs and not node.type.shape and not known.isdisjoint(node.inputs) and \
            all(n.op in ("const", "full") for n in node.inputs):
        return False
    shapes = OPS[node.op].kind not in ("view", "composite")
    return shapes or not any(True for name, value in node.params.items() if name not in _SHAPES
                             for _ in dims_in(value))


def check_places(graph: Graph, machine: Machine) -> None:
    """CodegenError for a view that reads, along an axis of dynamic size, anything but the element
    at the same place: what holds for one size need not for another."""
    for node in graph.nodes():
        if node.op not in SPECIAL and OPS[node.op].kind == "view" and node.op != "reshape":
            if any(machine.varies(n) for x in (node, *node.inputs) for n in x.type.shape):
                _check_view(node, machine)


def _check_view(node: Node, machine: Machine) -> None:
    where = tuple(variable(f"i{a}", n) for a, n in enumerate(node.type.shape))
    own = {w.expr(): (w, n) for w, n in zip(where, node.type.shape) if machine.varies(n)}
    types = [i.type for i in node.inputs]

    def at(number: int, index: Any) -> Any:
        return atom(loop_ir.load(Buffer("taken", loop_ir.INT, 1), loop_ir.const(0)))

    with comparisons() as compared:
        sources = OPS[node.op].meaning(BUILDER, where, types, at, **node.params)
    plain = not any(own.keys() & c.terms.keys() and c.const and not machine.varies(c.const)
                    for c in compared)
    for source in sources:
        places = [(as_index(i), n) for i, n in zip(source.index, types[source.input].shape)
                  if machine.varies(n)]
        plain &= all(any(p.same(w) and n == m for w, m in own.values()) for p, n in places)
        if isinstance(source.mask, ExprValue):
            plain &= own.keys().isdisjoint(loop_ir.parts([source.mask.expr]))
    if not plain:
        raise CodegenError(f"{node.site or node.op}: {node.op} along an axis of dynamic size")


# ---- the plan for any size
def _plan(sample: PrimeSample, large: Plan, small: Plan
          ) -> tuple[Plan, list[tuple[SizeFormula, ...]], list[tuple[SizeFormula, ...]]]:
    """The plan with the sizes as one more input, and the shapes of results and outputs."""
    same = [(len(p.results), len(p.constants), len(p.taken), p.checks, p.wanted) for p in
            (large, small)]
    if same[0] != same[1]:
        raise differing("what the program is called with")
    for a, b in zip(large.constants, small.constants):
        if not np.array_equal(evaluate_node(a, []), evaluate_node(b, [])):
            raise differing("constants")
    results = [sample.shape(a.type.shape, b.type.shape)
               for a, b in zip(large.results, small.results)]
    shapes = [sample.shape(a, b) for a, b in zip(large.shapes, small.shapes)][:large.wanted]
    sizes = Node("input", (), {"name": "sizes"}, TensorType((MOST,), SIZES.dtype))
    graph = replace(large.graph, inputs=(*large.graph.inputs, sizes))
    inputs = [large.buffers[n] for n in large.graph.inputs]
    given = dict.fromkeys((*inputs, SIZES, *large.arguments))
    plan = replace(large, graph=graph, buffers={**large.buffers, sizes: SIZES}, sizes=sample.large,
                   arguments={b: i for i, b in enumerate(given)})
    return plan, results, shapes
