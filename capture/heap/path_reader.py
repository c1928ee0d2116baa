"""Reads the values of one call by access path."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .access_path import Path, item

# What reading raises in a call that lacks a path.
MISSING = (AttributeError, KeyError, IndexError, ValueError, TypeError)


class PathReader:
    """Reads the access paths of one call."""

    def __init__(self, args: Any, kwargs: Any, fn: Any, held: dict[int, Any]) -> None:
        self._roots = {"args": args, "kwargs": kwargs, "function": fn}
        self._held = held
        self.shared_objects: dict[int,
                                  Any] = {}  # by number: objects that occur several times
        self.number: Callable[[Any], Any] = no_number  # evaluates a scalar expression

    def __call__(self, path: Path) -> Any:
        if path.parent is None:
            if path.kind == "class":
                return path.key
            return self._roots[path.kind] if path.kind in self._roots else self._held[path.key]
        above = self(path.parent)
        if path.kind == "attr":
            return getattr(above, path.key)
        if path.kind == "cell":
            return above.__closure__[path.key].cell_contents
        if path.kind == "call":
            return above(*path.key.args, **path.key.kwargs)
        return item(above, path.key.value)


def no_number(formula: Any) -> Any:
    """Raises AssertionError: there is no call in which an expression has a value."""
    raise AssertionError(f"no call is running that could compute {formula}")
