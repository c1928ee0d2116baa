"""Asks for memory ahead of its use: the next row's elements while this row is computed.

Processors fetch ahead along lines that are read one after the other, but not what is to be
written, and less well where arithmetic fills the time between two reads.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TypeAlias

from ..ir import loop_ir
from ..ir.loop_ir import Buffer, Expr, For, If, Prefetch, Stmt, Store

_CACHED = 1 << 20  # bytes of an array, of which most lies in a cache anyway
_AHEAD = 1024  # bytes

_Places: TypeAlias = "dict[Buffer, tuple[Expr, bool]]"


def add_prefetches(body: Sequence[Stmt], elements: int, row: int) -> tuple[Stmt, ...]:
    """`body` with a prefetch for each large array of `elements`, in the middle one of the lane
    loops that use it: the first may still wait for this row, and behind the last there is no time.
    What is read several times, once for each row of `row` elements, by whole rows ahead."""
    places = {loop: dict(_places(loop, elements)) for loop in _lane_loops(body)}
    users: dict[Buffer, list[For]] = {}
    for loop, found in places.items():
        for buffer in found:
            users.setdefault(buffer, []).append(loop)
    wanted = {loop: {b: at for b, at in found.items() if _middle(users[b]) is loop}
              for loop, found in places.items()}
    return _extended(body, wanted, row)


def _middle(found: list[For]) -> For:
    return found[(len(found) - 1) // 2]


def _lane_loops(body: Sequence[Stmt]) -> Iterator[For]:
    return (s for s in loop_ir.walk(body) if isinstance(s, For) and s.lanes)


def _places(loop: For, elements: int) -> Iterator[tuple[Buffer, tuple[Expr, bool]]]:
    """The large arrays that a loop itself uses: where, and whether it writes there."""
    for s in loop.body:
        if isinstance(s, (For, If)):
            continue
        for e in loop_ir.parts(loop_ir.expressions(s)):
            if isinstance(e, loop_ir.Load) and _is_large(e.buffer, elements):
                yield e.buffer, (e.index, False)
        if isinstance(s, Store) and _is_large(s.buffer, elements):
            yield s.buffer, (s.index, True)


def _is_large(b: Buffer, elements: int) -> bool:
    return not b.scratch and b.size >= elements and b.size * b.dtype.itemsize > _CACHED


def _extended(body: Sequence[Stmt], wanted: dict[For, _Places], row: int) -> tuple[Stmt, ...]:
    out: list[Stmt] = []
    for s in body:
        if isinstance(s, For) and s in wanted:
            more = [_prefetch(b, *at, row) for b, at in wanted[s].items()]
            s = replace(s, body=(*s.body, *more))
        elif isinstance(s, (For, If)):
            s = replace(s, body=_extended(s.body, wanted, row))
        out.append(s)
    return tuple(out)


def _prefetch(buffer: Buffer, index: Expr, writes: bool, row: int) -> Prefetch:
    near = _AHEAD // buffer.dtype.itemsize
    return Prefetch(buffer, index, near if writes else -(-near // row) * row, writes)
