"""Contractions that are products of matrices as these lie in memory, and so a library's."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, NamedTuple

from ....eager.arrays.dtypes import kind
from ...ir.affine_index import variable
from ...ir.axis_coalescing import linear_form
from ...ir.loop_ir import Buffer, Expr, Load, Matrix, Product

if TYPE_CHECKING:
    from .contraction import GpuContraction

_WORTH = 1 << 27  # operations of a product that a library computes faster, for all that calls take


def is_worth_a_library(of: GpuContraction) -> bool:
    """Whether a contraction is large, and a product of matrices in memory."""
    large = 2 * of.node.type.size * of.depth >= _WORTH
    return large and kind(of.dtype) == "f" and of.node in of.group.members \
        and product_of(of, Buffer("result", of.dtype, of.node.type.size)) is not None


def product_of(of: GpuContraction, result: Buffer) -> Product | None:
    """A contraction as a product of matrices, written to a buffer of its result's elements in
    order; None where an operand does not lie in memory as a matrix."""
    out = of.letters[2]
    places = dict(zip(out, _row_major([of.size[a] for a in out])))
    left = _matrix(of, _lies(of, 1 - of.column_operand), of.rows, of.summed)
    right = _matrix(of, _lies(of, of.column_operand), of.summed, of.columns)
    to = _matrix(of, _Layout(result, places, 0), of.rows, of.columns)
    sizes = [of.count(letters) for letters in (of.batch, of.rows, of.columns, of.summed)]
    return Product(left, right, to, *sizes) if left and right and to and 0 not in sizes else None


class _Layout(NamedTuple):
    """Where an array lies: its buffer, how far letters step in it, and its first element."""

    buffer: Buffer
    steps: dict[str, int]
    first: int


def _row_major(shape: list[int]) -> list[int]:
    strides, step = [], 1
    for n in reversed(shape):
        strides.append(step)
        step *= n
    return strides[::-1]


def _lies(of: GpuContraction, operand: int) -> _Layout | None:
    """Where an operand lies; None where it is computed while it is read."""
    names = of.letters[operand]
    local = {a: variable(f"m{a}", of.size[a]) for a in names}
    e = of.element(operand, local).expr
    source = of.node.inputs[operand].type.dtype
    if not isinstance(e, Load) or e.mask is not None or e.dtype != source:
        return None
    terms, first = linear_form(e.index)
    letter: dict[Expr, str] = {next(iter(i.terms)): a for a, i in local.items() if i.terms}
    if not set(terms) <= set(letter):
        return None
    return _Layout(e.buffer, {a: terms.get(x, 0) for x, a in letter.items()}, first)


def _matrix(of: GpuContraction, lies: _Layout | None, rows: list[str], columns: list[str]
            ) -> Matrix | None:
    """The matrix whose rows and columns several letters count; None where they do not as one, or
    where neither rows nor columns lie side by side."""
    if lies is None:
        return None
    batch, row, column = (_as_one(of, lies.steps, letters) for letters in (of.batch, rows, columns))
    if batch is None or row is None or column is None:
        return None
    made = Matrix(lies.buffer, lies.first, batch, row, column)
    return made if _is_dense(made, of.count(rows), of.count(columns)) else None


def _as_one(of: GpuContraction, steps: dict[str, int], letters: list[str]) -> int | None:
    """How far the letters step that are counted as one, the last fastest."""
    long = [a for a in letters if of.size[a] > 1]
    if any(steps.get(outer, 0) != steps.get(inner, 0) * of.size[inner]
           for outer, inner in itertools.pairwise(long)):
        return None
    return steps.get(long[-1], 0) if long else 0


def _is_dense(m: Matrix, rows: int, columns: int) -> bool:
    """Whether rows or columns lie side by side, and do not overlap."""
    by_rows = (m.column == 1 or columns == 1) and (m.row >= columns or rows == 1)
    by_columns = (m.row == 1 or rows == 1) and (m.column >= rows or columns == 1)
    return by_rows or by_columns
