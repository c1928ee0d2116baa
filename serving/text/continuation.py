"""A text that a client asks for: how its tokens are chosen, and where it ends."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...models.generation.growing_text import GrowingText
from ...models.generation.sampling import Sampling
from ...models.tokenizer import Tokenizer
from ..base.tracing import Link

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


class Pieces:
    """The pieces of the texts of one request, in the order in which they come.

    All methods are called by the thread of the event loop.
    """

    def __init__(self) -> None:
        self._come: deque[tuple[int, Piece]] = deque()
        self._waiter: asyncio.Future[None] | None = None

    def put(self, number: int, piece: Piece) -> None:
        """Adds a piece of the text of a number."""
        self._come.append((number, piece))
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def next(self) -> tuple[int, Piece]:
        """The number of a text and its next piece, as soon as there is one."""
        while not self._come:
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter
        return self._come.popleft()


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
        self.number, self.pieces, self.is_streamed = 0, Pieces(), True
        self.link: Link = None  # of the span of the request
        self.is_cancelled = self.has_ended = False
        self._held: list[Piece] = []
        self._counts: Counter[int] = Counter()
        self._draws = np.random.Generator(np.random.Philox(key=choice.seed))

    def deliver_to(self, pieces: Pieces, number: int, is_streamed: bool, link: Link) -> None:
        """Says who reads the text.

        Args:
            pieces: the pieces of a request.
            number: of the text among those of the request.
            is_streamed: False if the pieces are wanted when the text has ended.
            link: of the span of the request.
        """
        self.pieces, self.number, self.is_streamed = pieces, number, is_streamed
        self.link = link

    def cancel(self) -> None:
        """Ends the text at its next step, since nobody reads it. For any thread."""
        self.is_cancelled = True

    @property
    def is_greedy(self) -> bool:
        """True if the likeliest token is taken, and nothing else about the logits matters."""
        choice = self.choice
        return choice.sampling.temperature == 0 and choice.logprobs is None and not self.adjusts

    @property
    def adjusts(self) -> bool:
        """True if the text changes logits before a token is chosen."""
        choice = self.choice
        return bool(choice.bias or choice.presence_penalty or choice.frequency_penalty)

    def add(self, token: int, logprobs: Logprobs | None) -> list[Piece]:
        """Adds a token. Returns the pieces that are to be delivered now."""
        self.tokens.append(token)
        self._counts[token] += 1
        piece = self._completed(token, logprobs)
        self.has_ended = piece.finish is not None
        self._held.append(piece)
        if not (self.is_streamed or self.has_ended):
            return []
        pieces, self._held = self._held, []
        return pieces

    def _completed(self, token: int, logprobs: Logprobs | None) -> Piece:
        """The piece that a token completes."""
        text = self.text.add(token)
        if self.text.has_ended:
            return Piece(text, None if token in self.stop_tokens else logprobs, STOP)
        if len(self.tokens) == self.most:
            return Piece(text + self.text.rest(), logprobs, LENGTH)
        return Piece(text, logprobs)

    def draw(self) -> float:
        """The number from 0 to 1 that decides on the next token."""
        return 0.0 if self.choice.sampling.temperature == 0 else float(self._draws.random())

    def adjust(self, logits: Any) -> None:
        """Adds penalties and biases to logits (vocabulary,) in place."""
        choice = self.choice
        for token, bias in choice.bias.items():
            logits[token] += bias
        if choice.presence_penalty or choice.frequency_penalty:
            tokens, counts = list(self._counts), np.array(list(self._counts.values()), np.float32)
            logits[tokens] -= choice.presence_penalty + counts * choice.frequency_penalty

    def logprobs_of(self, logits: Any, token: int) -> Logprobs:
        """The log probabilities of a token, and of the likeliest ones, from logits (vocabulary,).
        """
        shifted = logits.astype(np.float64) - logits.max()
        logprobs = shifted - np.log(np.exp(shifted).sum())
        count = min(self.choice.logprobs or 0, len(logits))
        top = np.argsort(-logprobs, kind="stable")[:count]
        return Logprobs(token, float(logprobs[token]), [(int(i), float(logprobs[i])) for i in top])
