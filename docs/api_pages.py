"""Writes the pages of the API: one for each public module, and one for `fw.Tensor`."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import fusewire as fw
from fusewire.eager.front.hints import spaces

_CODE = re.compile(r"(`[^`]+`)")
_MARKUP = re.compile(r"([*|\\]|(?<=\w)_(?!\w))")  # what reStructuredText reads as markup


def modules() -> dict[str, ModuleType]:
    """The public modules by their path, such as `fw.nn.functional`."""
    return dict(sorted(spaces().items()))


def names_of(module: ModuleType) -> list[str]:
    """The public names of a module, sorted without regard to case."""
    names = [name for name in dir(module) if not name.startswith("_")]
    return sorted(names, key=str.lower)


def pages() -> dict[str, str]:
    """The text of each page by the name of its file."""
    documented: set[Any] = set()
    made = {f"{path}.rst": "\n".join(_module_page(path, module, documented))
            for path, module in modules().items()}
    return made | {"fw.Tensor.rst": "\n".join(_tensor_page())}


def write(folder: Path) -> None:
    """Writes all pages into `folder`; pages whose text is the same keep their time."""
    folder.mkdir(exist_ok=True)
    made = pages()
    for old in set(folder.glob("*.rst")) - {folder / name for name in made}:
        old.unlink()
    for name, text in made.items():
        file = folder / name
        if not file.exists() or file.read_text(encoding="utf-8") != text:
            file.write_text(text, encoding="utf-8")


def _module_page(path: str, module: ModuleType, documented: set[Any]) -> Iterator[str]:
    full = path.replace("fw", "fusewire", 1)
    yield from (path, "=" * len(path), "")
    yield from (_summary(module), "")
    others = []
    for name in names_of(module):
        value = getattr(module, name)
        if value is fw.Tensor:
            yield from ("The methods of tensors have `a page of their own <fw.Tensor.html>`_.", "")
        elif _is_dtype(value) or not callable(value):
            others.append(f"``{name}``")
        else:
            yield from _entry(f"{full}.{name}", value, value in documented)
            documented.add(value)
    if others:
        yield from ("", f"Other names: {', '.join(others)}.", "")


def _summary(module: ModuleType) -> str:
    """The first sentence of the docstring of a module."""
    first = (module.__doc__ or "").split("\n\n")[0]
    return " ".join(as_rest_lines(first.split("\n")))


def _entry(full: str, value: Any, again: bool) -> Iterator[str]:
    """The directive of a function or class; `again`: it has an entry under another name."""
    if inspect.isclass(value):
        options = ["   :members:", *(["   :no-index:"] if again else [])]
        yield from (f".. autoclass:: {full}", *options, "")
    else:
        yield from (f".. autofunction:: {full}", "")


def _tensor_page() -> Iterator[str]:
    yield from ("fw.Tensor", "=========", "", ".. autoclass:: fusewire.Tensor", "")
    for name in sorted(n for n in dir(fw.Tensor) if not n.startswith("_")):
        value = inspect.getattr_static(fw.Tensor, name)
        if getattr(value, "__doc__", None):
            kind = "method" if callable(value) else "attribute"
            yield from (f"   .. auto{kind}:: fusewire.Tensor.{name}", "")


def _is_dtype(value: Any) -> bool:
    return getattr(value, "__module__", "").split(".")[0] in ("numpy", "ml_dtypes")


def as_rest(app: Any, what: str, name: str, value: Any, options: Any, lines: list[str]) -> None:
    """Changes the lines of a docstring, which are plain text, to reStructuredText."""
    lines[:] = as_rest_lines(lines)


def as_rest_lines(lines: list[str]) -> list[str]:
    """Lines of plain text as reStructuredText: code in double backticks, and no other markup.

    Examples of a Python prompt, and their output up to the next blank line, stay as they are.
    """
    made, in_example = [], False
    for line in lines:
        in_example = line.lstrip().startswith(">>>") or (in_example and line.strip() != "")
        made.append(line if in_example else _escaped(line))
    return made


def _escaped(line: str) -> str:
    parts = _CODE.split(line)
    return "".join(f"`{part}`" if part.startswith("`") and part.endswith("`") and len(part) > 2
                   else _MARKUP.sub(r"\\\1", part) for part in parts)
