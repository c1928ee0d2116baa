"""What a compiled program consists of: kernels with their lines, bytes, operations and times."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from . import loops
from .loops import Call, Expr, For, Kernel, Stmt


def kernel_rows(kernels: Sequence[Kernel], seconds: Sequence[float]) -> list[dict[str, Any]]:
    """A row per kernel: name, the user's lines, seconds, bytes moved, operations, tasks."""
    return [
        {"name": k.name, "line": ", ".join(k.sites[:3]), "seconds": s,
         "bytes": sum(b.size * b.dtype.itemsize for b in (*k.inputs, *k.outputs)),
         "flops": round(k.tasks * _operations(k.body)), "tasks": k.tasks}
        for k, s in zip(kernels, seconds)
    ]


def _operations(body: tuple[Stmt, ...]) -> float:
    """Floating point operations of one task, every loop taken at its full length."""
    total = 0.0
    for s in body:
        if isinstance(s, For):
            total += _length(s) * _operations(s.body)
        elif isinstance(s, loops.If):
            total += _operations(s.body)
        else:
            total += sum(_count(e, set()) for e in loops.expressions(s))
            total += isinstance(s, loops.Update)
    return total


def _length(loop: For) -> int:
    start, stop = (_number(e) for e in (loop.start, loop.stop))
    return max(0, stop - start)


def _number(e: Expr) -> int:
    """A bound's value in the first task; of a minimum, the smaller of what is known."""
    if isinstance(e, loops.Const):
        return int(e.value)
    if isinstance(e, Call):
        values = [_number(a) for a in e.args]
        return {"add": sum(values), "sub": values[0] - values[-1], "minimum": min(values),
                "mul": values[0] * values[-1], "idiv": values[0] // max(1, values[-1])
                }.get(e.op, 0)
    return 0


def _count(e: Expr, seen: set[Expr]) -> int:
    if e in seen:
        return 0
    seen.add(e)
    own = isinstance(e, Call) and e.dtype.kind == "f" and e.op not in ("cast", "where")
    return int(own) + sum(_count(a, seen) for a in loops.children(e))


def kernel_table(rows: list[dict[str, Any]]) -> str:
    """The rows as text, one line each."""
    lines = [f"{'kernel':40} {'us':>9} {'GB/s':>7} {'GFLOP/s':>8}  lines"]
    for r in rows:
        s = max(r["seconds"], 1e-9)
        lines.append(f"{r['name'][:40]:40} {s * 1e6:9.1f} {r['bytes'] / s / 1e9:7.1f} "
                     f"{r['flops'] / s / 1e9:8.1f}  {r['line']}")
    return "\n".join(lines)
