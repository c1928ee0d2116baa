"""The ops that PyTorch tests, and fusewire's names of them, or why they are absent."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType

from inputs import path
from torch.testing._internal.common_methods_invocations import op_db

import fusewire as fw


def tables() -> list[ModuleType]:
    """The modules that hold the rows: SPELLED, ABSENT and perhaps NOTES, by names of `op_db`."""
    files = sorted(Path(__file__).parent.glob("op_db_*.py"))
    return [importlib.import_module(f"parity.{file.stem}") for file in files]


SPELLED: dict[str, str] = {}
ABSENT: dict[str, str] = {}
NOTES: dict[str, str] = {}
for _table in tables():
    SPELLED.update(_table.SPELLED)
    ABSENT.update(_table.ABSENT)
    NOTES.update(getattr(_table, "NOTES", {}))
OPS = sorted({op.name for op in op_db}, key=lambda name: (name.count("."), name.lower(), name))


def exists(name: str) -> bool:
    """True if fusewire has that name."""
    try:
        return path(fw, name) is not None
    except AttributeError:
        return False
