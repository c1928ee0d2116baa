"""Contractions as kernels: packed blocks, and a tile of sums that stays in registers.

    task = one batch element, one block of columns, a share of the rows
        for each block of the summed axes:
            pack the columns' operand:       columns[panel][k][j]
            for each tile of rows:
                pack the rows' operand:      rows[k][i]
                for each panel of columns (lanes):
                    sums[i] += rows[k][i] * columns[panel][k][j] for all k
                    epilogue: what the group computes from the sums, and its stores

Packing reads the operands through whatever views stand before them (windows of a convolution,
transposes, slices), so none of those is ever written to memory.
"""

from __future__ import annotations

from collections.abc import Collection

from ....capture.graph.graph import Node
from ....eager.errors import CodegenError
from ...fusion.fusion import Group
from ...ir import loop_ir
from ...ir.affine_index import Index, as_index, atom, counter
from ...ir.loop_ir import Buffer, For, If, Kernel, Stmt, Var, const
from ...ir.target_info import Machine
from ..partition_work import bounds, buffers_of, chunks, sites_of
from .microkernel import TileTask
from .pack import pack_columns, pack_rows, packing_cost
from .plan import Contraction, RowPlan, divided
from .row_access import how_rows_lie
from .task import TaskPart, decode, only

_UNKNOWN = 1e6  # what makes an orientation worse where the number of columns is not known


def lower_contract(
    group: Group, buffers: dict[Node, Buffer], machine: Machine, name: str,
    kept: Collection[Buffer] = (),
) -> list[Kernel]:
    """The kernels of a group that begins with a contraction, in the orientation that moves less.
    What depends on `kept` alone is packed by kernels of its own."""
    both = [Contraction(group, buffers, machine, name, operand, kept) for operand in (0, 1)]
    for of in both:
        of.side_by_side, of.direct = how_rows_lie(_whole(of))
    best = min(both, key=moves)
    return [*([rows_kernel(best)] if best.shared and not best.direct else []),
            *([columns_kernel(best)] if best.kept_columns else []), tile_kernel(best)]


def moves(of: Contraction) -> float:
    """Roughly what packing and storing cost in one orientation, in vector operations."""
    part = _whole(of)
    roles = of.roles
    columns = rows = 0.0
    if not of.kept_columns:
        columns = packing_cost(part, roles.summed, roles.columns) * of.batches * of.shares
    if not of.kept[roles.row_operand] and not of.direct:
        repeats = of.row_batches if of.shared else of.batches * of.column_blocks
        rows = packing_cost(part, roles.summed, roles.rows) * repeats
    stored = of.batches * of.rows * of.columns
    contiguous = of.letters[2][-1] in roles.columns
    total = columns + rows + stored * (1 / of.vector if contiguous else 2.0)
    return total * _UNKNOWN if of.open_columns else total


def _whole(of: Contraction) -> TaskPart:
    """The part that begins with the first of everything."""
    return TaskPart(of, dict.fromkeys(of.roles.batch, as_index(0)), as_index(0), as_index(0))


def columns_kernel(of: Contraction) -> Kernel:
    """Packs all blocks of columns: a task for each."""
    var = Var("task")
    number = atom(var, (0, of.column_areas - 1))
    depth, number = number % of.depth_blocks, number // of.depth_blocks
    block, batch = number % of.column_blocks, number // of.column_blocks
    letters = of.own_batch(1 - of.roles.row_operand)
    part = TaskPart(of, decode(batch, letters, of.roles.size), block, as_index(0))
    body = tuple(pack_columns(part, part.column_base(depth), *part.depth_block(depth)))
    areas = of.column_areas
    return Kernel(of.name + "_pack_columns", *buffers_of(body), (), var, areas, body,
                  areas * of.column_area * 0.5, sites_of(of.group.members))


def rows_kernel(of: Contraction) -> Kernel:
    """Packs the rows once, for all tasks: a tile after the other."""
    tiles = -(-of.rows // of.tile)
    total = of.row_batches * tiles
    if of.open and of.row_batches > 1:
        raise CodegenError("a dynamic number of rows in a batched product")
    tasks, piece = _tasks_of_tiles(of, total)
    var, task = counter("task", tasks)
    line, number = counter("t", total)
    batch, tile = (as_index(0), number) if of.open else (number // tiles, number % tiles)

    place = number * of.row_area
    inner = _packed_tile(of, batch, of.tile_of(tile), place)
    rest = of.rest()
    if rest is not None:
        full, last = (loop_ir.call(op, (tile.expr(), of.full_tiles.expr()), loop_ir.BOOL)
                      for op in ("lt", "eq"))
        inner = [*only(full, inner), *only(last, _packed_tile(of, batch, rest, place))]
    body = (For(line, *bounds(task, piece, of.row_tiles if of.open else total), tuple(inner)),)
    cost = total * of.row_area * 0.5
    return Kernel(of.name + "_pack_rows", *buffers_of(body), (), var, tasks, body, cost,
                  sites_of(of.group.members))


def _tasks_of_tiles(of: Contraction, total: int) -> tuple[int, int]:
    smallest = max(1, 4096 // of.machine.most(of.row_area))
    return (-(-total // smallest), smallest) if of.open else chunks(total, smallest, of.machine)


def _packed_tile(of: Contraction, batch: Index, rows: RowPlan, place: Index) -> list[Stmt]:
    """Packs rows of a tile that lies at a place."""
    roles = of.roles
    fixed = decode(batch, of.row_letters, roles.size)
    summed = {a: roles.size[a] for a in roles.summed}
    return pack_rows(_whole(of), fixed, rows, place, of.shared_rows, as_index(0), summed, {})


def tile_kernel(of: Contraction) -> Kernel:
    """Multiplies, adds up, and does what the rest of the group asks for."""
    var = Var("task")
    number = atom(var, (0, max(0, of.tasks - 1)))
    share, number = number % of.shares, number // of.shares
    batch, block = divided(number, of.column_count)
    body = tuple(TileTask(of, batch, block, share).statements())
    if of.open_columns:
        body = (If(loop_ir.call("lt", (batch.expr(), const(of.batches)), loop_ir.BOOL), body),)
    flops = 2.0 * of.batches * of.rows * of.columns * of.depth
    nanoseconds = flops / (10 * of.vector) * 1.3
    return Kernel(of.name, *buffers_of(body), of.scratch, var, of.tasks, body, nanoseconds,
                  sites_of(of.group.members))
