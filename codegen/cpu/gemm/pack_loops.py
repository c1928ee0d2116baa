"""Builds loops that copy an operand into packed memory, with lanes along contiguous elements."""

from __future__ import annotations

import math
from typing import Any

from ...ir import loop_ir
from ...ir.affine_index import Index, as_index, atom, collect_comparisons, variable
from ...ir.axis_coalescing import linear_form, linear_forms, merge_axes
from ...ir.loop_ir import Expr, For, Stmt, Var, const
from ...ir.sizes import Size, is_dynamic, upper_bound

_MAX_STRIDE = 4  # between elements that are picked from vectors


def pack_loops(
    sizes: dict[str, Size], limits: dict[str, Expr], store: Any, vector: int
) -> list[Stmt]:
    """Loops around store(indices).

    Labels that are stepped through as one are merged, and the lanes run along elements that are
    contiguous before and after. Where different labels are contiguous before and after, square
    blocks are transposed in registers."""
    labels = list(sizes)
    separate = {a: variable(a, n) for a, n in sizes.items()}
    with collect_comparisons() as compared:
        probe = store(separate)
    forms = linear_forms([probe.index, probe.value]) + [dict(x.terms) for x in compared]
    axis_runs = merge_axes(tuple(sizes.values()), tuple(separate.values()), forms)
    limited_runs = [
        part for run in axis_runs for part in _split_at_limits([labels[i] for i in run], limits)
    ]
    runs = sorted(limited_runs, key=lambda run: _lane_rank(probe, separate, run, sizes, vector))
    nest = PackNest(runs, sizes, limits, store, vector)
    transposable = _transposable(probe, separate, nest)
    return nest.statements() if transposable is None else _transposed_blocks(nest, *transposable)


def _split_at_limits(run: list[str], limits: dict[str, Expr]) -> list[list[str]]:
    """A run of labels, cut so that each label with a dynamic limit begins its part."""
    parts: list[list[str]] = [[]]
    for label in run:
        if parts[-1] and not isinstance(limits.get(label, const(0)), loop_ir.Const):
            parts.append([])
        parts[-1].append(label)
    return parts


class PackNest:
    """Runs of labels as loops, the last one innermost."""

    def __init__(
        self, runs: list[list[str]], sizes: dict[str, Size], limits: dict[str, Expr], store: Any,
        vector: int,
    ) -> None:
        self.runs, self.store, self.vector = runs, store, vector
        self.sizes = [_run_size(run, sizes) for run in runs]
        self.stops = [self._stop(run, sizes, limits) for run in runs]
        self.variables = [Var(run[-1]) for run in runs]
        self._label_sizes = sizes

    @staticmethod
    def _stop(run: list[str], sizes: dict[str, Size], limits: dict[str, Expr]) -> Expr:
        limit, size = limits.get(run[0]), _run_size(run, sizes)
        if limit is None or isinstance(limit, loop_ir.Const):
            return const(size)
        rest = size // sizes[run[0]]
        return loop_ir.call("mul", (limit, const(rest)), loop_ir.INT) if rest != 1 else limit

    def label_indices(self, run_indices: list[Index]) -> dict[str, Index]:
        """The indices of the labels at these indices of the runs. A run's last long label counts
        all of it."""
        indices = dict.fromkeys(self._label_sizes, as_index(0))
        for run, index in zip(self.runs, run_indices):
            long = [a for a in run if self._label_sizes[a] != 1]
            indices[long[-1] if long else run[-1]] = index
        return indices

    def run_indices(self) -> list[Index]:
        """The indices of the runs' own loop variables."""
        return [as_index(0) if n == 1 else atom(v, (0, n - 1))
                for v, n in zip(self.variables, self.sizes)]

    def needs_no_loop(self, n: int) -> bool:
        """True if a run has exactly one iteration."""
        return self.sizes[n] == 1 and isinstance(self.stops[n], loop_ir.Const)

    def statements(self, starts: dict[int, int] | None = None) -> list[Stmt]:
        """The loops; those of some runs begin at `starts` instead of 0."""
        body: tuple[Stmt, ...] = (self.store(self.label_indices(self.run_indices())),)
        last = len(self.runs) - 1
        for n in range(last, -1, -1):
            if self.needs_no_loop(n):
                continue
            start = const((starts or {}).get(n, 0))
            most = 1 << (upper_bound(self.sizes[n]) - 1).bit_length()
            lanes = min(self.vector, most) if n == last else 0
            body = (For(self.variables[n], start, self.stops[n], body, lanes),)
        return list(body)


def _transposable(
    probe: loop_ir.Store, local: dict[str, Index], nest: PackNest
) -> tuple[int, int, int] | None:
    """(run, pitch, source pitch) if blocks of the innermost run and of another run can be
    transposed.

    The innermost run must be contiguous only where it is read, the other run where it is written,
    and both must have known sizes. The pitches are the distances of the rows of a block, written
    and read."""
    value, last = probe.value, len(nest.runs) - 1
    if not isinstance(value, loop_ir.Load) or value.mask is not None or last < 1 \
            or value.dtype != probe.buffer.dtype:
        return None
    load = value

    def factors(n: int) -> tuple[int, int]:
        var = next((next(iter(local[a].terms)) for a in reversed(nest.runs[n])
                    if local[a].terms), None)
        return (0, 0) if var is None else (stride_along(load.index, var),
                                           stride_along(probe.index, var))

    def has_constant_stop(n: int) -> bool:
        return isinstance(nest.stops[n], loop_ir.Const)

    long = has_constant_stop(last) and nest.sizes[last] >= nest.vector
    if factors(last)[0] != 1 or factors(last)[1] in (0, 1) or not long:
        return None
    for n in range(last):
        if factors(n)[1] == 1 and factors(n)[0] and has_constant_stop(n):
            pitches = factors(last)[1], factors(n)[0]
            return None if any(map(is_dynamic, pitches)) else (n, *pitches)
    return None


