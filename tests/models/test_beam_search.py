"""Beam search finds the most likely text, by one recording for all lengths."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from small_models import LLAMA

import fusewire as fw
from fusewire import models
from fusewire.models.generation.beam_search import best_continuations
from fusewire.models.generation.compiled import compiled_for
from fusewire.models.text.llama import Llama

PROMPTS = fw.tensor([[5, 6, 7, 8], [0, 0, 9, 10]])
MASK = fw.tensor([[1, 1, 1, 1], [0, 0, 1, 1]])


def model(vocabulary: int = 99, seed: int = 0) -> Any:
    fw.manual_seed(seed)
    return Llama.from_config({**LLAMA, "vocab_size": vocabulary}).eval()


def most_likely(of: Any, prompt: list[int], vocabulary: int) -> tuple[int, ...]:
    """The three tokens with the greatest sum of log probabilities behind the prompt."""
    texts = list(itertools.product(range(vocabulary), repeat=3))
    logits = of(fw.tensor([[*prompt, *text] for text in texts]))[:, len(prompt) - 1:-1]
    chosen = fw.take_along_axis(fw.log_softmax(logits, -1), fw.tensor(texts)[:, :, None], axis=-1)
    return texts[int(chosen.sum(axis=(1, 2)).argmax())]


@pytest.mark.parametrize("seed", [4, 8, 10, 14, 15, 25])
def test_many_beams_find_the_most_likely_text(seed: int) -> None:
    """The most likely tokens, one by one, give another text."""
    of = model(vocabulary=12, seed=seed)
    greedy, found = (models.generate(of, fw.tensor([[5, 6, 7]]), 3, num_beams=beams).tolist()[0]
                     for beams in (1, 6))
    assert tuple(found[3:]) == most_likely(of, [5, 6, 7], 12) != tuple(greedy[3:])


def test_each_prompt_has_beams_of_its_own() -> None:
    of = model()
    both = models.generate(of, PROMPTS, 8, attention_mask=MASK, num_beams=3, stop_tokens=[16])
    for row, prompt in zip(both.tolist(), ([5, 6, 7, 8], [9, 10])):
        alone = models.generate(of, fw.tensor([prompt]), 8, num_beams=3, stop_tokens=[16])
        new = alone.tolist()[0][len(prompt):]
        assert row[4:4 + len(new)] == new and set(row[4 + len(new):]) <= {0}


def test_compiled_beams_need_three_recordings() -> None:
    """One for the prompts, one for the first step, and one for all others."""
    of = model()
    compiled, eager = (models.generate(of, PROMPTS, 16, attention_mask=MASK, num_beams=3,
                                       compiled=how).tolist() for how in (True, False))
    models.generate(of, PROMPTS, 16, attention_mask=MASK, num_beams=3)
    stats = compiled_for(of, best_continuations).stats
    assert compiled == eager
    assert (stats.recordings, stats.fallbacks) == (3, 0)


@pytest.mark.parametrize(("options", "words"), [
    ({"num_beams": 0}, "num_beams is 0"), ({"num_beams": 60}, "60 beams need 120 tokens"),
    ({"num_beams": 2, "early_stopping": "soon"}, "early_stopping is 'soon'"),
    ({"num_beams": 2, "temperature": 1.0}, "another way to choose tokens"),
    ({"num_beams": 2, "max_new_tokens": 0}, "max_new_tokens is 0"),
])
def test_bad_arguments_are_errors(options: dict[str, Any], words: str) -> None:
    with pytest.raises(fw.ArgumentError, match=words):
        models.generate(model(), PROMPTS, **options)
