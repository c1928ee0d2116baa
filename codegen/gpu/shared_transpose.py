"""Transposes strided loads of pointwise kernels through shared memory, tile by tile.

A warp that reads one column of a matrix moves 32 bytes for every element of 4. So a thread
block takes a tile of 32 by 32 elements: its threads first read strided arrays in the order of
their memory, then they compute in the order of the result.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ..cpu.loop_body import decode
from ..cpu.loop_nest import LoopNest, kernel
from ..cpu.transposed_reads import (
    CoalescedAxes,
    TransposedReads,
    substitute,
    substitute_in,
    transposed_reads,
)
from ..ir import loop_ir
from ..ir.affine_index import Index, counter
from ..ir.loop_ir import BOOL, For, If, Kernel, KernelBuffer, Load, Stmt, const
from ..ir.sizes import ceil_div

TILE_SIDE = 32  # elements
BLOCK_THREADS = 256
TILE_PITCH = TILE_SIDE + 1  # keeps rows and columns of a tile in different banks
MIN_AXIS_LENGTH = 16  # that is worth a tile

def transposed_loads(nest: LoopNest, runs: list[CoalescedAxes]) -> TransposedReads | None:
    """The loads of a pointwise kernel that are worth a transpose; None if there are none."""
    return transposed_reads(nest, runs, MIN_AXIS_LENGTH, MIN_AXIS_LENGTH)


def transpose_kernel(nest: LoopNest, runs: list[CoalescedAxes],
                     transpose: TransposedReads) -> Kernel:
    """The kernel: a task for each tile, and each position along the other axes."""
    last, axis = len(runs) - 1, transpose.axis
    blocks = {n: ceil_div(runs[n][1], TILE_SIDE) for n in (last, axis)}
    others = [n for n in range(last) if n != axis]
    tasks = nest.outer_size // (runs[last][1] * runs[axis][1]) * blocks[last] * blocks[axis]
    var, task = counter("task", tasks)
    origin = {last: task % blocks[last] * TILE_SIDE}
    rest = task // blocks[last]
    origin[axis] = rest % blocks[axis] * TILE_SIDE
    outer = dict(zip(others, (i for _, i in decode(rest // blocks[axis],
                                                   [runs[n] for n in others]))))
    tiles = {e: KernelBuffer(f"tile{n}", e.dtype, TILE_SIDE * TILE_PITCH, scratch=True)
             for n, e in enumerate(transpose.loads)}
    body = [_load_tiles(transpose, runs, origin, outer, tiles),
            _compute(transpose, runs, origin, outer, tiles)]
    tile_kernel = kernel(nest, var, tasks, body)
    return replace(tile_kernel, scratch=tuple(tiles.values()))


def _lanes(body: list[Stmt], lane: loop_ir.Var) -> For:
    return For(lane, const(0), const(TILE_SIDE * TILE_SIDE), tuple(body), BLOCK_THREADS)


def _load_tiles(transpose: TransposedReads, runs: list[CoalescedAxes], origin: Mapping[int, Index],
                outer: Mapping[int, Index], tiles: Mapping[Load, KernelBuffer]) -> For:
    """Loads the tiles: neighbouring threads read contiguous elements."""
    lane, e = counter("e", TILE_SIDE * TILE_SIDE)
    near, far = e % TILE_SIDE, e // TILE_SIDE
    coordinates = {transpose.axis: origin[transpose.axis] + near,
                   len(runs) - 1: origin[len(runs) - 1] + far}
    substitution = transpose.substitution({**outer, **coordinates})
    body: list[Stmt] = [loop_ir.Store(tile, (far * TILE_PITCH + near).expr(),
                                      substitute(load, substitution))
                        for load, tile in tiles.items()]
    return _lanes(_if_inside(runs, coordinates, body), lane)


def _compute(transpose: TransposedReads, runs: list[CoalescedAxes], origin: Mapping[int, Index],
             outer: Mapping[int, Index], tiles: Mapping[Load, KernelBuffer]) -> For:
    """Runs the statements, with loads from the tiles in place of the transposed loads."""
    lane, e = counter("e", TILE_SIDE * TILE_SIDE)
    near, far = e % TILE_SIDE, e // TILE_SIDE
    coordinates = {len(runs) - 1: origin[len(runs) - 1] + near,
                   transpose.axis: origin[transpose.axis] + far}
    substitution = transpose.substitution({**outer, **coordinates})
    substitution |= {load: loop_ir.load(tile, (near * TILE_PITCH + far).expr())
                     for load, tile in tiles.items()}
    body = [substitute_in(s, substitution) for s in transpose.body]
    return _lanes(_if_inside(runs, coordinates, body), lane)


def _if_inside(runs: list[CoalescedAxes], coordinates: Mapping[int, Index],
               body: list[Stmt]) -> list[Stmt]:
    """Statements guarded by the bounds of the axes that tiles do not divide."""
    inside: Any = None
    for n, i in coordinates.items():
        if runs[n][1] % TILE_SIDE:
            below = loop_ir.call("lt", (i.expr(), const(runs[n][1])), BOOL)
            inside = below if inside is None else loop_ir.call("and", (inside, below), BOOL)
    return body if inside is None else [If(inside, tuple(body))]
