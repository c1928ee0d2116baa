"""Packs operands of a contraction in the order in which its tiles read them.

Columns are packed panel by panel, rows tile by tile, both with the summed axes outermost, so that a
tile reads two contiguous streams.
"""

from __future__ import annotations

from ...ir import loop_ir
from ...ir.affine_index import Index, as_index, atom, counter, variable
from ...ir.loop_ir import Expr, For, KernelBuffer, Stmt, Var, const
from ...ir.sizes import Size, upper_bound
from .pack_loops import lane_read_cost, pack_loops, read_stride
from .row_access import coalesced_label
from .row_plan import RowPlan
from .task import TaskPart, decode


def pack_columns(part: TaskPart, base: Index, first: Index, stop: Expr) -> list[Stmt]:
    """Statements that pack the part's block of columns, from the summed element `first` on, at
    index `base`, with zeros after the last summed element."""
    return [*_pack_columns(part, base, first, stop), *_fill_columns(part, base, stop)]


def _fill_columns(part: TaskPart, base: Index, stop: Expr) -> list[Stmt]:
    """Statements that store the zeros at the end of a block's columns."""
    of = part.of
    if not of.pads_depth:
        return []
    line, lane = Var("k"), Var("j")
    panels = -(-of.columns_per_block // of.panel_width)
    panel, number = counter("panel", panels)
    k = atom(line, (0, of.block_depth - 1))
    column = number * of.panel_width + atom(lane, (0, of.panel_width - 1))
    zero = loop_ir.Store(of.packed_columns, (base + of.packed_column_index(k, column)).expr(),
                         const(0, of.packed_dtype))
    lanes = For(lane, const(0), const(of.panel_width), (zero,), of.vector)
    lines = For(line, part.elements_of(stop), part.padded(part.elements_of(stop)), (lanes,))
    return [For(panel, const(0), const(panels), (lines,))]


def fill_rows(part: TaskPart, rows: RowPlan, base: Index, into: KernelBuffer, stop: Expr
              ) -> list[Stmt]:
    """Statements that store the zeros at the end of a tile's rows of `stop` summed elements."""
    of = part.of
    if not of.pads_depth:
        return []
    (line, i), lane = counter("i", rows.count), Var("k")
    k = atom(lane, (0, of.row_pitch - 1))
    zero = loop_ir.Store(into, (base + of.packed_row_index(k, i)).expr(),
                         const(0, of.packed_dtype))
    lanes = For(lane, stop, part.padded(stop), (zero,), of.vector)
    return [For(line, const(0), rows.packed_count(), (lanes,))]


def _pack_columns(part: TaskPart, base: Index, first: Index, stop: Expr) -> list[Stmt]:
    of, roles = part.of, part.roles
    sizes = _block_sizes(part, [*roles.summed, *roles.columns])
    limits = {roles.columns[0]: part.column_stop, roles.summed[0]: stop}
    if of.panel_label is None:
        return _panels(part, sizes, limits, base, first)
    panel_width = of.panel_width
    panel_sizes = {
        a: sizes[a] // panel_width if a == of.panel_label else sizes[a] for a in sizes
    } | {"lane": panel_width}
    panel_limits = limits | ({of.panel_label: part.full_panels()}
                             if of.panel_label == roles.columns[0] else {})
    statements = (
        _panels(part, panel_sizes, panel_limits, base, first) if panel_sizes[of.panel_label] else []
    )
    # A block of several labels is only split into full panels.
    rest = part.rest_columns() if of.panel_label == roles.columns[0] else None
    if rest is not None:
        tail = _panels(part, sizes | {of.panel_label: 1, "lane": rest[0]},
                       {roles.summed[0]: stop, "lane": rest[1]}, base, first, part.last_panel())
        statements += part.in_last_block(tail)
    return statements


def _panels(
    part: TaskPart, sizes: dict[str, Size], limits: dict[str, Expr], base: Index, first: Index,
    panel: Index | None = None,
) -> list[Stmt]:
    """Loops that pack columns. The split label counts panels, "lane" the columns in a panel.

    The loops pack only the given `panel`, if there is one."""
    of, roles = part.of, part.roles
    shift = {roles.columns[0]: part.first_column, roles.summed[0]: first}

    def store(local: dict[str, Index]) -> loop_ir.Store:
        if of.panel_label is not None:
            number = local[of.panel_label] if panel is None else panel
            local = local | {of.panel_label: number * of.panel_width + local["lane"]}
        where = part.batch_index | {a: i + shift.get(a, 0) for a, i in local.items()}
        value = part.operand(1 - roles.row_operand, where)
        k, j = part.position(roles.summed, local), part.position(roles.columns, local)
        return loop_ir.Store(of.packed_columns, (base + of.packed_column_index(k, j)).expr(),
                             value.expr)

    return pack_loops(sizes, limits, store, of.vector)


def _block_sizes(part: TaskPart, labels: list[str]) -> dict[str, Size]:
    """The sizes of labels in a block; blocked labels have the size of the block."""
    steps = {part.roles.columns[0]: part.of.column_step, part.roles.summed[0]: part.of.depth_step}
    return {a: steps.get(a, part.roles.size[a]) for a in labels}


def pack_rows(
    part: TaskPart, batch_index: dict[str, Index], rows: RowPlan, base: Index, into: KernelBuffer,
    first: Index, summed: dict[str, Size], limits: dict[str, Expr],
) -> list[Stmt]:
    """Statements that pack the rows of a tile at index `base` of `into`.

    They pack the summed elements from `first` on, as many as sizes and limits of their labels say.
    """
    of, roles = part.of, part.roles
    line, i = counter("i", rows.count)
    row_label = coalesced_label(part, roles.rows)

    def store(local: dict[str, Index]) -> loop_ir.Store:
        row = local.get("row", i)
        number = rows.number(row, of.rows)
        where = batch_index | {a: local[a] for a in summed} | (
            decode(number, roles.rows, roles.size) if row_label is None
            else dict.fromkeys(roles.rows, as_index(0)) | {row_label: number})
        where[roles.summed[0]] = where[roles.summed[0]] + first
        value = part.operand(roles.row_operand, where)
        k = part.position(roles.summed, local)
        return loop_ir.Store(into, (base + of.packed_row_index(k, row)).expr(), value.expr)

    if row_label is not None:
        return pack_loops({"row": rows.count, **summed}, {**limits, "row": rows.packed_count()},
                          store, of.vector)
    packed = pack_loops(summed, limits, store, of.vector)
    return [For(line, const(0), rows.packed_count(), tuple(packed))]


def packing_cost(part: TaskPart, summed: list[str], others: list[str]) -> float:
    """Vector operations that packing one operand takes, for one element of the batch."""
    of, roles = part.of, part.roles
    number = roles.row_operand if others == roles.rows else 1 - roles.row_operand
    sizes = {a: roles.size[a] for a in (*others, *summed)}
    local = {a: variable(a, n) for a, n in sizes.items()}
    value = part.operand(number, part.batch_index | local)
    total, best = roles.count(list(sizes)), 3.0
    plain = isinstance(value.expr, loop_ir.Load) and value.expr.mask is None
    for label, n in sizes.items():
        var = next(iter(local[label].terms), None)
        stride = 0 if var is None else read_stride(value.expr, var)
        wide = min(upper_bound(n), of.vector)
        if stride == 1 and label != others[-1]:
            # transposed in registers, or copied one by one
            best = min(best, 1 / wide + (0.4 if plain and upper_bound(n) >= of.vector else 2.0))
        elif stride and label == others[-1]:
            best = min(best, 1 / wide + lane_read_cost(stride, wide))
    return upper_bound(total) * best
