"""Texts are continued as the rules of sampling say, compiled as eagerly, by few recordings."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from small_models import GPT2, LLAMA

import fusewire as fw
from fusewire import models
from fusewire.models import Sampling
from fusewire.models.generation.compiled import compiled_for
from fusewire.models.generation.next_tokens import next_tokens, parts
from fusewire.models.text.gpt2 import GPT2 as GPT2Model
from fusewire.models.text.llama import Llama, Mistral

MAKERS: dict[str, Any] = {
    "GPT-2": lambda: GPT2Model(GPT2), "Llama": lambda: Llama.from_config(LLAMA),
    "sliding window": lambda: Mistral.from_config({**LLAMA, "sliding_window": 4}),
}
PROMPTS = fw.tensor([[5, 6, 7, 8], [0, 0, 9, 10]])
MASK = fw.tensor([[1, 1, 1, 1], [0, 0, 1, 1]])


def model(name: str = "Llama") -> Any:
    fw.manual_seed(0)
    return MAKERS[name]().eval()


def without_cache(of: Any, prompt: list[int], count: int) -> list[int]:
    """The prompt, continued by running the whole text for each token."""
    tokens = list(prompt)
    for _ in range(count):
        tokens.append(int(of(fw.tensor([tokens]))[0, -1].argmax()))
    return tokens


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("name", MAKERS)
def test_greedy_tokens_are_those_of_the_whole_text(name: str, compiled: bool) -> None:
    of = model(name)
    got = models.generate(of, PROMPTS, 8, attention_mask=MASK, compiled=compiled).tolist()
    assert got[0] == without_cache(of, [5, 6, 7, 8], 8)
    assert got[1][2:] == without_cache(of, [9, 10], 8)


def test_a_growing_text_needs_no_recording() -> None:
    of = model()
    models.generate(of, PROMPTS, 24)
    few = compiled_for(of, next_tokens).stats
    models.generate(of, PROMPTS, 24)
    again = compiled_for(of, next_tokens).stats
    assert (few.recordings, again.recordings, again.fallbacks) == (2, 2, 0)


def test_prompts_of_all_lengths_need_few_recordings() -> None:
    """Two for parts of prompts, and two for single tokens: sizes are symbols in one of each."""
    of, rng = model(), np.random.default_rng(0)
    for length in (3, 40, 150, 21):
        prompt = rng.integers(0, 90, length).tolist()
        got = models.generate(of, fw.tensor([prompt]), 3).tolist()[0]
        assert got == without_cache(of, prompt, 3)
    stats = compiled_for(of, next_tokens).stats
    assert stats.recordings <= 4 and not stats.fallbacks


@pytest.mark.parametrize("length", [1, 15, 16, 17, 255, 256, 257, 600])
def test_parts_of_prompts_have_few_sizes(length: int) -> None:
    ids = fw.arange(2 * length).reshape(2, length) + 1
    mask = (ids % 5 > 0).astype(fw.int64)
    tokens, present = (fw.concat(part, axis=1).numpy() for part in zip(*parts(ids, mask)))
    assert {p.shape[1] for p, _ in parts(ids, mask)} <= {16, 32, 64, 128, 256}
    padding = tokens.shape[1] - length
    np.testing.assert_array_equal(tokens[:, padding:], ids.numpy())
    np.testing.assert_array_equal(present, np.pad(mask.numpy(), ((0, 0), (padding, 0))))


def test_a_seed_repeats_the_draws() -> None:
    of = model()
    draws = [models.generate(of, PROMPTS, 12, temperature=1.0, seed=seed, compiled=how).tolist()
             for seed, how in ((1, True), (1, True), (1, False), (2, True))]
    assert draws[0] == draws[1] == draws[2] != draws[3]


def test_a_text_ends_behind_a_stop_token() -> None:
    of = model()
    plain = models.generate(of, PROMPTS[:1], 10).tolist()[0][4:]
    stop = plain[3]
    end = plain.index(stop) + 1
    got = models.generate(of, PROMPTS[:1], 10, stop_tokens=[stop]).tolist()[0][4:]
    assert got == plain[:end]
    both = models.generate(of, PROMPTS, 10, attention_mask=MASK, stop_tokens=[stop], pad_token=98)
    assert set(both.tolist()[0][4 + end:]) <= {98}


def test_stream_yields_the_tokens_of_generate() -> None:
    of = model()
    rows = list(models.stream(of, PROMPTS, 5))
    assert fw.concat([PROMPTS, fw.stack(rows, axis=1)], axis=1).tolist() == \
        models.generate(of, PROMPTS, 5).tolist()


LOGITS = np.log(np.array([[0.5, 0.25, 0.125, 0.125 - 1e-3, 1e-3]], np.float32))


@pytest.mark.parametrize(("sampling", "drawn"), [
    (Sampling(1.0), {0, 1, 2, 3, 4}), (Sampling(1.0, top_k=2), {0, 1}),
    (Sampling(1.0, top_p=0.5), {0}), (Sampling(1.0, top_p=0.51), {0, 1}),
    (Sampling(1.0, top_p=0.76), {0, 1, 2}), (Sampling(1.0, min_p=0.4), {0, 1}),
    (Sampling(1.0, top_k=9), {0, 1, 2, 3, 4}), (Sampling(0.0), {0}),
])
def test_only_some_tokens_are_drawn(sampling: Sampling, drawn: set[int]) -> None:
    fw.manual_seed(0)
    many = sampling.choose(fw.tensor(np.repeat(LOGITS, 20000, axis=0)))
    assert set(many.tolist()) == drawn


def test_tokens_are_drawn_by_their_probabilities() -> None:
    fw.manual_seed(0)
    many = Sampling(0.5).choose(fw.tensor(np.repeat(LOGITS, 100000, axis=0)))
    shares = np.bincount(many.numpy(), minlength=5) / 100000
    wanted = np.exp(2 * LOGITS[0]) / np.exp(2 * LOGITS[0]).sum()
    np.testing.assert_allclose(shares, wanted, atol=0.006)


def test_used_tokens_become_less_likely() -> None:
    logits = fw.tensor([[2.0, -1.0, 1.5]])
    used = fw.tensor([[True, True, False]])
    assert Sampling(repetition_penalty=2.0).choose(logits, used).tolist() == [2]
    text = models.generate(model(), PROMPTS[:1], 12, repetition_penalty=1e9).tolist()[0]
    assert len(set(text)) == len(text)


@pytest.mark.parametrize(("call", "words"), [
    (lambda: Sampling(-1.0), "temperature is -1.0"), (lambda: Sampling(1.0, top_k=0), "top_k"),
    (lambda: Sampling(1.0, top_p=0.0), "above 0 and at most 1"),
    (lambda: models.generate(model(), PROMPTS, 0), "max_new_tokens is 0"),
    (lambda: models.generate(model(), PROMPTS[0]), "they are \\(texts, length\\)"),
    (lambda: models.generate(fw.nn.Linear(1, 1), PROMPTS), "Linear does not continue texts"),
])
def test_bad_arguments_are_errors(call: Any, words: str) -> None:
    with pytest.raises(fw.FusewireError, match=words):
        call()


@pytest.mark.parametrize("compiled", [False, True])
def test_a_full_cache_is_an_error(compiled: bool) -> None:
    of = model()
    call = fw.compile(lambda tokens, cache: of(tokens, None, cache)) if compiled else \
        lambda tokens, cache: of(tokens, None, cache)
    for _ in range(2):
        cache = of.new_cache(1, 4)
        for token in (1, 2, 3, 4):
            call(fw.tensor([[token]]), cache)
        with pytest.raises(fw.IndexingError):
            call(fw.tensor([[5]]), cache)


def test_a_window_slides_over_few_slots() -> None:
    of = model("sliding window")
    tokens = fw.tensor([[5, 9, 3, 7, 2, 8, 4, 6, 1]])
    cache = of.new_cache(1, 5)
    parts = [of(tokens[:, i:j], None, cache) for i, j in ((0, 2), (2, 3), (3, 5), (5, 7), (7, 9))]
    np.testing.assert_allclose(fw.concat(parts, axis=1).numpy(), of(tokens).numpy(), 1e-5, 1e-6)
    with pytest.raises(fw.ArgumentError, match="need more than the 5 slots"):
        of(tokens, None, cache)


@pytest.mark.parametrize(("length", "new"), [(9, 1), (2, 1), (5, 2), (1, 9)])
def test_a_window_may_be_longer_or_shorter_than_the_text(length: int, new: int) -> None:
    of = model("sliding window")
    prompt = [5, 9, 3, 7, 2, 8, 4, 6, 1][:length]
    got = models.generate(of, fw.tensor([prompt]), new, compiled=False).tolist()[0]
    assert got == without_cache(of, prompt, new)
