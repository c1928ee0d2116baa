"""Beam search finds the tokens that transformers finds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from parity.pretrained import DECODERS, LEFT

import fusewire as fw
from fusewire import models

SEEDS = (1, 2, 3)
PAD = 3
RULES: dict[str, dict[str, Any]] = {
    "default": {}, "long texts": {"length_penalty": 2.5}, "short texts": {"length_penalty": -1.5},
    "first ended": {"early_stopping": True}, "never": {"early_stopping": "never"},
    "never short": {"early_stopping": "never", "length_penalty": 0.0},
}


def saved(name: str, folder: Path, seed: int) -> Any:
    """A model of transformers whose texts end now and then, after it was saved to a folder."""
    torch.manual_seed(seed)
    theirs = DECODERS[name]().eval()
    with torch.no_grad():
        for parameter in theirs.parameters():
            parameter.mul_(3.0 if parameter.ndim > 1 else 1.0)  # less alike probabilities
    theirs.save_pretrained(folder)
    return theirs


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("rules", RULES)
@pytest.mark.parametrize("beams", [2, 4])
def test_tokens_are_the_same(beams: int, rules: str, seed: int, tmp_path: Path) -> None:
    """Of texts of unequal lengths, without tokens that end them, with one and with many."""
    theirs, ours = saved("Llama", tmp_path, seed), models.from_pretrained(tmp_path)
    ids = np.random.default_rng(seed).integers(3, 99, LEFT.shape)
    for stops in ((), (7,), tuple(range(10, 22))):
        compare(theirs, ours, ids, stops, num_beams=beams, **RULES[rules])


@pytest.mark.parametrize("name", DECODERS)
def test_all_decoders(name: str, tmp_path: Path) -> None:
    theirs, ours = saved(name, tmp_path, 0), models.from_pretrained(tmp_path)
    ids = np.random.default_rng(0).integers(3, 99, LEFT.shape)
    compare(theirs, ours, ids, tuple(range(10, 16)), num_beams=3)


def compare(theirs: Any, ours: Any, ids: Any, stops: tuple[int, ...], **options: Any) -> None:
    wanted = theirs.generate(
        torch.tensor(ids), attention_mask=torch.tensor(LEFT), max_new_tokens=12, do_sample=False,
        pad_token_id=PAD, eos_token_id=list(stops) or None, **options)
    got = models.generate(ours, fw.tensor(ids), 12, attention_mask=fw.tensor(LEFT),
                          stop_tokens=stops, pad_token=PAD, compiled=False, **options)
    np.testing.assert_array_equal(got.numpy(), wanted.numpy(), err_msg=str(stops))
