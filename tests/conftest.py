"""Golden files: texts kept beside the tests, written anew with `pytest --update-golden`. Nothing is
kept on disk beyond a test."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

os.environ["FUSEWIRE_DISK_MB"] = "0"  # tests compile what they test


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="write golden files anew")


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[..., None]:
    """golden(name, text): `text` is what golden/<name>.txt beside the test holds; or .cu, ..."""

    def check(name: str, text: str, suffix: str = "txt") -> None:
        file = Path(request.path).parent / "golden" / f"{name}.{suffix}"
        if request.config.getoption("--update-golden"):
            file.parent.mkdir(exist_ok=True)
            file.write_text(text.rstrip() + "\n", encoding="utf-8", newline="\n")
        assert file.exists(), f"{file.name} is missing: run pytest --update-golden, and read it"
        assert text.rstrip() + "\n" == file.read_text(encoding="utf-8"), \
            f"{file.name} differs: if that is meant, run pytest with --update-golden"

    return check


@pytest.fixture(autouse=True, scope="session")
def unwritten_memory_shows() -> Iterator[None]:
    """Compiled code finds nan in the memory it works in: what it reads before it wrote it shows."""
    from fusewire.codegen import executable, kept, ways

    def full(size: int) -> Any:
        made = aligned(size)
        made[:] = 0xFF
        return made

    aligned = executable.aligned
    with pytest.MonkeyPatch.context() as patch:
        for module in (executable, kept, ways):
            patch.setattr(module, "aligned", full)
        yield
