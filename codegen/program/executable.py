"""A compiled graph that can be called: arrays in, arrays out."""

from __future__ import annotations

import array
import functools
import statistics
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ...capture.graph.graph import Graph, Node
from ...capture.graph.reference_interpreter import evaluate_node
from ...capture.passes.bounds_checks import BoundsCheck
from ...capture.runtime import spans
from ...capture.runtime.metrics import Memory
from ...eager.arrays import memory
from ...eager.arrays.shapes import TensorType
from ..ir.loop_ir import Buffer, Kernel
from ..runtime.cpython.data_pointers import address, aligned
from .kernel_stats import bytes_of, kernel_facts, kernel_table
from .native_call import NOTHING, SHORT_NANOSECONDS, Launch, NativeCall, launcher, make_ready
from .native_program import NativeProgram


@dataclass
class Plan:
    """What a program is called with, and where in memory the values of its graph are."""

    graph: Graph
    buffers: dict[Node, Buffer]
    arguments: dict[Buffer, int]
    constants: list[Node]
    results: list[Node]
    taken: dict[Node, Node]  # outputs that take an input's memory
    checks: list[BoundsCheck]
    shapes: tuple[Any, ...]
    wanted: int  # how many of the graph's outputs the caller asked for
    sizes: tuple[int, ...] = ()  # those that stand for any; if there are some, the last input


@dataclass(frozen=True)
class Interface:
    """What a program is called with. Its table holds inputs, then constants, then results."""

    inputs: list[TensorType]
    constants: list[Any]
    results: list[TensorType]
    outputs: list[int]  # where in the table they are
    overwritten: list[int]  # the inputs whose memory outputs take
    before: list[tuple[int, BoundsCheck]]  # inputs that are looked at before the program runs
    after: list[BoundsCheck]
    shapes: tuple[Any, ...]  # of the outputs that the caller asked for
    sizes: tuple[int, ...]  # those that stand for any; if there are some, the last input

    @property
    def checks(self) -> bool:
        """Whether values are looked at around a call."""
        return bool(self.before or self.after)

    @property
    def straight(self) -> bool:
        """Whether the outputs are just the results, in their order and shapes."""
        first = len(self.inputs) + len(self.constants)
        return self.outputs == list(range(first, first + len(self.results))) \
            and not self.after and tuple([t.shape for t in self.results]) == self.shapes


def interface_of(plan: Plan) -> Interface:
    """The interface of a planned program."""
    inputs = {n: i for i, n in enumerate(plan.graph.inputs)}
    table = {n: i for i, n in enumerate((*inputs, *plan.constants, *plan.results))}
    outputs = plan.graph.outputs
    before = [(inputs[outputs[c.output]], c) for c in plan.checks if outputs[c.output] in inputs]
    return Interface(
        [n.type for n in inputs], [np.ascontiguousarray(evaluate_node(n, []))
                                   for n in plan.constants],
        [n.type for n in plan.results], [table[plan.taken.get(n, n)] for n in outputs],
        sorted(inputs[n] for n in plan.taken.values()), before,
        [c for c in plan.checks if outputs[c.output] not in inputs],
        plan.shapes[:plan.wanted], plan.sizes)


class ExecutableInput(NamedTuple):
    """What a program for any size is called with: the sizes, as an array; what makes its results;
    and the shapes of its outputs."""

    sizes: Any
    results: list[Any]
    shapes: tuple[Any, ...]


