"""Continues texts and chats: strings in, strings out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import fusewire as fw

from ..pretrained_model import PretrainedModel
from ..tokenizer import Tokenizer
from .generate import stream
from .growing_text import GrowingText

Prompt: TypeAlias = str | Sequence[Mapping[str, Any]]
"""A text, or the messages of a chat: see `Tokenizer.apply_chat_template`."""


def generate_text(model: PretrainedModel, tokenizer: Tokenizer, prompts: Sequence[Prompt],
                  max_new_tokens: int = 20, *, stop_strings: Sequence[str] = (),
                  stop_tokens: Sequence[int] | None = None, **options: Any) -> list[str]:
    """The continuation of each prompt, without the prompt and special tokens.

    Args:
        model: a decoder: see `generate`.
        tokenizer: of the model.
        prompts: texts, or chats as lists of messages. A chat is continued by an answer.
        max_new_tokens: the most tokens to add. Default 20.
        stop_strings: a text ends before one of these. Default none.
        stop_tokens: a text ends before one of these. Default None: the token that ends a text.
        options: further arguments of `stream`, such as `temperature`.

    Raises:
        ArgumentError: an argument is outside of its range, or a prompt has no tokens.
    """
    if isinstance(prompts, str):
        raise fw.ArgumentError("the prompts are one string", "pass a list: [prompt]")
    steps = _pieces(model, tokenizer, prompts, max_new_tokens, stop_strings, stop_tokens, options)
    return ["".join(pieces) for pieces in zip(*steps)]


def stream_text(model: PretrainedModel, tokenizer: Tokenizer, prompt: Prompt,
                max_new_tokens: int = 20, *, stop_strings: Sequence[str] = (),
                stop_tokens: Sequence[int] | None = None, **options: Any) -> Iterator[str]:
    """Yields the continuation of one prompt in pieces of whole characters. See `generate_text`."""
    steps = _pieces(model, tokenizer, [prompt], max_new_tokens, stop_strings, stop_tokens, options)
    return (piece for [piece] in steps if piece)


def _pieces(model: PretrainedModel, tokenizer: Tokenizer, prompts: Sequence[Prompt],
            max_new_tokens: int, stop_strings: Sequence[str], stop_tokens: Sequence[int] | None,
            options: Mapping[str, Any]) -> Iterator[list[str]]:
    """Yields a piece of each text for each token, and then those that were held back."""
    if isinstance(stop_strings, str) or not all(stop_strings):
        raise fw.ArgumentError(f"stop_strings is {stop_strings!r}",
                               "pass a list of strings, none of them empty")
    end = tokenizer.token_number("eos_token")
    ends = tuple(() if end is None else (end,)) if stop_tokens is None else tuple(stop_tokens)
    pad = tokenizer.token_number("pad_token") or end or 0
    numbers = [_numbers(tokenizer, prompt) for prompt in prompts]
    texts = [GrowingText(tokenizer, prompt, ends, stop_strings) for prompt in numbers]
    ids, mask = _left_padded(numbers, pad, next(model.parameters()).device)
    rows = stream(model, ids, max_new_tokens, attention_mask=mask, stop_tokens=ends, pad_token=pad,
                  **options)
    return _each_piece(rows, texts)


def _each_piece(rows: Iterator[fw.Tensor], texts: Sequence[GrowingText]) -> Iterator[list[str]]:
    for row in rows:
        yield [text.add(token) for text, token in zip(texts, row.tolist())]
        if all(text.has_ended for text in texts):
            break
    yield [text.rest() for text in texts]


def _numbers(tokenizer: Tokenizer, prompt: Prompt) -> list[int]:
    """The token numbers of a prompt. Those of a chat end where the answer begins."""
    if isinstance(prompt, str):
        numbers = tokenizer.encode(prompt)
    else:
        text = tokenizer.apply_chat_template(prompt, add_generation_prompt=True)
        numbers = tokenizer.encode(text, add_special_tokens=False)
    if not numbers:
        raise fw.ArgumentError("a prompt has no tokens", "begin with a word, or with a space")
    return numbers


def _left_padded(numbers: Sequence[Sequence[int]], pad: int, device: Any
                 ) -> tuple[fw.Tensor, fw.Tensor]:
    """Token numbers and their mask, each (n, length), with padding on the left."""
    length = max(map(len, numbers))
    ids = [[pad] * (length - len(row)) + list(row) for row in numbers]
    mask = [[0] * (length - len(row)) + [1] * len(row) for row in numbers]
    return fw.tensor(ids, device=device), fw.tensor(mask, device=device)
