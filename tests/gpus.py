"""Provides the devices that tests run CUDA C on: the emulator, and with `pytest -m gpu` a GPU."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
from compiled_for_cuda import compile_on
from emulated import EmulatedDevice

from emulator.emulator import AVAILABLE
from fusewire.capture.graph.graph import Graph
from fusewire.codegen.cuda.runtime.device import gpu
from fusewire.eager.arrays import devices
from fusewire.eager.cuda.cupy_kernels import cupy
from fusewire.eager.cuda.device import CUDA

NEEDS_GPU = [pytest.mark.gpu, pytest.mark.skipif(
    not CUDA.count(), reason=": ".join(CUDA.missing()))]

EMULATOR = pytest.param(EmulatedDevice, id="emulator", marks=pytest.mark.skipif(
    not AVAILABLE, reason="the emulator compiles with g++"))
GPU = pytest.param(lambda order=0: real_cupy() and gpu(), id="gpu", marks=NEEDS_GPU)
"""Makers of a device. Their argument selects an order of threads, in the emulator."""

BOTH = pytest.mark.parametrize(
    "gpus", [pytest.param("emulator", marks=EMULATOR.marks), pytest.param("gpu", marks=NEEDS_GPU)],
    indirect=True)
"""Devices for programs whose tensors are on GPUs."""


def real_cupy() -> Any:
    """CuPy, imported without its warnings, for tests marked gpu."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        devices.load("cuda")
        return cupy()


def from_here(part: Graph, device: Any) -> Callable[[list[Any]], list[Any]]:
    """A function that runs a part of a graph on a device, from NumPy arrays to NumPy arrays. NumPy
    computes ops without code."""
    program = compile_on(part, device, checks=False)
    return lambda arrays: [devices.host(a) for a in program([device.upload(a) for a in arrays])]
