"""Operands of a contraction copied into the order in which its tiles read them: columns panel by
panel, rows tile by tile, both with the summed axes outside, so that a tile reads two streams."""

from __future__ import annotations

from ...ir import loop_ir
from ...ir.affine_index import Index, as_index, counter, variable
from ...ir.loop_ir import Buffer, Expr, For, Stmt, const
from .pack_loops import pack_loops, reads_along
from .plan import RowPlan
from .row_access import one_letter
from .task import TaskPart, decode


def pack_columns(part: TaskPart, base: Index, first: Index, stop: Expr) -> list[Stmt]:
    """Packs the part's block of columns, the summed elements from `first` on, at `base` of the
    packed columns."""
    of, roles = part.of, part.roles
    sizes = _block_sizes(part, [*roles.summed, *roles.columns])
    limits = {roles.columns[0]: part.column_stop, roles.summed[0]: stop}
    if of.cut is None:
        return _panels(part, sizes, limits, base, first)
    wide = of.panel
    cut = {a: sizes[a] // wide if a == of.cut else sizes[a] for a in sizes} | {"lane": wide}
    whole = limits | ({of.cut: part.whole_panels()} if of.cut == roles.columns[0] else {})
    out = _panels(part, cut, whole, base, first) if cut[of.cut] else []
    # Of a single letter: those with others are cut into whole panels only.
    rest = part.rest_columns() if of.cut == roles.columns[0] else None
    if rest is not None:
        tail = _panels(part, sizes | {of.cut: 1, "lane": rest[0]},
                       {roles.summed[0]: stop, "lane": rest[1]}, base, first, part.last_panel())
        out += part.in_last_block(tail)
    return out


def _panels(
    part: TaskPart, sizes: dict[str, int], limits: dict[str, Expr], base: Index, first: Index,
    panel: Index | None = None,
) -> list[Stmt]:
    """Loops that pack columns: the letter that is cut counts panels (or stands for the given one),
    "lane" the columns in one."""
    of, roles = part.of, part.roles
    shift = {roles.columns[0]: part.first_column, roles.summed[0]: first}

    def store(local: dict[str, Index]) -> loop_ir.Store:
        if of.cut is not None:
            number = local[of.cut] if panel is None else panel
            local = local | {of.cut: number * of.panel + local["lane"]}
        where = part.fixed | {a: i + shift.get(a, 0) for a, i in local.items()}
        value = part.operand(1 - roles.row_operand, where)
        k, j = part.position(roles.summed, local), part.position(roles.columns, local)
        return loop_ir.Store(of.packed_columns, (base + of.place(k, j)).expr(), value.expr)

    return pack_loops(sizes, limits, store, of.vector)


def _block_sizes(part: TaskPart, letters: list[str]) -> dict[str, int]:
    """The sizes of letters in a block: those of the blocked ones are the blocks'."""
    steps = {part.roles.columns[0]: part.of.column_step, part.roles.summed[0]: part.of.depth_step}
    return {a: steps.get(a, part.roles.size[a]) for a in letters}


def pack_rows(
    part: TaskPart, fixed: dict[str, Index], rows: RowPlan, place: Index, into: Buffer,
              first: Index,
    summed: dict[str, int], limits: dict[str, Expr],
) -> list[Stmt]:
    """Packs rows of a tile at `place` of `into`: the summed elements from `first` on,
    as many as the sizes and limits of their letters say."""
    of, roles = part.of, part.roles
    line, i = counter("i", rows.count)
    whole = one_letter(part, roles.rows)

    def store(local: dict[str, Index]) -> loop_ir.Store:
        row = local.get("row", i)
        at = rows.number(row, of.rows)
        where = fixed | {a: local[a] for a in summed} | (
            decode(at, roles.rows, roles.size) if whole is None
            else dict.fromkeys(roles.rows, as_index(0)) | {whole: at})
        where[roles.summed[0]] = where[roles.summed[0]] + first
        value = part.operand(roles.row_operand, where)
        k = part.position(roles.summed, local)
        return loop_ir.Store(into, (place + of.row_place(k, row)).expr(), value.expr)

    if whole is not None:
        return pack_loops({"row": rows.count, **summed}, {**limits, "row": rows.packed()}, store,
                          of.vector)
    packed = pack_loops(summed, limits, store, of.vector)
    return [For(line, const(0), rows.packed(), tuple(packed))]


def packing_cost(part: TaskPart, summed: list[str], others: list[str]) -> float:
    """Vector operations that packing all of one operand takes, for one element of the batch."""
    of, roles = part.of, part.roles
    number = roles.row_operand if others == roles.rows else 1 - roles.row_operand
    sizes = {a: roles.size[a] for a in (*others, *summed)}
    local = {a: variable(a, n) for a, n in sizes.items()}
    value = part.operand(number, part.fixed | local)
    total, best = roles.count(list(sizes)), 3.0
    plain = isinstance(value.expr, loop_ir.Load) and value.expr.mask is None
    for letter, n in sizes.items():
        var = next(iter(local[letter].terms), None)
        if var is not None and reads_along(value.expr, var):
            wide = min(n, of.vector)
            turns = 0.4 if plain and n >= of.vector else 2.0  # in registers, or singly
            best = min(best, 2 / wide if letter == others[-1] else 1 / wide + turns)
    return total * best
