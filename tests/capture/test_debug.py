"""FUSEWIRE_DEBUG: each level shows more on stderr, in one form."""

from __future__ import annotations

import re
from typing import Any

import pytest

import fusewire as fw
from fusewire.capture.runtime import debug

TITLES = ["recordings", "kernels", "graphs", "sources", "passes"]


def shown(level: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> str:
    """The output at a debug level while a function is traced, compiled and traced again."""
    monkeypatch.setattr(fw.settings, "debug", level)

    @fw.compile
    def step(x: Any, flag: bool) -> Any:
        return fw.softmax(x, 0) if flag else x

    for flag in (True, True, False):
        step(fw.ones(3), flag)
    return capsys.readouterr().err


@pytest.mark.parametrize("level", range(6))
def test_each_level_shows_what_is_before_it_too(
    level: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = shown(level, monkeypatch, capsys)
    found = dict(re.findall(r"^fusewire (\d) (\w+): .+$", text, re.MULTILINE))
    assert found == {str(n): title for n, title in enumerate(TITLES[:level], 1)}


def test_recordings_name_the_condition_that_failed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert shown(1, monkeypatch, capsys).splitlines() == [
        "fusewire 1 recordings: step is recorded, 1 so far",
        "fusewire 1 recordings: step recompiles, guard failed: argument 1 is True",
        "fusewire 1 recordings: step is recorded, 2 so far",
    ]


def test_texts_can_be_copied(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
                             ) -> None:
    lines = shown(5, monkeypatch, capsys).splitlines()
    assert any(line.startswith("define ") for line in lines)  # LLVM, as it is
    assert "return v1" in lines  # a graph
    assert any(re.match(r"kernel +us +GB/s", line) for line in lines)


def test_nothing_is_made_that_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fw.settings, "debug", 1)
    debug.show(debug.GRAPHS, "a graph", lambda: pytest.fail("made for nobody"))
