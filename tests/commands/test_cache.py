"""`fusewire cache`: what is kept on disk, and gone when that is asked for."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import fusewire as fw
from fusewire.eager.settings import settings


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A folder with an entry or more, and a file of the user's."""
    before = settings.disk_mb, settings.disk_dir
    settings.disk_mb, settings.disk_dir = 64, str(tmp_path)
    function = fw.compile(lambda x: (x * 1.25).sum())
    for _ in range(2):
        function(fw.ones(3))
    (tmp_path / "letter.txt").write_text("mine")
    yield tmp_path
    settings.disk_mb, settings.disk_dir = before


def test_what_is_there(call: Any, disk: Path) -> None:
    found = call("cache", "--json").json
    sizes = [p.stat().st_size for p in disk.iterdir() if p.name != "letter.txt"]
    assert found == {"folder": str(disk), "entries": len(sizes), "bytes": sum(sizes),
                     "limit_bytes": 64 << 20, "removed": 0} and sizes
    assert f"folder  {disk}" in call("cache").out


def test_clear_removes_entries_and_nothing_else(call: Any, disk: Path) -> None:
    there = len(list(disk.iterdir())) - 1
    done = call("cache", "--clear")
    assert done.status == 0 and f"removed {there} entries" in done.out
    assert [p.name for p in disk.iterdir()] == ["letter.txt"]
    assert call("cache", "--json").json["entries"] == 0


def test_where_nothing_is_kept(call: Any, disk: Path) -> None:
    settings.disk_mb = 0
    assert "the disk cache is off: FUSEWIRE_DISK_MB=0" in call("cache", "--clear").out
    assert len(list(disk.iterdir())) > 1


def test_a_folder_that_is_not_there(call: Any, disk: Path) -> None:
    settings.disk_dir = str(disk / "none")
    assert call("cache", "--json").json["entries"] == 0
