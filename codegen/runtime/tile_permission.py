"""Asks the system for the right to use the tile registers of AMX.

Their state is large, so Linux saves it only for processes that ask first. A thread that uses tiles
without the right is killed. Threads and forked processes have the right of their process.
"""

from __future__ import annotations

import ctypes
import functools
import platform
import sys

_ARCH_PRCTL = 158  # the number of the system call on x86-64
_REQUEST, _TILE_DATA = 0x1023, 18  # ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA


@functools.cache
def may_use_tiles() -> bool:
    """True if this process may use tiles from now on.

    A kernel before 5.16, a sandbox, and a small stack for signals refuse it."""
    if sys.platform != "linux" or platform.machine() not in ("x86_64", "AMD64"):
        return False
    call = getattr(ctypes.CDLL(None), "syscall", None)
    if call is None:
        return False
    call.restype, call.argtypes = ctypes.c_long, [ctypes.c_long] * 3
    return bool(call(_ARCH_PRCTL, _REQUEST, _TILE_DATA) == 0)
