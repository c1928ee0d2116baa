"""What was compiled once, kept on disk for later processes.

An entry's name is a digest of everything that it depends on, so nothing that is stored is ever out
of date. An entry holds a digest of its name and its contents, too: what was cut off, damaged or
moved is made anew. Entries are written beside their place and renamed, so that processes may share
a folder and be killed at any time. Whatever the disk refuses, such as a home that cannot be
written, only costs the time to compile.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import stat
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

from ..eager.settings import settings

_FORMAT = b"fusewire object 1\n"
_SPARE = 0.8  # of the limit, to which the oldest entries are removed
_NAMES = re.compile(r"[0-9a-f]{64}\.\w+|tmp\w+\.part")  # of entries, and of what becomes one


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
        place = _place(name)
        if place is None or not _is_ours(place):
            return None
        raw = place.read_bytes()
        check, image = raw[len(_FORMAT):len(_FORMAT) + 32], raw[len(_FORMAT) + 32:]
        if raw.startswith(_FORMAT) and check == digest(name, image):
            os.utime(place)  # it was of use
            return image
    return None


def save(name: str, image: bytes) -> None:
    """Makes an entry, as a whole or not at all."""
    with contextlib.suppress(OSError, RuntimeError):
        place = _place(name)
        if place is None:
            return
        place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if _is_ours(place.parent):
            _replace(place, _FORMAT + digest(name, image) + image)
            _make_room(place.parent)


def _place(name: str) -> Path | None:
    found = folder()
    return None if found is None else found / name


def _replace(place: Path, raw: bytes) -> None:
    """Writes a file that is there with all it holds, or not there."""
    descriptor, part = tempfile.mkstemp(dir=place.parent, suffix=".part")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(raw)
        os.replace(part, place)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(part)
        raise


def _is_ours(place: Path) -> bool:
    """Whether nobody else can have written it: what is loaded from here is run."""
    if not hasattr(os, "geteuid"):
        return True
    found = os.stat(place)
    return found.st_uid == os.geteuid() and not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def _make_room(where: Path) -> None:
    """Removes what was of no use for longest, where all of it is more than the limit."""
    found = entries(where)
    total, limit = sum(entry.size for entry in found), settings.disk_mb << 20
    if total > limit:
        for entry in sorted(found):
            if total <= limit * _SPARE:
                break
            total -= entry.size * _removed(entry)


class Entry(NamedTuple):
    """A file of the folder: when it was of use last, its bytes, and where it is."""

    used: float
    size: int
    path: str


def entries(where: Path) -> list[Entry]:
    """What is kept in a folder. Files of others, which a folder of the user's may hold, are not."""
    found = []
    with contextlib.suppress(OSError):  # there is none yet
        for file in os.scandir(where):
            if _NAMES.fullmatch(file.name):
                with contextlib.suppress(OSError):  # another process was faster
                    about = file.stat()
                    found.append(Entry(about.st_mtime, about.st_size, file.path))
    return found


def clear() -> int:
    """Removes all entries. The number of those that are gone."""
    where = folder()
    return sum(map(_removed, entries(where))) if where is not None else 0


def _removed(entry: Entry) -> bool:
    with contextlib.suppress(OSError):
        os.unlink(entry.path)
        return True
    return False
