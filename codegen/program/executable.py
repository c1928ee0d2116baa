"""Runs a compiled graph: arrays in, arrays out."""

from __future__ import annotations

import array
import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ...capture.graph.graph import Graph, Node
from ...capture.graph.reference_interpreter import evaluate_node
from ...capture.passes.bounds_checks import BoundsCheck
from ...capture.runtime import profiling_spans
from ...capture.runtime.metrics import Memory
from ...eager.arrays import memory
from ...eager.arrays.shapes import TensorType
from ..ir.loop_ir import Kernel, KernelBuffer
from ..ir.sizes import upper_bound
from ..runtime.cpython.data_pointers import address, aligned
from .kernel_stats import bytes_of, kernel_facts, kernel_table
from .listing import listing, plain_listing
from .native_call import (
    NOTHING,
    SHORT_NANOSECONDS,
    LaunchFunction,
    NativeCall,
    launcher,
    make_ready,
)
from .native_program import NativeProgram


@dataclass
class Plan:
    """The interface of a program, and the buffers of its values."""

    graph: Graph
    buffers: dict[Node, KernelBuffer]
    arguments: dict[KernelBuffer, int]
    constants: list[Node]
    results: list[Node]
    donated: dict[Node, Node]  # outputs that take an input's memory
    checks: list[BoundsCheck]
    shapes: tuple[Any, ...]
    output_count: int  # how many of the graph's outputs the caller asked for
    sizes: tuple[int, ...] = ()  # those that stand for any; if there are some, the last input


@dataclass(frozen=True)
class Interface:
    """The signature of a program. Its table holds inputs, then constants, then results."""

    inputs: list[TensorType]
    constants: list[Any]
    results: list[TensorType]
    outputs: list[int]  # where in the table they are
    overwritten: list[int]  # the inputs whose memory outputs take
    input_checks: list[tuple[int, BoundsCheck]]  # inputs that are looked at before the program runs
    output_checks: list[BoundsCheck]
    shapes: tuple[Any, ...]  # of the outputs that the caller asked for
    sizes: tuple[int, ...]  # those that stand for any; if there are some, the last input

    def type_of_output(self, number: int) -> TensorType:
        """The type of an output of the graph, as the table holds it."""
        constants = [TensorType(c.shape, c.dtype) for c in self.constants]
        return [*self.inputs, *constants, *self.results][self.outputs[number]]

    @property
    def returned_results(self) -> set[int]:
        """The numbers of the results that the caller asked for; others are only checked."""
        first = len(self.inputs) + len(self.constants)
        return {i - first for i in self.outputs[:len(self.shapes)]}

    @property
    def has_checks(self) -> bool:
        """True if values are checked before or after a call."""
        return bool(self.input_checks or self.output_checks)

    @property
    def identity_outputs(self) -> bool:
        """True if the outputs are exactly the results, in order and with their shapes."""
        first = len(self.inputs) + len(self.constants)
        return self.outputs == list(range(first, first + len(self.results))) \
            and not self.output_checks and tuple([t.shape for t in self.results]) == self.shapes


def interface_of(plan: Plan) -> Interface:
    """The interface of a planned program."""
    inputs = {n: i for i, n in enumerate(plan.graph.inputs)}
    table = {n: i for i, n in enumerate((*inputs, *plan.constants, *plan.results))}
    outputs = plan.graph.outputs
    checks = [c.over_named_sizes() for c in plan.checks]
    before = [(inputs[outputs[c.output]], c) for c in checks if outputs[c.output] in inputs]
    return Interface(
        [_at_capacity(n.type) for n in inputs], [np.ascontiguousarray(evaluate_node(n, []))
                                                 for n in plan.constants],
        [_at_capacity(_stored_type(n)) for n in plan.results],
        [table[plan.donated.get(n, n)] for n in outputs],
        sorted(inputs[n] for n in plan.donated.values()), before,
        [c for c in checks if outputs[c.output] not in inputs],
        tuple([tuple(map(upper_bound, shape)) for shape in plan.shapes[:plan.output_count]]),
        plan.sizes)


