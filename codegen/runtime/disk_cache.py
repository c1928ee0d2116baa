"""Stores compiled code on disk for later processes.

The name of an entry is a digest of everything that it depends on, so entries are never stale. An
entry contains a digest of its name and contents: a truncated, damaged or moved entry is compiled
again. Entries are written to a temporary name and renamed, so that processes may share a folder and
be killed at any time. An error of the disk, such as a home that cannot be written, only costs the
time to compile.

The code of an entry is executed, so nobody else may be able to write it. Folder and entry are
opened first, and the owner of the open file is checked: no name is looked up twice. A pipe, a
device, a link or a folder in the place of an entry is ignored, and is not waited for.
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
_TRIM_FRACTION = 0.8  # of the limit, down to which the oldest entries are evicted
_READS_PER_LIMIT = 64  # how often the folder is read while as many bytes are written as the limit
_NAMES = re.compile(r"[0-9a-f]{64}\.\w+|tmp\w+\.part")  # of entries, and of what becomes one
# Without these, as on Windows, names are looked up from the root, and a file opens as it is.
_BY_FOLDER = {os.open, os.rename, os.stat, os.unlink} <= os.supports_dir_fd \
    and os.scandir in os.supports_fd and os.utime in os.supports_fd
_OPEN = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
_NO_LINK = getattr(os, "O_NOFOLLOW", 0)


def folder() -> Path | None:
    """The folder of the entries; None if the cache is off."""
    if not settings.disk_mb:
        return None
    return Path(settings.disk_dir) if settings.disk_dir else _users_cache() / "fusewire" / "objects"


def _users_cache() -> Path:
    """The system's folder for caches of this user."""
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")


def digest(*parts: str | bytes) -> bytes:
    """The 32-byte digest of the parts, in order."""
    hasher = hashlib.sha256(_FORMAT)
    for part in parts:
        raw = part.encode() if isinstance(part, str) else part
        hasher.update(f"{len(raw)}:".encode() + raw)
    return hasher.digest()


def load(name: str) -> bytes | None:
    """The contents of an entry; None if there is no intact entry of our own."""
    with contextlib.suppress(OSError, RuntimeError):  # no home
        path = folder()
        if path is not None:
            with _open_folder(path) as at:
                raw = _read(at, name) if at.ours else b""
            check, image = raw[len(_FORMAT):len(_FORMAT) + 32], raw[len(_FORMAT) + 32:]
            if raw.startswith(_FORMAT) and check == digest(name, image):
                return image
    return None


def save(name: str, image: bytes) -> None:
    """Writes an entry atomically."""
    with contextlib.suppress(OSError, RuntimeError):
        path = folder()
        if path is None:
            return
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        with _open_folder(path) as at:
            if at.ours:
                raw = _FORMAT + digest(name, image) + image
                _replace(at, name, raw)
                if _is_turn(len(raw)):
                    _evict(at)


def _is_turn(size: int) -> bool:
    """True if an entry of so many bytes is one after which the folder is read.

    It takes a fifth of a second for 20,000 entries. So it is left to chance, in proportion to the
    bytes: on average once per share of the limit that is written, by however many processes.
    """
    return secrets.randbelow((settings.disk_mb << 20) // _READS_PER_LIMIT) < size


class _Folder(NamedTuple):
    """An open folder: its descriptor, or its path on systems that need one, and whether only this
    user can write to it."""

    descriptor: int | None
    path: Path
    ours: bool

    def open(self, name: str, flags: int) -> int:
        """The descriptor of a file in the folder; links are not followed."""
        flags |= _OPEN | _NO_LINK
        return os.open(self.file_name(name), flags, 0o600, dir_fd=self.descriptor)

    def file_name(self, name: str) -> str:
        """The name of a file in the folder, as system calls take it."""
        return name if self.descriptor is not None else str(self.path / name)


@contextlib.contextmanager
def _open_folder(path: Path) -> Iterator[_Folder]:
    """Opens a folder, which stays the same one even if it is renamed."""
    if not _BY_FOLDER:
        yield _Folder(None, path, _is_ours(os.stat(path)))
        return
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | _OPEN)
    try:
        yield _Folder(descriptor, path, _is_ours(os.fstat(descriptor)))
    finally:
        os.close(descriptor)


def _read(at: _Folder, name: str) -> bytes:
    """The contents of a file that only this user can write; empty for others."""
    with open(at.open(name, os.O_RDONLY), "rb", buffering=0) as file:
        about = os.fstat(file.fileno())
        if not stat.S_ISREG(about.st_mode) or not _is_ours(about):
            return b""
        os.utime(file.fileno() if _BY_FOLDER else at.file_name(name))  # it is of use
        return file.read()


def _replace(at: _Folder, name: str, raw: bytes) -> None:
    """Writes a file atomically."""
    part = f"tmp{secrets.token_hex(8)}.part"
    descriptor = at.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(raw)
        os.replace(at.file_name(part), at.file_name(name), src_dir_fd=at.descriptor,
                   dst_dir_fd=at.descriptor)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(at.file_name(part), dir_fd=at.descriptor)
        raise


def _is_ours(about: os.stat_result) -> bool:
    """True if only this user can have written a file."""
    if not hasattr(os, "geteuid"):
        return True
    return about.st_uid == os.geteuid() and not about.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def _evict(at: _Folder) -> None:
    """Removes the least recently used entries if all together exceed the limit."""
    all_entries = _entries(at)
    total, limit = sum(entry.size for entry in all_entries), settings.disk_mb << 20
    if total > limit:
        for entry in sorted(all_entries):
            if total <= limit * _TRIM_FRACTION:
                break
            total -= entry.size * _removed(at, entry)


class CacheFile(NamedTuple):
    """A file of the folder: when it was last used, its bytes, and its name."""

    used: float
    size: int
    name: str


def entries(path: Path) -> list[CacheFile]:
    """The entries of a folder; other files of the user in it are ignored."""
    with contextlib.suppress(OSError), _open_folder(path) as at:  # there is none yet
        return _entries(at)
    return []


def _entries(at: _Folder) -> list[CacheFile]:
    result = []
    for file in os.scandir(at.path if at.descriptor is None else at.descriptor):
        if _NAMES.fullmatch(file.name):
            with contextlib.suppress(OSError):  # another process was faster
                about = file.stat(follow_symlinks=False)
                result.append(CacheFile(about.st_mtime, about.st_size, file.name))
    return result


def clear() -> int:
    """Removes all entries. Returns the number of removed ones."""
    path = folder()
    if path is not None:
        with contextlib.suppress(OSError), _open_folder(path) as at:
            return sum([_removed(at, entry) for entry in _entries(at)])
    return 0


def _removed(at: _Folder, entry: CacheFile) -> bool:
    with contextlib.suppress(OSError):
        os.unlink(at.file_name(entry.name), dir_fd=at.descriptor)
        return True
    return False
