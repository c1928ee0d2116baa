"""Turns texts into token numbers and back, by the package `tokenizers`."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import fusewire as fw

from .chat_template import read_templates, render

NAMED = ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token")
_FLAGS = ("single_word", "lstrip", "rstrip", "normalized")


def load_tokenizer(folder: str | os.PathLike[str]) -> Tokenizer:
    """The tokenizer of a folder, as its model was trained with.

    Args:
        folder: holds tokenizer.json. tokenizer_config.json and special_tokens_map.json name the
            special tokens; the former or chat_template.jinja has the template of a chat.

    Raises:
        StateError: the package `tokenizers` is not installed, or there is no tokenizer.json.

    Example:
        >>> from fusewire import models
        >>> tokenizer = models.load_tokenizer("gpt2")  # doctest: +SKIP
        >>> tokenizer.encode("Hello world")  # doctest: +SKIP
        [15496, 995]
    """
    package, path = _package(), Path(folder)
    if not (path / "tokenizer.json").exists():
        raise fw.StateError(f"{path} has no tokenizer.json",
                            "save it by transformers: AutoTokenizer.from_pretrained(folder)"
                            ".save_pretrained(folder)")
    backend = package.Tokenizer.from_file(str(path / "tokenizer.json"))
    backend.no_padding()
    backend.no_truncation()
    config = {**_json(path / "special_tokens_map.json"), **_json(path / "tokenizer_config.json")}
    _add_tokens(package, backend, config)
    named = {key: _content(config[key]) for key in NAMED if config.get(key) is not None}
    return Tokenizer(backend, named, read_templates(path, config.get("chat_template")))


class Tokenizer:
    """Texts to token numbers and back.

    Args:
        backend: a `tokenizers.Tokenizer`.
        special_tokens: the text of each special token that has a name, such as `eos_token`.
        chat_templates: templates of jinja by their names. Default none.
    """

    def __init__(self, backend: Any, special_tokens: Mapping[str, str],
                 chat_templates: Mapping[str, str] | None = None) -> None:
        self.backend, self.special_tokens = backend, dict(special_tokens)
        self.chat_templates = dict(chat_templates or {})

    def __len__(self) -> int:
        """The size of the vocabulary, with added tokens."""
        return int(self.backend.get_vocab_size())

    def encode(self, text: str, add_special_tokens: bool = True) -> list[int]:
        """The token numbers of a text.

        Args:
            text: the text. A special token that is spelled in it becomes one number.
            add_special_tokens: adds the tokens that begin and end a text of this model, if there
                are any. Default True.

        Raises:
            ArgumentError: the text has half of a pair of surrogates, which is no character.
        """
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise fw.ArgumentError(
                f"the text has {text[error.start]!r} at {error.start}, half of a pair of "
                "surrogates", "pass whole characters") from None
        return list(self.backend.encode(text, add_special_tokens=add_special_tokens).ids)

    def decode(self, tokens: Sequence[int] | fw.Tensor, skip_special_tokens: bool = False) -> str:
        """The text of token numbers (length,).

        Args:
            tokens: the numbers of one text.
            skip_special_tokens: leaves out special tokens. Default False.
        """
        numbers = tokens.tolist() if isinstance(tokens, fw.Tensor) else list(tokens)
        return str(self.backend.decode(numbers, skip_special_tokens=skip_special_tokens))

    def token_number(self, name: str) -> int | None:
        """The number of a special token such as "eos_token"; None if there is no such token."""
        text = self.special_tokens.get(name)
        number = None if text is None else self.backend.token_to_id(text)
        return None if number is None else int(number)

    def apply_chat_template(self, messages: Sequence[Mapping[str, Any]],
                            add_generation_prompt: bool = False, **variables: Any) -> str:
        """The text of a chat, in the format that the model was trained with.

        The text has its special tokens: pass it to `encode(text, add_special_tokens=False)`.

        Args:
            messages: each with a `role` ("system", "user" or "assistant") and its `content`.
            add_generation_prompt: ends with the words that begin an answer. Default False.
            variables: more names for the template, such as `tools`: JSON values.

        Raises:
            StateError: the package `jinja2` is not installed, or there is no template.
            ArgumentError: the template refuses the messages.

        Example:
            >>> tokenizer.apply_chat_template(
            ...     [{"role": "user", "content": "Hello"}])  # doctest: +SKIP
            '<|user|>Hello<|end|>'
        """
        name = "tool_use" if variables.get("tools") is not None else "default"
        template = self.chat_templates.get(name, self.chat_templates.get("default"))
        if template is None:
            raise fw.StateError("the tokenizer has no template of a chat",
                                "load one of a model that was trained for chats")
        return render(template, messages, {
            **self.special_tokens, "tools": None, "documents": None, **variables,
            "add_generation_prompt": add_generation_prompt})


def _package() -> Any:
    try:
        import tokenizers
    except ImportError:
        raise fw.StateError("tokenizers need the package tokenizers",
                            'pip install "fusewire[text]"') from None
    return tokenizers


def _json(file: Path) -> dict[str, Any]:
    return dict(json.loads(file.read_text(encoding="utf-8"))) if file.exists() else {}


def _content(token: str | Mapping[str, Any]) -> str:
    return token if isinstance(token, str) else str(token["content"])


def _add_tokens(package: Any, backend: Any, config: Mapping[str, Any]) -> None:
    """Adds the tokens that the config lists and tokenizer.json lacks, as numbers at the end."""
    numbered = config.get("added_tokens_decoder") or {}
    listed = [*(numbered[number] for number in sorted(numbered, key=int)),
              *(config[key] for key in NAMED if config.get(key) is not None),
              *(config.get("additional_special_tokens") or ()),
              *(config.get("extra_special_tokens") or ())]
    known = {(token.content, token.special)
             for token in backend.get_added_tokens_decoder().values()}
    for token in listed:
        values = {} if isinstance(token, str) else token
        is_special = values.get("special", True)
        if (_content(token), is_special) not in known:
            flags = {key: values[key] for key in _FLAGS if key in values}
            added = package.AddedToken(_content(token), special=is_special, **flags)
            (backend.add_special_tokens if is_special else backend.add_tokens)([added])
