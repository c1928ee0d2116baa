"""Recycles the memory of large results: a fresh page costs more than most arithmetic on it.

The system clears every page that a process touches for the first time, 11 ms for 32 MiB where the
addition that fills it takes 4. So blocks of dead arrays stay, up to a limit, for later results of
about their size.
"""

from __future__ import annotations

import functools
import threading
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Any

import numpy as np

from ..fork_safety import held_while_forking
from ..settings import settings

__all__ = ["empty_cache"]

LINE = 64  # bytes of a cache line; blocks are aligned to it, so that a vector lies in one line
SMALLEST = 1 << 18  # bytes; the C library recycles smaller ones well enough


class _Raw(np.ndarray[Any, Any]):
    """The bytes of a block, which serve many results. It has its own type: NumPy collapses a chain
    of bases of one type, and a result must refer to its block."""

    __slots__ = ("start",)

    start: int  # the first byte on a cache line


class MemoryBlock(np.ndarray[Any, Any]):
    """The memory of a large array; its bytes return to the cache when no array uses it."""

    __slots__ = ()

    def __del__(self) -> None:
        if type(self.base) is _Raw:  # else this is a view of a block
            _CACHE.give(self.base)


class _FreeBlocks:
    """Free blocks; the least recently used are dropped first."""

    def __init__(self) -> None:
        self.lock = threading.RLock()  # reentrant: a garbage collection inside may return a block
        self.free: OrderedDict[int, Any] = OrderedDict()  # id(raw) -> raw
        self.of_size: dict[int, deque[Any]] = {}  # the same by size, the least recently used first
        self.held = 0

    def take(self, size: int) -> Any:
        """A block of `size` bytes, or None."""
        with self.lock:
            try:
                raw = self.of_size[size].pop()
            except LookupError:
                return None
            del self.free[id(raw)]
            self.held -= size
            return raw

    def give(self, raw: Any) -> None:
        """Adds a block and drops old ones beyond the limit."""
        size = raw.size
        with self.lock:
            self.free[id(raw)] = raw
            self.of_size.setdefault(size, deque()).append(raw)
            self.held += size
            while self.held > limit() and self.free:
                dropped = self.free.popitem(last=False)[1].size
                self.of_size[dropped].popleft()
                self.held -= dropped

    def clear(self) -> None:
        """Drops all blocks."""
        with self.lock:
            self.free.clear()
            self.of_size.clear()
            self.held = 0


_array = np.ndarray
_CACHE = _FreeBlocks()
held_while_forking(_CACHE.lock)


def limit() -> int:
    """The most bytes of free blocks."""
    return settings.cache_mb << 20


def held() -> int:
    """The bytes of the free blocks."""
    return _CACHE.held


def empty(shape: tuple[int, ...], dtype: Any) -> Any:
    """An array with undefined contents; a large one lies in recycled memory.

    >>> import numpy as np
    >>> address = empty((512, 512), np.dtype("float32")).ctypes.data
    >>> empty((512, 512), np.dtype("float32")).ctypes.data == address
    True
    """
    size = _bytes(shape, dtype)
    return np.empty(shape, dtype) if size < SMALLEST else _block(shape, dtype, _class(size))


def maker(shape: tuple[int, ...], dtype: Any) -> Callable[[], Any]:
    """A function that returns `empty` arrays of this shape and dtype; it computes the size once."""
    size = _bytes(shape, dtype)
    if size < SMALLEST:
        return functools.partial(np.empty, shape, dtype)
    return functools.partial(_block, shape, dtype, _class(size))


def _class(size: int) -> int:
    """The size of blocks for so many bytes: size classes are an eighth of their size apart."""
    step = 1 << (size.bit_length() - 4)
    return -(-size // step) * step + LINE


def _block(shape: tuple[int, ...], dtype: Any, size: int) -> Any:
    """An array at the aligned start of a block of `size` bytes."""
    raw = _CACHE.take(size)
    if raw is None:
        raw = _Raw(size, np.uint8)
        raw.start = -raw.ctypes.data % LINE
    return _array(shape, dtype, _array.__new__(MemoryBlock, size, np.uint8, raw), raw.start)


def _bytes(shape: tuple[int, ...], dtype: Any) -> int:
    size: int = dtype.itemsize
    for n in shape:
        size *= n
    return size


def is_whole(array: Any) -> bool:
    """True if `array` is not a view, so that all holders of its memory hold this object."""
    return array.base is None or type(array.base) is MemoryBlock


def empty_cache() -> None:
    """Returns the memory that is cached for later results to the system.

    Example:
        >>> import fusewire as fw
        >>> fw.empty_cache()
    """
    _CACHE.clear()
