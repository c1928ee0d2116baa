"""Memory that a worker process writes batches into and the loop reads them from, used again.

Each piece is a file in a folder of its own, where there is one in memory, whose name is taken away
as soon as both sides have mapped it. So nothing is left behind however a process ends, no
descriptor stays open, and, unlike with `multiprocessing.shared_memory`, no process that watches
over names has to be started.
"""

from __future__ import annotations

import mmap
import os
import tempfile
from collections import deque
from typing import Any

import numpy as np

_IN_MEMORY = "/dev/shm"  # of Linux; elsewhere the system keeps temporary files in its cache
_LINE = 64


def new_folder() -> str:
    """A folder for the pieces of one loader, which nobody else can read; named by its process."""
    there = os.path.isdir(_IN_MEMORY) and os.access(_IN_MEMORY, os.W_OK)
    return tempfile.mkdtemp(prefix=f"fusewire-{os.getpid()}-", dir=_IN_MEMORY if there else None)


def _create(path: str, size: int) -> mmap.mmap:
    """A new piece; OSError where there is no space for it."""
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
    """The piece that another process has created; its name is gone afterwards."""
    if os.name == "nt":
        return _by_name(path, size)
    number = os.open(path, os.O_RDWR)
    try:
        os.unlink(path)
        return mmap.mmap(number, size)
    finally:
        os.close(number)


# number of a piece, its size, where each part lies in it, pieces that are no longer used
Placed = tuple[int, int, list[tuple[int, int]], list[int]]


def _by_name(path: str, size: int) -> mmap.mmap:
    """Windows has memory by names, for as long as somebody has it mapped."""
    name = path.replace("\\", "/").replace("/", "-")
    return mmap.mmap(-1, size, tagname=name)  # type: ignore[call-arg]


class Written:
    """A worker's side: the pieces it has made, and those free to be written over."""

    def __init__(self, prefix: str) -> None:
        self.prefix, self.count = prefix, 0
        self.pieces: dict[int, mmap.mmap] = {}
        self.free: list[int] = []

    def place(self, parts: list[memoryview]) -> Placed | None:
        """Writes `parts` into one piece; None where there is no memory for it."""
        spans, end = [], 0
        for part in parts:
            spans.append((end, end + part.nbytes))
            end += part.nbytes + -part.nbytes % _LINE
        dropped: list[int] = []
        number = self._piece(end, dropped)
        if number is None:
            return None
        piece = self.pieces[number]
        for (start, stop), part in zip(spans, parts):
            piece[start:stop] = part
        return number, len(piece), spans, dropped

    def _piece(self, size: int, dropped: list[int]) -> int | None:
        fitting = [n for n in self.free if len(self.pieces[n]) >= size]
        if fitting:
            best = min(fitting, key=lambda n: len(self.pieces[n]))
            self.free.remove(best)
            return best
        while self.free:  # too small now: a larger one takes their place
            dropped.append(self.free.pop())
            del self.pieces[dropped[-1]]
        step = 1 << max(12, size.bit_length() - 3)  # so that batches of about one size fit again
        try:
            made = _create(f"{self.prefix}-{self.count}", -(-size // step) * step)
        except OSError:
            return None
        self.pieces[self.count] = made
        self.count += 1
        return self.count - 1


class _Lease:
    """An array's memory, which goes back to the worker when the last array over it is gone."""

    __slots__ = ("__array_interface__", "_back", "_number", "_whole")

    def __init__(self, whole: Any, stop: int, number: int, back: deque[int]) -> None:
        self._whole, self._number, self._back = whole, number, back
        self.__array_interface__ = {"data": (whole.ctypes.data, False), "shape": (stop,),
                                    "typestr": "|u1", "version": 3}

    def __del__(self) -> None:
        self._back.append(self._number)


class SharedReader:
    """The loop's side of one worker's pieces."""

    def __init__(self, prefix: str, most: int) -> None:
        self.prefix, self.most = prefix, most  # how many pieces the loop's arrays may keep
        self.pieces: dict[int, Any] = {}
        self.lent = 0
        self.back: deque[int] = deque()

    def parts(self, placed: Placed) -> list[Any]:
        """The parts that the worker has placed, as arrays of bytes."""
        number, size, spans, dropped = placed
        for old in dropped:
            self.pieces.pop(old, None)
        if number not in self.pieces:
            self.pieces[number] = np.frombuffer(_open(f"{self.prefix}-{number}", size), np.uint8)
        whole, stop = self.pieces[number], spans[-1][1]
        if self.lent - len(self.back) < self.most:
            array = np.asarray(_Lease(whole, stop, number, self.back))
        else:  # who keeps many batches gets copies: the worker's memory stays bounded
            array = whole[:stop].copy()
            self.back.append(number)
        self.lent += 1
        return [array[a:b] for a, b in spans]

    def given_back(self) -> list[int]:
        """Pieces that the worker may write over; they are not given again."""
        numbers = [self.back.popleft() for _ in range(len(self.back))]
        self.lent -= len(numbers)
        return numbers
