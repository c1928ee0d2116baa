"""Every package is listed in pyproject.toml, and the wheel made of them is whole."""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from house.repo import LAYERS, NOT_OURS, ROOT, files, module_name, project, sources

CHECK = "import fusewire, fusewire.commands.main; print(fusewire.__file__)"


def wanted() -> set[str]:
    """Paths inside the wheel of all modules and data files."""
    data = {path for path in files() if path.suffix != ".py"
            and (path.name == "py.typed" or path.suffix == ".pyi"
                 or path.relative_to(ROOT).parts[0] in LAYERS)}
    return {f"fusewire/{path.relative_to(ROOT).as_posix()}" for path in {*sources(), *data}}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel built from a copy of the checkout, without a network."""
    copy = tmp_path_factory.mktemp("wheel") / "source"
    skip = shutil.ignore_patterns(*NOT_OURS, ".*", "*.egg-info", "tests", "benchmarks", "docs")
    shutil.copytree(ROOT, copy, ignore=skip)
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", copy / "out"]
    done = subprocess.run(command, cwd=copy, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return next((copy / "out").glob("*.whl"))


def test_every_package_is_listed() -> None:
    found = {module_name(path) for path in sources() if path.name == "__init__.py"}
    assert sorted(project()["tool"]["setuptools"]["packages"]) == sorted(found)


def test_every_folder_with_modules_is_a_package() -> None:
    bare = {path.parent for path in sources() if not (path.parent / "__init__.py").exists()}
    assert bare == set()


def test_the_wheel_holds_every_module_and_data_file(wheel: Path) -> None:
    names = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    assert names == wanted()


def test_the_wheel_holds_the_licences_and_the_command(wheel: Path) -> None:
    archive = zipfile.ZipFile(wheel)
    info = {name.split(".dist-info/")[-1]: name for name in archive.namelist()}
    assert {"licenses/LICENSE", "licenses/export/demo/ATTRIBUTION.md"} <= set(info)
    assert b"fusewire = fusewire.commands.main:main" in archive.read(info["entry_points.txt"])


def test_the_unpacked_wheel_imports(wheel: Path, tmp_path: Path) -> None:
    zipfile.ZipFile(wheel).extractall(tmp_path)
    done = subprocess.run([sys.executable, "-c", CHECK], cwd=tmp_path, capture_output=True,
                          text=True, check=True)
    assert Path(done.stdout.strip()).is_relative_to(tmp_path)


def test_no_init_in_tests_and_no_conftest_at_the_root() -> None:
    # Either would make pytest import the checkout a second time, under its folder's name.
    assert [p for p in (ROOT / "tests").rglob("__init__.py")] == []
    assert not (ROOT / "conftest.py").exists()
