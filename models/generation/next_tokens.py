"""Chooses tokens one by one: the model runs on the last token of each text."""

from __future__ import annotations

from collections.abc import Iterator

import fusewire as fw

from ..pretrained_model import PretrainedModel
from .compiled import Function
from .sampling import Sampling


class Generation:
    """The state of a generation: the cache, and the tokens that each text has used.

    Args:
        model: the decoder.
        sampling: how tokens are chosen.
        input_ids: (n, length), the prompts.
        new_tokens: the most tokens to add.
        ahead: tokens that may be added and taken out again. Default 0.
    """

    def __init__(self, model: PretrainedModel, sampling: Sampling, input_ids: fw.Tensor,
                 new_tokens: int, ahead: int = 0) -> None:
        n, length = input_ids.shape
        self.model, self.sampling, self.input_ids = model, sampling, input_ids
        capacity, window = length + new_tokens, getattr(model.config, "sliding_window", None)
        if window is not None and window <= capacity:  # slots of the window stay until it has moved
            capacity = max(capacity, length + window - 1) + ahead
        self.cache = model.new_cache(n, capacity)  # type: ignore[operator]
        self.is_used = None if sampling.repetition_penalty == 1 else \
            fw.zeros((n, model.config.vocab_size), dtype=fw.bool, device=input_ids.device)


def next_tokens(state: Generation, tokens: fw.Tensor, attention_mask: fw.Tensor | None = None
                ) -> fw.Tensor:
    """The token that follows each text: (n,).

    Args:
        state: the generation; its cache takes the tokens.
        tokens: (n, length), the tokens behind those in the cache.
        attention_mask: (n, length), 0 for padding. Default all ones.
    """
    if state.is_used is not None:
        texts = fw.arange(tokens.shape[0], device=tokens.device)
        state.is_used[texts[:, None], tokens] = True
    logits = state.model(tokens, attention_mask, state.cache)
    return state.sampling.choose(logits[:, -1], state.is_used)


def one_by_one(state: Generation, step: Function, attention_mask: fw.Tensor | None, count: int
               ) -> Iterator[fw.Tensor]:
    """Yields `count` times the next token of each text, (n,).

    Args:
        state: the generation.
        step: `next_tokens`, perhaps compiled.
        attention_mask: (n, length) of the prompts.
        count: tokens to add.
    """
    tokens = next_tokens(state, state.input_ids, attention_mask)
    yield tokens
    for _ in range(count - 1):
        tokens = step(state, tokens[:, None])
        yield tokens
