"""Adds rows at indices known only at run time, by a native kernel: the backward of `take`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...capture.runtime.specialization_cache import Specializations
from ...eager.arrays.dtypes import is_small
from ...eager.arrays.shapes import TensorType, product
from ..cpu_backend import machine_of
from ..ir.loop_ir import (
    INT,
    Assign,
    DType,
    Expr,
    For,
    Kernel,
    KernelBuffer,
    Register,
    Store,
    Var,
    call,
    const,
    load,
    read,
)
from ..ir.target_info import Machine
from ..partition.support import is_supported
from ..program.native_call import ProgramCall
from ..program.native_program import Argument, NativeProgram, ProgramStep, build
from ..runtime.target import host
from .op_call import program_for

_UNKNOWN_ELEMENTS = 1 << 40  # size of a buffer that has its real size only at run time


def add_at(
    types: Sequence[TensorType], out: TensorType, params: dict[str, Any],
    programs: Specializations[Any]
) -> ProgramCall | None:
    """The code from values and indices to zeros with the rows of the values added at their
    indices; None for other axes than the first.

    Rows are added in order, so that results do not depend on the number of threads.
    """
    indices = types[1]
    if params["axis"] != 0 or indices.dtype != INT or not is_supported(out.dtype) \
            or is_small(out.dtype):
        return None
    width = product(out.shape[1:])
    program = program_for(programs, ("add_at", out.dtype, width), "add_at",
                          lambda: _program(out.dtype, width), float(types[0].size))
    counts = np.array([indices.size, out.shape[0]])
    return None if program is None else ProgramCall(program, 2, [out], [counts])


def _program(dtype: DType, width: int) -> NativeProgram:
    target = host()
    kernel = add_rows(dtype, width, machine_of(target))
    return build([ProgramStep(kernel, [Argument(i) for i in range(4)])], kernel.name, target)


def add_rows(dtype: DType, width: int, machine: Machine) -> Kernel:
    """out[indices[n]] += values[n] for n = 0, 1, ... to zeros: each task does some of the columns.

    Its buffers are values, indices, how many values and rows of `out` there are, and out; a row has
    `width` elements.
    """
    lanes = machine.lanes(dtype.itemsize)
    tasks = max(1, min(machine.threads, width // lanes))
    columns = -(-width // tasks)
    values = KernelBuffer("values", dtype, _UNKNOWN_ELEMENTS)
    indices = KernelBuffer("indices", INT, _UNKNOWN_ELEMENTS)
    counts, out = KernelBuffer("counts", INT, 2), KernelBuffer("out", dtype, _UNKNOWN_ELEMENTS)
    task, n, column, row = Var("task"), Var("n"), Var("column"), Var("row")
    start = Register("start", INT)
    first = _times(task, columns)
    stop = call("minimum", (_sum(first, const(columns)), const(width)), INT)
    zero = Store(out, _sum(_times(row, width), column), const(0, dtype))
    target = _sum(_times(read(start), width), column)
    value = load(values, _sum(_times(n, width), column))
    add = Store(out, target, call("add", (load(out, target), value), dtype))
    body = (
        For(row, const(0), load(counts, const(1)), (For(column, first, stop, (zero,), lanes),)),
        For(n, const(0), load(counts, const(0)), (
            Assign(start, load(indices, n)), For(column, first, stop, (add,), lanes))))
    inputs = (values, indices, counts)
    return Kernel("add_rows", inputs, (out,), (), task, tasks, body, cost=1e6)


def _sum(x: Expr, y: Expr) -> Expr:
    return call("add", (x, y), INT)


def _times(x: Expr, factor: int) -> Expr:
    return call("mul", (x, const(factor)), INT)
