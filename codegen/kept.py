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
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .launches import Launch
from .loops import Buffer
from .memory import in_bytes

_MOST = 1 << 16  # calls after which it is tried again at the latest


def kept_launches(launches: Sequence[Launch], given: Collection[Buffer], results: Collection[Buffer]
              ) -> tuple[list[Launch], list[Launch]]:
    """The launches that only read what is given, or what such launches made; and the others."""
    first: dict[Launch, None] = {}
    made = set(given)
    for launch in launches:
        reads, writes = buffers_of(launch)
        if reads and made.issuperset(reads) and not writes & set(results):
            first[launch] = None
            made |= writes
    while True:  # what others write as well is not known before they run
        others = [x for x in launches if x not in first]
        written = set().union(*[buffers_of(x)[1] for x in others])
        gone = [x for x in first if written & set().union(*buffers_of(x))]
        if not gone:
            return list(first), others
        first = {x: None for x in first if x not in gone}


def buffers_of(launch: Launch) -> tuple[set[Buffer], set[Buffer]]:
    """What a launch reads and what it writes."""
    kernel = launch.kernel
    place = {b: p.buffer for b, p in zip(kernel.arguments, launch.places)}
    return {place[b] for b in kernel.inputs}, {place[b] for b in kernel.outputs}


@dataclass(frozen=True)
class Kept:
    """The first `steps` of a program read these `inputs`; what they leave to others are arrays of
    `sizes` bytes."""

    steps: int
    inputs: tuple[int, ...]
    sizes: tuple[int, ...]

    def memory(self) -> list[Any]:
        """Arrays for what the steps leave."""
        return [_aligned(size) for size in self.sizes]


def kept_part(first: Sequence[Launch], others: Iterable[Launch], inputs: Sequence[Buffer]
              ) -> tuple[Kept, list[Buffer]]:
    """What is kept of a program that begins with these launches, and its buffers."""
    read = set().union(*[buffers_of(x)[0] for x in first])
    later = set().union(*[buffers_of(x)[0] for x in others])
    left = dict.fromkeys(b for x in first for b in buffers_of(x)[1] if b in later)
    numbers = tuple(i for i, b in enumerate(inputs) if b in read)
    return Kept(len(first), numbers, tuple(map(in_bytes, left))), list(left)


def _aligned(size: int) -> Any:
    raw = np.empty(size + 64, np.uint8)
    start = -raw.ctypes.data % 64
    return raw[start:start + size]


class Watch:
    """Tells when arrays have been the same for long enough. Some threads may ask at once: at worst
    they find it out a little later."""

    def __init__(self, numbers: Sequence[int]) -> None:
        self._of: Callable[[Any], Any] = operator.itemgetter(*numbers)
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
