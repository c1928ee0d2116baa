"""Measures which of several candidate kernels is the fastest on a GPU, and caches the choice on
disk.

All candidates compute the same numbers, bit by bit. So results never depend on the measurement,
and a stale cache entry costs only time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ....capture.runtime.specialization_cache import Specializations
from ....eager.errors import CodegenError
from ...gpu.cost_model import CandidateChoice, Candidates
from ...ir.loop_ir import Kernel, KernelBuffer
from ...runtime import disk_cache
from ..module import CudaFunction, CudaModule, module_of
from .protocol import Device, MemoryRange

MAX_MEASURED_CANDIDATES = 4  # the first ones
MAX_MEASUREMENT_BYTES = 1 << 30  # of buffers
CANNOT_RUN = float("inf")
_BYTE = np.dtype("uint8")
_FASTEST: Specializations[str] = Specializations("fastest kernels")  # by name on disk


@dataclass(frozen=True, kw_only=True)
class TimedChoice(CandidateChoice):
    """Chooses the candidate that runs fastest on a device; `name` is the name of its model."""

    device: Device
    name: str

    def best(self, candidates: Candidates) -> list[Kernel]:
        """Returns the kernels of the fastest candidate; of the first one if nothing has to be
        measured."""
        measured = dict(list(candidates.items())[:MAX_MEASURED_CANDIDATES])
        first_kernels = super().best(measured)
        if len(measured) < 2 or sum(map(_bytes_of,
                                        _buffers_of(first_kernels))) > MAX_MEASUREMENT_BYTES:
            return first_kernels
        entry = disk_cache.digest("fastest", self.name, *measured,
                                  _module_of(first_kernels).source).hex() + ".fastest"
        fastest = _FASTEST.get(
            entry, lambda: _load_choice(entry, measured) or self._measure(entry, measured))
        return measured[fastest]()

    def _measure(self, entry: str, candidates: Candidates) -> str:
        arrays: dict[KernelBuffer, Any] = {}
        times = {name: self._seconds(make(), arrays) for name, make in candidates.items()}
        fastest = min(times, key=times.__getitem__)
        if times[fastest] < CANNOT_RUN:
            disk_cache.save(entry, fastest.encode())
        return fastest

    def _seconds(self, kernels: list[Kernel], arrays: dict[KernelBuffer, Any]) -> float:
        """The time of kernels on zeros, which are valid indices; CANNOT_RUN if the device rejects
        them."""
        module = _module_of(kernels)
        try:
            for b in _buffers_of(kernels) - set(arrays):
                arrays[b] = self.device.upload(np.zeros(_bytes_of(b), _BYTE))
            loaded = self.device.load(module.source)
            calls = [(f, self._arguments(f, arrays)) for f in module.functions]

            def work() -> None:
                for function, arguments in calls:
                    loaded.launch(function, arguments)

            return self.device.seconds(work)
        except (CodegenError, MemoryError):
            return CANNOT_RUN

    def _arguments(self, function: CudaFunction,
                   arrays: dict[KernelBuffer, Any]) -> list[MemoryRange]:
        arguments = [MemoryRange(arrays[b], 0, b.dtype, b.size) for b in function.arguments]
        if function.scratch:
            scratch = self.device.empty((function.scratch,), _BYTE)
            arguments.append(MemoryRange(scratch, 0, _BYTE, function.scratch))
        return arguments


def _load_choice(entry: str, candidates: Candidates) -> str | None:
    """The candidate that a cache entry names; None if it names none of these."""
    name = (disk_cache.load(entry) or b"").decode(errors="replace")
    return name if name in candidates else None


def _module_of(kernels: list[Kernel]) -> CudaModule:
    return module_of([(f"k{n}", [k]) for n, k in enumerate(kernels)],
                     {k: frozenset(k.arguments) for k in kernels})


def _buffers_of(kernels: list[Kernel]) -> set[KernelBuffer]:
    return {b for k in kernels for b in k.arguments}


def _bytes_of(b: KernelBuffer) -> int:
    return int(b.size * b.dtype.itemsize)
