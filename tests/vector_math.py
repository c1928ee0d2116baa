"""Runs single functions in native code, and measures their errors."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fusewire.codegen.ir.loop_ir import For, Kernel, KernelBuffer, Store, Var, call, const, load
from fusewire.codegen.program.native_program import Argument, ProgramStep, build
from fusewire.codegen.runtime.target import named

F32, F64 = np.dtype("float32"), np.dtype("float64")
BITS = {F32: np.int32, F64: np.int64}
UNITS = 4.0  # in the last place: the bound of all functions
UNARY: dict[str, Callable[..., Any]] = {
    "sqrt": np.sqrt, "exp": np.exp, "exp2": np.exp2, "expm1": np.expm1, "log": np.log,
    "log2": np.log2, "log10": np.log10, "log1p": np.log1p, "sin": np.sin, "cos": np.cos,
    "tan": np.tan, "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan, "sinh": np.sinh,
    "cosh": np.cosh, "tanh": np.tanh, "asinh": np.arcsinh, "acosh": np.arccosh,
    "atanh": np.arctanh, "erf": np.vectorize(math.erf, otypes=[np.float64]),
}  # fmt: skip


class Functions:
    """A native program with a kernel for each operation, on arrays of one size."""

    def __init__(self, operations: Sequence[str], dtype: Any, size: int, target: str = "",
                 lanes: int = 16, inputs: int = 1) -> None:
        self.operations, self.dtype, self.size = operations, dtype, size
        steps = [ProgramStep(_kernel(op, dtype, size, lanes, inputs),
                             [*map(Argument, range(inputs)), Argument(inputs + number)])
                 for number, op in enumerate(operations)]
        self.program = build(steps, target=named(target))

    def __call__(self, *arrays: Any) -> dict[str, Any]:
        """The results by name."""
        results = [np.empty(self.size, self.dtype) for _ in self.operations]
        table = np.array([a.ctypes.data for a in (*arrays, *results)])
        self.program.run(table.ctypes.data, 0)
        return dict(zip(self.operations, results))


def _kernel(op: str, dtype: Any, size: int, lanes: int, count: int) -> Kernel:
    inputs = [KernelBuffer(f"x{i}", dtype, size) for i in range(count)]
    y, j = KernelBuffer("y", dtype, size), Var("j")
    body = Store(y, j, call(op, tuple(load(b, j) for b in inputs), dtype))
    loop = For(j, const(0), const(size), (body,), lanes)
    return Kernel(op, tuple(inputs), (y,), (), Var("task"), 1, (loop,))


def errors(got: Any, exact: Any) -> Any:
    """The error of each number, in units in the last place of the exact one; 0 if either is not
    finite."""
    with np.errstate(all="ignore"):
        rounded = exact.astype(got.dtype)
        distance = np.abs(got.astype(exact.dtype) - exact) / np.spacing(np.abs(rounded))
        return np.where(np.isfinite(rounded) & np.isfinite(got), distance, 0)


def wrong(got: Any, exact: Any) -> Any:
    """A mask of the numbers with a wrong nan, infinity or sign of a zero."""
    with np.errstate(all="ignore"):
        rounded = exact.astype(got.dtype)
    same = (got == rounded) | (np.isnan(got) & np.isnan(rounded))
    zeros = (rounded == 0) & (got == 0)
    special = ~np.isfinite(rounded) | ~np.isfinite(got)
    return special & ~same | zeros & (np.signbit(rounded) ^ np.signbit(got))
