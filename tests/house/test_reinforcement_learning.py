"""The programs of reinforcement learning learn, and their two functions are compiled whole."""

from __future__ import annotations

import importlib
import sys
from statistics import mean
from typing import Any

import pytest
from whole_compilation import compiled_whole

from house.repo import ROOT

FOLDER = ROOT / "examples" / "reinforcement_learning"
# Steps after which each plays better. `main` returns the length or the points of each episode.
FEW = {"ppo": 16_000, "dqn": 12_000, "sac": 4_000}


@pytest.fixture
def program(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    pytest.importorskip("gymnasium")
    monkeypatch.setattr(sys, "path", [str(FOLDER), *sys.path])
    return importlib.import_module(request.param)


def test_all_are_run() -> None:
    assert {path.stem for path in FOLDER.glob("*.py")} == FEW.keys()


@pytest.mark.parametrize("program", FEW, indirect=True)
def test_plays_better_in_the_end(program: Any, monkeypatch: pytest.MonkeyPatch,
                                 capsys: pytest.CaptureFixture[str]) -> None:
    made = compiled_whole(monkeypatch)
    episodes = program.main(FEW[program.__name__])
    first, last = mean(episodes[:5]), mean(episodes[-5:])
    assert last > first + abs(first) / 2
    assert len(made) == 2 and all(f.stats.replays > 100 and f.stats.fallbacks == 0 for f in made)
    assert all(f.stats.recordings <= 2 for f in made), [f.misses for f in made]


@pytest.mark.parametrize("program", ["ppo", "dqn"], indirect=True)
def test_eager_plays_the_same_game(program: Any) -> None:
    """Until rounding decides about an action: the first episodes are equal."""
    eager, compiled = (program.main(1_024, compiled=way)[:5] for way in (False, True))
    assert eager == compiled