def stride_along(index: Expr, var: Expr) -> Size:
    """The distance that the index moves with each step of `var`, or 0 where it is not constant."""
    terms, _ = linear_form(index)
    return (
        0
        if any(e is not var and var in loop_ir.subexpressions([e]) for e in terms)
        else terms.get(var, 0)
    )


def _transposed_blocks(nest: PackNest, other: int, pitch: int, source_pitch: int) -> list[Stmt]:
    """Loops that transpose blocks of `other` and the innermost run.

    The remainder of `other` has blocks with fewer rows; the remainder of the innermost run is
    copied."""
    vector, last = nest.vector, len(nest.runs) - 1
    count, rest = divmod(nest.sizes[other], vector)
    inner = nest.sizes[last] // vector
    statements = []
    for block_range, rows in (((0, count), vector), ((count, count + 1), rest)):
        if rows and block_range[0] < block_range[1]:
            blocks = {other: block_range, last: (0, inner)}
            statements += _transpose_loops(nest, blocks, rows, pitch, source_pitch)
    if inner * vector < nest.sizes[last]:
        statements += nest.statements(starts={last: inner * vector})
    return statements


def _transpose_loops(nest: PackNest, blocks: dict[int, tuple[int, int]], rows: int, pitch: int,
                     source_pitch: int) -> list[Stmt]:
    """Loops over these blocks of two runs, and over all other runs, that transpose each block.

    The rows of a block are `pitch` apart where they are written, `source_pitch` where they are
    read."""
    vector, last = nest.vector, len(nest.runs) - 1
    run_indices = nest.run_indices()
    for n, (start, stop) in blocks.items():
        run_indices[n] = atom(nest.variables[n], (start, stop - 1)) * vector
    store = nest.store(nest.label_indices(run_indices))
    body: tuple[Stmt, ...] = (
        loop_ir.Transpose(
            store.buffer,
            store.index,
            pitch,
            store.value.buffer,
            store.value.index,
            source_pitch,
            vector,
            rows,
        ),
    )
    for n in range(last, -1, -1):
        if n in blocks:
            start, stop = blocks[n]
            body = (For(nest.variables[n], const(start), const(stop), body),)
        elif not nest.needs_no_loop(n):
            body = (For(nest.variables[n], const(0), nest.stops[n], body),)
    return list(body)


def _lane_rank(
    probe: loop_ir.Store, local: dict[str, Index], run: list[str], sizes: dict[str, Size],
    vector: int,
) -> tuple[float, int]:
    """A sort key of how well a run serves as lanes: the negative cost of an element, then length.
    """
    var = next((next(iter(local[a].terms)) for a in reversed(run) if local[a].terms), None)
    size = upper_bound(_run_size(run, sizes))
    if var is None:
        return -math.inf, 0
    stride = read_stride(probe.value, var)
    written = linear_form(probe.index)[0].get(var) == 1
    wide = min(size, vector)
    return -(lane_read_cost(stride, wide) + (1 / wide if written else 1.0)), size


def lane_read_cost(stride: int, lanes: int) -> float:
    """Operations of reading an element with lanes along elements `stride` apart, 0 for unknown.

    Elements a few apart are picked from as many vectors; others are read one by one."""
    return (2 * stride - 1) / lanes if 0 < stride <= _MAX_STRIDE else 1.0


def read_stride(e: Expr, var: Expr) -> int:
    """The distance between the elements that an expression reads at two steps of `var`; 0 if its
    reads differ, or it is not known."""
    one = single_read(e)
    reads, width = ([one[0]], one[1]) if one is not None else (loads_of(e), 1)
    strides = {stride_along(x.index, var) for x in reads}
    (stride,) = strides if len(strides) == 1 else (0,)
    return 0 if is_dynamic(stride) or stride < 0 or stride % width else stride // width


def single_read(e: Expr) -> tuple[loop_ir.Load, int] | None:
    """The first load and the number of elements, if an expression is read by one load, or None.

    A word of two or four neighbours counts as one load."""
    if isinstance(e, loop_ir.Load):
        return e, 1
    loads = loop_ir.packed_element_loads(e)
    if loads is None:
        return None
    terms, start = linear_form(loads[0].index)
    contiguous = all(linear_form(x.index) == (terms, start + n) for n, x in enumerate(loads))
    return (loads[0], len(loads)) if contiguous else None


def loads_of(e: Expr) -> list[loop_ir.Load]:
    """Every load in an expression."""
    return [part for part in loop_ir.subexpressions([e]) if isinstance(part, loop_ir.Load)]


def _run_size(run: list[str], sizes: dict[str, Size]) -> Size:
    total: Size = 1
    for a in run:
        total *= sizes[a]
    return total
