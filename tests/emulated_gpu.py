"""A GPU that is not there: CuPy is a stand-in on NumPy's arrays, and its threads the emulator's."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from typing import Any
from unittest import mock

from eager_cuda import fake_cupy
from emulated import EmulatedDevice

from fusewire.codegen.cuda import eager, placed
from fusewire.codegen.cuda.cost import FIRST, Choice
from fusewire.codegen.cuda.executable import Region
from fusewire.codegen.cuda.source import Function
from fusewire.eager import devices


class EmulatedGpu:
    """The GPU of a number: the emulator, on arrays of the stand-in."""

    choice: Choice = FIRST

    def __init__(self, number: int) -> None:
        self.number, self.emulated = number, EmulatedDevice()
        self.launches: list[str] = []  # the names of the kernels that ran

    def load(self, source: str) -> Any:
        return _Loaded(self, self.emulated.load(source))

    def empty(self, shape: tuple[int, ...], dtype: Any) -> Any:
        return fake_cupy.made(self.emulated.empty(shape, dtype), self.number)

    def upload(self, array: Any) -> Any:
        return fake_cupy.made(self.emulated.upload(array), self.number)

    def copy(self, array: Any) -> Any:
        return self.upload(fake_cupy.host_of(array))

    @property
    def bandwidth(self) -> float:
        return self.emulated.bandwidth

    def seconds(self, work: Any) -> float:
        return self.emulated.seconds(work)

    def ready(self, array: Any) -> Any:
        """An array as the emulator reads it; an array of another device is none of this one's."""
        assert array.device.id == self.number
        host = fake_cupy.host_of(array)
        return array if self.emulated.ready(host) is host else self.copy(array)


class _Loaded:
    def __init__(self, gpu: EmulatedGpu, module: Any) -> None:
        self._gpu, self._module = gpu, module

    def launch(self, function: Function, arguments: Sequence[Region]) -> None:
        self._gpu.launches.append(function.name)
        self._module.launch(function, [a._replace(array=fake_cupy.host_of(a.array))
                                       for a in arguments])


@contextlib.contextmanager
def emulated_gpus() -> Iterator[list[EmulatedGpu]]:
    """A context in which this machine has two GPUs, which are emulated."""
    gpus = [EmulatedGpu(0), EmulatedGpu(1)]
    with fake_cupy.installed(), mock.patch.object(eager, "gpu", gpus.__getitem__), \
            mock.patch.object(placed, "gpu", gpus.__getitem__):
        devices.cupy()
        devices.folders += (os.path.dirname(__file__) + "/emulat",)  # no code of users
        yield gpus
