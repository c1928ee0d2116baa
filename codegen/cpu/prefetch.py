"""Adds prefetches: memory of the next row is fetched while this row is computed.

Processors prefetch along lines that are read one after the other, but not lines to be written, and
less well where arithmetic fills the time between two reads.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TypeAlias

from ..ir import loop_ir
from ..ir.loop_ir import Expr, For, If, KernelBuffer, Prefetch, Stmt, Store

_MAX_CACHED_BYTES = 1 << 20  # most of an array up to this size is in a cache anyway
_PREFETCH_BYTES = 1024  # distance from the element in use

_Accesses: TypeAlias = "dict[KernelBuffer, tuple[Expr, bool]]"


def add_prefetches(body: Sequence[Stmt], elements: int, row: int) -> tuple[Stmt, ...]:
    """`body` with a prefetch for each large array of at least `elements` elements.

    The middle one of the lane loops that use the array prefetches: the first may still wait for
    this row, and after the last no time is left. An array that is read several times, once for each
    row of `row` elements, is prefetched whole rows ahead."""
    accesses = {loop: dict(_accesses(loop, elements)) for loop in _lane_loops(body)}
    users: dict[KernelBuffer, list[For]] = {}
    for loop, in_loop in accesses.items():
        for buffer in in_loop:
            users.setdefault(buffer, []).append(loop)
    chosen = {loop: {b: access for b, access in in_loop.items() if _middle(users[b]) is loop}
              for loop, in_loop in accesses.items()}
    return _with_prefetches(body, chosen, row)


def _middle(loops: list[For]) -> For:
    return loops[(len(loops) - 1) // 2]


def _lane_loops(body: Sequence[Stmt]) -> Iterator[For]:
    return (s for s in loop_ir.walk(body) if isinstance(s, For) and s.lanes)


def _accesses(loop: For, elements: int) -> Iterator[tuple[KernelBuffer, tuple[Expr, bool]]]:
    """The large arrays that a loop itself uses, each with its index and whether it is written."""
    for s in loop.body:
        if isinstance(s, (For, If)):
            continue
        for e in loop_ir.subexpressions(loop_ir.expressions(s)):
            if isinstance(e, loop_ir.Load) and _is_large(e.buffer, elements):
                yield e.buffer, (e.index, False)
        if isinstance(s, Store) and _is_large(s.buffer, elements):
            yield s.buffer, (s.index, True)


def _is_large(b: KernelBuffer, elements: int) -> bool:
    return not b.scratch and b.size >= elements and b.size * b.dtype.itemsize > _MAX_CACHED_BYTES


def _with_prefetches(
    body: Sequence[Stmt], chosen: dict[For, _Accesses], row: int
) -> tuple[Stmt, ...]:
    out: list[Stmt] = []
    for s in body:
        if isinstance(s, For) and s in chosen:
            prefetches = [_prefetch(b, *access, row) for b, access in chosen[s].items()]
            s = replace(s, body=(*s.body, *prefetches))
        elif isinstance(s, (For, If)):
            s = replace(s, body=_with_prefetches(s.body, chosen, row))
        out.append(s)
    return tuple(out)


def _prefetch(buffer: KernelBuffer, index: Expr, writes: bool, row: int) -> Prefetch:
    distance = _PREFETCH_BYTES // buffer.dtype.itemsize
    return Prefetch(buffer, index, distance if writes else -(-distance // row) * row, writes)
