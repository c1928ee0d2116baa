"""Launches that do not need each other, as one: small kernels take no longer than their launches.

A small kernel waits for others, until something needs what it writes, or would change what it reads
or writes; then all that wait beside it are launched at once. So the updates of all parameters, each
of them ready when its gradient is, are one launch at the end of a training step.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from .. import memory
from ..launches import Launch
from ..loops import Buffer, Kernel
from .team import team_of

_SMALL = 1024  # blocks that a large GPU has at once: what has more takes longer than its launch
_POINTERS = 500  # of the 4 KB that arguments of a launch have on every GPU
_DIFFERENT = 16  # kernels in one function
_WAITING = 64 << 20  # bytes that cannot be used for anything else while kernels wait


@dataclass
class _Batch:
    """Launches that wait, and what they read and write."""

    launches: list[Launch] = field(default_factory=list)
    kernels: set[Kernel] = field(default_factory=set)
    read: set[Buffer] = field(default_factory=set)
    written: set[Buffer] = field(default_factory=set)

    def add(self, x: Launch) -> None:
        self.launches.append(x)
        self.kernels.add(x.kernel)
        read, written = _touched(x)
        self.read |= read
        self.written |= written

    def in_the_way(self, x: Launch) -> bool:
        """Whether a launch has to come after these."""
        read, written = _touched(x)
        return not (self.written.isdisjoint(read | written) and self.read.isdisjoint(written))

    def has_room(self, x: Launch) -> bool:
        pointers = sum(len(y.places) for y in [*self.launches, x])
        buffers = {*self.read, *self.written, *(p.buffer for p in x.places)}
        return pointers <= _POINTERS and len({*self.kernels, x.kernel}) <= _DIFFERENT \
            and sum(map(memory.in_bytes, buffers)) <= _WAITING

    def sorted(self) -> tuple[Launch, ...]:
        """The launches, equal kernels side by side."""
        order = {k: n for n, k in enumerate(dict.fromkeys(x.kernel for x in self.launches))}
        return tuple(sorted(self.launches, key=lambda x: order[x.kernel]))


def together(launches: Iterable[Launch]) -> list[tuple[Launch, ...]]:
    """The launches in an order that computes the same; those that are made at once are one row."""
    waiting: dict[int, _Batch] = {}  # by threads of a block
    rows: list[tuple[Launch, ...]] = []
    block_of = functools.cache(_block)
    for x in launches:
        block = block_of(x.kernel)
        for key, batch in [*waiting.items()]:
            if batch.in_the_way(x) or (key == block and not batch.has_room(x)):
                rows.append(waiting.pop(key).sorted())
        if block is None:
            rows.append((x,))
        else:
            waiting.setdefault(block, _Batch()).add(x)
    return [*rows, *(batch.sorted() for batch in waiting.values())]


def _block(kernel: Kernel) -> int | None:
    """The threads of a block of a kernel that may be launched with others, None for all else."""
    team = team_of(kernel, alone=False)
    small = 0 < team.grid(kernel.tasks) <= _SMALL
    return team.block if small and kernel.product is None and not kernel.scratch else None


def _touched(x: Launch) -> tuple[set[Buffer], set[Buffer]]:
    """What a launch reads, and what it writes."""
    own: Sequence[Buffer] = x.kernel.arguments
    where = [(b, p.buffer) for b, p in zip(own, x.places)]
    return ({at for b, at in where if b in x.kernel.inputs},
            {at for b, at in where if b in x.kernel.outputs})
