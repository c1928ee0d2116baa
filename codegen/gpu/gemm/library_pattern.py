"""Recognizes contractions that are products of matrices in memory, which a library can compute."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, NamedTuple

from ....eager.arrays.dtypes import kind
from ...ir.affine_index import variable
from ...ir.axis_coalescing import linear_form
from ...ir.loop_ir import Expr, KernelBuffer, Load, Matrix, Product
from ...ir.sizes import is_at_least, upper_bound

if TYPE_CHECKING:
    from .contraction import GpuContraction

MIN_LIBRARY_OPERATIONS = 1 << 27  # a smaller product is slower, by the overhead of the call


def is_worth_library(contraction: GpuContraction) -> bool:
    """True if a contraction is large, and a product of matrices in memory."""
    node = contraction.node
    if upper_bound(2 * node.type.size * contraction.depth) < MIN_LIBRARY_OPERATIONS:
        return False
    if kind(contraction.dtype) != "f" or node not in contraction.group.members:
        return False
    result = KernelBuffer("result", contraction.dtype, node.type.size)
    return library_product_of(contraction, result) is not None


def library_product_of(contraction: GpuContraction, result: KernelBuffer) -> Product | None:
    """A contraction as a product of matrices, written to a buffer in the order of its result; None
    if an operand is not a matrix in memory."""
    out = contraction.labels[2]
    strides = dict(zip(out, _row_major([contraction.size[a] for a in out])))
    rows, columns, summed = contraction.rows, contraction.columns, contraction.summed
    left = _matrix(contraction, _layout_of(contraction, 1 - contraction.column_operand), rows,
                   summed)
    right = _matrix(contraction, _layout_of(contraction, contraction.column_operand),
                    summed, columns)
    target = _matrix(contraction, _Layout(result, strides, 0), rows, columns)
    sizes = [contraction.count(labels) for labels in (contraction.batch, rows, columns, summed)]
    if left is None or right is None or target is None or 0 in sizes:
        return None
    return Product(left, right, target, *sizes)


class _Layout(NamedTuple):
    """The layout of an array: its buffer, the stride of each label, and the index of its first
    element."""

    buffer: KernelBuffer
    strides: dict[str, int]
    first: int


def _row_major(shape: list[int]) -> list[int]:
    strides, step = [], 1
    for n in reversed(shape):
        strides.append(step)
        step *= n
    return strides[::-1]


def _layout_of(contraction: GpuContraction, operand: int) -> _Layout | None:
    """The layout of an operand; None if it is computed while it is read."""
    names = contraction.labels[operand]
    variables = {a: variable(f"m{a}", contraction.size[a]) for a in names}
    e = contraction.element(operand, variables).expr
    source_dtype = contraction.node.inputs[operand].type.dtype
    if not isinstance(e, Load) or e.mask is not None or e.dtype != source_dtype:
        return None
    terms, first = linear_form(e.index)
    letter_of: dict[Expr, str] = {next(iter(i.terms)): a for a, i in variables.items() if i.terms}
    if not set(terms) <= set(letter_of):
        return None
    return _Layout(e.buffer, {a: terms.get(x, 0) for x, a in letter_of.items()}, first)


def _matrix(contraction: GpuContraction, layout: _Layout | None, rows: list[str], columns: list[str]
            ) -> Matrix | None:
    """The matrix over these row and column labels; None if the labels have no common stride, or
    neither rows nor columns are contiguous."""
    if layout is None:
        return None
    batch, row, column = (_common_stride(contraction, layout.strides, labels)
                          for labels in (contraction.batch, rows, columns))
    if batch is None or row is None or column is None:
        return None
    matrix = Matrix(layout.buffer, layout.first, batch, row, column)
    return matrix if _is_dense(matrix, contraction.count(rows),
                               contraction.count(columns)) else None


def _common_stride(contraction: GpuContraction, strides: dict[str, int],
                   labels: list[str]) -> int | None:
    """The stride of labels that are counted as one, the last fastest; None if there is none."""
    long = [a for a in labels if contraction.size[a] != 1]
    if any(strides.get(outer, 0) != strides.get(inner, 0) * contraction.size[inner]
           for outer, inner in itertools.pairwise(long)):
        return None
    return strides.get(long[-1], 0) if long else 0


def _is_dense(m: Matrix, rows: int, columns: int) -> bool:
    """True if rows or columns are contiguous and do not overlap."""
    by_rows = (m.column == 1 or columns == 1) and (rows == 1 or is_at_least(m.row, columns))
    by_columns = (m.row == 1 or rows == 1) and (columns == 1 or is_at_least(m.column, rows))
    return by_rows or by_columns
