"""Prepacks weights: steps that depend only on persistent inputs and constants run once.

These steps are the prologue of a program. Persistent inputs, such as the parameters of a model,
usually are the same arrays in every call. After two calls in a row with the same arrays, the
results of the prologue are stored with the arrays themselves, and later calls skip it. A held array
cannot be overwritten by donation, since it has another owner. While the arrays keep changing, as in
training, the interval between two checks grows.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Iterable, KeysView, Sequence
from dataclasses import dataclass
from typing import Any

from ..fusion.launch import Launch
from ..ir.loop_ir import KernelBuffer
from ..runtime.cpython.data_pointers import aligned
from .arena import in_bytes

Buffers = KeysView[KernelBuffer]
_MAX_SKIPPED_CALLS = 1 << 16  # between two checks


def prepacked_launches(launches: Sequence[Launch], available: Collection[KernelBuffer],
                       results: Collection[KernelBuffer]) -> tuple[list[Launch], list[Launch]]:
    """The launches that read only `available` buffers or results of such launches, and the others.
    """
    uses = [buffers_of(x) for x in launches]
    first = _prologue(uses, set(available), set(results))
    users: dict[KernelBuffer, list[int]] = {}
    last: dict[KernelBuffer, int] = {}  # who of the first writes it last
    for n in first:
        last |= dict.fromkeys(uses[n][1], n)
        for b in set().union(*uses[n]):
            users.setdefault(b, []).append(n)
    gone = [n for n in range(len(uses)) if n not in first]
    while gone:  # other writes, and reads in between, are not known before they run
        lost = {b for n in gone for b in uses[n][1]}
        lost |= {b for n in gone for b in uses[n][0] if n < last.get(b, -1)}
        gone = list(dict.fromkeys(n for b in lost for n in users.pop(b, ()) if n in first))
        for n in gone:
            del first[n]
    return [launches[n] for n in first], [x for n, x in enumerate(launches) if n not in first]


def _prologue(uses: Sequence[tuple[Buffers, Buffers]], available: set[KernelBuffer],
              results: set[KernelBuffer]) -> dict[int, None]:
    """The numbers of the launches that read only available buffers; except those that write
    results, and those that only fill memory for later launches."""
    prologue: dict[int, None] = {}
    for n, (reads, writes) in enumerate(uses):
        if available.issuperset(reads) and not writes & results:
            prologue[n] = None
            available.update(writes)
    used = {b for n in prologue if uses[n][0] for b in (*uses[n][0], *uses[n][1])}
    return {n: None for n in prologue if uses[n][0] or uses[n][1] & used}


def buffers_of(launch: Launch) -> tuple[Buffers, Buffers]:
    """The buffers that a launch reads and writes, in an order that is the same in every process."""
    kernel = launch.kernel
    buffer_at = {b: p.buffer for b, p in zip(kernel.arguments, launch.views)}
    reads, writes = ({buffer_at[b]: None for b in of} for of in (kernel.inputs, kernel.outputs))
    return reads.keys(), writes.keys()


@dataclass(frozen=True)
class PrepackedBuffers:
    """The prologue of a program: its first `steps` read these `inputs`; later steps read its
    results, arrays of `sizes` bytes."""

    steps: int
    inputs: tuple[int, ...]
    sizes: tuple[int, ...]

    def memory(self) -> list[Any]:
        """New arrays for the results of the prologue."""
        return [aligned(size) for size in self.sizes]


def prepacked_part(first: Sequence[Launch], others: Iterable[Launch], inputs: Sequence[KernelBuffer]
                   ) -> tuple[PrepackedBuffers, list[KernelBuffer]]:
    """The prologue of a program that begins with these launches, and the buffers that it fills."""
    read = set().union(*[buffers_of(x)[0] for x in first])
    later = set().union(*[buffers_of(x)[0] for x in others])
    prepacked = dict.fromkeys(b for x in first for b in buffers_of(x)[1] if b in later)
    numbers = tuple(i for i, b in enumerate(inputs) if b in read)
    return PrepackedBuffers(len(first), numbers, tuple(map(in_bytes, prepacked))), list(prepacked)


def _nothing(arrays: Any) -> tuple[()]:
    return ()


class PrepackWatch:
    """Detects that persistent inputs stay the same. Several threads may ask at once; at worst they
    detect it a little later."""

    def __init__(self, numbers: Sequence[int]) -> None:
        select: Callable[[Any], Any] = operator.itemgetter(*numbers) if numbers else _nothing
        self._persistent_arrays = select
        self._last_ids: Any = None
        self._skips = self._skips_left = 0

    def same(self, arrays: Sequence[Any]) -> bool:
        """True if a call has the same arrays as the one before."""
        if self._skips_left:
            self._skips_left -= 1
            return False
        persistent = self._persistent_arrays(arrays)
        ids = tuple(map(id, persistent)) if type(persistent) is tuple else id(persistent)
        last, self._last_ids = self._last_ids, ids
        return bool(last == ids)

    def changed(self) -> None:
        """Notes that the arrays changed: the next check happens later."""
        self._last_ids = None
        self._skips = self._skips_left = min(4 * self._skips + 4, _MAX_SKIPPED_CALLS)
