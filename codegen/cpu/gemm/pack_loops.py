"""Loops that copy an operand into packed memory, with lanes along what is contiguous."""

from __future__ import annotations

from typing import Any

from ...ir import loop_ir
from ...ir.affine_index import Index, as_index, atom, comparisons, variable
from ...ir.axis_coalescing import linear, merge_axes, whole_numbers
from ...ir.loop_ir import Expr, For, Stmt, Var, const


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
    names = [part for run in runs for part in _limited_first([letters[i] for i in run], limits)]
    order = sorted(names, key=lambda run: _contiguous(probe, separate, run, sizes, vector))
    nest = PackNest(order, sizes, limits, store, vector)
    turned = _turned(probe, separate, nest)
    return nest.statements() if turned is None else _blocks(nest, *turned)


def _limited_first(run: list[str], limits: dict[str, Expr]) -> list[list[str]]:
    """A run of letters, cut so that one that may end early begins its part."""
    parts: list[list[str]] = [[]]
    for letter in run:
        if parts[-1] and not isinstance(limits.get(letter, const(0)), loop_ir.Const):
            parts.append([])
        parts[-1].append(letter)
    return parts


class PackNest:
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
        if limit is None or isinstance(limit, loop_ir.Const):
            return const(size)
        rest = size // sizes[run[0]]
        return loop_ir.call("mul", (limit, const(rest)), loop_ir.INT) if rest > 1 else limit

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

    def once(self, n: int) -> bool:
        """Whether a run needs no loop."""
        return self.sizes[n] == 1 and isinstance(self.stops[n], loop_ir.Const)

    def statements(self, starts: dict[int, int] | None = None) -> list[Stmt]:
        """The loops, those of some runs from another place on than their beginning."""
        body: tuple[Stmt, ...] = (self.store(self.local(self.places())),)
        last = len(self.order) - 1
        for n in range(last, -1, -1):
            if self.once(n):
                continue
            start = const((starts or {}).get(n, 0))
            lanes = min(self.vector, 1 << (self.sizes[n] - 1).bit_length()) if n == last else 0
            body = (For(self.variables[n], start, self.stops[n], body, lanes),)
        return list(body)


def _turned(
    probe: loop_ir.Store, local: dict[str, Index], nest: PackNest
) -> tuple[int, int, int] | None:
    """The run that is contiguous where it is written, if the innermost one is only where it is
    read, and long, and both are of known length: then blocks can be turned. And how far apart the
    rows of a block are, written and read."""
    value, last = probe.value, len(nest.order) - 1
    if not isinstance(value, loop_ir.Load) or value.mask is not None or last < 1 \
            or value.dtype != probe.buffer.dtype:
        return None
    load = value

    def factors(n: int) -> tuple[int, int]:
        var = next((next(iter(local[a].terms)) for a in reversed(nest.order[n])
                    if local[a].terms), None)
        return (0, 0) if var is None else (factor(load.index, var), factor(probe.index, var))

    def known(n: int) -> bool:
        return isinstance(nest.stops[n], loop_ir.Const)

    long = nest.sizes[last] >= nest.vector and known(last)
    if factors(last)[0] != 1 or factors(last)[1] in (0, 1) or not long:
        return None
    for n in range(last):
        if factors(n)[1] == 1 and factors(n)[0] and known(n):
            return n, factors(last)[1], factors(n)[0]
    return None


def factor(index: Expr, var: Expr) -> int:
    """How far the index moves with each step of `var`; 0 where that is not always the same."""
    terms, _ = linear(index)
    return 0 if any(e is not var and var in loop_ir.parts([e]) for e in terms) else terms.get(var,
                                                                                              0)


def _blocks(nest: PackNest, other: int, pitch: int, source_pitch: int) -> list[Stmt]:
    """Blocks of `other` and the innermost run turned, those left of `other` with fewer rows; what
    is left of the innermost run is copied singly."""
    w, last = nest.vector, len(nest.order) - 1
    count, rest = divmod(nest.sizes[other], w)
    inner = nest.sizes[last] // w
    out = []
    for places, rows in (((0, count), w), ((count, count + 1), rest)):
        if rows and places[0] < places[1]:
            blocks = {other: places, last: (0, inner)}
            out += _turning(nest, blocks, rows, pitch, source_pitch)
    if inner * w < nest.sizes[last]:
        out += nest.statements(starts={last: inner * w})
    return out


def _turning(nest: PackNest, blocks: dict[int, tuple[int, int]], rows: int, pitch: int,
             source_pitch: int) -> list[Stmt]:
    """Loops over these blocks of two runs and all of the others: each block is turned. Its rows are
    `pitch` apart where they are written, `source_pitch` where they are read."""
    w, last = nest.vector, len(nest.order) - 1
    places = nest.places()
    for n, (start, stop) in blocks.items():
        places[n] = atom(nest.variables[n], (start, stop - 1)) * w
    made = nest.store(nest.local(places))
    body: tuple[Stmt, ...] = (loop_ir.Transpose(
        made.buffer, made.index, pitch, made.value.buffer, made.value.index, source_pitch, w,
        rows),)
    for n in range(last, -1, -1):
        if n in blocks:
            start, stop = blocks[n]
            body = (For(nest.variables[n], const(start), const(stop), body),)
        elif not nest.once(n):
            body = (For(nest.variables[n], const(0), nest.stops[n], body),)
    return list(body)


def _contiguous(
    probe: loop_ir.Store, local: dict[str, Index], run: list[str], sizes: dict[str, int],
                vector: int
) -> tuple[int, int]:
    """How well a run serves as lanes: read and written at neighbouring places, and long. To read
    a few elements at once that are written one by one is not worth it."""
    var = next((next(iter(local[a].terms)) for a in reversed(run) if local[a].terms), None)
    if var is None:
        return (-1, 0)
    read = reads_along(probe.value, var)
    written = linear(probe.index)[0].get(var) == 1
    size = _run_size(run, sizes)
    return (2 * read + written if written or size >= vector // 4 else 0, size)


def single_read(e: Expr) -> tuple[loop_ir.Load, int] | None:
    """Where an expression is read from memory by one load: its first element, and how many; two
    or four where it is a word of neighbours."""
    if isinstance(e, loop_ir.Load):
        return e, 1
    loads = loop_ir.elements_of_word(e)
    if loads is None:
        return None
    terms, start = linear(loads[0].index)
    side_by_side = all(linear(x.index) == (terms, start + n) for n, x in enumerate(loads))
    return (loads[0], len(loads)) if side_by_side else None


def reads_along(e: Expr, var: Expr) -> bool:
    """Whether all that an expression reads from memory lies side by side along `var`."""
    one = single_read(e)
    reads, width = ([one[0]], one[1]) if one is not None else (loads_of(e), 1)
    return bool(reads) and all(linear(x.index)[0].get(var, 0) == width for x in reads)


def loads_of(e: Expr) -> list[loop_ir.Load]:
    """Every load in an expression."""
    return [part for part in loop_ir.parts([e]) if isinstance(part, loop_ir.Load)]


def _run_size(run: list[str], sizes: dict[str, int]) -> int:
    total = 1
    for a in run:
        total *= sizes[a]
    return total
