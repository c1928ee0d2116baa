"""What a program computes from arrays that stay the same, once: weights packed for products.

The first steps of a program depend on nothing but inputs that mostly are the same from call to
call, such as the parameters of a model, and on constants. Once two calls in a row have come with
the same arrays, what these steps leave is kept with the arrays themselves, and later calls begin
after them. Arrays do not change; what is held here is not written over by whoever donates it, as it
is not theirs alone. Where the arrays change all the time, as in training, that is found out ever
more seldom.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Iterable, KeysView, Sequence
from dataclasses import dataclass
from typing import Any

from ..fusion.launch import Launch
from ..ir.loop_ir import Buffer
from ..runtime.cpython.data_pointers import aligned
from .arena import in_bytes

Buffers = KeysView[Buffer]
_MOST = 1 << 16  # calls after which it is tried again at the latest


def prepacked_launches(launches: Sequence[Launch], given: Collection[Buffer],
                       results: Collection[Buffer]
              ) -> tuple[list[Launch], list[Launch]]:
    """The launches that only read what is given, or what such launches made; and the others."""
    uses = [buffers_of(x) for x in launches]
    first = _depending_on(uses, set(given), set(results))
    users: dict[Buffer, list[int]] = {}
    last: dict[Buffer, int] = {}  # who of the first writes it last
    for n in first:
        last |= dict.fromkeys(uses[n][1], n)
        for b in set().union(*uses[n]):
            users.setdefault(b, []).append(n)
    gone = [n for n in range(len(uses)) if n not in first]
    while gone:  # what they write as well, or read in between, is not known before they run
        lost = {b for n in gone for b in uses[n][1]}
        lost |= {b for n in gone for b in uses[n][0] if n < last.get(b, -1)}
        gone = list(dict.fromkeys(n for b in lost for n in users.pop(b, ()) if n in first))
        for n in gone:
            del first[n]
    return [launches[n] for n in first], [x for n, x in enumerate(launches) if n not in first]


def _depending_on(uses: Sequence[tuple[Buffers, Buffers]], made: set[Buffer],
                  results: set[Buffer]) -> dict[int, None]:
    """The numbers of the launches that read something, and all of it is given or made by such;
    but for those that write results."""
    found: dict[int, None] = {}
    for n, (reads, writes) in enumerate(uses):
        if reads and made.issuperset(reads) and not writes & results:
            found[n] = None
            made.update(writes)
    return found


def buffers_of(launch: Launch) -> tuple[Buffers, Buffers]:
    """What a launch reads and what it writes, in the same order in every process."""
    kernel = launch.kernel
    place = {b: p.buffer for b, p in zip(kernel.arguments, launch.views)}
    reads, writes = ({place[b]: None for b in of} for of in (kernel.inputs, kernel.outputs))
    return reads.keys(), writes.keys()


@dataclass(frozen=True)
class PrepackedBuffers:
    """The first `steps` of a program read these `inputs`; what they leave to others are arrays of
    `sizes` bytes."""

    steps: int
    inputs: tuple[int, ...]
    sizes: tuple[int, ...]

    def memory(self) -> list[Any]:
        """Arrays for what the steps leave."""
        return [aligned(size) for size in self.sizes]


def prepacked_part(first: Sequence[Launch], others: Iterable[Launch], inputs: Sequence[Buffer]
              ) -> tuple[PrepackedBuffers, list[Buffer]]:
    """What is kept of a program that begins with these launches, and its buffers."""
    read = set().union(*[buffers_of(x)[0] for x in first])
    later = set().union(*[buffers_of(x)[0] for x in others])
    left = dict.fromkeys(b for x in first for b in buffers_of(x)[1] if b in later)
    numbers = tuple(i for i, b in enumerate(inputs) if b in read)
    return PrepackedBuffers(len(first), numbers, tuple(map(in_bytes, left))), list(left)


def _nothing(arrays: Any) -> tuple[()]:
    return ()


class PrepackWatch:
    """Tells when arrays have been the same for long enough. Some threads may ask at once: at worst
    they find it out a little later."""

    def __init__(self, numbers: Sequence[int]) -> None:
        self._of: Callable[[Any], Any] = operator.itemgetter(*numbers) if numbers else _nothing
        self._last: Any = None
        self._pause = self._left = 0

    def same(self, arrays: Sequence[Any]) -> bool:
        """Whether a call comes with the same arrays as the one before."""
        if self._left:
            self._left -= 1
            return False
        found = self._of(arrays)
        names = tuple(map(id, found)) if type(found) is tuple else id(found)
        last, self._last = self._last, names
        return bool(last == names)

    def changed(self) -> None:
        """They are others than those that were kept: the next look is later."""
        self._last = None
        self._pause = self._left = min(4 * self._pause + 4, _MOST)
