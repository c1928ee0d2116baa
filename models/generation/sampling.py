"""Chooses the next token of each text from the logits of a model."""

from __future__ import annotations

from dataclasses import dataclass

import fusewire as fw


@dataclass(frozen=True)
class Sampling:
    """How the next token is chosen. Each step applies to the result of the ones before it.

    Args:
        temperature: 0 takes the most likely token; above, logits are divided by it and a token is
            drawn. Default 0.
        top_k: draws from the k most likely tokens. Default None: all.
        top_p: draws from the most likely tokens, the fewest whose probabilities add up to at least
            this: Holtzman et al., arXiv 1904.09751. Default None: all.
        min_p: draws from tokens at least this many times as likely as the most likely one. Default
            None: all.
        repetition_penalty: positive logits of tokens in the text are divided by it, negative ones
            multiplied: Keskar et al., arXiv 1909.05858. Default 1: no change.

    Raises:
        ArgumentError: a number is outside of its range.
    """

    temperature: float = 0.0
    top_k: int | None = None
    top_p: float | None = None
    min_p: float | None = None
    repetition_penalty: float = 1.0

    def __post_init__(self) -> None:
        _check("temperature", self.temperature, self.temperature >= 0, "at least 0")
        _check("top_k", self.top_k, self.top_k is None or self.top_k >= 1, "at least 1")
        for name, share in (("top_p", self.top_p), ("min_p", self.min_p)):
            _check(name, share, share is None or 0 < share <= 1, "above 0 and at most 1")
        _check("repetition_penalty", self.repetition_penalty, self.repetition_penalty > 0,
               "above 0")

    def choose(self, logits: fw.Tensor, is_used: fw.Tensor | None = None) -> fw.Tensor:
        """The next token of each text: (n,), int64.

        Args:
            logits: (n, vocabulary).
            is_used: (n, vocabulary), True for the tokens of the text. Only the repetition penalty
                reads it.
        """
        logits = logits.astype(fw.float32)
        if is_used is not None and self.repetition_penalty != 1:
            logits = penalize(logits, is_used, self.repetition_penalty)
        if self.temperature == 0:
            return logits.argmax(axis=-1)
        return draw(self.limit(logits / self.temperature))

    def probabilities(self, logits: fw.Tensor) -> fw.Tensor:
        """The probabilities that the next token is drawn from: (n, vocabulary), float32.

        At temperature 0, the most likely token has the probability 1. The repetition penalty is
        not applied.

        Args:
            logits: (n, vocabulary).
        """
        logits = logits.astype(fw.float32)
        if self.temperature == 0:
            numbers = fw.arange(logits.shape[-1], device=logits.device)
            return (numbers == logits.argmax(axis=-1, keepdims=True)).astype(fw.float32)
        return fw.softmax(self.limit(logits / self.temperature), -1)

    def limit(self, logits: fw.Tensor) -> fw.Tensor:
        """The logits, minus infinity for tokens that are not to be drawn."""
        if self.top_k is not None and self.top_k < logits.shape[-1]:
            logits = keep_at_least(logits, fw.topk(logits, self.top_k, axis=-1)[0][:, -1:])
        if self.top_p is not None:
            logits = keep_at_least(logits, least_of_nucleus(logits, self.top_p))
        if self.min_p is not None:
            probabilities = fw.softmax(logits, -1)
            most = probabilities.max(axis=-1, keepdims=True)
            logits = fw.where(probabilities >= self.min_p * most, logits, -fw.inf)
        return logits


def _check(name: str, value: object, is_valid: bool, allowed: str) -> None:
    if not is_valid:
        raise fw.ArgumentError(f"{name} is {value!r}", f"it has to be {allowed}")


def penalize(logits: fw.Tensor, is_used: fw.Tensor, penalty: float) -> fw.Tensor:
    """The logits (n, vocabulary) with those of used tokens made less likely."""
    return fw.where(is_used, fw.where(logits > 0, logits / penalty, logits * penalty), logits)


def keep_at_least(logits: fw.Tensor, least: fw.Tensor) -> fw.Tensor:
    """The logits (n, vocabulary), minus infinity below `least` (n, 1)."""
    return fw.where(logits >= least, logits, -fw.inf)


def least_of_nucleus(logits: fw.Tensor, top_p: float | fw.Tensor) -> fw.Tensor:
    """The smallest logit among the fewest tokens whose probabilities add up to `top_p`: (n, 1).

    Args:
        logits: (n, vocabulary).
        top_p: a number, or one for each row, (n, 1).
    """
    in_order = fw.sort(logits, axis=-1, descending=True)
    before = fw.cumulative_sum(fw.softmax(in_order, -1), axis=-1) - fw.softmax(in_order, -1)
    return fw.where(before < top_p, in_order, fw.inf).min(axis=-1, keepdims=True)


def draw(logits: fw.Tensor) -> fw.Tensor:
    """A token of each row of (n, vocabulary), drawn by the probabilities softmax(logits): (n,).

    The maximum of the logits plus Gumbel noise has this distribution.
    """
    uniform = fw.rand(*logits.shape, device=logits.device)
    uniform = fw.maximum(uniform, fw.finfo(fw.float32).smallest_normal)
    return (logits - fw.log(-fw.log(uniform))).argmax(axis=-1)
