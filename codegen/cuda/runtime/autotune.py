"""Which of several ways to compute the same is the fastest on a GPU: measured once, and remembered
on disk.

All ways give the same numbers, bit by bit. So no result tells what was measured, and what is
remembered can be wrong about nothing but time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ....eager.errors import CodegenError
from ...gpu.cost_model import Choice, Ways
from ...ir.loop_ir import Buffer, Kernel
from ...runtime import disk_cache
from ..module import CudaFunction, CudaModule, module_of
from .protocol import Device, Region

_MEASURED = 4  # ways, from the first one on
_BYTES = 1 << 30  # of memory that a measurement may take
_NEVER = float("inf")
_BYTE = np.dtype("uint8")
_KNOWN: dict[str, str] = {}  # the fastest ways that this process has seen, by their entries


@dataclass(frozen=True, kw_only=True)
class TimedChoice(Choice):
    """Takes the way that a device runs fastest; `name`: what devices of its kind are called."""

    device: Device
    name: str

    def best(self, ways: Ways) -> list[Kernel]:
        """The kernels of the fastest way; of the first one where there is nothing to measure."""
        few = dict(list(ways.items())[:_MEASURED])
        first = super().best(few)
        if len(few) < 2 or sum(map(_size, _buffers(first))) > _BYTES:
            return first
        entry = disk_cache.digest("fastest", self.name, *few,
                                  _module(first).source).hex() + ".fastest"
        if entry not in _KNOWN:
            _KNOWN[entry] = _remembered(entry, few) or self._measure(entry, few)
        return few[_KNOWN[entry]]()

    def _measure(self, entry: str, ways: Ways) -> str:
        arrays: dict[Buffer, Any] = {}
        times = {name: self._seconds(make(), arrays) for name, make in ways.items()}
        fastest = min(times, key=times.__getitem__)
        if times[fastest] < _NEVER:
            disk_cache.save(entry, fastest.encode())
        return fastest

    def _seconds(self, kernels: list[Kernel], arrays: dict[Buffer, Any]) -> float:
        """The time of kernels on zeros, which as indices are in range; infinite where the device
        does not take them."""
        module = _module(kernels)
        try:
            for b in _buffers(kernels) - set(arrays):
                arrays[b] = self.device.upload(np.zeros(_size(b), _BYTE))
            loaded = self.device.load(module.source)
            calls = [(f, self._arguments(f, arrays)) for f in module.functions]

            def work() -> None:
                for function, arguments in calls:
                    loaded.launch(function, arguments)

            return self.device.seconds(work)
        except (CodegenError, MemoryError):
            return _NEVER

    def _arguments(self, function: CudaFunction, arrays: dict[Buffer, Any]) -> list[Region]:
        given = [Region(arrays[b], 0, b.dtype, b.size) for b in function.arguments]
        if function.scratch:
            own = self.device.empty((function.scratch,), _BYTE)
            given.append(Region(own, 0, _BYTE, function.scratch))
        return given


def _remembered(entry: str, ways: Ways) -> str | None:
    """The way that an entry on disk names; None where it names none of these."""
    found = (disk_cache.load(entry) or b"").decode(errors="replace")
    return found if found in ways else None


def _module(kernels: list[Kernel]) -> CudaModule:
    return module_of([(f"k{n}", [k]) for n, k in enumerate(kernels)],
                     {k: frozenset(k.arguments) for k in kernels})


def _buffers(kernels: list[Kernel]) -> set[Buffer]:
    return {b for k in kernels for b in k.arguments}


def _size(b: Buffer) -> int:
    return int(b.size * b.dtype.itemsize)
