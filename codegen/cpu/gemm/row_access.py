"""Indexes the rows of a contraction by one number, and decides whether tiles read them unpacked.

Packing a row reads and writes all of it. Where its elements are contiguous, and the rows of a tile
do not all map to the same few cache sets, a tile reads them as fast from the operand.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from ...ir import loop_ir
from ...ir.affine_index import Index, as_index, atom, collect_comparisons, variable
from ...ir.axis_coalescing import linear_forms, merge_axes
from ...ir.loop_ir import TILE_SIDE, Var
from ...ir.sizes import is_dynamic
from .pack_loops import loads_of, single_read, stride_along
from .task import TaskPart

_LINE_BYTES, _SETS = 64, 64  # innermost cache: bytes per line, number of sets
_WAYS = 8  # lines per set


def coalesced_label(part: TaskPart, labels: list[str]) -> str | None:
    """The label that can count through all of these, or None if they are not stepped through as
    one."""
    roles = part.roles
    long_labels = [a for a in labels if roles.size[a] != 1] or labels[-1:]
    local = {a: variable(a, roles.size[a]) for a in (*roles.rows, *roles.summed)}
    with collect_comparisons() as compared:
        value = part.operand(roles.row_operand, part.batch_index | local)
    forms = linear_forms([value.expr]) + [dict(x.terms) for x in compared]
    sizes = tuple(roles.size[a] for a in long_labels)
    if len(merge_axes(sizes, tuple(local[a] for a in long_labels), forms)) == 1:
        return long_labels[-1]
    return None


def row_and_depth_labels(part: TaskPart) -> tuple[str, str] | None:
    """The labels that count through all rows, and through all summed elements of one, or None."""
    row, k = (coalesced_label(part, labels) for labels in (part.roles.rows, part.roles.summed))
    return None if row is None or k is None else (row, k)


def element_index(
    part: TaskPart, labels: tuple[str, str], row: Index, k: Index
) -> dict[str, Index]:
    """The indices of the labels at one row and one summed element, each counted by one of `labels`.
    """
    zeros = dict.fromkeys((*part.roles.rows, *part.roles.summed), as_index(0))
    return part.batch_index | zeros | dict(zip(labels, (row, k)))


def row_layout(part: TaskPart) -> tuple[bool, bool]:
    """(contiguous, unpacked): whether summed elements of a row are contiguous, and whether tiles
    read them unpacked."""
    value, (pitch, step) = _element_and_strides(part)
    return step == 1, step == 1 and value is not None and _is_readable_unpacked(part, value, pitch)


def unpacked_rows(part: TaskPart, row: Index, k: Index) -> tuple[loop_ir.Load, int]:
    """The load of the first element of a row, from the `k`-th step of the first summed label on,
    and the distance of rows in elements of its buffer."""
    labels = row_and_depth_labels(part)
    assert labels is not None  # rows without such labels are packed
    depth = k * part.roles.count(part.roles.summed[1:])
    value = part.operand(part.roles.row_operand, element_index(part, labels, row, depth)).expr
    read = single_read(value)
    assert read is not None
    pitch, _ = _element_and_strides(part)[1]
    return read[0], pitch * read[1]


def _is_readable_unpacked(part: TaskPart, value: Any, pitch: int) -> bool:
    of = part.of
    masked = any(e.mask is not None for e in loads_of(value))
    if of.pads_depth or (of.matrix_unit and of.dynamic_rows):  # whole tiles are read
        return False
    if masked or value.dtype != of.packed_dtype or is_dynamic(of.depth) \
            or of.persistent[part.roles.row_operand]:
        return False
    if is_dynamic(pitch) or (of.matrix_unit and pitch % TILE_SIDE):  # across two cache lines
        return False
    return _max_rows_per_set(pitch * of.packed_dtype.itemsize, of.tile) <= _WAYS


def _element_and_strides(part: TaskPart) -> tuple[loop_ir.Expr | None, tuple[int, int]]:
    """The element at a row and a summed position, and its strides along both, in elements."""
    row, k, labels = Var("row"), Var("k"), row_and_depth_labels(part)
    if labels is None:
        return None, (0, 0)
    indices = element_index(part, labels, atom(row, (0, part.of.rows - 1)),
                            atom(k, (0, part.of.depth - 1)))
    value = part.operand(part.roles.row_operand, indices).expr
    read = single_read(value)
    if read is None:
        return value, (0, 0)
    first, width = read
    return value, (stride_along(first.index, row) // width, stride_along(first.index, k) // width)


def _max_rows_per_set(pitch: int, rows: int) -> int:
    """The largest number of rows that begin in the same set of the cache."""
    return max(Counter(i * pitch // _LINE_BYTES % _SETS for i in range(rows)).values())
