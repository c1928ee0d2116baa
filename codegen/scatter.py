"""Rows added at places known only at run time, as a native kernel: the way back of `take`."""

from __future__ import annotations

import array
import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..eager import memory
from ..eager.dtypes import is_small
from ..eager.shapes import TensorType, product
from .address import address
from .compile import machine_of
from .llvm.program import Argument, NativeProgram, Step, build
from .llvm.target import host
from .loops import (
    INT,
    Assign,
    Buffer,
    DType,
    Expr,
    For,
    Kernel,
    Register,
    Store,
    Var,
    call,
    const,
    load,
    read,
)
from .machine import Machine
from .support import is_supported

_ANY = 1 << 40  # elements of a buffer whose size is known only when the program runs


def add_at(
    inputs: Sequence[Any], types: Sequence[TensorType], out: TensorType, params: dict[str, Any]
) -> Any:
    """Zeros to which rows of values are added at their places; None for other axes than the first.

    Rows are added in their order, so that results do not depend on the number of threads.
    """
    values, places = inputs
    if params["axis"] != 0 or places.dtype != INT or not is_supported(out.dtype) \
            or is_small(out.dtype) \
            or not (values.flags.c_contiguous and places.flags.c_contiguous):
        return None
    result, count = memory.empty(out.shape, out.dtype), np.array([places.size])
    result.fill(0)
    table = array.array("Q", map(address, (values, places, count, result)))
    _program(out.dtype, product(out.shape[1:])).run(table.buffer_info()[0], 0)
    return result


@functools.cache
def _program(dtype: DType, width: int) -> NativeProgram:
    target = host()
    kernel = add_rows(dtype, width, machine_of(target))
    return build([Step(kernel, [Argument(i) for i in range(4)])], kernel.name, target)


def add_rows(dtype: DType, width: int, machine: Machine) -> Kernel:
    """out[places[n]] += values[n] for n = 0, 1, ... count - 1: each task does some of the columns.

    Its buffers are values, places, count and out; a row has `width` elements.
    """
    lanes = machine.lanes(dtype.itemsize)
    tasks = max(1, min(machine.threads, width // lanes))
    columns = -(-width // tasks)
    values, places = Buffer("values", dtype, _ANY), Buffer("places", INT, _ANY)
    count, out = Buffer("count", INT, 1), Buffer("out", dtype, _ANY)
    task, n, column = Var("task"), Var("n"), Var("column")
    start = Register("start", INT)
    stop = call("minimum", (_sum(_times(task, columns), const(columns)), const(width)), INT)
    target = _sum(_times(read(start), width), column)
    value = load(values, _sum(_times(n, width), column))
    add = Store(out, target, call("add", (load(out, target), value), dtype))
    row = (Assign(start, load(places, n)), For(column, _times(task, columns), stop, (add,), lanes))
    body = (For(n, const(0), load(count, const(0)), row),)
    inputs = (values, places, count)
    return Kernel("add_rows", inputs, (out,), (), task, tasks, body, cost=1e6)


def _sum(x: Expr, y: Expr) -> Expr:
    return call("add", (x, y), INT)


def _times(x: Expr, factor: int) -> Expr:
    return call("mul", (x, const(factor)), INT)
