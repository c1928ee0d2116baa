"""Runs a graph's program on a GPU: takes and returns arrays of that GPU."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Collection
from typing import Any

import numpy as np

from ....capture.runtime.metrics import Memory
from ....eager.arrays.shapes import TensorType
from ...program.executable import ProgramExecutable
from ...program.kernel_stats import bytes_of, kernel_facts, merged_row
from ..program import CudaProgram
from .graph_replay import GraphReplay
from .protocol import Array, Device


class DeviceExecutable(ProgramExecutable):
    """A program with its module loaded and its constants uploaded."""

    def __init__(self, program: CudaProgram, device: Device, numbers: Collection[int] = ()) -> None:
        self.program, self.device = program, device
        super().__init__(program.interface)
        sizes = [len(self.interface.inputs) - 1] if self.interface.sizes else []
        self._numbers = [*sorted(numbers), *sizes]
        self._constants = [device.upload(a) for a in self.interface.constants]
        self._replay = GraphReplay(program, device, self._numbers)

    def maker(self, shape: tuple[int, ...], dtype: Any) -> Callable[[], Array]:
        """A function that allocates an array on the device."""
        device = self.device  # may be asked before the program is
        return lambda: device.empty(shape, dtype)

    def _execute(self, arrays: list[Array], results: list[Array]) -> None:
        device = self.device
        shared_inputs = [i for i in self.interface.overwritten if not device.is_free(arrays, i)]
        for i, array in enumerate(arrays):
            if i not in self._numbers:
                arrays[i] = device.ready(array)
        for i in shared_inputs:
            arrays[i] = device.copy(arrays[i])
        self._replay([*arrays, *self._constants, *results])

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
