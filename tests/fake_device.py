"""A device that notes what is launched and computes nothing: what plans are tested against."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from plain_device import PlainDevice

from fusewire.codegen.cuda.module import CudaFunction
from fusewire.codegen.cuda.runtime.protocol import Region


@dataclass
class FakeDevice(PlainDevice):
    """`launches` has what ran, in order: the function, and the regions that its arguments are in.
    `made` has the arrays that were asked for, whose memory is NumPy's."""

    launches: list[tuple[CudaFunction, list[Region]]] = field(default_factory=list)
    made: list[Any] = field(default_factory=list)

    def load(self, source: str) -> _Noting:
        return _Noting(self)

    def empty(self, shape: tuple[int, ...], dtype: Any) -> Any:
        self.made.append(np.zeros(shape, dtype))
        return self.made[-1]

    def seconds(self, work: Callable[[], None], graph: bool = True) -> float:
        work()
        return 0.0

    def ready(self, array: Any) -> Any:
        return np.ascontiguousarray(array)


@dataclass(frozen=True)
class _Noting:
    device: FakeDevice

    def launch(self, function: CudaFunction, arguments: Sequence[Region]) -> None:
        self.device.launches.append((function, list(arguments)))
