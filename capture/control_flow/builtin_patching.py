"""Modules where `range`, `enumerate` and `zip` count sizes that vary, while functions are recorded.

Python's own stay as they are, for other threads and for modules that are imported meanwhile read
them. A module is lent the names of `counted.py` once code in it is about to fix a size that it may
have given to Python's: then the function is recorded again.
"""

from __future__ import annotations

import contextlib
import threading
from collections import Counter
from collections.abc import Iterator
from typing import Any

from ...eager import interpreter
from .symbolic_range import STANDING, rows

_LOCK = threading.Lock()
_recordings = 0
_lent: Counter[int] = Counter()  # to how many recordings, by the identity of a module's variables


class Modules:
    """Those of the functions that one recording runs, by their global variables."""

    def __init__(self) -> None:
        self._found: dict[int, dict[str, Any]] = {}

    def takes_in(self, frame: Any) -> bool:
        """Whether the module of a frame is one of these from now on, and was not before."""
        names = frame.f_globals
        if id(names) in self._found or STANDING.keys().isdisjoint(frame.f_code.co_names):
            return False
        self._found[id(names)] = names
        return True

    @contextlib.contextmanager
    def counting(self) -> Iterator[None]:
        """A context in which a `for` over sizes that vary is a loop of what is recorded."""
        modules = list(self._found.values())
        _begin(modules)
        try:
            yield
        finally:
            _end(modules)


def _begin(modules: list[dict[str, Any]]) -> None:
    global _recordings
    with _LOCK:
        _recordings += 1
        interpreter.rows = rows
        for names in modules:
            _lent[id(names)] += 1
            for name, standing in STANDING.items():
                names.setdefault(name, standing)  # what a module calls so itself stays


def _end(modules: list[dict[str, Any]]) -> None:
    global _recordings
    with _LOCK:
        _recordings -= 1
        interpreter.rows = rows if _recordings else None
        for names in modules:
            _lent[id(names)] -= 1
            for name, standing in STANDING.items():
                if not _lent[id(names)] and names.get(name) is standing:
                    del names[name]
