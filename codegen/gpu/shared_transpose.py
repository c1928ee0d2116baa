"""Pointwise kernels that read arrays across their rows: such arrays are read along them, tile by
tile, and turned in shared memory.

A warp that reads one column of a matrix moves 32 bytes for every element of 4. So a team has a
tile of 32 by 32 elements: first its threads read those arrays in the order in which they lie, then
they compute in the order of the result.
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
from ..ir.loop_ir import BOOL, Buffer, Call, Const, Expr, For, If, Kernel, Load, Stmt, const
from ..ir.subexpressions import evaluation_order

_SIDE = 32  # of a tile
_THREADS = 256
_PITCH = _SIDE + 1  # so that neither rows nor columns of a tile lie in one bank
_SHORTEST = 16  # axes that are worth a tile

Run = tuple[list[int], int]  # axes that are one loop, and its size


class SharedTranspose(NamedTuple):
    """A kernel's statements over variables of its runs; the loads in them that are to be turned,
    and the number of the run along which these lie."""

    body: list[Stmt]
    variables: list[Index]
    loads: list[Load]
    along: int


def transposed_loads(nest: LoopNest, runs: list[Run]) -> SharedTranspose | None:
    """What there is to be turned, None where nothing is worth it."""
    if len(runs) < 2 or runs[-1][1] < _SHORTEST:
        return None
    variables = [variable(f"run{n}", size) for n, (_, size) in enumerate(runs)]
    places = [(r, i) for (r, _), i in zip(runs, variables)]
    body = nest.body.element_statements(0, nest.axes.where(places))
    found = [e for e in loop_ir.subexpressions(e for s in body for e in loop_ir.expressions(s))
             if isinstance(e, Load)]
    along = {e: n for e in found if (n := _run_of(e, runs, variables)) is not None}
    if not along:
        return None
    best, _ = Counter(along.values()).most_common(1)[0]
    return SharedTranspose(body, variables, [e for e, n in along.items() if n == best], best)


def _run_of(e: Load, runs: list[Run], variables: list[Index]) -> int | None:
    """The run whose elements a load reads side by side, where that is not the last one."""
    terms, _ = linear_form(e.index)
    names = [next(iter(i.terms), None) for i in variables]
    if e.mask is not None or any(x not in names for x in terms):
        return None
    steps = [terms.get(x, 0) if x is not None else 0 for x in names]
    if abs(steps[-1]) <= 1:
        return None
    return next((n for n, step in enumerate(steps[:-1])
                 if step == 1 and runs[n][1] >= _SHORTEST), None)


def transpose_kernel(nest: LoopNest, runs: list[Run], what: SharedTranspose) -> Kernel:
    """The kernel: a task for each tile, and each place along the other runs."""
    last, along = len(runs) - 1, what.along
    blocks = {n: -(-runs[n][1] // _SIDE) for n in (last, along)}
    others = [n for n in range(last) if n != along]
    tasks = nest.outer_size // (runs[last][1] * runs[along][1]) * blocks[last] * blocks[along]
    var, task = counter("task", tasks)
    first = {last: task % blocks[last] * _SIDE}
    rest = task // blocks[last]
    first[along] = rest % blocks[along] * _SIDE
    fixed = dict(zip(others, (i for _, i in decode(rest // blocks[along],
                                                   [runs[n] for n in others]))))
    tiles = {e: Buffer(f"tile{n}", e.dtype, _SIDE * _PITCH, scratch=True)
             for n, e in enumerate(what.loads)}
    body = [_read(what, runs, first, fixed, tiles), _computed(what, runs, first, fixed, tiles)]
    made = kernel(nest, var, tasks, body)
    return replace(made, scratch=tuple(tiles.values()))


def _lanes(body: list[Stmt], lane: loop_ir.Var) -> For:
    return For(lane, const(0), const(_SIDE * _SIDE), tuple(body), _THREADS)


def _read(what: SharedTranspose, runs: list[Run], first: Mapping[int, Index],
          fixed: Mapping[int, Index],
          tiles: Mapping[Load, Buffer]) -> For:
    """Reads the tiles: neighbouring threads along the run in which the elements lie."""
    lane, e = counter("e", _SIDE * _SIDE)
    near, far = e % _SIDE, e // _SIDE
    places = {what.along: first[what.along] + near, len(runs) - 1: first[len(runs) - 1] + far}
    by = _bound(what, {**fixed, **places})
    body: list[Stmt] = [loop_ir.Store(tile, (far * _PITCH + near).expr(), replaced(load, by))
                        for load, tile in tiles.items()]
    return _lanes(_where_there(runs, places, body), lane)


def _computed(what: SharedTranspose, runs: list[Run], first: Mapping[int, Index],
              fixed: Mapping[int, Index], tiles: Mapping[Load, Buffer]) -> For:
    """The statements, with the tiles in the place of what was read for them."""
    lane, e = counter("e", _SIDE * _SIDE)
    near, far = e % _SIDE, e // _SIDE
    places = {len(runs) - 1: first[len(runs) - 1] + near, what.along: first[what.along] + far}
    by = _bound(what, {**fixed, **places})
    by |= {load: loop_ir.load(tile, (near * _PITCH + far).expr()) for load, tile in tiles.items()}
    body = [_in_statement(s, by) for s in what.body]
    return _lanes(_where_there(runs, places, body), lane)


def _bound(what: SharedTranspose, places: Mapping[int, Index]) -> dict[Expr, Expr]:
    return {next(iter(i.terms)): places[n].expr() for n, i in enumerate(what.variables) if i.terms}


def _where_there(runs: list[Run], places: Mapping[int, Index], body: list[Stmt]) -> list[Stmt]:
    """Statements for those elements of a tile that there are."""
    inside: Any = None
    for n, i in places.items():
        if runs[n][1] % _SIDE:
            there = loop_ir.call("lt", (i.expr(), const(runs[n][1])), BOOL)
            inside = there if inside is None else loop_ir.call("and", (inside, there), BOOL)
    return body if inside is None else [If(inside, tuple(body))]


def _in_statement(s: Stmt, by: Mapping[Expr, Expr]) -> Stmt:
    if isinstance(s, loop_ir.Store):
        return loop_ir.Store(s.buffer, replaced(s.index, by), replaced(s.value, by))
    assert isinstance(s, loop_ir.Assign), s  # what is not reduced has no other statements
    return loop_ir.Assign(s.register, replaced(s.value, by))


def replaced(root: Expr, by: Mapping[Expr, Expr]) -> Expr:
    """An expression with others in the place of some of its parts."""
    new = dict(by)
    for e in evaluation_order(root, new.__contains__):
        new[e] = _again(e, new)
    return root if isinstance(root, Const) else new[root]


def _again(e: Expr, new: Mapping[Expr, Expr]) -> Expr:
    def of(x: Expr) -> Expr:
        return x if isinstance(x, Const) else new[x]

    if isinstance(e, Call):
        return loop_ir.call(e.op, tuple(map(of, e.args)), e.dtype)
    if isinstance(e, Load):
        mask = None if e.mask is None else of(e.mask)
        return loop_ir.load(e.buffer, of(e.index), mask, None if e.other is None else of(e.other))
    return e
