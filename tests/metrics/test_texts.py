"""BLEU is that of sacrebleu, ROUGE that of rouge-score."""

from __future__ import annotations

import random
import sys
from typing import Any

import pytest
from metric_parts import same, value_of

import fusewire as fw
from fusewire.metrics import BLEU, ROUGE

sacrebleu = pytest.importorskip("sacrebleu")
rouge_scorer = pytest.importorskip("rouge_score.rouge_scorer")
WORDS = "the a cat dog sat ran on under mat tree, very 3.5 It's état 猫 -- well-known .".split()
SEEDS = range(5)


def texts(seed: int, count: int = 9) -> tuple[list[str], list[list[str]]]:
    """Predictions, and one to three references of each that share words with it."""
    rng = random.Random(seed)
    found = [" ".join(rng.choices(WORDS, k=rng.randrange(0, 14))) for _ in range(count)]
    return found, [[_changed(rng, text) for _ in range(rng.randrange(1, 4))] for text in found]


def _changed(rng: random.Random, text: str) -> str:
    words = [word if rng.random() < 0.7 else rng.choice(WORDS) for word in text.split()]
    return " ".join(words + rng.choices(WORDS, k=rng.randrange(3)))


def columns(references: list[list[str]]) -> list[list[str | None]]:
    """References as sacrebleu takes them."""
    return [[each[i] if i < len(each) else None for each in references] for i in range(3)]


@pytest.mark.parametrize("options", [
    {}, {"lowercase": True}, {"tokenize": "char"}, {"smooth_method": "none"},
    {"smooth_method": "add-k", "max_order": 2}, {"effective_order": True}])
@pytest.mark.parametrize("seed", SEEDS)
def test_bleu(seed: int, options: dict[str, Any]) -> None:
    found, references = texts(seed)
    theirs = {"max_ngram_order" if k == "max_order" else k: v for k, v in options.items()}
    expected = sacrebleu.metrics.BLEU(**theirs).corpus_score(found, columns(references)).score
    same(value_of(lambda: BLEU(**options), found, references), expected)


def test_bleu_of_equal_and_of_strange_texts() -> None:
    same(value_of(BLEU, ["the cat sat on a mat"] * 2, ["the cat sat on a mat"] * 2), 100)
    same(value_of(BLEU, ["", ""], ["the cat", "sat"]), 0)


@pytest.mark.parametrize("value", ["precision", "recall", "f1"])
@pytest.mark.parametrize("seed", SEEDS)
def test_rouge(seed: int, value: str) -> None:
    found, references = texts(seed)
    scorer = rouge_scorer.RougeScorer(list(ROUGE.MEASURES))
    each = [scorer.score_multi(others, text) for text, others in zip(found, references)]
    field = {"f1": "fmeasure"}.get(value, value)
    expected = {name: sum(getattr(scores[name], field) for scores in each) / len(found)
                for name in ROUGE.MEASURES}
    same(value_of(lambda: ROUGE(value), found, references), expected)


def test_rouge_of_other_scripts_by_a_tokenizer() -> None:
    """The usual one knows Latin letters only."""
    found, references = ["猫が座る"] * 2, ["猫が走る"] * 2
    same(value_of(ROUGE, found, found)["rouge1"], 0)
    same(value_of(lambda: ROUGE(tokenizer=list), found, references)["rouge1"], 0.75)


def test_arguments_that_are_easily_mistaken() -> None:
    for metric in (BLEU(), ROUGE()):
        with pytest.raises(fw.DTypeError, match="lists of texts"):
            metric.update("a text", ["a text"])
        with pytest.raises(fw.ShapeError, match="2 predictions and 1 references"):
            metric.update(["a", "b"], ["a"])
        with pytest.raises(fw.ShapeError, match="prediction 1 has no reference"):
            metric.update(["a", "b"], [["a"], []])


def test_bleu_without_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sacrebleu.metrics", None)
    with pytest.raises(fw.StateError, match="needs the package sacrebleu") as caught:
        BLEU()
    assert 'pip install "fusewire[metrics]"' in caught.value.help
