"""Memory of large results, used again: a fresh page costs more than most arithmetic on it.

The system clears every page that a process touches for the first time, 11 ms for 32 MiB where the
addition that fills it takes 4. So blocks whose arrays are gone are kept, up to a limit, for the
next results of about their size.
"""

from __future__ import annotations

import functools
import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import numpy as np

from .forking import held_while_forking
from .settings import settings

__all__ = ["empty_cache"]

LINE = 64  # bytes of a cache line, on which blocks begin: vectors then lie in one line each
SMALLEST = 1 << 18  # bytes; below, the C library keeps memory well enough


class Block:
    """Memory that returns to the cache when the last array over it is gone."""

    __slots__ = ("__array_interface__", "_raw")

    def __init__(self, raw: Any, shape: tuple[int, ...], dtype: Any) -> None:
        self._raw = raw
        start = raw.ctypes.data
        self.__array_interface__ = {"data": (start + -start % LINE, False), "shape": shape,
                                    "typestr": dtype.str, "version": 3}

    def __del__(self) -> None:
        _CACHE.give(self._raw)


class _Cache:
    """Free blocks by size, those unused for longest dropped first."""

    def __init__(self) -> None:
        self.lock = threading.RLock()  # a garbage collection inside may give a block back
        self.free: OrderedDict[int, Any] = OrderedDict()  # id(raw) -> raw
        self.held = 0

    def take(self, size: int) -> Any:
        """A block of `size` bytes, or None."""
        with self.lock:
            for key, raw in reversed(list(self.free.items())):  # a list: blocks may come back
                if raw.size == size and self.free.pop(key, None) is not None:
                    self.held -= size
                    return raw
        return None

    def give(self, raw: Any) -> None:
        with self.lock:
            self.free[id(raw)] = raw
            self.held += raw.size
            while self.held > limit() and self.free:
                dropped = self.free.popitem(last=False)[1].size
                self.held -= dropped

    def clear(self) -> None:
        with self.lock:
            self.free.clear()
            self.held = 0


_CACHE = _Cache()
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
    if size < SMALLEST or dtype.kind == "V":  # which the interface cannot name
        return np.empty(shape, dtype)
    step = 1 << (size.bit_length() - 4)  # classes an eighth of their size apart
    size = -(-size // step) * step + LINE
    raw = _CACHE.take(size)
    return np.asarray(Block(np.empty(size, np.uint8) if raw is None else raw, shape, dtype))


def maker(shape: tuple[int, ...], dtype: Any) -> Callable[[], Any]:
    """`empty` for arrays of this shape and dtype, without asking for their size each time."""
    small = _bytes(shape, dtype) < SMALLEST
    return functools.partial(np.empty if small else empty, shape, dtype)


def _bytes(shape: tuple[int, ...], dtype: Any) -> int:
    size: int = dtype.itemsize
    for n in shape:
        size *= n
    return size


def is_whole(array: Any) -> bool:
    """Whether `array` is no view: whoever holds its memory holds this very object."""
    return array.base is None or type(array.base) is Block


def empty_cache() -> None:
    """Gives all memory that is kept for later results back to the system."""
    _CACHE.clear()
