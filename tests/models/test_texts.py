"""Texts and chats are continued by strings, in pieces of whole characters."""

from __future__ import annotations

import random
from typing import Any

import pytest
from small_models import LLAMA
from small_tokenizers import KINDS, MESSAGES, SPECIAL, byte_level, save

import fusewire as fw
from fusewire import models
from fusewire.models import Tokenizer
from fusewire.models.generation.growing_text import UNFINISHED, GrowingText

SEEDS = range(60)


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    return models.load_tokenizer(save(byte_level(), tmp_path_factory.mktemp("tokenizer")))


@pytest.fixture(scope="module")
def model() -> Any:
    fw.manual_seed(0)
    return models.from_config({**LLAMA, "model_type": "llama", "vocab_size": 400}).eval()


def plain(model: Any, tokenizer: Tokenizer, prompt: list[int], count: int) -> str:
    """The continuation that `generate` gives for one prompt alone."""
    tokens = models.generate(model, fw.tensor([prompt]), count).tolist()[0][len(prompt):]
    return tokenizer.decode(tokens, skip_special_tokens=True)


@pytest.mark.parametrize("kind", KINDS)
def test_pieces_are_the_text_of_the_tokens(kind: str) -> None:
    """Of any tokens, also of those whose bytes form no character."""
    tokenizer = Tokenizer(KINDS[kind](), SPECIAL)
    for seed in SEEDS:
        rng = random.Random(seed)
        prompt = tokenizer.encode(rng.choice(["Hello", "déjà vu", "x = "]))
        tokens = [rng.randrange(len(tokenizer)) for _ in range(40)]
        growing = GrowingText(tokenizer, prompt, (), ())
        pieces = [growing.add(token) for token in tokens]
        before = tokenizer.decode(prompt, skip_special_tokens=True)
        whole = tokenizer.decode(prompt + tokens, skip_special_tokens=True)
        assert (before + "".join(pieces)).rstrip(UNFINISHED) == whole.rstrip(UNFINISHED)


def test_a_piece_waits_for_whole_characters(tokenizer: Tokenizer) -> None:
    tokens = tokenizer.encode("é🙃!", add_special_tokens=False)
    growing = GrowingText(tokenizer, [0], (), ())
    pieces = [growing.add(token) for token in tokens]
    assert "".join(pieces) == "é🙃!" and "" in pieces
    assert not any(UNFINISHED in piece for piece in pieces)


@pytest.mark.parametrize(("text", "stops", "left"), [
    ("one END two", ["END"], "one "), ("one EN two", ["END"], "one EN two"),
    ("one EN", ["END"], "one EN"), ("aab", ["ab"], "a"), ("xyz", ["z", "yz"], "x"),
    ("never", [], "never"),
])
def test_a_text_ends_before_a_stop_string(tokenizer: Tokenizer, text: str, stops: list[str],
                                          left: str) -> None:
    growing = GrowingText(tokenizer, [0], (), stops)
    pieces = [growing.add(token) for token in tokenizer.encode(text, add_special_tokens=False)]
    assert "".join([*pieces, growing.rest()]) == left
    assert growing.has_ended == (left != text)


def test_texts_of_unequal_lengths(model: Any, tokenizer: Tokenizer) -> None:
    prompts = ["Hello", "The class of a module"]
    wanted = [plain(model, tokenizer, tokenizer.encode(prompt), 12) for prompt in prompts]
    assert models.generate_text(model, tokenizer, prompts, 12) == \
        [text.rstrip(UNFINISHED) for text in wanted]


def test_stream_text_yields_the_pieces(model: Any, tokenizer: Tokenizer) -> None:
    pieces = list(models.stream_text(model, tokenizer, "Hello", 12))
    assert len(pieces) > 1
    assert ["".join(pieces)] == models.generate_text(model, tokenizer, ["Hello"], 12)


def test_a_chat_is_continued_by_an_answer(model: Any, tokenizer: Tokenizer) -> None:
    text = tokenizer.apply_chat_template(MESSAGES, add_generation_prompt=True)
    wanted = plain(model, tokenizer, tokenizer.encode(text, add_special_tokens=False), 8)
    assert models.generate_text(model, tokenizer, [MESSAGES], 8, stop_tokens=[]) == \
        [wanted.rstrip(UNFINISHED)]


def test_a_text_ends_before_the_token_that_ends_texts(model: Any, tokenizer: Tokenizer) -> None:
    prompt = tokenizer.encode("Hello")
    fifth = models.generate(model, fw.tensor([prompt]), 5).tolist()[0][-1]
    ends = Tokenizer(tokenizer.backend, {"eos_token": tokenizer.backend.id_to_token(fifth)})
    short = models.generate_text(model, ends, ["Hello"], 12)
    assert short == models.generate_text(model, tokenizer, ["Hello"], 12, stop_tokens=[fifth])
    assert short[0] == plain(model, tokenizer, prompt, 4).rstrip(UNFINISHED)


@pytest.mark.parametrize(("call", "words"), [
    (lambda m, t: models.generate_text(m, t, "Hello"), "the prompts are one string"),
    (lambda m, t: models.generate_text(m, t, ["Hi"], stop_strings="END"), "stop_strings is 'END'"),
    (lambda m, t: models.generate_text(m, t, ["Hi"], stop_strings=[""]), "none of them empty"),
    (lambda m, t: models.stream_text(m, Tokenizer(_without_beginning(t), {}), ""), "no tokens"),
])
def test_bad_arguments_are_errors(model: Any, tokenizer: Tokenizer, call: Any, words: str) -> None:
    with pytest.raises(fw.ArgumentError, match=words):
        call(model, tokenizer)


def _without_beginning(tokenizer: Tokenizer) -> Any:
    """A backend that adds no token before a text."""
    from tokenizers import processors

    backend = type(tokenizer.backend).from_str(tokenizer.backend.to_str())
    backend.post_processor = processors.ByteLevel()
    return backend
