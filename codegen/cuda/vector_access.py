"""Short loops whose turns touch neighbours in memory: their elements are moved in one piece, up to
16 bytes at once."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from ..ir.axis_coalescing import linear_form
from ..ir.loop_ir import (
    Assign,
    Buffer,
    Const,
    Expr,
    For,
    Load,
    Store,
    Update,
    Var,
    expressions,
    subexpressions,
)

_COUNTS = (2, 4, 8, 16)


@dataclass(frozen=True)
class Moved:
    """The accesses of a loop of `count` turns that are made in one piece."""

    count: int
    loads: tuple[Load, ...]
    stores: tuple[Store, ...]


def moved_at_once(s: For, aligned: Collection[Buffer]) -> Moved | None:
    """What the turns of a loop move in one piece, None where it is to be an ordinary loop. Buffers
    that are `aligned` begin where a piece can."""
    count = _count(s)
    if count not in _COUNTS or not all(isinstance(x, (Assign, Update, Store)) for x in s.body):
        return None
    stores = [x for x in s.body if isinstance(x, Store)]
    loads = [
        e for e in subexpressions(e for x in s.body for e in expressions(x)) if isinstance(e, Load)
    ]
    mixed = _mixed(loads, stores)
    wide_loads = [e for e in loads if e.buffer in aligned and e.buffer not in mixed
                  and _side_by_side(e.index, s.var, count) and not _depends(e.mask, s.var)]
    wide_stores = [x for x in stores if x.buffer in aligned and x.buffer not in mixed
                   and _side_by_side(x.index, s.var, count)]
    if not wide_loads and not wide_stores:
        return None
    return Moved(count, tuple(wide_loads), tuple(wide_stores))


def _count(s: For) -> int:
    start, stop = s.start, s.stop
    if not (isinstance(start, Const) and isinstance(stop, Const)):
        return 0
    return s.unroll if (start.value, stop.value) == (0, s.unroll) else 0


def _mixed(loads: Iterable[Load], stores: Collection[Store]) -> set[Buffer]:
    """The buffers in which a turn may touch what another one writes."""
    written = [x.buffer for x in stores]
    places = {x.buffer: x.index for x in stores}
    return {b for b in written if written.count(b) > 1} | {
        e.buffer for e in loads if e.buffer in places and places[e.buffer] is not e.index}


def _side_by_side(index: Expr, var: Var, count: int) -> bool:
    """Whether the elements of all turns lie side by side, from a multiple of their number on."""
    terms, constant = linear_form(index)
    others = {e: c for e, c in terms.items() if e is not var}
    return terms.get(var) == 1 and constant % count == 0 \
        and all(c % count == 0 and not _depends(e, var) for e, c in others.items())


def _depends(e: Expr | None, var: Var) -> bool:
    return e is not None and var in subexpressions([e])
