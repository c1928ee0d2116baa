"""Reduces values across a thread group: by shuffles within a warp, through shared memory between
warps.

Every thread gets the result, which is combined in a fixed order.
"""

from __future__ import annotations

from collections.abc import Container

import numpy as np

from ...eager.arrays.dtypes import summed_in
from ..gpu.thread_mapping import WARP
from ..ir.loop_ir import Assign, For, Register, Update, walk
from . import scalar
from .types import DType, literal, register_type, short_name


class Reducer:
    """The reduction functions of a module's kernels, for groups of this many threads."""

    def __init__(self, threads: int, functions: dict[str, str]) -> None:
        self.threads, self._functions = threads, functions
        self.needs_shared_memory = False  # by a reduction across warps

    def reductions_of(self, s: For, outer: Container[Register]) -> dict[Register, str]:
        """The outer registers that a lane loop changes, each with its operation."""
        reductions: dict[Register, str] = {}
        for x in walk(s.body):
            if isinstance(x, (Assign, Update)) and x.register in outer:
                op = x.op if isinstance(x, Update) else "Assign"
                assert reductions.setdefault(x.register, op) == op != "Assign", x.register.name
        return reductions

    def call(self, op: str, dtype: DType, value: str) -> str:
        """The call that reduces `value` over all threads of the group."""
        dtype = summed_in(dtype)
        name = f"fw_{op}_{short_name(dtype)}_of_{self.threads}"
        if name not in self._functions:
            self._functions[name] = _function(name, op, dtype, self.threads)
        self.needs_shared_memory = self.needs_shared_memory or self.threads > WARP
        return f"{name}({value}{', sums, lane' if self.threads > WARP else ''})"


def _function(name: str, op: str, dtype: DType, threads: int) -> str:
    kind, warps = register_type(dtype), threads // WARP
    more = ", void* sums, int lane" if warps > 1 else ""
    head = f"__device__ __forceinline__ {kind} {name}({kind} x{more}) {{"
    lines = [head, *_butterfly(op, dtype, WARP // 2)]
    if warps > 1:
        lines += [f"    {kind}* parts = ({kind}*)sums;",
                  "    __syncthreads();  // for threads that still read the earlier values",
                  "    if (lane % 32 == 0) parts[lane / 32] = x;",
                  "    __syncthreads();",
                  f"    x = parts[lane % {warps}];", *_butterfly(op, dtype, warps // 2)]
    return "\n".join([*lines, "    return x;", "}"])


def _butterfly(op: str, dtype: DType, first: int) -> list[str]:
    """The lines that combine the lanes of a warp in pairs, then pairs of pairs."""
    lines, distance = [], first
    while distance:
        other = f"fw_from_lane(x, {distance})"
        lines.append(f"    x = {scalar.apply(op, ['x', other], [dtype, dtype], dtype)};")
        distance //= 2
    return lines


def identity(op: str, dtype: DType) -> str:
    """The literal of an operation's identity; -0.0 for float sums."""
    dtype = summed_in(dtype)
    is_float = dtype.kind == "f"
    if op in ("maximum", "minimum") and dtype.kind != "b":
        if is_float:
            return literal(float("-inf" if op == "maximum" else "inf"), dtype)
        info = np.iinfo(dtype)
        return literal(int(info.min if op == "maximum" else info.max), dtype)
    if op in ("and", "minimum"):
        return literal(True if dtype.kind == "b" else dtype.type(~dtype.type(0)).item(), dtype)
    if op == "mul":
        return literal(1, dtype)
    return literal(-0.0 if is_float and op == "add" else 0, dtype)
