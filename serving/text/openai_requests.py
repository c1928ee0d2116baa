"""Reads the requests of OpenAI's interface."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...models.generation.sampling import Sampling
from ...models.tokenizer import Tokenizer
from ..base.failures import INVALID, RequestError
from .continuation import Choice, Continuation
from .generator import Generator

_MOST_CHOICES, _MOST_STOPS, _MOST_LOGPROBS = 16, 4, 20
_NOT_SUPPORTED = {"tools": [], "functions": [], "response_format": {"type": "text"},
                  "suffix": "", "best_of": 1, "audio": None, "modalities": ["text"]}
"""Fields that would change an answer, with the value that changes nothing."""


@dataclass(frozen=True)
class TextRequest:
    """A request for continuations.

    Args:
        prompts: token numbers of each prompt.
        texts: the continuations, n of each prompt one after the other.
        stream: True sends pieces as they are chosen.
        with_usage: True ends a stream with the counts of tokens.
        echo: texts that stand before the continuations, one a prompt.
    """

    prompts: Sequence[Sequence[int]]
    texts: Sequence[Continuation]
    stream: bool
    with_usage: bool
    echo: Sequence[str]


def read_chat(values: Mapping[str, Any], generator: Generator) -> TextRequest:
    """The request of a chat.

    RequestError names the fault; a FusewireError, with its template or its characters.
    """
    messages = values.get("messages")
    if not isinstance(messages, list) or not messages or not all(
            isinstance(m, dict) and isinstance(m.get("role"), str) for m in messages):
        raise RequestError(INVALID, f"messages is {messages!r:.60}; it has to be a list of "
                           "objects with role and content")
    messages = [{**m, "content": _content(m.get("content"))} for m in messages]
    text = generator.tokenizer.apply_chat_template(messages, add_generation_prompt=True)
    prompt = generator.tokenizer.encode(text, add_special_tokens=False)
    most = number(values, "max_completion_tokens", number(values, "max_tokens", None, int, 1), int,
                  1)
    wanted = number(values, "top_logprobs", 0, int, 0, _MOST_LOGPROBS)
    logprobs = wanted if flag(values, "logprobs") else None
    return _request(values, generator, [prompt], most, logprobs, [""])


def read_completion(values: Mapping[str, Any], generator: Generator) -> TextRequest:
    """The request of completions. RequestError names the fault."""
    prompts = read_texts(values.get("prompt"), generator.tokenizer, generator.vocabulary, "prompt")
    logprobs = number(values, "logprobs", None, int, 0, _MOST_LOGPROBS)
    echo = [generator.tokenizer.decode(p, skip_special_tokens=True) if flag(values, "echo") else ""
            for p in prompts]
    most = number(values, "max_tokens", 16, int, 1)
    return _request(values, generator, prompts, most, logprobs, echo)


def read_texts(value: Any, tokenizer: Tokenizer, vocabulary: int, name: str) -> list[list[int]]:
    """Token numbers of one text or of several, each a string or a list of numbers below
    `vocabulary`."""
    several = value if isinstance(value, list) and value and not _is_numbers(value) else [value]
    if len(several) > 256 or not all(isinstance(v, str) or _is_numbers(v) for v in several):
        raise RequestError(INVALID, f"{name} is {value!r:.60}; it has to be a string, a list of "
                           "token numbers, or a list of up to 256 of these")
    for token in (token for v in several if not isinstance(v, str) for token in v):
        if not 0 <= token < vocabulary:
            raise RequestError(INVALID, f"token {token!s:.60} is not among the {vocabulary} of "
                               "the model")
    return [tokenizer.encode(v) if isinstance(v, str) else list(v) for v in several]


def _is_numbers(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(type(v) is int for v in value)


def _content(content: Any) -> str:
    """The text of a message, which may come in parts."""
    if content is None:
        return ""
    parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
    if not isinstance(parts, list) or not all(
            isinstance(p, dict) and p.get("type") == "text" and isinstance(p.get("text"), str)
            for p in parts):
        raise RequestError(INVALID, f"a content is {content!r:.60}; it has to be text")
    return "".join(part["text"] for part in parts)


def _request(values: Mapping[str, Any], generator: Generator, prompts: Sequence[Sequence[int]],
             most: int | None, logprobs: int | None, echo: Sequence[str]) -> TextRequest:
    for name, nothing in _NOT_SUPPORTED.items():
        if values.get(name) not in (None, nothing):
            raise RequestError(INVALID, f"{name} is not supported")
    n, stops = number(values, "n", 1, int, 1, _MOST_CHOICES), _stops(values)
    seed = number(values, "seed", None, int, -1 << 63, 1 << 63)
    first = secrets.randbits(60) if seed is None else seed % (1 << 64)
    texts = [generator.continuation(prompt, most, _choice(values, first + i, logprobs), stops)
             for prompt in prompts for i in range(n)]
    options = values.get("stream_options") or {}
    if not isinstance(options, dict):
        raise RequestError(INVALID, f"stream_options is {options!r:.60}; it has to be an object")
    return TextRequest(prompts, texts, flag(values, "stream"), flag(options, "include_usage"),
                       echo)


def _choice(values: Mapping[str, Any], seed: int, logprobs: int | None) -> Choice:
    sampling = Sampling(
        number(values, "temperature", 1.0, float, 0, 2),
        number(values, "top_k", None, int, 1) if values.get("top_k") not in (0, -1) else None,
        number(values, "top_p", None, float, 1e-9, 1), number(values, "min_p", None, float, 0, 1)
        or None)
    return Choice(sampling, seed, number(values, "presence_penalty", 0.0, float, -2, 2),
                  number(values, "frequency_penalty", 0.0, float, -2, 2), _bias(values), logprobs)


def _bias(values: Mapping[str, Any]) -> dict[int, float]:
    given = values.get("logit_bias") or {}
    if not isinstance(given, dict) or len(given) > 1024 or not all(
            key.isdecimal() and len(key) < 10 and type(value) in (int, float) and
            -100 <= value <= 100 for key, value in given.items()):
        raise RequestError(INVALID, f"logit_bias is {given!r:.60}; it has to be an object of token "
                           "numbers and biases from -100 to 100")
    return {int(key): float(value) for key, value in given.items()}


def _stops(values: Mapping[str, Any]) -> list[str]:
    given = values.get("stop") or []
    stops = [given] if isinstance(given, str) else given
    if not isinstance(stops, list) or len(stops) > _MOST_STOPS or not all(
            isinstance(stop, str) and 0 < len(stop) <= 1000 for stop in stops):
        raise RequestError(INVALID, f"stop is {given!r:.60}; it has to be a string or a list of up "
                           f"to {_MOST_STOPS}")
    return stops


def flag(values: Mapping[str, Any], name: str) -> bool:
    """A boolean field. RequestError if it is something else."""
    value = values.get(name)
    if value is not None and type(value) is not bool:
        raise RequestError(INVALID, f"{name} is {value!r:.60}; it has to be true or false")
    return bool(value)


def number(values: Mapping[str, Any], name: str, default: Any, kind: type, least: float,
           most: float = 1 << 31) -> Any:
    """A field with a number. RequestError if it is something else, or outside of its range."""
    value = values.get(name)
    if value is None:
        return default
    if type(value) not in ((int,) if kind is int else (int, float)) or not least <= value <= most:
        raise RequestError(INVALID, f"{name} is {value!r:.60}; it has to be a number from {least} "
                           f"to {most}")
    return kind(value)
