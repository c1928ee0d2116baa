"""Where values live: arguments of the program, or one arena whose places are used again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from .llvm.program import Arena, Argument, Slot
from .loops import Buffer

_ALIGN = 64


def plan_arena(
    uses: Sequence[Iterable[Buffer]], arguments: Mapping[Buffer, int]
) -> tuple[dict[Buffer, Slot], int]:
    """A slot for every buffer, given those that each step uses, and the size of the arena in bytes.

    A temporary takes the lowest place that no other one needs between its first and last use.
    """
    slots: dict[Buffer, Slot] = {b: Argument(i) for b, i in arguments.items()}
    life = _lifetimes(uses, slots)
    order = sorted(life, key=_bytes, reverse=True)
    first, last, start, end = np.zeros((4, len(order)), np.int64)
    for n, buffer in enumerate(order):
        first[n], last[n] = life[buffer]
        alive = (first[:n] <= last[n]) & (first[n] <= last[:n])
        start[n] = _gap(start[:n][alive], end[:n][alive], _bytes(buffer))
        end[n] = start[n] + _bytes(buffer)
        slots[buffer] = Arena(int(start[n]))
    return slots, max(end.tolist(), default=0)


def _bytes(buffer: Buffer) -> int:
    return -(-max(1, buffer.size) * buffer.dtype.itemsize // _ALIGN) * _ALIGN


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
    order = np.argsort(starts, kind="stable")
    reached = np.maximum.accumulate(np.concatenate([[0], ends[order]]))
    fits = np.flatnonzero(starts[order] - reached[:-1] >= size)
    return int(reached[fits[0]] if fits.size else reached[-1])
