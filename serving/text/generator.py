"""A language model that is served, with its tokenizer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import fusewire as fw

from ...models.generation.paged_steps import PagedSteps
from ...models.generation.row_sampling import RowSampling
from ...models.generation.sampling import Sampling
from ...models.tokenizer import Tokenizer
from ..base.failures import INVALID, RequestError
from .continuation import Choice, Continuation
from .engine import Engine

_WARM_CALLS = 3
_CONTEXT = 2048  # tokens of a text, if neither the model nor the user says less


class Generator:
    """A decoder of `fusewire.models` that continues texts, several at once.

    Args:
        model: a decoder with a cache, such as `GPT2` or `Llama`.
        tokenizer: of the model.
        slots: texts that are continued side by side. Default 8.
        context: the most tokens of a text with its prompt. Default: what the model has positions
            for, at most 2048.
        queue: the most texts that wait; further ones are refused. Default 256.
        page: tokens of a page of the cache. A prompt is computed page by page, between two tokens
            of the other texts. Full pages at the beginning of a prompt are shared with other texts
            that begin with the same tokens. Default 64.
        cache_tokens: tokens for which the cache has room, of all texts together. A text waits until
            there is room for its prompt and all tokens that it may add. Default: `context` tokens
            for each slot.

    Raises:
        ArgumentError: the model does not continue texts, or a number is outside of its range.
    """

    def __init__(self, model: Any, tokenizer: Tokenizer, *, slots: int = 8,
                 context: int | None = None, queue: int = 256, page: int = 64,
                 cache_tokens: int | None = None) -> None:
        if not hasattr(model, "new_cache"):
            raise fw.ArgumentError(f"{type(model).__name__} does not continue texts",
                                   "serve a decoder, such as GPT2 or Llama")
        known = getattr(model.config, "n_positions", None)  # of learned embeddings
        self.context = min(context or _CONTEXT, known or context or _CONTEXT)
        if min(slots, queue, page) < 1 or self.context < 2:
            raise fw.ArgumentError(f"slots={slots}, queue={queue}, page={page}, "
                                   f"context={self.context}", "all have to be positive")
        self.model, self.tokenizer, self.slots = model.eval(), tokenizer, slots
        self.vocabulary: int = model.config.vocab_size
        page = min(page, self.context)
        least = -(-self.context // page)  # pages of the longest text
        pages = slots * least if cache_tokens is None else cache_tokens // page
        if pages < least:
            raise fw.ArgumentError(
                f"cache_tokens={cache_tokens}, and a text may have {self.context} tokens, in pages "
                f"of {page}", f"pass at least {least * page}, or a smaller context")
        self.steps = PagedSteps(model, slots, self.context, page, pages)
        self.engine = Engine(self.steps, queue)

    @property
    def recordings(self) -> int:
        """The traces that were recorded so far. They stay as many when the model is loaded."""
        return self.steps.recordings + self.engine.sampler.recordings

    def load(self) -> Generator:
        """This generator, with compiled steps."""
        with fw.no_grad():
            self.steps.warm(_WARM_CALLS)
            for rows in {1, self.slots}:
                logits = fw.zeros(rows, self.model.config.vocab_size)
                for sampling in (Sampling(1.0), Sampling(1.0, top_k=1)):
                    each = RowSampling.of([sampling] * rows, logits.shape[1])
                    for _ in range(_WARM_CALLS):
                        self.engine.sampler.choose(logits, each, np.zeros(rows))
        return self

    def continuation(self, prompt: Sequence[int], most: int | None, choice: Choice,
                     stops: Sequence[str] = ()) -> Continuation:
        """A text to submit to the engine.

        Args:
            prompt: token numbers.
            most: the most tokens to add. None: as many as there is room for.
            choice: how they are chosen.
            stops: strings before which the text ends.

        Raises:
            RequestError: the prompt has no tokens, unknown ones, or too many.
        """
        wrong = next((t for t in (*prompt, *choice.bias) if not 0 <= t < self.vocabulary), None)
        if wrong is not None:
            raise RequestError(INVALID, f"token {wrong} is not among the {self.vocabulary} of the "
                               "model")
        if not prompt:
            raise RequestError(INVALID, "the prompt has no tokens")
        room = self.context - len(prompt)
        if room < (most or 1):
            raise RequestError(INVALID, f"the prompt has {len(prompt)} tokens, and {most or 1} are "
                               f"to be added; the model has room for {self.context} in all")
        end = self.tokenizer.token_number("eos_token")
        return Continuation(self.tokenizer, prompt, most or room, choice, stops,
                            () if end is None else (end,))
