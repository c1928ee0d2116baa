"""Lists a native program as plain data: its kernels, which reads which, its memory, its code."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..ir.loop_ir import KernelBuffer
from ..llvm.step_table import Arena, ProgramStep, Slot

_STEP = re.compile(r"%step \{ptr @([\w.]+)")
_FUNCTION = re.compile(r"^define internal [^\n]*@(task\.[\w.]+)\(.*?^\}$", re.MULTILINE | re.DOTALL)


class StoredValue:
    """An array in memory: the range of bytes it takes, the step that writes it, the last one that
    reads it. `writer` is -1 for arrays that the caller has written."""

    def __init__(self, name: str, where: int, start: int, size: int, writer: int) -> None:
        self.name, self.where, self.start, self.size = name, where, start, size
        self.writer = self.last = writer

    def overlaps(self, where: int, start: int, size: int) -> bool:
        """True if a range of bytes shares some with this array."""
        return self.where == where and start < self.start + self.size and self.start < start + size

    def is_within(self, where: int, start: int, size: int) -> bool:
        """True if a range of bytes has all of this array's."""
        return self.where == where and start <= self.start \
            and self.start + self.size <= start + size

    def row(self) -> dict[str, Any]:
        """The array as plain data."""
        return {"name": self.name, "offset": self.start, "bytes": self.size,
                "first": max(self.writer, 0), "last": self.last}


class MemoryTrace:
    """Follows the arrays of a program from step to step, by the addresses of arguments alone."""

    def __init__(self) -> None:
        self.live: dict[int, list[StoredValue]] = {}  # by argument, -1 for the arena
        self.arena: list[StoredValue] = []

    def step(self, number: int, step: ProgramStep) -> list[int]:
        """Notes the accesses of a step; returns the earlier steps whose results it reads."""
        slots = dict(zip(step.kernel.arguments, step.slots))
        writers = set[int]()
        for buffer in step.kernel.inputs:
            where, start = slots[buffer].words()
            for value in self.live.get(where, ()):
                if value.overlaps(where, start, size_of(buffer)):
                    value.last = number
                    writers.add(value.writer)
        for buffer in step.kernel.outputs:
            self._write(number, buffer, slots[buffer])
        return sorted(writers - {number})

    def _write(self, number: int, buffer: KernelBuffer, slot: Slot) -> None:
        where, start = slot.words()
        size = size_of(buffer)
        kept = [value for value in self.live.get(where, ())
                if not value.is_within(where, start, size)]
        value = StoredValue(buffer.name, where, start, size, number)
        self.live[where] = [*kept, value]
        if isinstance(slot, Arena):
            self.arena.append(value)


def size_of(buffer: KernelBuffer) -> int:
    """The bytes of a buffer."""
    return buffer.size * buffer.dtype.itemsize


def listing(steps: Sequence[ProgramStep], rows: Iterable[Mapping[str, Any]], arena: int, code: str,
            title: str = "") -> dict[str, Any]:
    """A program as plain data, for reports: `title`; `kernels`, each the row of its facts and time
    with `reads` (numbers of the kernels whose results it reads), `refusals` (why it is not fused
    with others) and `function` (the name of its code); `arena`, the bytes of temporaries and the
    steps in which each is in use; `functions`, the code by name."""
    memory = MemoryTrace()
    names = _STEP.findall(code)
    kernels = [{**row, "reads": memory.step(number, step), "refusals": list(step.refusals),
                "function": names[number] if number < len(names) else ""}
               for number, (step, row) in enumerate(zip(steps, rows))]
    return {"title": title, "kernels": kernels,
            "arena": {"bytes": arena, "values": [value.row() for value in memory.arena]},
            "functions": {match[1]: match[0] for match in _FUNCTION.finditer(code)}}


def plain_listing(rows: Iterable[Mapping[str, Any]], title: str = "", code: str = ""
                  ) -> dict[str, Any]:
    """The same form for kernels whose memory is unknown, with one text for the code of all."""
    kernels = [{**row, "reads": [], "refusals": [], "function": "program" if code else ""}
               for row in rows]
    return {"title": title, "kernels": kernels, "arena": {"bytes": 0, "values": []},
            "functions": {"program": code} if code else {}}
