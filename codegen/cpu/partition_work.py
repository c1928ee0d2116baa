"""How the work of a kernel is cut into tasks, what its statements read and write, and whose lines
they are."""

from __future__ import annotations

from collections.abc import Iterable

from ...capture.graph.graph import Node
from ..ir import loop_ir
from ..ir.affine_index import Index, as_index
from ..ir.loop_ir import Buffer, Expr, Stmt
from ..ir.target_info import Machine

_MOST_TASKS = 64


def chunks(total: int, smallest: int, machine: Machine) -> tuple[int, int]:
    """(how many tasks, how large each): at least `smallest` each, at most _MOST_TASKS; of a total
    that varies, as many as there are of just that size."""
    if machine.varies(total):
        return max(1, -(-total // max(1, smallest))), max(1, smallest)
    smallest = max(1, smallest // machine.finer)
    count = max(1, min(_MOST_TASKS * machine.finer, total // smallest))
    size = -(-total // count)
    return max(1, -(-total // size)), size


def bounds(task: Index, size: int, total: int | Index) -> tuple[Expr, Expr]:
    """The range of a task: [task * size, the same + size), but not past `total`."""
    start = task * size
    stop = start + size
    if isinstance(total, int) and stop.range()[1] <= total:
        return start.expr(), stop.expr()
    end = as_index(total).expr()
    return start.expr(), loop_ir.call("minimum", (stop.expr(), end), loop_ir.INT)


def buffers_of(body: tuple[Stmt, ...]) -> tuple[tuple[Buffer, ...], tuple[Buffer, ...]]:
    """The buffers that statements read and write, scratch left out."""
    reads: dict[Buffer, None] = {}
    writes: dict[Buffer, None] = {}
    for s in loop_ir.walk(body):
        for e in loop_ir.parts(loop_ir.expressions(s)):
            if isinstance(e, loop_ir.Load) and not e.buffer.scratch:
                reads[e.buffer] = None
        if isinstance(s, loop_ir.Transpose) and not s.source.scratch:
            reads[s.source] = None
        if isinstance(s, (loop_ir.Store, loop_ir.Transpose)) and not s.buffer.scratch:
            writes[s.buffer] = None
    return tuple(reads), tuple(writes)


def sites_of(nodes: Iterable[Node]) -> tuple[str, ...]:
    """The user's lines that nodes are from, each once."""
    return tuple(dict.fromkeys(n.site for n in nodes if n.site))
