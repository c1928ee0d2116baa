"""The memory of a launch: each array in a place of its own, so that one step too far is outside."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

APART = 4096      # bytes on either side that belong to nothing
ALIGNMENT = 256   # of what a device's allocator gives


@dataclass
class Memory:
    """Bytes on the host that one array, or several that overlap, lie in, and where they are during
    the launch."""

    names: list[str]
    arrays: list[Any]
    begin: int
    end: int
    room: Any = None
    address: int = 0

    @property
    def writable(self) -> bool:
        """Whether a kernel may write there."""
        return any(array.flags.writeable for array in self.arrays)

    def move_apart(self) -> None:
        """Copies the bytes to a place with room around it, as aligned as they are on a device,
        where an array that owns its memory is."""
        size = self.end - self.begin
        self.room = np.full(size + 2 * APART + 2 * ALIGNMENT, 0xFF, np.uint8)
        first = self.room.ctypes.data + APART
        offset = (self.begin - _owner(self.arrays[0]).ctypes.data) % ALIGNMENT
        self.address = first + (offset - first) % ALIGNMENT
        ctypes.memmove(self.address, self.begin, size)

    def give_back(self) -> None:
        """Copies what the kernel wrote to where the arrays are."""
        if self.room is not None and self.writable:
            ctypes.memmove(self.begin, self.address, self.end - self.begin)

    def described(self) -> tuple[Any, ...]:
        """What the run time wants to know: name, address, bytes, whether writable, element."""
        return (", ".join(self.names).encode(), ctypes.c_void_p(self.address),
                ctypes.c_size_t(self.end - self.begin), int(self.writable),
                ctypes.c_size_t(min(array.itemsize for array in self.arrays)))

    def holds(self, array: Any) -> bool:
        """Whether this is where the array lies."""
        return any(array is mine for mine in self.arrays)

    def address_of(self, array: Any) -> int:
        """Where the array is during the launch."""
        return int(self.address + array.ctypes.data - self.begin)


def placed(names: Iterable[str], arguments: Sequence[Any], apart: bool) -> list[Memory]:
    """The memory of the arrays among a kernel's arguments; `apart`: in places of their own."""
    arrays = [(n, a) for n, a in zip(names, arguments) if isinstance(a, np.ndarray)]
    for name, array in arrays:
        if not array.flags.c_contiguous:
            raise ValueError(f"{name}: device memory is contiguous, and this array is not")
    found: list[Memory] = []
    for name, array in sorted(arrays, key=lambda row: row[1].ctypes.data):
        begin, end = array.ctypes.data, array.ctypes.data + array.nbytes
        if found and begin < found[-1].end:  # they overlap, and so they do on the device
            last = found[-1]
            last.names.append(name)
            last.arrays.append(array)
            last.end = max(last.end, end)
        else:
            found.append(Memory([name], [array], begin, end, address=begin))
    for memory in found if apart else []:
        memory.move_apart()
    return found


def overlapping(memory: Sequence[Memory]) -> list[tuple[str, str, int, int]]:
    """The names of arrays that have bytes in common, both ways around, and where these are."""
    found = []
    for m in memory:
        rows = [(name, m.address_of(a), m.address_of(a) + a.nbytes)
                for name, a in zip(m.names, m.arrays)]
        found += [(name, other, max(begin, first), min(end, last))
                  for name, begin, end in rows for other, first, last in rows
                  if name != other and max(begin, first) < min(end, last)]
    return found


def _owner(array: Any) -> Any:
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array
