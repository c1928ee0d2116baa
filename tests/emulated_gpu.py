"""Emulates two GPUs: a stand-in for CuPy on NumPy's arrays, with the emulator for kernels."""

from __future__ import annotations

import contextlib
import functools
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any
from unittest import mock

import numpy as np
from eager_cuda import fake_cupy
from emulated import EmulatedDevice

from fusewire.capture.heap.code_tracker import unobserved
from fusewire.capture.runtime.specialization_cache import Specializations
from fusewire.codegen import backend
from fusewire.codegen.cuda.module import CudaFunction
from fusewire.codegen.cuda.runtime.backend import CUDA_BACKEND
from fusewire.codegen.cuda.runtime.protocol import BufferAddresses, MemoryRange
from fusewire.codegen.eager_jit import device_ops
from fusewire.codegen.gpu.cost_model import FIRST_CANDIDATE, CandidateChoice
from fusewire.eager.arrays import devices
from fusewire.eager.core.tensor import Tensor


class EmulatedGpu:
    """A GPU with a number: the emulator, on arrays of the stand-in."""

    choice: CandidateChoice = FIRST_CANDIDATE

    def __init__(self, number: int) -> None:
        self.number, self.emulated = number, EmulatedDevice()
        self.launches: list[str] = []  # the names of the kernels that were launched
        self.graphs = 0  # the number of graphs that were launched
        self._captured: list[Any] | None = None
        arrays = [self.empty((1,), np.uint8)]
        _tensor = Tensor(arrays[0])
        self._alone = holders(arrays, 0)

    def load(self, source: str) -> Any:
        return _Loaded(self, self.emulated.load(source))

    def empty(self, shape: tuple[int, ...], dtype: Any) -> Any:
        return fake_cupy.made(self.emulated.empty(shape, dtype), self.number)

    def upload(self, array: Any) -> Any:
        return fake_cupy.made(self.emulated.upload(array), self.number)

    def copy(self, array: Any) -> Any:
        return self.upload(fake_cupy.host_of(array))

    def write(self, array: Any, values: Any) -> None:
        fake_cupy.host_of(array)[...] = values

    def is_free(self, arrays: list[Any], which: int) -> bool:
        return holders(arrays, which) == self._alone

    def addresses(self, arrays: Sequence[Any]) -> BufferAddresses:
        return BufferAddresses(0, tuple(fake_cupy.host_of(a).ctypes.data for a in arrays))

    def capture(self, work: Any, arrays: Sequence[Any]) -> Any:
        """A graph that repeats the launches of `work` on the same memory."""
        self._captured = []
        work()
        launches, self._captured = self._captured, None

        def launch() -> None:
            self.graphs += 1
            for run in launches:
                run()

        return SimpleNamespace(launch=launch)

    @property
    def bandwidth(self) -> float:
        return self.emulated.bandwidth

    def seconds(self, work: Any, graph: bool = True) -> float:
        return self.emulated.seconds(work)

    def ready(self, array: Any) -> Any:
        """An array that the emulator can read. Asserts that it is on this device."""
        assert array.device.id == self.number
        host = fake_cupy.host_of(array)
        return array if self.emulated.ready(host) is host else self.copy(array)


class _Loaded:
    def __init__(self, gpu: EmulatedGpu, module: Any) -> None:
        self._gpu, self._module = gpu, module

    def launch(self, function: CudaFunction, arguments: Sequence[MemoryRange]) -> None:
        memory = [a._replace(array=fake_cupy.host_of(a.array)) for a in arguments]
        run = functools.partial(self._run, function, memory)
        if self._gpu._captured is None:
            self._gpu.launches += [k.name for k in function.kernels]
            run()
        else:
            self._gpu._captured.append(run)

    def _run(self, function: CudaFunction, memory: Sequence[MemoryRange]) -> None:
        with unobserved():  # a trace must not record the emulator
            self._module.launch(function, memory)


def holders(arrays: list[Any], which: int) -> tuple[int, ...]:
    """The numbers of references to an array of a list, and to its memory."""
    return sys.getrefcount(arrays[which]), sys.getrefcount(arrays[which]._host)


@contextlib.contextmanager
def emulated_gpus() -> Iterator[list[EmulatedGpu]]:
    """A context in which this machine has two emulated GPUs."""
    gpus = [EmulatedGpu(0), EmulatedGpu(1)]
    emulated = replace(CUDA_BACKEND, device=gpus.__getitem__)
    with fake_cupy.installed(), mock.patch.dict(backend._LOADED, {"cuda": emulated}), \
            mock.patch.object(device_ops, "_PROGRAMS", Specializations("eager GPU programs")):
        cuda = devices.load("cuda")
        cuda.folders += (os.path.dirname(__file__) + "/emulat",)  # no code of users
        yield gpus
