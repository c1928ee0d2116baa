"""A text that grows by tokens and is handed out in pieces of whole characters."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from ..tokenizer import Tokenizer

UNFINISHED = "\ufffd"  # is decoded for bytes that form no character, or not yet


class GrowingText:
    """The continuation of a prompt, without special tokens.

    A piece waits until its bytes form characters, and until it cannot begin a stop string.

    Args:
        tokenizer: of the model.
        prompt: token numbers, (length,). They tell whether the continuation begins with a space.
        stop_tokens: the text ends before one of these.
        stop_strings: the text ends before one of these.
    """

    def __init__(self, tokenizer: Tokenizer, prompt: Sequence[int], stop_tokens: Collection[int],
                 stop_strings: Sequence[str]) -> None:
        self.backend, self.stop_tokens = tokenizer.backend, stop_tokens
        self.stop_strings = stop_strings
        self.decoder = _decoder(tokenizer, prompt)
        self.held, self.has_ended = "", False

    def add(self, token: int) -> str:
        """The piece that a token completes; "" if there is none, or if the text has ended."""
        if self.has_ended:
            return ""
        if token in self.stop_tokens:
            self.has_ended = True
            return self.rest()
        text = self.held + (self.decoder.step(self.backend, token) or "")
        stops = [at for at in map(text.find, self.stop_strings) if at >= 0]
        if stops:
            self.has_ended, self.held = True, ""
            return text[:min(stops)]
        shown = len(text) - max((_overlap(text, stop) for stop in self.stop_strings), default=0)
        self.held = text[shown:]
        return text[:shown]

    def rest(self) -> str:
        """The piece that waits for the end of a stop string. Bytes of no character are left out."""
        rest, self.held = self.held, ""
        return rest


def _decoder(tokenizer: Tokenizer, prompt: Sequence[int]) -> Any:
    """A decoder that has read the prompt."""
    from tokenizers.decoders import DecodeStream

    ends_in_a_character = not tokenizer.decode(prompt).endswith(UNFINISHED)
    return DecodeStream(ids=list(prompt) if ends_in_a_character else [], skip_special_tokens=True)


def _overlap(text: str, stop: str) -> int:
    """The length of the longest end of `text` that begins `stop`."""
    return max(n for n in range(min(len(text), len(stop) - 1) + 1) if text.endswith(stop[:n]))
