"""Partitions the work of a kernel into tasks, and collects its buffers and source lines."""

from __future__ import annotations

from collections.abc import Iterable

from ...capture.graph.graph import Node
from ..ir import loop_ir
from ..ir.affine_index import Index, as_index
from ..ir.loop_ir import Expr, KernelBuffer, Stmt
from ..ir.sizes import Size, ceil_div, is_at_least, is_dynamic
from ..ir.target_info import Machine

_MAX_TASKS = 64


def split_into_tasks(total: Size, smallest: int, machine: Machine) -> tuple[Size, int]:
    """(number of tasks, size of each): at least `smallest` each, and at most _MAX_TASKS tasks.

    The tasks of a dynamic total all have the size `smallest`."""
    if is_dynamic(total):
        return ceil_div(total, max(1, smallest)), max(1, smallest)
    smallest = max(1, smallest // machine.task_divisor)
    count = max(1, min(_MAX_TASKS * machine.task_divisor, total // smallest))
    size = -(-total // count)
    return max(1, -(-total // size)), size


def chunk_bounds(task: Index, size: int, total: Size | Index) -> tuple[Expr, Expr]:
    """The range of a task: from task * size to (task + 1) * size, at most `total`."""
    start = task * size
    stop = start + size
    if isinstance(total, int) and is_at_least(total, stop.range()[1]):
        return start.expr(), stop.expr()
    end = as_index(total).expr()
    return start.expr(), loop_ir.call("minimum", (stop.expr(), end), loop_ir.INT)


def buffers_of(body: tuple[Stmt, ...]) -> tuple[tuple[KernelBuffer, ...], tuple[KernelBuffer, ...]]:
    """The buffers that statements read, and those that they write, scratch left out."""
    reads: dict[KernelBuffer, None] = {}
    writes: dict[KernelBuffer, None] = {}
    for s in loop_ir.walk(body):
        for e in loop_ir.subexpressions(loop_ir.expressions(s)):
            if isinstance(e, loop_ir.Load) and not e.buffer.scratch:
                reads[e.buffer] = None
        if isinstance(s, loop_ir.Transpose) and not s.source.scratch:
            reads[s.source] = None
        if isinstance(s, loop_ir.TileDot):
            reads.update((m.buffer, None) for m in (s.rows, s.columns) if not m.buffer.scratch)
        if isinstance(s, (loop_ir.Store, loop_ir.Transpose)) and not s.buffer.scratch:
            writes[s.buffer] = None
    return tuple(reads), tuple(writes)


def sites_of(nodes: Iterable[Node]) -> tuple[str, ...]:
    """The source lines of the nodes, each once."""
    return tuple(dict.fromkeys(n.site for n in nodes if n.site))
