"""Where values live: arguments of the program, or one arena whose places are used again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from ..ir.loop_ir import Buffer
from .native_program import Arena, Argument, Slot

_ALIGN = 64


def plan_arena(
    uses: Sequence[Iterable[Buffer]], arguments: Mapping[Buffer, int]
) -> tuple[dict[Buffer, Slot], int]:
    """A slot for every buffer, given those that each step uses, and the size of the arena in bytes.

    A temporary takes the lowest place that no other one needs between its first and last use.
    """
    slots: dict[Buffer, Slot] = {b: Argument(i) for b, i in arguments.items()}
    life = _lifetimes(uses, slots)
    order = sorted([(in_bytes(buffer), n, buffer) for n, buffer in enumerate(life)], key=_size)
    first, last, start, end = np.zeros((4, len(order)), np.int64)
    for n, (size, _, buffer) in enumerate(order):
        first[n], last[n] = begin, stop = life[buffer]
        alive = (first[:n] <= stop) & (begin <= last[:n])
        start[n] = place = _gap(start[:n][alive], end[:n][alive], size)
        end[n] = place + size
        slots[buffer] = Arena(place)
    return slots, max(end.tolist(), default=0)


def _size(entry: tuple[int, int, Buffer]) -> tuple[int, int]:
    """The largest first, then in the order of their first use."""
    return -entry[0], entry[1]


def in_bytes(buffer: Buffer) -> int:
    """The bytes that a buffer takes, so that the next one is aligned."""
    return padded(buffer.size * buffer.dtype.itemsize)


def padded(size: int) -> int:
    """The bytes that a value of so many takes, so that the next one begins on a cache line."""
    return -(-max(1, size) // _ALIGN) * _ALIGN


def _lifetimes(
    uses: Sequence[Iterable[Buffer]], known: Mapping[Buffer, Slot]
) -> dict[Buffer, tuple[int, int]]:
    life: dict[Buffer, tuple[int, int]] = {}
    for step, buffers in enumerate(uses):
        for buffer in buffers:
            if buffer not in known:
                life[buffer] = (life.get(buffer, (step, step))[0], step)
    return life


def _gap(starts: Any, ends: Any, size: int) -> int:
    """The lowest offset at which `size` bytes are free between the taken ranges."""
    order = starts.argsort(kind="stable")
    reached = np.zeros(len(order) + 1, np.int64)
    np.maximum.accumulate(ends[order], out=reached[1:])
    fits = starts[order] - reached[:-1] >= size
    return int(reached[fits.argmax()] if fits.any() else reached[-1])
