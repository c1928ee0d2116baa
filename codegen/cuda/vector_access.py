"""Finds short loops whose iterations access neighbouring elements: these become vector accesses of
up to 16 bytes."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from ..ir.axis_coalescing import linear_form
from ..ir.loop_ir import (
    Assign,
    Const,
    Expr,
    For,
    KernelBuffer,
    Load,
    Store,
    Update,
    Var,
    expressions,
    subexpressions,
)

VECTOR_COUNTS = (2, 4, 8, 16)


@dataclass(frozen=True)
class VectorAccesses:
    """The accesses of a loop of `count` iterations that become vector accesses."""

    count: int
    loads: tuple[Load, ...]
    stores: tuple[Store, ...]


def vector_accesses(s: For, aligned: Collection[KernelBuffer]) -> VectorAccesses | None:
    """The accesses of a loop that can be vectorized; None if it stays an ordinary loop. Buffers in
    `aligned` begin at a multiple of a vector."""
    count = _unrolled_count(s)
    if count not in VECTOR_COUNTS or not all(isinstance(x, (Assign, Update, Store))
                                             for x in s.body):
        return None
    stores = [x for x in s.body if isinstance(x, Store)]
    loads = [
        e for e in subexpressions(e for x in s.body for e in expressions(x)) if isinstance(e, Load)
    ]
    conflicting = _conflicting_buffers(loads, stores)
    wide_loads = [e for e in loads if e.buffer in aligned and e.buffer not in conflicting
                  and _is_contiguous(e.index, s.var, count) and not _depends(e.mask, s.var)]
    wide_stores = [x for x in stores if x.buffer in aligned and x.buffer not in conflicting
                   and _is_contiguous(x.index, s.var, count)]
    if not wide_loads and not wide_stores:
        return None
    return VectorAccesses(count, tuple(wide_loads), tuple(wide_stores))


def _unrolled_count(s: For) -> int:
    start, stop = s.start, s.stop
    if not (isinstance(start, Const) and isinstance(stop, Const)):
        return 0
    return s.unroll if (start.value, stop.value) == (0, s.unroll) else 0


def _conflicting_buffers(loads: Iterable[Load], stores: Collection[Store]) -> set[KernelBuffer]:
    """The buffers in which an iteration may access an element that another one stores."""
    written = [x.buffer for x in stores]
    index = {x.buffer: x.index for x in stores}
    return {b for b in written if written.count(b) > 1} | {
        e.buffer for e in loads if e.buffer in index and index[e.buffer] is not e.index}


def _is_contiguous(index: Expr, var: Var, count: int) -> bool:
    """True if the elements of all iterations are contiguous and aligned to their number."""
    terms, constant = linear_form(index)
    others = {e: c for e, c in terms.items() if e is not var}
    return terms.get(var) == 1 and constant % count == 0 \
        and all(c % count == 0 and not _depends(e, var) for e, c in others.items())


def _depends(e: Expr | None, var: Var) -> bool:
    return e is not None and var in subexpressions([e])
