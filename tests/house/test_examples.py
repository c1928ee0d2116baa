"""The examples run, learn, and give the same compiled as eagerly."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path
from statistics import mean
from typing import Any

import pytest

from house.repo import ROOT

FOLDER = ROOT / "examples"
# How much of each is run. `main` returns what should fall: losses, or a distance from the goal.
FEW: dict[str, dict[str, int]] = {
    "char_lm": {"steps": 40}, "detection": {"steps": 40}, "diffusion": {"steps": 60},
    "digits": {"epochs": 3}, "distillation": {"epochs": 40}, "fine_tune": {"steps": 25},
    "gan": {"steps": 300}, "graph_network": {"steps": 60}, "hamiltonian": {"samples": 200},
    "neural_ode": {"steps": 30}, "physics_informed": {"steps": 300},
    "policy_gradient": {"rounds": 12}, "style_transfer": {"steps": 20}, "time_series": {"steps": 2},
    "unequal_lengths": {"steps": 60}, "vae": {"steps": 60},
}
RISES = {"policy_gradient"}  # how long the pole stands


def run(name: str, **options: Any) -> list[float]:
    numbers = importlib.import_module(name).main(**options)
    return [-n for n in numbers] if name in RISES else numbers


def test_all_are_run() -> None:
    assert {path.stem for path in FOLDER.glob("*.py")} == FEW.keys()


@pytest.mark.parametrize("name", FEW)
def test_learns_eagerly_and_compiled(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    eager, compiled = (run(name, **FEW[name], compiled=way) for way in (False, True))
    some = max(len(eager) // 8, 1)
    for numbers in (eager, compiled):
        first, last = mean(numbers[:some]), mean(numbers[-some:])
        assert last < first - 0.2 * abs(first)
    # The first of digits is the mean of an epoch, in which rounding grows from step to step.
    assert compiled[0] == pytest.approx(eager[0], rel=1e-3)
    assert capsys.readouterr().out


def test_digits_go_on_where_they_were(tmp_path: Path) -> None:
    whole = run("digits", epochs=2, compiled=False)
    file = tmp_path / "digits.safetensors"
    parts = [*run("digits", epochs=1, checkpoint=file, compiled=False),
             *run("digits", epochs=2, checkpoint=file, compiled=False)]
    assert parts == whole


def test_from_the_command_line() -> None:
    done = subprocess.run([sys.executable, FOLDER / "vae.py", "--steps", "3", "--eager"],
                          capture_output=True, text=True, check=False)
    assert done.returncode == 0 and done.stdout.startswith("step 0: loss ")
