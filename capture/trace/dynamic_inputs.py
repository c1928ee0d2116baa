"""What was not the same on each call: numbers and sizes that a recording must hold for any of."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from ...eager.core.tensor import Tensor
from ..heap.access_path import Path
from .dynamic_spec import Asked, Dynamic
from .symbolize import is_number_at

_MISSING = (AttributeError, LookupError, ValueError, TypeError)
Axis = tuple[Path, int]


@dataclass(frozen=True)
class DynamicInputs:
    """Where plain numbers and sizes are that differed; `axes` gives each size its name."""

    numbers: frozenset[Path] = frozenset()
    axes: dict[Axis, str] = field(default_factory=dict)

    def places(self) -> dict[str, Axis]:
        """By the name of a size, an axis that has it."""
        return {name: axis for axis, name in reversed(self.axes.items())}

    def sizes(self, read: Callable[[Path], Any]) -> dict[str, int]:
        """The named sizes of this call."""
        return {name: int(read(path)._data.shape[axis])
                for name, (path, axis) in self.places().items()}


class SpecializationHistory:
    """What differed in the calls of one function so far."""

    def __init__(self, dynamic: Dynamic = None) -> None:
        """dynamic: which sizes are symbols; True: all of the arguments' from the start, False:
        none, None: those that differ, or {argument: axes}, or {argument: {axis: name}}."""
        self.dynamic = dynamic
        self.numbers: dict[Path, None] = {}
        self.axes: dict[Axis, str] = {}
        self._named: dict[Any, str] = {}

    def numbers_differ(self, paths: Iterator[Path] | frozenset[Path]) -> None:
        """From now on these numbers are symbols."""
        self.numbers.update(dict.fromkeys(paths))

    def size_differs(self, axis: Axis, before: int, now: int) -> None:
        """From now on this size is a symbol: that of others which changed in the same way."""
        if self.dynamic is not False and axis not in self.axes:
            self.axes[axis] = self._named.setdefault((before, now), f"n{len(self.axes)}")

    def begin(self, asked: Iterable[Asked]) -> None:
        """The first call, and the sizes in it that are to be symbols."""
        for path, axis, name in asked:
            self.axes.setdefault((path, axis), name or f"n{len(self.axes)}")

    def here(self, read: Callable[[Path], Any], follows_numbers: bool = True) -> DynamicInputs:
        """What of it there is in this call. Sizes of 0 and 1 are cases of their own."""
        numbers = frozenset(p for p in self.numbers
                            if follows_numbers and is_number_at(p, read))
        axes: dict[Axis, str] = {}
        known: dict[str, int] = {}
        for (path, axis), name in self.axes.items():
            size = _size(path, axis, read)
            if size > 1 and follows_numbers:
                same = known.setdefault(name, size) == size
                axes[path, axis] = name if same else f"{name}_{len(axes)}"
        return DynamicInputs(numbers, axes)


def _size(path: Path, axis: int, read: Callable[[Path], Any]) -> int:
    """The size of an axis; 0 where no such tensor is there."""
    try:
        value = read(path)
        return int(value._data.shape[axis]) if isinstance(value, Tensor) else 0
    except _MISSING:
        return 0

