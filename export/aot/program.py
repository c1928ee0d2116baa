"""Compiles a graph into one native program of a library: kernels, memory layout, index checks.

The table of a program holds the addresses of the inputs, of the weights, of the sizes, and of the
outputs. Values that depend on weights alone, such as packed weights, are computed once, at build
time. Their kernels are compiled for this machine, even if the library is for another processor.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...capture.graph.bind_sizes import bind_sizes, has_symbols
from ...capture.graph.graph import Graph, Node
from ...capture.graph.reference_interpreter import evaluate_node
from ...codegen.compile import lower_graph
from ...codegen.cpu_backend import machine_of
from ...codegen.dynamic.dynamic_program import DynamicProgram, compile_any_size
from ...codegen.fusion.launch import Launch
from ...codegen.ir.loop_ir import KernelBuffer
from ...codegen.program.arena import in_bytes, plan_arena
from ...codegen.program.executable import Plan
from ...codegen.program.native_program import (
    Argument,
    ProgramStep,
    WrittenProgram,
    build,
    slot_of,
)
from ...codegen.program.native_program import write as write_program
from ...codegen.program.prepack import prepacked_launches, prepacked_part
from ...codegen.runtime.cpython.data_pointers import address, aligned
from ...codegen.runtime.target import Target, host
from ...eager.errors import CodegenError
from .sizes import Shape, SizeRanges, constant_shape
from .weights import Weights


@dataclass(frozen=True)
class IndexCheck:
    """The elements of the array at a table entry have to be in range(low, stop)."""

    entry: int
    dtype: Any
    shape: Shape
    low: int
    stop: int


@dataclass(frozen=True)
class OutputCopy:
    """An output that is a copy of other memory: a table entry plus an offset in bytes."""

    output: int
    entry: int
    offset: int


@dataclass
class SegmentProgram:
    """The program of a graph.

    `arena`: bytes of memory that it needs
    `unreturned`: the bytes of each result behind the outputs, which is only checked
    `before`, `after`: index checks before and after the program runs
    """

    written: WrittenProgram
    arena: int
    stack: int
    unreturned: list[int]
    copies: list[OutputCopy]
    before: list[IndexCheck] = field(default_factory=list)
    after: list[IndexCheck] = field(default_factory=list)


class Compiler:
    """Compiles the programs of one library."""

    def __init__(self, target: Target, threads: int, weights: Weights) -> None:
        self.target, self.machine, self.weights = target, machine_of(target, threads), weights

    def compile(self, graph: Graph, arrays: Sequence[Any], sizes: SizeRanges) -> SegmentProgram:
        """The program of a graph for these sizes. The last inputs are weights, with the values
        `arrays`. CodegenError with the reason if there is none."""
        assembly = _Assembly(self, len(graph.inputs) - len(arrays), arrays)
        if not sizes.fixed and has_symbols(graph):
            return self._any_size(assembly, graph, sizes)
        bound = bind_sizes(graph, sizes.largest) if sizes.fixed else graph
        assembled = assembly.assemble(*lower_graph(bound, self.machine))
        shapes = [constant_shape(n.type.shape) for n in assembled.plan.results]
        return assembly.checked(assembled, shapes,
                                [constant_shape(n.type.shape) for n in bound.inputs])

    def _any_size(self, assembly: _Assembly, graph: Graph, sizes: SizeRanges) -> SegmentProgram:
        dynamic: DynamicProgram = compile_any_size(
            graph, sizes.largest, lambda sized: lower_graph(sized, self.machine), assembly.assemble)
        equal = [f"{a} and {b}" for a, b in dynamic.equal_to.items() if a != b]
        if equal:
            raise CodegenError(f"the sizes {', '.join(equal)} have to be equal")
        return assembly.checked(dynamic.program,
                                [tuple(map(sizes.formula, shape)) for shape in dynamic.results],
                                [sizes.shape(n.type.shape) for n in graph.inputs])


@dataclass
class _Assembled:
    """A program without its index checks. `entries`: the table entry of each buffer."""

    plan: Plan
    program: SegmentProgram
    entries: dict[KernelBuffer, int]


class _Assembly:
    """Lays out the memory of one program."""

    def __init__(self, compiler: Compiler, input_count: int, arrays: Sequence[Any]) -> None:
        self.target, self.weights = compiler.target, compiler.weights
        self.input_count, self.arrays = input_count, arrays

    def assemble(self, plan: Plan, launches: list[Launch]) -> _Assembled:
        """The program of these launches, without those that depend on weights alone."""
        inputs = [plan.buffers[n] for n in plan.graph.inputs]
        # A last input, which holds sizes, has no array.
        held = dict(zip(inputs[self.input_count:], self.arrays))
        held |= {plan.buffers[n]: evaluate_node(n, []) for n in plan.constants}
        others = self._packed(plan, launches, inputs, held)
        outputs = [plan.buffers[n] for n in plan.graph.outputs[:plan.output_count]]
        entries, unreturned = self._table(plan, inputs, held, outputs)
        slots, arena = plan_arena([[p.buffer for p in x.views] for x in others], entries)
        read = {p.buffer for x in others for p in x.views} | set(outputs)
        offsets = {b: self.weights.add(a) for b, a in held.items() if b in read}
        slots |= {b: Argument(self.input_count, offset) for b, offset in offsets.items()}
        steps = [ProgramStep(x.kernel, [slot_of(p, slots) for p in x.views]) for x in others]
        copies = [OutputCopy(j, entries[b], offsets.get(b, 0)) for j, b in enumerate(outputs)
                  if entries[b] != self.input_count + 2 + j]
        written = write_program(steps, "program", self.target)
        program = SegmentProgram(written, arena, _stack(written),
                                 list(map(in_bytes, unreturned)), copies)
        return _Assembled(plan, program, entries)

    def _table(self, plan: Plan, inputs: Sequence[KernelBuffer], held: Mapping[KernelBuffer, Any],
               outputs: Sequence[KernelBuffer]) -> tuple[dict[KernelBuffer, int],
                                                         list[KernelBuffer]]:
        """The table entry of each buffer, and the results that are no outputs."""
        entries = {b: i for i, b in enumerate(inputs[:self.input_count])}
        entries |= dict.fromkeys((*held, *inputs[self.input_count:]), self.input_count)
        if plan.sizes:
            entries[inputs[-1]] = self.input_count + 1
        first = self.input_count + 2
        results = dict.fromkeys(plan.buffers[n] for n in plan.results)
        unreturned = [b for b in results if b not in outputs]
        entries |= {b: first + outputs.index(b) for b in results if b in outputs}
        return entries | {b: first + len(outputs) + i for i, b in enumerate(unreturned)}, unreturned

    def _packed(self, plan: Plan, launches: list[Launch], inputs: Sequence[KernelBuffer],
                held: dict[KernelBuffer, Any]) -> list[Launch]:
        """The launches for run time. Runs those that read only `held`, which gets their results."""
        first, others = prepacked_launches(launches, held.keys(), plan.arguments)
        _, left = prepacked_part(first, others, inputs)
        if not left:
            return launches
        held |= _run_here(first, held, left)
        return others

    def checked(self, assembled: _Assembled, results: Sequence[Shape], inputs: Sequence[Shape]
                ) -> SegmentProgram:
        """The program with its index checks, given the shapes of its results and inputs. Indices
        that depend on weights alone are checked now."""
        plan, program = assembled.plan, assembled.program
        shapes = dict(zip([plan.buffers[n] for n in plan.results], results))
        shapes |= dict(zip([plan.buffers[n] for n in plan.graph.inputs], inputs))
        for check in plan.checks:
            node = plan.graph.outputs[check.output]
            buffer = plan.buffers[node]
            entry = assembled.entries[buffer]
            if entry == self.input_count:
                check.require(self._value(plan, node))
                continue
            index_check = IndexCheck(entry, node.type.dtype, shapes[buffer], check.low,
                                     int(check.size))
            (program.before if entry < self.input_count else program.after).append(index_check)
        return program

    def _value(self, plan: Plan, node: Node) -> Any:
        """The array of a weight or constant."""
        if node.op != "input":
            return evaluate_node(node, [])
        return self.arrays[plan.graph.inputs.index(node) - self.input_count]


def _run_here(launches: Sequence[Launch], held: Mapping[KernelBuffer, Any],
              results: Sequence[KernelBuffer]
              ) -> dict[KernelBuffer, Any]:
    """The arrays of the buffers `results` after these launches ran on this machine."""
    read = {p.buffer for x in launches for p in x.views}
    arrays = {b: np.ascontiguousarray(a) for b, a in held.items() if b in read}
    outputs = {b: aligned(in_bytes(b)) for b in results}
    for array in outputs.values():
        array[:] = 0  # the padding of a last vector has to be equal in each build
    numbers = {b: i for i, b in enumerate((*arrays, *outputs))}
    slots, arena = plan_arena([[p.buffer for p in x.views] for x in launches], numbers)
    steps = [ProgramStep(x.kernel, [slot_of(p, slots) for p in x.views]) for x in launches]
    table = np.array([address(a) for a in (*arrays.values(), *outputs.values())], np.uint64)
    own = aligned(arena)
    build(steps, target=host()).run(address(table), address(own))
    return outputs


def _stack(written: WrittenProgram) -> int:
    """The most bytes of scratch memory that a kernel of a program takes from the stack."""
    return max((sum(in_bytes(b) for b in k.scratch) for k in written.kernels), default=0)
