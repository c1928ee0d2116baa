"""Tests the perplexity of a text under a language model, window by window."""

from __future__ import annotations

import numpy as np
import pytest
from small_models import LLAMA

import fusewire as fw
from fusewire import models
from fusewire.models.perplexity import windows


@pytest.mark.parametrize(("count", "context", "stride"), [
    (9, 4, 2), (9, 4, 4), (9, 4, 1), (4, 4, 2), (3, 4, 2), (1, 1, 1), (100, 7, 3)])
def test_each_token_is_predicted_once(count: int, context: int, stride: int) -> None:
    predicted = [i for begin, known in windows(count, context, stride)
                 for i in range(begin + known, min(begin + context, count))]
    assert predicted == list(range(count))


def test_a_text_that_fits_has_the_perplexity_of_its_likelihood() -> None:
    fw.manual_seed(0)
    model = models.from_config({"model_type": "llama", **LLAMA}).eval()
    tokens = np.random.default_rng(0).integers(1, 99, 20)
    loss = fw.nn.functional.cross_entropy(model(fw.tensor(tokens[None, :-1]))[0],
                                          fw.tensor(tokens[1:]))
    assert models.perplexity(model, tokens.tolist(), context=32) == pytest.approx(
        float(loss.exp()), rel=1e-5)
    assert models.perplexity(model, tokens, context=8, stride=8) == pytest.approx(float(np.exp(
        sum(float(fw.nn.functional.cross_entropy(
            model(fw.tensor(tokens[None, b:b + 8]))[0, k:], fw.tensor(tokens[b + 1 + k:b + 9]),
            reduction="sum")) for b, k in ((0, 0), (8, 0), (11, 5))) / 19)), rel=1e-5)


def test_wrong_numbers_are_errors() -> None:
    model = models.from_config({"model_type": "llama", **LLAMA})
    with pytest.raises(fw.ArgumentError, match="tokens of shape"):
        models.perplexity(model, [1], context=4)
    with pytest.raises(fw.ArgumentError, match="context is 4 and stride 5"):
        models.perplexity(model, [1, 2], context=4, stride=5)
