"""Lists a native program as plain data: its kernels, which reads which, its memory, its code."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from ..ir.loop_ir import KernelBuffer
from ..llvm.step_table import Arena, ProgramStep, Slot

SHARED_NAMES = ("temporaries", "until")  # of memory that values of sections share
_STEP = re.compile(r"%step \{ptr @([\w.]+)")
_FUNCTION = re.compile(r"^define internal [^\n]*@(task\.[\w.]+)\(.*?^\}$", re.MULTILINE | re.DOTALL)


class StoredValue:
    """An array in memory, or a range of bytes of one that holds several values: the steps that
    write it, and the last step that reads or writes it."""

    def __init__(self, name: str, start: int, size: int, writer: int) -> None:
        self.name, self.start, self.size = name, start, size
        self.writers, self.last = [writer], writer

    def overlaps(self, start: int, size: int) -> bool:
        """True if a range of bytes shares some with this array."""
        return start < self.start + self.size and self.start < start + size

    def row(self, begin: int) -> dict[str, Any]:
        """The array as plain data; `begin`: where byte 0 lies in the arena."""
        return {"name": self.name, "offset": begin + self.start, "bytes": self.size,
                "first": self.writers[0], "last": self.last}


class MemoryTrace:
    """Follows the values of a program from step to step, by the memory of the arguments alone.

    A kernel that reads a part of an array reads all that was written to the array: which elements
    a kernel accesses is not looked at."""

    def __init__(self) -> None:
        self.live: dict[KernelBuffer, list[StoredValue]] = {}
        self.arena: list[tuple[int, StoredValue]] = []  # with the place of its byte 0

    def step(self, number: int, step: ProgramStep) -> list[int]:
        """Notes the accesses of a step; returns the earlier steps whose results it reads."""
        arguments = step.kernel.arguments
        arrays = dict(zip(arguments, step.arrays or [(b, 0) for b in arguments]))
        slots = dict(zip(arguments, step.slots))
        writers = set[int]()
        for buffer in step.kernel.inputs:
            array, start = arrays[buffer]
            for value in self.live.get(array, ()):
                if not _holds_several(array) or value.overlaps(start, size_of(buffer)):
                    value.last = number
                    writers.update(value.writers)
        for buffer in step.kernel.outputs:
            self._write(number, buffer, arrays[buffer], slots[buffer])
        return sorted(writers - {number})

    def _write(self, number: int, buffer: KernelBuffer, to: tuple[KernelBuffer, int], slot: Slot
               ) -> None:
        array, start = to
        values = self.live.setdefault(array, [])
        if _holds_several(array):
            value = StoredValue(buffer.name, start, size_of(buffer), number)
            values[:] = [v for v in values if not v.overlaps(start, value.size)]
        elif values:
            values[0].writers.append(number)
            values[0].last = number
            return
        else:
            value = StoredValue(array.name, 0, size_of(array), number)
        values.append(value)
        if isinstance(slot, Arena):
            self.arena.append((slot.offset - start, value))


def _holds_several(array: KernelBuffer) -> bool:
    """True for memory that `link.py` shares among the values of sections."""
    return array.dtype == np.uint8 and array.name.startswith(SHARED_NAMES)


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
            "arena": {"bytes": arena,
                      "values": [value.row(begin) for begin, value in memory.arena]},
            "functions": {match[1]: match[0] for match in _FUNCTION.finditer(code)}}


def plain_listing(rows: Iterable[Mapping[str, Any]], title: str = "", code: str = ""
                  ) -> dict[str, Any]:
    """The same form for kernels whose memory is unknown, with one text for the code of all."""
    kernels = [{**row, "reads": [], "refusals": [], "function": "program" if code else ""}
               for row in rows]
    return {"title": title, "kernels": kernels, "arena": {"bytes": 0, "values": []},
            "functions": {"program": code} if code else {}}
