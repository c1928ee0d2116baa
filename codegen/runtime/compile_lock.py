"""Lets one process at a time compile an entry of the disk cache, so that the others can load it.

Processes that start together, such as the ranks of a job on one machine, ask for the same entries
at the same moment. A lock is only a hint: a process that waits too long, or for one that is
stopped, compiles as well.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Iterator

from . import disk_cache

try:
    import fcntl
except ImportError:  # Windows: each process compiles
    fcntl = None  # type: ignore[assignment]

LONGEST_WAIT = 60.0  # seconds; the process with the lock may hang
_POLL = 0.005  # seconds


class _Held(threading.local):
    """True while this thread has a lock: it takes no second one, so no two can wait for each other.
    """

    held = False


_HELD = _Held()


@contextlib.contextmanager
def compiling(name: str) -> Iterator[None]:
    """A context in which at most one process of this machine compiles the entry `name`. Look for
    the entry again inside of it: another process may have written it."""
    path = disk_cache.folder()
    if _HELD.held or path is None or fcntl is None:
        yield
        return
    lock, descriptor = str(path / f"{disk_cache.digest(name).hex()}.lock"), None
    with contextlib.suppress(OSError, RuntimeError):  # as in the cache: no error is of importance
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = _locked(lock)
    _HELD.held = True
    try:
        yield
    finally:
        _HELD.held = False
        if descriptor is not None:
            with contextlib.suppress(OSError):
                os.unlink(lock)  # who comes later finds the entry
            os.close(descriptor)


def _locked(path: str) -> int | None:
    """The descriptor of a file with a lock on it; None after LONGEST_WAIT, or if the process with
    the lock is stopped."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o600)
    end = time.monotonic() + LONGEST_WAIT
    while time.monotonic() < end:
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.pwrite(descriptor, str(os.getpid()).encode(), 0)
            return descriptor
        if _is_stopped(os.pread(descriptor, 20, 0)):
            break
        time.sleep(_POLL)
    os.close(descriptor)
    return None


def _is_stopped(owner: bytes) -> bool:
    """True if a process, of which a lock file has the number, is stopped by a signal. False where
    the system does not tell."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        with open(f"/proc/{int(owner)}/stat", encoding="utf-8", errors="replace") as file:
            return file.read().rpartition(")")[2].split()[0] in "Tt"
    return False
