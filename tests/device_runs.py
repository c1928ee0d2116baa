"""Runs graphs as CUDA C in the emulator, with several orders of threads, and in the interpreter;
reports the resources of their kernels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from compiled_for_cuda import compile_on, program_of
from emulated import EmulatedDevice
from oracle import interpreted, recorded

from fusewire.capture.graph.reference_interpreter import evaluate
from fusewire.codegen.cuda.program import CUDA_LOWERING, GPU_MACHINE
from fusewire.codegen.cuda.runtime import nvrtc
from fusewire.codegen.cuda.runtime.device_executable import DeviceExecutable

ORDERS = (0, 1, 7)  # of threads and blocks: forwards, backwards, drawn


def ran(function: Callable[..., Any], *args: Any, orders: tuple[int, ...] = ORDERS,
        interpret: bool = True, mode: str = "check") -> tuple[list[Any], list[Any]]:
    """The results of CUDA C, and NumPy's. Asserts that all orders give equal bits."""
    graph, arrays = recorded(function, *args)
    with np.errstate(all="ignore"):
        expected = evaluate(graph, [np.copy(a) for a in arrays])
    results = [compile_on(graph, EmulatedDevice(order, mode))([np.copy(a) for a in arrays])
               for order in orders]
    if interpret:
        results.append(interpreted(graph, arrays, GPU_MACHINE, CUDA_LOWERING))
    for other in results[1:]:
        for a, b in zip(results[0], other, strict=True):
            np.testing.assert_array_equal(bits(a), bits(b))
    return results[0], expected


def bits(array: Any) -> Any:
    """The bits of an array, with one pattern for all nans."""
    a = np.array(array)
    if a.dtype.kind != "f":
        return a
    a[np.isnan(a)] = np.nan
    return a.view(f"u{a.itemsize}")


def assert_bits(function: Callable[..., Any], *args: Any, **options: Any) -> None:
    """Asserts that the results of CUDA C have the bits of NumPy's."""
    for got, want in zip(*ran(function, *args, **options), strict=True):
        assert got.dtype == want.dtype
        np.testing.assert_array_equal(bits(got), bits(want))


def program(function: Callable[..., Any], *args: Any) -> DeviceExecutable:
    """The compiled program of a function."""
    return compile_on(recorded(function, *args)[0], EmulatedDevice())


def resources(function: Callable[..., Any], *args: Any, arch: str = "sm_80") -> Any:
    """The GPU resources of the kernels of a function, by name."""
    source = program_of(recorded(function, *args)[0]).module.source
    return nvrtc.compile(source, arch).resources
