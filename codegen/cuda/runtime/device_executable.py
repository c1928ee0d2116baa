"""Runs a graph's program on a device: takes and returns arrays of that device."""

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
from ..program import CudaProgram, dynamic_program_of, program_of
from .graph_replay import GraphReplay
from .protocol import Array, Device


def compile_on(graph: Graph, device: Device, checks: bool = True, numbers: Collection[int] = ()
               ) -> DeviceExecutable:
    """The program of a graph on a device. `numbers` are the inputs that are CPU arrays of one
    element. Raises CodegenError if a node has no code."""
    return DeviceExecutable(program_of(graph, checks, device.choice), device, numbers)


def compile_dynamic_on(graph: Graph, least: Mapping[str, int], device: Device,
                       numbers: Collection[int] = ()) -> DynamicProgram:
    """The program of a graph on a device for all sizes up to at least `least`. Raises CodegenError
    if the code depends on the sizes."""
    program = dynamic_program_of(graph, least)
    return DeviceDynamicProgram(program.capacity, program.equal_to,
                                DeviceExecutable(program.program, device, numbers), program.results,
                                program.shapes)


class DeviceDynamicProgram(DynamicProgram):
    """A program for any size on a device."""

    def maker(self, shape: tuple[int, ...], dtype: Any) -> Callable[[], Array]:
        """A function that allocates a result on the device."""
        return allocator(self.program.device, shape, dtype)


def allocator(device: Device, shape: tuple[int, ...], dtype: Any) -> Callable[[], Array]:
    """A function that allocates an array on a device."""
    return lambda: device.empty(shape, dtype)


class DeviceExecutable:
    """A program with its module loaded and its constants uploaded."""

    def __init__(self, program: CudaProgram, device: Device, numbers: Collection[int] = ()) -> None:
        self.program, self.device = program, device
        self.interface: Interface = program.interface
        sizes = [len(self.interface.inputs) - 1] if self.interface.sizes else []
        self._numbers = [*sorted(numbers), *sizes]
        self._constants = [device.upload(a) for a in self.interface.constants]
        self._results = [allocator(device, t.shape, t.dtype) for t in self.interface.results]
        self._replay = GraphReplay(program, device, self._numbers)

    def __call__(self, arrays: list[Array], bound: ExecutableInput | None = None) -> list[Array]:
        """Returns the outputs for these inputs. Raises IndexError for indices out of range."""
        for i, check in self.interface.input_checks:
            check.require(arrays[i])
        results, shapes = self._results, self.interface.shapes
        if bound is not None:
            arrays.append(bound.sizes)
            results, shapes = bound.results, bound.shapes
        shared_inputs = [i for i in self.interface.overwritten if not self.device.is_free(arrays,
                                                                                          i)]
        inputs = [a if i in self._numbers else self.device.ready(a) for i, a in enumerate(arrays)]
        for i in shared_inputs:
            inputs[i] = self.device.copy(inputs[i])
        table = [*inputs, *self._constants, *[make() for make in results]]
        self._replay(table)
        outputs = [table[i] for i in self.interface.outputs]
        for check in self.interface.output_checks:
            check.require(outputs[check.output])
        return [a if a.shape == shape else a.reshape(shape)
                for a, shape in zip(outputs, shapes)]

    # ---- reports
    def rows(self, repeats: int = 7) -> list[dict[str, Any]]:
        """A row per launch, with its median time on artificial inputs."""
        inputs = [np.ones(t.shape, t.dtype) for t in self.interface.inputs]
        if self.interface.sizes:
            inputs[-1][:len(self.interface.sizes)] = self.interface.sizes
        table = [a if i in self._numbers else self.device.upload(a) for i, a in enumerate(inputs)]
        results = [self.device.empty(t.shape, t.dtype) for t in self.interface.results]
        runs = self._replay.launches([*table, *self._constants, *results])
        functions = self.program.module.functions
        times = [[self.device.seconds(run, functions[step.function].product is None)
                  for run, step in zip(runs, self.program.steps)] for _ in range(repeats)]
        facts = [merged_row(kernel_facts(functions[s.function].kernels, self._bandwidth_bound))
                 for s in self.program.steps]
        return [{**row, "seconds": statistics.median(t)} for row, t in zip(facts, zip(*times))]

    def _bandwidth_bound(self, flops: float, size: float, width: int) -> float:
        return size / self.device.bandwidth

    def explain(self) -> str:
        """The kernels as a table."""
        return kernel_table(self.rows())

    @property
    def memory(self) -> Memory:
        """The memory that a call uses."""
        inputs: list[TensorType] = self.interface.inputs
        constants = sum(a.nbytes for a in self.interface.constants)
        return Memory(bytes_of(inputs) + constants, bytes_of(self.interface.results),
                      self.program.arena + self.program.scratch)

    @property
    def code(self) -> str:
        """The CUDA C of the program."""
        return self.program.module.source

    @property
    def assembly(self) -> str:
        """A note on how to disassemble the GPU code: no tool here can."""
        return "// cuobjdump --dump-sass, of CUDA's toolkit, shows the code of a GPU"

