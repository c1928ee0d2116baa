"""Reports the kernels of a program with their lines, bytes, operations and times."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ...eager.arrays.dtypes import kind
from ...eager.arrays.shapes import TensorType
from ..ir import loop_ir
from ..ir.loop_ir import Call, Expr, For, Kernel, KernelBuffer, Load, Stmt
from .roofline import limit

Work = dict[Any, float]  # "flops", and elements by ("read", buffer) and ("written", buffer)


Limit = Callable[[float, float, int], float]  # of operations, bytes, bytes of a number: seconds


def kernel_facts(kernels: Sequence[Kernel], limit: Limit = limit) -> list[dict[str, Any]]:
    """A row per kernel: name, user's lines, bytes moved, operations, tasks, and its roofline limit
    in seconds, by default of this machine, which the first call measures."""
    rows = {k: _facts(k, limit) for k in dict.fromkeys(kernels)}
    return [rows[k] for k in kernels]


def _facts(kernel: Kernel, limit: Limit) -> dict[str, Any]:
    work: Work = defaultdict(float)
    _add_work(kernel.body, kernel.tasks, work)
    size = sum(_bytes_moved(b, work["read", b]) for b in kernel.inputs) + \
        sum(_bytes_moved(b, work["written", b]) for b in kernel.outputs)
    wide = any(b.dtype.kind == "f" and b.dtype.itemsize == 8 for b in kernel.arguments)
    flops = round(work["flops"])
    return {"name": kernel.name, "line": ", ".join(kernel.sites[:3]), "bytes": size,
            "flops": flops, "tasks": kernel.tasks, "limit": limit(flops, size, 8 if wide else 4)}


def merged_row(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The row of kernels that run as one launch, from their rows."""
    lines = ", ".join([*dict.fromkeys(r["line"] for r in rows if r["line"])][:3])
    more = f" and {len(rows) - 1} more" if len(rows) > 1 else ""
    sums = {of: sum(r[of] for r in rows) for of in ("bytes", "flops", "tasks", "limit")}
    return {"name": rows[0]["name"] + more, "line": lines, **sums}


def bytes_of(types: Iterable[TensorType]) -> int:
    """The bytes of values of these types."""
    return sum(t.size * t.dtype.itemsize for t in types)


def _bytes_moved(buffer: KernelBuffer, elements: float) -> int:
    """The bytes of a buffer that pass the memory if so many elements are accessed; each element
    once, since repeated accesses hit a cache."""
    return round(min(buffer.size, elements)) * buffer.dtype.itemsize


def _add_work(body: tuple[Stmt, ...], times: float, work: Work) -> None:
    """Adds the work of statements that run `times` times; loops count at full length."""
    for s in body:
        if isinstance(s, (For, loop_ir.If)):
            _add_work(s.body, times * (_length(s) if isinstance(s, For) else 1), work)
            continue
        for e in loop_ir.subexpressions(loop_ir.expressions(s)):
            _add_expression(e, times, work)
        if isinstance(s, loop_ir.Update):
            work["flops"] += times
        elif isinstance(s, loop_ir.Store):
            work["written", s.buffer] += times
        elif isinstance(s, loop_ir.Mma):
            work["flops"] += 2 * times * s.sums.size * s.fragments.depth
        elif isinstance(s, loop_ir.TileDot):
            _add_tile(s, times, work)
        elif isinstance(s, loop_ir.Transpose):
            work["written", s.buffer] += times * s.size ** 2
            work["read", s.source] += times * s.size ** 2


def _add_tile(s: loop_ir.TileDot, times: float, work: Work) -> None:
    depth = _bound_value(s.depth)
    work["flops"] += 2 * times * s.shape.rows * s.width * depth
    for matrix, lines in ((s.rows, s.shape.rows), (s.columns, s.width)):
        words = times * lines * depth
        work["read", matrix.buffer] += words * 4 // matrix.buffer.dtype.itemsize


def _length(loop: For) -> int:
    start, stop = (_bound_value(e) for e in (loop.start, loop.stop))
    return max(0, stop - start)


def _bound_value(e: Expr) -> int:
    """The value of a bound in the first task; of a minimum, the smaller of the known operands."""
    if isinstance(e, loop_ir.Const):
        return int(e.value)
    if isinstance(e, Call):
        values = [_bound_value(a) for a in e.args]
        return {"add": sum(values), "sub": values[0] - values[-1], "minimum": min(values),
                "maximum": max(values), "mul": values[0] * values[-1],
                "idiv": values[0] // max(1, values[-1])}.get(e.op, 0)
    return 0


def _add_expression(e: Expr, times: float, work: Work) -> None:
    if isinstance(e, Call) and kind(e.dtype) == "f" and e.op not in ("cast", "where"):
        work["flops"] += times
    elif isinstance(e, Load):
        work["read", e.buffer] += times


def kernel_table(rows: list[dict[str, Any]]) -> str:
    """The rows as text, one line each."""
    lines = [f"{'kernel':40} {'us':>9} {'GB/s':>7} {'GFLOP/s':>8} {'limit':>6}  lines"]
    for r in rows:
        s = max(r["seconds"], 1e-9)
        share = f"{r['limit'] / s:.0%}" if r["limit"] else "-"
        lines.append(f"{r['name'][:40]:40} {s * 1e6:9.1f} {r['bytes'] / s / 1e9:7.1f} "
                     f"{r['flops'] / s / 1e9:8.1f} {share:>6}  {r['line']}")
    return "\n".join(lines)
