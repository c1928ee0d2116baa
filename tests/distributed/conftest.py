"""Lets the ranks and launches of these tests share compiled code, in a folder of this run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from fusewire.eager.settings import settings


@pytest.fixture(autouse=True, scope="module")
def code(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder of compiled code, for this process and for those that it starts."""
    folder = tmp_path_factory.getbasetemp() / "objects"
    folder.mkdir(mode=0o700, exist_ok=True)
    before = settings.disk_mb, settings.disk_dir
    settings.disk_mb, settings.disk_dir = 256, str(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FUSEWIRE_DISK_MB", "256")
        patch.setenv("FUSEWIRE_DISK_DIR", str(folder))
        yield folder
    settings.disk_mb, settings.disk_dir = before
