"""A compiled graph that can be called: arrays in, arrays out."""

from __future__ import annotations

import array
import statistics
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..capture.evaluate import evaluate_node
from ..capture.graph import Graph, Node
from ..capture.passes.checks import Check
from ..eager import memory
from ..eager.ops.check import require
from .address import address
from .llvm.program import NativeProgram
from .loops import Buffer, Kernel
from .report import kernel_rows, kernel_table

# References to an array that only its tensor holds: the tensor, the argument list, the question.
_EXCLUSIVE = 3


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


class Executable:
    """A native program with its plan. Calls may come from several threads at once."""

    def __init__(
        self, plan: Plan, kernels: Sequence[Kernel], program: NativeProgram, arena: int
    ) -> None:
        self.plan, self.kernels, self.program, self.arena = plan, list(kernels), program, arena
        number = {n: i for i, n in enumerate(plan.graph.inputs)}
        self._overwritten = sorted(number[n] for n in plan.taken.values())
        self._constants = [np.ascontiguousarray(evaluate_node(n, [])) for n in plan.constants]
        self._results = [(n.type.shape, n.type.dtype) for n in plan.results]
        self._outputs = [self._where(n, number) for n in plan.graph.outputs]
        self._arenas: list[Any] = []
        before = [c for c in plan.checks if plan.graph.outputs[c.output] in number]
        self._before = [(number[plan.graph.outputs[c.output]], c) for c in before]
        self._after = [c for c in plan.checks if c not in before]

    def _where(self, node: Node, number: dict[Node, int]) -> int:
        """The output's place among inputs, constants and results."""
        node = self.plan.taken.get(node, node)
        if node in number:
            return number[node]
        others = [*self.plan.constants, *self.plan.results]
        return len(number) + others.index(node)

    def __call__(self, arrays: list[Any]) -> list[Any]:
        """The outputs for these inputs; IndexError for indices out of range."""
        for i, check in self._before:
            require(arrays[i], check.size, check.what)
        for i in self._overwritten:
            if sys.getrefcount(arrays[i]) > _EXCLUSIVE or not memory.is_whole(arrays[i]) \
                    or not arrays[i].flags.writeable:
                arrays[i] = arrays[i].copy()
        results = self.new_results()
        self.run(arrays, results, self.program.run)
        everything = [*arrays, *self._constants, *results]
        found = [everything[i] for i in self._outputs]
        for check in self._after:
            require(found[check.output], check.size, check.what)
        return [a if a.shape == shape else a.reshape(shape)
                for a, shape in zip(found[:self.plan.wanted], self.plan.shapes)]

    def new_results(self) -> list[Any]:
        """Fresh arrays for the results."""
        return [memory.empty(shape, dtype) for shape, dtype in self._results]

    def rows(self, repeats: int = 7) -> list[dict[str, Any]]:
        """A row per kernel with its median time on made-up inputs: what a kernel takes depends on
        its sizes, hardly on the values."""
        times = []
        for _ in range(repeats):
            arrays = [np.ones(n.type.shape, n.type.dtype) for n in self.plan.graph.inputs]
            times.append(self.run(arrays, self.new_results(), self.program.profile))
        return kernel_rows(self.kernels, [statistics.median(t) for t in zip(*times)])

    def explain(self) -> str:
        """The kernels as a table."""
        return kernel_table(self.rows())

    @property
    def code(self) -> str:
        """The LLVM IR of the program."""
        return self.program.ir

    def run(self, arrays: list[Any], results: list[Any], call: Any) -> Any:
        """call(table, arena) with the addresses of these arrays."""
        for i, a in enumerate(arrays):
            if not a.flags.c_contiguous:
                arrays[i] = np.ascontiguousarray(a).reshape(a.shape)
        held = [*arrays, *self._constants, *results]
        table = array.array("Q", map(address, held))  # a third of what a ctypes array takes
        arena = self._take_arena()
        try:
            return call(table.buffer_info()[0], address(arena))
        finally:
            self._arenas.append(arena)

    def _take_arena(self) -> Any:
        try:
            return self._arenas.pop()
        except IndexError:
            raw = np.empty(self.arena + 64, np.uint8)
            start = -raw.ctypes.data % 64
            return raw[start:start + self.arena]
