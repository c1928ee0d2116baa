"""Rows of a contraction by one index for all of them, and whether a tile reads them where they lie.

Packing a row is to read and write all of it. Where its elements lie side by side, and the rows of a
tile not all in the same few sets of a cache, the tile reads them as fast from where they are.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from ...ir import loop_ir
from ...ir.affine_index import Index, as_index, atom, comparisons, variable
from ...ir.axis_coalescing import merge_axes, whole_numbers
from ...ir.loop_ir import Var
from .pack_loops import factor, loads_of, single_read
from .task import TaskPart

_LINE, _SETS = 64, 64  # of the innermost cache: bytes of a line; lines before a set comes again
_WAYS = 8  # lines that a set holds


def one_letter(part: TaskPart, letters: list[str]) -> str | None:
    """The letter that can count through all of these, where the operand steps through them so."""
    roles = part.roles
    long = [a for a in letters if roles.size[a] > 1] or letters[-1:]
    local = {a: variable(a, roles.size[a]) for a in (*roles.rows, *roles.summed)}
    with comparisons() as compared:
        value = part.operand(roles.row_operand, part.fixed | local)
    forms = whole_numbers([value.expr]) + [dict(x.terms) for x in compared]
    sizes = tuple(roles.size[a] for a in long)
    if len(merge_axes(sizes, tuple(local[a] for a in long), forms)) == 1:
        return long[-1]
    return None


def counters(part: TaskPart) -> tuple[str, str] | None:
    """The letters that count through all rows, and through all summed elements of one."""
    row, k = (one_letter(part, letters) for letters in (part.roles.rows, part.roles.summed))
    return None if row is None or k is None else (row, k)


def places(part: TaskPart, letters: tuple[str, str], row: Index, k: Index) -> dict[str, Index]:
    """The letters at one row and one summed element, each counted through by one of `letters`."""
    zeros = dict.fromkeys((*part.roles.rows, *part.roles.summed), as_index(0))
    return part.fixed | zeros | dict(zip(letters, (row, k)))


def how_rows_lie(part: TaskPart) -> tuple[bool, bool]:
    """Whether the summed elements of a row lie side by side, in memory or in what a mask leaves of
    it; and whether a tile reads such rows where they lie."""
    value, (pitch, step) = _element(part)
    return step == 1, step == 1 and value is not None and _lie_well(part, value, pitch)


def _lie_well(part: TaskPart, value: Any, pitch: int) -> bool:
    of, machine = part.of, part.of.machine
    masked = any(e.mask is not None for e in loads_of(value))
    if masked or value.dtype != of.packed or machine.varies(of.depth) \
            or of.kept[part.roles.row_operand]:
        return False
    return not machine.varies(pitch) and _in_one_set(pitch * of.packed.itemsize, of.tile) <= _WAYS


def _element(part: TaskPart) -> tuple[loop_ir.Expr | None, tuple[int, int]]:
    """The element at a row and a summed place, and how far what is read moves with each of both,
    counted in such elements."""
    row, k, letters = Var("row"), Var("k"), counters(part)
    if letters is None:
        return None, (0, 0)
    where = places(part, letters, atom(row, (0, part.of.rows - 1)),
                   atom(k, (0, part.of.depth - 1)))
    value = part.operand(part.roles.row_operand, where).expr
    read = single_read(value)
    if read is None:
        return value, (0, 0)
    first, width = read
    return value, (factor(first.index, row) // width, factor(first.index, k) // width)


def _in_one_set(pitch: int, rows: int) -> int:
    """How many of the rows begin in the same set of the cache, at most."""
    return max(Counter(i * pitch // _LINE % _SETS for i in range(rows)).values())