def _at_capacity(of: TensorType) -> TensorType:
    """A type with the largest sizes that it can have."""
    return TensorType(tuple(map(upper_bound, of.shape)), of.dtype)


def _stored_type(result: Node) -> TensorType:
    """The type of the array that takes a result: codes are stored as the dtype that they encode."""
    dtype = result.params["dtype"] if result.op == "as_stored" else result.type.dtype
    return TensorType(result.type.shape, dtype)


class ExecutableInput(NamedTuple):
    """The arguments that bind a dynamic-shape program: an array of the sizes, functions that
    allocate the results, the shapes of the outputs, and the checks of its interface."""

    sizes: Any
    results: list[Any]
    shapes: tuple[Any, ...]
    input_checks: list[tuple[int, BoundsCheck]]
    output_checks: list[BoundsCheck]


class ProgramExecutable:
    """A program that takes and returns arrays of one device. Calls may come from several threads at
    once. A back end says how it runs the program, and how it allocates a result."""

    def __init__(self, interface: Interface) -> None:
        self.interface = interface
        self._results = [self.maker(t.shape, t.dtype) for t in interface.results]
        self._identity_outputs = interface.identity_outputs
        self._constants: list[Any] = interface.constants  # on the device

    def maker(self, shape: tuple[int, ...], dtype: Any) -> Callable[[], Any]:
        """A function that allocates an array for a result."""
        raise NotImplementedError

    def _execute(self, arrays: list[Any], results: list[Any]) -> None:
        """Runs the program. An array that is copied first, as an input that the program overwrites
        while others hold it, takes the place of the original in `arrays`."""
        raise NotImplementedError

    def __call__(self, arrays: list[Any], bound: ExecutableInput | None = None) -> list[Any]:
        """The outputs for these inputs. Raises IndexError for indices out of range."""
        given: Interface | ExecutableInput = self.interface if bound is None else bound
        for i, check in given.input_checks:
            check.require(arrays[i])
        makers = self._results
        if bound is not None:
            arrays.append(bound.sizes)
            makers = bound.results
        results = []
        for make in makers:  # a comprehension would cost a call
            results.append(make())
        self._execute(arrays, results)
        return results if self._identity_outputs else self._outputs_of(arrays, results, given)

    def _outputs_of(self, arrays: list[Any], results: list[Any],
                    given: Interface | ExecutableInput) -> list[Any]:
        everything = [*arrays, *self._constants, *results]
        outputs = [everything[i] for i in self.interface.outputs]
        for check in given.output_checks:
            check.require(outputs[check.output])
        return [a if a.shape == shape else a.reshape(shape)
                for a, shape in zip(outputs, given.shapes)]

    def rows(self, repeats: int = 7) -> list[dict[str, Any]]:
        """A row per kernel with its median time on made-up inputs."""
        raise NotImplementedError

    def explain(self) -> str:
        """The kernels as a table."""
        return kernel_table(self.rows())

    def listings(self) -> list[dict[str, Any]]:
        """The program as plain data (`listing.py`); the list has one item."""
        return [plain_listing(self.rows(), code=getattr(self, "code", ""))]


