"""Golden files: texts kept beside the tests, written anew with `pytest --update-golden`. Nothing is
kept on disk beyond a test, and random numbers are the same in every run."""

from __future__ import annotations

import gc
import itertools
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

os.environ["FUSEWIRE_DISK_MB"] = "0"  # tests compile what they test
MODULES = itertools.count(1)
ROOT = Path(__file__).resolve().parents[1]


class RootIsAFolder:
    """pytest collects the checkout as a plain folder. It would import the `__init__.py` there
    under the folder's name otherwise, which fails where that is no identifier."""

    @pytest.hookimpl(tryfirst=True)
    def pytest_collect_directory(self, path: Path, parent: pytest.Collector) -> pytest.Dir | None:
        return pytest.Dir.from_parent(parent, path=path) if path == ROOT else None


def pytest_configure(config: pytest.Config) -> None:
    # A plugin, since hooks of this file itself do not see the folder above it.
    config.pluginmanager.register(RootIsAFolder())


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


@pytest.fixture(autouse=True)
def every_run_draws_the_same_numbers() -> None:
    """Whatever ran before: a test that fails fails again."""
    import fusewire as fw

    fw.manual_seed(0)


@pytest.fixture(autouse=True, scope="module")
def what_stays_is_looked_at_once() -> None:
    """Collecting garbage takes as long as there are objects: what earlier modules left is looked
    at now and then only."""
    if next(MODULES) % 40 == 0:
        gc.unfreeze()
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True, scope="session")
def nothing_is_left_at_the_root() -> Iterator[None]:
    """Tests write to folders of their own."""
    before = _files_at_the_root()
    yield
    assert _files_at_the_root() - before == set(), "a test left files at the root of the checkout"


def _files_at_the_root() -> set[str]:
    return {path.name for path in ROOT.iterdir() if path.is_file() and path.name[0] != "."}


@pytest.fixture(autouse=True, scope="session")
def unwritten_memory_shows() -> Iterator[None]:
    """Compiled code finds nan in the memory it works in: what it reads before it wrote it shows."""
    from fusewire.codegen.control_vm import lower
    from fusewire.codegen.program import executable, prepack

    def full(size: int) -> Any:
        made = aligned(size)
        made[:] = 0xFF
        return made

    aligned = executable.aligned
    with pytest.MonkeyPatch.context() as patch:
        for module in (executable, prepack, lower):
            patch.setattr(module, "aligned", full)
        yield
