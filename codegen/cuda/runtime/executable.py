"""A graph's program on a device: arrays of the device in, arrays of the device out."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Collection, Mapping
from typing import Any

import numpy as np

from ....capture.graph.graph import Graph
from ....capture.runtime.metrics import Memory
from ....eager.arrays.shapes import TensorType
from ...dynamic.dynamic_program import DynamicProgram
from ...program.executable import ExecutableInput, Interface
from ...program.kernel_stats import bytes_of, kernel_facts, kernel_table, merged_row
from ..program import CudaProgram, program_for_any, program_of
from .graph_replay import GraphReplay
from .protocol import Array, Device


def compile_on(graph: Graph, device: Device, checks: bool = True, numbers: Collection[int] = ()
               ) -> DeviceExecutable:
    """The program of a graph, on a device; CodegenError where something in it has no code.
    `numbers`: the inputs that are arrays of the CPU, of one element each."""
    return DeviceExecutable(program_of(graph, checks, device.choice), device, numbers)


def compile_for_any(graph: Graph, least: Mapping[str, int], device: Device,
                    numbers: Collection[int] = ()) -> DynamicProgram:
    """The same for all sizes up to at least these; CodegenError where code depends on the sizes."""
    made = program_for_any(graph, least)
    return OnDevice(made.capacity, made.equal_to, DeviceExecutable(made.program, device, numbers),
                    made.results, made.shapes)


class OnDevice(DynamicProgram):
    """A program for any size on a device."""

    def maker(self, shape: tuple[int, ...], dtype: Any) -> Callable[[], Array]:
        """What makes a result there."""
        return maker(self.program.device, shape, dtype)


def maker(device: Device, shape: tuple[int, ...], dtype: Any) -> Callable[[], Array]:
    """What makes an array on a device."""
    return lambda: device.empty(shape, dtype)


class DeviceExecutable:
    """A program with its module loaded and its constants uploaded."""

    def __init__(self, program: CudaProgram, device: Device, numbers: Collection[int] = ()) -> None:
        self.program, self.device = program, device
        self.interface: Interface = program.interface
        sizes = [len(self.interface.inputs) - 1] if self.interface.sizes else []
        self._numbers = [*sorted(numbers), *sizes]
        self._constants = [device.upload(a) for a in self.interface.constants]
        self._results = [maker(device, t.shape, t.dtype) for t in self.interface.results]
        self._running = GraphReplay(program, device, self._numbers)

    def __call__(self, arrays: list[Array], given: ExecutableInput | None = None) -> list[Array]:
        """The outputs for these inputs; IndexError for indices out of range."""
        for i, check in self.interface.input_checks:
            check.require(arrays[i])
        results, shapes = self._results, self.interface.shapes
        if given is not None:
            arrays.append(given.sizes)
            results, shapes = given.results, given.shapes
        taken = [i for i in self.interface.overwritten if not self.device.is_free(arrays, i)]
        ready = [a if i in self._numbers else self.device.ready(a) for i, a in enumerate(arrays)]
        for i in taken:
            ready[i] = self.device.copy(ready[i])
        table = [*ready, *self._constants, *[make() for make in results]]
        self._running(table)
        found = [table[i] for i in self.interface.outputs]
        for check in self.interface.output_checks:
            check.require(found[check.output])
        return [a if a.shape == shape else a.reshape(shape)
                for a, shape in zip(found, shapes)]

    # ---- what is told of it
    def rows(self, repeats: int = 7) -> list[dict[str, Any]]:
        """A row per launch with its median time on made-up inputs."""
        given = [np.ones(t.shape, t.dtype) for t in self.interface.inputs]
        if self.interface.sizes:
            given[-1][:len(self.interface.sizes)] = self.interface.sizes
        table = [a if i in self._numbers else self.device.upload(a) for i, a in enumerate(given)]
        results = [self.device.empty(t.shape, t.dtype) for t in self.interface.results]
        runs = self._running.launches([*table, *self._constants, *results])
        functions = self.program.module.functions
        times = [[self.device.seconds(run, functions[step.function].product is None)
                  for run, step in zip(runs, self.program.steps)] for _ in range(repeats)]
        facts = [merged_row(kernel_facts(functions[s.function].kernels, self._limit))
                 for s in self.program.steps]
        return [{**row, "seconds": statistics.median(t)} for row, t in zip(facts, zip(*times))]

    def _limit(self, flops: float, size: float, width: int) -> float:
        return size / self.device.bandwidth

    def explain(self) -> str:
        """The kernels as a table."""
        return kernel_table(self.rows())

    @property
    def memory(self) -> Memory:
        """What a call takes."""
        given: list[TensorType] = self.interface.inputs
        constants = sum(a.nbytes for a in self.interface.constants)
        return Memory(bytes_of(given) + constants, bytes_of(self.interface.results),
                      self.program.arena + self.program.scratch)

    @property
    def code(self) -> str:
        """The CUDA C of the program."""
        return self.program.module.source

    @property
    def assembly(self) -> str:
        """A note: nothing here can read the code of a GPU."""
        return "// cuobjdump --dump-sass, of CUDA's toolkit, shows the code of a GPU"

