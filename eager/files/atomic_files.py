"""Replaces files atomically: at any moment a path has its old file or its complete new one.

The new file is written in a work folder beside the old file, as libraries write temporary files
too. A saver holds a lock on its folder. A folder without a lock belongs to a killed process; the
next save of the same path removes it.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import uuid
from collections.abc import Iterator

try:
    import fcntl
except ImportError:  # Windows: files that a process has open cannot be removed there
    fcntl = None  # type: ignore[assignment]

_LOCK = "lock"


@contextlib.contextmanager
def replacing(path: str) -> Iterator[str]:
    """The path of a new file, which replaces the file at `path` when the context ends."""
    folder, name = os.path.split(path)
    _remove_abandoned(folder, name)
    with _work_folder(folder, name) as work:
        new_file = os.path.join(work, "new.safetensors")
        yield new_file
        with open(new_file, "rb+") as file:
            os.fsync(file.fileno())
        if os.path.exists(path):
            shutil.copymode(path, new_file)
        os.replace(new_file, path)
    with contextlib.suppress(OSError):  # syncs the name; some systems cannot open folders
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


@contextlib.contextmanager
def _work_folder(folder: str, name: str) -> Iterator[str]:
    """A new folder, locked until it is removed."""
    work, lock = "", None
    try:
        while lock is None:
            work = os.path.join(folder, f".{name}.{uuid.uuid4().hex[:8]}.tmp")
            os.mkdir(work)  # raises, with the user's path, if the folder is not writable
            lock = _new_lock(os.path.join(work, _LOCK))
        yield work
    finally:
        if lock is not None:
            os.close(lock)
        shutil.rmtree(work, ignore_errors=True)


def _new_lock(path: str) -> int | None:
    """The descriptor of a new locked file; None if another saver has removed its folder."""
    try:
        lock = os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600)
    except (FileNotFoundError, FileExistsError):
        return None
    if _locked(lock, True) and os.path.exists(path):
        return lock
    os.close(lock)
    return None


def _locked(lock: int, otherwise: bool) -> bool:
    """True if this process now has the lock; `otherwise` if the file system has no locks."""
    if fcntl is None:
        return True
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return otherwise
    return True


def _remove_abandoned(folder: str, name: str) -> None:
    """Removes the work folders of killed savers of this path."""
    ours = re.compile(re.escape(f".{name}.") + r"[0-9a-f]{8}\.tmp")
    with contextlib.suppress(OSError), os.scandir(folder or ".") as entries:
        for work in [entry.path for entry in entries if ours.fullmatch(entry.name)]:
            with contextlib.suppress(OSError):
                _remove_if_unlocked(work)


def _remove_if_unlocked(work: str) -> None:
    path = os.path.join(work, _LOCK)
    lock = os.open(path, os.O_CREAT | os.O_RDWR | getattr(os, "O_NOFOLLOW", 0), 0o600)
    try:
        if not _locked(lock, False):
            return
        if fcntl is not None:
            shutil.rmtree(work, ignore_errors=True)
    finally:
        os.close(lock)
    if fcntl is None:
        os.remove(path)  # raises while its saver lives
        shutil.rmtree(work, ignore_errors=True)
