"""A graph's program on a device: arrays of the device in, arrays of the device out."""

from __future__ import annotations

import functools
import statistics
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from ...capture.costs import Memory
from ...capture.graph import Graph
from ...eager.shapes import TensorType
from ..executable import Interface
from ..llvm.program import Arena, Slot
from ..loops import Buffer
from ..report import bytes_of, kernel_facts, kernel_table
from .cost import Choice
from .program import Program, Step, program_of
from .source import Function

Array = Any  # of a device
_BYTE = np.dtype("uint8")


class Region(NamedTuple):
    """Elements in a device's memory: `size` of them from a byte of an array on."""

    array: Array
    offset: int
    dtype: Any
    size: int


class Loaded(Protocol):
    """A module that a device can run."""

    def launch(self, function: Function, arguments: Sequence[Region]) -> None: ...


class Device(Protocol):
    """Where programs run, and their arrays are."""

    @property
    def choice(self) -> Choice:
        """What decides between ways to compute the same."""

    def load(self, source: str) -> Loaded: ...
    def empty(self, shape: tuple[int, ...], dtype: Any) -> Array: ...
    def upload(self, array: Any) -> Array: ...
    def copy(self, array: Array) -> Array: ...

    def ready(self, array: Array) -> Array:
        """The array as kernels read it, itself where it is so: its elements one after the other, in
        memory that begins at a multiple of 16 bytes."""

    def seconds(self, work: Callable[[], None]) -> float:
        """How long the device takes for what `work` launches."""

    @property
    def bandwidth(self) -> float:
        """The bytes that its memory can move in a second."""


def compile_on(graph: Graph, device: Device, checks: bool = True) -> DeviceExecutable:
    """The program of a graph, on a device; CodegenError where something in it has no code."""
    return DeviceExecutable(program_of(graph, checks, device.choice), device)


class DeviceExecutable:
    """A program with its module loaded and its constants uploaded."""

    def __init__(self, program: Program, device: Device) -> None:
        self.program, self.device = program, device
        self.interface: Interface = program.interface
        self._module = device.load(program.module.source)
        self._constants = [device.upload(a) for a in self.interface.constants]

    def __call__(self, arrays: list[Array]) -> list[Array]:
        """The outputs for these inputs; IndexError for indices out of range."""
        for i, check in self.interface.before:
            check.require(arrays[i])
        given = [self.device.ready(a) for a in arrays]
        for i in self.interface.overwritten:
            given[i] = self.device.copy(given[i])
        results = [self.device.empty(t.shape, t.dtype) for t in self.interface.results]
        table = [*given, *self._constants, *results]
        for launch in self._launches(table):
            launch()
        found = [table[i] for i in self.interface.outputs]
        for check in self.interface.after:
            check.require(found[check.output])
        return [a.reshape(shape) for a, shape in zip(found, self.interface.shapes)]

    def _launches(self, table: Sequence[Array]) -> Iterator[Callable[[], None]]:
        """What launches each step."""
        arena = self.device.empty((self.program.arena,), _BYTE)
        scratch = self.device.empty((self.program.scratch,), _BYTE)
        for step in self.program.steps:
            function = self.program.module.functions[step.function]
            arguments = _arguments(step, function, table, arena)
            if function.scratch:
                arguments.append(Region(scratch, 0, _BYTE, function.scratch))
            yield functools.partial(self._module.launch, function, arguments)

    # ---- what is told of it
    def rows(self, repeats: int = 7) -> list[dict[str, Any]]:
        """A row per kernel with its median time on made-up inputs."""
        given = [self.device.upload(np.ones(t.shape, t.dtype)) for t in self.interface.inputs]
        results = [self.device.empty(t.shape, t.dtype) for t in self.interface.results]
        runs = list(self._launches([*given, *self._constants, *results]))
        times = [[self.device.seconds(run) for run in runs] for _ in range(repeats)]
        functions = self.program.module.functions
        facts = kernel_facts([functions[s.function].kernel for s in self.program.steps],
                             lambda flops, size, width: size / self.device.bandwidth)
        return [{**row, "seconds": statistics.median(t)} for row, t in zip(facts, zip(*times))]

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


def _arguments(step: Step, function: Function, table: Sequence[Array], arena: Array
               ) -> list[Region]:
    return [_region(slot, buffer, table, arena)
            for slot, buffer in zip(step.slots, function.kernel.arguments)]


def _region(slot: Slot, buffer: Buffer, table: Sequence[Array], arena: Array) -> Region:
    array = arena if isinstance(slot, Arena) else table[slot.index]
    left = (array.size * array.dtype.itemsize - slot.offset) // buffer.dtype.itemsize
    return Region(array, slot.offset, buffer.dtype, min(left, buffer.size))
