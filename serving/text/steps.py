"""The compiled steps of a decoder: a part of a prompt, a copy into a slot, a token of each slot."""

from __future__ import annotations

from typing import Any

import fusewire as fw

from .slot_cache import SlotCache


class Steps:
    """The steps of a model, each with code for fixed sizes.

    Args:
        model: a decoder with `new_cache`, in eval mode.
        slots: texts side by side.
        context: the most tokens of a text.
        chunks: lengths of parts of prompts, in ascending order.
    """

    def __init__(self, model: Any, slots: int, context: int, chunks: tuple[int, ...]) -> None:
        self.model, self.chunks = model, chunks
        self.cache = SlotCache(model.new_cache(slots, context + 1))
        self.prompt = SlotCache(model.new_cache(1, context + 1))
        self._decode = fw.compile(_next, dynamic=False)
        self._put = fw.compile(SlotCache.put, dynamic=False)
        self._prefill = {length: fw.compile(_last, dynamic=False) for length in chunks}

    @property
    def recordings(self) -> int:
        """The traces that were recorded so far."""
        return sum(step.stats.recordings for step in (self._decode, self._put,
                                                      *self._prefill.values()))

    def prefill(self, tokens: Any, length: int) -> Any:
        """The logits behind a part of the prompt: (vocabulary,).

        Args:
            tokens: (1, n), n of `chunks`; the first `length` are the part, the others padding.
            length: of the part.
        """
        count = tokens.shape[1]
        present = (fw.arange(count) < length).astype(fw.int64)[None]
        return self._prefill[count](self.model, self.prompt, fw.Tensor(tokens), present,
                                    fw.tensor([length - 1]))

    def begin(self) -> None:
        """Begins a prompt."""
        self.prompt.clear()

    def put(self, slot: int) -> None:
        """Copies the prompt into a slot."""
        self._put(self.cache, fw.tensor([slot]), self.prompt)

    def decode(self, tokens: Any, is_active: Any) -> tuple[fw.Tensor, fw.Tensor]:
        """The logits of the next token of each slot (slots, vocabulary), and the likeliest one.

        Args:
            tokens: the newest token of each slot, (slots, 1), int64.
            is_active: (slots, 1), int64, 1 for slots with a text.
        """
        logits, best = self._decode(self.model, self.cache, fw.Tensor(tokens),
                                    fw.Tensor(is_active))
        return logits, best


def _next(model: Any, cache: SlotCache, tokens: fw.Tensor, is_active: fw.Tensor
          ) -> tuple[fw.Tensor, fw.Tensor]:
    logits = model(tokens, is_active, cache)[:, -1].astype(fw.float32)
    cache.end()
    return logits, logits.argmax(axis=-1)


def _last(model: Any, cache: SlotCache, tokens: fw.Tensor, present: fw.Tensor, last: fw.Tensor
          ) -> fw.Tensor:
    logits = model(tokens, present, cache)[0][last][0].astype(fw.float32)
    cache.end()
    return logits
