"""Computes the backward of max pooling in eager mode, by the kernel of compiled graphs."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from ...capture.runtime.specialization_cache import Specializations
from ...eager.arrays.shapes import TensorType, product
from ..cpu.max_pool_grad import PlaneBackward, PoolWindows
from ..cpu_backend import machine_of
from ..ir.affine_index import as_index
from ..ir.inline import load as element
from ..ir.loop_ir import DType, Kernel, KernelBuffer, Var
from ..ir.target_info import Machine
from ..llvm.row_blocks import RowBlocks
from ..program.native_call import ProgramCall
from ..program.native_program import Argument, NativeProgram, ProgramStep, write
from ..program.native_program import compile_written as program_of
from ..runtime.target import host
from .op_call import program_for

_NANOSECONDS = 20.0  # of an element in NumPy


def max_pool_back(
    types: Sequence[TensorType], out: TensorType, params: dict[str, Any],
    programs: Specializations[Any]
) -> ProgramCall | None:
    """The code from the gradient and the input of max pooling to the input's gradient; None for
    large windows and unusual dtypes."""
    windows = PoolWindows.of(out.shape, params)
    if not out.size or not windows.has_kernel(out.dtype):
        return None
    planes = product(out.shape[:out.ndim - len(windows.size)])
    program = program_for(programs, ("max_pool_back", out.dtype, windows), "max_pool_back",
                          lambda: _program(out.dtype, windows), _NANOSECONDS * out.size)
    return None if program is None else ProgramCall(program, 2, [out], rows=planes)


def _program(dtype: DType, windows: PoolWindows) -> NativeProgram:
    """The program for any number of planes."""
    target = host()
    plane = plane_kernel(dtype, windows, machine_of(target))
    strides = [dtype.itemsize * product(n) for n in (windows.out, windows.size, windows.size)]
    step = ProgramStep(plane, [Argument(i) for i in range(3)])
    return program_of(write([step], plane.name, target, RowBlocks(1, strides, plane.cost)), target)


def plane_kernel(dtype: DType, windows: PoolWindows, machine: Machine) -> Kernel:
    """The kernel for one plane: its buffers are the gradient, the input and the result."""
    g, x, result = (KernelBuffer(name, dtype, product(n)) for name, n in (
        ("g", windows.out), ("x", windows.size), ("result", windows.size)))
    plane = PlaneBackward(windows, result, as_index(0), machine,
                          functools.partial(element, g, TensorType(windows.out, dtype)),
                          functools.partial(element, x, TensorType(windows.size, dtype)))
    body = plane.statements()
    return Kernel("max_pool_back", (g, x), (result,), (plane.offsets,), Var("task"), 1, body,
                  plane.cost)
