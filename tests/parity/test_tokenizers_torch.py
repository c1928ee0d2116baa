"""Tokenizers and chats give what transformers gives for the same folder."""

from __future__ import annotations

import random
from pathlib import Path

import parity.torchvision_ops  # noqa: F401 (before transformers, which imports torchvision)
import pytest
import transformers as hf
from small_tokenizers import KINDS, MESSAGES, SPECIAL, TEXTS, save

from fusewire import models


def texts(count: int) -> list[str]:
    """Pieces of texts with special tokens between them."""
    rng = random.Random(0)
    parts = ["".join(rng.choices("".join(TEXTS), k=rng.randrange(30))) for _ in range(count)]
    return [part + rng.choice(["", "</s>", " <mask> é", "<|end|>"]) for part in parts]


@pytest.mark.parametrize("kind", KINDS)
def test_tokens_and_texts_are_the_same(kind: str, tmp_path: Path) -> None:
    extra = {"mask_token": "<mask>", "additional_special_tokens": ["<|end|>"]}
    save(KINDS[kind](), tmp_path, **extra)
    theirs = hf.PreTrainedTokenizerFast.from_pretrained(tmp_path)
    ours = models.load_tokenizer(tmp_path)
    assert len(ours) == len(theirs)
    for text in texts(100):
        tokens = ours.encode(text)
        assert tokens == theirs.encode(text)
        assert ours.encode(text, False) == theirs.encode(text, add_special_tokens=False)
        assert ours.decode(tokens) == theirs.decode(tokens)
        assert ours.decode(tokens, True) == theirs.decode(tokens, skip_special_tokens=True)


def test_a_folder_that_transformers_saved(tmp_path: Path) -> None:
    source = save(KINDS["byte level"](), tmp_path / "made")
    theirs = hf.PreTrainedTokenizerFast.from_pretrained(source)
    theirs.save_pretrained(tmp_path / "saved")
    ours = models.load_tokenizer(tmp_path / "saved")
    assert ours.special_tokens == SPECIAL == theirs.special_tokens_map
    for prompt in (False, True):
        assert ours.apply_chat_template(MESSAGES, prompt) == theirs.apply_chat_template(
            MESSAGES, tokenize=False, add_generation_prompt=prompt)
    text = ours.apply_chat_template(MESSAGES, True)
    assert ours.encode(text, add_special_tokens=False) == \
        theirs.apply_chat_template(MESSAGES, add_generation_prompt=True)["input_ids"]
