"""Maps a kernel to threads: a thread group runs each task, and a block has one or more groups.

    no lane loop    a group is one thread
    lane loops      a group is a warp, or a whole block where more lanes are requested

Scratch whose elements are each accessed by one thread alone becomes an array of that thread,
mostly in registers. Other scratch is in shared memory or, if it is too large for that, in
device memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from ..ir.axis_coalescing import linear_form
from ..ir.loop_ir import (
    Const,
    Expr,
    For,
    If,
    Kernel,
    KernelBuffer,
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
FUSED_BLOCK_THREADS = 256  # of a launch of several kernels
SINGLE_KERNEL_BLOCK_THREADS = 128  # where groups are smaller than a block
MAX_BLOCK_THREADS = 1024
SHARED_BYTES_LIMIT = 47 << 10  # that every GPU allows, less those of reductions
MAX_THREAD_LOCAL_ELEMENTS = 64  # of one buffer


@dataclass(frozen=True)
class ThreadLocal:
    """Scratch that belongs to a thread: element `stride` * lane + rest is element `rest` of the
    thread's array."""

    stride: int
    size: int


@dataclass(frozen=True)
class ThreadMapping:
    """The sizes of thread groups and blocks, and where scratch buffers lie.

    `thread_local` buffers are arrays of a thread, `shared` ones are in shared memory, and
    `device` ones in device memory, task by task."""

    group_threads: int
    block_threads: int
    thread_local: dict[KernelBuffer, ThreadLocal]
    shared: tuple[KernelBuffer, ...]
    device: tuple[KernelBuffer, ...]

    @property
    def groups_per_block(self) -> int:
        """The number of thread groups in a block."""
        return self.block_threads // self.group_threads

    @property
    def shared_bytes(self) -> int:
        """The shared memory of a block, without that of reductions."""
        return self.groups_per_block * sum(-(-b.size * b.dtype.itemsize // 16) * 16
                                           for b in self.shared)

    def grid(self, tasks: int) -> int:
        """The number of blocks that run this many tasks."""
        return -(-tasks // self.groups_per_block)


def thread_mapping_of(kernel: Kernel, alone: bool = True) -> ThreadMapping:
    """The thread mapping of a kernel; `alone` is False for a kernel that is fused with others into
    one launch."""
    lanes = max([s.lanes for s in walk(kernel.body) if isinstance(s, For)], default=0)
    has_transpose = any(isinstance(s, Transpose) for s in walk(kernel.body))
    min_threads = max(lanes, WARP if has_transpose else 0)
    threads = 1 if not min_threads else min(MAX_BLOCK_THREADS,
                                            _power_of_two(max(min_threads, WARP)))
    small_block = min(SINGLE_KERNEL_BLOCK_THREADS,
                      _warps_for(kernel.tasks, threads)) if alone else FUSED_BLOCK_THREADS
    block_threads = threads if threads > WARP else small_block
    local = _thread_local_buffers(kernel, threads)
    shared, device, bytes_left = [], [], SHARED_BYTES_LIMIT
    for b in kernel.scratch:
        size = b.size * b.dtype.itemsize * (block_threads // threads)
        if b in local:
            continue
        if threads > 1 and size <= bytes_left:
            shared.append(b)
            bytes_left -= -(-size // 16) * 16
        else:
            device.append(b)
    return ThreadMapping(threads, block_threads, local, tuple(shared), tuple(device))


def _power_of_two(n: int) -> int:
    return 1 << (n - 1).bit_length()


def _warps_for(tasks: int, threads: int) -> int:
    """The number of threads for few tasks, in whole warps."""
    return -(-tasks * threads // WARP) * WARP


# ---- thread-local scratch
def _thread_local_buffers(kernel: Kernel, threads: int) -> dict[KernelBuffer, ThreadLocal]:
    """The scratch buffers whose accesses all stay within one thread."""
    local: dict[KernelBuffer, ThreadLocal] = {}
    accesses = list(_accesses(kernel.body, None, Ranges()))
    for b in kernel.scratch:
        layouts = {a for buffer, a in accesses if buffer is b}
        layout = next(iter(layouts)) if len(layouts) == 1 else None
        if layout is not None and layout.size <= MAX_THREAD_LOCAL_ELEMENTS \
                and layout.stride * threads >= b.size:
            local[b] = layout
    return local


def _accesses(body: Iterable[Stmt], lane: For | None, ranges: Ranges
              ) -> Iterator[tuple[KernelBuffer, ThreadLocal | None]]:
    """Yields each accessed buffer with the layout of the access in a thread's own array, None if it
    leaves the thread."""
    for s in body:
        for e in subexpressions(expressions(s)):
            if isinstance(e, Load):
                yield e.buffer, _thread_local_access(e.index, lane, ranges)
        if isinstance(s, Store):
            yield s.buffer, _thread_local_access(s.index, lane, ranges)
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


def _thread_local_access(index: Expr, lane: For | None, ranges: Ranges) -> ThreadLocal | None:
    """The layout of an access that stays within its thread; None if it may leave it."""
    if lane is None or not _one_iteration_per_thread(lane):
        return None
    terms, low = linear_form(index)
    step, high = terms.pop(lane.var, 0), low
    for e, factor in terms.items():
        value_range = ranges.of(e)
        if value_range is None or any(x is lane.var for x in subexpressions([e])):
            return None
        ends = value_range[0] * factor, value_range[1] * factor
        low, high = low + min(ends), high + max(ends)
    return ThreadLocal(step, step) if 0 <= low and high < step else None


def _one_iteration_per_thread(lane: For) -> bool:
    """True if each thread runs at most one iteration: the one of its own number."""
    start, stop = lane.start, lane.stop
    return isinstance(start, Const) and isinstance(stop, Const) and start.value == 0 \
        and bool(stop.value <= lane.lanes)
