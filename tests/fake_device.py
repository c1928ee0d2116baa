"""A device that notes what is launched and computes nothing: what plans are tested against."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fusewire.codegen.cuda.cost import FIRST, Choice
from fusewire.codegen.cuda.protocol import Places, Region
from fusewire.codegen.cuda.source import Function


@dataclass
class FakeDevice:
    """`launches` has what ran, in order: the function, and the regions that its arguments are in.
    `made` has the arrays that were asked for, whose memory is NumPy's."""

    launches: list[tuple[Function, list[Region]]] = field(default_factory=list)
    made: list[Any] = field(default_factory=list)
    choice: Choice = FIRST

    def load(self, source: str) -> _Noting:
        return _Noting(self)

    def empty(self, shape: tuple[int, ...], dtype: Any) -> Any:
        self.made.append(np.zeros(shape, dtype))
        return self.made[-1]

    def upload(self, array: Any) -> Any:
        return np.array(array, order="C")

    copy = upload

    def write(self, array: Any, values: Any) -> None:
        array[...] = values

    def is_free(self, arrays: list[Any], which: int) -> bool:
        return False

    def places(self, arrays: Sequence[Any]) -> Places | None:
        return None

    def capture(self, work: Callable[[], None], arrays: Sequence[Any]) -> Any:
        raise NotImplementedError
    bandwidth = 1e9

    def seconds(self, work: Callable[[], None], graph: bool = True) -> float:
        work()
        return 0.0

    def ready(self, array: Any) -> Any:
        return np.ascontiguousarray(array)


@dataclass(frozen=True)
class _Noting:
    device: FakeDevice

    def launch(self, function: Function, arguments: Sequence[Region]) -> None:
        self.device.launches.append((function, list(arguments)))
