"""Chooses tokens one by one: the model runs on prompts, and then on the last token of each text.

Prompts are computed in parts of few sizes, so that a few programs serve prompts of any length.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterator
from typing import Any

import fusewire as fw

from ..pretrained_model import PretrainedModel
from .compiled import Function
from .sampling import Sampling

_PART_SIZES = (16, 32, 64, 128, 256)  # tokens of a prompt that are computed at once
_LEAST_CAPACITY = 64  # columns of a cache


class Generation:
    """The state of a generation: the cache, and the tokens that each text has used.

    Args:
        model: the decoder.
        sampling: how tokens are chosen.
        input_ids: (n, length), the prompts.
        new_tokens: the most tokens to add.
        ahead: tokens that may be added and taken out again. Default 0.
        copies: texts that continue each prompt. Default 1.
    """

    def __init__(self, model: PretrainedModel, sampling: Sampling, input_ids: fw.Tensor,
                 new_tokens: int, ahead: int = 0, copies: int = 1) -> None:
        n, length = input_ids.shape
        self.model, self.sampling, self.input_ids = model, sampling, input_ids
        whole = capacity = _rounded(length + new_tokens + ahead)
        window = getattr(model.config, "sliding_window", None)
        if window is not None:  # the rows of the window stay until it has moved
            capacity = min(whole, _rounded(window + _PART_SIZES[-1] + ahead))
        self.cache = model.new_cache(n * copies, capacity)  # type: ignore[operator]
        self.cache.wraps = capacity < whole
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
    logits = logits_behind(state.model, tokens, attention_mask, state.cache)
    return state.sampling.choose(logits, state.is_used)


def logits_behind(model: Any, tokens: fw.Tensor, attention_mask: fw.Tensor | None, cache: Any
                  ) -> fw.Tensor:
    """The logits behind the last token of each text, (n, vocabulary). See `next_tokens`."""
    decoder = getattr(model, model.PREFIX.rstrip("."))
    logits: fw.Tensor = model.lm_head(decoder(tokens, attention_mask, cache)[:, -1])
    return logits


def parts(input_ids: fw.Tensor, attention_mask: fw.Tensor | None
          ) -> Iterator[tuple[fw.Tensor, fw.Tensor]]:
    """Yields the tokens of prompts and their mask in parts, (n, size) each.

    The first part is filled up with padding on the left.

    Args:
        input_ids: (n, length), the prompts.
        attention_mask: (n, length), 0 for padding. Default all ones.
    """
    present = fw.ones_like(input_ids, dtype=fw.int64) if attention_mask is None else \
        attention_mask.astype(fw.int64)
    most, length = _PART_SIZES[-1], input_ids.shape[1]
    rest = (length - 1) % most + 1
    size = _PART_SIZES[bisect.bisect_left(_PART_SIZES, rest)]
    missing = size - rest
    padding = fw.zeros_like(input_ids[:, :1]).astype(fw.int64)
    if missing:
        padding = fw.broadcast_to(padding, (len(input_ids), missing))
        input_ids = fw.concat([padding + input_ids[:, :1], input_ids], axis=1)
        present = fw.concat([padding, present], axis=1)
    begins = [0, *range(size, length + missing, most)]
    for begin, end in zip(begins, [*begins[1:], length + missing]):
        yield input_ids[:, begin:end], present[:, begin:end]


def prefill(state: Generation, step: Function, attention_mask: fw.Tensor | None, *more: Any) -> Any:
    """What `step` returns for the last part of the prompts; the cache takes all of them.

    Args:
        state: the generation.
        step: a function of the state, tokens, their mask, and `more`.
        attention_mask: (n, length), 0 for padding. None: there is none.
        more: further arguments of `step`.
    """
    result = None
    for tokens, present in parts(state.input_ids, attention_mask):
        result = step(state, tokens, present, *more)
    return result


def _rounded(capacity: int) -> int:
    """A number of columns, at least `capacity`: 2 ** i or 3 * 2 ** i. So few sizes are compiled."""
    columns = _LEAST_CAPACITY
    while columns < capacity:
        columns *= 2
    fewer = columns // 4 * 3
    return fewer if capacity <= fewer and columns > _LEAST_CAPACITY else columns


def one_by_one(state: Generation, step: Function, attention_mask: fw.Tensor | None, count: int
               ) -> Iterator[fw.Tensor]:
    """Yields `count` times the next token of each text, (n,).

    Args:
        state: the generation.
        step: `next_tokens`, perhaps compiled.
        attention_mask: (n, length) of the prompts.
        count: tokens to add.
    """
    tokens = prefill(state, step, attention_mask)
    yield tokens
    for _ in range(count - 1):
        tokens = step(state, tokens[:, None])
        yield tokens
