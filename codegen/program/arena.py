"""Plans memory: buffers are arguments of the program, or share one arena by lifetime."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from ..ir.loop_ir import KernelBuffer
from .native_program import Arena, Argument, Slot

_ALIGN_BYTES = 64


def plan_arena(
    uses: Sequence[Iterable[KernelBuffer]], arguments: Mapping[KernelBuffer, int]
) -> tuple[dict[KernelBuffer, Slot], int]:
    """A slot for every buffer, given the buffers that each step uses, and the arena size in bytes.

    A temporary takes the lowest offset that is free between its first and last use.
    """
    slots: dict[KernelBuffer, Slot] = {b: Argument(i) for b, i in arguments.items()}
    life = _lifetimes(uses, slots)
    by_size = sorted([(in_bytes(buffer), n, buffer) for n, buffer in enumerate(life)],
                     key=_placement_key)
    first, last, start, end = np.zeros((4, len(by_size)), np.int64)
    for n, (size, _, buffer) in enumerate(by_size):
        first[n], last[n] = begin, stop = life[buffer]
        alive = (first[:n] <= stop) & (begin <= last[:n])
        start[n] = offset = _lowest_gap(start[:n][alive], end[:n][alive], size)
        end[n] = offset + size
        slots[buffer] = Arena(offset)
    return slots, max(end.tolist(), default=0)


def _placement_key(entry: tuple[int, int, KernelBuffer]) -> tuple[int, int]:
    """Sort key: the largest first, then by first use."""
    return -entry[0], entry[1]


def in_bytes(buffer: KernelBuffer) -> int:
    """The bytes of a buffer, padded so that the next one is aligned."""
    return padded(buffer.size * buffer.dtype.itemsize)


def padded(size: int) -> int:
    """The bytes of a value of this size, padded so that the next one begins on a cache line."""
    return -(-max(1, size) // _ALIGN_BYTES) * _ALIGN_BYTES


def _lifetimes(
    uses: Sequence[Iterable[KernelBuffer]], slots: Mapping[KernelBuffer, Slot]
) -> dict[KernelBuffer, tuple[int, int]]:
    life: dict[KernelBuffer, tuple[int, int]] = {}
    for step, buffers in enumerate(uses):
        for buffer in buffers:
            if buffer not in slots:
                life[buffer] = (life.get(buffer, (step, step))[0], step)
    return life


def _lowest_gap(starts: Any, ends: Any, size: int) -> int:
    """The lowest offset with `size` free bytes between the used ranges."""
    order = starts.argsort(kind="stable")
    reached = np.zeros(len(order) + 1, np.int64)
    np.maximum.accumulate(ends[order], out=reached[1:])
    fits = starts[order] - reached[:-1] >= size
    return int(reached[fits.argmax()] if fits.any() else reached[-1])
