"""Measures how well a language model predicts a text that is longer than its context."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import fusewire as fw
from fusewire.metrics import Perplexity

from .generation.compiled import compiled_for
from .pretrained_model import PretrainedModel

_UNCOUNTED = -100


@fw.no_grad()
def perplexity(model: PretrainedModel, tokens: Sequence[int] | fw.Tensor, context: int,
               stride: int | None = None) -> float:
    """The exponential of the mean negative log-likelihood of a text, of all tokens but the first.

    A window of `context` tokens moves over the text. Each token is predicted once, from at least
    `context` - `stride` tokens before it, or from all that there are.

    Args:
        model: a language model, in eval mode: tokens (1, length) to logits.
        tokens: the text, at least two token numbers.
        context: the most tokens that the model sees.
        stride: how far the window moves, from 1 to `context`. Default None: half of `context`.

    Raises:
        ArgumentError: there are less than two tokens, or a number is outside of its range.
    """
    text = fw.asarray(tokens, dtype=fw.int64)
    stride = max(context // 2, 1) if stride is None else stride
    if text.ndim != 1 or text.size < 2:
        raise fw.ArgumentError(f"perplexity: tokens of shape {text.shape}",
                               "pass the numbers of one text, two or more")
    if not 1 <= stride <= context:
        raise fw.ArgumentError(f"perplexity: context is {context} and stride {stride}",
                               "the stride is from 1 to the context")
    metric, logits_of = Perplexity(_UNCOUNTED), compiled_for(model, _logits, dynamic=False)
    for begin, known in windows(text.size - 1, context, stride):
        targets = text[begin + 1:begin + context + 1]
        inputs = text[begin:begin + targets.size]
        uncounted = fw.arange(targets.size, device=targets.device) < known
        metric.update(logits_of(model, inputs[None])[0],
                      fw.where(uncounted, _UNCOUNTED, targets))
    return float(metric.compute())


def windows(count: int, context: int, stride: int) -> Iterator[tuple[int, int]]:
    """The windows of `count` predictions: where each begins, and how many of its predictions the
    windows before it have made. All but the only one are `context` long."""
    made = 0
    while made < count:
        end = min(max(made + stride, context), count)
        begin = max(end - context, 0)
        yield begin, made - begin
        made = end


def _logits(model: PretrainedModel, tokens: fw.Tensor) -> Any:
    return model(tokens)
