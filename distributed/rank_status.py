"""Notes what each rank of a launched job does, in files that the launcher reads."""

from __future__ import annotations

import json
import mmap
import os
from pathlib import Path
from typing import NamedTuple

_BYTES = 2048  # of a file
_LAST_BYTES = 320  # of the text on the last collective: JSON writes a byte as 6 at most


class RankState(NamedTuple):
    """The last note of a rank. `end` is empty while it runs, "done" or "failed"."""

    rank: int
    pid: int
    last: str
    end: str

    def __str__(self) -> str:
        return f"rank {self.rank}, {self.last}"


class RankStatus:
    """The file of this rank."""

    def __init__(self, folder: str, rank: int) -> None:
        path = Path(folder) / f"rank{rank}"
        path.write_bytes(b" " * _BYTES)
        with path.open("r+b") as file:
            self._memory = mmap.mmap(file.fileno(), _BYTES)
        self.rank, self._last = rank, "before its first collective"
        self.note(self._last)

    def note(self, last: str, end: str = "") -> None:
        """Notes the collective that this rank calls now, and how the rank has ended."""
        self._last = last
        seen = last.encode(errors="replace")[:_LAST_BYTES].decode(errors="ignore")
        # A list written by hand, as this happens before each collective: json is fast for a str.
        text = f'[{self.rank}, {os.getpid()}, {json.dumps(seen, ensure_ascii=False)}, "{end}"]'
        self._memory[:] = text.encode().ljust(_BYTES)

    def finish(self, end: str) -> None:
        """Notes how this rank has ended."""
        self.note(self._last, end)


def read_states(folder: str) -> list[RankState]:
    """The last notes of all ranks of this machine, in their order."""
    states = []
    for path in Path(folder).glob("rank*"):
        try:
            states.append(RankState(*json.loads(path.read_bytes())))
        except (ValueError, OSError):  # a rank writes it now
            continue
    return sorted(states)
