"""Contractions as kernels: packed blocks, and a tile of sums that stays in registers.

    task = one batch element, one block of columns, a share of the rows
        for each block of the summed axes:
            pack the columns' operand:       columns[k][j]
            for each tile of rows:
                pack the rows' operand:      rows[i][k]
                for each panel of columns (lanes):
                    sums[i] += rows[i][k] * columns[k][j] for all k
                    epilogue: what the group computes from the sums, and its stores

Packing reads the operands through whatever views stand before them (windows of a convolution,
transposes, slices), so none of those is ever written to memory.
"""

from __future__ import annotations

from ..capture.graph import Node
from .contraction import Contraction
from .fuse import Group
from .index import as_index, atom
from .loops import Buffer, For, Kernel, Var
from .lower import bounds, buffers_of, chunks
from .machine import Machine
from .nest import counter
from .tile import Task, decode


def lower_contract(
    group: Group, buffers: dict[Node, Buffer], machine: Machine, name: str
) -> list[Kernel]:
    """The kernels of a group that begins with a contraction, in the orientation that moves less."""
    both = [Contraction(group, buffers, machine, name, operand) for operand in (0, 1)]
    best = min(both, key=moves)
    return [*([packing_kernel(best)] if best.shared else []), tile_kernel(best)]


def moves(of: Contraction) -> float:
    """Roughly what packing and storing cost in one orientation, in vector operations."""
    task = Task(of, *[as_index(0)] * 3)
    roles = of.roles
    columns = task.packing_cost(roles.summed, roles.columns) * of.tasks
    repeats = of.row_batches if of.shared else of.batches * of.column_blocks
    rows = task.packing_cost(roles.summed, roles.rows) * repeats
    stored = of.batches * of.rows * of.columns
    contiguous = of.letters[2][-1] in roles.columns
    return columns + rows + stored * (1 / of.vector if contiguous else 2.0)


def packing_kernel(of: Contraction) -> Kernel:
    """Packs the rows once, for all tasks."""
    total = of.row_batches * of.rows
    tasks, piece = chunks(total, max(1, 4096 // of.block_depth))
    var, task = counter("task", tasks)
    line, i = counter("i", total)
    batch = decode(i // of.rows, of.row_letters, of.roles.size)
    inner = Task(of, *[as_index(0)] * 3).packed_row(batch, i % of.rows, i, of.shared_rows)
    body = (For(line, *bounds(task, piece, total), tuple(inner)),)
    cost = total * of.block_depth * 0.5
    return Kernel(of.name + "_pack", *buffers_of(body), (), var, tasks, body, cost, _sites(of))


def tile_kernel(of: Contraction) -> Kernel:
    """Multiplies, adds up, and does what the rest of the group asks for."""
    var = Var("task")
    number = atom(var, (0, max(0, of.tasks - 1)))
    share, number = number % of.shares, number // of.shares
    block, batch = number % of.column_blocks, number // of.column_blocks
    body = tuple(Task(of, batch, block, share).statements())
    flops = 2.0 * of.batches * of.rows * of.columns * of.depth
    nanoseconds = flops / (10 * of.vector) * 1.3
    return Kernel(of.name, *buffers_of(body), of.scratch, var, of.tasks, body, nanoseconds,
                  _sites(of))


def _sites(of: Contraction) -> tuple[str, ...]:
    return tuple(dict.fromkeys(n.site for n in of.group.members if n.site))
