"""One row per op and way of calling it: all tests of an op are driven from here.

A row says how the op is called, with which inputs, what NumPy says the result is, and how it fails.
`tests/eager/test_ops.py` holds each op to its row: result rule, values, meaning, gradients, errors.
"""

from __future__ import annotations

import rows.create
import rows.pointwise
import rows.reduce
import rows.view
import rows.whole
from rows.row import ROWS, Bad, Row

__all__ = ["ROWS", "Bad", "Row", "rows_of"]


def rows_of(op: str) -> list[Row]:
    """All rows of the op named `op`."""
    return [row for row in ROWS if row.op == op]
