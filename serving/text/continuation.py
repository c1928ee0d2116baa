"""A text that a client asks for: how its tokens are chosen, and where it ends."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import fusewire as fw

from ...models.generation.growing_text import GrowingText
from ...models.generation.sampling import Sampling
from ...models.tokenizer import Tokenizer

STOP, LENGTH = "stop", "length"  # why a text ended


@dataclass(frozen=True)
class Choice:
    """How the tokens of one text are chosen.

    Args:
        sampling: temperature and limits, as in `fusewire.models`.
        seed: of the draws. They depend on nothing else, so a text is the same beside any others.
        presence_penalty: is subtracted from the logits of tokens of the continuation.
        frequency_penalty: is subtracted as often as they are in it.
        bias: is added to the logits of tokens.
        logprobs: the number of likely tokens whose log probabilities are reported; None reports
            none.
    """

    sampling: Sampling = field(default_factory=Sampling)
    seed: int = 0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    bias: Mapping[int, float] = field(default_factory=dict)
    logprobs: int | None = None


@dataclass(frozen=True)
class Logprobs:
    """Log probabilities of a token and of the likeliest ones."""

    token: int
    logprob: float
    top: Sequence[tuple[int, float]]


@dataclass(frozen=True)
class Piece:
    """A part of a continuation.

    Args:
        text: whole characters, perhaps none.
        logprobs: of the token, if they were asked for.
        finish: why the text ends here; None if it goes on.
        error: why there is no more text.
    """

    text: str = ""
    logprobs: Logprobs | None = None
    finish: str | None = None
    error: Exception | None = None


class Continuation:
    """One text that is continued.

    Args:
        tokenizer: of the model.
        prompt: token numbers, at least one.
        most: the most tokens to add.
        choice: how they are chosen.
        stops: strings before which the text ends.
        stop_tokens: tokens before which it ends.
    """

    def __init__(self, tokenizer: Tokenizer, prompt: Sequence[int], most: int, choice: Choice,
                 stops: Sequence[str] = (), stop_tokens: Sequence[int] = ()) -> None:
        self.prompt, self.most, self.choice = list(prompt), most, choice
        self.text = GrowingText(tokenizer, self.prompt, stop_tokens, stops)
        self.stop_tokens = stop_tokens
        self.tokens: list[int] = []
        self.pieces: asyncio.Queue[Piece] = asyncio.Queue()
        self.is_cancelled = False
        self._counts: Counter[int] = Counter()
        self._draws = np.random.Generator(np.random.Philox(key=choice.seed))

    def cancel(self) -> None:
        """Ends the text at its next step, since nobody reads it. For any thread."""
        self.is_cancelled = True

    @property
    def is_greedy(self) -> bool:
        """True if the likeliest token is taken, and nothing else about the logits matters."""
        choice = self.choice
        return choice.sampling.temperature == 0 and choice.logprobs is None and not (
            choice.presence_penalty or choice.frequency_penalty or choice.bias)

    def add(self, token: int, logprobs: Logprobs | None) -> Piece:
        """The piece that a token completes."""
        self.tokens.append(token)
        self._counts[token] += 1
        text = self.text.add(token)
        if self.text.has_ended:
            return Piece(text, None if token in self.stop_tokens else logprobs, STOP)
        if len(self.tokens) == self.most:
            return Piece(text + self.text.rest(), logprobs, LENGTH)
        return Piece(text, logprobs)

    def choose(self, logits: Any) -> tuple[int, Logprobs | None]:
        """The next token, from logits (vocabulary,), float32."""
        logits = self._adjusted(logits)
        sampling = self.choice.sampling
        if sampling.temperature == 0:
            token = int(logits.argmax())
        else:
            scaled = fw.Tensor((logits / np.float32(sampling.temperature))[None])
            limited = sampling.limit(scaled).numpy()[0]
            # The maximum of logits plus Gumbel noise is a draw by softmax(logits).
            token = int((limited + self._draws.gumbel(size=limited.shape)).argmax())
        return token, None if self.choice.logprobs is None else self._logprobs(logits, token)

    def _adjusted(self, logits: Any) -> Any:
        """The logits with penalties and biases."""
        choice = self.choice
        if not (choice.bias or choice.presence_penalty or choice.frequency_penalty):
            return logits
        logits = logits.copy()
        for token, bias in choice.bias.items():
            logits[token] += bias
        for token, count in self._counts.items():
            logits[token] -= choice.presence_penalty + count * choice.frequency_penalty
        return logits

    def _logprobs(self, logits: Any, token: int) -> Logprobs:
        shifted = logits.astype(np.float64) - logits.max()
        logprobs = shifted - np.log(np.exp(shifted).sum())
        count = min(self.choice.logprobs or 0, len(logits))
        top = np.argsort(-logprobs, kind="stable")[:count]
        return Logprobs(token, float(logprobs[token]), [(int(i), float(logprobs[i])) for i in top])
