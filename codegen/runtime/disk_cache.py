"""What was compiled once, kept on disk for later processes.

An entry's name is a digest of everything that it depends on, so nothing that is stored is ever out
of date. An entry holds a digest of its name and its contents, too: what was cut off, damaged or
moved is made anew. Entries are written beside their place and renamed, so that processes may share
a folder and be killed at any time. Whatever the disk refuses, such as a home that cannot be
written, only costs the time to compile.

The code of an entry is run, so nobody else may be able to write it. Folder and entry are opened
first, and then the open file is asked whose it is: no name is looked up twice. Where an entry
should be, a pipe, a device, a link or a folder is no entry, and nothing waits for it.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import secrets
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from ...eager.settings import settings

_FORMAT = b"fusewire object 2\n"
_SPARE = 0.8  # of the limit, to which the oldest entries are removed
_NAMES = re.compile(r"[0-9a-f]{64}\.\w+|tmp\w+\.part")  # of entries, and of what becomes one
# Without these, as on Windows, names are looked up from the root, and a file opens as it is.
_BY_FOLDER = {os.open, os.rename, os.stat, os.unlink} <= os.supports_dir_fd \
    and os.scandir in os.supports_fd and os.utime in os.supports_fd
_OPEN = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
_NO_LINK = getattr(os, "O_NOFOLLOW", 0)


def folder() -> Path | None:
    """Where entries lie; None where nothing is kept."""
    if not settings.disk_mb:
        return None
    return Path(settings.disk_dir) if settings.disk_dir else _users_cache() / "fusewire" / "objects"


def _users_cache() -> Path:
    """The folder of the system's for what can be made again."""
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")


def digest(*parts: str | bytes) -> bytes:
    """What these are, in this order, in 32 bytes."""
    found = hashlib.sha256(_FORMAT)
    for part in parts:
        raw = part.encode() if isinstance(part, str) else part
        found.update(f"{len(raw)}:".encode() + raw)
    return found.digest()


def load(name: str) -> bytes | None:
    """What an entry holds; None where there is none that is whole and ours."""
    with contextlib.suppress(OSError, RuntimeError):  # no home
        where = folder()
        if where is not None:
            with _opened(where) as at:
                raw = _read(at, name) if at.ours else b""
            check, image = raw[len(_FORMAT):len(_FORMAT) + 32], raw[len(_FORMAT) + 32:]
            if raw.startswith(_FORMAT) and check == digest(name, image):
                return image
    return None


def save(name: str, image: bytes) -> None:
    """Makes an entry, as a whole or not at all."""
    with contextlib.suppress(OSError, RuntimeError):
        where = folder()
        if where is None:
            return
        where.mkdir(mode=0o700, parents=True, exist_ok=True)
        with _opened(where) as at:
            if at.ours:
                _replace(at, name, _FORMAT + digest(name, image) + image)
                _make_room(at)


class _Folder(NamedTuple):
    """A folder that is open: its descriptor, or its path where names need one; and whether nobody
    else can write to it."""

    descriptor: int | None
    path: Path
    ours: bool

    def open(self, name: str, flags: int) -> int:
        """The descriptor of a file in it, which is not reached through a link."""
        flags |= _OPEN | _NO_LINK
        return os.open(self.place(name), flags, 0o600, dir_fd=self.descriptor)

    def place(self, name: str) -> str:
        """What system calls name a file in it by."""
        return name if self.descriptor is not None else str(self.path / name)


@contextlib.contextmanager
def _opened(where: Path) -> Iterator[_Folder]:
    """A folder that stays the same one until the end, whatever happens to its name."""
    if not _BY_FOLDER:
        yield _Folder(None, where, _is_ours(os.stat(where)))
        return
    descriptor = os.open(where, os.O_RDONLY | os.O_DIRECTORY | _OPEN)
    try:
        yield _Folder(descriptor, where, _is_ours(os.fstat(descriptor)))
    finally:
        os.close(descriptor)


def _read(at: _Folder, name: str) -> bytes:
    """All of a file that is ours; empty for what is none."""
    with open(at.open(name, os.O_RDONLY), "rb", buffering=0) as file:
        about = os.fstat(file.fileno())
        if not stat.S_ISREG(about.st_mode) or not _is_ours(about):
            return b""
        os.utime(file.fileno() if _BY_FOLDER else at.place(name))  # it is of use
        return file.read()


def _replace(at: _Folder, name: str, raw: bytes) -> None:
    """Writes a file that is there with all it holds, or not there."""
    part = f"tmp{secrets.token_hex(8)}.part"
    descriptor = at.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(raw)
        os.replace(at.place(part), at.place(name), src_dir_fd=at.descriptor,
                   dst_dir_fd=at.descriptor)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(at.place(part), dir_fd=at.descriptor)
        raise


def _is_ours(about: os.stat_result) -> bool:
    """Whether nobody else can have written a file: what is loaded from it is run."""
    if not hasattr(os, "geteuid"):
        return True
    return about.st_uid == os.geteuid() and not about.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def _make_room(at: _Folder) -> None:
    """Removes what was of no use for longest, where all of it is more than the limit."""
    found = _entries(at)
    total, limit = sum(entry.size for entry in found), settings.disk_mb << 20
    if total > limit:
        for entry in sorted(found):
            if total <= limit * _SPARE:
                break
            total -= entry.size * _removed(at, entry)


class Entry(NamedTuple):
    """A file of the folder: when it was of use last, its bytes, and its name."""

    used: float
    size: int
    name: str


def entries(where: Path) -> list[Entry]:
    """What is kept in a folder. Files of others, which a folder of the user's may hold, are not."""
    with contextlib.suppress(OSError), _opened(where) as at:  # there is none yet
        return _entries(at)
    return []


def _entries(at: _Folder) -> list[Entry]:
    found = []
    for file in os.scandir(at.path if at.descriptor is None else at.descriptor):
        if _NAMES.fullmatch(file.name):
            with contextlib.suppress(OSError):  # another process was faster
                about = file.stat(follow_symlinks=False)
                found.append(Entry(about.st_mtime, about.st_size, file.name))
    return found


def clear() -> int:
    """Removes all entries. The number of those that are gone."""
    where = folder()
    if where is not None:
        with contextlib.suppress(OSError), _opened(where) as at:
            return sum([_removed(at, entry) for entry in _entries(at)])
    return 0


def _removed(at: _Folder, entry: Entry) -> bool:
    with contextlib.suppress(OSError):
        os.unlink(at.place(entry.name), dir_fd=at.descriptor)
        return True
    return False
