"""Files that are replaced as a whole: at any moment a path has its old file or its new one.

The new file is written in a folder beside the old one, since libraries write files of their own
there as well. A saver holds a lock on its folder. A folder without its lock is what a killed
process has left: the next save of the same path removes it.
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
    """The path of a new file, to be written; complete, it takes the place of the one at `path`."""
    folder, name = os.path.split(path)
    _remove_left(folder, name)
    with _work_folder(folder, name) as work:
        made = os.path.join(work, "new.safetensors")
        yield made
        with open(made, "rb+") as file:
            os.fsync(file.fileno())
        if os.path.exists(path):
            shutil.copymode(path, made)
        os.replace(made, path)
    with contextlib.suppress(OSError):  # the name too; not every system opens folders
        opened = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(opened)
        finally:
            os.close(opened)


@contextlib.contextmanager
def _work_folder(folder: str, name: str) -> Iterator[str]:
    """A new folder, locked until it is removed."""
    work, lock = "", None
    try:
        while lock is None:
            work = os.path.join(folder, f".{name}.{uuid.uuid4().hex[:8]}.tmp")
            os.mkdir(work)  # raises where nothing can be written, with the user's path
            lock = _new_lock(os.path.join(work, _LOCK))
        yield work
    finally:
        if lock is not None:
            os.close(lock)
        shutil.rmtree(work, ignore_errors=True)


def _new_lock(path: str) -> int | None:
    """The descriptor of a new locked file; None if another saver took its folder for a left one."""
    try:
        lock = os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600)
    except (FileNotFoundError, FileExistsError):
        return None
    if _locked(lock, True) and os.path.exists(path):
        return lock
    os.close(lock)
    return None


def _locked(lock: int, otherwise: bool) -> bool:
    """Whether this process now has the lock; `otherwise` where the file system has no locks."""
    if fcntl is None:
        return True
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return otherwise
    return True


def _remove_left(folder: str, name: str) -> None:
    """Removes the folders of savers of this path that were killed."""
    ours = re.compile(re.escape(f".{name}.") + r"[0-9a-f]{8}\.tmp")
    with contextlib.suppress(OSError), os.scandir(folder or ".") as entries:
        for work in [entry.path for entry in entries if ours.fullmatch(entry.name)]:
            with contextlib.suppress(OSError):
                _remove_if_left(work)


def _remove_if_left(work: str) -> None:
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
