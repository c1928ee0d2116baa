"""The reference is complete: each error class, setting, command, public module and name."""

from __future__ import annotations

import importlib
import importlib.util
import re
from types import ModuleType

import pytest

import fusewire as fw
from fusewire.capture.runtime.warnings import CaptureWarning
from fusewire.commands.main import commands
from fusewire.eager.front.hints import spaces
from fusewire.eager.settings import KNOBS
from house.pages import TEXTS
from house.repo import ROOT, module_name, sources

ERRORS, API = TEXTS["docs/reference/errors.md"], TEXTS["docs/reference/api.md"]
ROWS = {row[0].rpartition(".")[2]: row[1:] for row in re.findall(
    r"^\| `([\w.]+)` \| (?:`\w+`(?:, )?)* ?\|? ?([^|]+) \| ([^|]+) \|$", ERRORS, re.MULTILINE)}


def api_pages() -> ModuleType:
    """The module that writes the pages of the API."""
    spec = importlib.util.spec_from_file_location("api_pages", ROOT / "docs/api_pages.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def error_classes() -> dict[str, type]:
    """All error classes of the package by their names: those of every module that defines one."""
    found: dict[str, type] = {}
    for path in sources():
        text = path.read_text(encoding="utf-8")
        for name in re.findall(r"^class (\w+)\(.*Error\b.*\):", text, re.MULTILINE):
            value = getattr(importlib.import_module(module_name(path)), name)
            if issubclass(value, fw.FusewireError):
                found[name] = value
    return found


def test_every_error_has_a_cause_and_a_remedy() -> None:
    classes = {"FusewireError", CaptureWarning.__name__, *error_classes()}
    assert len(classes) > 20
    assert classes - set(ROWS) == set()
    assert [name for name, (cause, remedy) in ROWS.items() if not (cause and remedy)] == []


@pytest.mark.parametrize("name", error_classes())
def test_the_page_names_the_classes_of_python(name: str) -> None:
    row = next(line for line in ERRORS.splitlines()
               if re.match(rf"\| `([\w.]+\.)?{name}` ", line))
    bases = re.findall(r"`(\w+)`", row.split("|")[2])
    assert bases and all(base in {c.__name__ for c in error_classes()[name].__mro__}
                         for base in bases)


def test_every_setting_and_command_is_there() -> None:
    settings, shell = (TEXTS[f"docs/reference/{name}.md"] for name in ("environment", "commands"))
    assert [k.variable for k in KNOBS.values() if f"`{k.variable}`" not in settings] == []
    assert [name for name in commands() if f"## fusewire {name}\n" not in shell] == []


def test_every_public_module_has_a_row_and_a_page() -> None:
    assert [path for path in spaces() if f"| `{path}` |" not in API] == []
    assert {f"{path}.rst" for path in spaces()} <= set(api_pages().pages())


def test_every_public_name_has_an_entry() -> None:
    made = api_pages()
    pages = made.pages()
    missing = [f"{path}.{name}" for path, module in made.modules().items()
               for name in made.names_of(module) if name not in pages[f"{path}.rst"]]
    assert missing == []


def test_plain_text_becomes_markup_without_surprises() -> None:
    as_rest = api_pages().as_rest_lines
    assert as_rest(["x * `y` and *args, loss_"]) == ["x \\* ``y`` and \\*args, loss\\_"]
    assert as_rest([">>> x * y", "a * b", "", "a * b"]) == [">>> x * y", "a * b", "", "a \\* b"]
