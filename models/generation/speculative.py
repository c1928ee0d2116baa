"""Speculative decoding: a small model proposes tokens, and the model confirms several at once.

The rule of acceptance keeps the distribution of the model: Leviathan et al., arXiv 2211.17192. At
temperature 0 a distribution has one token, and the rule keeps exactly the tokens of the model. All
texts of a batch go on by the same number of tokens, the fewest that are confirmed for one of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import fusewire as fw

from ..pretrained_model import PretrainedModel
from .compiled import Function, compiled_for
from .next_tokens import Generation, logits_behind, next_tokens, prefill
from .sampling import Sampling, draw


class Speculation:
    """The state of a generation by two models.

    Args:
        model: the decoder.
        draft: a smaller decoder of the same vocabulary.
        sampling: how tokens are chosen.
        input_ids: (n, length), the prompts.
        new_tokens: the most tokens to add.
        ahead: how many tokens the draft proposes at a time.

    Raises:
        ArgumentError: the models do not fit each other, or an argument is outside of its range.
    """

    def __init__(self, model: PretrainedModel, draft: PretrainedModel, sampling: Sampling,
                 input_ids: fw.Tensor, new_tokens: int, ahead: int) -> None:
        sizes = model.config.vocab_size, draft.config.vocab_size
        if sizes[0] != sizes[1]:
            raise fw.ArgumentError(f"the model has {sizes[0]} tokens and the draft {sizes[1]}",
                                   "use a draft of the same family, with the same tokenizer")
        if ahead < 1:
            raise fw.ArgumentError(f"draft_tokens is {ahead}", "it has to be at least 1")
        if sampling.repetition_penalty != 1:
            raise fw.ArgumentError("repetition_penalty does not go with a draft",
                                   "leave out one of them")
        self.ahead = ahead
        self.target = Generation(model, sampling, input_ids, new_tokens, ahead)
        self.draft = Generation(draft, sampling, input_ids, new_tokens, ahead)


def speculate(state: Speculation, attention_mask: fw.Tensor | None, count: int, compiled: bool
              ) -> Iterator[fw.Tensor]:
    """Yields `count` times the next token of each text, (n,).

    Args:
        state: the generation.
        attention_mask: (n, length) of the prompts.
        count: tokens to add.
        compiled: False runs the models eagerly.
    """
    model, draft = state.target.model, state.draft.model
    run = compiled_for if compiled else _as_it_is
    step, propose, check = run(model, next_tokens), run(draft, proposal), run(model, confirm)
    tokens = prefill(state.target, step, attention_mask)
    prefill(state.draft, run(draft, next_tokens), attention_mask)
    yield tokens
    left = count - 1
    while left > state.ahead:  # so that no token is proposed behind the last one
        proposed = [propose(state.draft, tokens)]
        for _ in range(state.ahead):  # the last call only adds its token to the cache
            proposed.append(propose(state.draft, proposed[-1][0]))
        new, confirmed = check(state, tokens, *zip(*proposed[:-1]))
        for i in range(int(confirmed) + 1):
            tokens = new[:, i]
            yield tokens
            left -= 1
    for _ in range(left):
        tokens = step(state.target, tokens[:, None])
        yield tokens


def _as_it_is(model: PretrainedModel, function: Function) -> Any:
    return function


def proposal(state: Generation, tokens: fw.Tensor) -> tuple[fw.Tensor, fw.Tensor]:
    """The token (n,) that a draft adds, and the probabilities (n, vocabulary) it is drawn from.

    Args:
        state: the generation of the draft; its cache takes the tokens.
        tokens: (n,), the tokens behind those in the cache.
    """
    logits = logits_behind(state.model, tokens[:, None], None, state.cache)
    probabilities = state.sampling.probabilities(logits)
    return draw(fw.log(probabilities)), probabilities


def confirm(state: Speculation, tokens: fw.Tensor, proposals: tuple[fw.Tensor, ...],
            likely: tuple[fw.Tensor, ...]) -> tuple[fw.Tensor, fw.Tensor]:
    """The tokens that follow, (n, ahead + 1), and the count () of proposals that are confirmed.

    Tokens behind the one that follows the confirmed ones have no meaning. Both caches lose them.

    Args:
        state: the generation; its cache takes the tokens.
        tokens: (n,), the tokens behind those in the cache.
        proposals: the tokens of the draft, each (n,).
        likely: the probabilities that they were drawn from, each (n, vocabulary).
    """
    proposed = fw.stack(list(proposals), axis=1)
    given = fw.concat([tokens[:, None], proposed], axis=1)
    logits = state.target.model(given, None, state.target.cache)
    n, length, vocabulary = logits.shape
    wanted = state.target.sampling.probabilities(logits.reshape(n * length, vocabulary))
    new, confirmed = accept(wanted.reshape(n, length, vocabulary), fw.stack(list(likely), axis=1),
                            proposed)
    for generation in (state.target, state.draft):
        generation.cache.rewind(state.ahead - confirmed)
    return new, confirmed


def accept(wanted: fw.Tensor, likely: fw.Tensor, proposed: fw.Tensor
           ) -> tuple[fw.Tensor, fw.Tensor]:
    """The tokens that follow, (n, ahead + 1), and the count () of proposals that are confirmed.

    A proposal is confirmed with the probability wanted / likely. The token behind the confirmed
    ones is drawn from what the draft lacks, max(wanted - likely, 0).

    Args:
        wanted: (n, ahead + 1, vocabulary), probabilities of the model.
        likely: (n, ahead, vocabulary), probabilities of the draft.
        proposed: (n, ahead), tokens that were drawn from `likely`.
    """
    ahead, at = proposed.shape[1], proposed[:, :, None]
    ratios = fw.rand(*proposed.shape, device=proposed.device) * \
        fw.take_along_axis(likely, at, axis=-1)[..., 0]
    is_good = ratios < fw.take_along_axis(wanted[:, :ahead], at, axis=-1)[..., 0]
    counts = fw.cumulative_prod(is_good.astype(fw.int64), axis=1).sum(axis=1)
    confirmed = counts.min()
    present = wanted[:, confirmed]
    lacking = fw.maximum(present - _one_more(likely)[:, confirmed], 0)
    # Rounding may leave nothing. Then the two distributions are the same.
    lacking = fw.where(lacking.sum(axis=-1, keepdims=True) > 0, lacking, present)
    padded = _one_more(proposed)
    following = fw.where(counts > confirmed, padded[:, confirmed], draw(fw.log(lacking)))
    is_before = fw.arange(ahead + 1, device=proposed.device) < confirmed
    return fw.where(is_before, padded, following[:, None]), confirmed


def _one_more(x: fw.Tensor) -> fw.Tensor:
    """`x` (n, ahead, ...) with zeros behind it: (n, ahead + 1, ...)."""
    return fw.concat([x, fw.zeros_like(x[:, :1])], axis=1)
