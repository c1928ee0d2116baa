"""Notes the calls of CuPy that `CupyDevice` makes; arrays have addresses, kernels do not run."""

from __future__ import annotations

import itertools
from types import SimpleNamespace
from typing import Any

import numpy as np


class FakeCupy:
    """A stand-in for the module `cupy` on a machine with an H100. `calls`: the calls in order.
    `inside`: the contexts that are entered."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.inside: list[str] = []
        self._addresses = itertools.count(1 << 20, 1 << 20)
        self.cuda = SimpleNamespace(
            Device=lambda number: _Context(
                self, f"device {number}", compute_capability="90", attributes={
                    "MultiProcessorCount": 132, "MaxSharedMemoryPerBlockOptin": 227 << 10,
                    "MemoryClockRate": 2619000, "GlobalMemoryBusWidth": 5120}),
            Module=lambda: _Module(self),
            Stream=lambda non_blocking: _Stream(self, "stream"),
            get_current_stream=lambda: _Stream(self, "default"),
            device=SimpleNamespace(get_cublas_handle=lambda: "handle"),
            cublas=SimpleNamespace(
                gemmStridedBatchedEx=lambda *args: self.note("multiply", *args)),
            runtime=SimpleNamespace(
                driverGetVersion=lambda: 12040,
                getDeviceProperties=lambda number: {"name": b"NVIDIA H100"}),
            Event=lambda: _Event(self),
            get_elapsed_time=lambda begin, end: 40.0,  # ms
            driver=SimpleNamespace(
                CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES=8,
                funcSetAttribute=lambda *args: self.note("allow", *args)))

    def note(self, *call: Any) -> None:
        assert self.inside and self.inside[0].startswith("device"), "on any of several GPUs"
        self.calls.append(call)

    def array(self, array: Any, order: str = "C") -> Any:
        self.note("array")
        array = SimpleNamespace(shape=array.shape, dtype=array.dtype)
        array.data = SimpleNamespace(ptr=next(self._addresses), mem=SimpleNamespace())
        array.set = lambda values: self.note("set", array.data.ptr, *values)
        array.flags = SimpleNamespace(c_contiguous=True)
        return array

    asarray = array

    def empty(self, shape: Any, dtype: Any) -> Any:
        return self.array(SimpleNamespace(shape=shape, dtype=dtype))

    def asnumpy(self, array: Any) -> Any:
        return np.zeros(array.shape, array.dtype)


class _Context:
    def __init__(self, cupy: FakeCupy, name: str, **attributes: Any) -> None:
        self.cupy, self.name = cupy, name
        self.__dict__.update(attributes)

    def __enter__(self) -> None:
        self.cupy.inside.append(self.name)

    def __exit__(self, *error: Any) -> None:
        assert self.cupy.inside.pop() == self.name


class _Stream(_Context):
    ptr = 7

    def begin_capture(self) -> None:
        self.cupy.note("begin", *self.cupy.inside)

    def end_capture(self) -> Any:
        self.cupy.note("end")
        return SimpleNamespace(launch=lambda: self.cupy.note("graph", *self.cupy.inside))

    def synchronize(self) -> None:
        self.cupy.note("wait", self.name)


class _Event:
    def __init__(self, cupy: FakeCupy) -> None:
        self.cupy = cupy

    def record(self) -> None:
        self.cupy.note("event")

    def synchronize(self) -> None:
        self.cupy.note("wait", "event")


class _Module:
    def __init__(self, cupy: FakeCupy) -> None:
        self.cupy = cupy

    def load(self, cubin: bytes) -> None:
        assert type(cubin) is bytes and cubin.startswith(b"\x7fELF")
        self.cupy.note("load", *self.cupy.inside)

    def get_function(self, name: str) -> Any:
        def launch(grid: Any, block: Any, args: Any, shared_mem: int = 0) -> None:
            assert type(grid) is tuple is type(block) and {*map(type, args)} <= {int}
            self.cupy.note(name, grid, block, shared_mem, *args)

        launch.ptr = 77  # type: ignore[attr-defined]
        return launch
