"""A language model that is served, with its tokenizer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import fusewire as fw

from ...models.tokenizer import Tokenizer
from ..base.failures import INVALID, RequestError
from ..model import powers_of_two
from .continuation import Choice, Continuation
from .engine import Engine
from .steps import Steps

_WARM_CALLS = 3
_CONTEXT = 2048  # tokens of a text, if neither the model nor the user says less


class Generator:
    """A decoder of `fusewire.models` that continues texts, several at once.

    Args:
        model: a decoder with a cache, such as `GPT2` or `Llama`.
        tokenizer: of the model.
        slots: texts that are continued side by side. Default 8.
        context: the most tokens of a text with its prompt. Default: what the model has positions
            for, at most 2048. The cache has room for as many tokens in each slot.
        queue: the most texts that wait; further ones are refused. Default 256.
        chunk: tokens of a prompt that are computed between two tokens of the other texts. Default
            128.

    Raises:
        ArgumentError: the model does not continue texts, or a number is outside of its range.
    """

    def __init__(self, model: Any, tokenizer: Tokenizer, *, slots: int = 8,
                 context: int | None = None, queue: int = 256, chunk: int = 128) -> None:
        if not hasattr(model, "new_cache"):
            raise fw.ArgumentError(f"{type(model).__name__} does not continue texts",
                                   "serve a decoder, such as GPT2 or Llama")
        known = getattr(model.config, "n_positions", None)  # of learned embeddings
        self.context = min(context or _CONTEXT, known or context or _CONTEXT)
        if min(slots, queue, chunk) < 1 or self.context < 2:
            raise fw.ArgumentError(f"slots={slots}, queue={queue}, chunk={chunk}, "
                                   f"context={self.context}", "all have to be positive")
        self.model, self.tokenizer, self.slots = model.eval(), tokenizer, slots
        largest = min(chunk, self.context)
        chunks = tuple(n for n in powers_of_two(largest) if n >= min(16, largest))
        self.steps = Steps(model, slots, self.context, chunks)
        self.engine = Engine(self.steps, slots, queue)

    @property
    def recordings(self) -> int:
        """The traces that were recorded so far. They stay as many when the model is loaded."""
        return self.steps.recordings

    def load(self) -> Generator:
        """This generator, with compiled steps."""
        tokens = np.zeros((self.slots, 1), np.int64)
        with fw.no_grad():
            for _ in range(_WARM_CALLS):
                for size in self.steps.chunks:
                    self.steps.begin()
                    self.steps.prefill(np.zeros((1, size), np.int64), size)
                for slot in range(min(2, self.slots)):
                    self.steps.put(slot)
                for active in (np.ones_like(tokens), np.zeros_like(tokens)):
                    self.steps.decode(tokens.copy(), active)
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
        vocabulary = self.model.config.vocab_size
        wrong = next((t for t in (*prompt, *choice.bias) if not 0 <= t < vocabulary), None)
        if wrong is not None:
            raise RequestError(INVALID, f"token {wrong} is not among the {vocabulary} of the model")
        if not prompt:
            raise RequestError(INVALID, "the prompt has no tokens")
        room = self.context - len(prompt)
        if room < (most or 1):
            raise RequestError(INVALID, f"the prompt has {len(prompt)} tokens, and {most or 1} are "
                               f"to be added; the model has room for {self.context} in all")
        end = self.tokenizer.token_number("eos_token")
        return Continuation(self.tokenizer, prompt, most or room, choice, stops,
                            () if end is None else (end,))
