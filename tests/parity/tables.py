"""All entries of the table."""

from __future__ import annotations

from parity import (
    table_activation,
    table_attention,
    table_composed,
    table_composites,
    table_conv,
    table_elementwise,
    table_linalg,
    table_loss,
    table_move,
    table_nn,
    table_norm,
    table_pool,
    table_reduce,
    table_search,
    table_special,
)
from parity.entry import Entry

FAMILIES = (
    table_elementwise.TABLE, table_composites.TABLE, table_reduce.TABLE, table_move.TABLE,
    table_search.TABLE,
    table_linalg.TABLE, table_linalg.FFT, table_special.TABLE,
    table_composed.TABLE, table_nn.TABLE,
    table_norm.TABLE, table_pool.TABLE, table_conv.TABLE, table_conv.IMAGES,
    table_activation.TABLE, table_attention.TABLE, table_loss.TABLE, table_search.CREATE)
ENTRIES: list[Entry] = [entry for family in FAMILIES for entry in family]
