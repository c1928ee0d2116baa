"""How a kernel lies on threads: a team of them for each task, teams in blocks, scratch in memory.

    no lane loop    a team is one thread
    lane loops      a team is a warp, or a whole block where more lanes are asked for

Scratch of which every thread reads only what it has written itself becomes an array of its own,
mostly registers; all other is shared memory, or, where that is too small, device memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from ..ir.axis_coalescing import linear_form
from ..ir.loop_ir import (
    Buffer,
    Const,
    Expr,
    For,
    If,
    Kernel,
    Load,
    Mma,
    Stmt,
    Store,
    Transpose,
    expressions,
    subexpressions,
    walk,
)
from .index_narrowing import Ranges

WARP = 32
MIXED = 256  # threads of a block whose teams are smaller, beside other kernels
_BLOCK = 128  # the same, of one kernel alone
_WIDEST = 1024
_SHARED = 47 << 10  # bytes of shared memory that every kernel may have, less what sums need
_OWN = 64  # elements of a thread's own scratch


@dataclass(frozen=True)
class ThreadLocal:
    """Scratch that belongs to a thread: of an element `step` * lane + rest, `rest` is the place."""

    step: int
    size: int


@dataclass(frozen=True)
class ThreadMapping:
    """Threads of a team and of a block, and where scratch lies: `own` in a thread, `shared` in a
    block's memory, `device` in the program's, task by task."""

    threads: int
    block: int
    own: dict[Buffer, ThreadLocal]
    shared: tuple[Buffer, ...]
    device: tuple[Buffer, ...]

    @property
    def teams(self) -> int:
        """Teams of a block."""
        return self.block // self.threads

    @property
    def bytes_shared(self) -> int:
        """Shared memory of a block, without what sums need."""
        return self.teams * sum(-(-b.size * b.dtype.itemsize // 16) * 16 for b in self.shared)

    def grid(self, tasks: int) -> int:
        """Blocks for so many tasks."""
        return -(-tasks // self.teams)


def thread_mapping_of(kernel: Kernel, alone: bool = True) -> ThreadMapping:
    """How a kernel lies on threads: alone, or in blocks beside those of other kernels."""
    lanes = max([s.lanes for s in walk(kernel.body) if isinstance(s, For)], default=0)
    turned = any(isinstance(s, Transpose) for s in walk(kernel.body))
    wanted = max(lanes, WARP if turned else 0)
    threads = 1 if not wanted else min(_WIDEST, _power_of_two(max(wanted, WARP)))
    small = min(_BLOCK, _few(kernel.tasks, threads)) if alone else MIXED
    block = threads if threads > WARP else small
    own = _owned(kernel, threads)
    shared, device, left = [], [], _SHARED
    for b in kernel.scratch:
        size = b.size * b.dtype.itemsize * (block // threads)
        if b in own:
            continue
        if threads > 1 and size <= left:
            shared.append(b)
            left -= -(-size // 16) * 16
        else:
            device.append(b)
    return ThreadMapping(threads, block, own, tuple(shared), tuple(device))


def _power_of_two(n: int) -> int:
    return 1 << (n - 1).bit_length()


def _few(tasks: int, threads: int) -> int:
    """Threads for few tasks: whole warps."""
    return -(-tasks * threads // WARP) * WARP


# ---- scratch of a thread
def _owned(kernel: Kernel, threads: int) -> dict[Buffer, ThreadLocal]:
    found: dict[Buffer, ThreadLocal] = {}
    accesses = list(_accesses(kernel.body, None, Ranges()))
    for b in kernel.scratch:
        own = {a for buffer, a in accesses if buffer is b}
        only = next(iter(own)) if len(own) == 1 else None
        if only is not None and only.size <= _OWN and only.step * threads >= b.size:
            found[b] = only
    return found


def _accesses(body: Iterable[Stmt], lane: For | None, ranges: Ranges
              ) -> Iterator[tuple[Buffer, ThreadLocal | None]]:
    """Each access to memory, and how it lies in a thread's own, if it does."""
    for s in body:
        for e in subexpressions(expressions(s)):
            if isinstance(e, Load):
                yield e.buffer, _place(e.index, lane, ranges)
        if isinstance(s, Store):
            yield s.buffer, _place(s.index, lane, ranges)
        if isinstance(s, Transpose):
            yield from ((s.buffer, None), (s.source, None))
        if isinstance(s, Mma):
            yield from ((s.sums,
                         ThreadLocal(s.fragments.products_per_thread,
                                     s.fragments.products_per_thread)), (s.rows, None),
                        (s.columns, None))
        if isinstance(s, For):
            ranges.bind(s.var, ranges.of(s.start), ranges.of(s.stop))
            yield from _accesses(s.body, s if s.lanes else lane, ranges)
        elif isinstance(s, If):
            yield from _accesses(s.body, lane, ranges)


def _place(index: Expr, lane: For | None, ranges: Ranges) -> ThreadLocal | None:
    if lane is None or not _one_turn_each(lane):
        return None
    terms, low = linear_form(index)
    step, high = terms.pop(lane.var, 0), low
    for e, factor in terms.items():
        known = ranges.of(e)
        if known is None or any(x is lane.var for x in subexpressions([e])):
            return None
        ends = known[0] * factor, known[1] * factor
        low, high = low + min(ends), high + max(ends)
    return ThreadLocal(step, step) if 0 <= low and high < step else None


def _one_turn_each(lane: For) -> bool:
    """Whether each thread has one turn at most, that of its own number."""
    start, stop = lane.start, lane.stop
    return isinstance(start, Const) and isinstance(stop, Const) and start.value == 0 \
        and bool(stop.value <= lane.lanes)
