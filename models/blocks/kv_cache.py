"""The keys and values of earlier tokens, so that a decoder computes each token once.

A cache has a fixed number of slots, so its tensors keep their shapes while a text grows, and a
compiled decoding step serves all lengths. Each slot knows the position of its token; attention sees
the slots whose position is not behind that of the query. So padding, which has no position, and
overwritten slots of a sliding window need no other rule.
"""

from __future__ import annotations

import fusewire as fw

NO_POSITION = -1  # of padding, and of slots without a token


class KeyValueCache:
    """Keys and values of all layers, each (n, heads, capacity, head_dim).

    Args:
        layers: number of layers.
        batch: number of texts, n.
        heads: heads of keys and values.
        capacity: slots. A text may have as many tokens; with `window`, any number, if there are
            slots for the window and the tokens of a call.
        head_dim: features of a head.
        like: a tensor of the dtype and the device of keys and values.
        window: tokens that a query sees, itself included. Default None: all.
    """

    def __init__(self, layers: int, batch: int, heads: int, capacity: int, head_dim: int,
                 like: fw.Tensor, window: int | None = None) -> None:
        shape, device = (batch, heads, capacity, head_dim), like.device
        self.keys = [fw.zeros(shape, dtype=like.dtype, device=device) for _ in range(layers)]
        self.values = [fw.zeros(shape, dtype=like.dtype, device=device) for _ in range(layers)]
        self.positions = fw.full((batch, capacity), NO_POSITION, dtype=fw.int64, device=device)
        self.lengths = fw.zeros(batch, dtype=fw.int64, device=device)  # without padding
        self.used = fw.tensor(0, device=device)  # slots that were written, those of padding too
        self.capacity, self.window = capacity, window
        # The tokens that leave the window make room. A cache of fewer slots is full at its end.
        self.wraps = window is not None and window <= capacity
        self.slots = fw.zeros(1, dtype=fw.int64, device=device)  # of the tokens of the present call

    def token_positions(self, present: fw.Tensor) -> fw.Tensor:
        """The position of each token of a call: (n, length). present: (n, length), 0 for padding.
        """
        return fw.maximum(fw.cumulative_sum(present, axis=1) - 1 + self.lengths[:, None], 0)

    def begin(self, positions: fw.Tensor) -> None:
        """Reserves slots for the tokens of a call. positions: (n, length), int.

        IndexingError if the cache is full; ArgumentError if it is too small for its window.
        """
        length = positions.shape[1]
        self.slots = self.used + fw.arange(length, device=positions.device)
        if self.wraps:
            if length + (self.window or 1) - 1 > self.capacity:
                raise fw.ArgumentError(
                    f"{length} tokens and a window of {self.window} need more than the "
                    f"{self.capacity} slots of the cache",
                    "make a cache of more slots, or pass fewer tokens at once")
            self.slots = self.slots % self.capacity
        self.positions[:, self.slots] = positions
        self.used = self.used + length
        self.lengths = fw.maximum(self.lengths, positions.max(axis=1) + 1)

    def update(self, layer: int, key: fw.Tensor, value: fw.Tensor) -> tuple[fw.Tensor, fw.Tensor]:
        """All keys and values of a layer, each (n, heads, capacity, head_dim), with new ones added.

        Args:
            layer: number of the layer.
            key, value: of the tokens of this call, (n, heads, length, head_dim).
        """
        self.keys[layer][:, :, self.slots] = key
        self.values[layer][:, :, self.slots] = value
        return self.keys[layer], self.values[layer]

    def take(self, texts: fw.Tensor) -> None:
        """Keeps the tokens of these texts: text i becomes the one that was `texts[i]`.

        Args:
            texts: (any count,), int. A text may be named several times.
        """
        self.keys = [key[texts] for key in self.keys]
        self.values = [value[texts] for value in self.values]
        self.positions, self.lengths = self.positions[texts], self.lengths[texts]

    def rewind(self, count: fw.Tensor) -> None:
        """Takes the last `count` tokens of each text out. They are not padding.

        In a window, the slots that they overwrote stay lost.
        """
        self.used, self.lengths = self.used - count, self.lengths - count
        self.positions = fw.where(self.positions < self.lengths[:, None], self.positions,
                                  NO_POSITION)


def positions_of(input_ids: fw.Tensor, attention_mask: fw.Tensor | None,
                 cache: KeyValueCache | None) -> fw.Tensor:
    """The position of each token: (n, length), or (1, length) if all texts have the same.

    Padding has the position 0, whose embedding nobody sees.
    """
    if cache is None and attention_mask is None:
        return fw.arange(input_ids.shape[1], device=input_ids.device)[None]
    present = fw.ones_like(input_ids) if attention_mask is None else \
        attention_mask.astype(fw.int64)
    if cache is not None:
        return cache.token_positions(present)
    return fw.maximum(fw.cumulative_sum(present, axis=1) - 1, 0)


def causal_mask(positions: fw.Tensor, attention_mask: fw.Tensor | None,
                cache: KeyValueCache | None, window: int | None = None) -> fw.Tensor | None:
    """The mask of attention (n, 1, length, keys), True where a query sees a key.

    None stands for the plain causal mask. A cache reserves slots for the tokens.

    Args:
        positions: see `positions_of`.
        attention_mask: (n, length), 0 for padding; None if there is none.
        cache: earlier tokens; None if there are none.
        window: tokens that a query sees, itself included. Default None: all.
    """
    if cache is None and attention_mask is None and window is None:
        return None
    keys = positions if attention_mask is None else \
        fw.where(attention_mask.astype(fw.bool), positions, NO_POSITION)
    if cache is not None:
        cache.begin(fw.broadcast_to(keys, (cache.positions.shape[0], keys.shape[1])))
        keys, window = cache.positions, cache.window or window
    distance = positions[:, :, None] - keys[:, None, :]
    seen = (keys != NO_POSITION)[:, None, :] & (distance >= 0)
    if window is not None:
        seen = seen & (distance < window)
    return seen[:, None]
