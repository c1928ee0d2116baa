"""A graph as one native program of a library: kernels, where their buffers lie, what is checked.

The table of a program holds the addresses of the inputs, of the weights, of the sizes, and of the
outputs. What depends on weights alone, such as their packed form, is computed here, once: its
kernels are compiled for this machine, whatever the library is for.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ...capture.graph.bind_sizes import bind_sizes
from ...capture.graph.graph import Graph, Node
from ...capture.graph.reference_interpreter import evaluate_node
from ...codegen.compile import lower_graph, machine_of, slot_of
from ...codegen.dynamic.dynamic_program import DynamicProgram, compile_any_size
from ...codegen.dynamic.prime_unification import SizeFormula
from ...codegen.fusion.launch import Launch
from ...codegen.ir.loop_ir import Buffer
from ...codegen.program.arena import in_bytes, padded, plan_arena
from ...codegen.program.executable import Plan
from ...codegen.program.link import Lowered
from ...codegen.program.native_program import Argument, ProgramStep, WrittenProgram, build
from ...codegen.program.native_program import write as write_program
from ...codegen.program.prepack import prepacked_launches, prepacked_part
from ...codegen.runtime.cpython.data_pointers import address, aligned
from ...codegen.runtime.target import Target, host
from ...eager.errors import CodegenError
from .weights import WeightPool

Shape = tuple[SizeFormula, ...]


@dataclass(frozen=True)
class RangeCheck:
    """Elements of an array of the table that have to lie in low ... stop - 1."""

    place: int
    dtype: Any
    shape: Shape
    low: int
    stop: int


@dataclass(frozen=True)
class Copied:
    """An output that is what lies elsewhere: at the place of the table, bytes from there on."""

    output: int
    place: int
    offset: int


@dataclass
class LibraryProgram:
    """A program of a library. `ranges` are the least and the largest of each size that varies.

    `spare` are places of the workspace at which results lie that are only checked.
    """

    written: WrittenProgram
    workspace: int
    stack: int
    spare: list[int]
    copied: list[Copied]
    inputs: Sequence[Shape]
    outputs: Sequence[Shape]
    before: list[RangeCheck] = field(default_factory=list)
    after: list[RangeCheck] = field(default_factory=list)
    ranges: Sequence[tuple[int, int]] = ()


@dataclass
class _Assembled:
    """What is known of a program before its shapes are."""

    plan: Plan
    written: WrittenProgram
    workspace: int
    spare: list[int]
    copied: list[Copied]
    places: dict[Buffer, int]  # of everything in the table


class Compiler:
    """Makes programs of one library: `given` inputs, and after them its weights, as arrays."""

    def __init__(self, target: Target, threads: int, given: int, arrays: Sequence[Any],
                 weights: WeightPool) -> None:
        self.target, self.machine = target, machine_of(target, threads)
        self.given, self.arrays, self.weights = given, arrays, weights

    def fixed(self, graph: Graph, sizes: Mapping[str, int]) -> LibraryProgram:
        """The program of a graph for just these sizes. CodegenError where something in it has no
        native code."""
        graph = bind_sizes(graph, sizes) if sizes else graph
        made = self._assembled(*lower_graph(graph, self.machine))
        native = self._native(made, known_shapes(made.plan.shapes),
                              known_shapes([n.type.shape for n in made.plan.results]),
                              known_shapes([n.type.shape for n in graph.inputs]))
        return replace(native, ranges=[(n, n) for n in sizes.values()])

    def any_size(self, graph: Graph, ranges: Mapping[str, tuple[int, int]],
                 shapes: Sequence[Shape]) -> LibraryProgram:
        """The program of a graph for all sizes in these ranges; `shapes` are those of inputs.
        CodegenError with the reason where there is none."""
        def lower(known: Graph, sizes: tuple[tuple[int, int], ...]) -> Lowered:
            return lower_graph(known, replace(self.machine, dynamic_sizes=sizes))

        largest = {name: most for name, (_, most) in ranges.items()}
        made: DynamicProgram = compile_any_size(graph, largest, lower, self._assembled)
        equal = [f"{a} and {b}" for a, b in made.equal_to.items() if a != b]
        if equal:
            raise CodegenError(f"the sizes {', '.join(equal)} have to be equal")
        native = self._native(made.program, made.shapes, made.results, shapes)
        return replace(native, ranges=[*ranges.values()])

    def _assembled(self, plan: Plan, launches: list[Launch]) -> _Assembled:
        """The program that makes these launches, but for those that weights alone decide."""
        inputs = [plan.buffers[n] for n in plan.graph.inputs]
        held = dict(zip(inputs[self.given:], self.arrays))  # a last input, of sizes, is left out
        held |= {plan.buffers[n]: evaluate_node(n, []) for n in plan.constants}
        others = self._packed(plan, launches, inputs, held)
        outputs = [plan.buffers[n] for n in plan.graph.outputs[:plan.output_count]]
        places, unwanted = self._table(plan, inputs, held, outputs)
        slots, arena = plan_arena([[p.buffer for p in x.views] for x in others], places)
        read = {p.buffer for x in others for p in x.views} | set(outputs)
        offsets = {b: self.weights.add(a) for b, a in held.items() if b in read}
        slots |= {b: Argument(self.given, offset) for b, offset in offsets.items()}
        steps = [ProgramStep(x.kernel, [slot_of(p, slots) for p in x.views]) for x in others]
        ends = list(itertools.accumulate(map(in_bytes, unwanted), initial=arena))
        copied = [Copied(j, places[b], offsets.get(b, 0)) for j, b in enumerate(outputs)
                  if places[b] != self.given + 2 + j]
        return _Assembled(plan, write_program(steps, "program", self.target),
                          padded(ends[-1]) if ends[-1] else 0, ends[:-1], copied, places)

    def _table(self, plan: Plan, inputs: Sequence[Buffer], held: Mapping[Buffer, Any],
               outputs: Sequence[Buffer]) -> tuple[dict[Buffer, int], list[Buffer]]:
        """Where everything stands in the table, and the results that are no outputs."""
        places = {b: i for i, b in enumerate(inputs[:self.given])}
        places |= dict.fromkeys((*held, *inputs[self.given:]), self.given)
        if plan.sizes:
            places[inputs[-1]] = self.given + 1
        first = self.given + 2
        results = dict.fromkeys(plan.buffers[n] for n in plan.results)
        unwanted = [b for b in results if b not in outputs]
        places |= {b: first + outputs.index(b) for b in results if b in outputs}
        return places | {b: first + len(outputs) + i for i, b in enumerate(unwanted)}, unwanted

    def _packed(self, plan: Plan, launches: list[Launch], inputs: Sequence[Buffer],
                held: dict[Buffer, Any]) -> list[Launch]:
        """The launches that are left when those are done that read nothing but what is `held`; what
        they leave is held then."""
        first, others = prepacked_launches(launches, held.keys(), plan.arguments)
        _, left = prepacked_part(first, others, inputs)
        if not left:
            return launches
        held |= _run_here(first, held, left)
        return others

    def _native(self, made: _Assembled, outputs: Sequence[Shape], results: Sequence[Shape],
                inputs: Sequence[Shape]) -> LibraryProgram:
        plan = made.plan
        shapes = dict(zip([plan.buffers[n] for n in plan.results], results))
        shapes |= dict(zip([plan.buffers[n] for n in plan.graph.inputs], inputs))
        native = LibraryProgram(made.written, made.workspace, _stack(made.written), made.spare,
                                made.copied, inputs[:self.given], outputs)
        for check in plan.checks:
            node = plan.graph.outputs[check.output]
            buffer = plan.buffers[node]
            place = made.places[buffer]
            if place == self.given:
                check.require(self._value(plan, node))
                continue
            found = RangeCheck(place, node.type.dtype, shapes[buffer], check.low, int(check.size))
            (native.before if place < self.given else native.after).append(found)
        return native

    def _value(self, plan: Plan, node: Node) -> Any:
        """The array of a weight or constant."""
        if node.op != "input":
            return evaluate_node(node, [])
        return self.arrays[plan.graph.inputs.index(node) - self.given]


def known_shapes(shapes: Iterable[Sequence[int]]) -> list[Shape]:
    """Shapes of numbers as formulas."""
    return [tuple(map(SizeFormula, shape)) for shape in shapes]


def _run_here(launches: Sequence[Launch], held: Mapping[Buffer, Any], left: Sequence[Buffer]
              ) -> dict[Buffer, Any]:
    """What these launches leave in the buffers `left`."""
    read = {p.buffer for x in launches for p in x.views}
    arrays = {b: np.ascontiguousarray(a) for b, a in held.items() if b in read}
    made = {b: aligned(in_bytes(b)) for b in left}
    for array in made.values():
        array[:] = 0  # the rest of a last vector has to be the same in each build
    numbers = {b: i for i, b in enumerate((*arrays, *made))}
    slots, arena = plan_arena([[p.buffer for p in x.views] for x in launches], numbers)
    steps = [ProgramStep(x.kernel, [slot_of(p, slots) for p in x.views]) for x in launches]
    table = np.array([address(a) for a in (*arrays.values(), *made.values())], np.uint64)
    own = aligned(arena)
    build(steps, target=host()).run(address(table), address(own))
    return made


def _stack(written: WrittenProgram) -> int:
    """Bytes of stack that a task of its kernels needs at most for what it keeps there."""
    return max((sum(in_bytes(b) for b in k.scratch) for k in written.kernels), default=0)
