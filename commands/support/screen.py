"""Shows results of commands: text, colours and progress bars for people, JSON for programs."""

from __future__ import annotations

import contextlib
import json
import math
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import IO, Any, TypeVar

import numpy as np

T = TypeVar("T")

BOLD, GREEN, RED = "1", "32", "31"  # of a terminal


class Screen:
    """The output of a command. With `json`, standard output holds only one JSON object."""

    def __init__(self, json: bool) -> None:
        self.json = json
        self.bars = sys.stderr.isatty()

    def say(self, text: str = "") -> None:
        """Shows lines to people."""
        if not self.json:
            print(text, flush=True)

    def table(self, rows: Mapping[str, str]) -> None:
        """Shows a table of names, in bold, and texts."""
        width = max(map(len, rows), default=0)
        for name, text in rows.items():
            self.say(f"{painted(name.ljust(width), BOLD)}  {text}")

    def bar(self, things: Iterable[T], label: str) -> Iterable[T]:
        """The elements of `things`, with a progress bar on standard error."""
        from tqdm import tqdm

        return tqdm(things, desc=label, leave=False, disable=not self.bars)

    @contextlib.contextmanager
    def redirected_stdout(self) -> Iterator[None]:
        """A context in which, with `json`, the prints of a user's program go to standard error."""
        with contextlib.redirect_stdout(sys.stderr) if self.json else contextlib.nullcontext():
            yield

    def show(self, result: Mapping[str, Any]) -> None:
        """Shows a result as JSON, if asked for."""
        if self.json:
            print(json.dumps(plain(result), indent=1, allow_nan=False))


def painted(text: str, style: str, stream: IO[str] | None = None) -> str:
    """`text` in a colour if `stream` is a terminal and NO_COLOR is not set."""
    without = os.environ.get("NO_COLOR") or not (stream or sys.stdout).isatty()
    return text if without else f"\033[{style}m{text}\033[0m"


def plain(value: Any) -> Any:
    """A value as types of JSON. Floats that are not finite become "nan", "inf" and "-inf"."""
    if isinstance(value, Mapping):
        return {str(key): plain(part) for key, part in value.items()}
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, (list, tuple)):
        return [plain(part) for part in value]
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value if value is None or isinstance(value, (bool, int, float, str)) else str(value)


def bytes_text(count: int) -> str:
    """A number of bytes for people, in powers of 1024.

    >>> bytes_text(300), bytes_text(5000), bytes_text(3 << 20)
    ('300 bytes', '4.9 KiB', '3.0 MiB')
    """
    if count < 1024:
        return f"{count} byte{'' if count == 1 else 's'}"
    size, unit = count / 1024, "KiB"
    for larger in ("MiB", "GiB"):
        if size >= 1024:
            size, unit = size / 1024, larger
    return f"{size:.1f} {unit}"


def time_text(seconds: float) -> str:
    """A time for people.

    >>> time_text(2.5e-6), time_text(0.0123), time_text(4)
    ('2.5 us', '12.3 ms', '4.00 s')
    """
    for unit, size in (("us", 1e-6), ("ms", 1e-3)):
        if seconds < 1000 * size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.2f} s"
