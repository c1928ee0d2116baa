"""`fusewire demo`: what it writes and tells."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import onnxruntime
import pytest

from fusewire.commands import demo


@pytest.mark.parametrize(("goal", "status"), [(0.5, 0), (1.0, 1)])
def test_for_programs(call: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, goal: float,
                      status: int) -> None:
    monkeypatch.setattr(demo, "GOAL", goal)
    done = call("demo", "--out", tmp_path / "out", "--epochs", "1", "--json")
    found = done.json
    assert done.status == status and 0.5 < found["accuracy"] < 1 and found["tested"] == 359
    assert len(found["losses"]["eager"]) == len(found["losses"]["compiled"]) > 20
    assert Path(found["report"]).read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    assert onnxruntime.InferenceSession(found["model"]).get_inputs()[0].name == "images"
    assert (tmp_path / "out" / ".gitignore").read_text(encoding="utf-8") == "*\n"
    assert ("error" in found) == ("the accuracy is below" in done.err) == bool(status)


def test_for_people(call: Any, tmp_path: Path) -> None:
    """The output has no Python notation, and the command that it proposes last works."""
    folder = tmp_path / "out"
    folder.mkdir()
    done = call("demo", "--out", folder, "--epochs", "1")
    assert "batch=2, batch=5" in done.out and "{" not in done.out
    proposed = next(line for line in done.out.splitlines() if "fusewire run" in line).split()[1:]
    assert call(*proposed).status == 0
    assert not (folder / ".gitignore").exists()  # the folder was there: it is the user's
