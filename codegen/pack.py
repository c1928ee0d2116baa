"""Loops that copy an operand into packed memory: merged where they can be, lanes along what is
contiguous."""

from __future__ import annotations

from typing import Any

from . import loops
from .collapse import linear, merge_axes, whole_numbers
from .index import Index, as_index, atom, comparisons, variable
from .loops import Expr, For, Stmt, Var, const


def pack_loops(
    sizes: dict[str, int], limits: dict[str, Expr], store: Any, vector: int
) -> list[Stmt]:
    """Loops around store(local): letters that are stepped through as one are merged, and the lanes
    run along what is contiguous in memory, before and after."""
    letters = list(sizes)
    separate = {a: variable(a, n) for a, n in sizes.items()}
    with comparisons() as compared:
        probe = store(separate)
    forms = whole_numbers([probe.index, probe.value]) + [dict(x.terms) for x in compared]
    runs = merge_axes(tuple(sizes.values()), tuple(separate.values()), forms)
    names = [[letters[i] for i in run] for run in runs]
    order = sorted(names, key=lambda run: _contiguous(probe, separate, run, sizes))
    return _nest(order, sizes, limits, store, vector)


def _nest(
    order: list[list[str]], sizes: dict[str, int], limits: dict[str, Expr], store: Any, vector: int
) -> list[Stmt]:
    counters, local = [], dict.fromkeys(sizes, as_index(0))
    for run in order:
        var, size = Var(run[-1]), _run_size(run, sizes)
        long = [a for a in run if sizes[a] != 1]
        local[long[-1] if long else run[-1]] = atom(var, (0, size - 1)) if size > 1 else as_index(0)
        counters.append((var, size, limits.get(run[0])))
    body: tuple[Stmt, ...] = (store(local),)
    for depth, (var, size, limit) in enumerate(reversed(counters)):
        if size == 1:
            continue
        stop: Expr = const(size)
        if limit is not None and not isinstance(limit, loops.Const):
            run = order[len(order) - 1 - depth]
            rest = size // sizes[run[0]]
            stop = loops.call("mul", (limit, const(rest)), loops.INT) if rest > 1 else limit
        lanes = min(vector, 1 << (size - 1).bit_length()) if depth == 0 else 0
        body = (For(var, const(0), stop, body, lanes),)
    return list(body)


def _contiguous(
    probe: loops.Store, local: dict[str, Index], run: list[str], sizes: dict[str, int]
) -> tuple[int, int]:
    """How well a run serves as lanes: read and written at neighbouring places, and long."""
    var = next((next(iter(local[a].terms)) for a in reversed(run) if local[a].terms), None)
    if var is None:
        return (-1, 0)
    reads = [linear(e.index)[0].get(var, 0) for e in loads_of(probe.value)]
    good = (bool(reads) and all(f == 1 for f in reads)) + (linear(probe.index)[0].get(var) == 1)
    return (good, _run_size(run, sizes))


def loads_of(e: Expr) -> list[loops.Load]:
    """Every load in an expression."""
    found, stack = [], [e]
    while stack:
        e = stack.pop()
        if isinstance(e, loops.Load):
            found.append(e)
        stack.extend(loops.children(e))
    return found


def _run_size(run: list[str], sizes: dict[str, int]) -> int:
    total = 1
    for a in run:
        total *= sizes[a]
    return total
