"""Checks that there is memory to compile: LLVM ends the process if an allocation fails."""

from __future__ import annotations

import contextlib
import functools
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from ...eager.errors import MemoryShortage

try:
    import resource
except ImportError:  # Windows
    resource = None  # type: ignore[assignment]

_BASE_BYTES = 16 << 20  # many times what the first module takes
# For each byte of a module's text or object code: twice the most that was measured.
_COMPILER_BYTES_PER_BYTE = 256
_SECONDS_OF_LIMITS = 5  # after which the control groups are searched for limits again
_NO_LIMIT = 1 << 60  # bytes: a group without a limit has a number above
_Names = tuple[str, str, str]  # of the files of a limit, of the bytes used, and of those of files
_GROUPS = Path("/sys/fs/cgroup")
_LIMITS: tuple[_Names, ...] = (
    ("memory.max", "memory.current", "inactive_file"),
    ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"))


def require(size: int) -> None:
    """Raises MemoryShortage if there may be too little memory to compile `size` bytes."""
    if available() < _BASE_BYTES + _COMPILER_BYTES_PER_BYTE * size:
        raise MemoryShortage


def available() -> int:
    """The bytes that the process may still allocate, as far as the system tells."""
    return min([*_of_process(), *_of_system(), *_of_groups()], default=1 << 62)


def _of_process() -> Iterator[int]:
    """The rest of the process's own limits."""
    if resource is None:
        return
    pages = _read(Path("/proc/self/statm")).split()
    if len(pages) < 6:
        return
    for name, used in (("RLIMIT_AS", pages[0]), ("RLIMIT_DATA", pages[5])):
        limit, _ = resource.getrlimit(getattr(resource, name))
        if limit != resource.RLIM_INFINITY:
            yield limit - int(used) * resource.getpagesize()


def _of_system() -> Iterator[int]:
    """The memory available in the machine."""
    fields = _numbers(_read(Path("/proc/meminfo")))
    if "MemAvailable:" in fields:
        yield (fields["MemAvailable:"] + fields.get("SwapFree:", 0)) * 1024


def _of_groups() -> Iterator[int]:
    """The rest of the limits of its control groups; cached files count as free."""
    groups = _read(Path("/proc/self/cgroup"))
    for folder, names in _limits(groups, time.monotonic() // _SECONDS_OF_LIMITS):
        yield from _rest(folder, names)


@functools.lru_cache(maxsize=1)
def _limits(groups: str, period: float) -> list[tuple[Path, _Names]]:
    """The folders of the control groups `groups` that have a limit, with the names of their files.
    """
    return [*_limited(_folders(groups))]


def _limited(folders: Iterable[Path]) -> Iterator[tuple[Path, _Names]]:
    for folder in folders:
        for names in _LIMITS:
            limit = _read(folder / names[0]).strip()
            if limit.isdigit() and int(limit) < _NO_LIMIT:
                yield folder, names


def _rest(folder: Path, names: _Names) -> Iterator[int]:
    maximum, used = (_read(folder / name).strip() for name in names[:2])
    if maximum.isdigit() and used.isdigit():
        reclaimed = _numbers(_read(folder / "memory.stat")).get(names[2], 0)
        yield int(maximum) - int(used) + reclaimed


def _folders(groups: str) -> Iterator[Path]:
    """The folders of control groups, and of those around them."""
    for line in groups.splitlines():
        _, kind, path = line.split(":", 2)
        if kind in ("", "memory"):
            root = _GROUPS / kind
            group = root / path.lstrip("/")
            yield from (at for at in (group, *group.parents) if at.is_relative_to(root))


def _numbers(text: str) -> dict[str, int]:
    """name -> number, from lines of a name and a number."""
    lines = [line.split() for line in text.splitlines()]
    return {line[0]: int(line[1]) for line in lines if len(line) > 1 and line[1].isdigit()}


def _read(path: Path) -> str:
    with contextlib.suppress(OSError):
        return path.read_text()
    return ""
