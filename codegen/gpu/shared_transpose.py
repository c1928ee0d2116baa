"""Transposes strided loads of pointwise kernels through shared memory, tile by tile.

A warp that reads one column of a matrix moves 32 bytes for every element of 4. So a thread
block takes a tile of 32 by 32 elements: its threads first read strided arrays in the order of
their memory, then they compute in the order of the result.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from ..cpu.loop_body import decode
from ..cpu.loop_nest import LoopNest, kernel
from ..ir import loop_ir
from ..ir.affine_index import Index, counter, variable
from ..ir.axis_coalescing import linear_form
from ..ir.loop_ir import BOOL, Call, Const, Expr, For, If, Kernel, KernelBuffer, Load, Stmt, const
from ..ir.sizes import ceil_div, upper_bound
from ..ir.subexpressions import evaluation_order

TILE_SIDE = 32  # elements
BLOCK_THREADS = 256
TILE_PITCH = TILE_SIDE + 1  # keeps rows and columns of a tile in different banks
MIN_AXIS_LENGTH = 16  # that is worth a tile

CoalescedAxes = tuple[list[int], int]  # axes that are one loop, and their common size


class SharedTranspose(NamedTuple):
    """The statements of a kernel over the variables of its axes, the loads to transpose, and the
    axis along which these are contiguous."""

    body: list[Stmt]
    variables: list[Index]
    loads: list[Load]
    axis: int


def transposed_loads(nest: LoopNest, runs: list[CoalescedAxes]) -> SharedTranspose | None:
    """The loads of a pointwise kernel that are worth a transpose; None if there are none."""
    if len(runs) < 2 or upper_bound(runs[-1][1]) < MIN_AXIS_LENGTH:
        return None
    variables = [variable(f"run{n}", size) for n, (_, size) in enumerate(runs)]
    coordinates = [(r, i) for (r, _), i in zip(runs, variables)]
    body = nest.body.element_statements(0, nest.axes.where(coordinates))
    loads = [e for e in loop_ir.subexpressions(e for s in body for e in loop_ir.expressions(s))
             if isinstance(e, Load)]
    axis_of_load = {e: n for e in loads if (n := _contiguous_axis(e, runs, variables)) is not None}
    if not axis_of_load:
        return None
    axis, _ = Counter(axis_of_load.values()).most_common(1)[0]
    return SharedTranspose(body, variables, [e for e, n in axis_of_load.items() if n == axis], axis)


def _contiguous_axis(e: Load, runs: list[CoalescedAxes], variables: list[Index]) -> int | None:
    """The number of the axis along which a load is contiguous; None if it is the last one or there
    is none."""
    terms, _ = linear_form(e.index)
    names = [next(iter(i.terms), None) for i in variables]
    if e.mask is not None or any(x not in names for x in terms):
        return None
    strides = [terms.get(x, 0) if x is not None else 0 for x in names]
    if strides[-1] in (-1, 0, 1):
        return None
    return next((n for n, stride in enumerate(strides[:-1])
                 if stride == 1 and upper_bound(runs[n][1]) >= MIN_AXIS_LENGTH), None)


def transpose_kernel(nest: LoopNest, runs: list[CoalescedAxes],
                     transpose: SharedTranspose) -> Kernel:
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


def _load_tiles(transpose: SharedTranspose, runs: list[CoalescedAxes], origin: Mapping[int, Index],
                outer: Mapping[int, Index], tiles: Mapping[Load, KernelBuffer]) -> For:
    """Loads the tiles: neighbouring threads read contiguous elements."""
    lane, e = counter("e", TILE_SIDE * TILE_SIDE)
    near, far = e % TILE_SIDE, e // TILE_SIDE
    coordinates = {transpose.axis: origin[transpose.axis] + near,
                   len(runs) - 1: origin[len(runs) - 1] + far}
    substitution = _substitution(transpose, {**outer, **coordinates})
    body: list[Stmt] = [loop_ir.Store(tile, (far * TILE_PITCH + near).expr(),
                                      substitute(load, substitution))
                        for load, tile in tiles.items()]
    return _lanes(_if_inside(runs, coordinates, body), lane)


def _compute(transpose: SharedTranspose, runs: list[CoalescedAxes], origin: Mapping[int, Index],
             outer: Mapping[int, Index], tiles: Mapping[Load, KernelBuffer]) -> For:
    """Runs the statements, with loads from the tiles in place of the transposed loads."""
    lane, e = counter("e", TILE_SIDE * TILE_SIDE)
    near, far = e % TILE_SIDE, e // TILE_SIDE
    coordinates = {len(runs) - 1: origin[len(runs) - 1] + near,
                   transpose.axis: origin[transpose.axis] + far}
    substitution = _substitution(transpose, {**outer, **coordinates})
    substitution |= {load: loop_ir.load(tile, (near * TILE_PITCH + far).expr())
                     for load, tile in tiles.items()}
    body = [_substitute_in(s, substitution) for s in transpose.body]
    return _lanes(_if_inside(runs, coordinates, body), lane)


def _substitution(transpose: SharedTranspose, coordinates: Mapping[int, Index]) -> dict[Expr, Expr]:
    """Maps the variables of the axes to coordinates."""
    return {next(iter(i.terms)): coordinates[n].expr() for n, i in enumerate(transpose.variables)
            if i.terms}


def _if_inside(runs: list[CoalescedAxes], coordinates: Mapping[int, Index],
               body: list[Stmt]) -> list[Stmt]:
    """Statements guarded by the bounds of the axes that tiles do not divide."""
    inside: Any = None
    for n, i in coordinates.items():
        if runs[n][1] % TILE_SIDE:
            below = loop_ir.call("lt", (i.expr(), const(runs[n][1])), BOOL)
            inside = below if inside is None else loop_ir.call("and", (inside, below), BOOL)
    return body if inside is None else [If(inside, tuple(body))]


def _substitute_in(s: Stmt, substitution: Mapping[Expr, Expr]) -> Stmt:
    if isinstance(s, loop_ir.Store):
        return loop_ir.Store(s.buffer, substitute(s.index, substitution),
                             substitute(s.value, substitution))
    assert isinstance(s, loop_ir.Assign), s  # pointwise kernels have no other statements
    return loop_ir.Assign(s.register, substitute(s.value, substitution))


def substitute(root: Expr, substitution: Mapping[Expr, Expr]) -> Expr:
    """An expression in which some subexpressions are replaced by others."""
    new = dict(substitution)
    for e in evaluation_order(root, new.__contains__):
        new[e] = _rebuild(e, new)
    return root if isinstance(root, Const) else new[root]


def _rebuild(e: Expr, new: Mapping[Expr, Expr]) -> Expr:
    def rebuilt(x: Expr) -> Expr:
        return x if isinstance(x, Const) else new[x]

    if isinstance(e, Call):
        return loop_ir.call(e.op, tuple(map(rebuilt, e.args)), e.dtype)
    if isinstance(e, Load):
        mask = None if e.mask is None else rebuilt(e.mask)
        return loop_ir.load(e.buffer, rebuilt(e.index), mask, None
                            if e.other is None else rebuilt(e.other))
    return e
