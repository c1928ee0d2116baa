"""Sends batches from a worker process to the loop through segments of memory that both map.

A segment is a file in a private folder, in memory if the system has such a folder. Its name is
removed as soon as both sides have mapped it. So nothing is left behind however a process ends, no
descriptor stays open, and there is no need of a process that tracks names, as with
`multiprocessing.shared_memory`. Segments are used again.
"""

from __future__ import annotations

import mmap
import os
import tempfile
from collections import deque
from typing import Any

import numpy as np

_IN_MEMORY = "/dev/shm"  # on Linux; other systems hold temporary files in their cache
_LINE = 64  # bytes; parts start at multiples of it


def new_folder() -> str:
    """A new folder for the segments of one loader, named by its process, for this user only."""
    there = os.path.isdir(_IN_MEMORY) and os.access(_IN_MEMORY, os.W_OK)
    return tempfile.mkdtemp(prefix=f"fusewire-{os.getpid()}-", dir=_IN_MEMORY if there else None)


def _create(path: str, size: int) -> mmap.mmap:
    """A new segment; an OSError if there is no space for it."""
    if os.name == "nt":
        return _by_name(path, size)
    number = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(number, 0, size)  # else a full disk would end the process by SIGBUS
        os.ftruncate(number, size)
        return mmap.mmap(number, size)
    except OSError:
        os.unlink(path)
        raise
    finally:
        os.close(number)


def _open(path: str, size: int) -> mmap.mmap:
    """A segment that another process has created; removes its name."""
    if os.name == "nt":
        return _by_name(path, size)
    number = os.open(path, os.O_RDWR)
    try:
        os.unlink(path)
        return mmap.mmap(number, size)
    finally:
        os.close(number)


# Number of a segment, its size, the span of each part in it, and segments that were dropped.
Record = tuple[int, int, list[tuple[int, int]], list[int]]


def _by_name(path: str, size: int) -> mmap.mmap:
    """A segment on Windows, where memory has names for as long as a process maps it."""
    name = path.replace("\\", "/").replace("/", "-")
    return mmap.mmap(-1, size, tagname=name)  # type: ignore[call-arg]


class SegmentWriter:
    """The worker's side: its segments, and those that are free."""

    def __init__(self, prefix: str) -> None:
        self.prefix, self.count = prefix, 0
        self.segments: dict[int, mmap.mmap] = {}
        self.free: list[int] = []

    def write(self, parts: list[memoryview]) -> Record | None:
        """Writes `parts` into one segment; returns its record, or None if there is no memory."""
        spans, end = [], 0
        for part in parts:
            spans.append((end, end + part.nbytes))
            end += part.nbytes + -part.nbytes % _LINE
        dropped: list[int] = []
        number = self._segment_for(end, dropped)
        if number is None:
            return None
        segment = self.segments[number]
        for (start, stop), part in zip(spans, parts):
            segment[start:stop] = part
        return number, len(segment), spans, dropped

    def _segment_for(self, size: int, dropped: list[int]) -> int | None:
        fitting = [n for n in self.free if len(self.segments[n]) >= size]
        if fitting:
            best = min(fitting, key=lambda n: len(self.segments[n]))
            self.free.remove(best)
            return best
        while self.free:  # they are too small: a larger one replaces them
            dropped.append(self.free.pop())
            del self.segments[dropped[-1]]
        # Rounded up, so that later batches of about this size fit.
        step = 1 << max(12, size.bit_length() - 3)
        try:
            segment = _create(f"{self.prefix}-{self.count}", -(-size // step) * step)
        except OSError:
            return None
        self.segments[self.count] = segment
        self.count += 1
        return self.count - 1


class _Lease:
    """The memory of an array; it returns to the worker when the last array over it is gone."""

    __slots__ = ("__array_interface__", "_back", "_number", "_whole")

    def __init__(self, whole: Any, stop: int, number: int, back: deque[int]) -> None:
        self._whole, self._number, self._back = whole, number, back
        self.__array_interface__ = {"data": (whole.ctypes.data, False), "shape": (stop,),
                                    "typestr": "|u1", "version": 3}

    def __del__(self) -> None:
        self._back.append(self._number)


class SegmentReader:
    """The loop's side of the segments of one worker."""

    def __init__(self, prefix: str, most: int) -> None:
        self.prefix, self.most = prefix, most  # most segments that the loop's arrays may hold
        self.segments: dict[int, Any] = {}
        self.lent = 0
        self.returned: deque[int] = deque()

    def parts(self, record: Record) -> list[Any]:
        """The parts of a record, as arrays of bytes."""
        number, size, spans, dropped = record
        for old in dropped:
            self.segments.pop(old, None)
        if number not in self.segments:
            self.segments[number] = np.frombuffer(_open(f"{self.prefix}-{number}", size), np.uint8)
        whole, stop = self.segments[number], spans[-1][1]
        if self.lent - len(self.returned) < self.most:
            array = np.asarray(_Lease(whole, stop, number, self.returned))
        else:  # a loop that holds many batches gets copies, which bounds the worker's memory
            array = whole[:stop].copy()
            self.returned.append(number)
        self.lent += 1
        return [array[a:b] for a, b in spans]

    def returned_segments(self) -> list[int]:
        """The numbers of segments that the worker may use again; each is returned once."""
        numbers = [self.returned.popleft() for _ in range(len(self.returned))]
        self.lent -= len(numbers)
        return numbers
