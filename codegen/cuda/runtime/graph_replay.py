"""How the steps of a program run on a device: one by one, or many at once, as graphs of it.

A step takes longer to launch than a small kernel to run. Where everything that a call reads and
writes lies at the same addresses as in a call before, as it mostly does in a loop that trains, all
its steps are launched as one graph, which the device made of that call's. What a library computes
stands between graphs: CuPy hands cuBLAS no stream that is being recorded.
"""

from __future__ import annotations

import functools
import threading
from collections import OrderedDict
from collections.abc import Hashable, Iterator, Sequence
from itertools import accumulate
from typing import NamedTuple

import numpy as np

from ....eager.fork_safety import held_while_forking
from ...ir.loop_ir import Buffer
from ...program.kernel_stats import bytes_of
from ...program.native_program import Arena, Slot
from ..program import CudaProgram
from .protocol import Array, BufferPlaces, Device, Launch, Region

ALIGN = 16  # bytes: where what comes from the CPU begins, as kernels may read such pieces
FEW = 4  # steps, at least so many of which are worth a graph
SEEN = 256  # sets of addresses that are remembered
GRAPHS = 16  # of these, those that have graphs; the one not met for longest makes room
_BYTE = np.dtype("uint8")
_LOCK = held_while_forking(threading.RLock())


class Space(NamedTuple):
    """Memory that a call works in: between its kernels, inside of them, and numbers of the CPU."""

    arena: Array
    scratch: Array
    numbers: Array


class GraphReplay:
    """A program's module on a device. Calls may come from several threads at once."""

    def __init__(self, program: CudaProgram, device: Device, numbers: Sequence[int] = ()) -> None:
        """numbers: the places in a call's table of what comes from the CPU."""
        self.program, self._device = program, device
        sizes = [-(-bytes_of([program.interface.inputs[i]]) // ALIGN) * ALIGN for i in numbers]
        self._numbers = dict(zip(numbers, accumulate(sizes, initial=0)))
        self._sizes = sizes
        self._module = device.load(program.module.source)
        self._seen: OrderedDict[BufferPlaces, None] = OrderedDict()
        self._graphs: OrderedDict[BufferPlaces, list[Launch]] = OrderedDict()
        self._spaces: dict[Hashable, Space] = {}  # of graphs, by stream

    def __call__(self, table: Sequence[Array]) -> None:
        """Launches every step, on inputs, constants and results."""
        places = self._places(table) if len(self.program.steps) >= FEW else None
        if places is None or not self._is_met_again(places):
            for launch in self.launches(table):
                launch()
            return
        with _LOCK:  # others who launch the same graphs write to the same arena
            if places.stream not in self._spaces:
                self._spaces[places.stream] = self._space()
            space = self._spaces[places.stream]
            if places not in self._graphs:
                self._make(places, table, space)
            self._graphs.move_to_end(places)
            self._fill(space, table)
            for launch in self._graphs[places]:
                launch()

    def launches(self, table: Sequence[Array]) -> list[Launch]:
        """What launches each step, in memory of its own."""
        space = self._space()
        self._fill(space, table)
        return list(self._launches(table, space))

    # ---- graphs
    def _places(self, table: Sequence[Array]) -> BufferPlaces | None:
        return self._device.places([a for i, a in enumerate(table) if i not in self._numbers])

    def _is_met_again(self, places: BufferPlaces) -> bool:
        """Whether a call found everything at these places before."""
        with _LOCK:
            known = places in self._seen
            self._seen[places] = None
            self._seen.move_to_end(places)
            if len(self._seen) > SEEN:
                self._seen.popitem(last=False)
            return known

    def _make(self, places: BufferPlaces, table: Sequence[Array], space: Space) -> None:
        """Makes graphs of the steps, and between them what a library computes."""
        made: list[Launch] = []
        run: list[Launch] = []
        functions = self.program.module.functions
        for step, launch in zip(self.program.steps, self._launches(table, space)):
            if functions[step.function].product is None:
                run.append(launch)
            else:
                made += [*self._captured(run, space), launch]
                run = []
        self._graphs[places] = [*made, *self._captured(run, space)]
        if len(self._graphs) > GRAPHS:
            self._graphs.popitem(last=False)

    def _captured(self, run: list[Launch], space: Space) -> list[Launch]:
        def work() -> None:
            for launch in run:
                launch()

        return run if len(run) < FEW else [self._device.capture(work, space).launch]

    # ---- one step after the other
    def _space(self) -> Space:
        sizes = self.program.arena, self.program.scratch, sum(self._sizes)
        return Space(*[self._device.empty((size,), _BYTE) for size in sizes])

    def _fill(self, space: Space, table: Sequence[Array]) -> None:
        """Brings the numbers of a call to the device."""
        if self._numbers:
            values = b"".join([table[i].tobytes().ljust(size)
                               for i, size in zip(self._numbers, self._sizes)])
            self._device.write(space.numbers, np.frombuffer(values, _BYTE))

    def _launches(self, table: Sequence[Array], space: Space) -> Iterator[Launch]:
        for step in self.program.steps:
            function = self.program.module.functions[step.function]
            arguments = [self._region(slot, buffer, table, space)
                         for slot, buffer in zip(step.slots, function.arguments)]
            if function.scratch:
                arguments.append(Region(space.scratch, 0, _BYTE, function.scratch))
            yield functools.partial(self._module.launch, function, arguments)

    def _region(self, slot: Slot, buffer: Buffer, table: Sequence[Array], space: Space) -> Region:
        array, offset = space.arena, slot.offset
        if not isinstance(slot, Arena):
            number = self._numbers.get(slot.index)
            array = table[slot.index] if number is None else space.numbers
            offset += number or 0
        left = (array.size * array.dtype.itemsize - offset) // buffer.dtype.itemsize
        return Region(array, offset, buffer.dtype, min(left, buffer.size))
