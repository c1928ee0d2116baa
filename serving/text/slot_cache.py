"""A cache of texts of different lengths side by side, as decoders of `fusewire.models` use it."""

from __future__ import annotations

import fusewire as fw

from ...models.blocks.kv_cache import NO_POSITION, KeyValueCache


class SlotCache:
    """Keys and values of several texts, each in a slot of its own: the row of a batch.

    In place of a `KeyValueCache`, whose texts grow together, the token at position p of a text is
    in column p of its slot. The last column takes what padding writes; nobody reads it.

    Args:
        cache: an empty cache of the model, with a column more than a text has tokens.
    """

    def __init__(self, cache: KeyValueCache) -> None:
        self.keys, self.values = cache.keys, cache.values  # (slots, heads, columns, head_dim)
        self.positions, self.lengths = cache.positions, cache.lengths
        self.window, self.last = cache.window, cache.positions.shape[1] - 1
        self.rows = fw.arange(cache.positions.shape[0])[:, None]
        self.end()

    def begin(self, positions: fw.Tensor) -> None:
        """Reserves columns for the tokens of a call. positions: (slots, length), int."""
        self.columns = fw.where(positions == NO_POSITION, self.last, positions)
        self.positions[self.rows, self.columns] = positions
        self.lengths = fw.maximum(self.lengths, positions.max(axis=1) + 1)

    def end(self) -> None:
        """Ends a call, so that the code of the next one does not depend on the length of this one.
        """
        self.columns = fw.zeros((self.positions.shape[0], 1), dtype=fw.int64)

    def update(self, layer: int, key: fw.Tensor, value: fw.Tensor) -> tuple[fw.Tensor, fw.Tensor]:
        """All keys and values of a layer, each (slots, heads, columns, head_dim), with new ones.

        Args:
            layer: number of the layer.
            key, value: of the tokens of this call, (slots, heads, length, head_dim).
        """
        self.keys[layer][self.rows, :, self.columns] = key.permute_dims((0, 2, 1, 3))
        self.values[layer][self.rows, :, self.columns] = value.permute_dims((0, 2, 1, 3))
        return self.keys[layer], self.values[layer]

    def put(self, slot: fw.Tensor, text: SlotCache) -> None:
        """Replaces the text of a slot by the one of a cache of one slot. slot: (1,), int."""
        for own, other in ((self.keys, text.keys), (self.values, text.values)):
            for layer, tensor in enumerate(other):
                own[layer][slot] = tensor
        self.positions[slot] = text.positions
        self.lengths[slot] = text.lengths

    def clear(self) -> None:
        """Forgets all texts."""
        self.positions = fw.full(self.positions.shape, NO_POSITION, dtype=fw.int64)
        self.lengths = fw.zeros(self.lengths.shape, dtype=fw.int64)
