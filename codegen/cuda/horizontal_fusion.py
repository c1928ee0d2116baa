"""Launches that do not need each other, as one: small kernels take no longer than their launches.

Small kernels wait, in batches that are launched at once, until a large one needs what they write,
or would change what they read or write. One more joins a batch that need not come before what it
waits for itself, and that may wait as long. So the updates of all parameters, each of them ready
when its gradient is, are one launch at the end of a training step, and gradients that are small
products are few.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

from ..fusion.launch import Launch
from ..gpu.thread_mapping import ThreadMapping, thread_mapping_of
from ..ir.loop_ir import Buffer, Kernel
from ..program import arena

_SMALL = 1024  # blocks that a large GPU has at once: what has more takes longer than its launch
_OWN = 16  # elements of a thread's own, with more of which it takes many registers
_SMALL_OF_MANY = 256  # the same number of blocks, where threads take many registers
_POINTERS = 500  # of the 4 KB that arguments of a launch have on every GPU
_DIFFERENT = 16  # kernels in one function
_SHARED = 24 << 10  # bytes of shared memory of all kernels of a function
_WAITING = 64 << 20  # bytes of temporaries that are in use for longer, as kernels wait
_BATCHES = 32  # that wait

Kind = tuple[int, bool]  # threads of a block, and whether they take many registers


@dataclass(eq=False)
class _Batch:
    """Launches that wait, how their kernels lie on threads, what they read and write, the batches
    that have to come before, and sizes."""

    kind: Kind
    launches: list[Launch] = field(default_factory=list)
    teams: dict[Kernel, ThreadMapping] = field(default_factory=dict)
    read: set[Buffer] = field(default_factory=set)
    written: set[Buffer] = field(default_factory=set)
    needs: set[_Batch] = field(default_factory=set)
    pointers: int = 0
    temporaries: int = 0

    def in_the_way(self, x: Launch) -> bool:
        """Whether a launch has to come after these."""
        read, written = _touched(x)
        return not (self.written.isdisjoint(read | written) and self.read.isdisjoint(written))

    def takes(self, x: Launch, team: ThreadMapping) -> bool:
        """Whether there is room for a launch."""
        teams = {**self.teams, x.kernel: team}
        return len(teams) <= _DIFFERENT and self.pointers + len(x.views) <= _POINTERS \
            and sum(t.bytes_shared for t in teams.values()) <= _SHARED

    def sorted(self) -> tuple[Launch, ...]:
        """The launches, equal kernels side by side."""
        order = {k: n for n, k in enumerate(self.teams)}
        return tuple(sorted(self.launches, key=lambda x: order[x.kernel]))


class _LaunchOrder:
    """Rows of launches, and the batches that come after them, each after those that it needs."""

    def __init__(self, given: Collection[Buffer]) -> None:
        self.rows: list[tuple[Launch, ...]] = []
        self._waiting: list[_Batch] = []
        self._given = given

    def add(self, x: Launch, team: ThreadMapping) -> None:
        """Adds a launch, to wait if it can."""
        kind = _kind(x.kernel, team)
        if kind is not None:
            self._make_room(x)
        before = [b for b in self._waiting if b.in_the_way(x)]
        if kind is not None:
            self._join(self._batch_for(x, team, kind, before), x, team, before)
        else:
            self.finish(before)
            self.rows.append((x,))

    def finish(self, batches: Iterable[_Batch] | None = None) -> None:
        """Has these batches, and what they need, wait no longer; all if none are named."""
        done = set[_Batch]()
        left = [*(self._waiting if batches is None else batches)]
        while left:
            batch = left.pop()
            done.add(batch)
            left += batch.needs - done
        self.rows += [b.sorted() for b in self._waiting if b in done]
        self._waiting = [b for b in self._waiting if b not in done]
        for b in self._waiting:
            b.needs -= done

    def _make_room(self, x: Launch) -> None:
        """Has batches wait no longer until one more launch can: first those that others need."""
        new = self._temporaries({p.buffer for p in x.views})
        while self._waiting and (len(self._waiting) == _BATCHES or new + sum(
                b.temporaries for b in self._waiting) > _WAITING):
            needed = [b for b in self._waiting if any(b in c.needs for c in self._waiting)]
            self.finish([*needed, self._waiting[0]][:1])

    def _temporaries(self, buffers: Iterable[Buffer]) -> int:
        return sum(arena.in_bytes(b) for b in buffers if b not in self._given)

    def _batch_for(self, x: Launch, team: ThreadMapping, kind: Kind,
                   before: Sequence[_Batch]) -> _Batch:
        """A batch for a launch that comes after those `before`, moved behind them, or a new one."""
        end = self._waiting.index(before[-1]) if before else -1
        for n, batch in enumerate(self._waiting):
            between = self._waiting[n + 1:end + 1]
            if batch.kind == kind and batch not in before and batch.takes(x, team) \
                    and not any(batch in later.needs for later in between):
                self._waiting.insert(max(n, end), self._waiting.pop(n))
                return batch
        self._waiting.append(_Batch(kind))
        return self._waiting[-1]

    def _join(self, batch: _Batch, x: Launch, team: ThreadMapping,
              before: Iterable[_Batch]) -> None:
        read, written = _touched(x)
        batch.temporaries += self._temporaries((read | written) - batch.read - batch.written)
        batch.pointers += len(x.views)
        batch.launches.append(x)
        batch.teams[x.kernel] = team
        batch.read |= read
        batch.written |= written
        batch.needs.update(before)


def fuse_launches(launches: Iterable[Launch], given: Collection[Buffer] = ()
             ) -> list[tuple[Launch, ...]]:
    """The launches in an order that computes the same; those that are made at once are one row.
    `given`: the buffers that are in memory from beginning to end."""
    order = _LaunchOrder(given)
    known = functools.cache(lambda kernel: thread_mapping_of(kernel, alone=False))
    for x in launches:
        order.add(x, known(x.kernel))
    order.finish()
    return order.rows


def _kind(kernel: Kernel, team: ThreadMapping) -> Kind | None:
    """What kernels that are launched together have in common; None for one that is launched alone:
    a large one, one that works in the program's memory, as only one does at a time, or a library's.
    """
    many = sum(own.size for own in team.own.values()) > _OWN
    small = 0 < team.grid(kernel.tasks) <= (_SMALL_OF_MANY if many else _SMALL)
    alone = not small or team.device or kernel.product is not None
    return None if alone else (team.block, many)


def _touched(x: Launch) -> tuple[set[Buffer], set[Buffer]]:
    """What a launch reads, and what it writes."""
    own: Sequence[Buffer] = x.kernel.arguments
    where = [(b, p.buffer) for b, p in zip(own, x.views)]
    return ({at for b, at in where if b in x.kernel.inputs},
            {at for b, at in where if b in x.kernel.outputs})
