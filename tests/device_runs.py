"""Graphs as CUDA C, run by the emulator with its threads in several orders, and by the interpreter;
and what the compiler says of their kernels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from emulated import EmulatedDevice
from oracle import interpreted, recorded

from fusewire.capture.graph.reference_interpreter import evaluate
from fusewire.codegen.cuda.program import CUDA_LOWERING, GPU_MACHINE, program_of
from fusewire.codegen.cuda.runtime import nvrtc
from fusewire.codegen.cuda.runtime.device_executable import DeviceExecutable, compile_on

ORDERS = (0, 1, 7)  # of threads and blocks: forwards, backwards, drawn


def ran(function: Callable[..., Any], *given: Any, orders: tuple[int, ...] = ORDERS,
        interpret: bool = True, mode: str = "check") -> tuple[list[Any], list[Any]]:
    """The results of CUDA C, to the last bit the same in every order, and NumPy's."""
    graph, arrays = recorded(function, *given)
    with np.errstate(all="ignore"):
        wanted = evaluate(graph, [np.copy(a) for a in arrays])
    found = [compile_on(graph, EmulatedDevice(order, mode))([np.copy(a) for a in arrays])
             for order in orders]
    if interpret:
        found.append(interpreted(graph, arrays, GPU_MACHINE, CUDA_LOWERING))
    for other in found[1:]:
        for a, b in zip(found[0], other, strict=True):
            np.testing.assert_array_equal(bits(a), bits(b))
    return found[0], wanted


def bits(array: Any) -> Any:
    """An array's bits, all nans alike."""
    a = np.array(array)
    if a.dtype.kind != "f":
        return a
    a[np.isnan(a)] = np.nan
    return a.view(f"u{a.itemsize}")


def assert_bits(function: Callable[..., Any], *given: Any, **how: Any) -> None:
    """NumPy's numbers, to the last bit."""
    for got, want in zip(*ran(function, *given, **how), strict=True):
        assert got.dtype == want.dtype
        np.testing.assert_array_equal(bits(got), bits(want))


def program(function: Callable[..., Any], *given: Any) -> DeviceExecutable:
    """The program of a function, not yet run."""
    return compile_on(recorded(function, *given)[0], EmulatedDevice())


def resources(function: Callable[..., Any], *given: Any, arch: str = "sm_80") -> Any:
    """What the kernels of a function take on a GPU, by name."""
    source = program_of(recorded(function, *given)[0]).module.source
    return nvrtc.compile(source, arch).resources
