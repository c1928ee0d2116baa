"""Fakes a device that notes launches and computes nothing, for tests of plans."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from plain_device import PlainDevice

from fusewire.codegen.cuda.module import CudaFunction
from fusewire.codegen.cuda.runtime.protocol import MemoryRange


@dataclass
class FakeDevice(PlainDevice):
    """A device without computation.

    `launches`: functions in order, with the memory regions of their arguments
    `made`: the arrays that were allocated
    """

    launches: list[tuple[CudaFunction, list[MemoryRange]]] = field(default_factory=list)
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

    def launch(self, function: CudaFunction, arguments: Sequence[MemoryRange]) -> None:
        self.device.launches.append((function, list(arguments)))
