"""Golden files: texts kept beside the tests, written anew with `pytest --update-golden`. Nothing is
kept on disk beyond a test."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

os.environ["FUSEWIRE_DISK_MB"] = "0"  # tests compile what they test


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="write golden files anew")


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """golden(name, text): `text` is what golden/<name>.txt beside the test holds."""

    def check(name: str, text: str) -> None:
        file = Path(request.path).parent / "golden" / f"{name}.txt"
        if request.config.getoption("--update-golden"):
            file.parent.mkdir(exist_ok=True)
            file.write_text(text.rstrip() + "\n", encoding="utf-8", newline="\n")
        assert file.exists(), f"{file.name} is missing: run pytest --update-golden, and read it"
        assert text.rstrip() + "\n" == file.read_text(encoding="utf-8"), \
            f"{file.name} differs: if that is meant, run pytest with --update-golden"

    return check
