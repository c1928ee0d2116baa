"""Fuses independent launches into one: small kernels take no longer than their launches.

Small kernels wait in batches. A batch is launched when a large kernel needs its results, or
would overwrite memory that it uses. A kernel joins a batch if no conflicting batch has to
come before it, and if it can wait as long. So the updates of all parameters, each ready when
its gradient is, become one launch at the end of a training step, and small gradient products
are few launches.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

from ..fusion.launch import Launch
from ..gpu.thread_mapping import ThreadMapping, thread_mapping_of
from ..ir.loop_ir import Kernel, KernelBuffer
from ..program import arena

MAX_SMALL_BLOCKS = 1024  # fit on a large GPU at once: more take longer than a launch
MANY_THREAD_LOCAL_ELEMENTS = 16  # above this a thread takes many registers
MAX_REGISTER_HEAVY_BLOCKS = 256  # MAX_SMALL_BLOCKS for threads with many registers
MAX_POINTERS = 500  # of a launch: its arguments have 4 KB on every GPU
MAX_KERNELS = 16  # of one function
MAX_SHARED_BYTES = 24 << 10  # of all kernels of a function
MAX_PENDING_BYTES = 64 << 20  # of temporaries that stay alive longer because kernels wait
MAX_BATCHES = 32  # pending at once

BatchKind = tuple[int, bool]  # threads of a block, and whether they take many registers


@dataclass(eq=False)
class _Batch:
    """Pending launches: their thread mappings, the buffers they read and write, the batches they
    depend on, and sizes."""

    kind: BatchKind
    launches: list[Launch] = field(default_factory=list)
    mappings: dict[Kernel, ThreadMapping] = field(default_factory=dict)
    read: set[KernelBuffer] = field(default_factory=set)
    written: set[KernelBuffer] = field(default_factory=set)
    depends_on: set[_Batch] = field(default_factory=set)
    pointers: int = 0
    temporaries: int = 0

    def conflicts_with(self, x: Launch) -> bool:
        """True if a launch has to come after this batch."""
        read, written = _buffers_of(x)
        return not (self.written.isdisjoint(read | written) and self.read.isdisjoint(written))

    def has_room(self, x: Launch, mapping: ThreadMapping) -> bool:
        """True if the batch has room for a launch."""
        mappings = {**self.mappings, x.kernel: mapping}
        return len(mappings) <= MAX_KERNELS and self.pointers + len(x.views) <= MAX_POINTERS \
            and sum(t.shared_bytes for t in mappings.values()) <= MAX_SHARED_BYTES

    def ordered(self) -> tuple[Launch, ...]:
        """The launches, with equal kernels side by side."""
        order = {k: n for n, k in enumerate(self.mappings)}
        return tuple(sorted(self.launches, key=lambda x: order[x.kernel]))


class _LaunchOrder:
    """The fused launches so far, and the pending batches, each after those that it depends on."""

    def __init__(self, permanent: Collection[KernelBuffer]) -> None:
        self.fused: list[tuple[Launch, ...]] = []
        self._pending: list[_Batch] = []
        self._permanent = permanent

    def add(self, x: Launch, mapping: ThreadMapping) -> None:
        """Adds a launch, to a pending batch if possible."""
        kind = _batch_kind(x.kernel, mapping)
        if kind is not None:
            self._make_room(x)
        conflicting = [b for b in self._pending if b.conflicts_with(x)]
        if kind is not None:
            self._join(self._batch_for(x, mapping, kind, conflicting), x, mapping, conflicting)
        else:
            self.finish(conflicting)
            self.fused.append((x,))

    def finish(self, batches: Iterable[_Batch] | None = None) -> None:
        """Emits these batches and those that they depend on; all pending batches by default."""
        finished = set[_Batch]()
        worklist = [*(self._pending if batches is None else batches)]
        while worklist:
            batch = worklist.pop()
            finished.add(batch)
            worklist += batch.depends_on - finished
        self.fused += [b.ordered() for b in self._pending if b in finished]
        self._pending = [b for b in self._pending if b not in finished]
        for b in self._pending:
            b.depends_on -= finished

    def _make_room(self, x: Launch) -> None:
        """Emits pending batches until one more launch fits, first those that others depend on."""
        new_bytes = self._temporaries({p.buffer for p in x.views})
        while self._pending and (len(self._pending) == MAX_BATCHES or new_bytes + sum(
                b.temporaries for b in self._pending) > MAX_PENDING_BYTES):
            prerequisites = [b for b in self._pending if any(b in c.depends_on
                                                             for c in self._pending)]
            self.finish([*prerequisites, self._pending[0]][:1])

    def _temporaries(self, buffers: Iterable[KernelBuffer]) -> int:
        return sum(arena.in_bytes(b) for b in buffers if b not in self._permanent)

    def _batch_for(self, x: Launch, mapping: ThreadMapping, kind: BatchKind,
                   conflicting: Sequence[_Batch]) -> _Batch:
        """The batch for a launch: an existing one, moved behind the conflicting batches, or a new
        one."""
        end = self._pending.index(conflicting[-1]) if conflicting else -1
        for n, batch in enumerate(self._pending):
            between = self._pending[n + 1:end + 1]
            if batch.kind == kind and batch not in conflicting and batch.has_room(x, mapping) \
                    and not any(batch in later.depends_on for later in between):
                self._pending.insert(max(n, end), self._pending.pop(n))
                return batch
        self._pending.append(_Batch(kind))
        return self._pending[-1]

    def _join(self, batch: _Batch, x: Launch, mapping: ThreadMapping,
              conflicting: Iterable[_Batch]) -> None:
        read, written = _buffers_of(x)
        batch.temporaries += self._temporaries((read | written) - batch.read - batch.written)
        batch.pointers += len(x.views)
        batch.launches.append(x)
        batch.mappings[x.kernel] = mapping
        batch.read |= read
        batch.written |= written
        batch.depends_on.update(conflicting)


def fuse_launches(launches: Iterable[Launch], permanent: Collection[KernelBuffer] = ()
                  ) -> list[tuple[Launch, ...]]:
    """The launches in an equivalent order, those of one fused launch together; `permanent` buffers
    are in memory from beginning to end."""
    order = _LaunchOrder(permanent)
    mapping_of = functools.cache(lambda kernel: thread_mapping_of(kernel, alone=False))
    for x in launches:
        order.add(x, mapping_of(x.kernel))
    order.finish()
    return order.fused


def _batch_kind(kernel: Kernel, mapping: ThreadMapping) -> BatchKind | None:
    """The properties that kernels of one batch share. None for a kernel that runs alone: a large
    one, one with scratch in device memory (which only one kernel uses at a time), or one that a
    library computes."""
    uses_many_registers = sum(own.size
                              for own in mapping.thread_local.values()) > MANY_THREAD_LOCAL_ELEMENTS
    is_small = 0 < mapping.grid(kernel.tasks) <= (MAX_REGISTER_HEAVY_BLOCKS
                                                  if uses_many_registers else MAX_SMALL_BLOCKS)
    runs_alone = not is_small or mapping.device or kernel.product is not None
    return None if runs_alone else (mapping.block_threads, uses_many_registers)


def _buffers_of(x: Launch) -> tuple[set[KernelBuffer], set[KernelBuffer]]:
    """The buffers that a launch reads, and those that it writes."""
    parameters: Sequence[KernelBuffer] = x.kernel.arguments
    arguments = [(b, p.buffer) for b, p in zip(parameters, x.views)]
    return ({buffer for b, buffer in arguments if b in x.kernel.inputs},
            {buffer for b, buffer in arguments if b in x.kernel.outputs})
