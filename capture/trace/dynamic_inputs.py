"""Tracks which numbers and sizes differed between calls: a trace treats them as symbols."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from ...eager.core.tensor import Tensor
from ..heap.access_path import Path
from .dynamic_spec import Dynamic, DynamicAxis
from .symbolize import is_number_at

_MISSING = (AttributeError, LookupError, ValueError, TypeError)
Axis = tuple[Path, int]


@dataclass(frozen=True)
class DynamicInputs:
    """The dynamic numbers and axes of one call, by access path; `axes` names each size."""

    numbers: frozenset[Path] = frozenset()
    axes: dict[Axis, str] = field(default_factory=dict)

    def axis_of_size(self) -> dict[str, Axis]:
        """One axis of each named size, by name."""
        return {name: axis for axis, name in reversed(self.axes.items())}

    def sizes(self, read: Callable[[Path], Any]) -> dict[str, int]:
        """The named sizes of this call."""
        return {name: int(read(path)._data.shape[axis])
                for name, (path, axis) in self.axis_of_size().items()}


class SpecializationHistory:
    """The numbers and sizes that have differed between calls of one function."""

    def __init__(self, dynamic: Dynamic = None) -> None:
        """dynamic: which sizes are symbols; True: all of the arguments' from the start, False:
        none, None: those that differ, or {argument: axes}, or {argument: {axis: name}}."""
        self.dynamic = dynamic
        self.numbers: dict[Path, None] = {}
        self.axes: dict[Axis, str] = {}
        self._names_by_change: dict[Any, str] = {}

    def numbers_differ(self, paths: Iterator[Path] | frozenset[Path]) -> None:
        """Makes these numbers symbols in later traces."""
        self.numbers.update(dict.fromkeys(paths))

    def size_differs(self, axis: Axis, before: int, now: int) -> None:
        """Makes this size a symbol in later traces; sizes that change alike share a symbol."""
        if self.dynamic is not False and axis not in self.axes:
            self.axes[axis] = self._names_by_change.setdefault((before, now), f"n{len(self.axes)}")

    def begin(self, requested: Iterable[DynamicAxis]) -> None:
        """Makes the requested sizes of the first call symbols."""
        for path, axis, name in requested:
            self.axes.setdefault((path, axis), name or f"n{len(self.axes)}")

    def inputs_of_call(self, read: Callable[[Path], Any],
                       symbolic_scalars: bool = True) -> DynamicInputs:
        """The dynamic inputs of this call. Sizes of 0 and 1 are specialized."""
        numbers = frozenset(p for p in self.numbers
                            if symbolic_scalars and is_number_at(p, read))
        axes: dict[Axis, str] = {}
        size_of_name: dict[str, int] = {}
        for (path, axis), name in self.axes.items():
            size = _size(path, axis, read)
            if size > 1 and symbolic_scalars:
                same = size_of_name.setdefault(name, size) == size
                axes[path, axis] = name if same else f"{name}_{len(axes)}"
        return DynamicInputs(numbers, axes)


def _size(path: Path, axis: int, read: Callable[[Path], Any]) -> int:
    """The size of an axis; 0 if there is no such tensor."""
    try:
        value = read(path)
        return int(value._data.shape[axis]) if isinstance(value, Tensor) else 0
    except _MISSING:
        return 0

