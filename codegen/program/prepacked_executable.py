"""A program that keeps what it computes from arrays that stay the same."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any, NamedTuple

from ...capture.runtime import spans
from ...capture.runtime.metrics import Memory
from .executable import Executable, Interface
from .kernel_stats import kernel_facts
from .native_call import Launch, make_ready
from .native_program import NativeProgram
from .prepack import PrepackedBuffers, PrepackWatch


class Parts(NamedTuple):
    """What a native program becomes an executable with."""

    interface: Interface
    arena: int
    kept: PrepackedBuffers | None


@dataclass
class _Memory:
    """What the first steps leave, and the native call that reads it. `same`: the inputs that it
    was made of, where it was."""

    constants: list[Any]
    launch: Launch
    same: dict[int, Any]


class PrepackedExecutable(Executable):
    """An executable whose first steps are left out while their inputs are the same arrays."""

    def __init__(self, interface: Interface, program: NativeProgram, arena: int,
                 kept: PrepackedBuffers
                 ) -> None:
        self.kept, self._watch = kept, PrepackWatch(kept.inputs)
        self._free: list[_Memory] = []  # for calls that make all steps
        self._known: _Memory | None = None
        super().__init__(interface, program, arena)
        self._launch = self._watching

    def _all_constants(self) -> list[Any]:
        return [*self._constants, *self.kept.memory()]

    def _take_memory(self) -> _Memory:
        try:
            return self._free.pop()
        except IndexError:
            constants = self._all_constants()
            return _Memory(constants, self._launcher(self.program.address, constants), {})

    def _watching(self, arrays: list[Any], results: list[Any], arena: Any) -> bool:
        """Makes all steps, or begins to keep what the first ones leave."""
        known = self._keep(arrays, arena) if self._watch.same(arrays) else None
        memory = known or self._take_memory()
        try:
            return memory.launch(arrays, results, arena)
        finally:
            if known is None:
                self._give_back(memory)

    def _give_back(self, memory: _Memory) -> None:
        if self._known is None:
            self._free.append(memory)

    def _keep(self, arrays: list[Any], arena: Any) -> _Memory | None:
        """Makes the first steps, if their inputs are as native code reads them."""
        same = {i: arrays[i] for i in self.kept.inputs}
        if not all(a.flags.c_contiguous and a.flags.aligned for a in same.values()):
            self._watch.changed()
            return None
        constants = self._all_constants()
        self.run(arrays, [], arena, constants,
                 lambda table, place: self.program.part(table, place, 0, self.kept.steps))
        launch = self._launcher(self.program.later_address, constants, same)
        known = self._known = _Memory(constants, launch, same)
        self._launch = launch
        self._free.clear()
        return known

    def _still_known(self, arrays: list[Any]) -> _Memory | None:
        """What is kept, where it was made from these arrays; else it is let go of. Another thread
        may have kept something else at any time."""
        known = self._known
        if known is not None and known.launch is self._launch and \
                all(arrays[i] is a for i, a in known.same.items()):
            return known
        if self._launch != self._watching:
            self._known, self._launch = None, self._watching
            self._watch.changed()
        return None

    def _closer(self, arrays: list[Any], results: list[Any], arena: Any) -> None:
        known = self._still_known(arrays)
        if known is None and spans.on and self._watch.same(arrays):
            known = self._keep(arrays, arena)
        memory = known or self._take_memory()
        make_ready(arrays, self._overwritten)
        try:
            self._steps(arrays, results, arena, memory.constants, self.kept.steps if known else 0)
        finally:
            if known is None:
                self._give_back(memory)

    @functools.cached_property
    def facts(self) -> list[dict[str, Any]]:
        rows = kernel_facts(self.kernels)
        for row in rows[:self.kept.steps]:
            row["name"] += ", kept"
        return rows

    @property
    def memory(self) -> Memory:
        needed = super().memory
        return needed._replace(arena=needed.arena + sum(self.kept.sizes))
