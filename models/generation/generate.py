"""Generates texts: a prefill of the prompts, then a compiled step for each token."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

import fusewire as fw

from ..pretrained_model import PretrainedModel
from .beam_search import BeamSearch, search
from .compiled import compiled_for
from .next_tokens import Generation, next_tokens, one_by_one
from .sampling import Sampling
from .speculative import Speculation, speculate


def generate(model: PretrainedModel, input_ids: fw.Tensor, max_new_tokens: int = 20, *,
             attention_mask: fw.Tensor | None = None, temperature: float = 0.0,
             top_k: int | None = None, top_p: float | None = None, min_p: float | None = None,
             repetition_penalty: float = 1.0, stop_tokens: Sequence[int] = (),
             pad_token: int = 0, seed: int | None = None,
             num_beams: int = 1, length_penalty: float = 1.0,
             early_stopping: bool | Literal["never"] = False,
             draft: PretrainedModel | None = None, draft_tokens: int = 4,
             compiled: bool = True) -> fw.Tensor:
    """The prompts and their continuations: (n, length + new tokens), int64.

    Args:
        model: a decoder with a cache, such as `GPT2` or `Llama`, in eval mode.
        input_ids: (n, length), the prompts; shorter ones are padded on the left.
        max_new_tokens: the most tokens to add. Fewer are added if all texts end before.
        attention_mask: (n, length), 1 for a token and 0 for padding. Default all ones.
        temperature, top_k, top_p, min_p, repetition_penalty: see `Sampling`.
        stop_tokens: a text ends behind one of these. Default none.
        pad_token: fills the rows of texts that have ended. Default 0.
        seed: of the draws. Default None: the default generator continues.
        num_beams, length_penalty, early_stopping: see `BeamSearch`. Default 1 beam: no search.
        draft: a small model of the same vocabulary, which proposes tokens. The model confirms
            several at once, so that the texts are the same and come sooner. Default None.
        draft_tokens: how many tokens the draft proposes at a time. Default 4.
        compiled: False runs the model eagerly. Default True.

    Raises:
        ArgumentError: an argument is outside of its range, or a prompt is empty.
    """
    if num_beams != 1:
        _check(model, input_ids, max_new_tokens)
        if temperature or repetition_penalty != 1 or draft is not None:
            raise fw.ArgumentError(f"num_beams is {num_beams} with another way to choose tokens",
                                   "leave out temperature, repetition_penalty and draft")
        beams = BeamSearch(num_beams, length_penalty, early_stopping)
        return search(model, beams, input_ids, attention_mask, max_new_tokens, stop_tokens,
                      pad_token, compiled)
    new = list(stream(
        model, input_ids, max_new_tokens, attention_mask=attention_mask, temperature=temperature,
        top_k=top_k, top_p=top_p, min_p=min_p, repetition_penalty=repetition_penalty,
        stop_tokens=stop_tokens, pad_token=pad_token, seed=seed, draft=draft,
        draft_tokens=draft_tokens, compiled=compiled))
    return fw.concat([input_ids.astype(fw.int64), *[tokens[:, None] for tokens in new]], axis=1)


def stream(model: PretrainedModel, input_ids: fw.Tensor, max_new_tokens: int = 20, *,
           attention_mask: fw.Tensor | None = None, temperature: float = 0.0,
           top_k: int | None = None, top_p: float | None = None, min_p: float | None = None,
           repetition_penalty: float = 1.0, stop_tokens: Sequence[int] = (), pad_token: int = 0,
           seed: int | None = None, draft: PretrainedModel | None = None, draft_tokens: int = 4,
           compiled: bool = True) -> Iterator[fw.Tensor]:
    """Yields the next token of each text, (n,), as soon as it is chosen. See `generate`."""
    sampling = Sampling(temperature, top_k, top_p, min_p, repetition_penalty)
    _check(model, input_ids, max_new_tokens)
    if seed is not None:
        fw.manual_seed(seed)
    if draft is None:
        state = Generation(model, sampling, input_ids, max_new_tokens)
        step = compiled_for(model, next_tokens) if compiled else next_tokens
        rows = one_by_one(state, step, attention_mask, max_new_tokens)
    else:
        _check(draft, input_ids, max_new_tokens)
        ahead = Speculation(model, draft, sampling, input_ids, max_new_tokens, draft_tokens)
        rows = speculate(ahead, attention_mask, max_new_tokens, compiled)
    return _until_stopped(rows, fw.tensor(list(stop_tokens), dtype=fw.int64,
                                          device=input_ids.device), pad_token)


def _check(model: PretrainedModel, input_ids: fw.Tensor, max_new_tokens: int) -> None:
    if not hasattr(model, "new_cache"):
        raise fw.ArgumentError(f"{type(model).__name__} does not continue texts",
                               "use a decoder, such as GPT2 or Llama")
    if input_ids.ndim != 2 or 0 in input_ids.shape:
        raise fw.ShapeError(f"input_ids have the shape {input_ids.shape}",
                            "they are (texts, length), with at least one token: tokens[None]")
    if max_new_tokens < 1:
        raise fw.ArgumentError(f"max_new_tokens is {max_new_tokens}", "it has to be at least 1")


def _until_stopped(rows: Iterator[fw.Tensor], stop_tokens: fw.Tensor, pad_token: int
                   ) -> Iterator[fw.Tensor]:
    """Yields rows of tokens, (n,), with padding for texts that have ended, until all have."""
    has_ended = None
    while (tokens := _next(rows)) is not None:
        if has_ended is not None:
            tokens = fw.where(has_ended, pad_token, tokens)
        yield tokens
        if stop_tokens.size:
            stopped = fw.isin(tokens, stop_tokens)
            has_ended = stopped if has_ended is None else has_ended | stopped
            if bool(has_ended.all()):
                return


@fw.no_grad()
def _next(rows: Iterator[fw.Tensor]) -> fw.Tensor | None:
    """The next row; None at the end. What the caller does between rows keeps its gradients."""
    return next(rows, None)
