"""The keys and values of earlier tokens, so that a decoder computes each token once.

Rows of one array hold the keys of all texts, and a table names the row of each position. Attention
reads as many rows as a text has tokens, so a compiled step serves all lengths, and texts of unequal
lengths need no padding. By its table, a cache is

    contiguous   a text has rows of its own, one behind the other
    a window     position p takes the row of position p - columns, which no query sees any more
    shared       beams have the rows of the text that they continue
    paged        the caller allots rows: see `KeyValueCache.at`
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import fusewire as fw
import fusewire.nn.functional as F
from fusewire.eager.ops.layers.cached_attention import cached_attention

_UNSEEN = -1  # the position of padding in a call


class KeyValueCache:
    """Keys and values of all layers, each (rows + 1, heads, head_dim). The last row takes padding.

    Args:
        keys, values: of each layer.
        table: (n, columns), int64: the row of each position.
        lengths: (n,), int64: the tokens of each text.
        window: tokens that a query sees, itself included. Default None: all.
        wraps: True if position p has column p % columns of the table. Default False.
    """

    def __init__(self, keys: Sequence[fw.Tensor], values: Sequence[fw.Tensor], table: fw.Tensor,
                 lengths: fw.Tensor, window: int | None = None, wraps: bool = False) -> None:
        self.keys, self.values, self.table, self.lengths = keys, values, table, lengths
        self.window, self.wraps = window, wraps
        self.own = table  # rows that a text may write to

    @classmethod
    def empty(cls, layers: int, batch: int, heads: int, capacity: int, head_dim: int,
              like: fw.Tensor, window: int | None = None) -> KeyValueCache:
        """A contiguous cache of `batch` texts.

        Args:
            layers: number of layers.
            batch: number of texts, n.
            heads: heads of keys and values.
            capacity: columns of the table. A text may have as many tokens; with `window`, any
                number, if there are columns for the window and the tokens of a call.
            head_dim: features of a head.
            like: a tensor of the dtype and the device of keys and values.
            window: see `KeyValueCache`.
        """
        shape, device = (batch * capacity + 1, heads, head_dim), like.device
        keys, values = ([fw.zeros(shape, dtype=like.dtype, device=device) for _ in range(layers)]
                        for _ in range(2))
        table = fw.arange(batch * capacity, device=device).reshape(batch, capacity)
        return cls(keys, values, table, fw.zeros(batch, dtype=fw.int64, device=device), window,
                   wraps=window is not None and window <= capacity)

    def at(self, table: fw.Tensor, lengths: fw.Tensor) -> KeyValueCache:
        """Other texts in the same rows, for one call. See `KeyValueCache` for the arguments."""
        return KeyValueCache(self.keys, self.values, table, lengths, self.window)

    def begin(self, present: fw.Tensor) -> CachedCall:
        """The tokens of a call, whose rows are reserved.

        Args:
            present: (n, length), int64, 1 for a token and 0 for padding.

        Raises:
            IndexingError: the cache is full.
            ArgumentError: it is too small for its window.
        """
        positions = fw.cumulative_sum(present, axis=1) - 1 + self.lengths[:, None]
        known = fw.maximum(positions, 0)
        rows = fw.take_along_axis(self.table, self._columns_of(known, present.shape[1]), axis=1)
        written = fw.where(present > 0, rows, self.keys[0].shape[0] - 1)
        self.lengths = self.lengths + present.sum(axis=1)
        return CachedCall(known, self, fw.where(present > 0, positions, _UNSEEN), written)

    def _columns_of(self, positions: fw.Tensor, length: int) -> fw.Tensor:
        """The column of each position. A full cache that does not wrap has none."""
        columns = self.table.shape[1]
        if not self.wraps or self.window is None:
            return positions
        if length + self.window - 1 > columns:
            raise fw.ArgumentError(
                f"{length} tokens and a window of {self.window} need more than the "
                f"{columns} slots of the cache",
                "make a cache of more slots, or pass fewer tokens at once")
        return positions % columns

    def keep(self, texts: fw.Tensor) -> None:
        """Keeps these texts: text i becomes the one that was `texts[i]`, in the same rows.

        Args:
            texts: (any count,), int.
        """
        self.table, self.lengths = self.table[texts], self.lengths[texts]

    def fork(self, texts: fw.Tensor) -> None:
        """Continues texts in several ways: text i continues what was `texts[i]`, by one token.

        The texts share the rows that they have, and the next token of each gets a row of its own.
        Nothing is copied. So the cache has to be made for as many texts as there will be.

        Args:
            texts: (any count,), int. A text may be named several times.
        """
        self.keep(texts)
        columns = self.table.shape[1]
        is_next = fw.arange(columns, device=texts.device) == self.lengths[:, None] % columns
        self.table = fw.where(is_next, self.own[:self.table.shape[0]], self.table)

    def rewind(self, count: fw.Tensor) -> None:
        """Takes the last `count` tokens of each text out.

        In a window, the rows that they overwrote stay lost.
        """
        self.lengths = self.lengths - count


@dataclass(frozen=True)
class Call:
    """The tokens of one call of a decoder without a cache.

    Args:
        positions: (n, length), or (1, length) if all texts have the same. Padding has the position
            0, whose embedding nobody sees.
        mask: (n, 1, length, length), True where a token sees another one. None stands for the plain
            causal mask.
    """

    positions: fw.Tensor
    mask: fw.Tensor | None

    def attend(self, layer: int, query: fw.Tensor, key: fw.Tensor, value: fw.Tensor,
               dropout_p: float = 0.0) -> fw.Tensor:
        """Attention of the tokens to all that they see: (n, heads, length, features).

        Args:
            layer: number of the layer.
            query: (n, heads, length, features).
            key, value: (n, key_heads, length, features).
            dropout_p: the share of weights set to 0. Default 0.
        """
        return F.scaled_dot_product_attention(
            query, key, value, self.mask, is_causal=self.mask is None, dropout_p=dropout_p,
            enable_gqa=query.shape[1] != key.shape[1])


@dataclass(frozen=True)
class CachedCall:
    """The tokens of one call of a decoder with a cache. See `Call`.

    Args:
        positions: (n, length), int64.
        cache: takes the keys and values.
        seen_from: (n, length): the positions, -1 for padding.
        rows: (n, length): the row of each token.
    """

    positions: fw.Tensor
    cache: KeyValueCache
    seen_from: fw.Tensor
    rows: fw.Tensor

    def attend(self, layer: int, query: fw.Tensor, key: fw.Tensor, value: fw.Tensor,
               dropout_p: float = 0.0) -> fw.Tensor:
        """See `Call.attend`. There is no dropout: a cache is for inference."""
        keys, values = self.cache.keys[layer], self.cache.values[layer]
        keys[self.rows], values[self.rows] = (x.permute_dims((0, 2, 1, 3)) for x in (key, value))
        return cached_attention(query, keys, values, self.cache.table, self.seen_from,
                                scale=1 / math.sqrt(query.shape[-1]), window=self.cache.window)


def begin(input_ids: fw.Tensor, attention_mask: fw.Tensor | None, cache: KeyValueCache | None,
          window: int | None = None) -> Call | CachedCall:
    """The tokens of one call of a decoder.

    Args:
        input_ids: (n, length).
        attention_mask: (n, length), 0 for padding; None if there is none.
        cache: earlier tokens; None if there are none.
        window: tokens that a query sees, itself included. Default None: all. A cache has its own.
    """
    if cache is None and attention_mask is None:
        positions = fw.arange(input_ids.shape[1], device=input_ids.device)[None]
        return Call(positions, None if window is None else _mask(positions, positions, window))
    present = fw.ones_like(input_ids, dtype=fw.int64) if attention_mask is None else \
        attention_mask.astype(fw.int64)
    if cache is not None:
        return cache.begin(present)
    positions = fw.maximum(fw.cumulative_sum(present, axis=1) - 1, 0)
    return Call(positions, _mask(positions, fw.where(present > 0, positions, _UNSEEN), window))


def _mask(positions: fw.Tensor, keys: fw.Tensor, window: int | None) -> fw.Tensor:
    """(n, 1, length, length), True where a query sees a key, from the positions of both."""
    distance = positions[:, :, None] - keys[:, None, :]
    seen = (keys != _UNSEEN)[:, None, :] & (distance >= 0)
    if window is not None:
        seen = seen & (distance < window)
    return seen[:, None]
