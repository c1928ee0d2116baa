"""The notebook of docs/how_to runs, and shows what the page says."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from house.repo import ROOT

NOTEBOOK = ROOT / "docs" / "how_to" / "notebook.ipynb"


@pytest.fixture(scope="module")
def outputs(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """All outputs of the notebook, after a run by nbmake."""
    folder = tmp_path_factory.mktemp("notebook")
    path = Path(shutil.copy(NOTEBOOK, folder))
    (folder / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
    options = ["-q", "-p", "no:cacheprovider", "--nbmake", "--overwrite", "--nbmake-timeout=120"]
    done = subprocess.run([sys.executable, "-m", "pytest", *options, path.name], cwd=folder,
                          capture_output=True, text=True, timeout=240, stdin=subprocess.DEVNULL)
    assert done.returncode == 0, done.stdout + done.stderr
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return [output for cell in cells for output in cell.get("outputs", ())]


def _shown(outputs: list[dict[str, Any]]) -> str:
    return "\n".join("".join(output.get("data", {}).get("text/html", "")) for output in outputs)


def test_values_are_shown_as_html(outputs: list[dict[str, Any]]) -> None:
    html = _shown(outputs)
    assert "<b>shape</b>&nbsp;(1024, 2)" in html  # a tensor
    assert "Sequential" in html and "4,482 parameters" in html  # a module
    assert "accuracy: 1 recording" in html  # explain


def test_progress_is_one_output_that_each_epoch_updates(outputs: list[dict[str, Any]]) -> None:
    shown = [o for o in outputs if o["output_type"] == "display_data"]
    (progress,) = (o for o in shown if "fw-history" in "".join(o["data"]["text/html"]))
    assert "".join(progress["data"]["text/html"]).count("<tr>") == 1 + 5  # the head and the epochs


def test_no_cell_has_stored_outputs() -> None:
    cells = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    assert [cell["outputs"] for cell in cells if cell["cell_type"] == "code" and cell["outputs"]] \
        == []
