"""A draft changes the time that a text takes, and not the text or its distribution."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from small_models import GPT2, LLAMA

import fusewire as fw
from fusewire import models
from fusewire.models.generation.compiled import compiled_for
from fusewire.models.generation.speculative import accept, confirm, proposal
from fusewire.models.text.gpt2 import GPT2 as GPT2Model
from fusewire.models.text.llama import Llama, Mistral

PROMPTS = fw.tensor([[5, 6, 7, 8], [0, 0, 9, 10]])
MASK = fw.tensor([[1, 1, 1, 1], [0, 0, 1, 1]])
SEEDS = range(4)
MAKERS: dict[str, Any] = {
    "Llama": lambda: Llama.from_config(LLAMA), "GPT-2": lambda: GPT2Model(GPT2),
    "sliding window": lambda: Mistral.from_config({**LLAMA, "sliding_window": 5}),
}


def model(name: str = "Llama", seed: int = 0) -> Any:
    fw.manual_seed(seed)
    return MAKERS[name]().eval()


def near(of: Any, seed: int) -> Any:
    """A model whose weights differ a little, so that many of its tokens are confirmed."""
    fw.manual_seed(seed)
    other = type(of)(of.config).eval()
    other.load_state_dict({name: x + 0.02 * fw.randn(*x.shape)
                           for name, x in of.state_dict().items()})
    return other


@pytest.mark.parametrize("name", MAKERS)
def test_greedy_texts_are_the_same(name: str) -> None:
    """By drafts that are the model, near it and far from it, alone and in a batch."""
    of = model(name)
    plain = models.generate(of, PROMPTS, 28, attention_mask=MASK, compiled=False).tolist()
    for seed in SEEDS:
        for draft in (of, near(of, seed), model("sliding window", seed + 1)):
            got = models.generate(of, PROMPTS, 28, attention_mask=MASK, draft=draft,
                                  draft_tokens=seed + 1, compiled=False)
            assert got.tolist() == plain


def test_confirmed_tokens_come_at_once() -> None:
    """The model runs once for the prompt and once for 5 tokens."""
    of, calls = model(), []
    of.model.register_forward_hook(lambda *_: calls.append(1))
    twin = model()
    models.generate(of, PROMPTS[:1], 21, draft=twin, compiled=False)
    assert len(calls) == 5


def test_compiled_texts_are_the_same() -> None:
    of, draft = model(), near(model(), 3)
    plain = models.generate(of, PROMPTS, 24, attention_mask=MASK, stop_tokens=[16]).tolist()
    for _ in range(2):
        got = models.generate(of, PROMPTS, 24, attention_mask=MASK, stop_tokens=[16], draft=draft)
        assert got.tolist() == plain
    both = compiled_for(draft, proposal).stats, compiled_for(of, confirm).stats
    assert all(stats.recordings <= 3 and stats.fallbacks == 0 for stats in both)


def shares(tokens: fw.Tensor, count: int) -> Any:
    return np.bincount(tokens.numpy().reshape(-1), minlength=count) / tokens.size


@pytest.mark.parametrize("seed", SEEDS)
def test_tokens_have_the_distribution_of_the_model(seed: int) -> None:
    """The first and the second token of many texts, each alone with its own draws."""
    rng, n = np.random.default_rng(seed), 40000
    wanted, likely = (rng.dirichlet(np.full(6, 0.7), size) for size in (3, 2))
    fw.manual_seed(seed)
    proposed = fw.tensor(np.stack([rng.choice(6, n, p=p) for p in likely], axis=1))
    firsts, seconds = [], []
    p, q = fw.tensor(wanted, dtype=fw.float32)[None], fw.tensor(likely, dtype=fw.float32)[None]
    for row in range(2000):
        new, confirmed = accept(p, q, proposed[row:row + 1])
        firsts.append(new[:, 0])
        seconds += [new[:, 1]] if int(confirmed) >= 1 else []
    for got, p_of in ((firsts, wanted[0]), (seconds, wanted[1])):
        error = np.sqrt(p_of * (1 - p_of) / len(got))
        assert np.all(np.abs(shares(fw.concat(got), 6) - p_of) < 4 * error + 1e-3)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_batch_goes_on_together(seed: int) -> None:
    """The first token of 40000 texts, although the last of them to be confirmed sets the pace."""
    rng, n = np.random.default_rng(seed), 40000
    wanted, likely = (rng.dirichlet(np.ones(5), size).astype(np.float32) for size in (2, 1))
    fw.manual_seed(seed)
    proposed = fw.tensor(rng.choice(5, (n, 1), p=likely[0] / likely[0].sum()))
    new, _ = accept(fw.broadcast_to(fw.tensor(wanted)[None], (n, 2, 5)),
                    fw.broadcast_to(fw.tensor(likely)[None], (n, 1, 5)), proposed)
    error = np.sqrt(wanted[0] * (1 - wanted[0]) / n)
    assert np.all(np.abs(shares(new[:, 0], 5) - wanted[0]) < 4 * error + 1e-3)


def test_drawn_texts_have_the_distribution_of_the_model() -> None:
    """The third token of 6000 texts with a draft, and of 6000 without."""
    fw.manual_seed(0)
    of = Llama.from_config({**LLAMA, "vocab_size": 6}).eval()
    prompts = fw.repeat(fw.tensor([[1, 2, 3]]), 3000, axis=0)
    options: dict[str, Any] = {"temperature": 0.2, "top_k": 4, "compiled": False}
    with_draft, without = (
        shares(models.generate(of, prompts, 4, draft_tokens=2, seed=seed, draft=draft,
                               **options)[:, 5], 6)
        for seed, draft in ((1, near(of, 5)), (2, None)))
    assert np.abs(with_draft - without).max() < 4 * np.sqrt(0.5 / 3000)


@pytest.mark.parametrize(("options", "words"), [
    ({"draft_tokens": 0}, "draft_tokens is 0"),
    ({"repetition_penalty": 2.0}, "does not go with a draft"),
    ({"num_beams": 2}, "another way to choose tokens"),
    ({"draft": Llama.from_config({**LLAMA, "vocab_size": 50})}, "99 tokens and the draft 50"),
    ({"draft": fw.nn.Linear(1, 1)}, "Linear does not continue texts"),
])
def test_bad_arguments_are_errors(options: dict[str, Any], words: str) -> None:
    of = model()
    with pytest.raises(fw.ArgumentError, match=words):
        models.generate(of, PROMPTS, 5, **{"draft": of, **options})
