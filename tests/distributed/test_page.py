"""The programs and commands of docs/how_to/train/distributed.md run."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from house.repo import ROOT, shape_of

PAGE = (ROOT / "docs" / "how_to" / "train" / "distributed.md").read_text(encoding="utf-8")
SCRIPT, MESH, SAVE = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


def run(folder: Path, *command: str) -> str:
    """The output of a command, without its warnings."""
    done = subprocess.run([sys.executable, *command], cwd=folder, capture_output=True, text=True,
                          timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_script_learns_the_same_on_one_and_on_two_ranks(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SCRIPT, encoding="utf-8")
    (command,) = re.findall(r"^fusewire (launch .*)$", PAGE, re.MULTILINE)
    one, two = run(tmp_path, "train.py"), run(tmp_path, "-m", "fusewire", *command.split())
    assert shape_of(one) == shape_of(two) == "loss # -> #\n"
    for a, b in zip(re.findall(r"\d\.\d+", one), re.findall(r"\d\.\d+", two)):
        assert float(a) == pytest.approx(float(b), abs=0.002)  # float32


def test_the_mesh_and_the_checkpoint(tmp_path: Path) -> None:
    (tmp_path / "both.py").write_text(MESH + SAVE, encoding="utf-8")
    assert run(tmp_path, "both.py") == "[(64,), (8,), (32,), (2,)]\n[7, 7]\n"
