"""Beam search: looks for the most likely text, not for the most likely next token."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

import fusewire as fw

from ..pretrained_model import PretrainedModel
from .compiled import compiled_for
from .next_tokens import Generation, logits_behind, prefill
from .sampling import Sampling


@dataclass(frozen=True)
class BeamSearch:
    """How the most likely text is looked for.

    The score of a text is the sum of the log probabilities of its new tokens, divided by their
    count to the power of `length_penalty`.

    Args:
        num_beams: the texts that are continued side by side for each prompt.
        length_penalty: above 0 favors long texts, below 0 short ones. Default 1.
        early_stopping: True ends when `num_beams` texts have ended. False goes on while the best
            beam would have a better score than the worst of them if it ended now; "never" while it
            may reach one at the greatest length. Default False.

    Raises:
        ArgumentError: an argument is outside of its range.
    """

    num_beams: int
    length_penalty: float = 1.0
    early_stopping: bool | Literal["never"] = False

    def __post_init__(self) -> None:
        if self.num_beams < 1:
            raise fw.ArgumentError(f"num_beams is {self.num_beams}", "it has to be at least 1")
        if self.early_stopping not in (True, False, "never"):
            raise fw.ArgumentError(f"early_stopping is {self.early_stopping!r}",
                                   'it is True, False or "never"')

    def score(self, total: float, length: int) -> float:
        """The score of a text, from the sum of its log probabilities. In float32, as the sum."""
        return float(np.float32(total) / np.float32(length ** self.length_penalty))


@dataclass
class Search:
    """The search for the continuation of one prompt.

    Args:
        rules: how to search.
        stop_tokens: tokens that end a text.
        most: the most tokens of a continuation.
    """

    rules: BeamSearch
    stop_tokens: Collection[int]
    most: int
    beams: list[list[int]] = field(default_factory=lambda: [[]])
    totals: list[float] = field(default_factory=lambda: [0.0])
    ended: list[tuple[float, list[int]]] = field(default_factory=list)
    is_done: bool = False

    def advance(self, totals: Sequence[float], parents: Sequence[int], tokens: Sequence[int]
                ) -> list[int]:
        """The beams that go on, as the numbers of those that they continue: (num_beams,).

        Args:
            totals: sums of log probabilities of the best continuations, in descending order.
            parents: the number of the beam that each of them continues.
            tokens: the token that each of them adds.
        """
        count, texts = self.rules.num_beams, [[*self.beams[i], t] for i, t in zip(parents, tokens)]
        stops = [token in self.stop_tokens for token in tokens]
        if not self.is_done:
            is_last = len(texts[0]) == self.most
            self._end([(self.rules.score(total, len(text)), text) for total, text, stop
                       in zip(totals[:count], texts, stops) if stop or is_last])
        live = [i for i, stop in enumerate(stops) if not stop][:count]
        self.beams, self.totals = [texts[i] for i in live], [totals[i] for i in live]
        self.is_done = self.is_done or not self._may_improve()
        return [parents[i] for i in live]

    def _end(self, texts: list[tuple[float, list[int]]]) -> None:
        in_order = sorted([*self.ended, *texts], key=lambda text: -text[0])
        self.ended = in_order[:self.rules.num_beams]

    def _may_improve(self) -> bool:
        if len(self.ended) < self.rules.num_beams:
            return True
        is_long = self.rules.early_stopping == "never" and self.rules.length_penalty > 0
        best = self.rules.score(self.totals[0], self.most if is_long else len(self.beams[0]))
        return self.rules.early_stopping is not True and best > self.ended[-1][0]


@fw.no_grad()
def search(model: PretrainedModel, rules: BeamSearch, input_ids: fw.Tensor,
           attention_mask: fw.Tensor | None, count: int, stop_tokens: Sequence[int],
           pad_token: int, compiled: bool) -> fw.Tensor:
    """The prompts and their best continuations: (n, length + new tokens). See `generate`."""
    n, beams, vocabulary = len(input_ids), rules.num_beams, model.config.vocab_size
    kept = max(2, 1 + len(set(stop_tokens))) * beams  # of which `beams` do not end the text
    if kept > vocabulary:
        raise fw.ArgumentError(f"{beams} beams need {kept} tokens, and the vocabulary has "
                               f"{vocabulary}", "use fewer beams")
    step = compiled_for(model, best_continuations) if compiled else best_continuations
    state = Generation(model, Sampling(), input_ids, count, copies=beams)
    texts = [Search(rules, set(stop_tokens), count) for _ in range(n)]
    device = input_ids.device
    state.cache.keep(fw.arange(n, device=device) * beams)
    best = prefill(state, step, attention_mask, fw.zeros((n, 1), device=device), kept)
    width = 1  # rows of the cache for each prompt
    while True:
        chosen = [text.advance(best[0][i].tolist(), (best[1][i] // vocabulary).tolist(),
                               (best[1][i] % vocabulary).tolist()) for i, text in enumerate(texts)]
        if all(text.is_done for text in texts) or len(texts[0].beams[0]) == count:
            return _padded(input_ids, [text.ended[0][1] for text in texts], pad_token)
        scores = fw.tensor([text.totals for text in texts], dtype=fw.float32, device=device)
        tokens = fw.tensor([[beam[-1]] for text in texts for beam in text.beams], device=device)
        rows = [width * i + parent for i, parents in enumerate(chosen) for parent in parents]
        best = step(state, tokens, None, scores, kept, fw.tensor(rows, device=device))
        width = beams


def best_continuations(state: Generation, tokens: fw.Tensor, attention_mask: fw.Tensor | None,
                       totals: fw.Tensor, kept: int, parents: fw.Tensor | None = None
                       ) -> tuple[fw.Tensor, fw.Tensor]:
    """The best sums of log probabilities, and beam * vocabulary + token of each: (n, kept) both.

    Args:
        state: the generation; its cache takes the tokens.
        tokens: (n * beams, length), the tokens behind those in the cache.
        attention_mask: (n * beams, length), 0 for padding. None: all ones.
        totals: (n, beams), sums of log probabilities so far.
        kept: how many continuations of each prompt to return.
        parents: (n * beams,), the text of the cache that each beam continues. Default its own.
    """
    if parents is not None:
        state.cache.fork(parents)
    logits = logits_behind(state.model, tokens, attention_mask, state.cache).astype(fw.float32)
    added = fw.log_softmax(logits, -1).reshape(*totals.shape, -1)
    sums = (totals[:, :, None] + added).reshape(totals.shape[0], -1)
    values, indices = fw.topk(sums, kept, axis=-1)
    return values, indices


def _padded(input_ids: fw.Tensor, texts: Sequence[Sequence[int]], pad_token: int) -> fw.Tensor:
    length = max(map(len, texts))
    rows = [[*text, *[pad_token] * (length - len(text))] for text in texts]
    return fw.concat([input_ids.astype(fw.int64), fw.tensor(rows, device=input_ids.device)], axis=1)
