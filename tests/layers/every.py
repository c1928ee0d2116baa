"""All rows of the table of layers: those of every file of this folder."""

from __future__ import annotations

import importlib
from pathlib import Path

from layers.row import LAYERS, Layer

for _file in sorted(Path(__file__).parent.glob("*.py")):
    if _file.stem not in ("every", "row"):
        importlib.import_module(f"layers.{_file.stem}")

__all__ = ["LAYERS", "Layer"]
