"""Writes the answers of OpenAI's interface: whole ones, and the chunks of streams."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any

from ...models.tokenizer import Tokenizer
from .continuation import Logprobs, Piece
from .openai_requests import TextRequest


class Answers:
    """The answers to one request.

    Args:
        id: of the answer.
        model: its name.
        asked: the request.
        tokenizer: of the model.
    """

    whole_kind = chunk_kind = "text_completion"

    def __init__(self, id: str, model: str, asked: TextRequest, tokenizer: Tokenizer) -> None:
        self.asked, self.tokenizer = asked, tokenizer
        self._head = {"id": id, "created": int(time.time()), "model": model}

    def whole(self, pieces: Sequence[Sequence[Piece]]) -> dict[str, Any]:
        """The answer with all pieces of each text."""
        choices = [self._choice(number, parts) for number, parts in enumerate(pieces)]
        return {**self._head, "object": self.whole_kind, "choices": choices,
                "usage": self._usage()}

    def chunk(self, number: int, piece: Piece) -> dict[str, Any]:
        """The event with one piece of a text."""
        return self._chunk([self._delta(number, piece)])

    def first(self) -> Iterator[dict[str, Any]]:
        """Yields the events before the first piece."""
        yield from ()

    def last(self) -> dict[str, Any]:
        """The event with the counts of tokens."""
        return {**self._chunk([]), "usage": self._usage()}

    def _chunk(self, choices: list[dict[str, Any]]) -> dict[str, Any]:
        return {**self._head, "object": self.chunk_kind, "choices": choices}

    def _usage(self) -> dict[str, int]:
        prompt = sum(map(len, self.asked.prompts))
        new = sum(len(text.tokens) for text in self.asked.texts)
        return {"prompt_tokens": prompt, "completion_tokens": new, "total_tokens": prompt + new}

    def _choice(self, number: int, pieces: Sequence[Piece]) -> dict[str, Any]:
        raise NotImplementedError

    def _delta(self, number: int, piece: Piece) -> dict[str, Any]:
        raise NotImplementedError

    def _token(self, token: int) -> str:
        return self.tokenizer.decode([token])


class CompletionAnswers(Answers):
    """Answers of /v1/completions."""

    def first(self) -> Iterator[dict[str, Any]]:
        """Yields the prompts that the request wants to see again."""
        each = len(self.asked.texts) // len(self.asked.prompts)
        for number, text in enumerate(text for text in self.asked.echo for _ in range(each)):
            if text:
                yield self.chunk(number, Piece(text))

    def _choice(self, number: int, pieces: Sequence[Piece]) -> dict[str, Any]:
        each = len(self.asked.texts) // len(self.asked.prompts)
        text = self.asked.echo[number // each] + "".join(piece.text for piece in pieces)
        return {"index": number, "text": text, "finish_reason": pieces[-1].finish,
                "logprobs": self._logprobs([p.logprobs for p in pieces if p.logprobs])}

    def _delta(self, number: int, piece: Piece) -> dict[str, Any]:
        return {"index": number, "text": piece.text, "finish_reason": piece.finish,
                "logprobs": self._logprobs([piece.logprobs] if piece.logprobs else [])}

    def _logprobs(self, tokens: Sequence[Logprobs]) -> dict[str, Any] | None:
        if not tokens:
            return None
        return {"tokens": [self._token(t.token) for t in tokens],
                "token_logprobs": [t.logprob for t in tokens],
                "top_logprobs": [{self._token(i): p for i, p in t.top} for t in tokens],
                "text_offset": []}


class ChatAnswers(Answers):
    """Answers of /v1/chat/completions."""

    whole_kind, chunk_kind = "chat.completion", "chat.completion.chunk"

    def first(self) -> Iterator[dict[str, Any]]:
        """Yields the role of each message."""
        for number in range(len(self.asked.texts)):
            yield self._chunk([{"index": number, "delta": {"role": "assistant", "content": ""},
                                "finish_reason": None, "logprobs": None}])

    def _choice(self, number: int, pieces: Sequence[Piece]) -> dict[str, Any]:
        text = "".join(piece.text for piece in pieces)
        return {"index": number, "finish_reason": pieces[-1].finish,
                "message": {"role": "assistant", "content": text, "refusal": None},
                "logprobs": self._logprobs([p.logprobs for p in pieces if p.logprobs])}

    def _delta(self, number: int, piece: Piece) -> dict[str, Any]:
        return {"index": number, "delta": {"content": piece.text} if piece.text else {},
                "finish_reason": piece.finish,
                "logprobs": self._logprobs([piece.logprobs] if piece.logprobs else [])}

    def _logprobs(self, tokens: Sequence[Logprobs]) -> dict[str, Any] | None:
        if not tokens:
            return None
        return {"content": [{**self._entry(t.token, t.logprob), "top_logprobs": [
            self._entry(i, p) for i, p in t.top]} for t in tokens], "refusal": None}

    def _entry(self, token: int, logprob: float) -> dict[str, Any]:
        text = self._token(token)
        return {"token": text, "logprob": logprob, "bytes": list(text.encode())}
