"""One row per op and way of calling it: all tests of an op are driven from here.

A row says how the op is called, with which inputs, what NumPy says the result is, and how it fails.
`tests/eager/test_ops.py` holds each op to its row: result rule, values, meaning, gradients, errors.
"""

from __future__ import annotations

from rows import (
    attention,
    complex,
    conv,
    create,
    cumulative,
    einsum,
    entropy,
    fft,
    gates,
    indexing,
    linalg,
    measured,
    norm,
    pointwise,
    pool,
    quantized,
    random,
    reduce,
    scatter,
    sort,
    special,
    statistics,
    view,
    whole,
)
from rows.row import ROWS, Bad, Row

FAMILIES = (  # importing them enters their rows
    attention, complex, conv, create, cumulative, einsum, entropy, fft, gates, indexing, linalg,
    measured, norm, pointwise, pool, quantized, random, reduce, scatter, sort, special, statistics,
    view, whole,
)

__all__ = ["FAMILIES", "ROWS", "Bad", "Row", "rows_of"]


def rows_of(op: str) -> list[Row]:
    """All rows of the op named `op`."""
    return [row for row in ROWS if row.op == op]
