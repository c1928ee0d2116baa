"""Tokenizers read the files of a folder; chats are written by the template that came with them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from small_tokenizers import MESSAGES, byte_level, save

import fusewire as fw
from fusewire import models
from fusewire.models.chat_template import render


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return save(byte_level(), tmp_path)


def test_texts_come_back(folder: Path) -> None:
    tokenizer = models.load_tokenizer(folder)
    for text in ("Hello world", "déjà vu 漢字 🙂", "  two  spaces\n", "def f(x): return x"):
        tokens = tokenizer.encode(text)
        assert tokens[0] == tokenizer.token_number("bos_token") == 0
        assert tokenizer.decode(fw.tensor(tokens), skip_special_tokens=True) == text
        assert tokenizer.decode(tokens) == "<s>" + text
        assert tokenizer.encode(text, add_special_tokens=False) == tokens[1:]


def test_special_tokens_of_the_config_are_added(tmp_path: Path) -> None:
    """tokenizer.json may lack tokens that the other files name."""
    mask = {"content": "<mask>", "lstrip": True, "special": True}
    save(byte_level(), tmp_path, mask_token=mask, additional_special_tokens=["<|end|>"],
         added_tokens_decoder={"400": {"content": "<tool>", "special": False}})
    (tmp_path / "special_tokens_map.json").write_text(json.dumps({"cls_token": "<cls>"}))
    tokenizer = models.load_tokenizer(tmp_path)
    assert len(tokenizer) == 404
    assert tokenizer.special_tokens["mask_token"] == "<mask>"
    tokens = tokenizer.encode("a <mask>b<|end|><cls>")
    assert tokenizer.token_number("mask_token") in tokens
    assert tokenizer.decode(tokens, skip_special_tokens=True) == "ab"
    assert tokenizer.decode(tokenizer.encode("<tool>"), skip_special_tokens=True) == "<tool>"
    assert tokenizer.token_number("sep_token") is None


def test_a_chat_is_one_text(folder: Path) -> None:
    tokenizer = models.load_tokenizer(folder)
    text = tokenizer.apply_chat_template(MESSAGES, add_generation_prompt=True)
    assert text == ('<|user|>Hello</s><|assistant|>déjà vu</s>{"b": "<&>", "a": ["é", 1.5]}'
                    "<|user|>Why?</s><|assistant|>")
    assert tokenizer.apply_chat_template(MESSAGES) == text.removesuffix("<|assistant|>")


def test_a_file_takes_the_place_of_the_template_in_the_config(folder: Path) -> None:
    (folder / "chat_template.jinja").write_text("{{ messages | length }}{{ words }}")
    (folder / "additional_chat_templates").mkdir()
    (folder / "additional_chat_templates" / "tool_use.jinja").write_text("{{ tools }}")
    tokenizer = models.load_tokenizer(folder)
    assert tokenizer.apply_chat_template(MESSAGES, words=" messages") == "3 messages"
    assert tokenizer.apply_chat_template(MESSAGES, tools=[1]) == "[1]"


def test_templates_have_names(tmp_path: Path) -> None:
    named = [{"name": "default", "template": "plain"}, {"name": "tool_use", "template": "tools"}]
    tokenizer = models.load_tokenizer(save(byte_level(), tmp_path, chat_template=named))
    assert tokenizer.apply_chat_template([]) == "plain"
    assert tokenizer.apply_chat_template([], tools=[{"name": "f"}]) == "tools"


@pytest.mark.parametrize("template", [
    "{{ messages.append(1) }}", "{{ ''.__class__.__mro__ }}",
    "{{ messages.__init__.__globals__['os'] }}", "{{ strftime_now.__globals__.clear() }}",
])
def test_a_template_stays_in_the_sandbox(template: str) -> None:
    with pytest.raises(fw.ArgumentError, match="the template of the chat fails"):
        render(template, [], {})


@pytest.mark.parametrize(("template", "text"), [
    ("{% generation %}Hello{% endgeneration %}", "Hello"),
    ("{{ strftime_now('%%') }}", "%"), ("{{ {'b': 1} | tojson(indent=1) }}", '{\n "b": 1\n}'),
    ("{% set ns = namespace(n=1) %}{% for m in [1, 2] %}{% set ns.n = ns.n + m %}{% endfor %}"
     "{{ ns.n }}", "4"),
])
def test_templates_have_the_usual_functions(template: str, text: str) -> None:
    assert render(template, [], {}) == text


def bare(folder: Path) -> models.Tokenizer:
    (folder / "tokenizer_config.json").unlink()
    return models.load_tokenizer(folder)


@pytest.mark.parametrize(("call", "words"), [
    (lambda folder: models.load_tokenizer(folder / "absent"), "has no tokenizer.json"),
    (lambda folder: bare(folder).apply_chat_template(MESSAGES), "no template of a chat"),
    (lambda folder: models.load_tokenizer(folder).apply_chat_template(MESSAGES[1:]),
     "a user begins"),
    (lambda folder: models.load_tokenizer(folder).apply_chat_template("Hello"),
     "a chat is a list of dicts"),
    (lambda folder: models.load_tokenizer(folder).apply_chat_template(
        [{"role": "user", "content": fw.ones(2)}]), "a chat is a list of dicts"),
])
def test_bad_arguments_are_errors(folder: Path, call: Any, words: str) -> None:
    with pytest.raises(fw.FusewireError, match=words):
        call(folder)


@pytest.mark.parametrize("package", ["tokenizers", "jinja2"])
def test_a_missing_package_is_named(folder: Path, package: str) -> None:
    code = f"""
import sys
sys.modules[{package!r}] = None
import fusewire as fw
from fusewire import models
try:
    models.load_tokenizer({str(folder)!r}).apply_chat_template([])
except fw.StateError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert f"need the package {package}" in done.stdout
    assert 'pip install "fusewire[text]"' in done.stdout
