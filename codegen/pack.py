"""Loops that copy an operand into packed memory, with lanes along what is contiguous."""

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
    run along what is contiguous in memory, before and after. Where one is contiguous before and
    another after, square blocks are turned in registers."""
    letters = list(sizes)
    separate = {a: variable(a, n) for a, n in sizes.items()}
    with comparisons() as compared:
        probe = store(separate)
    forms = whole_numbers([probe.index, probe.value]) + [dict(x.terms) for x in compared]
    runs = merge_axes(tuple(sizes.values()), tuple(separate.values()), forms)
    names = [[letters[i] for i in run] for run in runs]
    order = sorted(names, key=lambda run: _contiguous(probe, separate, run, sizes))
    nest = Nest(order, sizes, limits, store, vector)
    turned = _turned(probe, separate, nest)
    return nest.statements() if turned is None else _blocks(nest, *turned)


class Nest:
    """Runs of letters as loops, the last one innermost."""

    def __init__(
        self, order: list[list[str]], sizes: dict[str, int], limits: dict[str, Expr], store: Any,
        vector: int,
    ) -> None:
        self.order, self.store, self.vector = order, store, vector
        self.sizes = [_run_size(run, sizes) for run in order]
        self.stops = [self._stop(run, sizes, limits) for run in order]
        self.variables = [Var(run[-1]) for run in order]
        self._letters = sizes

    @staticmethod
    def _stop(run: list[str], sizes: dict[str, int], limits: dict[str, Expr]) -> Expr:
        limit, size = limits.get(run[0]), _run_size(run, sizes)
        if limit is None or isinstance(limit, loops.Const):
            return const(size)
        rest = size // sizes[run[0]]
        return loops.call("mul", (limit, const(rest)), loops.INT) if rest > 1 else limit

    def local(self, places: list[Index]) -> dict[str, Index]:
        """The letters at these places of the runs: a run's last long letter counts all of it."""
        found = dict.fromkeys(self._letters, as_index(0))
        for run, place in zip(self.order, places):
            long = [a for a in run if self._letters[a] != 1]
            found[long[-1] if long else run[-1]] = place
        return found

    def places(self) -> list[Index]:
        """The runs' own variables."""
        return [atom(v, (0, n - 1)) if n > 1 else as_index(0)
                for v, n in zip(self.variables, self.sizes)]

    def statements(self, starts: dict[int, int] | None = None,
                   stops: dict[int, int] | None = None) -> list[Stmt]:
        """The loops, those of some runs from or to another place than their ends."""
        body: tuple[Stmt, ...] = (self.store(self.local(self.places())),)
        last = len(self.order) - 1
        for n in range(last, -1, -1):
            if self.sizes[n] == 1:
                continue
            start = const((starts or {}).get(n, 0))
            stop = const(stops[n]) if stops and n in stops else self.stops[n]
            lanes = min(self.vector, 1 << (self.sizes[n] - 1).bit_length()) if n == last else 0
            body = (For(self.variables[n], start, stop, body, lanes),)
        return list(body)


def _turned(
    probe: loops.Store, local: dict[str, Index], nest: Nest
) -> tuple[int, int, int] | None:
    """The run that is contiguous where it is written, if the innermost one is only where it is
    read, and both are long and of known length: then blocks can be turned. And how far apart the
    rows of a block are, written and read."""
    value, last = probe.value, len(nest.order) - 1
    if not isinstance(value, loops.Load) or value.mask is not None or last < 1:
        return None
    load = value

    def factors(n: int) -> tuple[int, int]:
        var = next((next(iter(local[a].terms)) for a in reversed(nest.order[n])
                    if local[a].terms), None)
        return (0, 0) if var is None else (_factor(load.index, var), _factor(probe.index, var))

    def long(n: int) -> bool:
        return nest.sizes[n] >= nest.vector and isinstance(nest.stops[n], loops.Const)

    if factors(last)[0] != 1 or factors(last)[1] in (0, 1) or not long(last):
        return None
    for n in range(last):
        if factors(n)[1] == 1 and factors(n)[0] and long(n):
            return n, factors(last)[1], factors(n)[0]
    return None


def _factor(index: Expr, var: Expr) -> int:
    """How far the index moves with each step of `var`; 0 where that is not always the same."""
    terms, _ = linear(index)
    return 0 if any(e is not var and _contains(e, var) for e in terms) else terms.get(var, 0)


def _contains(e: Expr, var: Expr) -> bool:
    return e is var or any(_contains(x, var) for x in loops.children(e))


def _blocks(nest: Nest, other: int, pitch: int, source_pitch: int) -> list[Stmt]:
    """Square blocks of `other` and the innermost run turned, what is left copied singly."""
    w, last = nest.vector, len(nest.order) - 1
    whole = {n: nest.sizes[n] // w * w for n in (other, last)}
    places = nest.places()
    for n in (other, last):
        places[n] = atom(nest.variables[n], (0, nest.sizes[n] // w - 1)) * w
    made = nest.store(nest.local(places))
    body: tuple[Stmt, ...] = (loops.Transpose(
        made.buffer, made.index, pitch, made.value.buffer, made.value.index, source_pitch, w),)
    for n in range(last, -1, -1):
        stop = const(nest.sizes[n] // w) if n in whole else nest.stops[n]
        if nest.sizes[n] > 1:
            body = (For(nest.variables[n], const(0), stop, body),)
    out = list(body)
    if whole[last] < nest.sizes[last]:
        out += nest.statements(starts={last: whole[last]})
    if whole[other] < nest.sizes[other]:
        out += nest.statements(starts={other: whole[other]}, stops={last: whole[last]})
    return out


def _contiguous(
    probe: loops.Store, local: dict[str, Index], run: list[str], sizes: dict[str, int]
) -> tuple[int, int]:
    """How well a run serves as lanes: read and written at neighbouring places, and long."""
    var = next((next(iter(local[a].terms)) for a in reversed(run) if local[a].terms), None)
    if var is None:
        return (-1, 0)
    reads = [linear(e.index)[0].get(var, 0) for e in loads_of(probe.value)]
    read = bool(reads) and all(f == 1 for f in reads)
    good = 2 * read + (linear(probe.index)[0].get(var) == 1)
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
