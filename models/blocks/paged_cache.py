"""Keys and values of many texts in one pool of rows, which texts share by tables of rows.

In place of a `KeyValueCache`, whose texts have a block of slots each. Who calls a decoder says for
each call which rows its tokens are written to, and which rows each text sees: row i of a table
holds the token at position i. So the rows of a text need not be neighbors, and texts with an equal
beginning read the same rows.

All indices are inputs of a compiled call: the caller allots them.
"""

from __future__ import annotations

from dataclasses import dataclass

import fusewire as fw

from .kv_cache import KeyValueCache


@dataclass(frozen=True)
class Table:
    """The rows of a call of n texts with `length` tokens each.

    Args:
        positions: (n, length), int: of the tokens of the call. Padding has any position.
        written: (n * length,), int: the row of each token of the call. Padding has the last row of
            the pool.
        seen: (n, columns), int: the row of each position, those of the call among them. Columns
            behind the position of a token are any rows; the last one costs no memory traffic.
    """

    positions: fw.Tensor
    written: fw.Tensor
    seen: fw.Tensor


class PagedCache:
    """Keys and values of all layers, each (rows + 1, heads, head_dim). The last row takes padding.

    Args:
        example: a cache of the model, of any size.
        rows: tokens for which there is room, of all texts together.
    """

    def __init__(self, example: KeyValueCache, rows: int) -> None:
        self.keys = [_pool(key, rows) for key in example.keys]
        self.values = [_pool(value, rows) for value in example.values]
        self.rows, self.window = rows, example.window

    def at(self, table: Table) -> PagedTexts:
        """The texts of a call, as a cache for the decoder."""
        return PagedTexts(self, table)


def _pool(example: fw.Tensor, rows: int) -> fw.Tensor:
    _, heads, _, head_dim = example.shape
    return fw.zeros((rows + 1, heads, head_dim), dtype=example.dtype, device=example.device)


class PagedTexts:
    """The cache of one call of a decoder: see `PagedCache.at`."""

    def __init__(self, cache: PagedCache, table: Table) -> None:
        self.cache, self.table, self.window = cache, table, cache.window
        n, columns = table.seen.shape
        self.positions = fw.broadcast_to(fw.arange(columns, device=table.seen.device)[None],
                                         (n, columns))

    def token_positions(self, present: fw.Tensor) -> fw.Tensor:
        """The position of each token of the call: (n, length)."""
        return self.table.positions

    def begin(self, positions: fw.Tensor) -> None:
        """Begins a call. Its rows are in the table, so nothing is reserved."""

    def update(self, layer: int, key: fw.Tensor, value: fw.Tensor) -> tuple[fw.Tensor, fw.Tensor]:
        """All keys and values of a layer, each (n, heads, columns, head_dim), with new ones.

        Args:
            layer: number of the layer.
            key, value: of the tokens of this call, (n, heads, length, head_dim).
        """
        return (self._updated(self.cache.keys[layer], key),
                self._updated(self.cache.values[layer], value))

    def _updated(self, pool: fw.Tensor, new: fw.Tensor) -> fw.Tensor:
        pool[self.table.written] = new.permute_dims((0, 2, 1, 3)).reshape(-1, *pool.shape[1:])
        return pool[self.table.seen].permute_dims((0, 2, 1, 3))
