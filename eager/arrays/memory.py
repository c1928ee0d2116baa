"""Memory of large results, used again: a fresh page costs more than most arithmetic on it.

The system clears every page that a process touches for the first time, 11 ms for 32 MiB where the
addition that fills it takes 4. So blocks whose arrays are gone are kept, up to a limit, for the
next results of about their size.
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

LINE = 64  # bytes of a cache line, on which blocks begin: vectors then lie in one line each
SMALLEST = 1 << 18  # bytes; below, the C library keeps memory well enough


class _Raw(np.ndarray[Any, Any]):
    """Bytes that stay, from result to result. A type of its own: of arrays over other arrays NumPy
    remembers only the last, where these are of its own type."""

    __slots__ = ("start",)

    start: int  # the first byte on a cache line


class MemoryBlock(np.ndarray[Any, Any]):
    """What a large array lies in: gives its bytes back when the last array over it is gone."""

    __slots__ = ()

    def __del__(self) -> None:
        if type(self.base) is _Raw:  # else it is a view of a block
            _CACHE.give(self.base)


class _FreeBlocks:
    """Free blocks, those unused for longest dropped first."""

    def __init__(self) -> None:
        self.lock = threading.RLock()  # a garbage collection inside may give a block back
        self.free: OrderedDict[int, Any] = OrderedDict()  # id(raw) -> raw
        self.of_size: dict[int, deque[Any]] = {}  # the same, the longest unused first
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
        with self.lock:
            self.free.clear()
            self.of_size.clear()
            self.held = 0


_array = np.ndarray
_CACHE = _FreeBlocks()
held_while_forking(_CACHE.lock)


def limit() -> int:
    """The most bytes that are kept for later."""
    return settings.cache_mb << 20


def held() -> int:
    """The bytes that are kept at present."""
    return _CACHE.held


def empty(shape: tuple[int, ...], dtype: Any) -> Any:
    """An array with undefined contents; a large one over recycled memory.

    >>> import numpy as np
    >>> address = empty((512, 512), np.dtype("float32")).ctypes.data
    >>> empty((512, 512), np.dtype("float32")).ctypes.data == address
    True
    """
    size = _bytes(shape, dtype)
    return np.empty(shape, dtype) if size < SMALLEST else _block(shape, dtype, _class(size))


def maker(shape: tuple[int, ...], dtype: Any) -> Callable[[], Any]:
    """`empty` for arrays of this shape and dtype, without asking for their size each time."""
    size = _bytes(shape, dtype)
    if size < SMALLEST:
        return functools.partial(np.empty, shape, dtype)
    return functools.partial(_block, shape, dtype, _class(size))


def _class(size: int) -> int:
    """How large blocks for so many bytes are: classes are an eighth of their size apart."""
    step = 1 << (size.bit_length() - 4)
    return -(-size // step) * step + LINE


def _block(shape: tuple[int, ...], dtype: Any, size: int) -> Any:
    """An array at the beginning of a block of `size` bytes."""
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
    """Whether `array` is no view: whoever holds its memory holds this very object."""
    return array.base is None or type(array.base) is MemoryBlock


def empty_cache() -> None:
    """Gives all memory that is kept for later results back to the system."""
    _CACHE.clear()
