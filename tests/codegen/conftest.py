"""What tests of compiled code share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from fusewire.eager.settings import settings


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A folder for code and programs, empty."""
    before = settings.disk_mb, settings.disk_dir
    settings.disk_mb, settings.disk_dir = 64, str(tmp_path / "objects")
    yield tmp_path / "objects"
    settings.disk_mb, settings.disk_dir = before
