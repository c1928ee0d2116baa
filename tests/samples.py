"""Collects the rows of all ops, one per op and form of its call. They drive all tests of an op.

A row holds a call of the op, its inputs, NumPy's result, and calls that fail.
`tests/eager/test_ops.py` compares each op with its rows: result rule, values, meaning, gradients,
errors.
"""

from __future__ import annotations

from rows import (
    attention,
    codes,
    collective,
    complex,
    conv,
    create,
    cumulative,
    derived,
    einsum,
    entropy,
    fft,
    functions,
    gates,
    indexing,
    linalg,
    measured,
    norm,
    pointwise,
    pool,
    products,
    quantized,
    random,
    reduce,
    regions,
    scatter,
    sort,
    special,
    statistics,
    view,
    whole,
)
from rows.row import ROWS, Bad, Row

FAMILIES = (  # importing them enters their rows
    attention, codes, collective, complex, conv, create, cumulative, derived, einsum, entropy, fft,
    functions,
    gates, indexing, linalg, measured, norm, pointwise, pool, products, quantized, random, reduce,
    regions, scatter, sort, special, statistics, view, whole,
)

__all__ = ["FAMILIES", "ROWS", "Bad", "Row", "rows_of"]


def rows_of(op: str) -> list[Row]:
    """All rows of the op named `op`."""
    return [row for row in ROWS if row.op == op]
