"""Texts in pages: each sees its own tokens and shared ones, and gets the bits it would alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fusewire as fw
from fusewire import models
from fusewire.models.generation.page_pool import PagePool, TextPages
from fusewire.models.generation.paged_steps import PagedSteps
from fusewire.models.generation.row_sampling import RowSampler, RowSampling
from fusewire.models.generation.sampling import Sampling

LLAMA = {"model_type": "llama", "vocab_size": 300, "hidden_size": 64, "intermediate_size": 96,
         "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2}
MISTRAL = {**LLAMA, "model_type": "mistral", "sliding_window": 24}
GPT2 = {"model_type": "gpt2", "vocab_size": 300, "n_positions": 100, "n_embd": 32, "n_layer": 2,
        "n_head": 4}


class Simulated:
    """A pool, and what each row of the cache would hold: all tokens up to its own one."""

    def __init__(self, count: int, size: int) -> None:
        self.pool = PagePool(count, size)
        self.content: dict[int, tuple[int, ...]] = {}
        self.texts: list[tuple[TextPages, list[int], int]] = []

    def begin(self, prompt: list[int], most: int, written: int) -> TextPages | None:
        """Takes pages and writes a part of the prompt."""
        text = self.pool.take(prompt, most)
        if text is None:
            return None
        for at in range(text.shared):
            assert self.content[text.rows[at]] == tuple(prompt[:at + 1])
        written = max(written, text.shared)
        private = set(text.rows[text.shared:].tolist())
        for other, tokens, count in self.texts:
            assert not private & set(other.rows.tolist())
            assert [self.content[r] for r in other.rows[:count]] == \
                [tuple(tokens[:n + 1]) for n in range(count)]
        for at in range(text.shared, written):
            self.content[text.rows[at]] = tuple(prompt[:at + 1])
        self.pool.publish(text, prompt, written)
        self.texts.append((text, prompt, written))
        return text

    def end(self, number: int) -> None:
        self.pool.release(self.texts.pop(number)[0])


@pytest.mark.parametrize("seed", range(20))
def test_random_texts_share_what_they_may_and_nothing_else(seed: int) -> None:
    rng = np.random.default_rng(seed)
    made = Simulated(count=int(rng.integers(4, 20)), size=int(rng.integers(1, 5)))
    shared = refused = 0
    for _ in range(300):
        if made.texts and rng.random() < 0.45:
            made.end(int(rng.integers(len(made.texts))))
            continue
        prompt = rng.integers(0, 2, int(rng.integers(1, 12))).tolist()  # many equal beginnings
        text = made.begin(prompt, int(rng.integers(1, 4)), int(rng.integers(0, len(prompt) + 1)))
        if text is None:
            refused += 1
        else:
            assert text.shared < len(prompt)
            shared += text.shared
        used = {n for t, _, _ in made.texts for n in t.numbers}
        assert made.pool.used == len(used)
    assert shared
    while made.texts:
        made.end(0)
    assert made.pool.used == 0
    assert made.pool.take([7] * (made.pool.count * made.pool.size - 1), 1) is not None


def test_the_page_that_was_not_used_for_the_longest_time_is_given_away() -> None:
    made = Simulated(count=3, size=2)
    for prompt in ([1, 1, 1], [2, 2, 2]):
        made.begin(prompt, 1, 3)
        made.end(0)
    assert made.pool.cached == 2
    made.begin([1, 1, 9], 1, 2)  # in use again, and so the newest
    made.end(0)
    made.begin([3, 3, 3], 1, 3)
    made.end(0)
    for shared in (2, 0):
        text = made.pool.take([1, 1, 1], 1)
        assert text is not None and text.shared == shared
        made.pool.release(text)
        made.pool.forget()
    assert made.pool.cached == 0


def test_a_pool_needs_pages() -> None:
    with pytest.raises(fw.ArgumentError, match="0 pages of 4 tokens"):
        PagePool(0, 4)


def made_steps(config: Any, slots: int = 3, page: int = 16, pages: int = 40) -> PagedSteps:
    fw.manual_seed(0)
    return PagedSteps(models.from_config(config).eval(), slots, 100, page, pages)


def prefilled(steps: PagedSteps, prompt: list[int]) -> tuple[TextPages, Any]:
    """The pages of a prompt, and the logits behind it."""
    pages = steps.pool.take(prompt, 30)
    assert pages is not None
    at, logits = pages.shared, None
    while at < len(prompt):
        end = steps.part_end(prompt, at)
        logits = steps.prefill(pages, prompt[at:end], at).numpy()
        steps.pool.publish(pages, prompt, end)
        at = end
    return pages, logits


@pytest.mark.parametrize("config", [LLAMA, MISTRAL, GPT2], ids=lambda c: c["model_type"])
def test_tokens_are_those_of_generate(config: Any) -> None:
    steps = made_steps(config)
    rng = np.random.default_rng(3)
    prompts = [rng.integers(0, 300, n).tolist() for n in (5, 33, 64)]
    tokens, texts = np.zeros((3, 1), np.int64), [list[int]() for _ in prompts]
    with fw.no_grad():
        for slot, prompt in enumerate(prompts):
            pages, logits = prefilled(steps, prompt)
            steps.join(slot, pages, len(prompt))
            tokens[slot] = logits.argmax()
            texts[slot].append(int(tokens[slot, 0]))
        for _ in range(29):
            _, best = steps.decode(tokens)
            tokens[:, 0] = best.numpy()
            for text, token in zip(texts, tokens[:, 0].tolist()):
                text.append(token)
    for prompt, text in zip(prompts, texts):
        whole = models.generate(steps.model, fw.tensor([prompt]), 30)[0].tolist()
        assert whole[len(prompt):] == text


@pytest.mark.parametrize("config", [LLAMA, GPT2], ids=lambda c: c["model_type"])
def test_a_shared_beginning_gives_the_same_bits(config: Any) -> None:
    alone, shared = made_steps(config), made_steps(config)
    beginning = np.random.default_rng(1).integers(0, 300, 40).tolist()
    with fw.no_grad():
        for steps in (alone, shared):
            steps.warm(3)  # the call that is traced runs eagerly, and may round in another way
        prefilled(shared, [*beginning, 1, 2])
        for end in ([3], [4] * 20):
            pages, logits = prefilled(shared, beginning + end)
            assert pages.shared == 32
            wanted_pages, wanted = prefilled(alone, beginning + end)
            alone.pool.release(wanted_pages)
            alone.pool.forget()
            np.testing.assert_array_equal(logits, wanted)


def test_an_empty_slot_does_not_write_into_the_cache() -> None:
    steps = made_steps(LLAMA)
    with fw.no_grad():
        pages, _ = prefilled(steps, [1, 2, 3])
        steps.join(1, pages, 3)
        before = [key.numpy()[:-1].copy() for key in steps.cache.keys]
        steps.decode(np.full((3, 1), 7))
        for key, old in zip(steps.cache.keys, before):
            changed = np.flatnonzero((key.numpy()[:-1] != old).any(axis=(1, 2)))
            assert changed.tolist() == [pages.rows[3]]


def test_steps_are_recorded_once_for_each_size() -> None:
    """A part of a prompt for each size of the table; a decoding step for all of them."""
    steps = made_steps(GPT2)
    with fw.no_grad():
        steps.warm(2)
        before = steps.recordings
        for prompt in ([1], [2] * 15, [3] * 50):
            pages, _ = prefilled(steps, prompt)
            steps.join(0, pages, len(prompt))
            steps.decode(np.zeros((3, 1), np.int64))
    assert steps.recordings == before == len(steps.columns) + 1


# ---- rows that are sampled in different ways

WAYS = [Sampling(), Sampling(0.7), Sampling(1.0, top_k=3), Sampling(1.3, top_p=0.6),
        Sampling(0.9, min_p=0.2), Sampling(1.0, top_k=9, top_p=0.8, min_p=0.05)]


def chosen(rows: list[Sampling], logits: Any, draws: Any) -> list[int]:
    with fw.no_grad():
        return RowSampler().choose(fw.Tensor(logits), RowSampling.of(rows, logits.shape[1]), draws)


@pytest.mark.parametrize("sampling", WAYS, ids=repr)
def test_draws_have_the_probabilities_of_the_sampling(sampling: Sampling) -> None:
    count, vocabulary = 4000, 12
    row = np.random.default_rng(5).standard_normal(vocabulary).astype(np.float32) * 2
    draws = (np.arange(count) + 0.5) / count  # evenly: counts are exact but for one each
    tokens = chosen([sampling] * count, np.tile(row, (count, 1)), draws)
    wanted = sampling.probabilities(fw.tensor(row[None])).numpy()[0]
    got = np.bincount(tokens, minlength=vocabulary) / count
    np.testing.assert_allclose(got, wanted, atol=1.5 / count)
    assert not got[wanted == 0].any()


def test_a_row_does_not_depend_on_the_others() -> None:
    rng = np.random.default_rng(6)
    logits, draws = rng.standard_normal((len(WAYS), 500)).astype(np.float32), rng.random(len(WAYS))
    together = chosen(WAYS, logits, draws)
    for number, sampling in enumerate(WAYS):
        rows = [sampling] * len(WAYS)
        alone = chosen(rows, np.tile(logits[number], (len(WAYS), 1)), np.full(6, draws[number]))
        assert alone == [together[number]] * len(WAYS)


@pytest.mark.parametrize("draw", [0.0, np.nextafter(1, 0), 1.0])
def test_the_least_and_the_largest_draw_take_tokens_that_may_be_drawn(draw: float) -> None:
    logits = np.zeros((2, 50_000), np.float32)
    logits[:, 10:20] = 40.0  # the others have no share that float32 can hold
    tokens = chosen([Sampling(1.0, top_k=10)] * 2, logits, np.full(2, draw))
    assert all(10 <= token < 20 for token in tokens)
