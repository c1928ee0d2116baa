"""A compiled graph that can be called: arrays in, arrays out."""

from __future__ import annotations

import array
import functools
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ..capture import watching
from ..capture.costs import Memory
from ..capture.evaluate import evaluate_node
from ..capture.graph import Graph, Node
from ..capture.passes.checks import Check
from ..eager import memory
from ..eager.ops.check import require
from .address import address, aligned
from .calling import NOTHING, SHORT_NANOSECONDS, Call, Launch, launcher, make_ready
from .llvm.program import NativeProgram
from .loops import Buffer, Kernel
from .objects import LAYOUT
from .report import bytes_of, kernel_facts, kernel_table


class Table(NamedTuple):
    """What there is in a program's table beside inputs and results: the constants between them.
    Where in it the outputs are, and which of the inputs are written over."""

    constants: list[Any]
    outputs: list[int]
    overwritten: list[int]


@dataclass
class Plan:
    """What a program is called with. The table holds inputs, then constants, then results."""

    graph: Graph
    buffers: dict[Node, Buffer]
    arguments: dict[Buffer, int]
    constants: list[Node]
    results: list[Node]
    taken: dict[Node, Node]  # outputs that take an input's memory
    checks: list[Check]
    shapes: tuple[Any, ...]
    wanted: int  # how many of the graph's outputs the caller asked for
    sizes: tuple[int, ...] = ()  # those that stand for any; if there are some, the last input


class Given(NamedTuple):
    """What a program for any size is called with: the sizes, as an array; what makes its results;
    and the shapes of its outputs."""

    sizes: Any
    results: list[Any]
    shapes: tuple[Any, ...]


class Executable:
    """A native program with its plan. Calls may come from several threads at once."""

    def __init__(
        self, plan: Plan, kernels: Sequence[Kernel], program: NativeProgram, arena: int
    ) -> None:
        self.plan, self.kernels, self.program, self.arena = plan, list(kernels), program, arena
        number = {n: i for i, n in enumerate(plan.graph.inputs)}
        self._overwritten = sorted(number[n] for n in plan.taken.values())
        self._constants = [np.ascontiguousarray(evaluate_node(n, [])) for n in plan.constants]
        self._results = [memory.maker(n.type.shape, n.type.dtype) for n in plan.results]
        self._outputs = [self._where(n, number) for n in plan.graph.outputs]
        self._arenas: list[Any] = []
        before = [c for c in plan.checks if plan.graph.outputs[c.output] in number]
        self._before = [(number[plan.graph.outputs[c.output]], c) for c in before]
        self._after = [c for c in plan.checks if c not in before]
        self._straight = self._gives_results()
        self._launch = self._launcher(program.address, self._constants)

    def _where(self, node: Node, number: dict[Node, int]) -> int:
        """The output's place among inputs, constants and results."""
        node = self.plan.taken.get(node, node)
        if node in number:
            return number[node]
        others = [*self.plan.constants, *self.plan.results]
        return len(number) + others.index(node)

    def _gives_results(self) -> bool:
        """Whether the outputs are just the results, in their order and shapes."""
        first = len(self.plan.graph.inputs) + len(self._constants)
        return self._outputs == list(range(first, first + len(self._results))) \
            and not self._after and self.plan.wanted == len(self._results) \
            and all(n.type.shape == s for n, s in zip(self.plan.results, self.plan.shapes))

    def _launcher(self, program: int, constants: list[Any], same: Mapping[int, Any] = NOTHING
                  ) -> Launch:
        """launch(arrays, results, arena) runs the `program`, or refuses what needs a closer look:
        inputs, too, that are not the `same` arrays."""
        if LAYOUT is None:
            return lambda arrays, results, arena: False
        keeps_lock = sum(k.cost for k in self.kernels) < SHORT_NANOSECONDS
        call = Call("fusewire_run", program, keeps_lock, len(self.plan.graph.inputs),
                    len(self._results), self._overwritten)
        return launcher(call, constants, same)

    def __call__(self, arrays: list[Any], given: Given | None = None) -> list[Any]:
        """The outputs for these inputs; IndexError for indices out of range."""
        for i, check in self._before:
            require(arrays[i], check.size, check.what)
        makers, shapes = self._results, self.plan.shapes
        if given is not None:
            arrays.append(given.sizes)
            makers, shapes = given.results, given.shapes
        results = []
        for make in makers:  # a comprehension would cost a call
            results.append(make())
        arena = self._take_arena() if self.arena else None
        try:
            if watching.on or not self._launch(arrays, results, arena):
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
        if not watching.on:
            call = self.program.later if first else self.program.run
            self.run(arrays, results, arena, constants, call)
            return
        with watching.Span("program", "program", about=self) as span:
            span.parts = self.run(arrays, results, arena, constants,
                                  lambda table, own: self.program.profile(table, own, first))

    def _found(self, arrays: list[Any], results: list[Any], shapes: tuple[Any, ...]) -> list[Any]:
        everything = [*arrays, *self._constants, *results]
        found = [everything[i] for i in self._outputs]
        for check in self._after:
            require(found[check.output], check.size, check.what)
        return [a if a.shape == shape else a.reshape(shape)
                for a, shape in zip(found[:self.plan.wanted], shapes)]

    def rows(self, repeats: int = 7) -> list[dict[str, Any]]:
        """A row per kernel with its median time on made-up inputs: what a kernel takes depends on
        its sizes, hardly on the values."""
        times = []
        for _ in range(repeats):
            arrays = [np.ones(n.type.shape, n.type.dtype) for n in self.plan.graph.inputs]
            if self.plan.sizes:
                arrays[-1][:len(self.plan.sizes)] = self.plan.sizes
            results = [make() for make in self._results]
            steps = self.run(arrays, results, self._take_arena(), self._all_constants(),
                             self.program.profile)
            times.append([ended - began for began, ended in steps])
        medians = [statistics.median(t) for t in zip(*times)]
        return [{**row, "seconds": s} for row, s in zip(self.facts, medians)]

    @functools.cached_property
    def facts(self) -> list[dict[str, Any]]:
        """What is known of each kernel before it has run: a row of `rows`, without times."""
        return kernel_facts(self.kernels)

    @property
    def memory(self) -> Memory:
        """What a call takes."""
        graph = self.plan.graph
        inputs, results = [*graph.inputs, *self.plan.constants], self.plan.results
        return Memory(bytes_of(inputs), bytes_of(results), self.arena)

    @property
    def table(self) -> Table:
        """How a call fills the program's table and reads it."""
        return Table(self._constants, self._outputs, self._overwritten)

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
