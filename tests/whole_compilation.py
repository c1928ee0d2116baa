"""Makes a graph break an error in programs that call `fw.compile` themselves."""

from __future__ import annotations

from typing import Any

import pytest

import fusewire as fw


def compiled_whole(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """A list that gets each function that is compiled from now on, with fullgraph=True."""
    made: list[Any] = []

    def whole(fn: Any) -> Any:
        made.append(original(fn, fullgraph=True))
        return made[-1]

    original = fw.compile
    monkeypatch.setattr(fw, "compile", whole)
    return made
