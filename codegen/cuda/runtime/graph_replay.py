"""Runs the steps of a program on a device: one by one, or as replayed CUDA graphs.

Launching a step takes longer than running a small kernel. If the buffers of a call are at the
same addresses as in an earlier call, as is usual in a training loop, its steps are launched as
a graph that was captured then. Library calls stand between graphs, since CuPy cannot capture
cuBLAS.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Hashable, Iterator, Sequence
from itertools import accumulate
from typing import NamedTuple

import numpy as np

from ....capture.runtime.specialization_cache import Specializations
from ....eager.fork_safety import held_while_forking
from ...ir.loop_ir import KernelBuffer
from ...program.kernel_stats import bytes_of
from ...program.native_program import Arena, Slot
from ..program import CudaProgram
from .protocol import Array, BufferAddresses, Device, DeviceLaunch, MemoryRange

ALIGNMENT_BYTES = 16  # of numbers from the CPU: kernels may read them as vectors
MIN_STEPS_PER_GRAPH = 4  # fewer are launched one by one
_BYTE = np.dtype("uint8")
_LOCK = held_while_forking(threading.RLock())


class CallMemory(NamedTuple):
    """The memory of a call: temporaries, scratch of kernels, and numbers from the CPU."""

    arena: Array
    scratch: Array
    numbers: Array


class GraphReplay:
    """A program's module on a device. Several threads may call it at once."""

    def __init__(self, program: CudaProgram, device: Device, numbers: Sequence[int] = ()) -> None:
        """`numbers` are the positions of CPU numbers in a call's table."""
        self.program, self._device = program, device
        sizes = [-(-bytes_of([program.interface.inputs[i]]) // ALIGNMENT_BYTES) * ALIGNMENT_BYTES
                 for i in numbers]
        self._numbers = dict(zip(numbers, accumulate(sizes, initial=0)))
        self._sizes = sizes
        self._module = device.load(program.module.source)
        self._graphs: Specializations[list[DeviceLaunch]] = Specializations("CUDA graphs", _LOCK)
        self._memory: dict[Hashable, CallMemory] = {}  # for graphs, by stream

    def __call__(self, table: Sequence[Array]) -> None:
        """Launches every step, on inputs, constants and results."""
        worth_graph = len(self.program.steps) >= MIN_STEPS_PER_GRAPH
        addresses = self._addresses(table) if worth_graph else None
        if addresses is not None and self._replay_graphs(addresses, table):
            return
        for launch in self.launches(table):
            launch()

    def _replay_graphs(self, addresses: BufferAddresses, table: Sequence[Array]) -> bool:
        """Runs all steps as graphs; False if no earlier call had all buffers at these addresses."""
        with _LOCK:  # launches of the same graphs share an arena
            launches = self._graphs.get(addresses, lambda: list(
                self._as_graphs(table, self._memory_of(addresses.stream))))
            if launches is None:
                return False
            self._upload_numbers(self._memory_of(addresses.stream), table)
            for launch in launches:
                launch()
            return True

    def _memory_of(self, stream: Hashable) -> CallMemory:
        """The memory of all graphs that run in a stream."""
        if stream not in self._memory:
            self._memory[stream] = self._allocate()
        return self._memory[stream]

    def launches(self, table: Sequence[Array]) -> list[DeviceLaunch]:
        """The launches of all steps, in newly allocated memory."""
        memory = self._allocate()
        self._upload_numbers(memory, table)
        return list(self._launches(table, memory))

    # ---- graphs
    def _addresses(self, table: Sequence[Array]) -> BufferAddresses | None:
        return self._device.addresses([a for i, a in enumerate(table) if i not in self._numbers])

    def _as_graphs(self, table: Sequence[Array], memory: CallMemory) -> Iterator[DeviceLaunch]:
        """Captures the steps as graphs, with library calls between them."""
        pending: list[DeviceLaunch] = []
        functions = self.program.module.functions
        for step, launch in zip(self.program.steps, self._launches(table, memory)):
            if functions[step.function].product is None:
                pending.append(launch)
            else:
                yield from self._capture(pending, memory)
                yield launch
                pending = []
        yield from self._capture(pending, memory)

    def _capture(self, pending: list[DeviceLaunch], memory: CallMemory) -> list[DeviceLaunch]:
        def work() -> None:
            for launch in pending:
                launch()

        if len(pending) < MIN_STEPS_PER_GRAPH:
            return pending
        return [self._device.capture(work, memory).launch]

    # ---- steps
    def _allocate(self) -> CallMemory:
        sizes = self.program.arena, self.program.scratch, sum(self._sizes)
        return CallMemory(*[self._device.empty((size,), _BYTE) for size in sizes])

    def _upload_numbers(self, memory: CallMemory, table: Sequence[Array]) -> None:
        """Copies the numbers of a call to the device."""
        if self._numbers:
            values = b"".join([table[i].tobytes().ljust(size)
                               for i, size in zip(self._numbers, self._sizes)])
            self._device.write(memory.numbers, np.frombuffer(values, _BYTE))

    def _launches(self, table: Sequence[Array], memory: CallMemory) -> Iterator[DeviceLaunch]:
        for step in self.program.steps:
            function = self.program.module.functions[step.function]
            arguments = [self._region(slot, buffer, table, memory)
                         for slot, buffer in zip(step.slots, function.arguments)]
            if function.scratch:
                arguments.append(MemoryRange(memory.scratch, 0, _BYTE, function.scratch))
            yield functools.partial(self._module.launch, function, arguments)

    def _region(self, slot: Slot, buffer: KernelBuffer, table: Sequence[Array],
                memory: CallMemory) -> MemoryRange:
        array, offset = memory.arena, slot.offset
        if not isinstance(slot, Arena):
            number = self._numbers.get(slot.index)
            array = table[slot.index] if number is None else memory.numbers
            offset += number or 0
        available = (array.size * array.dtype.itemsize - offset) // buffer.dtype.itemsize
        return MemoryRange(array, offset, buffer.dtype, min(available, buffer.size))
