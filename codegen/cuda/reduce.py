"""What the threads of a team have added up, put together: by shuffles in a warp, and through shared
memory between warps. Every thread gets the result, made in one order."""

from __future__ import annotations

from collections.abc import Container

import numpy as np

from ...eager.arrays.dtypes import summed_in
from ..gpu.thread_mapping import WARP
from ..ir.loop_ir import Assign, For, Register, Update, walk
from . import scalar
from .types import DType, held, literal, short_name


class Reducer:
    """The functions that a module's kernels of so many threads need."""

    def __init__(self, threads: int, functions: dict[str, str]) -> None:
        self.threads, self._functions = threads, functions
        self.used = False  # whether shared memory is needed for it

    def found(self, s: For, outer: Container[Register]) -> dict[Register, str]:
        """register -> operation, for the registers from outside that a lane loop changes."""
        reduced: dict[Register, str] = {}
        for x in walk(s.body):
            if isinstance(x, (Assign, Update)) and x.register in outer:
                op = x.op if isinstance(x, Update) else "Assign"
                assert reduced.setdefault(x.register, op) == op != "Assign", x.register.name
        return reduced

    def call(self, op: str, dtype: DType, value: str) -> str:
        """The text of what all threads of the team have in `value`, put together."""
        dtype = summed_in(dtype)
        name = f"fw_{op}_{short_name(dtype)}_of_{self.threads}"
        if name not in self._functions:
            self._functions[name] = _function(name, op, dtype, self.threads)
        self.used = self.used or self.threads > WARP
        return f"{name}({value}{', sums, lane' if self.threads > WARP else ''})"


def _function(name: str, op: str, dtype: DType, threads: int) -> str:
    kind, warps = held(dtype), threads // WARP
    more = ", void* sums, int lane" if warps > 1 else ""
    head = f"__device__ __forceinline__ {kind} {name}({kind} x{more}) {{"
    lines = [head, *_halving(op, dtype, WARP // 2)]
    if warps > 1:
        lines += [f"    {kind}* parts = ({kind}*)sums;",
                  "    __syncthreads();  // whoever still reads what was there before",
                  "    if (lane % 32 == 0) parts[lane / 32] = x;",
                  "    __syncthreads();",
                  f"    x = parts[lane % {warps}];", *_halving(op, dtype, warps // 2)]
    return "\n".join([*lines, "    return x;", "}"])


def _halving(op: str, dtype: DType, first: int) -> list[str]:
    """The lanes of a warp put together in pairs, and pairs of pairs."""
    lines, distance = [], first
    while distance:
        other = f"fw_from_lane(x, {distance})"
        lines.append(f"    x = {scalar.apply(op, ['x', other], [dtype, dtype], dtype)};")
        distance //= 2
    return lines


def identity(op: str, dtype: DType) -> str:
    """The literal that leaves every other unchanged under `op`; -0.0 for sums of floats."""
    dtype = summed_in(dtype)
    floats = dtype.kind == "f"
    if op in ("maximum", "minimum") and dtype.kind != "b":
        if floats:
            return literal(float("-inf" if op == "maximum" else "inf"), dtype)
        info = np.iinfo(dtype)
        return literal(int(info.min if op == "maximum" else info.max), dtype)
    if op in ("and", "minimum"):
        return literal(True if dtype.kind == "b" else dtype.type(~dtype.type(0)).item(), dtype)
    if op == "mul":
        return literal(1, dtype)
    return literal(-0.0 if floats and op == "add" else 0, dtype)
