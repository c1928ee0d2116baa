"""Where values live: arguments of the program, or one arena whose places are used again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from .llvm.program import Arena, Argument, Slot
from .loops import Buffer, Kernel

_ALIGN = 64


def plan_arena(
    kernels: Sequence[Kernel], arguments: Mapping[Buffer, int]
) -> tuple[dict[Buffer, Slot], int]:
    """A slot for every buffer of the kernels, and the size of the arena in bytes.

    A temporary takes the lowest place that no other one needs between its first and last use.
    """
    slots: dict[Buffer, Slot] = {b: Argument(i) for b, i in arguments.items()}
    life = _lifetimes(kernels, slots)
    placed: list[tuple[int, int, int, int]] = []  # offset, end, first use, last use
    total = 0
    for buffer in sorted(life, key=_bytes, reverse=True):
        first, last = life[buffer]
        taken = sorted(p[:2] for p in placed if p[2] <= last and first <= p[3])
        offset = _gap(taken, _bytes(buffer))
        placed.append((offset, offset + _bytes(buffer), first, last))
        slots[buffer] = Arena(offset)
        total = max(total, offset + _bytes(buffer))
    return slots, total


def _bytes(buffer: Buffer) -> int:
    return -(-max(1, buffer.size) * buffer.dtype.itemsize // _ALIGN) * _ALIGN


def _lifetimes(
    kernels: Sequence[Kernel], known: Mapping[Buffer, Slot]
) -> dict[Buffer, tuple[int, int]]:
    life: dict[Buffer, tuple[int, int]] = {}
    for step, kernel in enumerate(kernels):
        for buffer in kernel.arguments:
            if buffer not in known:
                life[buffer] = (life.get(buffer, (step, step))[0], step)
    return life


def _gap(taken: list[tuple[int, int]], size: int) -> int:
    """The lowest offset at which `size` bytes are free between the taken ranges."""
    at = 0
    for start, end in taken:
        if start - at >= size:
            return at
        at = max(at, end)
    return at
