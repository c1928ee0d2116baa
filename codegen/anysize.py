"""One native program for all sizes of an axis, up to a capacity that grows when it has to.

The program is lowered for two sizes, and what differs between them becomes a formula of the size,
which is an argument like any other (see `generalise`). That is right where every size is a multiple
of the unknown one plus a number, and no value is picked out along an axis of unknown size but by
its own place. All else is refused, with the reason.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from ..capture.costs import Memory
from ..capture.evaluate import evaluate_node
from ..capture.graph import SPECIAL, Graph, Node
from ..capture.passes.specialise import dims_in, specialise
from ..capture.polynomial import Expr
from ..eager import memory
from ..eager.errors import CodegenError
from ..eager.op import OPS
from ..eager.shapes import TensorType
from . import loops
from .executable import Executable, Given, Plan
from .generalise import SIZE, Line, Sample, differing, generalised
from .index import as_index, atom, comparisons, variable
from .launches import Launch
from .loops import Buffer
from .values import BUILDER, Value

_LEAST = 64  # the capacity of a program at first

Lower = Callable[[Graph, int], "tuple[Plan, list[Launch]]"]
Assemble = Callable[[Plan, "list[Launch]"], Executable]


class AnySize:
    """A program for all sizes up to `capacity`."""

    def __init__(self, sample: Sample, program: Executable, results: list[tuple[Line, ...]],
                 shapes: list[tuple[Line, ...]]) -> None:
        self.program, self.capacity = program, sample.large
        self._results, self._shapes = results, shapes

    def at(self, size: int) -> AtSize:
        """The program for one size."""
        def known(lines: tuple[Line, ...]) -> tuple[int, ...]:
            return tuple([line.at(size) for line in lines])

        makers = [memory.maker(known(lines), node.type.dtype)
                  for lines, node in zip(self._results, self.program.plan.results)]
        given = Given(np.array([size]), makers, tuple(map(known, self._shapes)))
        return AtSize(self.program, given)


class AtSize(NamedTuple):
    """A program for any size, with one of them."""

    program: Executable
    given: Given

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


def compile_any_size(graph: Graph, name: str, least: int, lower: Lower, assemble: Assemble
                     ) -> AnySize:
    """A program for the sizes `name` of a graph up to at least `least`. lower(graph, size) makes
    the kernels of a graph of fixed sizes, one of which stands for any. CodegenError with the
    reason where there is none."""
    sample = sample_of(graph, name, least)
    plans, launches = zip(*[lower(specialise(graph, {name: n}), n) for n in sample])
    plan, results, shapes = _plan(sample, *plans)
    return AnySize(sample, assemble(plan, generalised(sample, *launches)), results, shapes)


# ---- what can be done
def sample_of(graph: Graph, name: str, least: int) -> Sample:
    """Two prime numbers that stand for the size: no other size is a multiple of one of them."""
    numbers = _fixed_sizes(graph, name)
    primes = (n for n in _primes(max(least, _LEAST)) if not any(m % n == 0 for m in numbers))
    large = next(primes)
    small = next(n for n in _primes(large // 3) if not any(m % n == 0 for m in numbers))
    return Sample(large, small)


def _fixed_sizes(graph: Graph, name: str) -> set[int]:
    """The numbers other than 0 in the formulas of all sizes; CodegenError where one of them is no
    straight line."""
    found: set[int] = set()
    for node in (*graph.inputs, *graph.nodes()):
        found.update(_plain_numbers((node.type.shape, *node.params.values())))
        for dim in dims_in((node.type.shape, *node.params.values())):
            found.update(_numbers(dim.expr, name, node))
        if any(len(dim.expr.terms) > 1 for dim in dims_in(node.type.shape)):
            raise no_multiple(node, name)
    return found - {0}


def _plain_numbers(value: Any) -> Iterator[int]:
    """The ints in a value, in tuples too."""
    if type(value) is int:
        yield abs(value)
    elif type(value) is tuple:
        for part in value:
            yield from _plain_numbers(part)


def _numbers(size: Expr, name: str, node: Node) -> Iterator[int]:
    for monomial, factor in size.terms:
        if monomial and [(str(atom), power) for atom, power in monomial] != [(name, 1)]:
            raise no_multiple(node, name)
        yield abs(factor)


def no_multiple(node: Node, name: str) -> CodegenError:
    """The error for a size that follows otherwise from the unknown one."""
    return CodegenError(f"{node.site or node.op}: a size of {node.type} is no multiple of {name}")


def _primes(least: int) -> Iterator[int]:
    """The prime numbers from `least` on."""
    n = max(least, 2)
    while True:
        if all(n % d for d in range(2, math.isqrt(n) + 1)):
            yield n
        n += 1


def check_places(graph: Graph, size: int) -> None:
    """CodegenError for a view that reads, along an axis of unknown size, anything but the element
    at the same place: what holds for one size need not for another."""
    for node in graph.nodes():
        if node.op not in SPECIAL and OPS[node.op].kind == "view" and node.op != "reshape":
            if any(n % size == 0 for x in (node, *node.inputs) for n in x.type.shape):
                _check_view(node, size)


def _check_view(node: Node, size: int) -> None:
    where = tuple(variable(f"i{a}", n) for a, n in enumerate(node.type.shape))
    own = {w.expr(): w for w, n in zip(where, node.type.shape) if n % size == 0}
    types = [i.type for i in node.inputs]

    def at(number: int, index: Any) -> Any:
        return atom(loops.load(Buffer("taken", loops.INT, 1), loops.const(0)))

    with comparisons() as compared:
        sources = OPS[node.op].meaning(BUILDER, where, types, at, **node.params)
    plain = not any(own.keys() & c.terms.keys() and c.const % size for c in compared)
    for source in sources:
        places = [as_index(i) for i, n in zip(source.index, types[source.input].shape)
                  if n % size == 0]
        plain &= all(any(p.same(w) for w in own.values()) for p in places)
        if isinstance(source.mask, Value):
            plain &= own.keys().isdisjoint(loops.parts([source.mask.expr]))
    if not plain:
        raise CodegenError(f"{node.site or node.op}: {node.op} along an axis of unknown size")


# ---- the plan for any size
def _plan(sample: Sample, large: Plan, small: Plan
          ) -> tuple[Plan, list[tuple[Line, ...]], list[tuple[Line, ...]]]:
    """The plan with the size as one more input, and the shapes of results and outputs."""
    same = [(len(p.results), len(p.constants), len(p.taken), p.checks, p.wanted) for p in
            (large, small)]
    if same[0] != same[1]:
        raise differing("what the program is called with")
    for a, b in zip(large.constants, small.constants):
        if not np.array_equal(evaluate_node(a, []), evaluate_node(b, [])):
            raise differing("constants")
    results = [sample.shape(a.type.shape, b.type.shape)
               for a, b in zip(large.results, small.results)]
    shapes = [sample.shape(a, b) for a, b in zip(large.shapes, small.shapes)]
    size = Node("input", (), {"name": "size"}, TensorType((1,), SIZE.dtype))
    graph = replace(large.graph, inputs=(*large.graph.inputs, size))
    inputs = [large.buffers[n] for n in large.graph.inputs]
    given = dict.fromkeys((*inputs, SIZE, *large.arguments))
    plan = replace(large, graph=graph, buffers={**large.buffers, size: SIZE}, size=sample.large,
                   arguments={b: i for i, b in enumerate(given)})
    return plan, results, shapes
