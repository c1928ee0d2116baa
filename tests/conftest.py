"""Sets up all tests: golden files, no disk cache, equal random numbers in every run.

`pytest --update-golden` writes golden files anew.
"""

from __future__ import annotations

import gc
import itertools
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import sampling
from _pytest.unittest import UnitTestCase

os.environ["FUSEWIRE_DISK_MB"] = "0"  # no compiled code from earlier runs
os.environ["RAY_TQDM_PATCH_PRINT"] = "0"  # else Ray, once imported, replaces `print`
os.environ["SCIPY_ARRAY_API"] = "1"  # read when a test first imports SciPy
MODULES = itertools.count(1)
ROOT = Path(__file__).resolve().parents[1]


class RootIsAFolder:
    """Makes pytest collect the checkout as a plain folder. Otherwise it would import its
    `__init__.py` under the folder's name, which fails if that is no identifier."""

    @pytest.hookimpl(tryfirst=True)
    def pytest_collect_directory(self, path: Path, parent: pytest.Collector) -> pytest.Dir | None:
        return pytest.Dir.from_parent(parent, path=path) if path == ROOT else None


def pytest_configure(config: pytest.Config) -> None:
    # A plugin, since hooks of this file itself do not see the folder above it.
    config.pluginmanager.register(RootIsAFolder())


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="write golden files anew")


def pytest_report_header() -> str:
    return (f"FUSEWIRE_TEST_SEED={sampling.SEED} chooses cases of large tests; "
            "FUSEWIRE_TEST_WHOLE=1 runs all")


@pytest.hookimpl(trylast=True)  # after -k and -m, so that few cases all run
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves a sample of the cases of each test."""
    chosen = sampling.cases_of_tests(items, _test_of)
    left_out = set(items) - set(chosen)
    config.hook.pytest_deselected(items=[item for item in items if item in left_out])
    items[:] = chosen


def _test_of(case: pytest.Item) -> str:
    """The name of the function, or of the class if it is one of `unittest`, which has no cases."""
    if isinstance(getattr(case, "parent", None), UnitTestCase):
        return case.nodeid.rpartition("::")[0]
    return case.nodeid.partition("[")[0]


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[..., None]:
    """A function golden(name, text) that compares `text` with golden/<name>.txt beside the test."""

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
    """Seeds the random numbers, so that a test that fails fails again."""
    import fusewire as fw

    fw.manual_seed(0)


@pytest.fixture(autouse=True, scope="module")
def what_stays_is_looked_at_once() -> None:
    """Freezes the objects of earlier modules, since the time of a collection grows with their
    number. They are thawed after every 40 modules."""
    if next(MODULES) % 40 == 0:
        gc.unfreeze()
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True, scope="session")
def nothing_is_left_at_the_root() -> Iterator[None]:
    """Asserts that tests leave no files at the root of the checkout."""
    before = _files_at_the_root()
    yield
    assert _files_at_the_root() - before == set(), "a test left files at the root of the checkout"


def _files_at_the_root() -> set[str]:
    return {path.name for path in ROOT.iterdir() if path.is_file() and path.name[0] != "."}


@pytest.fixture(autouse=True, scope="session")
def unwritten_memory_shows() -> Iterator[None]:
    """Fills the memory of compiled code with nan, so that a read before a write is noticed."""
    from fusewire.codegen.control_vm import native_control
    from fusewire.codegen.program import executable, prepack

    def full(size: int) -> Any:
        array = aligned(size)
        array[:] = 0xFF
        return array

    aligned = executable.aligned
    with pytest.MonkeyPatch.context() as patch:
        for module in (executable, prepack, native_control):
            patch.setattr(module, "aligned", full)
        yield
