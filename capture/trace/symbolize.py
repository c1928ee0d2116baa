"""Replaces plain numbers in user objects by symbols for the duration of a trace.

A number that differed between calls becomes a `Number` at every access path that leads to it:
argument, attribute, element, global or closure variable. No plain copy remains, so the trace sees
every use of it.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Iterable
from typing import Any

from ..heap.access_path import Path
from ..heap.introspection import attributes
from ..scalars.scalar_expr import ScalarExpr
from ..scalars.symbolic_scalar import DecisionRecorder, SymbolicScalar


def can_symbolize(path: Path, read: Callable[[Path], Any]) -> bool:
    """True if a symbol can replace the number at `path`."""
    parent = path.parent
    if parent is None:
        return False
    if parent.kind in ("args", "kwargs", "globals") or path.kind == "cell":
        return True
    owner = read(parent)
    if path.kind == "item":
        return type(owner) in (list, dict)
    return not isinstance(owner, types.FunctionType) and path.key in attributes(owner)


def is_number_at(path: Path, read: Callable[[Path], Any]) -> bool:
    """True if a plain number stands at `path` and a symbol can replace it."""
    try:
        return type(read(path)) in (int, float) and can_symbolize(path, read)
    except (AttributeError, LookupError, TypeError, ValueError):
        return False


class Symbolizer:
    """Installs symbols at `paths` and removes them; call the function with its `args` and
    `kwargs`."""

    def __init__(self, paths: Iterable[Path], args: Any, kwargs: Any, tracer: DecisionRecorder,
                 read: Callable[[Path], Any]) -> None:
        self.args, self.kwargs = list(args), dict(kwargs)
        self._paths, self._tracer, self._read = list(paths), tracer, read
        self.numbers: dict[Path, SymbolicScalar] = {}
        self.written: list[Path] = []  # paths that the run has assigned
        self._installed: list[tuple[Any, Path, Any, SymbolicScalar]] = []

    def install(self) -> dict[Path, SymbolicScalar]:
        """Installs the symbols and returns them by path."""
        for path in self._paths:
            value = self._read(path)
            if type(value) is SymbolicScalar:  # a closure variable that two functions share
                self.numbers[path] = value
                continue
            number = SymbolicScalar(ScalarExpr("access_path", (path,)), value, self._tracer)
            self.numbers[path] = number
            owner = self._owner(path)
            self._installed.append((owner, path, value, number))
            _assign(owner, path, number)
        return self.numbers

    def uninstall(self) -> None:
        """Restores the numbers at all paths that the run has not assigned."""
        for owner, path, value, number in self._installed:
            if _current(owner, path) is number:
                _assign(owner, path, value)
            elif owner is not self.args and owner is not self.kwargs:
                self.written.append(path)

    def _owner(self, path: Path) -> Any:
        assert path.parent is not None
        if path.parent.kind == "args" and path.parent.parent is None:
            return self.args
        if path.parent.kind == "kwargs" and path.parent.parent is None:
            return self.kwargs
        return self._read(path.parent)


def _current(owner: Any, path: Path) -> Any:
    """The current value at the last step of `path`; None if it is missing."""
    if path.kind == "cell":
        return owner.__closure__[path.key].cell_contents
    if path.kind == "attr":
        return getattr(owner, path.key, None)
    try:
        return owner[path.key.value]
    except LookupError:
        return None


def _assign(owner: Any, path: Path, value: Any) -> None:
    if path.kind == "cell":
        owner.__closure__[path.key].cell_contents = value
    elif path.kind == "attr":
        object.__setattr__(owner, path.key, value)  # frozen dataclasses too
    else:
        owner[path.key.value] = value
