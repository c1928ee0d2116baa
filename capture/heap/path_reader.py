"""Reads values of one call by their access paths."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .access_path import Path, item


class Reader:
    """Reads paths of one call."""

    def __init__(self, args: Any, kwargs: Any, fn: Any, held: dict[int, Any]) -> None:
        self._roots = {"args": args, "kwargs": kwargs, "function": fn}
        self._held = held
        self.made: dict[int, Any] = {}  # objects of this call that stand at several places
        self.number: Callable[[Any], Any] = no_number  # the value of a formula in this call

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
        return item(above, path.key.value)


def no_number(formula: Any) -> Any:
    """What finds the value of a formula where no call is running."""
    raise AssertionError(f"no call is running that could compute {formula}")
