"""Checks that there is memory to compile: LLVM ends the process if an allocation fails."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from ...eager.errors import MemoryShortage

try:
    import resource
except ImportError:  # Windows
    resource = None  # type: ignore[assignment]

_BASE_BYTES = 16 << 20  # many times what the first module takes
# For each byte of a module's text or object code: twice the most that was measured.
_COMPILER_BYTES_PER_BYTE = 256
_GROUPS = Path("/sys/fs/cgroup")
_LIMITS = (("memory.max", "memory.current", "inactive_file"),
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
    for line in _read(Path("/proc/self/cgroup")).splitlines():
        _, kind, path = line.split(":", 2)
        if kind not in ("", "memory"):
            continue
        root = _GROUPS / kind
        group = root / path.lstrip("/")
        for folder in (group, *group.parents):
            if not folder.is_relative_to(root):
                break
            yield from _of_group(folder)


def _of_group(folder: Path) -> Iterator[int]:
    for limit, usage, files in _LIMITS:
        maximum, used = _read(folder / limit).strip(), _read(folder / usage).strip()
        if maximum.isdigit() and used.isdigit():
            reclaimed = _numbers(_read(folder / "memory.stat")).get(files, 0)
            yield int(maximum) - int(used) + reclaimed


def _numbers(text: str) -> dict[str, int]:
    """name -> number, from lines of a name and a number."""
    lines = [line.split() for line in text.splitlines()]
    return {line[0]: int(line[1]) for line in lines if len(line) > 1 and line[1].isdigit()}


def _read(path: Path) -> str:
    with contextlib.suppress(OSError):
        return path.read_text()
    return ""