class Executable(ProgramExecutable):
    """A native program of the CPU with its plan."""

    def __init__(self, interface: Interface, program: NativeProgram, arena: int) -> None:
        super().__init__(interface)
        self.program, self.arena = program, arena
        self._overwritten = interface.overwritten
        self._arenas: list[Any] = []
        self._launch = self._launcher(program.address, self._constants)

    def maker(self, shape: tuple[int, ...], dtype: Any) -> Callable[[], Any]:
        """A function that allocates an array for a result."""
        return memory.maker(shape, dtype)

    def _launcher(self, program: int, constants: list[Any], same: Mapping[int, Any] = NOTHING
                  ) -> LaunchFunction:
        """launch(arrays, results, arena) runs the `program`. It refuses unexpected arrays, which
        `_slow_call` handles, and inputs other than the `same` arrays."""
        keeps_lock = self.program.cost < SHORT_NANOSECONDS
        call = NativeCall("fusewire_run", program, keeps_lock, len(self.interface.inputs),
                          len(self._results), self._overwritten)
        return launcher(call, constants, same)

    @property
    def is_plain(self) -> bool:
        """True if a call only runs the program on inputs, constants and results."""
        return self._identity_outputs and not self.interface.has_checks and not self._overwritten \
            and not self.interface.sizes and type(self) is Executable

    def _execute(self, arrays: list[Any], results: list[Any]) -> None:
        arena = self._take_arena() if self.arena else None
        try:
            if profiling_spans.on or not self._launch(arrays, results, arena):
                self._slow_call(arrays, results, arena)
        finally:
            if arena is not None:
                self._arenas.append(arena)

    def _slow_call(self, arrays: list[Any], results: list[Any], arena: Any) -> None:
        """Runs a call that `launch` refused or that is being profiled."""
        make_ready(arrays, self._overwritten)
        self._run_steps(arrays, results, arena, self._constants)

    def _run_steps(self, arrays: list[Any], results: list[Any], arena: Any, constants: list[Any],
                   first: int = 0) -> None:
        """Runs the steps from number `first` on, one by one while a profile is open."""
        if not profiling_spans.on:
            call = self.program.run_after_prologue if first else self.program.run
            self.run(arrays, results, arena, constants, call)
            return
        with profiling_spans.Span("program", "program", about=self) as span:
            span.parts = self.run(arrays, results, arena, constants,
                                  lambda table, own: self.program.profile(table, own, first))

    def rows(self, repeats: int = 7) -> list[dict[str, Any]]:
        """A row per kernel with its median time on made-up inputs: the time depends on sizes,
        hardly on values."""
        times, arena = [], self._take_arena()
        for _ in range(repeats):
            arrays = [np.ones(t.shape, t.dtype) for t in self.interface.inputs]
            if self.interface.sizes:
                arrays[-1][:len(self.interface.sizes)] = self.interface.sizes
            results = [make() for make in self._results]
            steps = self.run(arrays, results, arena, self._all_constants(), self.program.profile)
            times.append([ended - began for began, ended in steps])
        medians = [float(np.median(t)) for t in zip(*times)]
        return [{**row, "seconds": s} for row, s in zip(self.facts, medians)]

    def listings(self) -> list[dict[str, Any]]:
        return [listing(self.program.written.steps, self.rows(), self.arena, self.code)]

    @functools.cached_property
    def facts(self) -> list[dict[str, Any]]:
        """A row per kernel without its time."""
        return kernel_facts(self.program.kernels)

    @property
    def memory(self) -> Memory:
        """The memory of a call."""
        constants = sum(a.nbytes for a in self._constants)
        return Memory(bytes_of(self.interface.inputs) + constants,
                      bytes_of(self.interface.results), self.arena)

    @property
    def kernels(self) -> list[Kernel]:
        """The kernel of each step."""
        return self.program.kernels

    @property
    def code(self) -> str:
        """The LLVM IR of the program."""
        return self.program.ir

    @property
    def assembly(self) -> str:
        """The machine code of the program as text."""
        return self.program.assembly()

    def _all_constants(self) -> list[Any]:
        """The arguments between inputs and results."""
        return self._constants

    def run(self, arrays: list[Any], results: list[Any], arena: Any, constants: list[Any],
            call: Any) -> Any:
        """Calls `call(table, arena)` with the addresses of these arrays: `launch` in Python."""
        table_arrays = [*arrays, *constants, *results]
        table = array.array("Q", map(address, table_arrays))  # a third of what a ctypes array takes
        return call(table.buffer_info()[0], 0 if arena is None else address(arena))

    def _take_arena(self) -> Any:
        try:
            return self._arenas.pop()
        except IndexError:
            return aligned(self.arena)
