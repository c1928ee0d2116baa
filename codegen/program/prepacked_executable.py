"""Runs a program without its prologue while its persistent inputs are the same arrays."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ...capture.runtime import profiling_spans
from ...capture.runtime.metrics import Memory
from .executable import Executable, Interface
from .kernel_stats import kernel_facts
from .native_call import LaunchFunction, is_contiguous, make_ready
from .native_program import NativeProgram
from .prepack import PrepackedBuffers, PrepackWatch


class Parts(NamedTuple):
    """The parts of an executable beside its native program."""

    interface: Interface
    arena: int
    prepacked: PrepackedBuffers | None


@dataclass
class _Memory:
    """The results of the prologue, and the native call that reads them. `inputs`: the arrays that
    they were computed from, if they were."""

    constants: list[Any]
    launch: LaunchFunction
    inputs: dict[int, Any]


class PrepackedExecutable(Executable):
    """An executable that skips its prologue while the persistent inputs are the same arrays."""

    def __init__(self, interface: Interface, program: NativeProgram, arena: int,
                 prepacked: PrepackedBuffers
                 ) -> None:
        self.prepacked, self._watch = prepacked, PrepackWatch(prepacked.inputs)
        self._free: list[_Memory] = []  # for calls that make all steps
        self._prepacked_memory: _Memory | None = None
        self._packed: tuple[Sequence[Any], list[Any]] | None = None
        super().__init__(interface, program, arena)
        self._launch = self._launch_watching

    def _all_constants(self) -> list[Any]:
        return [*self._constants, *self.prepacked.memory()]

    def _take_memory(self) -> _Memory:
        try:
            return self._free.pop()
        except IndexError:
            constants = self._all_constants()
            return _Memory(constants, self._launcher(self.program.address, constants), {})

    def _launch_watching(self, arrays: list[Any], results: list[Any], arena: Any) -> bool:
        """Runs all steps; prepacks first if the inputs are the same as before."""
        prepacked = self._run_prologue(arrays, arena) if self._watch.same(arrays) else None
        memory = prepacked or self._take_memory()
        try:
            return memory.launch(arrays, results, arena)
        finally:
            if prepacked is None:
                self._give_back(memory)

    def _give_back(self, memory: _Memory) -> None:
        if self._prepacked_memory is None:
            self._free.append(memory)

    def _run_prologue(self, arrays: list[Any], arena: Any) -> _Memory | None:
        """Runs the prologue if its inputs are contiguous; returns the prepacked memory."""
        same = {i: arrays[i] for i in self.prepacked.inputs}
        if not all(map(is_contiguous, same.values())):
            self._watch.changed()
            return None
        constants = self._all_constants()
        self.run(arrays, [], arena, constants,
                 lambda table, arena_address: self.program.run_steps(table, arena_address, 0,
                                                                     self.prepacked.steps))
        launch = self._launcher(self.program.after_prologue_address, constants, same)
        prepacked = self._prepacked_memory = _Memory(constants, launch, same)
        self._launch = launch
        self._free.clear()
        return prepacked

    def packed(self, persistent: Sequence[Any]) -> list[Any]:
        """The results of the prologue for these persistent inputs; computed now if those of the
        last call were other arrays."""
        for inputs, packed in filter(None, (self._packed, self._packed_by_calls())):
            if all(a is b for a, b in zip(inputs, persistent)):
                return packed
        packed, arena = self.prepacked.memory(), self._take_arena()
        given = dict(zip(self.prepacked.inputs, map(np.ascontiguousarray, persistent)))
        other = next(iter(persistent), packed[0])  # which the prologue does not read
        arrays = [given.get(i, other) for i in range(len(self.interface.inputs))]
        self.run(arrays, [], arena, [*self._constants, *packed],
                 lambda table, arena_address: self.program.run_steps(table, arena_address, 0,
                                                                     self.prepacked.steps))
        self._arenas.append(arena)
        self._packed = tuple(persistent), packed
        return packed

    def _packed_by_calls(self) -> tuple[Sequence[Any], list[Any]] | None:
        """The persistent inputs of calls that skip the prologue, and its results."""
        own = self._prepacked_memory
        return None if own is None else (
            [own.inputs[i] for i in self.prepacked.inputs], own.constants[len(self._constants):])

    def _valid_memory(self, arrays: list[Any]) -> _Memory | None:
        """The prepacked memory if it was computed from these arrays; otherwise it is dropped.
        Another thread may replace it at any time."""
        prepacked = self._prepacked_memory
        if prepacked is not None and prepacked.launch is self._launch and \
                all(arrays[i] is a for i, a in prepacked.inputs.items()):
            return prepacked
        if self._launch != self._launch_watching:
            self._prepacked_memory, self._launch = None, self._launch_watching
            self._watch.changed()
        return None

    def _slow_call(self, arrays: list[Any], results: list[Any], arena: Any) -> None:
        prepacked = self._valid_memory(arrays)
        if prepacked is None and profiling_spans.on and self._watch.same(arrays):
            prepacked = self._run_prologue(arrays, arena)
        memory = prepacked or self._take_memory()
        make_ready(arrays, self._overwritten)
        try:
            self._run_steps(arrays, results, arena, memory.constants, self.prepacked.steps
                            if prepacked else 0)
        finally:
            if prepacked is None:
                self._give_back(memory)

    @functools.cached_property
    def facts(self) -> list[dict[str, Any]]:
        rows = kernel_facts(self.kernels)
        for row in rows[:self.prepacked.steps]:
            row["name"] += ", prepacked"
        return rows

    @property
    def memory(self) -> Memory:
        needed = super().memory
        return needed._replace(arena=needed.arena + sum(self.prepacked.sizes))
