"""Plain numbers replaced by symbols for the time of a recorded run.

A number that was another one on a later call becomes a `Number` at every place where it was found:
an argument, an attribute, an element, a global, a closure variable. No plain copy of it is left
then, so whatever the run does with it is seen.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Iterable
from typing import Any

from ..heap.access_path import Path
from ..heap.introspection import attributes
from ..scalars.scalar_expr import ScalarExpr
from ..scalars.symbolic_scalar import DecisionRecorder, SymbolicScalar


def settable(path: Path, read: Callable[[Path], Any]) -> bool:
    """Whether a symbol can be put in the place of the number at `path`."""
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
    """Whether a plain number stands at `path` now, and a symbol could."""
    try:
        return type(read(path)) in (int, float) and settable(path, read)
    except (AttributeError, LookupError, TypeError, ValueError):
        return False


class Symbolizer:
    """Puts symbols at `paths` and takes them back; `args` and `kwargs` are to be called with."""

    def __init__(self, paths: Iterable[Path], args: Any, kwargs: Any, recorder: DecisionRecorder,
                 read: Callable[[Path], Any]) -> None:
        self.args, self.kwargs = list(args), dict(kwargs)
        self._paths, self._recorder, self._read = list(paths), recorder, read
        self.numbers: dict[Path, SymbolicScalar] = {}
        self.written: list[Path] = []  # where the run has put something else
        self._placed: list[tuple[Any, Path, Any, SymbolicScalar]] = []

    def put(self) -> dict[Path, SymbolicScalar]:
        """Puts the symbols there, which it returns by their places."""
        for path in self._paths:
            value = self._read(path)
            if type(value) is SymbolicScalar:  # one closure variable of two functions
                self.numbers[path] = value
                continue
            number = SymbolicScalar(ScalarExpr("given", (path,)), value, self._recorder)
            self.numbers[path] = number
            owner = self._owner(path)
            self._placed.append((owner, path, value, number))
            _put(owner, path, number)
        return self.numbers

    def take_back(self) -> None:
        """Puts the numbers back, but where the run has put something else."""
        for owner, path, value, number in self._placed:
            if _get(owner, path) is number:
                _put(owner, path, value)
            elif owner is not self.args and owner is not self.kwargs:
                self.written.append(path)

    def _owner(self, path: Path) -> Any:
        assert path.parent is not None
        if path.parent.kind == "args" and path.parent.parent is None:
            return self.args
        if path.parent.kind == "kwargs" and path.parent.parent is None:
            return self.kwargs
        return self._read(path.parent)


def _get(owner: Any, path: Path) -> Any:
    """What stands at the last step of `path` now; None where nothing does."""
    if path.kind == "cell":
        return owner.__closure__[path.key].cell_contents
    if path.kind == "attr":
        return getattr(owner, path.key, None)
    try:
        return owner[path.key.value]
    except LookupError:
        return None


def _put(owner: Any, path: Path, value: Any) -> None:
    if path.kind == "cell":
        owner.__closure__[path.key].cell_contents = value
    elif path.kind == "attr":
        object.__setattr__(owner, path.key, value)  # frozen dataclasses too
    else:
        owner[path.key.value] = value
