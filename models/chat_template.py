"""Writes the messages of a chat as one text, by the template that came with a model.

A template is a program of others. It runs in the sandbox of jinja2 and sees JSON values only.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

import fusewire as fw


def read_templates(folder: Path, listed: str | Sequence[Mapping[str, str]] | None
                   ) -> dict[str, str]:
    """The templates of a folder by their names; the usual one is "default".

    Args:
        folder: its chat_template.jinja takes the place of the default template.
        listed: `chat_template` of tokenizer_config.json: one template, or several with names.
    """
    templates = {"default": listed} if isinstance(listed, str) else \
        {entry["name"]: entry["template"] for entry in listed or ()}
    file = folder / "chat_template.jinja"
    files = {"default": file} if file.exists() else {}
    files |= {path.stem: path for path in (folder / "additional_chat_templates").glob("*.jinja")}
    return templates | {name: path.read_text(encoding="utf-8") for name, path in files.items()}


def render(template: str, messages: Sequence[Mapping[str, Any]], variables: Mapping[str, Any]
           ) -> str:
    """The text of the messages.

    Args:
        template: a template of jinja.
        messages: JSON values. Keys whose value is None are left out.
        variables: JSON values by the names that the template reads.

    Raises:
        StateError: the package `jinja2` is not installed, or older than 3.1.6.
        ArgumentError: the template refuses the messages, or they are no JSON values.
    """
    jinja2 = _package()
    try:
        present = [{k: v for k, v in dict(m).items() if v is not None} for m in messages]
        values = json.loads(json.dumps({**variables, "messages": present}))
        return str(_compiled(template).render(values))
    except jinja2.TemplateError as error:
        raise fw.ArgumentError(f"the template of the chat fails: {error}",
                               "see tokenizer.chat_templates for what it expects") from error
    except (TypeError, ValueError) as error:
        raise fw.ArgumentError(f"the template of the chat cannot take the messages: {error}",
                               "a chat is a list of dicts: [{'role': 'user', 'content': 'Hi'}]"
                               ) from error


def _package() -> Any:
    try:
        import jinja2
    except ImportError:
        raise fw.StateError("templates of chats need the package jinja2",
                            'pip install "fusewire[text]"') from None
    if tuple(map(int, re.findall(r"\d+", jinja2.__version__)[:3])) < (3, 1, 6):
        raise fw.StateError(f"jinja2 {jinja2.__version__} lets templates out of the sandbox",
                            'pip install "jinja2>=3.1.6"')
    return jinja2


@lru_cache(maxsize=16)
def _compiled(template: str) -> Any:
    """The template, with the functions and settings that published templates count on."""
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True,
        extensions=["jinja2.ext.loopcontrols", _generation_tag()])
    environment.filters["tojson"] = _to_json
    environment.globals["raise_exception"] = _raise
    environment.globals["strftime_now"] = lambda form: datetime.now().strftime(form)
    return environment.from_string(template)


def _raise(message: str) -> None:
    from jinja2 import TemplateError

    raise TemplateError(message)


def _to_json(value: Any, ensure_ascii: bool = False, indent: int | None = None,
             separators: tuple[str, str] | None = None, sort_keys: bool = False) -> str:
    """JSON as it is; the filter of jinja2 writes it for HTML."""
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators,
                      sort_keys=sort_keys)


def _generation_tag() -> Any:
    """The tag `generation`, which marks answers for training: its body is written as it is."""
    from jinja2 import nodes
    from jinja2.ext import Extension

    class GenerationTag(Extension):
        tags = {"generation"}  # noqa: RUF012 (jinja2 declares it so)

        def parse(self, parser: Any) -> Any:
            line = next(parser.stream).lineno
            body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
            return nodes.Scope(body, lineno=line)

    return GenerationTag
