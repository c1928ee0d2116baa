"""Lowers contractions: packed blocks, and a tile of sums that stays in registers.

    task = one batch element, one block of columns, a chunk of the rows
        for each block of the summed axes:
            pack the columns' operand:       columns[panel][k][j]
            for each tile of rows:
                pack the rows' operand:      rows[k][i]
                for each panel of columns (lanes):
                    sums[i] += rows[k][i] * columns[panel][k][j] for all k
                    epilogue: the other members of the group, and the stores

Packing reads the operands through their views (windows of a convolution, transposes, slices), so no
view is written to memory.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from ....capture.graph.graph import Node
from ...fusion.fusion import Group
from ...ir import loop_ir
from ...ir.affine_index import Index, as_index, atom, counter
from ...ir.loop_ir import For, Kernel, KernelBuffer, Stmt, Var, const
from ...ir.sizes import ceil_div, is_dynamic, upper_bound
from ...ir.target_info import Machine
from ..partition_work import buffers_of, chunk_bounds, sites_of, split_into_tasks
from .cost import GAIN_OF_MATRIX_UNIT, ContractionCost, first_part, has_known_sizes
from .dot_packing import can_use_matrix_unit
from .matrix_unit import MatrixUnitTask
from .microkernel import TileTask
from .pack import fill_rows, pack_columns, pack_rows
from .plan import Contraction
from .row_access import row_layout
from .row_plan import RowPlan
from .task import TaskPart, decode, if_true

_MIN_TASK_NS = 2000
_GAIN = 0.85  # of the time, up to which a plan is preferred to that which moves less data


def lower_contract(
    group: Group, buffers: dict[Node, KernelBuffer], machine: Machine, name: str,
    persistent: Collection[KernelBuffer] = (),
) -> list[Kernel]:
    """The kernels of a group that begins with a contraction, in the orientation that moves less
    data.

    Operands that depend on `persistent` buffers alone are packed by kernels of their own."""
    best = _best_plan([plan for unit in (False, True) for operand in (0, 1) for plan in
                       _plans(group, buffers, machine, name, operand, persistent, unit)])
    return [*([pack_rows_kernel(best)] if best.packs_rows_once and not best.reads_unpacked else []),
            *([pack_columns_kernel(best)] if best.prepacks_columns else []), tile_kernel(best)]


def _plans(group: Group, buffers: dict[Node, KernelBuffer], machine: Machine, name: str,
           row_operand: int, persistent: Collection[KernelBuffer], matrix_unit: bool
           ) -> Iterator[Contraction]:
    """The plan with an operand as rows, unless the matrix unit is asked for and cannot do it."""
    if not matrix_unit or can_use_matrix_unit(group.members[0], machine):
        plan = Contraction(group, buffers, machine, name, row_operand, persistent, matrix_unit)
        if not matrix_unit or plan.lane_packing is not None:
            yield plan


def _best_plan(plans: list[Contraction]) -> Contraction:
    """The plan that moves the least data, unless another one takes clearly less time."""
    costs = [ContractionCost(plan) for plan in plans]
    for plan in plans:
        contiguous, plan.reads_unpacked = row_layout(first_part(plan))
        plan.k_contiguous = contiguous or plan.matrix_unit
    usual = min(costs, key=lambda cost: cost.movement)
    if not all(map(has_known_sizes, plans)):
        by_unit = [cost for cost in costs if cost.plan.matrix_unit] or costs
        return min(by_unit, key=lambda cost: cost.movement).plan
    for cost in costs:
        cost.choose_partition()
    fastest = min(costs, key=lambda cost: cost.time)
    return (fastest if fastest.time < _GAIN * usual.time else usual).plan


def pack_columns_kernel(plan: Contraction) -> Kernel:
    """The kernel that packs all blocks of columns, with a task for each."""
    var = Var("task")
    number = atom(var, (0, plan.packed_column_blocks - 1))
    depth, number = number % plan.depth_blocks, number // plan.depth_blocks
    block, batch = number % plan.column_blocks, number // plan.column_blocks
    labels = plan.batch_labels_of(1 - plan.roles.row_operand)
    part = TaskPart(plan, decode(batch, labels, plan.roles.size), block, as_index(0))
    body = tuple(pack_columns(part, part.column_base(depth), *part.depth_block(depth)))
    blocks = plan.packed_column_blocks
    return Kernel(plan.name + "_pack_columns", *buffers_of(body), (), var, blocks, body,
                  upper_bound(blocks * plan.column_block_size) * 0.5, sites_of(plan.group.members))


def pack_rows_kernel(plan: Contraction) -> Kernel:
    """The kernel that packs the rows once for all tasks, one tile after the other."""
    tiles = plan.row_tiles
    total = plan.row_batches * tiles
    smallest = max(1, 4096 // upper_bound(plan.row_tile_size))
    tasks, tiles_per_task = split_into_tasks(total, smallest, plan.machine)
    var, task = counter("task", tasks)
    line, number = counter("t", total)
    batch, tile = number // tiles, number % tiles
    base = number * plan.row_tile_size
    inner = _packed_tile(plan, batch, plan.tile_of(tile), base)
    rest = plan.rest_rows_packed()
    if rest is not None:
        full, last = (loop_ir.call(op, (tile.expr(), const(plan.full_tiles)), loop_ir.BOOL)
                      for op in ("lt", "eq"))
        inner = [*if_true(full, inner), *if_true(last, _packed_tile(plan, batch, rest, base))]
    body = (For(line, *chunk_bounds(task, tiles_per_task, total), tuple(inner)),)
    cost = upper_bound(total * plan.row_tile_size) * 0.5
    return Kernel(plan.name + "_pack_rows", *buffers_of(body), (), var, tasks, body, cost,
                  sites_of(plan.group.members))


def _packed_tile(plan: Contraction, batch: Index, rows: RowPlan, base: Index) -> list[Stmt]:
    """Statements that pack the rows of a tile at index `base`."""
    roles = plan.roles
    batch_index = decode(batch, plan.row_batch_labels, roles.size)
    summed = {a: roles.size[a] for a in roles.summed}
    part = first_part(plan)
    return [*pack_rows(part, batch_index, rows, base, plan.shared_rows, as_index(0), summed, {}),
            *fill_rows(part, rows, base, plan.shared_rows, const(plan.depth))]


def tile_kernel(plan: Contraction) -> Kernel:
    """The kernel that multiplies, adds up, and runs the epilogue."""
    flops = 2.0 * upper_bound(plan.batches * plan.rows * plan.columns * plan.depth)
    nanoseconds = flops / (10 * plan.vector) * 1.3
    nanoseconds /= GAIN_OF_MATRIX_UNIT if plan.matrix_unit else 1
    parts_per_task = _parts_per_task(plan, nanoseconds)
    tasks = ceil_div(plan.tasks, parts_per_task)
    (var, task), (part_var, number) = counter("task", tasks), counter("part", plan.tasks)
    part = task if parts_per_task == 1 else number
    row_chunk, part = part % plan.row_chunks, part // plan.row_chunks
    batch, block = part // plan.column_blocks, part % plan.column_blocks
    task_kind = MatrixUnitTask if plan.matrix_unit else TileTask
    body = tuple(task_kind(plan, batch, block, row_chunk).statements())
    if parts_per_task != 1:
        body = (For(part_var, *chunk_bounds(task, parts_per_task, plan.tasks), body),)
    return Kernel(plan.name, *buffers_of(body), plan.scratch, var, tasks, body, nanoseconds,
                  sites_of(plan.group.members))


def _parts_per_task(plan: Contraction, nanoseconds: float) -> int:
    """The number of blocks of columns that a task computes. Where their number is dynamic, they
    have a fixed size, which may be too little for a task."""
    if not is_dynamic(plan.tasks):
        return 1
    return max(1, round(_MIN_TASK_NS * upper_bound(plan.tasks) / nanoseconds))
