"""docs/reference/commands.md shows the help of every command; `--update-golden` writes it anew."""

from __future__ import annotations

from typing import Any

import pytest

from fusewire.commands.main import commands
from house.repo import ROOT

PAGE = ROOT / "docs/reference/commands.md"
BEGIN = "## fusewire\n"  # of what is made here


def test_the_page_shows_all_help(call: Any, monkeypatch: pytest.MonkeyPatch,
                                 request: pytest.FixtureRequest) -> None:
    monkeypatch.setenv("COLUMNS", "102")
    parts = {"fusewire": call("--help").out}
    parts |= {f"fusewire {name}": call(name, "--help").out for name in commands()}
    made = "\n".join(f"## {title}\n```\n{text}```\n" for title, text in parts.items())
    text = PAGE.read_text(encoding="utf-8")
    if request.config.getoption("--update-golden"):
        PAGE.write_text(text.split(BEGIN)[0] + made, encoding="utf-8", newline="\n")
    shown = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    assert "".join(shown[1:]) == made, "run pytest --update-golden, and read the page"