class Executable:
    """A native program with its plan. Calls may come from several threads at once."""

    def __init__(self, interface: Interface, program: NativeProgram, arena: int) -> None:
        self.interface, self.program, self.arena = interface, program, arena
        self._overwritten, self._constants = interface.overwritten, interface.constants
        self._results = [memory.maker(t.shape, t.dtype) for t in interface.results]
        self._arenas: list[Any] = []
        self._straight = interface.straight
        self._launch = self._launcher(program.address, self._constants)

    def _launcher(self, program: int, constants: list[Any], same: Mapping[int, Any] = NOTHING
                  ) -> Launch:
        """launch(arrays, results, arena) runs the `program`, or refuses what needs a closer look:
        inputs, too, that are not the `same` arrays."""
        keeps_lock = self.program.cost < SHORT_NANOSECONDS
        call = NativeCall("fusewire_run", program, keeps_lock, len(self.interface.inputs),
                          len(self._results), self._overwritten)
        return launcher(call, constants, same)

    @property
    def is_plain(self) -> bool:
        """Whether a call does nothing but run the program, on inputs, constants and results."""
        return self._straight and not self.interface.checks and not self._overwritten \
            and not self.interface.sizes and type(self) is Executable

    def __call__(self, arrays: list[Any], given: ExecutableInput | None = None) -> list[Any]:
        """The outputs for these inputs; IndexError for indices out of range."""
        for i, check in self.interface.before:
            check.require(arrays[i])
        makers, shapes = self._results, self.interface.shapes
        if given is not None:
            arrays.append(given.sizes)
            makers, shapes = given.results, given.shapes
        results = []
        for make in makers:  # a comprehension would cost a call
            results.append(make())
        arena = self._take_arena() if self.arena else None
        try:
            if spans.on or not self._launch(arrays, results, arena):
                self._closer(arrays, results, arena)
        finally:
            if arena is not None:
                self._arenas.append(arena)
        return results if self._straight else self._found(arrays, results, shapes)

    def _closer(self, arrays: list[Any], results: list[Any], arena: Any) -> None:
        """Runs what `launch` refused, and what somebody looks at."""
        make_ready(arrays, self._overwritten)
        self._steps(arrays, results, arena, self._constants)

    def _steps(self, arrays: list[Any], results: list[Any], arena: Any, constants: list[Any],
               first: int = 0) -> None:
        """Runs the steps from number `first` on: one by one for who looks on."""
        if not spans.on:
            call = self.program.later if first else self.program.run
            self.run(arrays, results, arena, constants, call)
            return
        with spans.Span("program", "program", about=self) as span:
            span.parts = self.run(arrays, results, arena, constants,
                                  lambda table, own: self.program.profile(table, own, first))

    def _found(self, arrays: list[Any], results: list[Any], shapes: tuple[Any, ...]) -> list[Any]:
        everything = [*arrays, *self._constants, *results]
        found = [everything[i] for i in self.interface.outputs]
        for check in self.interface.after:
            check.require(found[check.output])
        return [a if a.shape == shape else a.reshape(shape)
                for a, shape in zip(found, shapes)]

    def rows(self, repeats: int = 7) -> list[dict[str, Any]]:
        """A row per kernel with its median time on made-up inputs: what a kernel takes depends on
        its sizes, hardly on the values."""
        times, arena = [], self._take_arena()
        for _ in range(repeats):
            arrays = [np.ones(t.shape, t.dtype) for t in self.interface.inputs]
            if self.interface.sizes:
                arrays[-1][:len(self.interface.sizes)] = self.interface.sizes
            results = [make() for make in self._results]
            steps = self.run(arrays, results, arena, self._all_constants(), self.program.profile)
            times.append([ended - began for began, ended in steps])
        medians = [statistics.median(t) for t in zip(*times)]
        return [{**row, "seconds": s} for row, s in zip(self.facts, medians)]

    @functools.cached_property
    def facts(self) -> list[dict[str, Any]]:
        """What is known of each kernel before it has run: a row of `rows`, without times."""
        return kernel_facts(self.program.kernels)

    @property
    def memory(self) -> Memory:
        """What a call takes."""
        constants = sum(a.nbytes for a in self._constants)
        return Memory(bytes_of(self.interface.inputs) + constants,
                      bytes_of(self.interface.results), self.arena)

    @property
    def kernels(self) -> list[Kernel]:
        """The kernel of each step."""
        return self.program.kernels

    def explain(self) -> str:
        """The kernels as a table."""
        return kernel_table(self.rows())

    @property
    def code(self) -> str:
        """The LLVM IR of the program."""
        return self.program.ir

    @property
    def assembly(self) -> str:
        """The machine code of the program as text."""
        return self.program.assembly()

    def _all_constants(self) -> list[Any]:
        """What the program is given between inputs and results."""
        return self._constants

    def run(self, arrays: list[Any], results: list[Any], arena: Any, constants: list[Any],
            call: Any) -> Any:
        """call(table, arena) with the addresses of these arrays: what `launch` does, in Python."""
        held = [*arrays, *constants, *results]
        table = array.array("Q", map(address, held))  # a third of what a ctypes array takes
        return call(table.buffer_info()[0], 0 if arena is None else address(arena))

    def _take_arena(self) -> Any:
        try:
            return self._arenas.pop()
        except IndexError:
            return aligned(self.arena)
